"""Compares the TCP references with each other and with the model: a table for each experiment, and three figures.

    .venv/bin/python benches/references/compare.py            # or: make references
    .venv/bin/python benches/references/compare.py --data docs/data/tcp --images docs/images
    .venv/bin/python benches/references/compare.py --markdown docs/validation/tcp.md

The rows come from all `*.jsonl` files of a folder (`rows.py` documents them); `model-<profile>.jsonl` holds the
model's. A table has a line for each condition and reference: its median and range over the repeats, and for each
profile of the model the median and its ratio to this reference. `*` marks a ratio more than 15 % away from 1. `!` after
a reference means that the references differ by more than 15 %. Each profile is compared with its own reference:
`linux-6` with Linux 6, `ns3` with ns-3. There are no runs of the kernel of `linux-3.2`; it must lie between the
references. Results with more than 2 % loss are shown, but do not count.

A reference that runs in real time reports the largest delay of its emulated link. If at least three repeats stayed
below half a round trip, the other repeats are left out and counted. Otherwise all repeats are used.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
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

from penstock import generated
from penstock.errors import PenstockError
from penstock.figures.style import RC, CurveStyle, curve_styles, grid_of, legend_above

MODEL = "model "
"""The prefix of the names in the model's rows."""
SLACK = 0.15
"""The largest accepted distance of a ratio from 1."""
LATE, ENOUGH = 0.5, 3
"""The accepted link delay [round trip], and the fewest remaining repeats if the others are left out."""
OWN = {"linux-6": "linux-6", "ns3": "ns-3"}
"""The prefix of a profile's reference; other profiles are compared with all references."""
CUT = 0.9
"""A cut window is below this share of its peak."""

CONDITION = ("experiment", "congestion", "rtt_s", "loss")


class Metric(NamedTuple):
    """A measured number of a run."""

    column: str
    title: str
    scale: float
    digits: int


METRICS = {
    "goodput": (Metric("goodput_bytes_per_s", "goodput [MiB/s]", 2.0**-20, 3),),
    "download": (Metric("seconds_to_finish", "download time [s]", 1.0, 1),),
    "buffers": (Metric("seconds_to_finish", "download time with ns-3's own buffers [s]", 1.0, 1),),
    "window": (
        Metric("seconds_to_finish", "time [s]", 1.0, 2),
        Metric("mean_cwnd", "mean window [segment]", 1.0, 1),
        Metric("period_s", "time between cuts [s]", 1.0, 2),
    ),
}


def load(folder: Path) -> tuple[pl.DataFrame, int]:
    """A row for each run, and the number of rows that were left out because their link was late."""
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in read(path) if row["experiment"] in EXPERIMENTS]
    repeats: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        repeats.setdefault((row["reference"], *(row[key] for key in CONDITION)), []).append(row)
    kept = [row for together in repeats.values() for row in _in_time(together)]
    return pl.DataFrame([_flat(row) for row in kept], schema=SCHEMA), len(rows) - len(kept)


def _in_time(repeats: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The repeats with a punctual link; all repeats if there are too few of them."""
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
    """One run; its name is that of the reference or profile, without the congestion control."""
    who = row["reference"].replace(f" {row['congestion']}", "")
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
    """The median time between cuts [s], without the first cut, which ends slow start; null for fewer than two."""
    times = _cuts(samples)[1:]
    return float(np.median(np.diff(times))) if len(times) >= 2 else None


def _cuts(samples: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """The times at which the window was cut; a fall over several samples is one cut."""
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
    """The repeats of one condition by one reference or profile."""

    who: str
    runs: int
    finished: int
    median: float
    low: float
    high: float


def groups(runs: pl.DataFrame, metric: Metric) -> dict[str, Group]:
    """The median and the range of each reference or profile; NaN if no run has a number."""
    value = (pl.col(metric.column) * metric.scale).cast(pl.Float64)
    spread = [
        number.fill_null(np.nan)
        for number in (value.median().alias("median"), value.min().alias("low"), value.max().alias("high"))
    ]
    rows = runs.group_by("who", maintain_order=True).agg(pl.len(), value.count().alias("finished"), *spread)
    return {row[0]: Group(*row) for row in rows.iter_rows()}


def conditions(
    runs: pl.DataFrame, experiment: str, metric: Metric
) -> Iterator[tuple[str, float, float, dict[str, Group], dict[str, Group]]]:
    """Each condition of an experiment, with the groups of references and of profiles."""
    chosen = runs.filter(experiment=experiment).sort("congestion", "rtt_s", "loss", "who")
    for (congestion, rtt, loss), here in chosen.group_by("congestion", "rtt_s", "loss", maintain_order=True):
        yield congestion, rtt, loss, *(groups(here.filter(model=model), metric) for model in (False, True))


def off(ratio: float) -> bool:
    """Whether a ratio is NaN or too far from 1."""
    return not abs(ratio - 1) <= SLACK


def differ(medians: Sequence[float]) -> bool:
    """Whether two medians are too far apart."""
    return len(medians) > 1 and off(max(medians) / min(medians))


def table(runs: pl.DataFrame, experiment: str, metric: Metric) -> tuple[Table, list[tuple[str, int, int]]]:
    """The table of a metric, and for each profile the conditions that it meets and those that it shares."""
    profiles = runs.filter(model=True)["who"].unique(maintain_order=True).to_list()
    shown = Table(title=escape(f"{experiment}: {metric.title}"), title_justify="left")
    for name in ("congestion", "rtt [ms]", "loss [%]", "reference", "median", "range", "runs"):
        shown.add_column(escape(name), justify="left" if name in ("congestion", "reference") else "right")
    for profile in profiles:
        shown.add_column(f"model {profile}", justify="right")
        shown.add_column("ratio", justify="right")
    met, shared = Counter[str](), Counter[str]()
    blank = Group("-", 0, 0, *(float("nan"),) * 3)
    for congestion, rtt, loss, references, model in conditions(runs, experiment, metric):
        mark = "!" if differ([reference.median for reference in references.values() if reference.finished]) else ""
        for profile, each in model.items():
            own = medians_for(profile, references)
            if own and loss <= max(GATES):
                shared[profile] += 1
                met[profile] += within(each.median, own)
        for reference in references.values() or [blank]:
            cells = [congestion, f"{rtt * 1e3:g}", f"{loss * 1e2:g}", reference.who + mark, *_cells(reference, metric)]
            for profile in profiles:
                median = model.get(profile, blank).median
                cells += [_number(median, metric), _ratio(median / reference.median)]
            shown.add_row(*cells)
        shown.add_section()
    return shown, [(profile, met[profile], shared[profile]) for profile in profiles]


def medians_for(profile: str, references: dict[str, Group]) -> list[float]:
    """The medians of the references for a profile: of its own, or of all."""
    found = [each for who, each in references.items() if who.startswith(OWN.get(profile, ""))]
    return [reference.median for reference in found if reference.finished]


def within(value: float, medians: Sequence[float]) -> bool:
    """Whether a value lies within 15 % of the range of the references."""
    return (1 - SLACK) * min(medians) <= value <= (1 + SLACK) * max(medians)


def markdown(runs: pl.DataFrame, experiment: str, metric: Metric) -> str:
    """The rows of a table for a page: medians, and a profile's ratio to its reference, in bold if it is too far off."""
    chosen = runs.filter(experiment=experiment)
    names, profiles = (chosen.filter(model=model)["who"].unique().sort().to_list() for model in (False, True))
    titles = ["", "round trip", "loss", *names, *(f"`{profile}`" for profile in profiles)]
    rows = []
    for congestion, rtt, loss, references, model in conditions(runs, experiment, metric):
        cells = [congestion, f"{rtt * 1e3:g} ms", f"{loss * 1e2:g} %"]
        cells += [_number(references[who].median, metric) if who in references else "" for who in names]
        for profile in profiles:
            own = medians_for(profile, references)
            cells.append(_verdict(model[profile].median, own, metric) if profile in model else "")
        rows.append(cells)
    return f"**{experiment}: {metric.title}**\n\n{generated.table(titles, rows)}"


def _verdict(value: float, own: Sequence[float], metric: Metric) -> str:
    """The number, and its ratio to the reference or to the nearer end of the references' range."""
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


def appearance(runs: pl.DataFrame) -> dict[tuple[str, bool], CurveStyle]:
    """A style for each reference and profile."""
    names = runs.select("who", "model").unique(maintain_order=True).sort("model", "who").rows()
    labels = {f"{model} {who}": f"model, {who}" if model else who for who, model in names}
    return {(who, model): curve_styles(labels)[f"{model} {who}"] for who, model in names}


LOSSES = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1)


def draw_curves(runs: pl.DataFrame, experiment: str) -> Figure | None:
    """An experiment's first metric over loss: a panel for each round trip and congestion control."""
    metric = METRICS[experiment][0]
    chosen = runs.filter(experiment=experiment)
    if chosen.is_empty():
        return None
    figure, panels = _panels(chosen, 3.0, "loss in each direction [%]", metric.title, sharey=True)
    handles: dict[str, Any] = {}
    for (congestion, rtt), axes in panels.items():
        here = chosen.filter(congestion=congestion, rtt_s=rtt)
        for (who, model), style in appearance(chosen).items():
            line = _curve(axes, here.filter(who=who, model=model), metric, style, model)
            handles |= {style.label: line} if line else {}
        axes.set_xscale("symlog", linthresh=0.001, linscale=0.5)
        axes.set_xticks(LOSSES, [f"{100 * loss:g}" for loss in LOSSES])
        axes.set_xticks([], minor=True)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
    legend_above(figure, list(handles.values()), list(handles))
    return figure


def _panels(
    runs: pl.DataFrame, height: float, x_label: str, y_label: str, **shared: Any
) -> tuple[Figure, dict[tuple[str, float], Axes]]:
    """A panel for each congestion control and round trip, with title and labels."""
    rtts, congestions = sorted(runs["rtt_s"].unique()), [c for c in CONGESTION if c in set(runs["congestion"])]
    places = list(product(congestions, rtts))
    # The panels stand side by side if there is one round trip.
    rows = len(congestions) if len(rtts) > 1 else 1
    columns = len(places) // rows
    # All figures are as wide as two panels of 4.2 inches, so that their text has the same size on a page.
    figure, panels = grid_of(rows, columns, 8.4 / columns, height, sharex=True, **shared)
    for (congestion, rtt), axes in zip(places, figure.axes, strict=True):
        axes.set_title(f"{congestion}, {rtt * 1e3:g} ms")
    for first, *_ in panels:
        first.set_ylabel(y_label)
    for axes in panels[-1]:
        axes.set_xlabel(x_label)
    return figure, dict(zip(places, figure.axes, strict=True))


def _curve(axes: Axes, runs: pl.DataFrame, metric: Metric, style: CurveStyle, model: bool) -> Any:
    """Draw medians over loss with their range; the model without markers. None without a number."""
    found = [(loss, groups(here, metric)) for (loss,), here in runs.sort("loss").group_by("loss", maintain_order=True)]
    points = [(loss, *group[3:]) for loss, by in found for group in by.values() if group.finished]
    if not points:
        return None
    x, y, low, high = np.transpose(points)
    drawn = axes.errorbar(
        x,
        y,
        yerr=[y - low, high - y],
        color=style.colour,
        linestyle=style.line,
        linewidth=1.6,
        marker="" if model else "o",
        markersize=4,
        elinewidth=1.0,
        capsize=2,
    )
    return drawn.lines[0]


def draw_window(runs: pl.DataFrame) -> Figure | None:
    """The window over time without loss: a panel for each congestion control and round trip."""
    chosen = runs.filter(experiment="window", loss=0.0, repeat=1)
    if chosen.is_empty():
        return None
    figure, panels = _panels(chosen, 2.8, "time [s]", "window [segment]")
    styles = appearance(chosen)
    handles: dict[str, Any] = {}
    for run in chosen.sort("model", "who").iter_rows(named=True):
        style, samples = styles[run["who"], run["model"]], np.array(run["samples"])
        if len(samples):
            (handles[style.label],) = panels[run["congestion"], run["rtt_s"]].step(
                *samples.T, where="post", color=style.colour, linestyle=style.line, linewidth=1.3
            )
    for axes in panels.values():
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
    legend_above(figure, list(handles.values()), list(handles))
    return figure


def draw(runs: pl.DataFrame, folder: Path) -> list[Path]:
    """Write the figures that have data, as PNG without dates."""
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
    """Run the command."""
    parser = argparse.ArgumentParser(description="compare the references of TCP with each other and with the model")
    parser.add_argument("--data", type=Path, default=Path("docs/data/tcp"), help="folder of the rows")
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="folder for the figures")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables into FILE, and draw nothing")
    arguments = parser.parse_args()
    runs, late = load(arguments.data)
    if runs.is_empty():
        refuse(f"compare: {arguments.data} holds no rows; `make reference-ns3` writes ns-3's")
    if arguments.markdown:
        tables = [markdown(runs, experiment, metric) for experiment, metrics in METRICS.items() for metric in metrics]
        try:
            generated.write(arguments.markdown, "benches/references/compare.py", "\n\n".join(tables))
        except PenstockError as error:
            refuse(f"compare: {error}")
        return
    console = Console(width=None if sys.stdout.isatty() else 200)
    for experiment, metrics in METRICS.items():
        for metric in metrics if experiment in set(runs["experiment"]) else ():
            shown, scores = table(runs, experiment, metric)
            console.print(shown)
            for profile, met, shared in scores:
                console.print(f"model {profile}: {met} of {shared} up to 2 % loss are within 15 % of the reference")
            console.print()
    if late:
        console.print(f"left out {late} repeats with a link delay above {LATE:g} of a round trip")
    for path in draw(runs, arguments.images):
        console.print(f"wrote {path}")


if __name__ == "__main__":
    main()
