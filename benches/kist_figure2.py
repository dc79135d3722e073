"""Draws figures 2a and 2b of KIST beside the simulator's, for docs/validation/tcp.md.

    penstock run kist/tcp-loss --out runs/loss
    penstock run kist/cubic-window --variant lan --out runs/window
    python benches/kist_figure2.py runs/loss runs/window [--figure FILE] [--markdown PAGE]

Figure 2a: the time of a download of 100 MiB against the rate of loss. Figure 2b: the congestion window of one download
over time. docs/data/kist/figure-2.csv has the paper's curves, read from the vector graphics of its public PDF, and
docs/data/kist/shadow-1.9.0.csv the times of Shadow's own TCP at two round trips (2026-11-28).
"""

import argparse
from itertools import pairwise
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes

from penstock import generated
from penstock.figures import style
from penstock.result import Result

DATA = Path(__file__).parent.parent / "docs/data/kist"

PROFILES = {
    "linux-3.2": {f"loss-{percent}": percent for percent in range(11)},
    "shadow-1.9": {"shadow-loss-1": 1.0, "shadow-loss-2-5": 2.5, "shadow-loss-5": 5.0, "shadow-loss-10": 10.0},
}
"""The rates of loss [%] of the variants of `kist/tcp-loss`, by TCP profile."""

SECONDS = 8.5
"""The part of figure 2b that is compared. Our download ends soon after it."""

Points = list[tuple[float, float]]


def published(panel: str, curve: str) -> Points:
    """The points of a curve of the paper."""
    return [row[2:] for row in pl.read_csv(DATA / "figure-2.csv").rows() if row[:2] == (panel, curve)]


def original(rtt: int) -> Points:
    """The mean time of a download [s] with the files of Shadow 1.9.0 at this round trip [ms]."""
    return [row[1:] for row in pl.read_csv(DATA / "shadow-1.9.0.csv").rows() if row[0] == rtt]


def times(output: Path, profile: str) -> Points:
    """The mean time of a download [s] at each rate of loss [%]."""
    means = dict(Result(output).transfers.group_by("variant").agg(pl.col("ttlb_s").mean()).iter_rows())
    return [(float(loss), means[variant]) for variant, loss in PROFILES[profile].items()]


def window(output: Path) -> Points:
    """The server's congestion window [segments] over time [s] in the variant `lan`."""
    rows = Result(output).circuits.filter(pl.col("hop") == "server", pl.col("t_s") <= SECONDS, variant="lan")
    return list(rows.sort("t_s").select("t_s", "cwnd_segments").drop_nulls().iter_rows())


def teeth(points: Points) -> Points:
    """The seconds from each loss to the next one, and the largest window between them. The first second is left out.

    A window can fall in several samples, which are one loss.
    """
    found: Points = []
    last, top = None, 0.0
    for (_, before), (at, after) in pairwise(points):
        top = max(top, before)
        if at > 1 and after < 0.8 * top and before >= after:
            if last is not None:
                found.append((at - last, top))
            last, top = at, after
    return found


def draw(losses: Path, windows: Path, path: Path) -> None:
    """Both panels. Dashed curves are the paper's, and dotted ones those of Shadow's own TCP."""
    figure, [row] = style.grid_of(1, 2, 3.6, 2.8)
    panels: list[tuple[Axes, str, str, list[tuple[str, Points, str]]]] = [
        (row[0], "2a: download of 100 MiB", "packet loss [%]", [
            ("Penstock, shadow-1.9", times(losses, "shadow-1.9"), "Shadow"),
            ("Penstock, linux-3.2", times(losses, "linux-3.2"), "ns"),
        ]),
        (row[1], "2b: congestion window", "time [s]", [("Penstock, linux-3.2", window(windows), "Linux")]),
    ]  # fmt: skip
    for axes, title, x, curves in panels:
        for label, ours, theirs in curves:
            colour, _, _ = style.category_style(("Shadow", "ns", "Linux").index(theirs))
            axes.plot(*zip(*ours, strict=True), color=colour, label=label)
            paper = published(title[:2], theirs)
            axes.plot(*zip(*paper, strict=True), color=colour, linestyle="--", label=f"the paper, {theirs}")
        for rtt, number in ((10, 2), (16, 3)) if axes is row[0] else ():
            colour, _, _ = style.category_style(number)
            axes.plot(*zip(*original(rtt), strict=True), color=colour, linestyle=":", label=f"Shadow 1.9.0, {rtt} ms")
        axes.set_title(title)
        axes.set_xlabel(x)
        axes.set_ylim(0, 1200 if axes is row[0] else None)
        axes.legend(fontsize=6)
    row[0].set_xlim(0, 10.5)
    row[0].set_ylabel("time [s]")
    row[1].set_ylabel("segments")
    figure.savefig(path, dpi=150)


def table(losses: Path, windows: Path) -> str:
    """Figure 2a at the paper's points, and the teeth of figure 2b."""
    curves = {
        "paper: Shadow [s]": dict(published("2a", "Shadow")),
        "Shadow 1.9.0, 16 ms": dict(original(16)),
        "Shadow 1.9.0, 10 ms": dict(original(10)),
        "profile `shadow-1.9`": dict(times(losses, "shadow-1.9")),
        "paper: ns [s]": dict(published("2a", "ns")),
        "profile `linux-3.2`": dict(times(losses, "linux-3.2")),
    }
    rows = [
        [f"{loss:g} %", *(f"{curve[loss]:.0f}" if loss in curve else "" for curve in curves.values())]
        for loss in (1.0, 2.5, 5.0, 10.0)
    ]
    teeth_of = [
        [name, f"{min(gaps):.2f} to {max(gaps):.2f} s", f"{min(tops):.0f} to {max(tops):.0f}"]
        for name, points in {
            "paper: Shadow": published("2b", "Shadow"),
            "paper: Linux": published("2b", "Linux"),
            "profile `linux-3.2`": window(windows),
        }.items()
        for gaps, tops in [tuple(zip(*teeth(points), strict=True))]
    ]
    return "\n\n".join(
        (
            generated.table(["loss", *curves], rows),
            generated.table(["figure 2b", "period", "segments before a loss"], teeth_of),
        )
    )


def main() -> None:
    """Prints the tables, and writes the figure and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("losses", type=Path, help="an output of kist/tcp-loss")
    parser.add_argument("windows", type=Path, help="an output of kist/cubic-window")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    if asked.figure:
        draw(asked.losses, asked.windows, asked.figure)
    text = table(asked.losses, asked.windows)
    print(text)
    if asked.markdown:
        generated.write(asked.markdown, "benches/kist_figure2.py", text)


if __name__ == "__main__":
    main()
