"""The table with the results of each point of a sweep."""

import polars as pl

from penstock import grid, stats, summary
from penstock.errors import OutputError, replacing
from penstock.replicates import RUN, Replicates
from penstock.result import Result

FILE = "points"
"""The name of the table. Its files are `points.parquet` and `points.csv`."""


def table(result: Result) -> pl.DataFrame:
    """One row for each point and workload of a sweep.

    `variant` is the variant of the file; it is empty if the sweep has only one. Each key of the grid has a column, with
    numbers if all values are numbers. `downloads` counts the complete downloads after the warm-up, `seeds` the runs
    with such downloads, and `units` the replicates with them. Replicates are seeds, or networks if there are several.
    `ttfb_s` and `ttlb_s` are mean values over replicates [s]; each run gives the median of its downloads. `..._low_s`
    and `..._high_s` are the ends of their 95 % t interval. A missing number is null.
    """
    swept = grid.of(result)
    if swept is None:
        raise OutputError(f"{result.directory} holds no sweep")
    counted = summary.counted(result.transfers)
    replicates = result.replicates
    workloads = summary.workloads(result.transfers)
    everyone = [each["name"] for each in result.scenario["variants"]]
    rows = [
        {"variant": point.of, **dict(zip(swept.names, point.values, strict=True)), "workload": workload, **numbers}
        for point in swept.points(everyone)
        if point.variant in result.variants
        for workload in workloads
        for numbers in [_numbers(counted.filter(variant=point.variant, workload=workload), replicates)]
    ]
    whole = pl.DataFrame(rows, infer_schema_length=None)
    return whole.with_columns(_as_numbers(whole[name]) for name in swept.names) if rows else whole


def _numbers(downloads: pl.DataFrame, replicates: Replicates) -> dict[str, int | float | None]:
    runs = downloads.select(RUN).n_unique() if downloads.height else 0
    counts = {"seeds": runs, "units": replicates.count(downloads), "downloads": downloads.height}
    found: dict[str, int | float | None] = {**counts}
    for metric in summary.METRICS:
        medians = downloads.group_by(RUN).agg(pl.col(metric.column).median()).drop_nulls()
        short = metric.column.removesuffix("_s")
        three = stats.mean_interval(replicates.average(medians)[metric.column].to_numpy())
        for name, value in zip(("", "_low", "_high"), three, strict=True):
            found[f"{short}{name}_s"] = None if value != value else value
    return found


def _as_numbers(column: pl.Series) -> pl.Series:
    for kind in (pl.Int64, pl.Float64):
        numbers = column.cast(kind, strict=False)
        if numbers.null_count() == 0:
            return numbers
    return column


def write(result: Result) -> pl.DataFrame:
    """Write the table of points into the directory of a sweep, as Parquet and CSV."""
    rows = table(result)
    for end, writing in (("parquet", rows.write_parquet), ("csv", rows.write_csv)):
        with replacing(result.directory / f"{FILE}.{end}") as temporary:
            writing(temporary)
    return rows
