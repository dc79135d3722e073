"""Measures how circuits and users share a path.

Source: slides of Ojha and Sharma, "Problems with Bktap Design" (throughput unfairness); R. Jain, D. Chiu, W. Hawe: A
Quantitative Measure of Fairness and Discrimination, DEC TR-301, 1984.
"""

import polars as pl

from penstock.paper import waits
from penstock.replicates import RUN
from penstock.result import Result
from penstock.summary import counted

LATE = 0.5
"""The first part of a run, which is left out because windows still settle [1]."""

_RATE = (pl.col("cell").max() - pl.col("cell").min()) / ((pl.col("parsed_ns").max() - pl.col("parsed_ns").min()) / 1e9)
"""The cells of a circuit per second, from the numbers of tracked cells."""


def of_circuits(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """Jain's index of circuits, by their rates during downloads: one number for each run."""
    return _index(_rates(result, variant, workload))


def of_users(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """Jain's index of clients, each with all its circuits: one number for each run."""
    return _index(_of_clients(result, variant, workload))


def slowest_user(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The rate of the slowest client divided by the mean rate of all clients [1]: one number for each run.

    Max-min fairness makes this number as large as possible.
    """
    rate = pl.col("rate")
    return _of_clients(result, variant, workload).group_by(RUN).agg(value=rate.min() / rate.mean()).sort(RUN)


def of_equals(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """The rate of each circuit at a hop in the last part of a run, divided by the mean rate of all circuits [1]."""
    rates = _late(cells, hop).group_by(*RUN, "circuit").agg(rate=_RATE)
    return rates.select(*RUN, value=pl.col("rate") / pl.col("rate").mean().over(RUN))


def backlog(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """The mean number of waiting cells of each circuit at a hop in the last part of a run [cell].

    By Little's law, this is the rate of the circuit times its mean wait. The shortest wait of the run is subtracted
    from each wait.
    """
    late = _late(cells, hop).with_columns(wait=waits.IN_RELAY)
    late = late.with_columns(over=pl.col("wait") - pl.col("wait").min().over(RUN))
    return late.group_by(*RUN, "circuit").agg(value=_RATE * pl.col("over").mean()).select(*RUN, "value")


def _late(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    there = cells.filter(hop=hop).drop_nulls("parsed_ns")
    return there.filter(pl.col("parsed_ns") > LATE * pl.col("parsed_ns").max().over(RUN))


def _rates(result: Result, variant: str, workload: str) -> pl.DataFrame:
    rows = counted(result.transfers, variant=variant)
    if workload != "*":
        rows = rows.filter(workload=workload)
    return rows.group_by(*RUN, "client", "circuit").agg(rate=pl.col("bytes").sum() / pl.col("ttlb_s").sum())


def _of_clients(result: Result, variant: str, workload: str) -> pl.DataFrame:
    """The rate of each client with at least one complete download, with all its circuits."""
    return _rates(result, variant, workload).group_by(*RUN, "client").agg(pl.col("rate").sum())


def _index(rates: pl.DataFrame) -> pl.DataFrame:
    rate = pl.col("rate")
    index = rate.sum() ** 2 / (pl.len() * (rate**2).sum())
    return rates.group_by(RUN).agg(value=index).sort(RUN)
