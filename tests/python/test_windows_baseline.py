"""Tests of DefenestraTor's calibrations with stock Tor's digitized curves: their settings and their rules."""

import math
from typing import Any

import pytest
from conftest import program

from penstock import catalog


@pytest.fixture(scope="module")
def baseline() -> dict[str, Any]:
    return program("windows_baseline")


@pytest.fixture(scope="module")
def network() -> dict[str, Any]:
    return program("windows_network")


def scaled(row: dict[str, Any], factor: float) -> dict[str, Any]:
    """A row with the paper's quantiles times a factor."""
    return {figure: [factor * each for each in values] for figure, values in row.items()}


def test_each_value_of_a_factor_is_another_scenario(baseline: dict[str, Any]) -> None:
    start = baseline["STARTS"][0]
    for factor, values in baseline["FACTORS"].items():
        sets = [tuple(baseline["overrides"]({**start, factor: value}, "slow")) for value in values]
        found = {catalog.load(baseline["SCENARIO"], each)[1].fingerprint() for each in sets}
        assert len(found) == len(values), factor


def test_the_starts_are_the_shipped_baselines(baseline: dict[str, Any]) -> None:
    for start, shipped in zip(baseline["STARTS"], ("bottleneck", "link"), strict=True):
        same = (*baseline["overrides"](start, "slow"), 'trace.workloads=["bulk", "web"]', "trace.cells=10")
        times = ("run.seeds=[101, 102]", "run.stop.downloads=60")
        made = catalog.load(baseline["SCENARIO"], (*same, 'tcp.initial_window="auto"'))[1].resolved("stock")
        ours = catalog.load(f"defenestrator/{shipped}", times)[1].resolved("stock")
        for section in ("[tcp]", "[network]", "[relays.middle]"):
            assert part(made, section) == part(ours, section)


def part(text: str, section: str) -> str:
    """A section of a resolved scenario."""
    return text.split(f"\n{section}\n", 1)[1].split("\n[", 1)[0].strip()


def test_the_search_keeps_the_best_value_of_each_factor(baseline: dict[str, Any]) -> None:
    def cost(setting: dict[str, str]) -> float:
        return (setting["rate"] != "96") + (setting["send_buffer"] != "112 KiB")

    tried = list(baseline["search"](baseline["STARTS"][0], cost))
    assert min(map(cost, tried)) == 0
    last = tried[-1]
    assert (last["rate"], last["send_buffer"]) == ("96", "112 KiB")


@pytest.mark.parametrize("name", ["baseline", "network"])
def test_the_misfit_is_zero_at_the_paper_s_numbers_and_counts_ratios(name: str, request: pytest.FixtureRequest) -> None:
    module = request.getfixturevalue(name)
    paper = module["paper"]()
    assert module["misfit"](paper, paper) == 0
    for factor in (2, 0.5):
        assert module["misfit"](scaled(paper, factor), paper) == pytest.approx(math.log(2) ** 2)


def test_the_best_setting_is_bold(baseline: dict[str, Any], network: dict[str, Any]) -> None:
    paper = baseline["paper"]()
    rows = [{"setting": start, **scaled(paper, 1 + each)} for each, start in enumerate(baseline["STARTS"], 1)]
    assert baseline["table"](rows).splitlines()[2].startswith("| **bucket")
    paper = network["paper"]()
    rows = [{"setting": list(each), **scaled(paper, 3)} for each in network["SETTINGS"]]
    rows[3].update(scaled(paper, 1.1))
    assert network["table"](rows).splitlines()[5].startswith("| **")


def test_a_network_of_equal_weights_has_other_paths(network: dict[str, Any]) -> None:
    found = {
        catalog.load(network["SCENARIO"], tuple(network["overrides"](setting)))[1].fingerprint()
        for setting in network["SETTINGS"]
    }
    assert len(found) == len(network["SETTINGS"])
