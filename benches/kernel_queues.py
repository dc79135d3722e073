"""Draws where cells wait in middle relays of C tor and of Penstock, as in figure 3 of KIST.

    python kernel_queues.py docs/data/kist/kernel-queues.csv [--figures FOLDER] [--markdown FILE]

`make kernel-queues` writes the percentiles in the CSV.
"""

import argparse
from pathlib import Path

import polars as pl
from matplotlib.lines import Line2D

from penstock import generated
from penstock.figures import style
from penstock.paper import curves

STATIONS = {"kernel in": "kernel, incoming", "relay": "relay", "kernel out": "kernel, outgoing"}
MEASURES = {"kernel_in_s": "kernel in", "tor_s": "relay", "kernel_out_s": "kernel out"}
"""The stations of the paper's curves."""
RELAYS = {1: "curiosity1", 10: "curiosity2", 50: "curiosity3"}
"""The paper's relays with vanilla Tor, by the rate of their link [Mbit/s]."""
BOUND = 1.0
"""In the paper, over 95 % of the waits in the incoming kernel and in Tor are below this [ms] (section 4.1)."""


def draw(rows: pl.DataFrame, scheduler: str, path: Path) -> None:
    """One panel for each program and link rate, with a distribution of waits for each station; the paper's are thin."""
    published = [curve for curve in curves.load("kist") if curve.is_of("3") and scheduler == "vanilla"]
    rows = rows.filter(pl.col("scheduler") == scheduler)
    programs = rows["program"].unique(maintain_order=True).to_list()
    rates = rows["link_mbit"].unique(maintain_order=True).to_list()
    figure, grid = style.grid_of(len(programs), len(rates), 2.8, 2.3, sharex=True, sharey=True)
    for axes_row, program in zip(grid, programs, strict=True):
        for axes, rate in zip(axes_row, rates, strict=True):
            here = rows.filter((pl.col("program") == program) & (pl.col("link_mbit") == rate))
            for place, (station, label) in enumerate(STATIONS.items()):
                waits = here.filter(pl.col("wait") == station)
                if waits.is_empty():
                    continue
                colour, dash, _ = style.category_style(place)
                axes.plot(
                    waits["wait_ms"].clip(1e-3), waits["percentile"] / 100, color=colour, linestyle=dash, label=label
                )
            for curve in published:
                if curve.variant == RELAYS[rate]:
                    colour, dash, _ = style.category_style([*STATIONS].index(MEASURES[curve.panel.measure]))
                    waits_ms = [1e3 * value for value in curve.values]
                    axes.plot(waits_ms, curve.shares, color=colour, linestyle=dash, linewidth=0.8, alpha=0.6)
            axes.set_xscale("log")
            axes.axvline(BOUND, color="0.6", linewidth=0.8)
            axes.set_title(f"{program}, {rate} Mbit/s", fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("wait [ms]")
    for axes_row in grid:
        axes_row[0].set_ylabel("part of the waits")
    handles, labels = grid[-1][0].get_legend_handles_labels()
    if published:
        handles.append(Line2D([], [], color="gray", linewidth=0.8))
        labels.append("thin: the paper's relays")
    style.legend_above(figure, handles, labels)
    figure.savefig(path, dpi=150)


def table(rows: pl.DataFrame) -> str:
    """A row for each relay and station: percentiles, and the part of the waits below a millisecond."""
    head = ["scheduler", "program", "link [Mbit/s]", "sent [Mbit/s]", "wait", "median [ms]", "95 % [ms]", "99 % [ms]"]
    keys = ["scheduler", "program", "link_mbit", "sent_mbit", "wait", "below_1ms", "waits"]
    lines = []
    for (scheduler, program, rate, sent, station, below, count), group in rows.group_by(keys, maintain_order=True):
        waits = dict(zip(group["percentile"], group["wait_ms"], strict=True))
        times = [f"{waits[at]:.2f}" for at in (50, 95, 99)]
        lines.append([scheduler, program, str(rate), f"{sent:.2f}", station, *times, f"{below:.1%}", str(count)])
    return generated.table([*head, "below 1 ms", "waits"], lines)


def main() -> None:
    """Reads the percentiles, and writes the figures and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path)
    parser.add_argument("--figures", type=Path, default=Path("docs/images"), help="the folder of the figures")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    rows = pl.read_csv(args.csv)
    for scheduler in rows["scheduler"].unique(maintain_order=True):
        draw(rows, scheduler, args.figures / f"kist-figure3-{scheduler}.png")
    text = table(rows)
    print(text)
    if args.markdown:
        generated.write(args.markdown, "make kernel-queues", text)


if __name__ == "__main__":
    main()
