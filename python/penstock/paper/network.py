"""Totals over all relays of a network.

Source: KIST section 5.3, figure 8: what relays write in each second, summed over all of them.
"""

from __future__ import annotations

import polars as pl

from penstock.result import Result


def written(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """The bytes that all relays wrote in each interval after the warm-up [B]."""
    mine = pl.col("variant") == variant
    # The first download that counts begins when the warm-up is over, or so soon after it that no interval lies between.
    begun = result.transfers.filter(mine & ~pl.col("warmup")).group_by("network", "seed").agg(pl.col("start_s").min())
    rows = result.relays.filter(mine).join(begun, on=["network", "seed"]).filter(pl.col("t_s") > pl.col("start_s"))
    sums = rows.group_by("network", "seed", "t_s").agg(value=pl.col("written_bytes").sum().cast(pl.Float64))
    return sums.sort("network", "seed", "t_s").select("network", pl.col("seed").cast(pl.Int64), "value")
