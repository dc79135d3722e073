"""Writes a comparison: tables of downloads and quantiles, a figure and a self-contained page."""

from pathlib import Path
from typing import TYPE_CHECKING

from penstock import _core, extras, report, tables
from penstock.compare import show
from penstock.compare.sides import Comparison
from penstock.compare.source import CLOCKS, Source
from penstock.errors import OutputError, naming
from penstock.output import fresh
from penstock.replicates import BAND
from penstock.report.inline import inline
from penstock.summary import METRICS

if TYPE_CHECKING:
    from penstock.figures import Picture


def directory(out: Path | None) -> Path:
    """Create the output directory: `out`, which must be empty, or a new `runs/compare-<n>`."""
    chosen = fresh("compare") if out is None else out
    with naming(chosen, "make"):
        if chosen.exists() and (not chosen.is_dir() or any(chosen.iterdir())):
            raise OutputError(f"{chosen} exists; choose another --out")
        chosen.mkdir(parents=True, exist_ok=True)
    return chosen


def write_tables(comparison: Comparison, to: Path) -> None:
    """Write the tables into an existing directory."""
    for name, rows in (("downloads", comparison.downloads()), ("quantiles", comparison.table())):
        with naming(to / name):
            rows.write_parquet(to / f"{name}.parquet")
    with naming(to / "quantiles.csv"):
        comparison.table().write_csv(to / "quantiles.csv")


def write(comparison: Comparison, to: Path, command: str) -> Path:
    """Write everything into an existing directory; returns the page."""
    write_tables(comparison, to)
    drawn: list[Picture] = []
    if extras.has_plots():
        from penstock import figures

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
        metric_titles={metric.column: metric.title for metric in METRICS},
        figures=[(picture, inline(picture, picture.name)) for picture in drawn],
        no_figures="" if extras.has_plots() else extras.NO_FIGURES,
        command=command,
        version=_core.version(),
    )
    return report.save(page, to / "report.html")


def draw(comparison: Comparison) -> "Picture":
    """A row of panels for each kind of downloads, with the times of A and B."""
    from penstock.figures.downloads import Panel, curve_of, draw_panels, hidden, result_of
    from penstock.figures.picture import Picture
    from penstock.figures.style import curve_styles

    styled = list(zip(comparison.sources, curve_styles({"A": "A", "B": "B"}).values(), strict=True))
    rows = [
        [
            Panel(
                f"{kind.name}: {metric.title}",
                f"{metric.title} [s]",
                {
                    style: curve_of(
                        source.replicates.samples(source.downloads.filter(kind.where, outcome="ok"), column)
                    )
                    for source, style in styled
                },
            )
            for metric, column in zip(METRICS, CLOCKS[comparison.clock], strict=True)
        ]
        for kind in comparison.kinds
    ]
    figure = draw_panels(rows, (3.9, 2.75), [f"{style.label}: {source.label}" for source, style in styled])
    bands = " ".join(_banded(letter, source) for letter, source in comparison.lettered)
    caption = (
        "Each curve shows the fraction of complete downloads that finished within the time on the x axis. A curve "
        f"further left is faster. Each x axis ends at the 99th percentile of the slower source. {bands}{hidden(rows)}"
    )
    return Picture("downloads", "How long downloads take", caption, figure, result_of(rows))


def _banded(letter: str, source: Source) -> str:
    replicates = source.replicates
    if replicates.size < BAND:
        return f"{letter} has no band; a band needs at least {BAND} {source.replicates_name}."
    return f"The band of {letter} is the 95 % t interval over {replicates.size} {source.replicates_name} at each point."
