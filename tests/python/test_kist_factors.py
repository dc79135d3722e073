"""Tests of the factorial study of KIST: its design, its overrides, and its estimates on data with a known answer."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import program

from penstock import catalog

Setting = tuple[int, ...]


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return program("kist_factors")


def test_no_factor_is_confused_with_another_or_with_an_interaction_of_two(study: dict[str, Any]) -> None:
    settings = np.array(study["design"]())
    assert len({tuple(row) for row in settings}) == 16
    assert (settings[0] == -1).all()
    assert (settings[-1] == 1).all()
    for place in range(settings.shape[1]):
        for one, other in itertools.combinations(set(range(settings.shape[1])) - {place}, 2):
            assert settings[:, place] @ settings[:, one] == 0
            assert settings[:, place] @ (settings[:, one] * settings[:, other]) == 0


def test_the_setting_of_the_authors_has_no_overrides_and_ours_is_valid(study: dict[str, Any]) -> None:
    ours, *_, theirs = study["design"]()
    assert study["overrides"](theirs) == []
    sets = study["overrides"](ours)
    assert len(sets) == 10
    _, document = catalog.load(study["SCENARIO"], tuple(sets), variants=["vanilla", "kist"])
    # Without token buckets, their refill is meaningless.
    assert all("relays.relay.refill has no effect" in warning for warning in document.warnings())


def test_the_signs_of_a_setting_are_read_back(study: dict[str, Any]) -> None:
    for setting in study["design"]():
        assert study["of_signs"](study["signs"](setting)) == setting
    for wrong in ("+-", "+-+-+-+x"):
        with pytest.raises(ValueError, match="is no setting"):
            study["of_signs"](wrong)


def rows(study: dict[str, Any], settings: list[Setting], spread: float) -> list[dict[str, Any]]:
    """Runs in three networks, where KIST gains 20 % by loss and loses 10 % by loss together with client links."""
    found = []
    for network, setting in itertools.product((1, 2, 3), settings):
        change = 0.05 + 0.1 * setting[0] - 0.05 * setting[0] * setting[1] + spread * (network - 2)
        for scheduler, value in (("vanilla", 2.0), ("kist", 2.0 * math.exp(change))):
            row = {"network": network, "setting": study["signs"](setting), "scheduler": scheduler}
            found.append(row | dict.fromkeys(study["RESPONSES"], value))
    return found


def test_the_effects_of_known_data_are_found(study: dict[str, Any]) -> None:
    found = study["effects"](study["logarithms"](rows(study, study["design"](), 0.01), "writes"))
    assert found["mean"].mean == pytest.approx(0.05)
    assert found["mean"].half == pytest.approx(4.302653 * 0.01 / math.sqrt(3))
    assert found["loss"].mean == pytest.approx(0.2)
    assert found["loss"].half == pytest.approx(0, abs=1e-12)
    together = next(name for name in found if "loss x client links" in name)
    assert found[together].mean == pytest.approx(-0.1)
    others = [estimate.mean for name, estimate in found.items() if name not in ("mean", "loss", together)]
    assert others == pytest.approx([0] * 13, abs=1e-12)


def test_each_scheduler_has_effects_of_its_own(study: dict[str, Any]) -> None:
    head, lines = study["of_each_scheduler"](rows(study, study["design"](), 0.01))
    assert head[-2:] == ["bytes that relays write, vanilla", "bytes that relays write, kist"]
    vanilla, kist = next(line for line in lines if line[0] == "loss")[-2:]
    assert vanilla == "+0.0 % (+0.0 to +0.0)"
    assert kist == "+22.1 % (+22.1 to +22.1)"  # exp(0.2)


def test_both_schedulers_have_the_same_networks(study: dict[str, Any]) -> None:
    every = rows(study, study["design"](), 0.01)
    lacking = {"network": 3, "setting": "++++++++", "scheduler": "kist"}
    partial = [row for row in every if not lacking.items() <= row.items()]
    for row in every:
        if row["network"] == 3:
            row["first_byte_50"] *= 1 + study["of_signs"](row["setting"])[0] / 2
    two = [row for row in every if row["network"] != 3]
    assert study["of_each_scheduler"](partial) == study["of_each_scheduler"](two)


def test_a_new_setting_is_predicted_from_single_factors(study: dict[str, Any]) -> None:
    new = (1, -1, -1, -1, -1, -1, -1, -1)
    assert new not in study["design"]()
    runs = rows(study, study["design"](), 0.01)
    estimate = study["predicted"](study["logarithms"](runs, "web_50"), new)
    assert estimate.mean == pytest.approx(0.15)
    # Between networks, and the misfit of 0.05 at each of 16 settings, with 7 degrees of freedom and a leverage of 9/16.
    between, misfit = 4.302653 * 0.01 / math.sqrt(3), 2.364624 * math.sqrt(16 * 0.05**2 / 7 * (1 + 9 / 16))
    assert estimate.half == pytest.approx(math.hypot(between, misfit), rel=1e-5)
    text = "\n".join(study["tables"](runs + rows(study, [new], 0.01)))
    assert "Networks: 3" in text
    assert "`+-------`" in text
    line = next(line for line in text.splitlines() if line.startswith("| 320 KiB, median | +16.2 %"))
    assert "+22.1 %" in line


def test_runs_of_other_lengths_are_not_mixed(study: dict[str, Any]) -> None:
    study["check"]([{"minutes": 5, "version": "1"}], {"minutes": 5, "version": "1"})
    with pytest.raises(SystemExit, match="runs with minutes 5, not 6"):
        study["check"]([{"minutes": 5, "version": "1"}], {"minutes": 6, "version": "1"})


def test_a_network_without_all_settings_is_left_out(study: dict[str, Any], tmp_path: Path) -> None:
    runs = rows(study, study["design"](), 0.0)[:-1]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in runs))
    assert "Networks: 2" in "\n".join(study["tables"](study["read"](file)))
    assert "No network" in "\n".join(study["tables"](runs[:4]))
