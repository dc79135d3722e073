"""Waits of cells in the kernel, in Tor and on the whole circuit, as in figure 6 of the KIST paper."""

from __future__ import annotations

import polars as pl
from matplotlib.artist import Artist
from matplotlib.ticker import FixedLocator, NullLocator

from penstock import stats
from penstock.figures.downloads import curve_of, draw_distributions, how_drawn
from penstock.figures.picture import Picture
from penstock.figures.style import grid_of, legend_above, looks
from penstock.paper import waits
from penstock.replicates import RUN, Replicates
from penstock.result import Result

LEAST, MOST = 1e-4, 30.0
"""The range of shown waits [s]; shorter waits lie on the left edge."""

PANELS = {
    "wait in the outgoing kernel": (pl.col("hop") != "client", pl.col("kernel_out_s")),
    "wait in Tor": (pl.col("hop") != "client", waits.IN_TOR),
}


def draw(result: Result) -> Picture | None:
    """Panels for the waits at each relay, in the kernel and in Tor, and for whole circuits."""
    cells = result.cells.filter(pl.col("kernel_out_s").is_not_null() | (pl.col("hop") == "client"))
    if cells.filter(pl.col("hop") != "client").is_empty():
        return None
    figure, [row] = grid_of(1, 3, 3.1, 2.9, sharey=True)
    styles = looks(result.variants)
    samples = {
        title: {look: cells.filter(where, variant=name).select(*RUN, value=value) for name, look in styles.items()}
        for title, (where, value) in PANELS.items()
    }
    samples["wait on the whole circuit"] = {
        look: waits.of_circuit(cells.filter(variant=name), "client") for name, look in styles.items()
    }
    handles: list[Artist] = []
    for axes, letter, (title, values) in zip(row, "abc", samples.items(), strict=True):
        handles = draw_distributions(axes, {look: _shown(result.replicates, rows) for look, rows in values.items()})
        axes.set_title(f"({letter}) {title}")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([1e-4, 1e-3, 1e-2, 0.1, 1, 10]))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(LEAST, MOST)
        axes.set_xlabel("wait of a cell [s]")
    row[0].set_ylabel("fraction of cells")
    legend_above(figure, handles, [look.label for look in styles.values()])
    caption = (
        "For each time, the fraction of tracked cells that waited at most so long: at each relay in the outgoing "
        "kernel, in circuit queue and output buffer, and at all relays of a circuit together, without what waits at "
        f"the exit for becoming a cell. Of all workloads, {how_drawn(result.replicates)}; logarithmic, from 0.1 ms on."
    )
    return Picture("waits", "How long cells wait", caption, figure)


def _shown(replicates: Replicates, rows: pl.DataFrame) -> stats.Curve:
    return curve_of(replicates.samples(rows.with_columns(pl.col("value").clip(LEAST)), "value"))
