"""Tests of the calibration of delays and relays in the authors' network of KIST: its settings and its rule."""

import math
from typing import Any

import pytest
from conftest import program

from penstock import catalog


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_delays")


def made_up(study: dict[str, Any], relays: int, wait: float = 1.0) -> dict[str, Any]:
    """A row with the paper's numbers, whose waits have a factor."""
    row: dict[str, Any] = {"delays": 0.5, "relays": relays, "weights": "capacity", **study["paper"]()}
    return row | {"circuit_wait": [wait * each for each in row["circuit_wait"]]}


def test_every_setting_is_a_network_of_its_own(study: dict[str, Any]) -> None:
    found = {
        catalog.load(study["SCENARIO"], tuple(setting.overrides()))[1].fingerprint() for setting in study["SETTINGS"]
    }
    assert len(found) == len(study["SETTINGS"])


def test_the_paper_s_numbers_are_those_of_its_text(study: dict[str, Any]) -> None:
    paper = study["paper"]()
    assert paper["first_byte"][4] == pytest.approx(0.838, rel=0.01)
    assert paper["circuit_wait"][3] == pytest.approx(1.010, rel=0.01)
    assert paper["web"][4] == pytest.approx(2.83, rel=0.01)
    assert paper["bulk"][4] == pytest.approx(38.8, rel=0.01)
    assert 65 < paper["writes"][0] < 80


def test_the_misfit_is_zero_at_the_paper_s_numbers_and_counts_ratios(study: dict[str, Any]) -> None:
    paper = study["paper"]()
    assert study["misfit"](made_up(study, 1), paper) == 0
    twice, half = (study["misfit"](made_up(study, 1, factor), paper) for factor in (2, 0.5))
    assert twice == pytest.approx(math.log(2) ** 2)
    assert half == pytest.approx(twice)


def test_the_setting_with_the_smallest_misfit_is_bold(study: dict[str, Any]) -> None:
    lines = study["table"]([made_up(study, 200, 2.0), made_up(study, 300, 1.1)]).splitlines()
    assert lines[2].startswith("| 0.5, 200, capacity |")
    assert lines[3].startswith("| **0.5, 300, capacity** |")
    assert lines[4].startswith("| paper |")
