"""Tests of the calibration of KIST's network with the TCP of the authors' simulator."""

from pathlib import Path
from typing import Any

import pytest
from conftest import program

from penstock import catalog

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_tcp")


def test_the_scenario_has_the_setting_that_the_rule_chose(study: dict[str, Any]) -> None:
    rows = study["grids"].read(ROOT / "docs" / "data" / "kist" / "authors-tcp.jsonl")
    assert sorted(map(study["setting_of"], rows)) == sorted(study["SETTINGS"])
    overrides = tuple(study["setting_of"](study["chosen"](rows)).overrides())
    for scenario in (study["SCENARIO"], f"{study['SCENARIO']}-double"):
        name, tuned = catalog.load(scenario, overrides)
        assert tuned.resolved("vanilla") == catalog.load(name)[1].resolved("vanilla")


def test_every_setting_is_a_network_of_its_own(study: dict[str, Any]) -> None:
    found = {catalog.load(study["SCENARIO"], tuple(each.overrides()))[1].fingerprint() for each in study["SETTINGS"]}
    assert len(found) == len(study["SETTINGS"])


def test_the_rule_chooses_within_the_grid(study: dict[str, Any]) -> None:
    rows = study["grids"].read(ROOT / "docs" / "data" / "kist" / "authors-tcp.jsonl")
    lines = study["table"](rows).splitlines()
    names = [line.split(" | ")[0].strip("| ") for line in lines[2:-1]]
    assert names[:3] == ["1, 1/16", "1, 1/8", "**0.75, 1/16**"]
    assert "0.75, 1/16, oldest write first" in names
    assert "0.5, 1/32, weights are capacities, 200 relays" in names
    assert sum("**" in line for line in lines) == 1
