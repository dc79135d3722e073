"""Times over the grid of a sweep: lines if the sweep has one axis, maps of the first two axes if it has more."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock import grid, points, summary
from penstock.figures.picture import Picture
from penstock.figures.style import WIDE, curve_styles, grid_of, legend_above, letters, mark_values, time_panels
from penstock.result import Result
from penstock.summary import METRICS
from penstock.tables import seconds

MOST_WRITTEN = 12
"""The maximum number of fields in a row that have space for numbers."""

_QUANTITY = re.compile(r"[\"']?(-?\d+(?:\.\d+)?)\s*([^\"'\d]*)[\"']?")


class Slice(NamedTuple):
    """The rows of one variant, at one combination of values of the third and later axes."""

    label: str
    rows: pl.DataFrame


def draw(result: Result) -> Picture | None:
    """Draw mean values over replicates of the runs' median times; None without a sweep or finished downloads."""
    swept = grid.of(result)
    table = points.table(result) if swept else pl.DataFrame()
    if swept is None or table.is_empty():
        return None
    workloads = summary.workloads(result.transfers, table.filter(pl.col("downloads") > 0))
    if not workloads:
        return None
    names = swept.names
    over = result.replicates.name(2)
    # Labels are the values as typed; the table may format numbers differently.
    columns = {name: pl.col(name).cast(pl.String) for name in names}
    slices = _slices(table.with_columns(**columns), names[2:])
    values = [[str(value) for value in table[name].unique(maintain_order=True)] for name in names]
    if len(names) == 1:
        figure = _lines(slices, workloads, names[0], values[0])
        words = f"Each point is the mean of the runs' medians over {over}. Bars are 95 % t intervals of these means."
        return Picture("line", f"Times against {names[0]}", words, figure, _best(table, workloads, names))
    figure = _maps(slices, workloads, names, values)
    words = (
        f"Each field is a point of the grid. Its number is the mean of the runs' medians over {over} [s]. Panels of "
        "one workload and one time share their colours, and darker is slower. A dash means no complete download."
    )
    return Picture("heat-map", f"Times over {names[0]} and {names[1]}", words, figure, _best(table, workloads, names))


def _best(table: pl.DataFrame, workloads: Sequence[str], names: Sequence[str]) -> str:
    """The points with the shortest and the longest time, for each workload and time."""
    said = []
    for workload in workloads:
        for metric in METRICS:
            rows = table.filter(workload=workload).drop_nulls(metric.column).sort(metric.column)
            ends = [
                f"{seconds(row[metric.column])} at {', '.join(f'{name}={row[name]}' for name in names)}"
                for row in (rows.row(0, named=True), rows.row(-1, named=True))
            ] if rows.height else []  # fmt: skip
            if ends:
                said.append(f"{workload}, {metric.title}: from {ends[0]} to {ends[1]}.")
    return " ".join(said)


def _slices(table: pl.DataFrame, further: Sequence[str]) -> list[Slice]:
    several = table["variant"].n_unique() > 1
    found = []
    for (variant, *values), rows in table.group_by(["variant", *further], maintain_order=True):
        settings = [f"{name}={value}" for name, value in zip(further, values, strict=True)]
        found.append(Slice(", ".join([str(variant)] * several + settings), rows))
    return found


def _lines(slices: Sequence[Slice], workloads: Sequence[str], name: str, values: Sequence[str]) -> Figure:
    x, unit = _quantities(values)
    styles = curve_styles({each.label: each.label for each in slices})
    figure, panels = time_panels(workloads, f"{name} [{unit}]" if unit else name)
    for axes, workload, metric in panels:
        for each in slices:
            rows = each.rows.filter(workload=workload)
            y, low, high = (
                rows[f"{metric.column.removesuffix('_s')}{end}_s"].to_numpy() for end in ("", "_low", "_high")
            )
            style = styles[each.label]
            line: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "marker": style.marker or "o"}
            axes.plot(x, y, markersize=3.5, linewidth=1.5, label=each.label, **line)
            axes.vlines(x, low, high, color=style.colour, linewidth=1.2)
        axes.set_ylim(bottom=0)
        if unit is None or (min(x) > 0 and max(x) / min(x) > WIDE):
            axes.set_xscale("linear" if unit is None else "log")
            mark_values(axes, x, [value.strip("\"'") for value in values])
    if len(slices) > 1:
        legend_above(figure, *figure.axes[0].get_legend_handles_labels())
    return figure


def _maps(
    slices: Sequence[Slice], workloads: Sequence[str], names: Sequence[str], values: Sequence[Sequence[str]]
) -> Figure:
    """One row of panels per workload and slice; the first axis is horizontal, the second one vertical."""
    across, up = values[:2]
    rows = [(workload, each) for workload in workloads for each in slices]
    width, height = max(3.9, 0.62 * len(across) + 1.4), max(1.9, 0.34 * len(up) + 1.1)
    figure, panels = grid_of(len(rows), len(METRICS), width, height, sharex=True, sharey=True)
    letter = letters()
    for (workload, each), row in zip(rows, panels, strict=True):
        for metric, axes in zip(METRICS, row, strict=True):
            column = metric.column
            everyone = pl.concat([s.rows for s in slices]).filter(workload=workload)[column].drop_nulls()
            of = each.rows.filter(workload=workload)
            at = {(a, b): time for a, b, time in of.select(*names[:2], column).iter_rows()}
            field = np.array([[at.get((a, b)) for a in across] for b in up], dtype=np.float64)
            _map(axes, field, float(everyone.min() or 0), float(everyone.max() or 0))  # type: ignore[arg-type]
            suffix = f", {each.label}" if each.label else ""
            axes.set_title(f"({next(letter)}) {workload}{suffix}: {metric.title}")
            axes.set_xticks(range(len(across)), [value.strip("\"'") for value in across])
            axes.set_yticks(range(len(up)), [value.strip("\"'") for value in up])
        row[0].set_ylabel(names[1])
    for axes in panels[-1]:
        axes.set_xlabel(names[0])
    return figure


def _map(axes: Axes, field: Any, least: float, most: float) -> None:
    axes.imshow(field, cmap="Blues", vmin=least, vmax=most, origin="lower", aspect="auto")
    axes.grid(visible=False)
    if field.shape[1] > MOST_WRITTEN:
        return
    for (row, column), time in np.ndenumerate(field):
        # Missing values count as bright.
        colour = "white" if time > least + 0.6 * (most - least) else "#222222"
        text = seconds(time).removesuffix(" s")
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)


def _quantities(values: Sequence[str]) -> tuple[list[float], str | None]:
    """The numbers of an axis and their unit. If the values are no numbers with a unit, positions without a unit."""
    found = [_QUANTITY.fullmatch(value) for value in values]
    units = {match[2].strip() for match in found if match}
    if len(units) != 1 or not all(found):
        return [float(place) for place in range(len(values))], None
    return [float(match[1]) for match in found if match], units.pop()
