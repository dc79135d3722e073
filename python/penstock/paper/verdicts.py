"""Decides claims: one number for each seed or network, their mean with its interval, and the claim's gate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import polars as pl

from penstock import stats
from penstock.paper.claims import EVERY_SEED, MEAN, NETWORK, OF_SAMPLES, Claim, Gate, Side
from penstock.paper.measures import MEASURES, each_run, sample
from penstock.replicates import MIN_REPLICATES, RUN, RUN_SCHEMA, Replicates
from penstock.result import Result

HOLDS = "holds"
FAILS = "fails"
NOT_GATED = "not gated"
UNDECIDED = "undecided"
NOT_YET = "not yet"
NEEDS_NETWORK = "needs the network"

FEWEST = 2
"""The minimum number of seeds or networks that can show an exact bound. Other verdicts need MIN_REPLICATES."""


@dataclass(frozen=True)
class Checked:
    """A claim with its measurement and verdict."""

    claim: Claim
    verdict: str
    reason: str = ""
    """Reasons for the verdict, and missing numbers."""
    measured: float = nan
    """The mean of the numbers."""
    low: float = nan
    high: float = nan
    """Both ends of the 95 % t interval of `measured`; NaN without an interval."""
    seeds: tuple[float, ...] = ()
    """The number of each seed or pair of runs; with several networks, of each network."""
    replicates: str = "seeds"
    """The kind of the replicates: `seeds` or `networks`."""
    evidence: tuple[str, ...] = ()
    """Paths of tables and figures, relative to the paper's directory."""

    @property
    def n(self) -> int:
        """The number of seeds, pairs of runs, or networks."""
        return len(self.seeds)

    @property
    def missed(self) -> bool:
        """Whether the claim failed or stayed undecided."""
        return self.verdict in (FAILS, UNDECIDED)


def undecidable(claim: Claim, has: Callable[[str], bool]) -> Checked | None:
    """The verdict on a claim that no run can decide; None if a run can decide the claim."""
    if claim.needs == NETWORK:
        return Checked(claim, NEEDS_NETWORK, claim.why)
    if claim.needs:
        return Checked(claim, NOT_YET, f"needs {claim.needs}")
    for scenario in claim.scenarios:
        if not has(scenario):
            return Checked(claim, NOT_YET, f"there is no scenario {scenario} yet")
    return None


def decide(claim: Claim, results: Mapping[str, Result]) -> Checked:
    """Measure a claim in the outputs of its scenarios."""
    runs, replicates, lacking = _runs(claim, results)
    if runs.is_empty():
        return Checked(
            claim, *_undecided(claim, "there is no complete download, no trace, or no complete epoch", *lacking)
        )
    of_runs, numbers, remark = _measured(claim, runs, replicates)
    every = claim.gate is not None and claim.gate.by == EVERY_SEED
    if not all(map(isfinite, of_runs if every else numbers)):
        return Checked(
            claim, *_undecided(claim, "the comparison divides by zero, or the mean of b - c is not positive", *lacking)
        )
    if claim.gate is None:
        return _checked(claim, NOT_GATED, (claim.why, remark, *lacking), numbers, replicates)
    verdict, reason = _verdict(claim.gate, numbers, of_runs, replicates, whole=not lacking)
    if claim.compare == "gain" and remark:
        verdict, reason = UNDECIDED, remark
    alone = "all seeds use one network, so the result applies to this network only" if replicates.of_one_network else ""
    return _checked(claim, verdict, (reason, *lacking, alone, claim.why), numbers, replicates)


def _checked(
    claim: Claim, verdict: str, reasons: Sequence[str], numbers: Sequence[float], replicates: Replicates
) -> Checked:
    mean, low, high = stats.mean_interval(numbers)
    return Checked(claim, verdict, _joined(*reasons), mean, low, high, tuple(numbers), replicates.name(2))


def _measured(claim: Claim, runs: pl.DataFrame, replicates: Replicates) -> tuple[list[float], list[float], str]:
    """The number of each run and of each replicate, and a remark.

    Numbers are averaged over the runs of a replicate and then compared. If a comparison needs whole samples, the
    samples of each run are compared, and the results are averaged.
    """

    def sides(of: pl.DataFrame) -> list[list[Any]]:
        return [_column(of, i, side) for i, side in enumerate(claim.sides)]

    of_runs = _numbers(claim.compare, sides(runs))
    if claim.compare in OF_SAMPLES:
        averaged = replicates.average(runs.select(*RUN, number=pl.Series(of_runs, dtype=pl.Float64)))
        remark = _largest_distance(of_runs, sides(runs)) if claim.compare == "ks" else ""
        return of_runs, averaged["number"].to_list(), remark
    each = sides(replicates.average(runs))
    remark = _no_gain(each, replicates) if claim.compare == "gain" else ""
    return of_runs, _numbers(claim.compare, each), remark


def _verdict(
    gate: Gate, numbers: Sequence[float], of_runs: Sequence[float], replicates: Replicates, *, whole: bool
) -> tuple[str, str]:
    """The verdict and its reason; `whole` means that each run has a number."""
    mean, low, high = stats.mean_interval(numbers)
    if gate.by == EVERY_SEED and not all(map(gate.keeps, of_runs)):
        return FAILS, ""
    needed = FEWEST if gate.by == EVERY_SEED else MIN_REPLICATES
    if (count := len(numbers)) < needed:
        return UNDECIDED, f"{count} {replicates.name(count)}; a verdict needs {needed}"
    if gate.by == EVERY_SEED:
        return (HOLDS, "") if whole else (UNDECIDED, "some seeds have no number")
    if not gate.keeps(mean):
        return FAILS, "" if gate.excludes(low, high) else "its interval reaches the bound"
    if gate.keeps(low) and gate.keeps(high):
        return HOLDS, ""
    return HOLDS if gate.by == MEAN else UNDECIDED, "its interval reaches beyond the bound"


def _numbers(compare: str, sides: Sequence[Sequence[Any]]) -> list[float]:
    """One number for each replicate, from the numbers of its sides; NaN if there is none."""
    if compare == "gain":
        return _shares(*sides)
    return [float(_COMPARE[compare](*row)) for row in zip(*sides, strict=True)]


def _ratio(over: float, under: float) -> float:
    return over / under if under else nan


_COMPARE: dict[str, Callable[..., float]] = {
    "value": float,
    "difference": lambda a, b: a - b,
    "ratio": _ratio,
    "change": lambda a, b: _ratio(a - b, b),
    "worst-change": lambda a, b: _ratio(a - b, b),
    "ratio-change": lambda a, b, c, d: _ratio(_ratio(a, b), _ratio(c, d)) - 1,
    "mean-ratio": lambda *sides: stats.mean([_ratio(*pair) for pair in zip(sides[::2], sides[1::2], strict=True)]),
    "ks": stats.ks_distance,
    "quantiles-below": stats.quantiles_below,
}


def _shares(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> list[float]:
    """The gain b - a as a share of the gain b - c, with one number for each replicate.

    The share is R, the mean of b - a divided by the mean of b - c. The mean of the replicates' own ratios would be less
    stable, because one replicate with a small gain could dominate it. The number of a replicate is
    R + ((b - a) - R (b - c)) / mean(b - c). The numbers have the mean R, and their t interval is the interval of the
    delta method. All numbers are NaN if the mean of b - c is not positive.

    Source: Cochran, Sampling Techniques, 1977, section 2.11 (the variance of a ratio estimate).
    """
    part, gain = _gains(b, a), _gains(b, c)
    whole = stats.mean(gain)
    if not whole > 0:
        return [nan] * len(gain)
    ratio = stats.mean(part) / whole
    return [ratio + (some - ratio * most) / whole for some, most in zip(part, gain, strict=True)]


def _gains(before: Sequence[float], after: Sequence[float]) -> list[float]:
    return [first - second for first, second in zip(before, after, strict=True)]


def _no_gain(sides: Sequence[Sequence[float]], replicates: Replicates) -> str:
    gains = _gains(sides[1], sides[2])
    without = sum(gain <= 0 for gain in gains)
    if without:
        return f"b - c is not positive in {without} of {len(gains)} {replicates.name(2)}"
    return "" if stats.mean_interval(gains)[1] > 0 else "the interval of b - c includes 0"


def _largest_distance(numbers: Sequence[float], sides: Sequence[Sequence[Any]]) -> str:
    """The largest Kolmogorov-Smirnov distance of a seed, with the 5 % value for independent downloads."""
    at = max(range(len(numbers)), key=lambda i: numbers[i])
    n, m = (len(side[at]) for side in sides)
    return f"largest distance of a seed {numbers[at]:.3f}; significant at 5 % above {stats.ks_limit(n, m):.3f}"


def _runs(claim: Claim, results: Mapping[str, Result]) -> tuple[pl.DataFrame, Replicates, list[str]]:
    """The numbers of each run in columns such as `0:stock`, the replicates, and the names of missing numbers."""
    runs = [
        (run["network"], run["seed"])
        for scenario in claim.scenarios
        for run in results[scenario].manifest["runs"]
        if run["variant"] in claim.variants_in(scenario)
    ]
    asked = pl.DataFrame(sorted(set(runs)), RUN_SCHEMA, orient="row")
    joined, lacking = asked, []
    for i, side in enumerate(claim.sides):
        for variant in side.variants:
            values = sample(results[side.scenario], claim.measure, variant, side.workload, claim.hop)
            every = values.group_by(RUN).agg("value")  # for OF_SAMPLES
            found = each_run(values, side.statistic, claim.above) if side.statistic else every
            joined = joined.join(found.rename({"value": f"{i}:{variant}"}), on=RUN)
            without = asked.join(found, on=RUN, how="anti").sort(RUN)
            if not without.is_empty():
                lacking.append(f"{variant} has no number for {side.workload} with {_named(without)}")
    return joined.sort(RUN), Replicates.in_rows(asked), list(dict.fromkeys(lacking))


def _named(runs: pl.DataFrame) -> str:
    """The names of runs, such as `seed 3, 5`, or `network 1 seed 3, network 2 seed 1`."""
    if any(runs["network"]):
        return ", ".join(f"network {network} seed {seed}" for network, seed in runs.iter_rows())
    return f"seed {', '.join(map(str, runs['seed']))}"


def _column(pairs: pl.DataFrame, i: int, side: Side) -> list[Any]:
    """The numbers of a side. If the side has several variants, the one with the smallest or largest mean counts."""
    columns = [pairs[f"{i}:{variant}"].to_list() for variant in side.variants]
    return columns[0] if len(columns) == 1 else (max if side.largest else min)(columns, key=stats.mean)


def _undecided(claim: Claim, *reasons: str) -> tuple[str, str]:
    return (NOT_GATED, claim.why) if claim.gate is None else (UNDECIDED, _joined(*reasons))


def _joined(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))


def unit_of(claim: Claim) -> str:
    """The unit of the measured number; empty for ratios."""
    plain = claim.compare in ("value", "difference") and not claim.is_share
    return MEASURES[claim.measure].unit if claim.measure and plain else ""
