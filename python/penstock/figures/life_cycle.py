"""The path of a download's cells through one relay, as in figures 4 to 6 of the EWMA paper."""

import polars as pl
from matplotlib.axes import Axes

from penstock import summary
from penstock.figures import words
from penstock.figures.picture import Picture
from penstock.figures.style import STATIONS, curve_styles, grid_of, legend_above
from penstock.replicates import RUN, first_run
from penstock.result import Result

LIFE = ("queued_ns", "outbuf_ns", "kernel_ns")
"""The times at which a cell enters the circuit queue, the output buffer and the kernel."""

KEYS = [*RUN, "circuit"]


def draw(result: Result) -> Picture | None:
    """A panel for each variant with the three times of each cell, and one panel with all waits in the circuit queue."""
    whole = summary.counted(result.transfers)
    lived = result.cells.filter(pl.all_horizontal(pl.col(*LIFE).is_not_null()), pl.col("hop") != "client")
    workloads = summary.workloads(result.transfers, whole, lived)
    if not workloads:
        return None
    workload = workloads[0]
    cells = lived.filter(pl.col("workload") == workload)
    hop = _slowest_hop(cells, next(iter(result.variants)))
    cells = cells.filter(pl.col("hop") == hop)
    styles = curve_styles(result.variants)
    longest: dict[str, str] = {}
    figure, panels = grid_of(len(styles) + 1, 1, 7.8, 1.9, sharex=True)
    waits = panels[-1][0]
    for (variant, style), (axes,) in zip(styles.items(), panels, strict=False):
        axes.set_title(style.label)
        rows = _one_download(whole.filter(variant=variant, workload=workload), cells.filter(variant=variant))
        if rows is None:
            axes.text(0.5, 0.5, "no whole download", transform=axes.transAxes, ha="center", color="#777777")
            continue
        _life(axes, rows)
        wait = rows["outbuf_ns"] - rows["queued_ns"]
        longest[style.label] = f"{words.largest(wait):.2f} s"
        waits.plot(rows["place"], wait, color=style.colour, linestyle=style.line, linewidth=1.5)
    # One scale for all variants, so that shorter waits look shorter.
    top = max((axes.get_ylim()[1] for (axes,) in panels[:-1]), default=1.0)
    for (axes,) in panels[:-1]:
        axes.set_ylim(0, top)
        axes.set_ylabel("since request [s]", fontsize=8.5)
    waits.set_title("All of them: wait in the circuit queue")
    waits.set_ylabel("wait [s]")
    waits.set_ylim(bottom=0)
    waits.set_xlim(left=0)
    waits.set_xlabel("cell of the download")
    handles, labels = panels[0][0].get_legend_handles_labels()
    if handles:
        legend_above(figure, handles, labels)
    alt = f"Longest wait of these cells in the circuit queue: {words.listed(longest)}."
    caption = (
        f"One {workload} download of each variant at the {hop}, with the median duration in the first seed. The lowest "
        "line shows when a cell enters the circuit queue. The middle line shows when it moves to the output buffer, "
        "and the highest line when the relay writes it to the kernel. The height between two lines is a wait. The x "
        "axis is the number of the cell, because cells of a burst enter at the same time; the paper's x axis is the "
        "time. The lowest panel shows the wait in the circuit queue for all variants."
    )
    return Picture("life-cycle", f"The life of a {workload} download's cells at the {hop}", caption, figure, alt)


def _life(axes: Axes, rows: pl.DataFrame) -> None:
    place = rows["place"]
    entered, moved, left = (rows[moment] for moment in LIFE)
    queue, buffer = STATIONS["circuit_queue_s"], STATIONS["outbuf_s"]
    axes.fill_between(place, entered, moved, color=queue[1], alpha=0.75, linewidth=0, label=f"in the {queue[0]}")
    axes.fill_between(place, moved, left, color=buffer[1], alpha=0.9, linewidth=0, label=f"in the {buffer[0]}")
    for moment in (entered, moved, left):
        axes.plot(place, moment, color="#333333", linewidth=0.7)


def _slowest_hop(cells: pl.DataFrame, variant: str) -> str:
    """The hop with the longest waits in circuit queues, under the first variant with cells."""
    of = cells.filter(pl.col("variant") == variant)
    means = (cells if of.is_empty() else of).group_by("hop").agg(wait=pl.col("circuit_queue_s").mean())
    return str(means.sort("wait", "hop", descending=[True, False])["hop"][0])


def _one_download(downloads: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame | None:
    """The cells of the first seed's download of median length: times since its request [s], and `place`."""
    lengths = first_run(downloads.join(cells, on=KEYS, how="semi")).sort("ttlb_s", "start_s")
    if lengths.is_empty():
        return None
    one = lengths.row(lengths.height // 2, named=True)
    since = [(pl.col(moment) / 1e9 - one["start_s"]).alias(moment) for moment in LIFE]
    of = cells.filter(**{key: one[key] for key in KEYS}).with_columns(since)
    rows = of.filter(pl.col("queued_ns").is_between(0, one["ttlb_s"])).sort("queued_ns")
    return None if rows.is_empty() else rows.with_columns(place=pl.col("cell") - pl.col("cell").min())
