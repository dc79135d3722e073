"""Distribution functions of download times, as in figures 5 and 7 of the DefenestraTor paper."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from penstock import stats, summary
from penstock.figures import words
from penstock.figures.picture import Picture
from penstock.figures.style import CurveStyle, curve_styles, grid_of, legend_above, letters
from penstock.replicates import BAND, Replicates
from penstock.result import Result

MAX_STEPS = 1500
"""The maximum number of steps of a drawn curve."""


class Panel(NamedTuple):
    """A panel of distribution functions."""

    title: str
    x_label: str
    curves: Mapping[CurveStyle, stats.Curve]


def draw(result: Result) -> Picture | None:
    """One row of panels per workload: time to first byte, and download time."""
    workloads = summary.workloads(result.transfers, summary.counted(result.transfers))
    if not workloads:
        return None
    styles = curve_styles(result.variants)
    rows = [
        [
            Panel(f"{workload}: {metric.title}", f"{metric.title} [s]", curves_of(result, styles, workload, metric))
            for metric in summary.METRICS
        ]
        for workload in workloads
    ]
    figure = draw_panels(rows, (3.9, 2.75), [style.label for style in styles.values()])
    caption = (
        "Each curve shows the fraction of downloads that finished within the time on the x axis. A curve further left "
        f"is faster. Downloads are complete and began after the warm-up. {how_drawn(result.replicates)} Each x axis "
        f"ends at the 99th percentile of the slowest variant.{hidden(rows)}"
    )
    return Picture("downloads", "How long downloads take", caption, figure, result_of(rows))


def hidden(rows: Sequence[Sequence[Panel]]) -> str:
    """Sentences about curves that a reader cannot see, for a caption."""
    panels = (panel for row in rows for panel in row)
    return words.hidden((letter, _labelled(panel)) for letter, panel in zip(letters(), panels, strict=False))


def result_of(rows: Sequence[Sequence[Panel]]) -> str:
    """The medians of all curves, for readers who do not see the figure."""
    said = (words.medians(panel.title, _labelled(panel)) for row in rows for panel in row)
    return " ".join(filter(None, said))


def _labelled(panel: Panel) -> dict[str, stats.Curve]:
    return {style.label: curve for style, curve in panel.curves.items()}


def curves_of(
    result: Result, styles: Mapping[str, CurveStyle], workload: str, metric: summary.Metric
) -> dict[CurveStyle, stats.Curve]:
    """The distribution functions of a workload's times, for each variant in `styles`."""
    return {
        style: curve_of(summary.by_replicate(result.transfers, result.replicates, variant, workload, metric))
        for variant, style in styles.items()
    }


def curve_of(replicates: Sequence[Sequence[stats.Sample]]) -> stats.Curve:
    """The distribution function of some replicates, with a band if there are enough of them."""
    return stats.curve(replicates, BAND)


def how_drawn(replicates: Replicates) -> str:
    """The sentences of a caption about averages and bands."""
    each = (
        "Each network has the same weight, and so has each seed of a network."
        if replicates.are_networks
        else "Each seed has the same weight."
    )
    if replicates.size < BAND:
        return each
    return f"{each} Bands are 95 % t intervals over {replicates.size} {replicates.name(2)} at each point of a curve."


def draw_panels(
    rows: Sequence[Sequence[Panel]],
    size: tuple[float, float],
    labels: Sequence[str],
    *,
    end: float = 0.99,
    of: str = "downloads",
    **shared: Any,
) -> Figure:
    """Draw rows of panels, each of a `size` [inch]. The x axis ends at the quantile `end` of the slowest curve."""
    figure, panels = grid_of(len(rows), len(rows[0]), *size, **shared)
    handles: list[Artist] = []
    for letter, axes, panel in zip(letters(), figure.axes, (panel for row in rows for panel in row), strict=False):
        handles = draw_distributions(axes, panel.curves)
        axes.set_title(f"({letter}) {panel.title}")
        axes.set_xlabel(panel.x_label)
        axes.set_xlim(0, right_edge(panel.curves, end))
    for first, *_ in panels:
        first.set_ylabel(f"fraction of {of}")
    legend_above(figure, handles, labels)
    return figure


def draw_distributions(axes: Axes, curves: Mapping[CurveStyle, stats.Curve]) -> list[Artist]:
    """Draw distribution functions over their bands."""
    handles: list[Artist] = []
    for style, curve in curves.items():
        at = _thinned(curve.y)
        if curve.low.size:
            low, high = curve.low[at], curve.high[at]
            axes.fill_between(curve.x[at], low, high, step="post", color=style.colour, alpha=0.16, linewidth=0)
    for style, curve in curves.items():
        at = _thinned(curve.y)
        x, y = curve.x[at], curve.y[at]
        if x.size:
            x, y = np.concatenate([[x[0]], x]), np.concatenate([[0.0], y])
        marks: dict[str, Any] = {"marker": style.marker, "markersize": 4, "markevery": 0.12} if style.marker else {}
        handles += axes.step(x, y, where="post", color=style.colour, linestyle=style.line, linewidth=1.7, **marks)
    axes.set_ylim(0, 1.02)
    return handles


def right_edge(curves: Mapping[CurveStyle, stats.Curve], q: float) -> float:
    """Slightly more than the largest of the curves' quantiles `q`, or than 1 if none is above zero."""
    ends = [float(curve.x[curve.y >= min(q, curve.y[-1])][0]) for curve in curves.values() if curve.x.size]
    return 1.04 * (max(ends, default=0.0) or 1.0)


def _thinned(y: NDArray[np.float64]) -> NDArray[np.int64]:
    """The steps to draw. Long curves are drawn without their small steps, but with all high steps."""
    even = np.linspace(0, len(y) - 1, min(len(y), MAX_STEPS)).round().astype(np.int64)
    high = np.flatnonzero(np.diff(y, prepend=0.0) > 1 / MAX_STEPS)
    return np.unique(np.concatenate([even, high, np.maximum(high - 1, 0)]))
