"""Tests of the line between the medians of vanilla and KIST."""

from pathlib import Path
from typing import Any

import pytest
from conftest import program

ROOT = Path(__file__).parents[2]
MEDIANS = (0.5, 0.7, 1.0, 1.3)


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_congestion")


def test_a_line_gives_the_median_at_the_papers_vanilla(study: dict[str, Any]) -> None:
    found = study["fit"]([{"vanilla": median, "kist": 0.7 * median**0.6} for median in MEDIANS], "kist")
    assert found.slope == pytest.approx(0.6)
    assert found.median == pytest.approx(0.7 * 0.838**0.6)
    assert found.of_mean == pytest.approx((found.median, found.median))


def test_a_constant_median_has_no_slope(study: dict[str, Any]) -> None:
    found = study["fit"]([{"vanilla": median, "kist": 0.6} for median in MEDIANS], "kist")
    assert found.slope == pytest.approx(0, abs=1e-9)


def test_one_network_scatters_more_than_the_mean(study: dict[str, Any]) -> None:
    rows = [{"vanilla": median, "kist": median * (0.9 + 0.05 * (-1) ** i)} for i, median in enumerate(MEDIANS)]
    found = study["fit"](rows, "kist")
    assert found.of_network[0] < found.of_mean[0] < found.median < found.of_mean[1] < found.of_network[1]


def test_the_table_has_every_network_once(study: dict[str, Any]) -> None:
    rows = study["grids"].read(ROOT / "docs" / "data" / "kist" / "congestion.jsonl")
    networks = {(row["model"], row["network"]) for row in rows}
    assert len(networks) == len(rows) == 15
    lines = study["table"](rows).splitlines()
    assert len(lines) == 2 + len(rows) + 2
    assert lines[-1].startswith("| paper |")
