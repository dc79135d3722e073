"""Tests of the line between congestion and KIST's gain."""

import math
from pathlib import Path
from typing import Any

import pytest
from conftest import program

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_congestion")


def test_a_line_gives_the_change_at_the_papers_median(study: dict[str, Any]) -> None:
    changes = {median: 0.1 - 0.4 * math.log(median / 0.5) for median in (0.5, 0.7, 1.0, 1.3)}
    rows = [{"vanilla": median, "kist": median * (1 + change)} for median, change in changes.items()]
    found = study["fit"](rows, "kist")
    assert found.change == pytest.approx(0.1 - 0.4 * math.log(0.838 / 0.5))
    assert found.of_mean == pytest.approx(0, abs=1e-6)
    assert found.correlation == pytest.approx(-1)


def test_one_network_scatters_more_than_the_mean(study: dict[str, Any]) -> None:
    rows = [
        {"vanilla": median, "kist": median * (0.9 + 0.05 * (-1) ** i)} for i, median in enumerate((0.5, 0.7, 1.0, 1.3))
    ]
    found = study["fit"](rows, "kist")
    assert 0 < found.of_mean < found.of_network


def test_the_papers_gain_is_within_the_interval_of_one_network(study: dict[str, Any]) -> None:
    rows = study["grids"].read(ROOT / "docs" / "data" / "kist" / "congestion.jsonl")
    assert sorted({row["model"] for row in rows}) == ["first", "second", "third"]
    assert len(rows) == 15
    found, paper = study["fit"](rows, "kist"), study["change"](study["PAPER"], "kist")
    assert abs(paper - found.change) < found.of_network
    assert study["table"](rows).splitlines()[-1].startswith("| paper |")
