"""Draws DefenestraTor's figures over time (2, 6 and 9) beside ours, for docs/validation/defenestrator.md.

    penstock run defenestrator/fitted --set 'run.seeds=[1]' --out fitted
    penstock run defenestrator/fitted-n23 --set 'run.seeds=[1]' --out fitted-n23
    python benches/figures_over_time.py fitted fitted-n23 docs/images/windows-over-time.png

The paper shows one download of each. Ours are the first bulk download after the warm-up for figures 6 and 9, and the
first page for figure 2. docs/data/defenestrator/over-time.csv has the paper's points, read from its vector graphics.
"""

import argparse
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock.result import Result

PAPER = Path(__file__).parents[1] / "docs" / "data" / "defenestrator" / "over-time.csv"
QUEUES = {"6a": "stock", "6b": "50KiB", "6c": "dynamic", "9": "n23-70-20"}
"""The variants of the figures of the exit's circuit queue."""
INTERVAL_S = 1.0
"""The paper has a sample a second."""


def first_download(result: Result, variant: str, workload: str) -> dict[str, float]:
    """The first complete download of a workload after the warm-up."""
    downloads = result.transfers.filter(variant=variant, workload=workload, outcome="ok", warmup=False)
    return downloads.sort("start_s").row(0, named=True)


def queue(result: Result, variant: str) -> pl.DataFrame:
    """The cells in the exit's circuit queue during a bulk download: columns `x` [s] and `y`."""
    download = first_download(result, variant, "bulk")
    samples = result.circuits.filter(variant=variant, workload="bulk", hop="exit").sort("t_s")
    during = samples.filter(pl.col("t_s").is_between(download["start_s"], download["start_s"] + download["ttlb_s"]))
    once = during.filter((pl.col("t_s") / INTERVAL_S).round(3) % 1 == 0)
    return once.select(x=pl.col("t_s") - download["start_s"], y="queue_cells")


def cells_of_page(result: Result, variant: str, hop: str) -> pl.DataFrame:
    """The cells of the first page after the warm-up at a relay, in the order in which they joined its circuit queue."""
    page = first_download(result, variant, "web")
    start, end = (int(1e9 * at) for at in (page["start_s"], page["start_s"] + page["ttlb_s"]))
    circuit = {key: page[key] for key in ("network", "seed", "circuit")}
    cells = result.cells.filter(variant=variant, workload="web", hop=hop, **circuit).sort("queued_ns")
    return cells.filter(pl.col("queued_ns").is_between(start, end))


def waits(result: Result, variant: str) -> pl.DataFrame:
    """The wait of each cell of a page in the exit's circuit queue: columns `x`, the number of the cell, and `y` [s]."""
    return cells_of_page(result, variant, "exit").select(x=pl.col("cell") - pl.col("cell").first(), y="circuit_queue_s")


def draw(axes: Axes, points: pl.DataFrame, figure: str, ours: pl.DataFrame, title: str) -> None:
    """The paper's points and ours."""
    paper = points.filter(figure=figure)
    axes.plot(paper["x"], paper["y"], "x", color="tab:gray", markersize=4, label="the paper")
    axes.plot(ours["x"], ours["y"], ".", color="tab:blue", markersize=4, label="Penstock")
    axes.set_title(f"{figure}: {title}", fontsize="small", loc="left")
    axes.grid(alpha=0.3)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fitted", type=Path, help="the output of defenestrator/fitted")
    parser.add_argument("n23", type=Path, help="the output of defenestrator/fitted-n23")
    parser.add_argument("png", type=Path)
    asked = parser.parse_args()
    fitted, n23 = Result(asked.fitted), Result(asked.n23)
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    *queues, page, legend = figure.subplots(2, 3).flat
    points = pl.read_csv(PAPER, schema_overrides={"figure": pl.String})
    for axes, (number, variant) in zip(queues, QUEUES.items(), strict=True):
        result = n23 if number == "9" else fitted
        draw(axes, points, number, queue(result, variant), result.variants[variant])
        axes.set(xlabel="time [s]", ylabel="cells in the exit's queue", ylim=(-5, 270))
    draw(page, points, "2", waits(fitted, "stock"), fitted.variants["stock"])
    page.set(xlabel="cell of a page", ylabel="wait in the exit's queue [s]")
    legend.set_axis_off()
    legend.legend(*page.get_legend_handles_labels(), loc="center", frameon=False)
    figure.savefig(asked.png, dpi=110)


if __name__ == "__main__":
    main()
