"""Times over a quantity that differs between the variants, as in figure 13 of the EWMA paper."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from penstock import stats, summary
from penstock.figures.picture import Picture
from penstock.figures.style import COLOURS, WIDE, legend_above, mark_values, time_panels
from penstock.result import Result

QUANTILES = ((0.75, "75th percentile"), (0.5, "median"), (0.25, "25th percentile"))

LEAST = 3
"""The smallest number of values."""

_LABEL = re.compile(r"\D*?(\d+(?:\.\d+)?)\D*")


class Sweep(NamedTuple):
    """Variants that differ in one quantity."""

    quantity: str
    """The label of the axis, which is the label of a variant without the number."""
    values: dict[str, float]
    """The quantity of each of these variants."""
    others: dict[str, str]
    """Names and labels of the other variants."""


def find(variants: Mapping[str, str]) -> Sweep | None:
    """The quantity in labels such as `half-life 10 s` and `half-life 20 s`, if there is one."""
    alike: dict[str, dict[str, float]] = {}
    for name, label in variants.items():
        match = _LABEL.fullmatch(label)
        if match:
            before, after = label[: match.start(1)].strip(" ="), label[match.end(1) :].strip()
            quantity = f"{before} [{after}]" if before and after else before or after
            alike.setdefault(quantity, {})[name] = float(match[1])
    quantity = max(alike, key=lambda each: len(alike[each]), default="")
    if len(set(alike.get(quantity, {}).values())) < LEAST:
        return None
    values = dict(sorted(alike[quantity].items(), key=lambda each: each[1]))
    return Sweep(quantity, values, {name: label for name, label in variants.items() if name not in values})


def draw(result: Result) -> Picture | None:
    """One row of panels per workload: quartiles of the time to first byte and of the download time."""
    sweep = find(result.variants)
    if sweep is None:
        return None
    workloads = summary.workloads(result.transfers, summary.counted(result.transfers))
    if not workloads:
        return None
    figure, panels = time_panels(workloads, sweep.quantity)
    x = list(sweep.values.values())
    for axes, workload, metric in panels:
        samples = {v: summary.sample(result.transfers, v, workload, metric).to_numpy() for v in result.variants}
        for (q, label), colour in zip(QUANTILES, COLOURS, strict=False):
            y = [stats.quantile(samples[variant], q) for variant in sweep.values]
            axes.plot(x, y, "o-", color=colour, markersize=3.5, linewidth=1.5, label=label)
            for other in sweep.others:
                axes.axhline(stats.quantile(samples[other], q), color=colour, linestyle="--", linewidth=0.9)
        axes.set_ylim(bottom=0)
        if x[0] > 0 and x[-1] / x[0] > WIDE:
            axes.set_xscale("log")
            mark_values(axes, x, [f"{value:g}" for value in x])
    legend_above(figure, *figure.axes[0].get_legend_handles_labels())
    beside = f" Dashed lines show {', '.join(sweep.others.values())}." if sweep.others else ""
    caption = (
        f"Download times against the {sweep.quantity.split(' [')[0]}. Half of the downloads lie between the outer "
        f"curves. The figure uses all complete downloads of all runs that began after the warm-up.{beside}"
    )
    return Picture("sweep", f"Download times against the {sweep.quantity.split(' [')[0]}", caption, figure)
