"""The grid of a sweep: keys of a scenario with their values, and every combination of these values."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Self

from penstock.errors import ScenarioError
from penstock.result import Result

_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "\"'"

_NAMED = ("relays", "clients", "servers", "workloads")
"""Sections with a table for each name."""

_COLUMNS = {"variant", "workload", "seeds", "units", "downloads", "ttfb", "ttlb"}
"""Column names that are already used."""


@dataclass(frozen=True)
class Axis:
    """A key and its values, or several keys that share each value."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    """The values as typed."""

    @property
    def typed(self) -> str:
        """The argument of `--param` that gives this axis."""
        return f"{'+'.join(self.keys)}={','.join(self.values)}"


class Point(NamedTuple):
    """A variant of the file at one point of the grid."""

    variant: str
    """The name of the point in tables."""
    of: str
    """The variant of the file; empty if there is only one."""
    values: tuple[str, ...]
    """The value of each axis at this point."""


@dataclass(frozen=True)
class Grid:
    """All combinations of the values of some keys."""

    axes: tuple[Axis, ...]
    only: tuple[str, ...] = ()
    """The variants to sweep; empty for all."""

    @classmethod
    def of(cls, params: Sequence[str], only: Sequence[str] = ()) -> Self:
        """The grid of `--param` arguments such as `key=value,value` or `key+key=value,value`."""
        axes = tuple(_axis(param) for param in params)
        if not axes:
            raise ScenarioError("a sweep needs at least one --param KEY=VALUE,VALUE")
        keys = [key for axis in axes for key in axis.keys]
        for key in keys:
            if keys.count(key) > 1:
                raise ScenarioError(f"--param {key} is given twice; give all values at once, like {key}=1,2")
        return cls(axes, tuple(dict.fromkeys(only)))

    @property
    def names(self) -> list[str]:
        """The name of each axis: the end of its first key, or the whole key if the end is not unique."""
        ends = [_short(axis.keys[0]) for axis in self.axes]
        count = Counter(ends)
        taken = [end in _COLUMNS or count[end] > 1 for end in ends]
        return [axis.keys[0] if long else end for axis, end, long in zip(self.axes, ends, taken, strict=True)]

    def places(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The name and the values of every combination. The values of the last axis change fastest."""
        for values in product(*(axis.values for axis in self.axes)):
            yield ", ".join(f"{name}={value}" for name, value in zip(self.names, values, strict=True)), values

    def sets(self) -> list[tuple[str, list[str]]]:
        """The name and the `key=value` overrides of every combination, for `Document.sweep`."""
        return [
            (name, [f"{key}={value}" for axis, value in zip(self.axes, at, strict=True) for key in axis.keys])
            for name, at in self.places()
        ]

    def points(self, variants: Sequence[str]) -> list[Point]:
        """The points of the variants of the swept document, in the document's order."""
        places = list(self.places())
        each = len(variants) // len(places)
        names = [(variants[i], *places[i // each]) for i in range(len(variants))]
        return [Point(name, name.removesuffix(place).removesuffix(", "), at) for name, place, at in names]

    def describe(self) -> dict[str, Any]:
        """The grid for the manifest."""
        return {"params": [axis.typed for axis in self.axes], "variants": list(self.only)}


def of(result: Result) -> Grid | None:
    """The grid of an output directory; None without a sweep."""
    swept = result.manifest.get("sweep")
    return Grid.of(swept["params"], swept["variants"]) if swept else None


def _short(key: str) -> str:
    """`n2` for `relay.hop_control.n2`, and `middle.link` for `relays.middle.link`."""
    section, _, rest = key.partition(".")
    whose, named, _ = rest.partition(".")
    end = key.rpartition(".")[2]
    return f"{whose}.{end}" if section in _NAMED and named else end


def _axis(param: str) -> Axis:
    key, equals, text = param.partition("=")
    keys = tuple(each.strip() for each in key.split("+"))
    if not equals or not all(keys):
        raise ScenarioError(f"--param {param}: it must be key=value,value, like network.rtt=40 ms,80 ms")
    if "run.seeds" in keys:
        raise ScenarioError("--param run.seeds: every point uses the same seeds; use --seed and --runs")
    values = tuple(split(text))
    if not all(values):
        raise ScenarioError(f"--param {param}: a value is missing; separate values by commas, like {keys[0]}=1,2")
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise ScenarioError(f"--param {param}: the value {twice[0]} is given twice")
    return Axis(keys, values)


def split(text: str) -> list[str]:
    """The pieces between commas outside of brackets and quotes."""
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in _QUOTES:
            quote = letter
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0 and not quote:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]
