"""What a claim can measure: one number for each seed, from a column of an output directory's tables."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from penstock import summary
from penstock.result import Result

PAIR = ["network", "seed"]
"""What two runs have in common that are a pair."""


class Measure(NamedTuple):
    """A column, where it is and what shows it."""

    table: str
    unit: str
    figures: tuple[str, ...]


MEASURES = {
    "connect_s": Measure("transfers", "s", ("downloads",)),
    "ttfb_s": Measure("transfers", "s", ("downloads", "sweep")),
    "ttlb_s": Measure("transfers", "s", ("downloads", "sweep")),
    "queue_cells": Measure("circuits", "cells", ("circuit-queue",)),
    "kernel_in_s": Measure("cells", "s", ("stations",)),
    "circuit_queue_s": Measure("cells", "s", ("stations", "queue-delay", "life-cycle")),
    "outbuf_s": Measure("cells", "s", ("stations", "life-cycle")),
    "kernel_out_s": Measure("cells", "s", ("stations",)),
}
"""Columns that a claim may be about: of whole downloads after the warm-up, of queues, of tracked cells."""

_QUANTILES = {"p10": 0.1, "p25": 0.25, "median": 0.5, "p75": 0.75, "p80": 0.8, "p90": 0.9, "p99": 0.99}

SHARE = "share-above"
"""The fraction of a sample that lies above a number."""

STATISTICS = (*_QUANTILES, "mean", "min", "max", SHARE)
"""How one number is made of a run's many."""


def sample(result: Result, measure: str, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """Every value of a measure under one variant: columns `network`, `seed`, `value`."""
    table = MEASURES[measure].table
    if table == "transfers":
        rows = summary.counted(result.transfers)
    else:
        rows = (result.circuits if table == "circuits" else result.cells).filter(pl.col("hop") == hop)
    of = (pl.col("variant") == variant) & (pl.col("workload") == workload)
    return rows.filter(of).select(*PAIR, value=pl.col(measure).cast(pl.Float64)).drop_nulls()


def each_seed(values: pl.DataFrame, statistic: str, above: float) -> pl.DataFrame:
    """One number for each run that has values, in the order of seeds."""
    column = pl.col("value")
    if statistic in _QUANTILES:
        number = column.quantile(_QUANTILES[statistic], "linear")
    elif statistic == SHARE:
        number = (column > above).mean()
    else:
        number = {"mean": column.mean(), "min": column.min(), "max": column.max()}[statistic]
    return values.group_by(PAIR).agg(value=number).sort(PAIR)
