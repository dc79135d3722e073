"""A self-contained HTML page: the runs, their results with intervals, and the command that repeats them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import polars as pl

from penstock import extras, identity, points, summary, tables
from penstock.errors import replacing
from penstock.report.inline import inline
from penstock.result import Result

if TYPE_CHECKING:
    from markupsafe import Markup

    from penstock.figures import Picture
    from penstock.paper import Outcome
    from penstock.paper.printed import Point

TEMPLATES = Path(__file__).parent


def write(results: Sequence[Result], to: Path, outcome: "Outcome | None" = None) -> Path:
    """Draw the figures and write the page. A page of a paper (`outcome`) begins with the paper's claims."""
    return save(render(results, outcome), to)


def save(page: str, to: Path) -> Path:
    """Write a page."""
    with replacing(to) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return to


def environment() -> jinja2.Environment:
    """The templates, which escape all text."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def render(results: Sequence[Result], outcome: "Outcome | None" = None) -> str:
    """The page; the figures of each result are drawn again into its directory."""
    templates = environment()
    templates.globals |= {"metrics": summary.METRICS, "metric_names": tables.METRIC_NAMES}
    templates.globals["no_figures"] = "" if extras.has_plots() else extras.NO_FIGURES
    templates.filters |= {
        "seconds": tables.seconds,
        "difference": tables.difference,
        "interval": tables.interval,
        "percent": tables.percent,
        "quantiles": tables.quantiles,
        "unfinished": tables.unfinished,
        "build": identity.text,
        "mebibytes": lambda size: f"{size / 2**20:.1f} MiB",
    }
    if outcome:
        from penstock.paper import table, tradeoffs

        templates.globals |= {"table": table, "tradeoffs": tradeoffs}
    sections = [_section(result, place, _points_of(result, outcome)) for place, result in enumerate(results)]
    fronts = _fronts(outcome) if outcome and outcome.compared else {}
    return templates.get_template("page.html").render(sections=sections, outcome=outcome, fronts=fronts)


def render_tradeoffs(outcome: "Outcome") -> str:
    """A page with only the tables of trade-offs, whose weights a reader can change, and their fronts."""
    from penstock.paper import tradeoffs

    templates = environment()
    templates.globals["tradeoffs"] = tradeoffs
    fronts = _fronts(outcome) if extras.has_plots() else {}
    return templates.get_template("tradeoffs-page.html").render(outcome=outcome, fronts=fronts)


def _fronts(outcome: "Outcome") -> dict[str, Any]:
    """The Pareto front of each table of trade-offs, by its scenario."""
    from functools import partial

    from penstock.figures import draw_into
    from penstock.figures import tradeoffs as front

    makers = [partial(front.draw, each) for each in outcome.compared]
    return {
        picture.name.removeprefix("front-"): (picture, inline(picture, picture.name))
        for picture in draw_into(outcome.directory / "figures", makers)
    }


def _section(result: Result, place: int, points: "Sequence[Point]") -> dict[str, Any]:
    sweep = _points(result) if "sweep" in result.manifest else None
    differences = pl.DataFrame() if sweep else result.differences()
    pairs = differences["pairs"].to_list() if differences.height else []
    return {
        "id": f"s{place}",
        "result": result,
        "scenario": result.scenario,
        "source": _source(result.scenario),
        "runs": result.manifest["runs"],
        "sweep": sweep,
        "summary": [] if sweep else result.summary().rows(named=True),
        "differences": differences.rows(named=True),
        "baseline": next(iter(result.variants.values()), ""),
        "figures": _figures(result, place, points) if extras.has_plots() else [],
        "pairs": pairs,
        "warning": result.replicates.warning(pairs) if pairs else "",
    }


def _figures(result: Result, place: int, points: "Sequence[Point]") -> "list[tuple[Picture, Markup]]":
    from penstock import figures

    return [(picture, inline(picture, f"f{place}-{picture.name}")) for picture in figures.draw(result, points)]


def _points_of(result: Result, outcome: "Outcome | None") -> "list[Point]":
    """The points of the paper's figures that the scenario of a result represents."""
    if outcome is None:
        return []
    from penstock.paper import printed

    scenarios = {name for name, each in outcome.results.items() if each is result}
    return [point for point in printed.load(outcome.claims, outcome.figure) if point.scenario in scenarios]


def _points(result: Result) -> dict[str, Any]:
    """The template's values for the points of a sweep. Also writes the table of points again."""
    table = points.write(result)
    columns = tables.point_columns(table) if table.height else []
    rows = [
        {"values": [row[name] for name in columns], "downloads": row["downloads"], "times": tables.point_times(row)}
        for row in table.iter_rows(named=True)
    ]
    counts = table["units"].to_list() if table.height else []
    remark = tables.points_remark(result.replicates, counts) if counts else ""
    return {"columns": columns, "rows": rows, "remark": remark, "warning": result.replicates.warning(counts)}


def _source(scenario: dict[str, Any]) -> str:
    figures_of = scenario["figures"]
    parts = [
        scenario["paper"],
        f"section {scenario['section']}" if scenario["section"] else "",
        f"figure{'s' if len(figures_of) > 1 else ''} {', '.join(figures_of)}" if figures_of else "",
    ]
    return ", ".join(part for part in parts if part)
