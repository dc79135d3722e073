"""How long downloads take: distribution functions, as figures 5 and 7 of the DefenestraTor paper draw them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray

from penstock import stats, summary
from penstock.figures.picture import Picture
from penstock.figures.style import Look, grid_of, legend_above, looks
from penstock.result import Result

MAX_STEPS = 1500
"""Steps of a curve; beyond, only every so many-th is drawn."""


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
            samples = {
                look: summary.sample(result.transfers, variant, workload, metric).to_numpy()
                for variant, look in styles.items()
            }
            handles = draw_distributions(axes, samples)
            axes.set_title(f"({next(letters)}) {workload}: {metric.title}")
            axes.set_xlabel(f"{metric.title} [s]")
            axes.set_xlim(0, _right_edge(samples))
        row[0].set_ylabel("fraction of downloads")
    legend_above(figure, handles, [look.label for look in styles.values()])
    caption = (
        "For each time, the fraction of downloads that took at most so long: a curve further left is faster. "
        "Whole downloads after the warm-up, pooled over all seeds; an axis ends at the slowest variant's 99th "
        "percentile."
    )
    return Picture("downloads", "How long downloads take", caption, figure)


def draw_distributions(axes: Axes, samples: Mapping[Look, NDArray[np.float64]]) -> list[Artist]:
    """The distribution function of each sample in its look."""
    handles: list[Artist] = []
    for look, values in samples.items():
        x, y = _steps(values)
        handles += axes.step(x, y, where="post", color=look.colour, linestyle=look.line, linewidth=1.7)
    axes.set_ylim(0, 1.02)
    return handles


def _steps(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The distribution function from zero on, thinned where no eye would see it."""
    x, y = stats.ecdf(values)
    if len(x) > MAX_STEPS:
        keep = np.linspace(0, len(x) - 1, MAX_STEPS).round().astype(np.int64)
        x, y = x[keep], y[keep]
    if len(x) == 0:
        return x, y
    return np.concatenate([[x[0]], x]), np.concatenate([[0.0], y])


def _right_edge(samples: dict[Look, NDArray[np.float64]]) -> float:
    edges = [stats.quantile(values, 0.99) for values in samples.values() if values.size]
    return 1.04 * max(edges, default=1.0)
