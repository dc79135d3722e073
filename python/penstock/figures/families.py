"""Families of sweeps: variants with labels such as `39 circuits: half-life 10 s` and `39 circuits: no priorities`."""

from typing import NamedTuple

import numpy as np
import polars as pl

from penstock import stats, summary
from penstock.figures.ordered import Sweep, find
from penstock.figures.picture import Picture
from penstock.figures.style import WIDE, legend_above, look_of, mark_values, time_panels
from penstock.replicates import RUN
from penstock.result import Result
from penstock.summary import Metric

LEAST = 2
"""The smallest number of families."""


class Family(NamedTuple):
    """Variants that differ in one quantity, and the variant to which the others are compared."""

    sweep: Sweep
    baseline: str


def families(result: Result) -> dict[str, Family]:
    """The families by the beginning of their labels; empty unless all vary the same quantity and have a baseline."""
    members: dict[str, dict[str, str]] = {}
    for name, label in result.variants.items():
        family, colon, rest = label.rpartition(": ")
        if colon:
            members.setdefault(family, {})[name] = rest
    found = {family: sweep for family, of in members.items() if (sweep := find(of)) and len(sweep.others) == 1}
    alike = {sweep.quantity for sweep in found.values()}
    if len(found) < LEAST or len(alike) > 1:
        return {}
    return {family: Family(sweep, next(iter(sweep.others))) for family, sweep in found.items()}


def draw(result: Result) -> Picture | None:
    """The change of median times against the baseline of each family, over the quantity."""
    found = families(result)
    workloads = summary.workloads(result.transfers, summary.counted(result.transfers)) if found else []
    if not workloads:
        return None
    first = next(iter(found.values()))
    quantity, baseline = first.sweep.quantity, first.sweep.others[first.baseline]
    figure, panels = time_panels(workloads, quantity)
    said: list[str] = []
    for axes, workload, metric in panels:
        axes.axhline(0, color="#777777", linewidth=0.9)
        for place, (name, family) in enumerate(found.items()):
            colour, line, marker = look_of(place)
            x = list(family.sweep.values.values())
            pairs = [(family.baseline, variant) for variant in family.sweep.values]
            changes = [_changes(result, pair, workload, metric) for pair in pairs]
            y, low, high = zip(*map(stats.mean_interval, changes), strict=True)
            axes.plot(x, y, marker=marker or ".", color=colour, linestyle=line, linewidth=1.4, markersize=4, label=name)
            axes.vlines(x, low, high, color=colour, linewidth=1)
            if np.isfinite(y).any():
                best = int(np.nanargmin(y))
                said.append(f"{workload}, {name}: median {metric.title} {y[best]:+.0f} % at best, at {x[best]:g}.")
        if x[0] > 0 and x[-1] / x[0] > WIDE:
            axes.set_xscale("log")
            mark_values(axes, x, [f"{value:g}" for value in x])
    for axes in figure.axes[:: len(summary.METRICS)]:
        axes.set_ylabel("change of the median [%]")
    legend_above(figure, *figure.axes[0].get_legend_handles_labels())
    name = quantity.split(" [")[0]
    caption = (
        f"Median times against the {name}, relative to {baseline}. Values below 0 are faster. Each point is the mean "
        f"over {result.replicates.name(2)}, and bars are 95 % t intervals."
    )
    return Picture("families", f"Median times against the {name}", caption, figure, " ".join(said))


def _changes(result: Result, variants: tuple[str, str], workload: str, metric: Metric) -> list[float]:
    """The change of the median from the first variant to the second one [%], for each replicate that has both."""
    before, after = (
        summary.counted(result.transfers, variant=variant, workload=workload)
        .drop_nulls(metric.column)
        .group_by(RUN)
        .agg(pl.col(metric.column).median().alias(name))
        for variant, name in zip(variants, ("before", "after"), strict=True)
    )
    runs = before.join(after, on=RUN).sort(RUN)
    averaged = result.replicates.average(runs)
    return (100 * (averaged["after"] / averaged["before"] - 1)).to_list()
