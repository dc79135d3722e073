"""Draws the gains of EWMA's figures 7 to 9, 13 and 14 beside ours, for docs/validation/ewma.md.

    penstock run ewma/half-life --runs 5 --out one
    penstock run ewma/half-life-queue --runs 5 --out queue
    python benches/ewma_gains.py one queue docs/images/ewma-gains.png

The paper measured over the public network, so its times are not ours, and the picture has relative changes. Those of
the paper are in docs/data/ewma/gains.csv: at five shares of the downloads (figures 7 to 9 and 14), and of the median
at eight half-lives (figure 13). Ours of figures 7 to 9 and 14 are from `make live-priorities`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from live_priorities import at, change, prepared
from matplotlib import rc_context
from matplotlib.axes import Axes

from penstock import stats
from penstock.figures import style
from penstock.result import Result

DATA = Path(__file__).parents[1] / "docs" / "data" / "ewma"
HALF_LIVES = (1.5, 4.5, 10, 33, 99)
"""The labelled half-lives [s]."""
Gain = tuple[float, float, float]
"""The mean of relative changes, and their 95 % interval."""


def live(rows: pl.DataFrame, column: str) -> Callable[[float], Gain]:
    """The change of the download time at a share of the downloads, over the rounds of live relays."""

    def of_share(share: float) -> Gain:
        found = change(rows, column, at(share))
        return found.mean, found.low, found.high

    return of_share


def simulated(result: Result) -> Callable[[float], Gain]:
    """The change of the median small download with a half-life [s], over seeds."""
    small = result.transfers.filter(pl.col("workload") == "small", pl.col("outcome") == "ok", ~pl.col("warmup"))
    medians = {
        (variant, seed): stats.quantile(group["ttlb_s"].to_numpy(), 0.5)
        for (variant, seed), group in small.group_by("variant", "seed", maintain_order=True)
    }

    def of_half_life(seconds: float) -> Gain:
        found = [
            time / medians["off", seed] - 1 for (variant, seed), time in medians.items() if variant == f"{seconds:g}s"
        ]
        return stats.mean_interval(found)

    return of_half_life


def draw(axes: Axes, title: str, paper: pl.DataFrame, ours: dict[str, Callable[[float], Gain]]) -> None:
    """The paper's changes, and ours at the same places."""
    places = paper["at"].to_list()
    axes.set_title(title)
    axes.plot(places, 100 * paper["change"], "x--", color="tab:gray", label="the paper")
    for place, (label, gain) in enumerate(ours.items()):
        means, lows, highs = 100 * np.array([gain(each) for each in places]).T
        colour, line, marker = style.category_style(place)
        axes.plot(places, means, color=colour, linestyle=line, marker=marker, label=label)
        axes.fill_between(places, lows, highs, color=colour, alpha=0.16)
    axes.axhline(0, color="black", linewidth=0.6)


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("one", type=Path, help="the output of ewma/half-life")
    parser.add_argument("queue", type=Path, help="the output of ewma/half-life-queue")
    parser.add_argument("png", type=Path)
    asked = parser.parse_args()
    paper = pl.read_csv(DATA / "gains.csv").partition_by("figure", as_dict=True, include_key=False)
    rows = prepared(pl.read_csv(DATA / "live-downloads.csv"))
    files, onion = pl.col("load") != "onion", (pl.col("load") == "onion") & pl.col("is_first")
    panels = {
        7: ("7: both loads", {"none": files}, "last_byte_s"),
        8: ("8: low load", {"none": pl.col("load") == "low"}, "last_byte_s"),
        9: ("9: high load", {label: pl.col("load") == "high" for label in ("none", "uplink")}, "last_byte_s"),
        14: ("14: onion service, new circuit", {"none": onion}, "connected_s"),
    }
    labels = {"none": "live relays", "uplink": "live, slow only when sending"}
    half_lives = {
        "ewma/half-life": simulated(Result(asked.one)),
        "ewma/half-life-queue": simulated(Result(asked.queue)),
    }
    with rc_context(style.RC):
        figure, grid = style.grid_of(2, 3, 2.9, 2.4)
        cells = [axes for row in grid for axes in row]
        for axes, (number, (title, factors, column)) in zip(cells, panels.items(), strict=False):
            ours = {
                labels[factor]: live(rows.filter(which, pl.col("factor") == factor), column)
                for factor, which in factors.items()
            }
            draw(axes, title, paper[(number,)], ours)
            axes.set(xlabel="share of the downloads", ylabel="change [%]")
        draw(cells[4], "13: half-life", paper[(13,)], half_lives)
        cells[4].set(xlabel="half-life [s]", ylabel="change [%]", xscale="log")
        cells[4].set_xticks(HALF_LIVES, [f"{each:g}" for each in HALF_LIVES])
        cells[4].minorticks_off()
        cells[5].set_axis_off()
        for place, axes in ((0.75, cells[2]), (0.35, cells[4])):
            cells[5].add_artist(
                cells[5].legend(
                    *axes.get_legend_handles_labels(), loc="center", bbox_to_anchor=(0.5, place), frameon=False
                )
            )
        figure.savefig(asked.png, dpi=150)


if __name__ == "__main__":
    main()
