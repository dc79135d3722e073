"""Distributions of download times for each algorithm and load, as in figure 3 of the throttling paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.artist import Artist

from penstock import summary
from penstock.figures.downloads import curve_of, draw_distributions, how_drawn, right_edge
from penstock.figures.picture import Picture
from penstock.figures.style import grid_of, legend_above, looks
from penstock.result import Result

FEWEST = 2
"""The smallest number of algorithms and of loads."""


class Loads(NamedTuple):
    """Variants with names ALGORITHM-LOAD that combine every algorithm with every load."""

    algorithms: dict[str, str]
    """Names and labels."""
    loads: list[str]


def find(variants: Mapping[str, str]) -> Loads | None:
    """The algorithms and loads of names such as `vanilla-light`, if every combination exists."""
    parts = [name.rpartition("-")[::2] for name in variants]
    algorithms, loads = (list(dict.fromkeys(each)) for each in zip(*parts, strict=True))
    whole = {f"{algorithm}-{load}" for algorithm in algorithms for load in loads} == set(variants)
    if "" in algorithms or not whole or min(len(algorithms), len(loads)) < FEWEST:
        return None
    labels = {name: variants[f"{name}-{loads[0]}"].rpartition(",")[0] or name for name in algorithms}
    return Loads(labels, loads)


def draw(result: Result) -> Picture | None:
    """A row for each load: the first workload's time to first byte, and each workload's download time."""
    found = find(result.variants) if result.variants else None
    finished = set(summary.counted(result.transfers)["workload"].unique())
    # Whose downloads are many comes first: its first bytes are what is waited for.
    counts = dict(summary.counted(result.transfers)["workload"].value_counts().iter_rows())
    workloads = sorted(finished, key=lambda name: (-counts[name], name))
    if found is None or not workloads:
        return None
    ttfb, ttlb = summary.METRICS
    columns = [(workloads[0], ttfb), *((workload, ttlb) for workload in workloads)]
    figure, panels = grid_of(len(found.loads), len(columns), 3.3, 2.3)
    styles = looks(found.algorithms)
    letters = iter("abcdefghijklmnopqrstuvwxyz" * 8)
    handles: list[Artist] = []
    for load, row in zip(found.loads, panels, strict=True):
        for (workload, metric), axes in zip(columns, row, strict=True):
            curves = {
                look: curve_of(
                    summary.by_replicate(result.transfers, result.replicates, f"{algorithm}-{load}", workload, metric)
                )
                for algorithm, look in styles.items()
            }
            handles = draw_distributions(axes, curves)
            axes.set_title(f"({next(letters)}) {load}, {workload}")
            axes.set_xlim(0, right_edge(curves, 0.95))
            axes.set_xlabel(f"{metric.title} [s]")
        row[0].set_ylabel("fraction of downloads")
    legend_above(figure, handles, [look.label for look in styles.values()])
    caption = (
        "For each time, the fraction of downloads that took at most so long, under each load. Whole downloads after "
        f"the warm-up, {how_drawn(result.replicates)}; an axis ends at the slowest algorithm's 95th percentile."
    )
    return Picture("loads", "Download times under each load", caption, figure)
