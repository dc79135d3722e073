"""Whether a claim holds: one number for each seed, their mean with its interval, and the claim's gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

import polars as pl

from penstock import stats
from penstock.paper.claims import NETWORK, Claim, Gate, Side
from penstock.paper.measures import MEASURES, PAIR, each_seed, sample
from penstock.result import Result

HOLDS = "holds"
FAILS = "fails"
NOT_GATED = "not gated"
UNDECIDED = "undecided"
NOT_YET = "not yet"
NEEDS_NETWORK = "needs the network"


@dataclass(frozen=True)
class Judged:
    """A claim with what was measured and what follows."""

    claim: Claim
    verdict: str
    reason: str = ""
    """Why it is not gated, not decided, or not there yet."""
    measured: float = nan
    """The mean of the seeds' numbers; of `ks`, the distance of the pooled downloads."""
    low: float = nan
    high: float = nan
    """The 95 % t interval of that mean; NaN if there is none."""
    seeds: tuple[float, ...] = ()
    """The number of each seed, or of each pair of runs."""
    evidence: tuple[str, ...] = ()
    """Tables and figures, from the paper's directory."""

    @property
    def n(self) -> int:
        """Seeds, or pairs of runs of one seed."""
        return len(self.seeds)

    @property
    def missed(self) -> bool:
        """Whether it is gated, could be checked, and was not shown to hold."""
        return self.verdict in (FAILS, UNDECIDED)


def cannot_be_judged(claim: Claim, *, there: bool) -> Judged | None:
    """The verdict on a claim that no run can decide today; none if one can."""
    if claim.needs == NETWORK:
        return Judged(claim, NEEDS_NETWORK, claim.why)
    if claim.needs:
        return Judged(claim, NOT_YET, f"needs {claim.needs}")
    if not there:
        return Judged(claim, NOT_YET, f"there is no scenario {claim.scenario} yet")
    return None


def judge(claim: Claim, result: Result) -> Judged:
    """Measure a claim in an output of its scenario."""
    if claim.compare == "ks":
        return _distance(claim, result)
    sides = _together([_side(claim, side, result) for side in claim.sides])
    if sides.is_empty():
        return Judged(claim, *_without_numbers(claim))
    columns = [sides[f"side{i}"].to_list() for i in range(len(claim.sides))]
    numbers = [_number(claim.compare, row) for row in zip(*columns, strict=True)]
    if not all(map(isfinite, numbers)):
        return Judged(claim, *_without_numbers(claim, "a seed divides by zero"))
    mean, low, high = stats.mean_interval(numbers)
    measured = Judged(claim, NOT_GATED, claim.why, mean, low, high, tuple(numbers))
    if claim.gate is None:
        return measured
    relative = nan
    if claim.gate.direction:
        base = stats.mean(columns[1])
        relative = mean if claim.compare == "change" else mean / base if base else nan
    verdict, reason = _verdict(claim.gate, measured, relative)
    return Judged(claim, verdict, reason, mean, low, high, tuple(numbers))


def _verdict(gate: Gate, measured: Judged, relative: float) -> tuple[str, str]:
    if gate.direction is None:
        numbers = measured.seeds if gate.every_seed else (measured.measured,)
        return (HOLDS if all(_within(gate, number) for number in numbers) else FAILS), ""
    if measured.n < 2:
        return UNDECIDED, "one seed gives no interval"
    shown = {"above": measured.low > 0, "below": measured.high < 0}
    shown |= {"not-above": not shown["above"], "not-below": not shown["below"]}
    equal = gate.slack > 0 and abs(relative) <= gate.slack
    return (HOLDS if shown[gate.direction] or equal else FAILS), ""


def _within(gate: Gate, number: float) -> bool:
    return (gate.at_least is None or number >= gate.at_least) and (gate.at_most is None or number <= gate.at_most)


def _number(compare: str, sides: Sequence[float]) -> float:
    """One number of a seed's two or three; NaN where it would divide by zero."""
    if compare == "value":
        return sides[0]
    a, b, *rest = sides
    if compare == "difference":
        return a - b
    over, under = {"ratio": (a, b), "change": (a - b, b), "gain": (b - a, b - rest[0] if rest else 0.0)}[compare]
    return over / under if under else nan


def _side(claim: Claim, side: Side, result: Result) -> pl.DataFrame:
    """The numbers of one side; of several variants those of the best, the smallest on average over the seeds."""
    found = []
    for variant in side.variants:
        values = sample(result, claim.measure, variant, side.workload, claim.hop)
        found.append(each_seed(values, side.statistic, claim.above))
    if any(each.is_empty() for each in found):
        return found[0].clear()
    return min(found, key=lambda numbers: stats.mean(numbers["value"].to_list()))


def _together(sides: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The seeds that all sides have: columns `side0`, `side1` and so on."""
    joined = sides[0].rename({"value": "side0"})
    for i, side in enumerate(sides[1:], start=1):
        joined = joined.join(side.rename({"value": f"side{i}"}), on=PAIR)
    return joined.sort(PAIR)


def _distance(claim: Claim, result: Result) -> Judged:
    """The Kolmogorov-Smirnov distance of pooled samples, which has no interval."""
    samples = [sample(result, claim.measure, side.variants[0], side.workload, claim.hop) for side in claim.sides]
    distance = stats.ks_distance(*(each["value"].to_numpy() for each in samples))
    if not isfinite(distance):
        return Judged(claim, *_without_numbers(claim))
    verdict = NOT_GATED if claim.gate is None else HOLDS if _within(claim.gate, distance) else FAILS
    return Judged(claim, verdict, claim.why, distance, seeds=(distance,))


def _without_numbers(claim: Claim, reason: str = "no whole download, or no trace") -> tuple[str, str]:
    return (NOT_GATED, claim.why) if claim.gate is None else (UNDECIDED, reason)


def unit_of(claim: Claim) -> str:
    """The unit of what was measured: that of the measure, or none of what is divided."""
    plain = claim.compare in ("value", "difference") and not claim.is_share
    return MEASURES[claim.measure].unit if claim.measure and plain else ""
