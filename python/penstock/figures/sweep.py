"""Times over a quantity that differs between the variants, as in figure 13 of the EWMA paper."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from penstock import stats, summary
from penstock.figures import words
from penstock.figures.ordered import Sweep, find_all
from penstock.figures.picture import Picture
from penstock.figures.style import COLOURS, WIDE, legend_above, mark_values, time_panels
from penstock.result import Result
from penstock.summary import Metric
from penstock.tables import seconds

QUANTILES = ((0.75, "75th percentile"), (0.5, "median"), (0.25, "25th percentile"))


def draw(result: Result) -> Picture | None:
    """One row of panels per workload: quartiles of the time to first byte and of the download time."""
    sweeps = find_all(result.variants)
    workloads = summary.workloads(result.transfers, summary.counted(result.transfers)) if sweeps else []
    if not workloads:
        return None
    if len(sweeps) > 1:
        return _several(result, sweeps, workloads)
    sweep = sweeps[0]
    figure, panels = time_panels(workloads, sweep.quantity)
    x = list(sweep.values.values())
    said: list[str] = []
    for axes, workload, metric in panels:
        samples = {v: summary.sample(result.transfers, v, workload, metric).to_numpy() for v in result.variants}
        for (q, label), colour in zip(QUANTILES, COLOURS, strict=False):
            y = [stats.quantile(samples[variant], q) for variant in sweep.values]
            axes.plot(x, y, "o-", color=colour, markersize=3.5, linewidth=1.5, label=label)
            for other, name in sweep.others.items():
                axes.axhline(
                    stats.quantile(samples[other], q), color=colour, linestyle="--", linewidth=0.9,
                    label=f"{label}, {name}",
                )  # fmt: skip
        said.append(_sentence(result, workload, metric, {v: stats.quantile(samples[v], 0.5) for v in samples}))
        axes.set_ylim(bottom=0)
        if x[0] > 0 and x[-1] / x[0] > WIDE:
            axes.set_xscale("log")
            mark_values(axes, x, [f"{value:g}" for value in x])
    legend_above(figure, *figure.axes[0].get_legend_handles_labels())
    caption = (
        f"Download times against the {sweep.quantity.split(' [')[0]}. Half of the downloads lie between the outer "
        f"curves. The figure uses all complete downloads of all runs that began after the warm-up."
    )
    return Picture(
        "sweep", f"Download times against the {sweep.quantity.split(' [')[0]}", caption, figure, " ".join(said)
    )


def _several(result: Result, sweeps: Sequence[Sweep], workloads: Sequence[str]) -> Picture:
    """The medians of several quantities, each with a curve; all other variants are horizontal lines."""
    units = list(dict.fromkeys(sweep.quantity.partition(" [")[2].rstrip("]") for sweep in sweeps))
    figure, panels = time_panels(workloads, f"value [{units[0]}]" if len(units) == 1 else "value")
    said: list[str] = []
    for axes, workload, metric in panels:
        middle = {
            name: stats.quantile(summary.sample(result.transfers, name, workload, metric).to_numpy(), 0.5)
            for name in result.variants
        }
        for sweep, colour in zip(sweeps, cycle(COLOURS)):
            label, x = sweep.quantity.partition(" [")[0], list(sweep.values.values())
            axes.plot(x, [middle[name] for name in sweep.values], "o-", color=colour, markersize=3.5, label=label)
        for name, label in sweeps[0].others.items():
            axes.axhline(middle[name], color=COLOURS[-1], linestyle="--", linewidth=0.9, label=label)
        said.append(_sentence(result, workload, metric, middle))
        axes.set_ylim(bottom=0)
    legend_above(figure, *figure.axes[0].get_legend_handles_labels())
    caption = "Median times of all complete downloads of all runs that began after the warm-up."
    return Picture("sweep", "Median times against several quantities", caption, figure, " ".join(said))


def _sentence(result: Result, workload: str, metric: Metric, medians: Mapping[str, float]) -> str:
    """The medians of all variants, for a reader who does not see the figure."""
    times = {result.variants[name]: seconds(time) for name, time in medians.items()}
    return f"Median {metric.title} of {workload}: {words.listed(times)}."
