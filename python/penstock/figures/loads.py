"""Distributions of download times for each algorithm and load, as in figure 3 of the throttling paper."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock import summary
from penstock.figures.downloads import Panel, curves_of, draw_panels, hidden, how_drawn, result_of
from penstock.figures.picture import Picture
from penstock.figures.style import curve_styles
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
    # The workload with the most downloads comes first; only its times to first byte are drawn.
    counts = summary.counted(result.transfers)["workload"].value_counts()
    workloads = counts.sort("count", "workload", descending=[True, False])["workload"].to_list()
    if found is None or not workloads:
        return None
    ttfb, ttlb = summary.METRICS
    columns = [(workloads[0], ttfb), *((workload, ttlb) for workload in workloads)]
    styles = curve_styles(found.algorithms)
    rows = [
        [
            Panel(
                f"{load}, {workload}",
                f"{metric.title} [s]",
                curves_of(result, {f"{name}-{load}": style for name, style in styles.items()}, workload, metric),
            )
            for workload, metric in columns
        ]
        for load in found.loads
    ]
    figure = draw_panels(rows, (3.3, 2.3), [style.label for style in styles.values()], end=0.95)
    caption = (
        "Each curve shows the fraction of downloads that finished within the time on the x axis, for one load. "
        f"Downloads are complete and began after the warm-up. {how_drawn(result.replicates)} Each x axis ends at the "
        f"95th percentile of the slowest algorithm.{hidden(rows)}"
    )
    return Picture("loads", "Download times under each load", caption, figure, result_of(rows))
