"""Variants that differ in one quantity, such as `half-life 10 s` and `half-life 20 s`."""

import re
from collections.abc import Mapping
from typing import NamedTuple

LEAST = 3
"""The smallest number of values."""

_LABEL = re.compile(r"\D*?(\d+(?:\.\d+)?)\D*")


class Sweep(NamedTuple):
    """Variants that differ in one quantity."""

    quantity: str
    """The label of the axis, which is the label of a variant without the number."""
    values: dict[str, float]
    """The quantity of each of these variants."""
    others: dict[str, str]
    """Names and labels of the other variants."""


def find(variants: Mapping[str, str]) -> Sweep | None:
    """The quantity in labels such as `half-life 10 s` and `half-life 20 s`, if there is one.

    If there are several, this is the one with the most variants.
    """
    return next(iter(find_all(variants)), None)


def find_all(variants: Mapping[str, str]) -> list[Sweep]:
    """Every quantity in labels, the one with the most variants first. `others` are the variants without any of them."""
    alike: dict[str, dict[str, float]] = {}
    for name, label in variants.items():
        match = _LABEL.fullmatch(label)
        if match:
            before, after = label[: match.start(1)].strip(" =:"), label[match.end(1) :].strip()
            quantity = f"{before} [{after}]" if before and after else before or after
            alike.setdefault(quantity, {})[name] = float(match[1])
    found = {quantity: values for quantity, values in alike.items() if len(set(values.values())) >= LEAST}
    inside = {name for values in found.values() for name in values}
    others = {name: label for name, label in variants.items() if name not in inside}
    return [
        Sweep(quantity, dict(sorted(values.items(), key=lambda each: each[1])), others)
        for quantity, values in sorted(found.items(), key=lambda each: -len(each[1]))
    ]
