"""Figures of one download at the exit: the circuit queue over time, and the wait of each cell."""

from collections.abc import Callable
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock import sendmes, summary
from penstock.figures import words
from penstock.figures.picture import Picture
from penstock.figures.style import CurveStyle, curve_styles, grid_of
from penstock.replicates import RUN, first_run
from penstock.result import Result

CIRCUIT = [*RUN, "circuit"]


def draw_length(result: Result) -> Picture | None:
    """Length of the bulk circuit's queue at the exit over one download; figure 6 of the DefenestraTor paper."""
    traced = result.circuits.filter(hop="exit")
    workloads = summary.workloads(result.transfers, summary.counted(result.transfers), traced)
    if not workloads:
        return None
    workload = workloads[-1]

    def one(axes: Axes, style: CurveStyle, rows: pl.DataFrame, start_s: float) -> None:
        time, length = rows["t_s"] - start_s, rows["queue_cells"]
        axes.fill_between(time, length, step="post", color=style.colour, alpha=0.18, linewidth=0)
        axes.step(time, length, where="post", color=style.colour, linewidth=0.9)

    figure = _panel_per_variant(result, traced, workload, _first, pl.col("t_s"), one)
    figure.supylabel("queue length [cells]", fontsize=9.5, color="#333333")
    longest = {
        label: f"{words.largest(traced.filter(variant=name, workload=workload)['queue_cells']):.0f} cells"
        for name, label in result.variants.items()
    }
    alt = f"Longest queue of the {workload} circuits at the exit in all runs: {words.listed(longest)}."
    caption = (
        f"Cells in the circuit queue of a {workload} client at the exit during its first download, in the first seed. "
        "Cells wait here if windows or credits admit more cells than the path can carry."
    )
    return Picture("circuit-queue", f"The {workload} client's circuit queue at the exit", caption, figure, alt)


def draw_delays(result: Result) -> Picture | None:
    """The waits of the cells of one web download in the exit's circuit queue; figure 2 of the same paper."""
    tracked = result.cells.filter(pl.col("circuit_queue_s").is_not_null(), hop="exit")
    workloads = summary.workloads(result.transfers, summary.counted(result.transfers), tracked)
    if not workloads:
        return None
    workload = workloads[0]

    def one(axes: Axes, style: CurveStyle, rows: pl.DataFrame, start_s: float) -> None:
        time, delay = rows["queued_ns"] / 1e9 - start_s, rows["circuit_queue_s"]
        axes.plot(time, delay, "o", color=style.colour, markersize=2.6, markeredgewidth=0, clip_on=False)
        arrivals = _sendmes(result, rows) - start_s
        arrivals = arrivals.filter(arrivals.is_between(time.min(), time.max()))
        # The extent of an empty line that is not clipped is the figure's corner, which would move the panels.
        if arrivals.len():
            axes.plot(arrivals, [0] * arrivals.len(), "|", color="#333333", markersize=9, clip_on=False)

    figure = _panel_per_variant(result, tracked, workload, _slowest_cell, pl.col("queued_ns") / 1e9, one)
    figure.supylabel("time in the circuit queue [s]", fontsize=9.5, color="#333333")
    longest = {
        label: f"{words.largest(tracked.filter(variant=name, workload=workload)['circuit_queue_s']):.2f} s"
        for name, label in result.variants.items()
    }
    alt = f"Longest wait of a {workload} cell at the exit in all runs: {words.listed(longest)}."
    caption = (
        f"Each dot is a cell of one {workload} download. The x axis is the time at which the cell entered the exit's "
        "circuit queue, and the y axis is the time that it waited there. The download is the one with the longest wait "
        "of a cell in the first seed. A rising line is a burst of cells that arrived together and left one by one. "
        "Each SENDME permits the next burst. A mark on the x axis shows a sample before which SENDMEs arrived."
    )
    return Picture("queue-delay", f"How long the cells of a {workload} download wait at the exit", caption, figure, alt)


def _sendmes(result: Result, cells: pl.DataFrame) -> pl.Series:
    """The times [s] of samples at the exit before which SENDMEs of the cells' circuit arrived."""
    circuit = result.circuits.filter(hop="exit").join(cells, on=["variant", *CIRCUIT], how="semi")
    return sendmes.samples(circuit).filter("arrived")["t_s"]


def _panel_per_variant(
    result: Result,
    rows: pl.DataFrame,
    workload: str,
    choose: Callable[[pl.DataFrame, pl.DataFrame], dict[str, Any]],
    time: pl.Expr,
    one: Callable[[Axes, CurveStyle, pl.DataFrame, float], None],
) -> Figure:
    """Stacked panels with common axes; `one` draws a variant's rows during the chosen download."""
    styles = curve_styles(result.variants)
    # A single panel needs space for the label at its side.
    height = 1.75 if len(styles) > 1 else 2.6
    figure, panels = grid_of(len(styles), 1, 7.8, height, sharex=True, sharey=True)
    for (variant, style), (axes,) in zip(styles.items(), panels, strict=True):
        axes.set_title(style.label)
        mine = rows.filter(variant=variant, workload=workload)
        downloads = summary.counted(result.transfers, variant=variant, workload=workload)
        downloads = first_run(downloads.join(mine, on=CIRCUIT, how="semi"))
        if downloads.is_empty():
            axes.text(0.5, 0.5, "no whole download", transform=axes.transAxes, ha="center", color="#777777")
            continue
        download = choose(downloads, mine)
        start = download["start_s"]
        during = time.is_between(start, start + download["ttlb_s"])
        of_circuit = rows.filter(variant=variant, **{key: download[key] for key in CIRCUIT})
        one(axes, style, of_circuit.filter(during).sort(time), start)
    bottom = panels[-1][0]
    bottom.set_xlabel("time since the request [s]")
    bottom.set_xlim(left=0)
    # The axis of an empty queue reaches 1, so that the queue looks empty.
    bottom.set_ylim(bottom=0, top=max(bottom.get_ylim()[1], 1))
    return figure


def _first(downloads: pl.DataFrame, _rows: pl.DataFrame) -> dict[str, Any]:
    return downloads.sort("start_s").row(0, named=True)


def _slowest_cell(downloads: pl.DataFrame, cells: pl.DataFrame) -> dict[str, Any]:
    """The download with the longest wait of a cell in the circuit queue; the first one if no cell waited."""
    start = pl.col("start_s")
    inside = (pl.col("queued_ns") / 1e9).is_between(start, start + pl.col("ttlb_s"))
    waits = downloads.join(cells.select(*CIRCUIT, "queued_ns", "circuit_queue_s"), on=CIRCUIT).filter(inside)
    ranked = waits.sort("circuit_queue_s", "start_s", descending=[True, False])
    return (downloads.sort("start_s") if ranked.is_empty() else ranked).row(0, named=True)
