"""Compare the judges of TCP with each other and with the model: a table for each experiment, and three figures.

    .venv/bin/python benches/judges/compare.py            # or: make judges
    .venv/bin/python benches/judges/compare.py --data docs/data/tcp --images docs/images

Reads all `*.jsonl` (`rows.py` says what a row is); the model's are in `model-<profile>.jsonl`. Each condition has a
line for each referee that was there, with its median and range over the repeats, and beside it for each profile of
the model the median and its ratio to that referee. An asterisk is a ratio more than 15 % away from 1; `!` after a
referee says that the referees themselves are that far apart. A profile is held to its own referee: `linux-6` to
Linux 6, `ns3` to ns-3; `linux-3.2`, whose kernel nobody ran, to what lies between the referees. Loss beyond 2 % is
shown, and no profile is held to it. `--markdown` prints the tables of docs/validation/tcp.md instead.

A referee in real time says how late its link was at worst. Where at least three repeats were never later than half a
round trip, the others are left out, and counted; where fewer were, all are kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rows import CONGESTION, EXPERIMENTS, GATES, read, refuse

from penstock.figures.style import RC, Look, grid_of, legend_above, looks

MODEL = "model "
"""How the names of the model's rows begin."""
SLACK = 0.15
"""How far from 1 a ratio may be."""
LATE, ENOUGH = 0.5, 3
"""Later than this share of a round trip at worst, a repeat is left out, if so many others are left."""
OWN = {"linux-6": "linux-6", "ns3": "ns-3"}
"""How the referee of a profile begins; a profile without one is held to all of them."""
CUT = 0.9
"""A window that falls below so much of what it was before, from one sample to the next, was cut."""

CONDITION = ("experiment", "congestion", "rtt_s", "loss")


class Metric(NamedTuple):
    """A number of a run."""

    column: str
    title: str
    scale: float
    digits: int


METRICS = {
    "goodput": (Metric("goodput_bytes_per_s", "goodput [MiB/s]", 2.0**-20, 3),),
    "download": (Metric("seconds_to_finish", "download time [s]", 1.0, 1),),
    "window": (
        Metric("seconds_to_finish", "time [s]", 1.0, 2),
        Metric("mean_cwnd", "mean window [segment]", 1.0, 1),
        Metric("period_s", "time between cuts [s]", 1.0, 2),
    ),
}


def load(folder: Path) -> tuple[pl.DataFrame, int]:
    """A line for each run: who, what, the metrics and the window; and how many rows were left out as late."""
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in read(path) if row["experiment"] in EXPERIMENTS]
    repeats: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        repeats.setdefault((row["referee"], *(row[key] for key in CONDITION)), []).append(row)
    kept = [row for together in repeats.values() for row in _in_time(together)]
    return pl.DataFrame([_flat(row) for row in kept], schema=SCHEMA), len(rows) - len(kept)


def _in_time(repeats: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those whose link kept its time; all of them if too few did."""
    good = [row for row in repeats if row.get("late_max_s", 0.0) <= LATE * row["rtt_s"]]
    return good if len(good) >= ENOUGH else repeats


SCHEMA: dict[str, Any] = {
    "who": pl.String,
    "model": pl.Boolean,
    "experiment": pl.String,
    "congestion": pl.String,
    "rtt_s": pl.Float64,
    "loss": pl.Float64,
    "repeat": pl.Int64,
    "goodput_bytes_per_s": pl.Float64,
    "seconds_to_finish": pl.Float64,
    "mean_cwnd": pl.Float64,
    "period_s": pl.Float64,
    "samples": pl.List(pl.List(pl.Float64)),
}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """One run, with the name of its congestion control taken out of who ran it."""
    who = row["referee"].replace(f" {row['congestion']}", "")
    samples = np.array([[t, cwnd] for t, cwnd, *_ in row.get("samples", ())], dtype=np.float64).reshape(-1, 2)
    known = {name: row.get(name) for name in SCHEMA}
    return known | {
        "who": who.removeprefix(MODEL),
        "model": who.startswith(MODEL),
        "mean_cwnd": float(samples[:, 1].mean()) if len(samples) else None,
        "period_s": _period(samples),
        "samples": samples.tolist(),
    }


def _period(samples: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    """Median time between cuts, without the first, which ends slow start [s]; null with fewer than two left."""
    times = _cuts(samples)[1:]
    return float(np.median(np.diff(times))) if len(times) >= 2 else None


def _cuts(samples: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """When the window was cut: falls that last over several samples are one cut."""
    if len(samples) == 0:
        return []
    cuts, peak, falling = [], samples[0, 1], False
    for (_, before), (t, now) in pairwise(samples):
        if now >= before:
            falling = falling and now == before
            peak = now if not falling else peak
        elif not falling and now < CUT * peak:
            cuts.append(float(t))
            falling = True
    return cuts


class Group(NamedTuple):
    """The repeats of one condition by one referee or profile."""

    runs: int
    finished: int
    median: float
    low: float
    high: float


def groups(runs: pl.DataFrame, metric: Metric) -> dict[str, Group]:
    """Each who has runs here, with the median of those that gave a number; NaN if none did."""
    found = {}
    for who in runs["who"].unique(maintain_order=True):
        column = runs.filter(pl.col("who") == who)[metric.column]
        values = column.drop_nulls().to_numpy() * metric.scale
        spread = (np.median(values), values.min(), values.max()) if len(values) else (np.nan,) * 3
        found[who] = Group(len(column), len(values), *map(float, spread))
    return found


def off(ratio: float) -> bool:
    """Whether it is too far from 1, or is none."""
    return not abs(ratio - 1) <= SLACK


def differ(medians: Sequence[float]) -> bool:
    """Whether two of them are too far apart."""
    return len(medians) > 1 and off(max(medians) / min(medians))


def table(runs: pl.DataFrame, experiment: str, metric: Metric) -> tuple[Table, list[tuple[str, int, int]]]:
    """The table of a metric, and for each profile how many gated conditions it shares with a referee and meets."""
    profiles = runs.filter(pl.col("model"))["who"].unique(maintain_order=True).to_list()
    shown = Table(title=escape(f"{experiment}: {metric.title}"), title_justify="left")
    for name in ("congestion", "rtt [ms]", "loss [%]", "referee", "median", "range", "runs"):
        shown.add_column(escape(name), justify="left" if name in ("congestion", "referee") else "right")
    for profile in profiles:
        shown.add_column(f"model {profile}", justify="right")
        shown.add_column("ratio", justify="right")
    score = {profile: [0, 0] for profile in profiles}
    chosen = runs.filter(pl.col("experiment") == experiment)
    for keys, here in chosen.sort("congestion", "rtt_s", "loss", "who").group_by(CONDITION, maintain_order=True):
        _, congestion, rtt, loss = keys
        judges = groups(here.filter(~pl.col("model")), metric)
        model = groups(here.filter(pl.col("model")), metric)
        medians = [judge.median for judge in judges.values() if judge.finished]
        mark = "!" if differ(medians) else ""
        for profile, each in model.items():
            own = [judge.median for judge in held_to(profile, judges).values() if judge.finished]
            if own and loss <= max(GATES):
                score[profile][0] += 1
                score[profile][1] += within(each.median, own)
        blank = Group(0, 0, *(float("nan"),) * 3)
        for who, judge in (judges or {"-": blank}).items():
            cells = [congestion, f"{rtt * 1e3:g}", f"{loss * 1e2:g}", who + mark, *_cells(judge, metric)]
            for profile in profiles:
                ratio = model[profile].median / judge.median if profile in model else float("nan")
                cells += [_number(model[profile].median, metric) if profile in model else "-", _ratio(ratio)]
            shown.add_row(*cells)
        shown.add_section()
    return shown, [(profile, met, shared) for profile, (shared, met) in score.items()]


def held_to(profile: str, judges: dict[str, Group]) -> dict[str, Group]:
    """The referees that judge a profile: its own, or all."""
    start = OWN.get(profile, "")
    return {who: judge for who, judge in judges.items() if who.startswith(start)}


def within(value: float, medians: Sequence[float]) -> bool:
    """Whether it is within the slack of what the referees span, or of the only one."""
    return (1 - SLACK) * min(medians) <= value <= (1 + SLACK) * max(medians)


def markdown(runs: pl.DataFrame, experiment: str, metric: Metric) -> Iterator[str]:
    """The same as a table of a page: medians, and beside a profile's its ratio to what it is held to, bold if off."""
    chosen = runs.filter(pl.col("experiment") == experiment).sort("congestion", "rtt_s", "loss")
    names = {model: chosen.filter(pl.col("model") == model)["who"].unique().sort().to_list() for model in (False, True)}
    titles = ["", "round trip", "loss", *names[False], *(f"`{profile}`" for profile in names[True])]
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for (congestion, rtt, loss), here in chosen.group_by("congestion", "rtt_s", "loss", maintain_order=True):
        judges = groups(here.filter(~pl.col("model")), metric)
        model = groups(here.filter(pl.col("model")), metric)
        cells = [congestion, f"{rtt * 1e3:g} ms", f"{loss * 1e2:g} %"]
        cells += [_number(judges[who].median, metric) if who in judges else "" for who in names[False]]
        for profile in names[True]:
            own = [judge.median for judge in held_to(profile, judges).values() if judge.finished]
            cells.append(_verdict(model[profile].median, own, metric) if profile in model else "")
        yield f"| {' | '.join(cells)} |"


def _verdict(value: float, own: Sequence[float], metric: Metric) -> str:
    """The number, and its ratio to the only referee or to the nearer end of what several span."""
    shown = _number(value, metric)
    if not own or np.isnan(value):
        return shown
    ratio = value / min(max(value, min(own)), max(own))
    return f"{shown}, {ratio:.2f}" if within(value, own) else f"**{shown}, {ratio:.2f}**"


def _cells(group: Group, metric: Metric) -> Iterator[str]:
    yield _number(group.median, metric)
    yield f"{_number(group.low, metric)}..{_number(group.high, metric)}"
    yield str(group.runs) if group.finished == group.runs else f"{group.finished} of {group.runs}"


def _number(value: float, metric: Metric) -> str:
    return "-" if np.isnan(value) else f"{value:.{metric.digits}f}"


def _ratio(ratio: float) -> str:
    return "-" if np.isnan(ratio) else f"{ratio:.2f}{'*' if off(ratio) else ' '}"


def appearance(runs: pl.DataFrame) -> dict[tuple[str, bool], Look]:
    """Judges first, then profiles: a look for each."""
    names = runs.select("who", "model").unique(maintain_order=True).sort("model", "who").rows()
    labels = {f"{model} {who}": f"model, {who}" if model else who for who, model in names}
    return {(who, model): looks(labels)[f"{model} {who}"] for who, model in names}


LOSSES = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1)


def draw_curves(runs: pl.DataFrame, experiment: str) -> Figure | None:
    """Its first metric against loss: a panel for each round trip and congestion control."""
    metric = METRICS[experiment][0]
    chosen = runs.filter(pl.col("experiment") == experiment)
    if chosen.is_empty():
        return None
    rtts, congestions = sorted(chosen["rtt_s"].unique()), [c for c in CONGESTION if c in set(chosen["congestion"])]
    shown = [(congestion, rtt) for congestion in congestions for rtt in rtts]
    # Side by side if there is one round trip.
    rows = len(congestions) if len(rtts) > 1 else 1
    figure, panels = grid_of(rows, len(shown) // rows, 4.2, 3.0, sharex=True, sharey=True)
    styles = appearance(chosen)
    handles: dict[str, Any] = {}
    for (congestion, rtt), axes in zip(shown, [axes for row in panels for axes in row], strict=True):
        here = chosen.filter((pl.col("congestion") == congestion) & (pl.col("rtt_s") == rtt))
        for (who, model), look in styles.items():
            line = _curve(axes, here.filter((pl.col("who") == who) & (pl.col("model") == model)), metric, look, model)
            handles |= {look.label: line} if line else {}
        axes.set_title(f"{congestion}, {rtt * 1e3:g} ms")
        axes.set_xscale("symlog", linthresh=0.001, linscale=0.5)
        axes.set_xticks(LOSSES, [f"{100 * loss:g}" for loss in LOSSES])
        axes.set_xticks([], minor=True)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
    for row in panels:
        row[0].set_ylabel(metric.title)
    for axes in panels[-1]:
        axes.set_xlabel("loss in each direction [%]")
    legend_above(figure, list(handles.values()), list(handles))
    return figure


def _curve(axes: Axes, runs: pl.DataFrame, metric: Metric, look: Look, model: bool) -> Any:
    """Medians over loss with their range; the model's without marks. Nothing if there is no number."""
    found = [(loss, groups(here, metric)) for (loss,), here in runs.sort("loss").group_by("loss", maintain_order=True)]
    points = [(loss, group) for loss, by in found for group in by.values() if group.finished]
    if not points:
        return None
    x, y = [loss for loss, _ in points], np.array([group.median for _, group in points])
    below = y - [group.low for _, group in points]
    above = np.array([group.high for _, group in points]) - y
    drawn = axes.errorbar(
        x,
        y,
        yerr=[below, above],
        color=look.colour,
        linestyle=look.line,
        linewidth=1.6,
        marker="" if model else "o",
        markersize=4,
        elinewidth=1.0,
        capsize=2,
    )
    return drawn.lines[0]


def draw_window(runs: pl.DataFrame) -> Figure | None:
    """The window over time without loss: a panel for each congestion control and round trip."""
    chosen = runs.filter((pl.col("experiment") == "window") & (pl.col("loss") == 0) & (pl.col("repeat") == 1))
    if chosen.is_empty():
        return None
    rtts, congestions = sorted(chosen["rtt_s"].unique()), [c for c in CONGESTION if c in set(chosen["congestion"])]
    figure, panels = grid_of(len(congestions), len(rtts), 4.2, 2.8, sharex=True)
    styles = appearance(chosen)
    handles: dict[str, Any] = {}
    for run in chosen.sort("model", "who").iter_rows(named=True):
        axes = panels[congestions.index(run["congestion"])][rtts.index(run["rtt_s"])]
        look, samples = styles[run["who"], run["model"]], np.array(run["samples"])
        if len(samples):
            (line,) = axes.step(
                samples[:, 0], samples[:, 1], where="post", color=look.colour, linestyle=look.line, linewidth=1.3
            )
            handles[look.label] = line
    for congestion, row in zip(congestions, panels, strict=True):
        for rtt, axes in zip(rtts, row, strict=True):
            axes.set_title(f"{congestion}, {rtt * 1e3:g} ms")
            axes.set_ylim(bottom=0)
            axes.set_xlim(left=0)
        row[0].set_ylabel("window [segment]")
    for axes in panels[-1]:
        axes.set_xlabel("time [s]")
    legend_above(figure, list(handles.values()), list(handles))
    return figure


def draw(runs: pl.DataFrame, folder: Path) -> list[Path]:
    """Write the figures for which there is data, as PNG without dates."""
    style: Any = {**mpl.rcParamsDefault, **RC, "backend": "agg"}
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(style):
        figures = {
            "tcp-goodput": draw_curves(runs, "goodput"),
            "tcp-download": draw_curves(runs, "download"),
            "tcp-window": draw_window(runs),
        }
        for name, figure in figures.items():
            if figure is not None:
                written.append(folder / f"{name}.png")
                figure.savefig(written[-1], dpi=160, metadata={"Software": None})
    return written


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="compare the judges of TCP with each other and with the model")
    parser.add_argument("--data", type=Path, default=Path("docs/data/tcp"), help="folder of the rows")
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="folder for the figures")
    parser.add_argument("--markdown", action="store_true", help="print tables of Markdown, and draw nothing")
    arguments = parser.parse_args()
    runs, late = load(arguments.data)
    if runs.is_empty():
        refuse(f"compare: {arguments.data} holds no rows; `make judge-ns3` writes ns-3's")
    if arguments.markdown:
        for experiment, metrics in METRICS.items():
            for metric in metrics:
                print(f"\n{experiment}: {metric.title}\n")
                print("\n".join(markdown(runs, experiment, metric)))
        return
    console = Console(width=None if sys.stdout.isatty() else 200)
    for experiment, metrics in METRICS.items():
        if experiment not in set(runs["experiment"]):
            continue
        for metric in metrics:
            shown, scores = table(runs, experiment, metric)
            console.print(shown)
            for profile, met, shared in scores:
                console.print(f"model {profile}: {met} of {shared} up to 2 % loss are within 15 % of its referee")
            console.print()
    if late:
        console.print(f"left out {late} repeats whose link was later than {LATE:g} of a round trip")
    for path in draw(runs, arguments.images):
        console.print(f"wrote {path}")


if __name__ == "__main__":
    main()
