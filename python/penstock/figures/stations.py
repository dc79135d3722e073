"""Waits of cells at the stations of each hop, for all variants."""

from collections.abc import Mapping

import polars as pl
from matplotlib.axes import Axes

from penstock import summary
from penstock.figures import words
from penstock.figures.picture import Picture
from penstock.figures.style import STATIONS, grid_of, legend_above
from penstock.result import Result

HOPS = ("exit", "middle", "guard")
"""The relays in the order in which a download's cells pass them."""

Means = dict[tuple[str, str], dict[str, float]]


def draw(result: Result) -> Picture | None:
    """One column of panels per workload, one row per hop, one bar per variant, one colour per station."""
    workloads = summary.workloads(result.transfers, result.cells)
    if not workloads:
        return None
    height = 0.42 + 0.24 * len(result.variants)
    figure, panels = grid_of(len(HOPS), len(workloads), 7.8 / len(workloads), height, sharex="col", sharey=True)
    said: list[str] = []
    for column, workload in enumerate(workloads):
        means = _means(result.cells, workload)
        for row, hop in enumerate(HOPS):
            _bars(panels[row][column], [means.get((variant, hop), {}) for variant in result.variants])
        panels[0][column].set_title(f"{workload} cells")
        said.append(f"Longest mean wait of {workload} cells: {words.listed(_longest(means, result.variants))}.")
        panels[-1][column].set_xlabel("mean wait of a cell [s]")
    for hop, (axes, *_) in zip(HOPS, panels, strict=True):
        axes.set_yticks(range(len(result.variants)), list(result.variants.values()))
        axes.set_ylabel(hop, fontweight="bold")
    panels[0][0].invert_yaxis()
    figure.align_ylabels([axes for axes, *_ in panels])
    legend_above(figure, *panels[0][0].get_legend_handles_labels())
    caption = (
        "The mean wait of a tracked cell at each place in each relay, on its way from the exit to the client. The "
        "length of a bar is the mean time that a cell spends in the relay. At the exit, the first place holds bytes "
        "from the server."
    )
    return Picture("stations", "Where cells wait", caption, figure, " ".join(said))


def _longest(means: Means, variants: Mapping[str, str]) -> dict[str, str]:
    """The place with the longest mean wait under each variant."""
    found = {}
    for name, label in variants.items():
        waits = {(hop, place): wait for hop in HOPS for place, wait in means.get((name, hop), {}).items()}
        if waits:
            hop, place = max(waits, key=lambda at: waits[at])
            found[label] = f"{waits[hop, place]:.2f} s ({STATIONS[place][0]} of the {hop})"
    return found


def _bars(axes: Axes, means: list[dict[str, float]]) -> None:
    left = [0.0] * len(means)
    for station, (name, colour) in STATIONS.items():
        widths = [mean.get(station, 0.0) for mean in means]
        axes.barh(range(len(means)), widths, left=left, height=0.74, color=colour, label=name)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _means(cells: pl.DataFrame, workload: str) -> Means:
    """The mean wait at each station [s], by variant and hop; zero for stations that a hop lacks."""
    # The last bits of means depend on the order of rows, which `maintain_order` fixes.
    mine = cells.filter(workload=workload).group_by("variant", "hop", maintain_order=True)
    means = mine.agg(pl.col(*STATIONS).mean())
    return {
        (row["variant"], row["hop"]): {station: row[station] or 0.0 for station in STATIONS}
        for row in means.iter_rows(named=True)
    }
