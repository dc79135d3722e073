"""Tests of the search for the threshold throttle's parameters: its settings, its rule, and its table."""

from pathlib import Path
from typing import Any

import pytest
from conftest import program

from penstock import catalog

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def search() -> dict[str, Any]:
    return program("threshold_grid")


def made_up(fraction: float, web: float, bulk: float) -> dict[str, Any]:
    where = {"fraction": fraction, "refresh_s": 1, "half_life_s": 90, "throughput": "mean"}
    return where | {"web_s": [web, web], "first_byte_s": 1.0, "bulk_mib": bulk, "bulk_share": 0.1}


def test_every_setting_is_a_throttle_of_both_guards(search: dict[str, Any]) -> None:
    assert len(set(search["GRID"])) == len(search["GRID"]) == 40
    for setting in search["GRID"]:
        sets = tuple(search["overrides"](setting))
        document = catalog.load(search["SCENARIO"], sets, variants=["vanilla-medium"])[1]
        assert document.resolved("vanilla-medium").count('kind = "threshold"') == 2


def test_among_equal_web_downloads_the_rule_takes_most_bulk_bytes(search: dict[str, Any]) -> None:
    fast, near, slow = made_up(0.1, 2.00, 60.0), made_up(0.2, 2.015, 90.0), made_up(0.3, 2.05, 200.0)
    assert search["chosen"]([fast, near, slow]) is near
    assert "**T = 0.2, R = 1 s, H = 90 s**" in search["table"]([fast, near, slow])


def test_the_recorded_search_is_complete(search: dict[str, Any]) -> None:
    rows = search["grids"].read(ROOT / "docs/data/throttling/threshold-grid.jsonl")
    assert {search["setting_of"](row) for row in rows} == set(search["GRID"])
