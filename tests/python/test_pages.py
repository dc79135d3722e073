"""Tutorials and how-to guides show what the program prints; `pages.py` rewrites them."""

import re
from pathlib import Path

import pytest

import pages


def shows_quick(page: Path) -> bool:
    """Whether the page shows a command that runs no simulation."""
    return any(f"\n$ {command} " in page.read_text(encoding="utf-8") for command in pages.QUICK)


SHOWN = [page for page in pages.every() if shows_quick(page)]


def test_some_pages_show_the_explanation_of_a_scenario() -> None:
    assert "first-scenario.md" in [page.name for page in SHOWN]


@pytest.mark.parametrize("page", SHOWN, ids=[page.stem for page in SHOWN])
def test_a_page_shows_what_check_and_list_print(page: Path, tmp_path: Path) -> None:
    assert pages.rewritten(page, tmp_path, pages.QUICK) == page.read_text(encoding="utf-8")


def test_a_wrong_output_on_a_page_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ penstock list papers\nno such line\n```\n", encoding="utf-8")
    shown = pages.rewritten(page, tmp_path, pages.QUICK)
    assert "no such line" not in shown
    assert re.search(r"^\$ penstock list papers\n.*ewma", shown, flags=re.MULTILINE | re.DOTALL)
