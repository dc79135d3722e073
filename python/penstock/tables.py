"""The tables on the terminal at the end of a run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from penstock import refusals, summary
from penstock.replicates import Replicates
from penstock.result import Result

LOG_WIDTH = 120
"""The width of the tables if standard output is no terminal."""

METRIC_NAMES = {metric.column: metric.short for metric in summary.METRICS}


def console() -> Console:
    """Standard output; if it is no terminal, it is wide enough for the tables."""
    # Names, labels and paths of the user are no markup.
    screen = Console(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = LOG_WIDTH
    return screen


def plain(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    """An empty table without lines: columns of text, then columns of numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for column in left:
        table.add_column(column)
    for column in right:
        table.add_column(column, justify="right")
    return table


def show(result: Result, footer: str, to: Console) -> None:
    """Print the results of each variant or point, the differences to the first variant, and a footer."""
    if "sweep" in result.manifest:
        show_points(result, footer, to)
        return
    rows = result.summary()
    if rows.is_empty():
        to.print("No download finished after the warm-up.")
        tell_refusals(result, to)
        to.print(footer, soft_wrap=True)
        return
    to.print(_summary_table(result, rows.iter_rows(named=True)))
    differences = result.differences()
    if differences.height:
        to.print(_differences_table(result, differences.iter_rows(named=True)))
        pairs = differences["pairs"].to_list()
        to.print(f" {pairs_remark(result.replicates, pairs)}".rstrip(), soft_wrap=True)
    if overrides := overrides_remark(result):
        to.print(f" {overrides}", soft_wrap=True)
    if differences.height:
        warn(result.replicates, pairs, to)
    tell_refusals(result, to)
    to.print(footer, soft_wrap=True)


def tell_refusals(result: Result, to: Console) -> None:
    """Print a sentence about each variant whose clients built no circuit."""
    for sentence in refusals.sentences(result):
        to.print(sentence, soft_wrap=True)


def show_points(result: Result, footer: str, to: Console) -> None:
    """Print the results of each point of a sweep, and a footer."""
    from penstock import points

    rows = points.table(result)
    if rows.is_empty():
        to.print("No download finished after the warm-up.")
        tell_refusals(result, to)
        to.print(footer, soft_wrap=True)
        return
    times = [column for metric in summary.METRICS for column in (metric.short, "95 % interval")]
    table = plain(result.title, point_columns(rows), ["downloads", *times])
    for row in rows.iter_rows(named=True):
        values = [str(row[name]) for name in point_columns(rows)]
        table.add_row(*values, str(row["downloads"]), *point_times(row))
    to.print(table)
    counts = rows["units"].to_list()
    to.print(f" {points_remark(result.replicates, counts)}", soft_wrap=True)
    warn(result.replicates, counts, to)
    tell_refusals(result, to)
    to.print(footer, soft_wrap=True)


def warn(replicates: Replicates, counts: Sequence[int], to: Console) -> None:
    """Print the warning about few replicates, if there is one, and an empty line."""
    warning = replicates.warning(counts)
    to.print(f" {warning}\n" if warning else "", soft_wrap=True)


def point_columns(rows: pl.DataFrame) -> list[str]:
    """The columns that identify a row of a sweep's table. `variant` is omitted if all rows have the same one."""
    keys = rows.columns[: rows.columns.index("seeds")]
    return [name for name in keys if name != "variant" or rows["variant"].n_unique() > 1]


def point_times(row: Mapping[str, Any]) -> list[str]:
    """Each time of a point [s] and its interval."""
    cells = []
    for metric in summary.METRICS:
        short = metric.column.removesuffix("_s")
        mean, low, high = row[f"{short}_s"], row[f"{short}_low_s"], row[f"{short}_high_s"]
        cells += ["-" if mean is None else seconds(mean), "-" if low is None else f"{seconds(low)} to {seconds(high)}"]
    return cells


def points_remark(replicates: Replicates, counts: Sequence[int]) -> str:
    """A remark that explains the numbers of points and their intervals."""
    means = f"Each time is the mean of the runs' medians over {replicates.name(2)}"
    return f"{means}, with a t interval over {replicates.range_text(counts)}." if max(counts) > 1 else f"{means}."


def _summary_table(result: Result, rows: Iterable[dict[str, Any]]) -> Table:
    times = [column for metric in summary.METRICS for column in (f"{metric.short}\nmedian", "\np90")]
    table = plain(result.title, ["variant", "workload"], ["downloads", *times, "not finished"])
    last = None
    for row in rows:
        label = row["label"] if row["label"] != last else ""
        last = row["label"]
        times = [
            seconds(row[f"{metric.column.removesuffix('_s')}_{which}_s"])
            for metric in summary.METRICS
            for which in ("median", "p90")
        ]
        table.add_row(label, row["workload"], str(row["downloads"]), *times, unfinished(row))
    return table


def _differences_table(result: Result, rows: Iterable[dict[str, Any]]) -> Table:
    first = next(iter(result.variants.values()))
    left, right = ["variant", "workload", "time"], ["difference", "95 % interval", "relative"]
    table = plain(f"\nDifference to {first}", left, right)
    # In a narrow terminal, long names of variants and workloads wrap, and numbers do not.
    for column in table.columns[2:]:
        column.no_wrap = True
    last = None
    for row in rows:
        label = result.variants[row["variant"]]
        shown = [label if label != last else "", row["workload"]]
        last = label
        for name, part in quantiles(row):
            numbers = [difference(part["mean_s"]), interval(part), percent(part)]
            table.add_row(*shown, f"{METRIC_NAMES[row['metric']]} {name}", *numbers)
            shown = ["", ""]
    return table


def quantiles(row: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The differences of the median (p50) and 90th percentile in a row of `Result.differences`, with their names."""
    keys = ("mean_s", "low_s", "high_s", "relative", "decided")
    return [(name, {key: row[f"{prefix}{key}"] for key in keys}) for name, prefix in (("p50", ""), ("p90", "p90_"))]


def pairs_remark(replicates: Replicates, pairs: Sequence[int]) -> str:
    """A remark that explains the intervals of paired differences."""
    if max(pairs) < 2:
        return ""
    each = (
        "Runs in the same network are paired. A network's median, or 90th percentile, is the mean over its seeds."
        if replicates.are_networks
        else "Runs with the same seed are paired."
    )
    return f"{each} Differences are means over {replicates.range_text(pairs)}, with t intervals."


def overrides_remark(result: Result) -> str:
    """A remark with the overrides of the command line, which all variants have; empty without overrides."""
    sets = ", ".join(result.scenario["sets"])
    first, *others = result.variants.values()
    which = f"all variants, also {first}, but not their labels" if others else "the variant, but not its label"
    return f"--set changes {which}: {sets}." if sets else ""


def seconds(value: float) -> str:
    """A time [s] with three significant digits."""
    if value != value:
        return "-"
    return f"{value:.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 10 else f"{value:.2f} s"


def difference(value: float) -> str:
    """A difference of times [s] with its sign."""
    return "-" if value != value else f"{value:+.2f} s"


def interval(row: Mapping[str, Any]) -> str:
    """The interval of a difference [s]; a dash if there are too few pairs."""
    return between(row["low_s"], row["high_s"])


def between(low: float, high: float) -> str:
    """An interval [s]; a dash if there is none.

    The ends have two decimals. If an end that is not zero would be shown as zero, both have more decimals, so that the
    reader sees whether the interval includes zero.
    """
    if low != low:
        return "-"
    ends = [end for end in (low, high) if end != 0]
    # An end below a microsecond is shown as zero: it can come from the rounding of means.
    digits = next((digits for digits in range(2, 7) if all(round(end, digits) for end in ends)), 2)
    return f"{low:+.{digits}f} to {high:+.{digits}f} s"


def percent(row: Mapping[str, Any]) -> str:
    """A difference relative to the first variant."""
    return signed_share(row["relative"])


def signed_share(part: float) -> str:
    """A share in per cent with its sign; a dash if there is none."""
    return "-" if part != part else f"{part:+.0%}".replace("%", " %")


def unfinished(row: Mapping[str, Any]) -> str:
    """The number of incomplete downloads, by reason."""
    names = {"timeout": "timed out", "failed": "failed", "unfinished": "cut off by the end"}
    return ", ".join(f"{row[key]} {name}" for key, name in names.items() if row[key]) or "-"
