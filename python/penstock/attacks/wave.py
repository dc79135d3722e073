"""Confirming a guard: connections open and close in a square wave, and the throughput of a target follows.

Source: throttling section 5.2, attack 4. The paper says "consistent with the adversary's behavior". This module
computes the correlation between the wave and the throughput in each half period.
"""

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.attacks.probe import arrivals
from penstock.replicates import RUN, RUN_SCHEMA
from penstock.result import Result

ATTACKER = "attacker"
"""The prefix of the attackers' names; their connections are open in the first half of a period."""
SIGNIFICANT = 0.01
"""A guard counts as confirmed if the p-value is below this number."""
FEWEST = 3
"""The minimum number of whole periods."""


class Wave(NamedTuple):
    """The times at which the attackers' connections were open."""

    begins: NDArray[np.float64]
    """The beginning of each period [s]."""
    period: float
    """The length of a period [s]."""


def find(paths: pl.DataFrame) -> Wave | None:
    """The wave of one run; None without attackers."""
    theirs = paths.filter(pl.col("client").str.starts_with(ATTACKER)).drop_nulls("built_s")
    begun = theirs.select(at=(pl.col("built_s") - pl.col("build_time_s")).round(3))["at"].unique().sort().to_numpy()
    return Wave(begun, float(np.median(np.diff(begun)))) if len(begun) > FEWEST else None


def halves(times: NDArray[np.float64], wave: Wave) -> NDArray[np.float64]:
    """The number of cells of a target in each half period of whole periods: connections are open, then closed."""
    whole = wave.begins[wave.begins + wave.period <= (times[-1] if len(times) else 0.0)]
    edges = [at for begin in whole for at in (begin, begin + wave.period / 2)]
    counts = [int(np.sum((times >= at) & (times < at + wave.period / 2))) for at in edges]
    return np.asarray(counts, dtype=np.float64)


def confirm(counts: NDArray[np.float64]) -> tuple[float, float]:
    """The correlation of throughput with closed connections, and the one-sided p-value of this correlation."""
    if len(counts) < 2 * FEWEST or np.ptp(counts) == 0:
        return 0.0, 1.0
    closed = np.tile([0.0, 1.0], len(counts) // 2)
    from scipy.stats import pearsonr  # a slow import

    found = pearsonr(closed, counts, alternative="greater")
    return float(found.statistic), float(found.pvalue)


def targets(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The correlation and p-value of a workload's traced circuits: columns `network`, `seed`, `correlation`, `p`."""
    waves = _waves(result, variant)
    mine = result.cells.filter(variant=variant, workload=workload, hop=hop)
    rows = [
        (network, seed, *confirm(halves(arrivals(circuit, hop), waves[network, seed])))
        for (network, seed, _), circuit in mine.group_by(*RUN, "circuit", maintain_order=True)
        if (network, seed) in waves
    ]
    return pl.DataFrame(rows, {**RUN_SCHEMA, "correlation": pl.Float64(), "p": pl.Float64()}, orient="row")


def _waves(result: Result, variant: str) -> dict[Any, Wave]:
    """The wave of each run. A variant without attackers uses the wave of the same seed in another variant."""
    waves = {}
    for source in (result.paths, result.paths.filter(variant=variant)):
        for (_, *run), paths in source.group_by("variant", *RUN, maintain_order=True):
            if wave := find(paths):
                waves[tuple(run)] = wave
    return waves


def confirmed(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """Whether the guard of each target was confirmed [0 or 1]."""
    certain = (pl.col("p") < SIGNIFICANT).cast(pl.Float64)
    return targets(result, variant, workload, hop).select(*RUN, value=certain)


def correlation(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The correlation of each target's throughput with the wave."""
    return targets(result, variant, workload, hop).select(*RUN, value="correlation")
