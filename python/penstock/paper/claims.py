"""The claims file of a paper: what it says, in words of our own, and what of our tables decides whether that holds.

It lies beside the paper's scenarios as `claims.toml` and is no scenario. docs/reference/claims.md explains its keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import catalog
from penstock.errors import PenstockError, naming
from penstock.paper.measures import EVERYWHERE, MEASURES, SHARE, STATISTICS

COMPARES = {
    "value": 1,
    "difference": 2,
    "ratio": 2,
    "change": 2,
    "gain": 3,
    "ratio-change": 4,
    "mean-ratio": 6,
    "ks": 2,
    "quantiles-below": 2,
}
"""How a claim makes one number of its sides, and how many sides that takes."""

OF_SAMPLES = ("ks", "quantiles-below")
"""Those of all that a run measured, and not of one number for each side."""

DIRECTIONS = ("above", "below")
"""Of a difference or change: on which side of zero it lies."""

MEAN, INTERVAL, EVERY_SEED = "mean", "interval", "every-seed"
DECIDERS = (MEAN, INTERVAL, EVERY_SEED)
"""What has to keep the bounds: the mean (a quantity), its interval (an order, an equality), each seed (a property)."""

NETWORK = "network"
"""What a claim `needs` that only a whole network can show."""


@dataclass(frozen=True)
class Gate:
    """What the measured number has to be: within bounds, or on one side of zero."""

    by: str
    """What of the measurement has to keep it: one of `DECIDERS`."""
    at_least: float | None = None
    at_most: float | None = None
    direction: str | None = None

    def keeps(self, number: float) -> bool:
        """Whether a number is what it has to be. A bound itself is, zero is on neither side of itself."""
        if self.direction:
            return number > 0 if self.direction == "above" else number < 0
        return (self.at_least is None or number >= self.at_least) and (self.at_most is None or number <= self.at_most)

    def excludes(self, low: float, high: float) -> bool:
        """Whether nothing between two numbers is what it has to be."""
        if self.direction:
            return not self.keeps(high if self.direction == "above" else low)
        return (self.at_least is not None and high < self.at_least) or (self.at_most is not None and low > self.at_most)


@dataclass(frozen=True)
class Side:
    """One of the things that a claim compares."""

    variants: tuple[str, ...]
    """One variant; of several, the one with the smallest number is meant."""
    workload: str
    statistic: str
    """How a run's many values become one number."""
    scenario: str
    """Name of a file beside the claims, without its end."""


@dataclass(frozen=True)
class Claim:
    """Something that a paper says."""

    id: str
    says: str
    section: str
    figure: str = ""
    sides: tuple[Side, ...] = ()
    measure: str = ""
    hop: str = ""
    above: float = 0.0
    """What the statistic `share-above` counts from, in the measure's unit."""
    compare: str = "value"
    gate: Gate | None = None
    why: str = ""
    """Why nothing is gated, or what a claim waits for that cannot be checked yet."""
    needs: str = ""

    @property
    def variants(self) -> list[str]:
        """Every variant that takes part, each once."""
        return list(dict.fromkeys(name for side in self.sides for name in side.variants))

    @property
    def scenarios(self) -> list[str]:
        """Every scenario that takes part, each once, the first side's first."""
        return list(dict.fromkeys(side.scenario for side in self.sides))

    def variants_in(self, scenario: str) -> set[str]:
        """The variants that take part in one of them."""
        return {name for side in self.sides if side.scenario == scenario for name in side.variants}

    @property
    def is_share(self) -> bool:
        """Whether its numbers are fractions of a sample."""
        return any(side.statistic == SHARE for side in self.sides)

    def is_of(self, figure: str) -> bool:
        """Whether it is about `figure`: `5` means all of 5a to 5d."""
        return figure in (self.figure, self.figure.rstrip("abcdefgh"))


@dataclass(frozen=True)
class Claims:
    """All that is in one file."""

    folder: Path
    paper: str
    title: str
    claims: tuple[Claim, ...]
    scales: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each scenario that --scale can scale, what there is to scale: `downloads`, `duration_s`."""

    def scenario(self, name: str) -> str:
        """What a scenario of the file is called on the command line."""
        shelf = catalog.SHIPPED.resolve()
        path = self.folder.resolve() / f"{name}.toml"
        return path.relative_to(shelf).with_suffix("").as_posix() if path.is_relative_to(shelf) else str(path)

    def has(self, scenario: str) -> bool:
        """Whether the scenario is there already."""
        return (self.folder / f"{scenario}.toml").is_file()

    def of(self, figure: str | None) -> list[Claim]:
        """The claims about one figure; all of them if none is named."""
        if figure is None:
            return list(self.claims)
        chosen = [claim for claim in self.claims if claim.is_of(figure)]
        if not chosen:
            known = dict.fromkeys(claim.figure for claim in self.claims if claim.figure)
            raise PenstockError(f"--figure is {figure}; {self.paper} has claims about figures {', '.join(known)}")
        return chosen


def load(name: str) -> Claims:
    """The claims of a shipped paper, or those in a folder of the user's."""
    folder = Path(name)
    with naming(folder, "read"):
        own = (folder / catalog.CLAIMS).is_file()
    if not own:
        papers = catalog.papers()
        if name not in papers:
            hint = ", ".join(papers)
            raise PenstockError(f"there is no paper {name!r}; there are {hint}, and any folder with a {catalog.CLAIMS}")
        folder = catalog.SHIPPED / name
    path = folder / catalog.CLAIMS
    with naming(path, "read"):
        data = path.read_bytes()
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PenstockError(f"{path} is not TOML: {error}") from error
    return _Reader(path).claims(folder, document)


class _Reader:
    """Turns tables into claims, and mistakes into a sentence that names file, claim and key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._where = ""

    def claims(self, folder: Path, document: dict[str, Any]) -> Claims:
        self._only(document, {"paper", "title", "claims", "scale"})
        entries = document.get("claims", [])
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            raise self._wrong("claims", "are missing: one [[claims]] for each thing that the paper says")
        claims = tuple(self._claim(entry) for entry in entries)
        ids = [claim.id for claim in claims]
        for twice in sorted({each for each in ids if ids.count(each) > 1}):
            raise self._wrong("id", f"is {twice} twice; every claim has one of its own")
        self._where = ""
        scales = self._table(document, "scale")
        for scenario, what in scales.items():
            whole = isinstance(what, dict) and all(isinstance(n, int) and n > 0 for n in what.values())
            if not whole or not set(what) <= {"downloads", "duration_s"}:
                raise self._wrong(f"scale.{scenario}", "takes downloads and duration_s, whole numbers from 1")
        return Claims(folder, self._text(document, "paper"), self._text(document, "title"), claims, scales)

    def _claim(self, entry: dict[str, Any]) -> Claim:
        self._where = ""
        self._where = f"claim {self._text(entry, 'id')}: "
        known = {"id", "says", "section", "figure", "scenario", "variants", "workload", "measure", "hop"}
        self._only(entry, known | {"statistic", "above", "compare", "gate", "why", "needs"})
        common: dict[str, Any] = {key: self._text(entry, key) for key in ("id", "says", "section")}
        common |= {key: self._text(entry, key, "") for key in ("figure", "why", "needs")}
        if common["needs"]:
            return Claim(**common)
        if not entry.get("scenario"):
            raise self._wrong("scenario", "is missing: the name of a file beside this one, without .toml")
        compare = self._one_of(entry, "compare", COMPARES, "value")
        measure = self._one_of(entry, "measure", MEASURES)
        gate = self._gate(entry.get("gate"), compare)
        if gate is None and not common["why"]:
            raise self._wrong("why", "is missing: a claim that is not gated says why")
        hop = self._text(entry, "hop", "")
        if (MEASURES[measure].table not in EVERYWHERE) != bool(hop):
            raise self._wrong("hop", "goes with what is measured at a hop, and with nothing else")
        sides = self._sides(entry, COMPARES[compare], needs_statistic=compare not in OF_SAMPLES)
        if ("above" in entry) != any(side.statistic == SHARE for side in sides):
            raise self._wrong("above", f"goes with the statistic {SHARE}, and with no other")
        return Claim(**common, sides=sides, measure=measure, hop=hop,
                     above=self._number(entry, "above", 0.0), compare=compare, gate=gate)  # fmt: skip

    def _sides(self, entry: dict[str, Any], count: int, *, needs_statistic: bool) -> tuple[Side, ...]:
        """Variants, workloads and statistics side by side; one of a kind stands for all sides."""
        groups = [[each] if isinstance(each, str) else each for each in self._each(entry, "variants", count)]
        if not all(isinstance(group, list) and group and all(isinstance(x, str) for x in group) for group in groups):
            raise self._wrong("variants", "takes names, or lists of names of which the best is meant")
        workloads = self._each(entry, "workload", count)
        if not all(isinstance(name, str) for name in workloads):
            raise self._wrong("workload", "takes names")
        scenarios = self._each(entry, "scenario", count)
        if not all(isinstance(name, str) for name in scenarios):
            raise self._wrong("scenario", "takes names")
        statistics = self._each(entry, "statistic", count) if needs_statistic else [""] * count
        if needs_statistic and not all(statistic in STATISTICS for statistic in statistics):
            raise self._wrong("statistic", f"takes {', '.join(STATISTICS)}")
        several = zip(groups, workloads, statistics, scenarios, strict=True)
        sides = tuple(Side(tuple(group), *of) for group, *of in several)
        if len(set(sides)) != count:
            raise self._wrong("variants", "compares something with itself")
        return sides

    def _each(self, entry: dict[str, Any], key: str, count: int) -> list[Any]:
        """One value for each side."""
        given = entry.get(key)
        values = [given] if isinstance(given, str) else given
        if not isinstance(values, list) or len(values) not in (1, count):
            several = f", or {count}: one for each side that is compared" if count > 1 else ""
            raise self._wrong(key, f"takes one{several}")
        return values * count if len(values) == 1 else values

    def _gate(self, given: object, compare: str) -> Gate | None:
        if given is False:
            return None
        if not isinstance(given, dict):
            raise self._wrong("gate", "is missing: bounds, a direction, or false with the reason in `why`")
        self._only(given, {"at_least", "at_most", "by", "direction"}, "gate.")
        bounds = {key: self._number(given, key) for key in ("at_least", "at_most") if key in given}
        if ("direction" in given) == bool(bounds):
            raise self._wrong("gate", "takes either a direction, or at_least and at_most, of which one is enough")
        if compare == "ks":
            raise self._wrong("gate", "is false for ks: downloads of one run are not independent of each other")
        if bounds:
            if bounds.get("at_least", float("-inf")) > bounds.get("at_most", float("inf")):
                raise self._wrong("gate", "has at_least above at_most")
            if "by" not in given:
                raise self._wrong("gate.by", f"is missing: what keeps the bounds, one of {', '.join(DECIDERS)}")
            by = self._one_of(given, "by", DECIDERS, prefix="gate.")
            return Gate(by, bounds.get("at_least"), bounds.get("at_most"))
        if compare not in ("difference", "change", "ratio-change"):
            raise self._wrong("gate.direction", "is that of a difference or change")
        if "by" in given:
            raise self._wrong("gate.by", "goes with bounds: a direction is shown by the interval")
        return Gate(INTERVAL, direction=self._one_of(given, "direction", DIRECTIONS, prefix="gate."))

    def _text(self, table: dict[str, Any], key: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or (default is None and not value):
            raise self._wrong(key, "is missing, or no text")
        return value

    def _number(self, table: dict[str, Any], key: str, default: float | None = None) -> float:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "is no number")
        return float(value)

    def _table(self, table: dict[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "is no table")
        return value

    def _one_of(self, table: dict[str, Any], key: str, known: Any, default: str | None = None, prefix: str = "") -> str:
        value = self._text(table, key, default)
        if value not in known:
            raise self._wrong(f"{prefix}{key}", f"is {value!r}; it takes one of {', '.join(known)}")
        return value

    def _only(self, table: dict[str, Any], known: set[str], prefix: str = "") -> None:
        for key in table:
            if key not in known:
                raise self._wrong(f"{prefix}{key}", f"is unknown; there are {', '.join(sorted(known))}")

    def _wrong(self, key: str, what: str) -> PenstockError:
        return PenstockError(f"{self._path}: {self._where}{key} {what}")
