"""Families of sweeps: variants with labels such as `39 circuits: half-life 10 s` and `39 circuits: no priorities`."""

from math import isfinite
from typing import NamedTuple

import polars as pl
from matplotlib.axes import Axes

from penstock import stats, summary
from penstock.figures.ordered import Sweep, find
from penstock.figures.picture import Picture
from penstock.figures.style import WIDE, category_style, grid_of, legend_above, letters, mark_values
from penstock.replicates import RUN
from penstock.result import Result
from penstock.summary import METRICS

LEAST = 2
"""The smallest number of families."""

DOWNLOAD = METRICS[-1]
"""The time that the figure shows."""

QUANTILES = ((0.5, "median"), (0.9, "90th percentile"))
"""The panels of a row. A long half-life starves a few circuits, which a median hides."""


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
    """The change of download times against the baseline of each family, over the quantity."""
    found = families(result)
    workloads = summary.workloads(result.transfers, summary.counted(result.transfers)) if found else []
    if not workloads:
        return None
    first = next(iter(found.values()))
    quantity, baseline = first.sweep.quantity, first.sweep.others[first.baseline]
    name = quantity.split(" [")[0]
    figure, panels = grid_of(len(workloads), len(QUANTILES), 4.4, 2.9, sharex=True)
    said: list[str] = []
    letter = letters()
    for workload, row in zip(workloads, panels, strict=True):
        row[0].set_ylabel("change [%]")
        for (q, title), axes in zip(QUANTILES, row, strict=True):
            axes.set_title(f"({next(letter)}) {workload}: {title} of the {DOWNLOAD.title}")
            axes.axhline(0, color="#777777", linewidth=0.9)
            for place, (label, family) in enumerate(found.items()):
                y = _line(axes, result, label, family, place, workload, q)
                if y:
                    best = min(y, key=lambda value: y[value])
                    said.append(f"{workload}, {label}: {title} {y[best]:+.0f} % at best, at {best:g}.")
    x = list(first.sweep.values.values())
    for axes in figure.axes:
        if x[0] > 0 and x[-1] / x[0] > WIDE:
            axes.set_xscale("log")
            mark_values(axes, x, [f"{value:g}" for value in x])
    for axes in panels[-1]:
        axes.set_xlabel(quantity)
    legend_above(figure, *figure.axes[0].get_legend_handles_labels())
    caption = (
        f"{DOWNLOAD.title.capitalize()}s against the {name}, relative to {baseline}. Values below 0 are faster. Each "
        f"point is the mean over {result.replicates.name(2)}, and bars are 95 % t intervals."
    )
    return Picture("families", f"{DOWNLOAD.title.capitalize()}s against the {name}", caption, figure, " ".join(said))


def _line(
    axes: Axes, result: Result, label: str, family: Family, place: int, workload: str, q: float
) -> dict[float, float]:
    """Draw the line of a family. Returns the known changes [%] by the value of the quantity."""
    colour, line, marker = category_style(place)
    x = list(family.sweep.values.values())
    pairs = [(family.baseline, variant) for variant in family.sweep.values]
    y, low, high = zip(*(stats.mean_interval(_changes(result, pair, workload, q)) for pair in pairs), strict=True)
    axes.plot(x, y, marker=marker or ".", color=colour, linestyle=line, linewidth=1.4, markersize=4, label=label)
    axes.vlines(x, low, high, color=colour, linewidth=1)
    return {value: change for value, change in zip(x, y, strict=True) if isfinite(change)}


def _changes(result: Result, variants: tuple[str, str], workload: str, q: float) -> list[float]:
    """The change of a quantile from the first variant to the second one [%], for each replicate that has both."""
    before, after = (
        summary.counted(result.transfers, variant=variant, workload=workload)
        .drop_nulls(DOWNLOAD.column)
        .group_by(RUN)
        .agg(pl.col(DOWNLOAD.column).quantile(q, "linear").alias(name))
        for variant, name in zip(variants, ("before", "after"), strict=True)
    )
    averaged = result.replicates.average(before.join(after, on=RUN))
    return (100 * (averaged["after"] / averaged["before"] - 1)).to_list()
