"""Waits of cells in the kernel, in Tor and on the whole circuit, as in figure 6 of the KIST paper."""

import polars as pl
from matplotlib.ticker import FixedLocator, NullLocator

from penstock.figures.downloads import Panel, curve_of, draw_panels, hidden, how_drawn, result_of, right_edge
from penstock.figures.picture import Picture
from penstock.figures.style import curve_styles
from penstock.paper import waits
from penstock.replicates import RUN
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
    styles = curve_styles(result.variants)
    samples = {
        title: {style: cells.filter(where, variant=name).select(*RUN, value=value) for name, style in styles.items()}
        for title, (where, value) in PANELS.items()
    }
    samples["wait on the whole circuit"] = {
        style: waits.of_circuit(cells.filter(variant=name), "client") for name, style in styles.items()
    }
    shown = pl.col("value").clip(LEAST)
    panels = [
        Panel(
            title,
            "wait of a cell [s]",
            {
                style: curve_of(result.replicates.samples(rows.with_columns(shown), "value"))
                for style, rows in values.items()
            },
        )
        for title, values in samples.items()
    ]
    labels = [style.label for style in styles.values()]
    figure = draw_panels([panels], (3.1, 2.9), labels, of="cells", sharey=True)
    *logarithmic, of_circuit = figure.axes
    # A gain of a third is hard to see on a logarithmic axis, which the paper has in figures 6a and 6b only.
    of_circuit.set_xlim(0, right_edge(panels[-1].curves, 0.95))
    for axes in logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([1e-3, 1e-2, 0.1, 1, 10]))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(LEAST, MOST)
    caption = (
        "Each curve shows the fraction of tracked cells that waited at most the time on the x axis. Panel (a) "
        "shows the wait in the outgoing kernel of each relay. Panel (b) shows the wait in circuit queue and output "
        "buffer of each relay. Panel (c) shows the sum of all waits on a circuit. Bytes that wait at the exit before "
        f"they become cells do not count. The curves include all workloads. {how_drawn(result.replicates)} "
        f"The x axes of panels (a) and (b) are logarithmic and begin at 0.1 ms. Panel (c) ends at the 95th "
        f"percentile.{hidden([panels])}"
    )
    return Picture("waits", "How long cells wait", caption, figure, result_of([panels]))
