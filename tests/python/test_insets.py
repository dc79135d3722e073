"""Insets of papers' figures."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from penstock import catalog, figures
from penstock.errors import PenstockError
from penstock.figures import inset, of_paper
from penstock.paper import curves, insets
from penstock.paper.curves import Curve, Panel
from penstock.result import Result

HEAD = "figure,edge,least,most,share\n"

PAPERS = Curve(Panel("1a", "web", "ttfb_s", ""), "stock", (0.1, 0.5, 0.9), (1, 2, 4))
"""A curve of a paper."""


@pytest.mark.parametrize(
    "paper", [name for name in catalog.papers() if (catalog.SHIPPED / name / "insets.csv").exists()]
)
def test_each_shipped_inset_is_of_a_drawn_panel_and_shows_a_part_of_its_curves(paper: str) -> None:
    for each in insets.read(catalog.SHIPPED / paper / insets.FILE):
        of_panel = [curve for curve in curves.load(paper) if curve.panel.figure == each.figure]
        assert of_panel
        # The panel ends before the slowest curve does, so that the inset shows more than the panel.
        assert each.edge < max(curve.values[-1] for curve in of_panel) <= each.most
        assert all(curve.quantile(each.share) > each.least for curve in of_panel)


def test_kists_figure_7a_has_an_inset() -> None:
    [each] = insets.read(catalog.SHIPPED / "kist" / insets.FILE)
    assert each.figure == "7a"


@pytest.fixture
def drawn(make_up: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Axes]:
    """Draws a panel of made up downloads and the curve of a paper, with an inset."""

    def draw(edge: float = 1.0) -> Axes:
        shown = insets.Inset(figure="1a", edge=edge, least=0.5, most=8, share=0.4)
        monkeypatch.setattr(insets, "of", lambda _: {"1a": shown})
        picture = of_paper.draw(Result(make_up(seeds=1)), "1", [PAPERS])
        assert picture is not None
        assert "The inset of 1a shows the same curves from 0.5 to 8 s and above the share 0.4" in picture.caption
        axes: Axes = picture.figure.axes[0]
        return axes

    return draw


def test_an_inset_shows_the_lines_of_its_panel_on_a_logarithmic_axis(drawn: Callable[..., Axes]) -> None:
    axes = drawn()
    [inner] = axes.child_axes
    assert (inner.get_xscale(), inner.get_xlim(), inner.get_ylim()) == ("log", (0.5, 8), (0.4, 1.0))
    assert [label.get_text() for label in inner.get_xticklabels()] == ["0.5", "1", "2", "4", "8"]
    looks = [
        [(line.get_color(), line.get_linestyle(), np.asarray(line.get_xdata()).tolist()) for line in each.lines]
        for each in (axes, inner)
    ]
    assert looks[0] == looks[1]
    assert len(looks[0]) == 2


@pytest.mark.parametrize("edge", [0.1, 1.0, 40.0])
def test_no_curve_passes_below_an_inset(drawn: Callable[..., Axes], edge: float) -> None:
    axes = drawn(edge)
    least, most = axes.get_xlim()
    assert most >= edge
    left = least + (inset.LEFT - inset.LABELS) * (most - least)
    top = inset.BOTTOM + inset.HEIGHT
    bottom, high = axes.get_ylim()
    for line in axes.lines:
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert np.all((y[x > left] - bottom) / (high - bottom) > top)


def test_a_panel_keeps_the_papers_axis_if_its_curves_leave_space() -> None:
    given = insets.Inset(figure="1a", edge=40, least=0.5, most=8, share=0.4)
    assert inset.edge(given, [], [PAPERS]) == 40
    assert inset.edge(given.model_copy(update={"edge": 3.0}), [], [PAPERS]) > 2 / inset.LEFT


def test_a_figure_with_an_inset_has_the_same_bytes_again(
    make_up: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = Result(make_up(seeds=1))
    shown = insets.Inset(figure="1a", edge=1, least=0.5, most=8, share=0.4)
    monkeypatch.setattr(insets, "of", lambda _: {"1a": shown})

    def written(folder: str) -> list[bytes]:
        [picture] = figures.draw_into(tmp_path / folder, of_paper.makers(result, [PAPERS]))
        return [picture.svg.read_bytes(), picture.png.read_bytes()]

    assert written("one") == written("two")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("7a,3,0.5,0.2,0.4", "row 1: most is 0.2; it must be above least, which is 0.5"),
        ("7a,3,0,8,0.4", "row 1: least"),
        ("7a,3,0.5,8,1.4", "row 1: share"),
    ],
)
def test_a_wrong_row_is_named(write: Callable[[str, str], Path], row: str, says: str) -> None:
    with pytest.raises(PenstockError, match=says):
        insets.read(write("insets.csv", f"{HEAD}{row}\n"))
