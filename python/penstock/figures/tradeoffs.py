"""The Pareto front of a table of trade-offs: two quantities of each variant, relative to the baseline."""

from collections.abc import Mapping
from math import isfinite

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

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
            _mark(axes, row, points[row.variant], on_front, compared.baseline)
    axes.plot(*zip(*map(compared.at, front), strict=True), color=COLOURS[1], linewidth=1.0, zorder=1)
    axes.margins(0.15, 0.08)  # space for labels
    x, y = compared.tradeoffs.front
    for axis, title in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.set_label_text(f"{title}: times better than the baseline")
    for scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
        scale("log")
        axis.set_major_locator(MaxNLocator(7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    chosen = [*front, *(row for row in compared.rows if row.variant == compared.baseline), *compared.rows]
    _label(axes, {row.label: points[row.variant] for row in chosen if row.variant in points})
    caption = (
        f"Each point is a variant. The axes show how many times better it is than the baseline, the square, in {x} and "
        f"in {y}. The line connects the Pareto front: no variant is better than a variant on it in one quantity "
        f"without being worse in the other. Points are ratios of means over {compared.replicates}. The table has their "
        "intervals, and the names of points whose labels would overlap."
    )
    alt = f"The front has {', '.join(row.label for row in front)}."
    return Picture(f"front-{compared.scenario}", f"Pareto front: {compared.title}", caption, figure, alt)


def _mark(axes: Axes, row: Row, at: tuple[float, float], front: set[str], baseline: str) -> None:
    if row.variant == baseline:
        axes.plot(*at, "s", color=COLOURS[6], markersize=6, zorder=3)
    else:
        axes.plot(*at, "o", color=COLOURS[row.variant in front], markersize=4.5, zorder=2)


def _label(axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Labels beside points, the first ones first; a label that would cover another label is left out."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    taken: list[Bbox] = []
    for label, at in points.items():
        text = axes.annotate(label, at, xytext=(5, 3), textcoords="offset points", fontsize=7.5, color="#555555")
        if text.get_window_extent().x1 > axes.bbox.x1:
            text.set(ha="right", position=(-5, 3))
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)
