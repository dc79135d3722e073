"""Tests of the calibration of loss in the authors' network of KIST: its levels, its criteria and its rule."""

from pathlib import Path
from typing import Any

import pytest
from conftest import program

from penstock import catalog

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_loss")


def made_up(loss: str, first: float, writes: float, wait: float, share: float) -> dict[str, Any]:
    shares = {f"kernel_out_share_{hop}": share for hop in ("guard", "middle", "exit")}
    times = {"first_byte_50": first, "first_byte_99": 7.0, "kernel_out_99": wait}
    return {"loss": loss, "writes": writes} | times | shares


def test_every_level_of_the_loss_is_a_network_of_its_own(study: dict[str, Any]) -> None:
    found = {
        catalog.load(study["SCENARIO"], (*study["TIMES"], *sets), variants=["vanilla"])[1].fingerprint()
        for sets in study["LOSSES"].values()
    }
    assert len(found) == len(study["LOSSES"]) == 7


def test_the_rule_counts_criteria_before_it_compares_loads(study: dict[str, Any]) -> None:
    many = made_up("many", 0.8, 66.0, 4.1, 0.71)
    near = made_up("near", 0.8, 73.0, 4.1, 0.70)
    far = made_up("far", 1.2, 90.0, 3.9, 0.80)
    assert [study["met"](row) for row in (many, near, far)] == [4, 3, 1]
    assert study["chosen"]([near, many, far]) is many
    assert study["chosen"]([far, made_up("also", 0.8, 60.0, 4.1, 0.6), near]) is near


@pytest.mark.parametrize(
    ("file", "scenario", "loss", "extra"),
    [
        ("authors-loss", "kist/authors-calibrated", "network.place_loss=0.25", ()),
        ("authors-loss-per-write", "kist/authors-writes", "network.place_loss=0.0625", ("tcp.segment_per_write=true",)),
    ],
)
def test_a_calibrated_scenario_has_the_loss_that_the_rule_chose(
    study: dict[str, Any], file: str, scenario: str, loss: str, extra: tuple[str, ...]
) -> None:
    rows = study["grids"].read(ROOT / f"docs/data/kist/{file}.jsonl")
    assert [row["loss"] for row in rows] == list(study["LOSSES"])
    sets = tuple(study["LOSSES"][study["chosen"](rows)["loss"]])
    assert sets == (loss,)
    calibrated = catalog.load(scenario)[1].resolved("vanilla")
    chosen = catalog.load(study["SCENARIO"], (*sets, *extra))[1].resolved("vanilla")
    section = "[tcp]"
    assert calibrated[calibrated.index(section) :] == chosen[chosen.index(section) :]


def test_the_chosen_row_is_bold(study: dict[str, Any]) -> None:
    rows = [made_up("none", 1.5, 132.0, 0.8, 0.6), made_up("1/4", 0.84, 67.4, 2.5, 0.6)]
    lines = study["table"](rows).splitlines()
    assert lines[3].startswith("| **1/4** | 0.84, 7.0 s | 67.4 MiB/s | 2.50 s | 0.60, 0.60, 0.60 | 2 of 4 |")
    assert "**none**" not in lines[2]
