"""Without matplotlib, which the extra `plots` installs, everything except figures works."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command

from penstock import draw_figures, extras, identity
from penstock.errors import PenstockError
from penstock.result import Result


def without_matplotlib(penstock: Command, *words: str | Path) -> str:
    """The output of a command whose process cannot import matplotlib."""
    code = (
        "import sys; sys.modules['matplotlib'] = None; "
        f"sys.argv = {['penstock', *map(str, words)]!r}; from penstock import cli; sys.exit(cli.run())"
    )
    done = penstock.run([sys.executable, "-c", code])
    assert (done.status, done.err) == (0, "")
    return done.out


def test_a_report_without_matplotlib_names_the_remedy(penstock: Command, make_up: Callable[..., Path]) -> None:
    made = make_up()
    assert f"pictures: none; {extras.NO_FIGURES}\n" in without_matplotlib(penstock, "report", made)
    page = (made / "report.html").read_text(encoding="utf-8")
    assert "This page has no figures: figures need matplotlib: pip install" in page
    assert "<figure" not in page
    assert not (made / "figures").exists()


def test_a_comparison_without_matplotlib_has_its_tables(penstock: Command, made_up: Path, tmp_path: Path) -> None:
    out = tmp_path / "compared"
    without_matplotlib(penstock, "compare", f"{made_up}:stock", f"{made_up}:small", "--out", out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "This page has no figures" in page
    assert "<figure" not in page
    assert (out / "quantiles.parquet").is_file()


def test_figures_without_matplotlib_are_an_error(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PenstockError, match=r"pip install 'penstock\[plots\]'"):
        draw_figures(Result(made_up))


def test_a_page_with_matplotlib_has_no_remedy(made_up: Path) -> None:
    from penstock.report import render

    assert extras.has_plots()
    assert "matplotlib" in identity.build()["libraries"]
    assert "This page has no figures" not in render([Result(made_up)])
