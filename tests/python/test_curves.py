"""Curves of papers' figures beside ours."""

import tomllib
from collections.abc import Callable
from math import isnan
from pathlib import Path

import pytest

from penstock import catalog, figures, runs
from penstock.errors import PenstockError
from penstock.figures import of_paper, style
from penstock.paper import curves, quantiles
from penstock.paper.measures import MEASURES, sample
from penstock.result import Result

HEAD = "figure,workload,measure,hop,variant,share,value\n"


@pytest.mark.parametrize("paper", catalog.papers())
def test_the_shipped_curves_are_distribution_functions_that_a_scenario_draws(paper: str) -> None:
    files = [catalog.SHIPPED / f"{name}.toml" for name in catalog.shipped()]
    # Some files have tables of several lines, which Python's parser does not read, so only their heads are parsed.
    heads = [tomllib.loads(path.read_text().partition("\n[run]")[0].partition("\n[[")[0]) for path in files]
    scenarios = [head.get("scenario", {}) for head in heads]
    listed = {figure for each in scenarios if each.get("paper", paper) == paper for figure in each.get("figures", [])}
    for curve in curves.load(paper):
        assert curve.panel.measure in MEASURES
        assert any(map(curve.is_of, listed)), curve.panel
        assert list(curve.shares) == sorted(curve.shares)
        assert list(curve.values) == sorted(curve.values)
        assert len(curve.shares) > 3


def test_kists_curves_have_the_medians_of_its_text() -> None:
    # Section 5.3 states these numbers. They are 0.495-quantiles of the curves, which end at 0.99.
    medians = {(curve.panel.figure, curve.variant): curve.quantile(0.495) for curve in curves.load("kist")}
    assert medians["7a", "vanilla"] == pytest.approx(0.838, rel=0.015)
    assert medians["7a", "kist"] == pytest.approx(0.686, rel=0.015)
    assert medians["6c", "vanilla"] == pytest.approx(1.0101, rel=0.002)
    assert medians["6c", "global"] == pytest.approx(0.8788, rel=0.002)
    assert medians["6c", "kist"] == pytest.approx(0.7045, rel=0.002)


def test_a_quantile_outside_the_drawn_part_is_missing(write: Callable[[str, str], Path]) -> None:
    rows = "7a,*,ttfb_s,,vanilla,0.2,1\n7a,*,ttfb_s,,vanilla,0.4,3\n7a,*,ttfb_s,,kist,0.2,1\n"
    vanilla, kist = curves.read(write("curves.csv", HEAD + rows))
    assert vanilla.quantile(0.3) == pytest.approx(2)
    assert isnan(vanilla.quantile(0.5))
    assert (vanilla.variant, kist.variant) == ("vanilla", "kist")
    assert vanilla.is_of("7")
    assert not vanilla.is_of("7b")


def test_the_quantile_at_a_flat_part_is_its_smallest_value(write: Callable[[str, str], Path]) -> None:
    rows = "".join(
        f"10b,ping,attack_pings,latency,kist,{share},{value}\n"
        for share, value in ((0.2, 1), (0.5, 3), (0.5, 9), (0.8, 10))
    )
    [curve] = curves.read(write("curves.csv", HEAD + rows))
    assert [curve.quantile(share) for share in (0.2, 0.5)] == [1, 3]
    assert curve.quantile(0.65) == pytest.approx(6.5)


def test_five_works_have_curves() -> None:
    with_curves = [paper for paper in catalog.papers() if curves.load(paper)]
    assert with_curves == ["defenestrator", "ewma", "kist", "marut", "throttling"]


def test_a_figure_shows_both_curves_and_the_table_their_quantiles(
    make_up: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, write: Callable[[str, str], Path]
) -> None:
    result = Result(make_up(seeds=2))
    figure = result.scenario["figures"][0]
    rows = "".join(f"{figure},web,ttfb_s,,stock,{share},{value}\n" for share, value in ((0.1, 1), (0.5, 2), (0.9, 4)))
    drawn = curves.read(write("curves.csv", HEAD + rows))
    monkeypatch.setattr(curves, "load", lambda _: drawn)
    [picture] = [each for each in figures.draw(result) if each.name.startswith("paper-")]
    assert picture.svg.read_text().count(">the paper</text>") == 1
    assert "paper 2 s, ours" in picture.alt
    table = quantiles.table(result, curves.of(result))
    [ours] = [
        ours for paper, ours in quantiles.pairs(drawn[0], quantiles.samples(result, drawn[0]), [0.5]) if paper == 2
    ]
    assert f"2 s, {ours:.3g} s" in table
    assert "| - |" not in table


def test_panels_of_other_variants_have_their_own_colours_and_legend(
    make_up: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, write: Callable[[str, str], Path]
) -> None:
    result = Result(make_up(seeds=1))
    variants = list(result.variants)[:2]
    rows = "".join(
        f"{panel},web,ttfb_s,,{variant},{share},{value}\n"
        for panel, variant in zip(("1a", "1b"), variants, strict=True)
        for share, value in ((0.1, 1), (0.5, 2), (0.9, 4))
    )
    monkeypatch.setattr(of_paper, "COLOURS", style.COLOURS[:1])
    picture = of_paper.draw(result, "1", curves.read(write("curves.csv", HEAD + rows)))
    assert picture is not None
    panels = picture.figure.axes
    legends = [legend for axes in panels if (legend := axes.get_legend())]
    assert [[text.get_text() for text in legend.get_texts()] for legend in legends] == [
        [result.variants[variant]] for variant in variants
    ]
    assert {axes.lines[-1].get_color() for axes in panels} == {style.COLOURS[0]}
    [legend] = picture.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Penstock", "the paper"]


@pytest.mark.parametrize(
    ("figure", "words"), [("7a", "Figure 7a"), ("slide-14", "Slide 14"), ("report-11", "Report, figure 11")]
)
def test_a_figure_is_named_with_its_source(figure: str, words: str) -> None:
    assert of_paper.named(figure) == words


@pytest.mark.parametrize(
    ("row", "says"),
    [("7a,*,ttfb_s,,kist,1.5,4", "row 1: share"), ("7a,*,ttfb_s,,kist,0.5,fast", "row 1: value")],
)
def test_a_wrong_row_is_named(write: Callable[[str, str], Path], row: str, says: str) -> None:
    with pytest.raises(PenstockError, match=says):
        curves.read(write("curves.csv", f"{HEAD}{row}\n"))


def test_a_run_without_victims_draws_no_curves_of_the_paper(tmp_path: Path) -> None:
    run = ["run.networks=[1]", 'run.duration="4 s"', 'run.warmup="0 s"']
    result = runs.run("attacks/latency", variants=["vanilla"], sets=run, out=tmp_path / "out")
    assert not [picture for picture in figures.draw(result) if picture.name.startswith("paper-")]
    assert "1157, - |" in quantiles.table(result, curves.of(result))


def test_written_per_client_is_in_bytes_per_second(tmp_path: Path) -> None:
    run = ["run.networks=[1]", 'run.duration="6 s"', 'run.warmup="0 s"']
    result = runs.run("kist/ci", variants=["vanilla"], sets=run, out=tmp_path / "out")
    every = sample(result, "network_written_bytes", "vanilla", "*", "")["value"].sum()
    groups = tomllib.loads(catalog.resolved_text(result.scenario, "vanilla"))["clients"]
    clients = sum(group["count"] for group in groups.values())
    rate = sample(result, "written_per_client", "vanilla", "*", "")["value"].sum()
    assert rate == pytest.approx(every / clients)
