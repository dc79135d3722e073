"""The Pareto front of a table of trade-offs: two quantities of each variant, relative to the baseline."""

from math import isfinite

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from penstock.figures.picture import Picture
from penstock.figures.style import COLOURS, grid_of
from penstock.paper.tradeoffs import Compared, Row


def draw(compared: Compared) -> Picture | None:
    """A point for each variant, and a line through the front; None with fewer than two points."""
    points = {row.variant: compared.at(row) for row in compared.rows if all(map(isfinite, compared.at(row)))}
    if len(points) < 2:
        return None
    front = sorted(compared.front, key=compared.at)
    figure, ((axes,),) = grid_of(1, 1, 7.8, 5.2)
    on_front = {row.variant for row in front}
    for row in compared.rows:
        if row.variant in points:
            _mark(axes, row, points[row.variant], on_front, compared.tradeoffs.baseline)
    axes.plot(*zip(*map(compared.at, front), strict=True), color=COLOURS[1], linewidth=1.0, zorder=1)
    x, y = compared.tradeoffs.front
    for axis, title in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.set_label_text(f"{title}: times better than the baseline")
    for scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
        scale("log")
        axis.set_major_locator(MaxNLocator(7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    caption = (
        f"Each point is a variant. The axes show how many times better it is than the baseline in {x} and in {y}; one "
        f"is the baseline. The line connects the Pareto front: no variant is better than a variant on it in one "
        f"quantity without being worse in the other. Points are ratios of means over {compared.replicates}, and close "
        f"points are not distinguishable; the table has intervals."
    )
    alt = f"The front has {', '.join(row.label for row in front)}."
    return Picture(f"front-{compared.scenario}", f"Pareto front: {compared.title}", caption, figure, alt)


def _mark(axes: Axes, row: Row, at: tuple[float, float], front: set[str], baseline: str) -> None:
    """A point with its label."""
    chosen = row.variant in front
    colour = COLOURS[6] if row.variant == baseline else COLOURS[1] if chosen else COLOURS[0]
    axes.plot(*at, "s" if row.variant == baseline else "o", color=colour, markersize=5 if chosen else 4, zorder=2)
    axes.annotate(
        row.label, at, xytext=(4, 3), textcoords="offset points", fontsize=8.5 if chosen else 7,
        color="#333333" if chosen else "#777777",
    )  # fmt: skip
