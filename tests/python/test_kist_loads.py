"""Tests of the calibration of KIST's network with both loads: its settings, its figures and its rule."""

from typing import Any

import pytest
from conftest import program

from penstock import catalog


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_loads")


def made_up(study: dict[str, Any], relays: int, double: float = 1.0) -> dict[str, Any]:
    """A row with the paper's numbers, whose pages at the double load have a factor."""
    row: dict[str, Any] = {"delays": 0.5, "loss": 1 / 16, "relays": relays}
    row |= {load: study["paper"](load) for load in study["LOADS"]}
    row["double"]["web"] = [double * each for each in row["double"]["web"]]
    return row


def test_every_setting_is_a_network_of_its_own(study: dict[str, Any]) -> None:
    for scenario in (study["SINGLE"], study["DOUBLE"]):
        found = {catalog.load(scenario, tuple(each.overrides()))[1].fingerprint() for each in study["SETTINGS"]}
        assert len(found) == len(study["SETTINGS"])


def test_the_double_load_has_the_appendices_numbers(study: dict[str, Any]) -> None:
    single, double = study["paper"]("single"), study["paper"]("double")
    assert double["first_byte"][4] == pytest.approx(1.42, rel=0.01)
    assert double["web"][4] == pytest.approx(6.83, rel=0.01)
    assert double["writes"][0] / single["writes"][0] == pytest.approx(1.18, rel=0.01)


def test_the_rule_adds_the_misfits_of_both_loads(study: dict[str, Any]) -> None:
    far, near = made_up(study, 200, 2.0), made_up(study, 300, 1.1)
    assert study["misfits"](far)["single"] == 0 < study["misfits"](far)["double"]
    assert study["chosen"]([far, near]) is near
    lines = study["table"]([far, near]).splitlines()
    assert lines[2].startswith("| 0.5, 1/16, 200; single |")
    assert lines[5].startswith("| **0.5, 1/16, 300**; double |")
    assert lines[6].startswith("| paper; single |")
