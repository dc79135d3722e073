"""The numbers at the end of a run: results of each variant, and differences to the first one."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import stats
from penstock.replicates import RUN, Replicates


class Metric(NamedTuple):
    """A measured time of every download."""

    column: str
    """The column of the metric in `transfers` [s]."""
    title: str
    """The name of the metric in tables and figures."""
    short: str
    """The short name of the metric."""


MIN_DOWNLOADS = 10
"""With fewer downloads in a run, the 90th percentile is nearly the longest one, and decides nothing."""

METRICS = (
    Metric("ttfb_s", "time to first byte", "TTFB"),
    Metric("ttlb_s", "download time", "download"),
)


def after_warmup(transfers: pl.DataFrame, **values: str) -> pl.DataFrame:
    """Downloads that began after the warm-up, complete or not. `values` selects rows by column."""
    return transfers.filter(warmup=False, direction="download", **values)


def counted(transfers: pl.DataFrame, **values: str) -> pl.DataFrame:
    """The downloads for statistics: complete, and begun after the warm-up. `values` selects rows by column."""
    return after_warmup(transfers, outcome="ok", **values)


def workloads(transfers: pl.DataFrame, *others: pl.DataFrame) -> list[str]:
    """The workloads that have downloads and also rows in each table of `others`, sorted by download size."""
    sizes = transfers.filter(direction="download").group_by("workload").agg(pl.col("bytes").median())
    for table in others:
        sizes = sizes.join(table, on="workload", how="semi")
    return sizes.sort("bytes", "workload")["workload"].to_list()


def by_replicate(
    transfers: pl.DataFrame, replicates: Replicates, variant: str, workload: str, metric: Metric
) -> list[list[NDArray[np.float64]]]:
    """The values of a metric [s] over all counted downloads of a variant and workload.

    The outer list has an entry for each replicate, and the inner list an array for each run.
    """
    return replicates.samples(counted(transfers, variant=variant, workload=workload), metric.column)


def sample(transfers: pl.DataFrame, variant: str, workload: str, metric: Metric) -> pl.Series:
    """One metric of all counted downloads of a variant and workload, pooled over all runs [s]."""
    return counted(transfers, variant=variant, workload=workload)[metric.column].drop_nulls()


def summarise(transfers: pl.DataFrame, variants: Mapping[str, str]) -> pl.DataFrame:
    """One row per variant and workload.

    `downloads` counts complete downloads after the warm-up; `timeout`, `failed` and `unfinished` count the others.
    Medians and 90th percentiles [s] are of complete downloads, pooled over all runs.
    """
    begun = after_warmup(transfers)
    rows = []
    for variant, label in variants.items():
        for workload in workloads(transfers):
            outcomes = dict(begun.filter(variant=variant, workload=workload)["outcome"].value_counts().iter_rows())
            row: dict[str, object] = {"variant": variant, "label": label, "workload": workload}
            row["downloads"] = outcomes.get("ok", 0)
            row |= {outcome: outcomes.get(outcome, 0) for outcome in ("timeout", "failed", "unfinished")}
            for metric in METRICS:
                values = sample(transfers, variant, workload, metric).to_numpy()
                name = metric.column.removesuffix("_s")
                row[f"{name}_median_s"] = stats.quantile(values, 0.5)
                row[f"{name}_p90_s"] = stats.quantile(values, 0.9)
            rows.append(row)
    return pl.DataFrame(rows)


def compare(transfers: pl.DataFrame, variants: Mapping[str, str]) -> pl.DataFrame:
    """The differences to the first variant: one row per other variant, workload and metric with a pair.

    A pair is a seed with downloads under both variants. Its number for a variant is the median of the downloads. With
    several networks, a pair is a network. Its number for a variant is the mean over the seeds with downloads under both
    variants. `mean_s` is the mean of the differences other - first [s]. `low_s` and `high_s` are the ends of its 95 % t
    interval [s]. `relative` is `mean_s` divided by the mean median of the first variant. The columns that begin with
    `p90_` are the same for the 90th percentile of the downloads, and `p90_decided` needs ten downloads in each run.
    `ks_distance` only describes the pooled downloads.
    """
    if not variants:
        return pl.DataFrame()
    first, *others = variants
    replicates = Replicates.in_rows(transfers)
    rows = [
        _compare_one(transfers, replicates, first, other, workload, metric)
        for other in others
        for workload in workloads(transfers)
        for metric in METRICS
    ]
    return pl.DataFrame([row for row in rows if row["pairs"]])


def _compare_one(
    transfers: pl.DataFrame, replicates: Replicates, first: str, other: str, workload: str, metric: Metric
) -> dict[str, str | int | float | bool]:
    def numbers(variant: str) -> pl.DataFrame:
        rows = counted(transfers, variant=variant, workload=workload)
        value = pl.col(metric.column)
        each = rows.group_by(RUN).agg(
            value.median().alias("median"), value.quantile(0.9, "linear").alias("p90"), pl.len().alias("downloads")
        )
        return each.drop_nulls()

    complete = replicates.average(numbers(first).join(numbers(other), on=RUN, suffix="_of_other"))

    def compared(quantile: str) -> tuple[float, stats.Paired, float]:
        of_first, of_other = complete[quantile].to_numpy(), complete[f"{quantile}_of_other"].to_numpy()
        pairs, base = stats.paired(of_first, of_other), stats.mean(of_first)
        return base, pairs, pairs.mean / base if base else float("nan")

    counts = complete.select("downloads", "downloads_of_other").to_numpy()
    fewest = int(counts.min()) if len(counts) else 0
    (base, pairs, relative), (base_p90, p90, relative_p90) = compared("median"), compared("p90")
    pooled = [sample(transfers, variant, workload, metric).to_numpy() for variant in (first, other)]
    return {
        "baseline": first,
        "variant": other,
        "workload": workload,
        "metric": metric.column,
        "pairs": pairs.pairs,
        "baseline_median_s": base,
        "mean_s": pairs.mean,
        "low_s": pairs.low,
        "high_s": pairs.high,
        "relative": relative,
        "decided": pairs.decided,
        "baseline_p90_s": base_p90,
        "p90_mean_s": p90.mean,
        "p90_low_s": p90.low,
        "p90_high_s": p90.high,
        "p90_relative": relative_p90,
        "p90_decided": p90.decided and fewest >= MIN_DOWNLOADS,
        "smaller": pairs.negative,
        "larger": pairs.positive,
        "sign_test": pairs.sign_test,
        "ks_distance": stats.ks_distance(*pooled),
    }
