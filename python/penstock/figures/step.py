"""A figure of a hop that becomes the bottleneck, with the window at the exit and the queues of relays."""

import polars as pl

from penstock.figures import words
from penstock.figures.picture import Picture
from penstock.figures.style import curve_styles, grid_of, legend_above
from penstock.paper.steps import ALONG, onset
from penstock.replicates import RUN
from penstock.result import Result

CIRCUIT = [*RUN, "circuit"]

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
    styles = curve_styles(result.variants)
    # Panels are filled column by column, so that neighbours in the scenario are above each other.
    places = [panels[row][column] for column in range(columns) for row in range(rows)]
    longest: dict[str, str] = {}
    for axes, (variant, at) in zip(places, changes.items(), strict=False):
        axes.set_title(styles[variant].label)
        mine = result.circuits.filter(variant=variant).sort(*CIRCUIT, "t_s")
        near = (pl.col("t_s") - at).is_between(-BEFORE, AFTER)
        mine = mine.join(mine.head(1), on=CIRCUIT, how="semi").filter(near)
        longest[styles[variant].label] = f"{words.largest(mine.filter(pl.col('t_s') >= at)['queue_cells']):.0f} cells"
        for hop in ALONG:
            there = mine.filter(hop=hop)
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
    # Queues of ten and of a thousand cells must both be visible.
    panels[0][0].set_yscale("symlog", linthresh=LINEAR)
    panels[0][0].yaxis.set_major_formatter("{x:g}")
    panels[0][0].set_ylim(bottom=0)
    figure.supylabel("cells", fontsize=9.5, color="#333333")
    legend_above(figure, *panels[0][0].get_legend_handles_labels())
    alt = f"Longest circuit queue after the change: {words.listed(longest)}."
    caption = (
        "The first circuit of the first seed, before and after a change of the network or a relay. The curves are the "
        "circuit's window at the exit and the circuit's queue at each relay."
    )
    return Picture("step", "Windows and queues after a change", caption, figure, alt)
