"""One download at the exit: its circuit queue over time, and the wait of each cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock import summary
from penstock.figures.picture import Picture
from penstock.figures.style import Look, grid_of, looks
from penstock.result import Result


class Download(NamedTuple):
    """The download in a panel."""

    network: str
    seed: int
    circuit: int
    start_s: float
    end_s: float


def draw_length(result: Result) -> Picture | None:
    """Length of the bulk circuit's queue at the exit over one download; figure 6 of the DefenestraTor paper."""
    traced = result.circuits.filter(pl.col("hop") == "exit")
    workloads = _traced_workloads(result, traced)
    if not workloads:
        return None
    workload = workloads[-1]

    def one(axes: Axes, look: Look, rows: pl.DataFrame, start_s: float) -> None:
        time, length = rows["t_s"] - start_s, rows["queue_cells"]
        axes.fill_between(time, length, step="post", color=look.colour, alpha=0.18, linewidth=0)
        axes.step(time, length, where="post", color=look.colour, linewidth=0.9)

    figure = _panel_per_variant(result, traced, workload, _first, pl.col("t_s"), one)
    figure.supylabel("queue length [cells]", fontsize=9.5, color="#333333")
    caption = (
        f"Cells in the circuit queue of a {workload} client at the exit while its first download lasts, in the "
        "first seed. What stands here speeds nobody up: windows or credits let it in before the path could "
        "carry it away."
    )
    return Picture("circuit-queue", f"The {workload} client's circuit queue at the exit", caption, figure)


def draw_delays(result: Result) -> Picture | None:
    """The waits of the cells of one web download in the exit's circuit queue; figure 2 of the same paper."""
    tracked = result.cells.filter(pl.col("hop") == "exit", pl.col("circuit_queue_s").is_not_null())
    workloads = _traced_workloads(result, tracked)
    if not workloads:
        return None
    workload = workloads[0]

    def one(axes: Axes, look: Look, rows: pl.DataFrame, start_s: float) -> None:
        time, delay = rows["queued_ns"] / 1e9 - start_s, rows["circuit_queue_s"]
        axes.plot(time, delay, "o", color=look.colour, markersize=2.6, markeredgewidth=0, clip_on=False)

    figure = _panel_per_variant(result, tracked, workload, _slowest_cell, pl.col("queued_ns") / 1e9, one)
    figure.supylabel("time in the circuit queue [s]", fontsize=9.5, color="#333333")
    caption = (
        f"Each dot is a cell of one {workload} download: when it entered the exit's circuit queue, and how long it "
        "stayed there. Shown is the download in the first seed whose worst cell waited longest. Cells that come in a "
        "burst and leave one by one draw a rising line; each SENDME lets the next burst in."
    )
    return Picture("queue-delay", f"How long the cells of a {workload} download wait at the exit", caption, figure)


def _panel_per_variant(
    result: Result,
    rows: pl.DataFrame,
    workload: str,
    choose: Callable[[pl.DataFrame, pl.DataFrame], dict[str, Any]],
    time: pl.Expr,
    one: Callable[[Axes, Look, pl.DataFrame, float], None],
) -> Figure:
    """Stacked panels with common axes; `one` draws a variant's rows during the chosen download."""
    styles = looks(result.variants)
    # A single panel needs room for the words at its side.
    height = 1.75 if len(styles) > 1 else 2.6
    figure, panels = grid_of(len(styles), 1, 7.8, height, sharex=True, sharey=True)
    for (variant, look), (axes,) in zip(styles.items(), panels, strict=True):
        axes.set_title(look.label)
        download = _download(result, rows, variant, workload, choose)
        if download is None:
            axes.text(0.5, 0.5, "no whole download", transform=axes.transAxes, ha="center", color="#777777")
        else:
            one(axes, look, _during(rows, variant, download, time), download.start_s)
    bottom = panels[-1][0]
    bottom.set_xlabel("time since the request [s]")
    bottom.set_xlim(left=0)
    # An empty queue is drawn as one, not as noise on a tiny axis.
    bottom.set_ylim(bottom=0, top=max(bottom.get_ylim()[1], 1))
    return figure


def _traced_workloads(result: Result, rows: pl.DataFrame) -> list[str]:
    """The workloads with rows and complete downloads, the smallest downloads first."""
    traced = set(rows["workload"].unique()) & set(summary.counted(result.transfers)["workload"].unique())
    return [name for name in summary.workloads(result.transfers) if name in traced]


def _download(
    result: Result,
    rows: pl.DataFrame,
    variant: str,
    workload: str,
    choose: Callable[[pl.DataFrame, pl.DataFrame], dict[str, Any]],
) -> Download | None:
    """The download that `choose` selects in the variant's first seed, among circuits with rows."""
    of = (pl.col("variant") == variant) & (pl.col("workload") == workload)
    mine = rows.filter(of)
    circuits = mine.select("network", "seed", "circuit").unique()
    downloads = summary.counted(result.transfers).filter(of).join(circuits, on=["network", "seed", "circuit"])
    if downloads.is_empty():
        return None
    first = downloads.sort("network", "seed").head(1).select("network", "seed")
    row = choose(downloads.join(first, on=["network", "seed"]), mine.join(first, on=["network", "seed"]))
    return Download(row["network"], row["seed"], row["circuit"], row["start_s"], row["start_s"] + row["ttlb_s"])


def _first(downloads: pl.DataFrame, _rows: pl.DataFrame) -> dict[str, Any]:
    """The first download."""
    return downloads.sort("start_s").row(0, named=True)


def _slowest_cell(downloads: pl.DataFrame, cells: pl.DataFrame) -> dict[str, Any]:
    """The download with the longest wait of a cell in the circuit queue; the first one if no cell waited."""
    entered = pl.col("queued_ns") / 1e9
    inside = (entered >= pl.col("start_s")) & (entered <= pl.col("start_s") + pl.col("ttlb_s"))
    waits = downloads.join(cells.select("circuit", "queued_ns", "circuit_queue_s"), on="circuit").filter(inside)
    ranked = waits.sort("circuit_queue_s", "start_s", descending=[True, False])
    return (downloads.sort("start_s") if ranked.is_empty() else ranked).row(0, named=True)


def _during(rows: pl.DataFrame, variant: str, download: Download, time: pl.Expr) -> pl.DataFrame:
    """The rows of the download's circuit during the download, in the order of time."""
    mine = rows.filter(variant=variant, network=download.network, seed=download.seed, circuit=download.circuit)
    return mine.filter((time >= download.start_s) & (time <= download.end_s)).sort(time)
