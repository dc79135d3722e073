"""A figure of a paper: our distribution functions, and the points that the paper states behind them."""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.artist import Artist

from penstock import summary
from penstock.figures.downloads import Panel, curves_of, draw_distributions, hidden, how_drawn, result_of, right_edge
from penstock.figures.picture import Picture
from penstock.figures.style import grid_of, legend_above, looks
from penstock.paper.printed import Point
from penstock.result import Result


def makers(result: Result, points: Sequence[Point]) -> list[Callable[[], Picture | None]]:
    """A function for each figure, workload and time with points; each draws one picture."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.figure, point.workload, point.measure), []).append(point)
    return [partial(draw, result, group) for group in groups.values()]


def draw(result: Result, points: Sequence[Point]) -> Picture | None:
    """The distribution functions of all variants, with points of one figure, workload and time."""
    first = points[0]
    metric = next((each for each in summary.METRICS if each.column == first.measure), None)
    shown = [point for point in points if point.variant in result.variants]
    if metric is None or not shown:
        return None
    styles = looks(result.variants)
    panel = Panel(
        f"{first.workload}: {metric.title}",
        f"{metric.title} [s]",
        curves_of(result, styles, first.workload, metric),
    )
    figure, [[axes]] = grid_of(1, 1, 6.4, 3.6)
    handles: list[Artist] = []
    labels = [look.label for look in styles.values()]
    for point in shown:
        look = styles[point.variant]
        # Behind the curves, and larger than their lines.
        handles += axes.plot(
            point.value, point.share, "D", markersize=9, markerfacecolor="none", markeredgecolor=look.colour,
            markeredgewidth=1.6, zorder=1.5, clip_on=False,
        )  # fmt: skip
        labels.append(f"{look.label}, the paper: {point.share:.0%} within {point.value:g} s")
    handles = [*draw_distributions(axes, panel.curves), *handles]
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel("fraction of downloads")
    axes.set_xlim(0, max(right_edge(panel.curves, 0.99), 1.08 * max(point.value for point in shown)))
    legend_above(figure, handles, labels)
    read = "; ".join(dict.fromkeys(f"{result.variants[point.variant]}: {point.how}" for point in shown))
    caption = (
        f"Figure {first.figure} of the paper. Diamonds are points of the paper ({read}). Curves are Penstock's. "
        f"{how_drawn(result.replicates)}{hidden([[panel]])}"
    )
    told = ", ".join(labels[len(styles) :])
    return Picture(
        f"figure-{first.figure}-{first.workload}-{metric.short.lower()}",
        f"Figure {first.figure}: {metric.title} of {first.workload}",
        caption,
        figure,
        f"{result_of([[panel]])} {told}.",
    )
