"""Points of papers' figures behind our curves."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import catalog, figures
from penstock.errors import PenstockError
from penstock.figures.printed import OF_VICTIMS
from penstock.paper import printed
from penstock.paper.claims import load
from penstock.result import Result

HEAD = "figure,scenario,workload,measure,variant,share,value,how\n"


def test_the_shipped_points_name_variants_and_the_paper() -> None:
    for paper in catalog.papers():
        claims = load(paper)
        for point in printed.load(claims):
            _, document = catalog.load(claims.scenario(point.scenario))
            assert point.variant in [name for name, _ in document.variants()]
            assert point.measure in ("ttfb_s", "ttlb_s", *OF_VICTIMS)
    assert [point.value for point in printed.load(load("ewma"), "2")] == [2.6, 1.75]
    assert {point.figure for point in printed.load(load("defenestrator"), "5")} == {"5a"}


def test_a_figure_has_its_points_in_legend_caption_and_alternative_text(make_up: Callable[..., Path]) -> None:
    points = [
        printed.Point(
            figure="5a", scenario="bottleneck", workload="web", measure="ttfb_s", variant=name, share=0.5, value=value,
            how="text",
        )
        for name, value in (("stock", 4.5), ("dynamic", 2.0))
    ]  # fmt: skip
    drawn = figures.draw(Result(make_up(seeds=2)), points)
    [picture] = [each for each in drawn if each.name == "figure-5a-web-ttfb"]
    text = picture.svg.read_text()
    assert "stock, the paper: 50% within 4.5 s" in text
    assert "Figure 5a" in text
    # The output has no such variant.
    assert "within 2 s" not in text
    assert "stock: text" in picture.caption
    assert "stock, the paper: 50% within 4.5 s." in picture.alt


@pytest.mark.parametrize(
    ("row", "says"),
    [("5a,b,web,ttfb_s,stock,1.5,4,text", "row 1: share"), ("5a,b,web,ttfb_s,stock,0.5,fast,text", "row 1: value")],
)
def test_a_wrong_row_is_named(write: Callable[[str, str], Path], row: str, says: str) -> None:
    with pytest.raises(PenstockError, match=says):
        printed.read(write("printed.csv", f"{HEAD}{row}\n"))
