"""The text of a validation page names each claim that fails or is undecided there, because it gives the cause."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "validation").glob("*.md"))
GENERATED = re.compile(r"<!-- begin generated: .*?<!-- end generated -->", flags=re.DOTALL)
VERDICTS = re.compile(r"\| (?:\*\*)?(holds|fails|undecided|not gated|not yet|needs the network)(?:\*\*)? \|")
NAME = re.compile(r"`([\w.*-]+)`")


def claims(page: str) -> list[tuple[str, str]]:
    """Return the claims in the generated tables of a page, with their verdicts."""
    rows = [line for block in GENERATED.findall(page) for line in block.splitlines() if line.startswith("| `")]
    return [(NAME.findall(row)[0], found[1]) for row in rows if (found := VERDICTS.search(row))]


def unnamed(page: str) -> list[str]:
    """Return the open claims of a page that its text does not name.

    In a name, `*` stands for any characters. A name that begins with a hyphen is the end of a name.
    """
    names = [f"*{name}" if name.startswith("-") else name for name in NAME.findall(GENERATED.sub("", page))]
    return [
        claim
        for claim, verdict in claims(page)
        if verdict in ("fails", "undecided") and not any(fnmatchcase(claim, name) for name in names)
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_open_claim_is_named_in_the_text(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert unnamed(page) == []
    found = [verdict for _, verdict in claims(page)]
    for verdict in ("fails", "undecided"):
        sentences = re.findall(rf"^The verdicts? of \d+ claims? .*?{verdict} \((\d+)\)", page, flags=re.MULTILINE)
        assert found.count(verdict) == sum(map(int, sentences)), f"the rows with {verdict}"


def test_an_unnamed_claim_is_found() -> None:
    rows = ["| `web-fast` | fig. 1 | **fails** | |", "| `web-slow` | fig. 1 | **undecided** | |"]
    rows += ["| `bulk` | fig. 1 | holds | |", "| `late` | fig. 1 | undecided | |"]
    page = "\n".join(["<!-- begin generated: a table -->", *rows, "<!-- end generated -->", "Why `*-slow` is open."])
    assert unnamed(page) == ["web-fast", "late"]
