"""A hop that becomes the bottleneck: the window at the circuit's far end, and the queues of relays."""

from __future__ import annotations

import polars as pl

from penstock.figures.picture import Picture
from penstock.figures.style import grid_of, legend_above, looks
from penstock.paper.steps import ALONG, onset
from penstock.result import Result

BEFORE, AFTER = 1.0, 9.0
"""The shown time before and after the change [s]."""
LINEAR = 10
"""The queue length from which the scale is logarithmic [cell]."""
COLOURS = {"exit": "#009E73", "middle": "#E69F00", "guard": "#56B4E9"}


def draw(result: Result) -> Picture | None:
    """One panel per variant with windows at hops: the exit's window and the relays' circuit queues."""
    windows = result.circuits.filter(pl.col("hop").is_in(ALONG[1:]), pl.col("window_cells").is_not_null())
    shown = set(windows["variant"].unique())
    changes = {name: onset(result, name) for name in result.variants if name in shown}
    if not changes or None in changes.values():
        return None
    columns = 1 if len(changes) == 1 else 2
    rows = -(-len(changes) // columns)
    figure, panels = grid_of(rows, columns, 7.8 / columns, 1.9, sharex=True, sharey=True)
    styles = looks(result.variants)
    # Down the columns, so that variants that are beside each other in the scenario are compared from the top.
    places = [panels[row][column] for column in range(columns) for row in range(rows)]
    for axes, (variant, at) in zip(places, changes.items(), strict=False):
        axes.set_title(styles[variant].label)
        mine = result.circuits.filter(pl.col("variant") == variant).sort("network", "seed", "circuit", "t_s")
        first = mine.head(1).select("network", "seed", "circuit")
        since = pl.col("t_s") - at
        mine = mine.join(first, on=["network", "seed", "circuit"]).filter(since >= -BEFORE, since <= AFTER)
        for hop in ALONG:
            there = mine.filter(pl.col("hop") == hop)
            time = there["t_s"] - at
            if hop == "exit":
                window = there["window_cells"]
                axes.step(time, window, where="post", color="black", linewidth=1.2, label="window (exit)")
            queue = there["queue_cells"]
            axes.step(time, queue, where="post", color=COLOURS[hop], linewidth=0.9, label=f"queue ({hop})")
        axes.axvline(0.0, color="#777777", linewidth=0.8, linestyle=":")
    for axes in places[len(changes) :]:
        axes.set_visible(False)
    for column in range(columns):
        panels[-1][column].set_xlabel("time since the change [s]")
    # A queue of ten cells and one of a thousand are both to be seen.
    panels[0][0].set_yscale("symlog", linthresh=LINEAR)
    panels[0][0].yaxis.set_major_formatter("{x:g}")
    panels[0][0].set_ylim(bottom=0)
    figure.supylabel("cells", fontsize=9.5, color="#333333")
    legend_above(figure, *panels[0][0].get_legend_handles_labels())
    caption = (
        "The first circuit of the first seed while something changes: the window of the exit, which lets a download's "
        "cells in, and the circuit's queue at each relay."
    )
    return Picture("step", "Windows and queues after a change", caption, figure)
