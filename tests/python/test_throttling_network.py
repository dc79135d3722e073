"""Tests of the calibration of the network and the threshold with the throttling paper's curves: settings and rules."""

import math
import tomllib
from typing import Any

import pytest
from conftest import program

from penstock import catalog


@pytest.fixture(scope="module")
def network() -> dict[str, Any]:
    return program("throttling_network")


@pytest.fixture(scope="module")
def readings() -> dict[str, Any]:
    return program("throttling_readings")


def slower(row: dict[str, Any], factor: float) -> dict[str, Any]:
    """A row whose web downloads take longer by a factor."""
    times = [factor * each for each in row["curves"]["3e"]]
    return row | {"curves": row["curves"] | {"3e": times}}


def test_every_setting_is_a_network_of_its_own(network: dict[str, Any]) -> None:
    settings = network["SETTINGS"].values()
    assert len({catalog.load(network["SCENARIO"], tuple(each))[1].fingerprint() for each in settings}) == len(settings)


def test_every_reading_is_a_throttle_of_its_own(readings: dict[str, Any]) -> None:
    throttles = {readings["throttle"](*each) for each in readings["READINGS"].values()}
    assert len(throttles) == len(readings["READINGS"])
    for each in throttles:
        catalog.load(readings["SCENARIO"], (f"relay.throttle={each}",))


def test_the_papers_numbers_are_those_of_its_figures(network: dict[str, Any], readings: dict[str, Any]) -> None:
    vanilla, threshold = network["paper"](), readings["paper"]()
    assert vanilla["curves"]["3d"][4] == pytest.approx(7.56, rel=0.01)
    assert vanilla["curves"]["3f"][4] == pytest.approx(83.9, rel=0.01)
    assert vanilla["received"] == pytest.approx(5.25, rel=0.01)
    assert threshold["curves"]["3f"][4] == pytest.approx(251.5, rel=0.01)
    assert threshold["near_steps"] == pytest.approx(0.33, abs=0.01)


@pytest.mark.parametrize("name", ["throttling_network", "throttling_readings"])
def test_the_misfit_is_zero_at_the_papers_numbers_and_counts_ratios(name: str) -> None:
    bench = program(name)
    paper = bench["paper"]()
    assert bench["misfit"](paper, paper) == 0
    for factor in (2, 0.5):
        assert bench["misfit"](slower(paper, factor), paper) == pytest.approx(math.log(2) ** 2)
    assert bench["misfit"](paper | {"bulk_share": 2 * paper["bulk_share"]}, paper) == pytest.approx(math.log(2) ** 2)


def test_quantiles_that_are_not_drawn_do_not_count(network: dict[str, Any]) -> None:
    assert network["mean_square"]([1.0, 5.0], [1.0, math.nan]) == 0


def test_the_setting_with_the_smallest_misfit_is_bold(network: dict[str, Any]) -> None:
    paper = network["paper"]()
    rows = [slower(paper, 2) | {"setting": "one"}, slower(paper, 1.1) | {"setting": "two"}]
    lines = [line.split("|")[1].strip() for line in network["table"](rows).splitlines() if line.startswith("|")]
    assert lines[2:5] == ["one", "**two**", "paper"]


def test_downloads_near_a_step_are_counted(readings: dict[str, Any]) -> None:
    def between(at: float) -> float:
        return min(max((at - 138) / 274, 0), 1)

    assert readings["near_steps"](between) == pytest.approx(40 / 274)
    assert readings["near_steps"](lambda at: float(at >= 168)) == 1
    assert math.isnan(readings["near_steps"](lambda at: float(at >= 108)))


def test_drawn_downloads_wait_for_whole_periods(readings: dict[str, Any]) -> None:
    assert readings["waiting"](0.5, 0) == 0.25
    assert readings["waiting"](0.5, 100) == pytest.approx(1)
    rows = [line.split("|") for line in readings["table_of_zeros"]().splitlines()[2:]]
    assert [row[1].strip() for row in rows] == ["3c", "3f", "3i"]
    assert [float(row[2]) for row in rows] == pytest.approx([0.61, 0.63, 0.65], abs=0.015)
    for drawn, fitted in (cell.split(",") for row in rows for cell in row[3:9]):
        assert float(drawn) == pytest.approx(float(fitted), abs=0.07)


def test_the_authors_parameters_are_the_same_under_all_loads() -> None:
    variants = tomllib.loads((catalog.SHIPPED / "throttling" / "loads-authors.toml").read_text())["variants"]
    throttles = {each["name"]: each.get("set", {}).get("relay.throttle") for each in variants}
    for algorithm in ("vanilla", "static", "split", "flag", "threshold"):
        assert throttles[f"{algorithm}-light"] == throttles[f"{algorithm}-medium"] == throttles[f"{algorithm}-heavy"]
    assert throttles["static-medium"]["rate"] == "50 KiB/s"
    assert throttles["flag-medium"] == {"kind": "flagging", "rate": "5 KiB/s", "penalty": 0.0, "half_life": "90 s"}
    assert (throttles["threshold-medium"]["refresh"], throttles["threshold-medium"]["floor"]) == ("60 s", "50 KiB/s")
