"""Writes a comparison: tables of downloads and quantiles, a figure and a self-contained page."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from matplotlib.artist import Artist

from penstock import _core, figures, report, stats, tables
from penstock.compare import show
from penstock.compare.sides import Comparison
from penstock.compare.source import CLOCKS, Source
from penstock.errors import OutputError, naming
from penstock.figures.downloads import curve_of, draw_distributions, right_edge
from penstock.figures.picture import Picture
from penstock.figures.style import grid_of, legend_above, looks
from penstock.output import fresh
from penstock.replicates import BAND
from penstock.summary import METRICS


def directory(out: Path | None) -> Path:
    """Create the output directory: `out`, which must be empty, or a new `runs/compare-<n>`."""
    chosen = fresh("compare") if out is None else out
    with naming(chosen, "make"):
        if chosen.exists() and (not chosen.is_dir() or any(chosen.iterdir())):
            raise OutputError(f"{chosen} exists; choose another --out")
        chosen.mkdir(parents=True, exist_ok=True)
    return chosen


def write(comparison: Comparison, to: Path, command: str) -> Path:
    """Write everything into an existing directory; returns the page."""
    for name, rows in (("downloads", comparison.downloads()), ("quantiles", comparison.table())):
        with naming(to / name):
            rows.write_parquet(to / f"{name}.parquet")
    with naming(to / "quantiles.csv"):
        comparison.table().write_csv(to / "quantiles.csv")
    drawn = figures.draw_into(to / "figures", [lambda: draw(comparison)])
    templates = report.environment()
    templates.filters |= {
        "about": show.about,
        "seconds": tables.seconds,
        "difference": tables.difference,
        "interval": show.interval,
        "relative": show.relative,
        "rate": show.rate,
    }
    page = templates.get_template("compare.html").render(
        a=comparison.a,
        b=comparison.b,
        clock=show.CLOCK_WORDS[comparison.clock],
        rows=list(show.grouped(comparison.rows)),
        failures=comparison.failures,
        remarks=show.remarks(comparison),
        metric_names=tables.METRIC_NAMES,
        figures=[(picture, report.data_uri(picture.svg)) for picture in drawn],
        command=command,
        version=_core.version(),
    )
    return report.save(page, to / "report.html")


def draw(comparison: Comparison) -> Picture:
    """A row of panels for each kind of downloads, with the times of A and B."""
    columns = CLOCKS[comparison.clock]
    figure, panels = grid_of(len(comparison.kinds), len(METRICS), 3.9, 2.75)
    styles = dict(zip("AB", looks({letter: letter for letter in "AB"}).values(), strict=True))
    letters = iter("abcdefghijklmnopqrstuvwxyz" * 8)
    handles: list[Artist] = []
    for kind, row in zip(comparison.kinds, panels, strict=True):
        for metric, column, axes in zip(METRICS, columns, row, strict=True):
            curves = {
                look: _curve(source, kind.where, column)
                for source, look in zip(comparison.sources, styles.values(), strict=True)
            }
            handles = draw_distributions(axes, curves)
            axes.set_title(f"({next(letters)}) {kind.name}: {metric.title}")
            axes.set_xlabel(f"{metric.title} [s]")
            axes.set_xlim(0, right_edge(curves, 0.99))
        row[0].set_ylabel("fraction of downloads")
    names = [f"{letter}: {source.label}" for letter, source in zip("AB", comparison.sources, strict=True)]
    legend_above(figure, handles, names)
    bands = " ".join(_banded(letter, source) for letter, source in zip("AB", comparison.sources, strict=True))
    caption = (
        "The fraction of downloads that took at most this time: a curve further left is faster. Complete "
        f"downloads. Each axis ends at the slower source's 99th percentile. {bands}"
    )
    return Picture("downloads", "How long downloads take", caption, figure)


def _curve(source: Source, where: pl.Expr, column: str) -> stats.Curve:
    return curve_of(source.replicates.samples(source.downloads.filter(where, outcome="ok"), column))


def _banded(letter: str, source: Source) -> str:
    """The part of a caption about a source's band."""
    replicates = source.replicates
    if replicates.size < BAND:
        return f"{letter} has no band; a band needs at least {BAND} {source.replicates_name}."
    return f"The band of {letter} is the pointwise 95 % t interval of {replicates.size} {source.replicates_name}."
