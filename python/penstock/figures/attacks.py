"""Figures of attacks: the throughput of a probe (throttling, figure 4(a)) and of a target of modulation."""

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from numpy.typing import NDArray

from penstock.attacks import probe, wave
from penstock.figures import words
from penstock.figures.picture import Picture
from penstock.figures.style import curve_styles, grid_of, legend_above
from penstock.replicates import first_run
from penstock.result import Result

PROBE = "probe"
"""The name of the probing workload."""
TARGET = "target"
"""The name of the workload with modulated throughput."""
PROBE_BIN, TARGET_BIN = 5.0, 1.0
"""The intervals of throughput for probe and target [s]. The first one hides refills once a second."""
SHOWN = 6
"""The number of periods that a figure shows."""


def draw_probe(result: Result) -> Picture | None:
    """The throughput of the probe over time in the first seed, under each variant."""
    cells = result.cells.filter(workload=PROBE, hop="client")
    if cells.is_empty():
        return None
    figure, [[axes]] = grid_of(1, 1, 7.2, 3.2)
    handles: list[Artist] = []
    middle: dict[str, str] = {}
    styles = curve_styles(result.variants)
    for name, style in styles.items():
        at, rate = _throughput(cells, name, PROBE_BIN)
        handles += axes.step(at, rate, where="post", color=style.colour, linestyle=style.line, linewidth=1.5)
        middle[style.label] = f"{np.median(rate) if len(rate) else 0:.0f} KiB/s"
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=1)
    axes.set_xlabel("time [s]")
    axes.set_ylabel("throughput [KiB/s]")
    legend_above(figure, handles, [style.label for style in styles.values()])
    alt = f"Median throughput of the probe: {words.listed(middle)}."
    caption = (
        f"Payload that reached the probing client in intervals of {PROBE_BIN:g} s, in the first seed. The y axis is "
        "logarithmic. The guard throttles the client only after the burst of 2 MiB."
    )
    return Picture("probe", "Throughput of a probe of a guard", caption, figure, alt)


def draw_wave(result: Result) -> Picture | None:
    """A target's throughput during the attackers' wave in the first seed, and the share of confirmed guards."""
    cells = result.cells.filter(workload=TARGET, hop="client")
    made = [wave.find(run) for _, run in first_run(result.paths).group_by("variant", maintain_order=True)]
    there = next((each for each in made if each is not None), None)
    if cells.is_empty() or there is None:
        return None
    styles = curve_styles(result.variants)
    names = list(styles)
    of_all = {name: wave.targets(result, name, TARGET, "client") for name in names}
    most_similar = max(names, key=lambda name: of_all[name]["correlation"].mean() or 0.0)
    shown = list(dict.fromkeys([names[0], most_similar]))
    figure, [[over_time, found]] = grid_of(1, 2, 5.2, 3.4)
    handles: list[Artist] = []
    begin, most = float(there.begins[0]), 0.0
    for name in shown:
        at, rate = _throughput(cells, name, TARGET_BIN)
        style = styles[name]
        handles += over_time.step(at, rate, where="post", color=style.colour, linestyle=style.line, linewidth=1.3)
        most = max(most, float(np.quantile(rate[at > begin], 0.99, method="higher")) if (at > begin).any() else 0.0)
    for k in range(SHOWN):
        on = begin + k * there.period
        over_time.axvspan(on, on + there.period / 2, color="#eeeeee", zorder=0)
    over_time.set_xlim(begin - there.period / 2, begin + SHOWN * there.period)
    over_time.set_ylim(0, 1.15 * most)
    over_time.set_xlabel("time [s]")
    over_time.set_ylabel("throughput [KiB/s]")
    over_time.set_title("(a) the target; grey: connections open")
    share = [of_all[name].filter(pl.col("p") < wave.SIGNIFICANT).height / max(of_all[name].height, 1) for name in names]
    found.barh(range(len(names)), share, color=[styles[name].colour for name in names], height=0.6)
    found.set_yticks(range(len(names)), [styles[name].label for name in names])
    found.invert_yaxis()
    found.set_xlim(0, 1)
    found.set_xlabel("fraction of runs, p < 0.01")
    found.set_title("(b) the guard is confirmed")
    legend_above(figure, handles, [styles[name].label for name in shown])
    confirmed = {styles[name].label: f"{part:.0%}" for name, part in zip(names, share, strict=True)}
    alt = f"Runs in which the guard is confirmed: {words.listed(confirmed)}."
    caption = (
        "(a) Payload that reached the target in each second of the first seed, for the first variant and the variant "
        "with the highest correlation. (b) The fraction of runs in which the throughput in half periods correlates "
        "with the wave. A variant without attacking connections is compared with the wave of the other variants."
    )
    return Picture("wave", "A guard modulated with connections", caption, figure, alt)


def _throughput(cells: pl.DataFrame, variant: str, width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The start of each interval in the first seed [s], and the rate in it [KiB/s]."""
    times = probe.arrivals(first_run(cells.filter(variant=variant)), "client")
    edges = np.arange(0.0, (times[-1] if len(times) else 0.0) + width, width)
    counts, _ = np.histogram(times, edges)
    return edges[:-1], counts * probe.PAYLOAD / width / 1024
