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
    """The quantity in labels such as `half-life 10 s` and `half-life 20 s`, if there is one."""
    alike: dict[str, dict[str, float]] = {}
    for name, label in variants.items():
        match = _LABEL.fullmatch(label)
        if match:
            before, after = label[: match.start(1)].strip(" ="), label[match.end(1) :].strip()
            quantity = f"{before} [{after}]" if before and after else before or after
            alike.setdefault(quantity, {})[name] = float(match[1])
    quantity = max(alike, key=lambda each: len(alike[each]), default="")
    if len(set(alike.get(quantity, {}).values())) < LEAST:
        return None
    values = dict(sorted(alike[quantity].items(), key=lambda each: each[1]))
    return Sweep(quantity, values, {name: label for name, label in variants.items() if name not in values})
