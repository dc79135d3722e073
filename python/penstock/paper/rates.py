"""Average rates of downloads as in the slides' tables, and the downloads that a closed loop completes."""

from __future__ import annotations

import polars as pl

from penstock import summary
from penstock.result import Result

RUN = ("network", "seed")
KB = 1000

MEAN_PAUSE_S = 10.5
"""The mean pause of the slides' web clients: uniform from 1 to 20 s."""


def of_mean(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """Size over the mean time of complete downloads [kB/s]: one number for each run.

    Deviation: the slides say neither how they average nor in what; their counts of downloads fit this.
    """
    return _each_run(_whole(result, variant, workload), pl.col("bytes").mean() / pl.col("ttlb_s").mean() / KB)


def each(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The rate of each download [kB/s]; its mean is the other possible average rate."""
    rows = _whole(result, variant, workload)
    return rows.select("network", pl.col("seed").cast(pl.Int64), value=pl.col("bytes") / pl.col("ttlb_s") / KB)


def completed(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The number of completed downloads of each run; zero if there is none."""
    counts = _each_run(_whole(result, variant, workload), pl.len().cast(pl.Float64))
    every = _runs(result, variant).join(counts, on=RUN, how="left").sort(*RUN)
    return every.select(*RUN, pl.col("value").fill_null(0.0))


def of_expected(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """Completed downloads over the number that the loop allows: one number for each run.

    Each client has from its beginning to the end of the run for rounds of a mean download and the slides' mean pause.
    """
    mine = (pl.col("variant") == variant) & (pl.col("workload") == workload)
    rows = summary.after_warmup(result.transfers).filter(mine).cast({"seed": pl.Int64})
    begun = rows.group_by(*RUN, "client").agg(begun_s=pl.col("start_s").min()).join(_runs(result, variant), on=RUN)
    time = begun.group_by(*RUN).agg(time_s=(pl.col("end_s") - pl.col("begun_s")).sum())
    whole = pl.col("ttlb_s").filter(pl.col("outcome") == "ok")
    rounds = rows.group_by(*RUN).agg(round_s=whole.mean() + MEAN_PAUSE_S, count=whole.len())
    both = rounds.join(time, on=RUN).sort(*RUN)
    return both.select(*RUN, value=pl.col("count") / (pl.col("time_s") / pl.col("round_s"))).drop_nulls()


def _runs(result: Result, variant: str) -> pl.DataFrame:
    """All runs of a variant with their ends [s]."""
    runs = [run for run in result.manifest["runs"] if run["variant"] == variant]
    ends = [(run["network"], run["seed"], run["sim_seconds"]) for run in runs]
    return pl.DataFrame(ends, {"network": pl.String(), "seed": pl.Int64(), "end_s": pl.Float64()}, orient="row")


def _whole(result: Result, variant: str, workload: str) -> pl.DataFrame:
    mine = (pl.col("variant") == variant) & (pl.col("workload") == workload) & (pl.col("outcome") == "ok")
    return summary.after_warmup(result.transfers).filter(mine)


def _each_run(rows: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    return rows.group_by(*RUN).agg(value=value).cast({"seed": pl.Int64}).sort(*RUN)
