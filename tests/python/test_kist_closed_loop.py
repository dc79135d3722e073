"""Tests of the closed loop of KIST's clients: how download times become the bytes of all relays."""

from typing import Any

import pytest
from conftest import program

from penstock.paper.curves import Curve, Panel


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_closed_loop")


def test_the_mean_has_the_assumed_tail(study: dict[str, Any]) -> None:
    curve = Curve(Panel("7b", "web", "ttlb_s", ""), "vanilla", (0.0, 0.8), (1.0, 3.0))
    assert study["mean"](curve, 10.0) == pytest.approx(0.8 * 2 + 0.2 * 10, rel=1e-3)


def test_bulk_clients_write_in_inverse_proportion_to_their_download_times(study: dict[str, Any]) -> None:
    idle, busy = (study["written"](float("inf"), bulk) for bulk in (40.0, 20.0))
    # Bulk clients write twice as much, and TorPerf's, which pause, less than that.
    assert 1.8 < busy / idle < 2
    assert study["written"](float("inf"), float("inf")) == 0


def test_figure_8_is_not_what_figure_7_carries(study: dict[str, Any]) -> None:
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in study["table"]().splitlines()[2:]]
    assert [row[0] for row in rows] == ["vanilla", "global", "KIST"]
    for equal_tails in (2, 3, 4):
        assert float(rows[2][equal_tails].split(",")[1].rstrip(" %")) < 0
    assert float(rows[2][1].split(",")[1].rstrip(" %")) == pytest.approx(9.8, abs=0.1)
