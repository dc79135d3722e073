"""Tests of the calibration of KIST's network with scarce exits."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import program

from penstock import catalog

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_exits")


@pytest.fixture(scope="module")
def rows(study: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = study["grids"].read(ROOT / "docs" / "data" / "kist" / "exits.jsonl")
    return found


def test_the_scenario_has_the_setting_that_the_rule_chose(study: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert sorted(map(study["setting_of"], rows)) == sorted(study["SETTINGS"])
    overrides = tuple(study["setting_of"](study["kist_delays"].chosen(rows)).overrides())
    name, tuned = catalog.load(study["SCENARIO"], overrides)
    assert tuned.resolved("vanilla") == catalog.load(name)[1].resolved("vanilla")


def test_every_setting_has_the_same_number_of_relays(study: dict[str, Any]) -> None:
    documents = [catalog.load(study["SCENARIO"], tuple(each.overrides()))[1] for each in study["SETTINGS"]]
    assert len({document.fingerprint() for document in documents}) == len(study["SETTINGS"])
    for document in documents:
        assert len(document.sampled("vanilla", 101)["relays"]) == study["RELAYS"]


@pytest.mark.parametrize("section", ["tcp", "relays"])
def test_twice_the_clients_have_the_same_network(section: str) -> None:
    single, double = (
        catalog.load(name)[1].resolved("vanilla") for name in ("kist/authors-exits", "kist/authors-exits-double")
    )
    assert tomllib.loads(single)[section] == tomllib.loads(double)[section]
    assert tomllib.loads(single)["network"] == tomllib.loads(double)["network"]


def test_exits_are_scarce(study: dict[str, Any]) -> None:
    def exits(scenario: str) -> float:
        relays = catalog.load(scenario)[1].sampled("vanilla", 101)["relays"]
        return sum(relay["weight"] for relay in relays if relay["exit"]) / sum(relay["weight"] for relay in relays)

    assert exits(study["SCENARIO"]) < 0.5 * exits("kist/authors-tenth")


def test_the_table_marks_the_chosen_row(study: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    lines = study["table"](rows).splitlines()
    assert [line.startswith("| **0.6, 1/6, 165**") for line in lines if "**" in line] == [True]
    assert lines[-1].startswith("| paper |")
