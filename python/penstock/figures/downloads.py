"""Distribution functions of download times, as in figures 5 and 7 of the DefenestraTor paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray

from penstock import stats, summary
from penstock.figures.picture import Picture
from penstock.figures.style import Look, grid_of, legend_above, looks
from penstock.replicates import BAND, Replicates
from penstock.result import Result

MAX_STEPS = 1500
"""The most steps of a drawn curve."""


def draw(result: Result) -> Picture | None:
    """One row of panels per workload: time to first byte, and download time."""
    finished = set(summary.counted(result.transfers)["workload"].unique())
    workloads = [name for name in summary.workloads(result.transfers) if name in finished]
    if not workloads:
        return None
    figure, panels = grid_of(len(workloads), len(summary.METRICS), 3.9, 2.75)
    styles = looks(result.variants)
    letters = iter("abcdefghijklmnopqrstuvwxyz" * 8)
    handles: list[Artist] = []
    for workload, row in zip(workloads, panels, strict=True):
        for metric, axes in zip(summary.METRICS, row, strict=True):
            curves = {
                look: curve_of(summary.by_replicate(result.transfers, result.replicates, variant, workload, metric))
                for variant, look in styles.items()
            }
            handles = draw_distributions(axes, curves)
            axes.set_title(f"({next(letters)}) {workload}: {metric.title}")
            axes.set_xlabel(f"{metric.title} [s]")
            axes.set_xlim(0, right_edge(curves, 0.99))
        row[0].set_ylabel("fraction of downloads")
    legend_above(figure, handles, [look.label for look in styles.values()])
    caption = (
        "The fraction of downloads that took at most this time: a curve further left is faster. Complete downloads "
        f"after the warm-up; {how_drawn(result.replicates)}. Each axis ends at the slowest variant's 99th percentile."
    )
    return Picture("downloads", "How long downloads take", caption, figure)


def curve_of(replicates: Sequence[Sequence[stats.Sample]]) -> stats.Curve:
    """The distribution function of some replicates, with a band if there are enough of them."""
    return stats.curve(replicates, BAND)


def how_drawn(replicates: Replicates) -> str:
    """The part of a caption about averages and bands."""
    each = (
        "each network counts the same, and each seed in it" if replicates.are_networks else "each seed counts the same"
    )
    if replicates.size < BAND:
        return each
    return f"{each}; bands are pointwise 95 % t intervals of {replicates.size} {replicates.name(2)}"


def draw_distributions(axes: Axes, curves: Mapping[Look, stats.Curve]) -> list[Artist]:
    """Draw distribution functions over their bands."""
    handles: list[Artist] = []
    for look, curve in curves.items():
        at = _thinned(curve.y)
        if curve.low.size:
            low, high = curve.low[at], curve.high[at]
            axes.fill_between(curve.x[at], low, high, step="post", color=look.colour, alpha=0.16, linewidth=0)
    for look, curve in curves.items():
        at = _thinned(curve.y)
        x, y = curve.x[at], curve.y[at]
        if x.size:
            x, y = np.concatenate([[x[0]], x]), np.concatenate([[0.0], y])
        handles += axes.step(x, y, where="post", color=look.colour, linestyle=look.line, linewidth=1.7)
    axes.set_ylim(0, 1.02)
    return handles


def right_edge(curves: Mapping[Look, stats.Curve], q: float) -> float:
    """Slightly more than the largest quantile of the curves."""
    ends = [float(curve.x[curve.y >= min(q, curve.y[-1])][0]) for curve in curves.values() if curve.x.size]
    return 1.04 * max(ends, default=1.0)


def _thinned(y: NDArray[np.float64]) -> NDArray[np.int64]:
    """The steps to draw: small steps of long curves are left out, high steps never."""
    even = np.linspace(0, len(y) - 1, min(len(y), MAX_STEPS)).round().astype(np.int64)
    high = np.flatnonzero(np.diff(y, prepend=0.0) > 1 / MAX_STEPS)
    return np.unique(np.concatenate([even, high, np.maximum(high - 1, 0)]))
