"""Draws EWMA's figures 4 to 6, the life of a small download's cells in the middle relay, beside ours.

    penstock run ewma/bulk-and-small --variant off --variant all --set 'run.seeds=[1]' --out small
    python benches/cell_life.py small docs/images/ewma-cell-life.png

The picture is part of docs/validation/ewma.md. The paper shows one download of each kind, and ours is the first one
after the warm-up. docs/data/ewma/cell-life.csv has the paper's points, read from its vector graphics.
"""

import argparse
from pathlib import Path

import polars as pl
from figures_over_time import cells_of_page
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock.result import Result

PAPER = Path(__file__).parents[1] / "docs" / "data" / "ewma" / "cell-life.csv"
VARIANTS = {"4": "off", "5": "all"}
"""The variant of each figure."""
LINES = {"queued": "enters the circuit queue", "outbuf": "enters the output buffer", "left": "leaves the output buffer"}
WAITS = {"unprioritized": "off", "prioritized": "all"}
"""The variant of each line of figure 6."""
COLORS = ("tab:green", "tab:blue", "tab:red")


def life(result: Result, variant: str) -> pl.DataFrame:
    """The cells of a download in the middle relay: `queued`, `outbuf` and `left`, since the first cell came [s]."""
    since = {"queued": "queued_ns", "outbuf": "outbuf_ns", "left": "kernel_ns"}
    return cells_of_page(result, variant, "middle").select(
        (pl.col(at) - pl.col("queued_ns").first()).truediv(1e9).alias(name) for name, at in since.items()
    )


def draw(axes: Axes, paper: pl.DataFrame, ours: tuple[pl.Series, pl.Series], label: str, color: str) -> None:
    """The points of a line of the paper, and our line: x and y."""
    axes.plot(paper["x"], paper["y"], "x", color=color, markersize=3, label=f"{label}, the paper")
    axes.plot(*ours, "-", color=color, label=label)
    axes.set_xlabel("cell enters the circuit queue [s]")
    axes.grid(alpha=0.3)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the output of ewma/bulk-and-small")
    parser.add_argument("png", type=Path)
    asked = parser.parse_args()
    result = Result(asked.run)
    paper = pl.read_csv(PAPER, schema_overrides={"figure": pl.String})
    lives = {variant: life(result, variant) for variant in VARIANTS.values()}
    figure = Figure(figsize=(13, 4), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, (number, variant) in zip(panels, VARIANTS.items(), strict=False):
        for (line, label), color in zip(LINES.items(), COLORS, strict=True):
            ours = lives[variant]["queued"], lives[variant][line]
            draw(axes, paper.filter(figure=number, line=line), ours, label, color)
        axes.set(title=f"{number}: {result.variants[variant]}", ylabel="time [s]", ylim=(0, 2.6))
    for (line, variant), color in zip(WAITS.items(), COLORS, strict=False):
        ours = lives[variant]["queued"], lives[variant]["outbuf"] - lives[variant]["queued"]
        draw(panels[2], paper.filter(figure="6", line=line), ours, line, color)
    panels[1].legend(fontsize="small", loc="upper left")
    panels[2].set(title="6: wait in the circuit queue", ylabel="wait [s]", ylim=(0, 1.9))
    panels[2].legend(fontsize="small", loc="upper right")
    figure.savefig(asked.png, dpi=110)


if __name__ == "__main__":
    main()
