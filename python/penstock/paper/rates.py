"""Average rates of downloads as in the slides' tables, and the downloads that a closed loop completes."""

import polars as pl

from penstock.replicates import RUN, RUN_SCHEMA
from penstock.result import Result
from penstock.summary import after_warmup, counted

KB = 1000

MEAN_PAUSE_S = 10.5
"""The mean pause of the slides' web clients: uniform from 1 to 20 s."""


def of_mean(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """Size divided by the mean time of complete downloads [kB/s], one number for each run.

    Deviation: the slides name neither their kind of average nor their unit. Their counts of downloads fit this rate.
    """
    rate = pl.col("bytes").mean() / pl.col("ttlb_s").mean() / KB
    return counted(result.transfers, variant=variant, workload=workload).group_by(RUN).agg(value=rate).sort(RUN)


def each(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The rate of each download [kB/s]. The mean of these rates is the other possible average rate."""
    rows = counted(result.transfers, variant=variant, workload=workload)
    return rows.select(*RUN, value=pl.col("bytes") / pl.col("ttlb_s") / KB)


def completed(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The number of complete downloads of each run."""
    counts = counted(result.transfers, variant=variant, workload=workload).group_by(RUN).len("value")
    every = _runs(result, variant).join(counts, on=RUN, how="left").sort(RUN)
    return every.select(*RUN, pl.col("value").fill_null(0).cast(pl.Float64))


def of_expected(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """Complete downloads, divided by the number of downloads for which the clients have time: one number for each run.

    A client has time from its first download to the end of the run. One download takes the mean download time and the
    mean pause.
    """
    rows = after_warmup(result.transfers, variant=variant, workload=workload)
    begun = rows.group_by(*RUN, "client").agg(begun_s=pl.col("start_s").min()).join(_runs(result, variant), on=RUN)
    time = begun.group_by(RUN).agg(time_s=(pl.col("end_s") - pl.col("begun_s")).sum())
    whole = pl.col("ttlb_s").filter(outcome="ok")
    rounds = rows.group_by(RUN).agg(round_s=whole.mean() + MEAN_PAUSE_S, count=whole.len())
    both = rounds.join(time, on=RUN).sort(RUN)
    return both.select(*RUN, value=pl.col("count") / (pl.col("time_s") / pl.col("round_s"))).drop_nulls()


def _runs(result: Result, variant: str) -> pl.DataFrame:
    """All runs of a variant with their ends [s]."""
    runs = [run for run in result.manifest["runs"] if run["variant"] == variant]
    ends = [(run["network"], run["seed"], run["sim_seconds"]) for run in runs]
    return pl.DataFrame(ends, {**RUN_SCHEMA, "end_s": pl.Float64()}, orient="row")
