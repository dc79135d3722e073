"""A figure of a paper: our distribution functions, and the points that the paper states behind them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import polars as pl
from matplotlib.artist import Artist

from penstock import stats, summary
from penstock.attacks import study
from penstock.figures.downloads import (
    Panel,
    curve_of,
    curves_of,
    draw_distributions,
    hidden,
    how_drawn,
    result_of,
    right_edge,
)
from penstock.figures.picture import Picture
from penstock.figures.style import CurveStyle, curve_styles, grid_of, legend_above
from penstock.paper.printed import Point
from penstock.result import Result


class Quantity(NamedTuple):
    """A measure on the x axis: its title, its unit, a short name for files, and the things that it counts."""

    title: str
    unit: str
    short: str
    of: str = "downloads"


OF_VICTIMS = {
    "attack_error_s": Quantity("error of the latency", "s", "error", "victims"),
    "attack_pings": Quantity("pings until the best estimate", "", "pings", "victims"),
    "attack_entropy_lost": Quantity("entropy lost", "bit", "entropy-lost", "victims"),
}
"""The measures of attacks with points in papers."""


def makers(result: Result, points: Sequence[Point]) -> list[Callable[[], Picture | None]]:
    """A function for each figure, workload and time with points; each draws one picture."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.figure, point.workload, point.measure), []).append(point)
    return [partial(draw, result, group) for group in groups.values()]


def draw(result: Result, points: Sequence[Point]) -> Picture | None:
    """The distribution functions of all variants, with points of one figure, workload and time."""
    first = points[0]
    shown = [point for point in points if point.variant in result.variants]
    styles = curve_styles(result.variants)
    found = _curves(result, styles, first) if shown else None
    if found is None:
        return None
    quantity, curves = found
    unit = f" [{quantity.unit}]" if quantity.unit else ""
    panel = Panel(f"{first.workload}: {quantity.title}", f"{quantity.title}{unit}", curves)
    figure, [[axes]] = grid_of(1, 1, 6.4, 3.6)
    handles: list[Artist] = []
    labels = [style.label for style in styles.values()]
    for point in shown:
        style = styles[point.variant]
        # Behind the curves, and larger than their lines.
        handles += axes.plot(
            point.value, point.share, "D", markersize=9, markerfacecolor="none", markeredgecolor=style.colour,
            markeredgewidth=1.6, zorder=1.5, clip_on=False,
        )  # fmt: skip
        labels.append(f"{style.label}, the paper: {point.share:.0%} within {point.value:g} {quantity.unit}".rstrip())
    handles = [*draw_distributions(axes, panel.curves), *handles]
    paper = result.scenario.get("paper")
    axes.set_title(f"Figure {first.figure}{f' ({paper})' if paper else ''}, {panel.title}")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(f"fraction of {quantity.of}")
    axes.set_xlim(0, max(right_edge(panel.curves, 0.99), 1.08 * max(point.value for point in shown)))
    legend_above(figure, handles, labels)
    read = "; ".join(dict.fromkeys(f"{result.variants[point.variant]}: {point.how}" for point in shown))
    caption = (
        f"Figure {first.figure} of the paper. Diamonds are points of the paper ({read}). Curves are Penstock's. "
        f"{how_drawn(result.replicates)}{hidden([[panel]])}"
    )
    stated = ", ".join(labels[len(styles) :])
    return Picture(
        f"figure-{first.figure}-{first.workload}-{quantity.short}",
        f"Figure {first.figure}: {quantity.title} of {first.workload}",
        caption,
        figure,
        f"{result_of([[panel]])} {stated}.",
    )


def _curves(
    result: Result, styles: Mapping[str, CurveStyle], point: Point
) -> tuple[Quantity, dict[CurveStyle, stats.Curve]] | None:
    """The distributions of a point's measure and workload; None for other measures, and without victims."""
    if metric := next((each for each in summary.METRICS if each.column == point.measure), None):
        return Quantity(metric.title, "s", metric.short.lower()), curves_of(result, styles, point.workload, metric)
    quantity = OF_VICTIMS.get(point.measure)
    if quantity is None or "attacks" not in result.manifest:
        return None
    attacks = study.attacks_of(result)
    name = next((attack.name for attack in attacks if attack.adversary.victims == point.workload), "")
    rows = study.of(result).victims.filter(attack=name)
    column = point.measure.removeprefix("attack_")
    return quantity, {
        style: curve_of(
            result.replicates.samples(
                rows.filter(variant=variant).select("network", "seed", value=pl.col(column)), "value"
            )
        )
        for variant, style in styles.items()
    }
