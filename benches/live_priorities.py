"""Compares live middle relays with and without EWMA: figures 7 to 9 and 14 of EWMA, and the verdicts.

    python live_priorities.py docs/data/ewma [--figures FOLDER] [--markdown FILE]

`make live-priorities` writes the tables in the folder. docs/validation/ewma.md states the criteria.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from matplotlib import rc_context
from matplotlib.axes import Axes

from penstock import generated, stats
from penstock.figures import style
from penstock.figures.downloads import curve_of

MODES = {"none": "without priorities", "EWMA": "EWMA"}
VISIT = 4
"""Downloads of each visit of an onion service. The first one makes the circuit (section 5)."""
LATEST_MS = 5.0
"""A round with a larger 99th percentile of the lateness of emulated packets is void [ms]."""
NAME = "make live-priorities"


@dataclass(frozen=True)
class Change:
    """The relative change from no priorities to EWMA, with one value for each round, and its 95 % interval."""

    before: float
    after: float
    """The mean over rounds of the statistic [s]."""
    mean: float
    low: float
    high: float
    rounds: int

    def within(self, low: float, high: float) -> bool:
        """Whether the mean is in these bounds, and the whole interval below zero."""
        return low <= self.mean <= high and self.high < 0

    @property
    def faster(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0

    @property
    def unchanged(self) -> bool:
        """Whether the interval contains zero."""
        return self.low <= 0 <= self.high


def change(rows: pl.DataFrame, column: str, statistic: Callable[[stats.Sample], float]) -> Change:
    """Compares the modes of each round."""
    values = {mode: [] for mode in MODES}
    for (_, mode), group in rows.drop_nulls(column).group_by("round", "mode", maintain_order=True):
        values[str(mode)].append(statistic(group[column].to_numpy()))
    before, after = values.values()
    changes = [other / one - 1 for one, other in zip(before, after, strict=True)]
    return Change(stats.mean(before), stats.mean(after), *stats.mean_interval(changes), len(changes))


def at(q: float) -> Callable[[stats.Sample], float]:
    """The statistic that is this quantile."""
    return lambda sample: stats.quantile(sample, q)


def prepared(rows: pl.DataFrame) -> pl.DataFrame:
    """Downloads with the time of the file alone, and whether each one is the first of its visit."""
    rows = rows.sort("round", maintain_order=True)
    fetch = pl.col("last_byte_s") - pl.col("connected_s")
    return rows.with_columns(fetch.alias("fetch_s"), (pl.col("number") % VISIT == 0).alias("is_first"))


def claims(rows: pl.DataFrame) -> list[list[str]]:
    """A row for each claim: the statistic in both modes, its change, the bound and the verdict."""
    files = rows.filter(pl.col("load") != "onion")
    onion = rows.filter(pl.col("load") == "onion")
    loads = {load: files.filter(pl.col("load") == load) for load in ("low", "high")}
    lines = []

    def add(feature: str, what: str, found: Change, bound: str, holds: bool | None) -> None:
        verdict = {True: "holds", False: "**fails**", None: "not gated"}[holds]
        ends = f"{found.low:+.1%} to {found.high:+.1%}"
        times = [f"{found.before:.2f}", f"{found.after:.2f}"]
        lines.append([feature, what, *times, f"{found.mean:+.1%}, {ends}", str(found.rounds), bound, verdict])

    pooled = change(files, "last_byte_s", at(0.5))
    add("E-24", "median, both loads", pooled, "-35 to -10 %", pooled.within(-0.35, -0.10))
    for load, mine in loads.items():
        found = change(mine, "last_byte_s", at(0.5))
        add("E-25", f"median, {load} load", found, "below 0", found.faster)
    for q in (0.25, 0.5, 0.75):
        found = change(files, "last_byte_s", at(q))
        add("E-30", f"quantile {q:.0%}, both loads", found, "-20 to -10 %", found.within(-0.20, -0.10))
    for load, mine in loads.items():
        add("", f"first byte, median, {load} load", change(mine, "first_byte_s", at(0.5)), "", None)
    if not onion.is_empty():
        first, later = onion.filter("is_first"), onion.filter(~pl.col("is_first"))
        found = change(first, "connected_s", stats.mean)
        add("E-29", "onion service: new circuit, mean", found, "-20 to -5 %", found.within(-0.20, -0.05))
        found = change(later, "connected_s", stats.mean)
        add("E-29", "onion service: later stream, mean", found, "interval has 0", found.unchanged)
        add("", "onion service: file, mean", change(onion, "fetch_s", stats.mean), "", None)
    return lines


def load_table(rounds: pl.DataFrame) -> list[list[str]]:
    """A row for each load and mode: rates, and the waits of all cells in the middle relay."""
    lines = []
    for (load, mode), group in rounds.group_by("load", "mode", maintain_order=True):
        rates = [f"{group[name].mean():.1f}" for name in ("middle_mbit", "guard_mbit", "exit_mbit")]
        waits = []
        for station in ("circuit queue", "output buffer", "kernel out"):
            mine = group.filter(pl.col("station") == station)
            waits.append(f"{mine['mean_ms'].mean():.0f} ({mine['p95_ms'].mean():.0f})")
        lines.append([str(load), MODES[str(mode)], *rates, *waits])
    return lines


def failures(rows: pl.DataFrame) -> str:
    """How many downloads were measured and how many of them failed, by load and mode."""
    parts = []
    for load, mine in rows.group_by("load", maintain_order=True):
        for mode, label in MODES.items():
            times = mine.filter(pl.col("mode") == mode)["last_byte_s"]
            parts.append(f"{load[0]}, {label}: {times.null_count()} of {times.len()}")
    return "Failed downloads: " + "; ".join(parts) + "."


def accuracy(rounds: pl.DataFrame) -> str:
    """How late the emulated packets were, for each round, and how busy the machine was."""
    each = rounds.unique("round", maintain_order=True)
    late = ", ".join(f"{value:.1f}" for value in each["late_p99_ms"])
    load = f"{rounds['machine_load'].min():.1f} to {rounds['machine_load'].max():.1f}"
    return (
        f"Lateness of the emulated packets, 99th percentile of each round [ms]: {late}; packets that the testbed "
        f"dropped: {each['unseen'].sum()}. Runnable processes on the two cores: {load}."
    )


def factor_table(rows: pl.DataFrame, rounds: pl.DataFrame) -> list[list[str]]:
    """A row for each factor and load: the median download and its change, and the mean wait in the circuit queue."""
    lines = []
    for (factor, load), mine in rows.group_by("factor", "load", maintain_order=True):
        found = change(mine, "last_byte_s", at(0.5))
        ends = "" if found.rounds < 2 else f", {found.low:+.1%} to {found.high:+.1%}"
        queue = pl.col("factor").eq(factor) & pl.col("load").eq(load) & pl.col("station").eq("circuit queue")
        waits = [rounds.filter(queue, pl.col("mode") == mode)["mean_ms"].mean() for mode in MODES]
        times = [f"{found.before:.2f}", f"{found.after:.2f}", f"{found.mean:+.1%}{ends}"]
        lines.append([str(factor), str(load), *times, *(f"{wait:.0f}" for wait in waits), str(found.rounds)])
    return lines


def text_of(rows: pl.DataFrame, rounds: pl.DataFrame) -> str:
    """The generated block: verdicts, loads and waits, and the factors."""
    is_main = pl.col("factor") == "none"
    mine, of_rounds = rows.filter(is_main), rounds.filter(is_main)
    head = ["id", "time", "none [s]", "EWMA [s]", "change, 95 % interval", "rounds", "bound", "verdict"]
    loads = ["load", "middle relay", "sent [Mbit/s]", "guard", "exit", "circuit queue [ms]", "output buffer", "kernel"]
    parts = [generated.table(head, claims(mine)), failures(mine), generated.table(loads, load_table(of_rounds))]
    parts.append(
        "Waits are means over rounds of the mean and, in brackets, of the 95th percentile. " + accuracy(of_rounds)
    )
    if lines := factor_table(rows.filter(~is_main), rounds):
        times = ["median, none [s]", "EWMA [s]", "change", "circuit queue, none [ms]", "EWMA [ms]"]
        parts.append(generated.table(["factor", "load", *times, "rounds"], lines))
    return "\n\n".join(parts)


def draw(panels: Sequence[tuple[str, pl.DataFrame, str]], path: Path) -> None:
    """A panel for each title, downloads and column, with a distribution for each mode."""
    figure, [row] = style.grid_of(1, len(panels), 8.4 / len(panels), 2.9, sharey=True)
    for axes, letter, (title, mine, column) in zip(row, style.letters(), panels, strict=False):
        axes.set_title(f"({letter}) {title}")
        _curves(axes, mine, column)
        axes.set_xlabel("time [s]")
    row[0].set_ylabel("part of the downloads")
    style.legend_above(figure, *row[0].get_legend_handles_labels())
    figure.savefig(path, dpi=150)


def _curves(axes: Axes, rows: pl.DataFrame, column: str) -> None:
    for place, (mode, label) in enumerate(MODES.items()):
        mine = rows.filter(pl.col("mode") == mode).drop_nulls(column)
        curve = curve_of([[group[column].to_numpy()] for _, group in mine.group_by("round", maintain_order=True)])
        colour, line, _ = style.category_style(place)
        axes.step(curve.x, curve.y, where="post", color=colour, linestyle=line, linewidth=1.6, label=label)
        if curve.low.size:
            axes.fill_between(curve.x, curve.low, curve.high, step="post", color=colour, alpha=0.16, linewidth=0)
    axes.set_xlim(0, stats.quantile(rows[column].drop_nulls().to_numpy(), 0.99))
    axes.set_ylim(0, 1)


def figures(rows: pl.DataFrame, folder: Path) -> None:
    """Figures 7 to 9, and figure 14."""
    files = rows.filter(pl.col("load") != "onion")
    loads = [(f"{load} load", files.filter(pl.col("load") == load), "last_byte_s") for load in ("low", "high")]
    draw([("both loads", files, "last_byte_s"), *loads], folder / "ewma-figures7-9.png")
    onion = rows.filter(pl.col("load") == "onion")
    if not onion.is_empty():
        parts = [
            ("new circuit", onion.filter("is_first"), "connected_s"),
            ("later stream", onion.filter(~pl.col("is_first")), "connected_s"),
            ("file", onion, "fetch_s"),
        ]
        draw(parts, folder / "ewma-figure14.png")


def main() -> None:
    """Reads the tables, and writes the figures and the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figures", type=Path, default=Path("docs/images"), help="the folder of the figures")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    rows = prepared(pl.read_csv(args.folder / "live-downloads.csv"))
    rounds = pl.read_csv(args.folder / "live-rounds.csv").sort("round", maintain_order=True)
    void = rounds.filter(pl.col("late_p99_ms") > LATEST_MS).select("factor", "round").unique()
    rows, rounds = (table.join(void, on=["factor", "round"], how="anti") for table in (rows, rounds))
    for factor, number in void.iter_rows():
        print(f"void: factor {factor}, round {number}")
    with rc_context(style.RC):
        figures(rows.filter(pl.col("factor") == "none"), args.figures)
    text = text_of(rows, rounds)
    print(text)
    if args.markdown:
        generated.write(args.markdown, NAME, text)


if __name__ == "__main__":
    main()
