"""Generated blocks of Markdown files replace themselves and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import generated
from penstock.errors import PenstockError


def test_a_block_is_written_into_a_new_file_and_replaced_later(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    generated.write(page, "numbers", generated.table(["a", "b|c"], [["1", "two\nlines"]]), "Penstock 1")
    first = (
        "<!-- begin generated: numbers -->\n\n| a | b\\|c |\n| --- | --- |\n| 1 | two lines |\n\n*Penstock 1*\n\n"
        "<!-- end generated -->\n"
    )
    assert page.read_text() == first
    page.write_text(f"Before.\n{first}After.\n")
    generated.write(page, "numbers", "none", "Penstock 2")
    block = "<!-- begin generated: numbers -->\n\nnone\n\n*Penstock 2*\n\n<!-- end generated -->"
    assert page.read_text() == f"Before.\n{block}\nAfter.\n"


@pytest.mark.parametrize("text", ["Mine.\n", "<!-- begin generated: others -->\n<!-- end generated -->\n",
                                  "<!-- begin generated: numbers -->\n"])  # fmt: skip
def test_a_file_without_the_block_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(PenstockError, match=r"page\.md has no generated block of this name; add the lines"):
        generated.write(page, "numbers", "none")
    assert page.read_text() == text


def test_the_origin_has_version_and_date() -> None:
    assert generated.origin().startswith("Penstock ")
    assert generated.origin()[-10:-6].isdigit()
