"""The table of features is complete, and its files and tests exist."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "features.md"

RANGES = {
    "A": [(1, 29)],
    "D": [(1, 16), (20, 24), (30, 48), (50, 57)],
    "E": [(1, 14), (20, 30), (40, 49)],
    "T": [(1, 10), (20, 28), (40, 55)],
    "K": [(1, 12), (20, 25), (30, 39), (50, 62), (70, 79)],
    "M": [(1, 14), (20, 22), (30, 40)],
    "X": [(1, 13)],
    "H": [(1, 12)],
}
"""First and last number of each run of ids, fixed permanently."""

STATUS = re.compile(r"done(: .+)?|(partly|not done): .+|not yet(: .+)?")


class Row(NamedTuple):
    """One feature."""

    id: str
    item: str
    status: str
    files: list[str]
    tests: list[str]
    scenarios: list[str]


def rows() -> list[Row]:
    """The rows of all tables of the page."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| [A-Z]-\d", line)]
    found = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        assert len(cells) == 6, line
        names = [re.findall(r"`([^`]+)`", cell) for cell in cells[3:]]
        found.append(Row(cells[0], cells[1], cells[2], *names))
    return found


def ids() -> list[str]:
    """Every id, in order."""
    return [
        f"{letter}-{number:02}"
        for letter, runs in RANGES.items()
        for first, last in runs
        for number in range(first, last + 1)
    ]


def test_every_feature_has_one_row_in_order() -> None:
    assert [row.id for row in rows()] == ids()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_the_files_and_tests_of_a_row_exist(row: Row) -> None:
    assert row.item
    assert STATUS.fullmatch(row.status), row.status
    if row.status.startswith("done"):
        assert row.files or row.tests or row.scenarios, "nothing shows that it is done"
    for file in row.files:
        assert (ROOT / file).is_file(), file
    for test in row.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).is_file(), test
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"\b(fn|def) {function}\b", text) or not function, f"{file} has no test {function}"
    for scenario in row.scenarios:
        assert (ROOT / "scenarios" / f"{scenario}.toml").is_file(), scenario
