"""Tests of the calibration of delays and relays in the authors' network of KIST: its settings and its rule."""

import math
import runpy
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock import catalog

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    with patch.object(sys, "path", [str(ROOT / "benches"), *sys.path]):
        return runpy.run_path(str(ROOT / "benches" / "kist_delays.py"))


def made_up(relays: int, first: float, writes: float, wait: float) -> dict[str, Any]:
    return {"delays": 0.5, "relays": relays, "first_byte_50": first, "writes": writes, "circuit_wait_50": wait}


def test_every_setting_is_a_network_of_its_own(study: dict[str, Any]) -> None:
    found = {
        catalog.load(study["SCENARIO"], tuple(study["overrides"](*setting)))[1].fingerprint()
        for setting in study["SETTINGS"]
    }
    assert len(found) == len(study["SETTINGS"])


def test_the_misfit_is_zero_at_the_paper_s_numbers_and_counts_ratios(study: dict[str, Any]) -> None:
    assert study["misfit"](made_up(1, 0.838, 73.0, 1.010)) == 0
    twice, half = (study["misfit"](made_up(1, 0.838, 73.0, 1.010 * factor)) for factor in (2, 0.5))
    assert twice == pytest.approx(math.log(2) ** 2)
    assert half == pytest.approx(twice)


def test_the_setting_with_the_smallest_misfit_is_bold(study: dict[str, Any]) -> None:
    lines = study["table"]([made_up(200, 0.8, 70.0, 2.0), made_up(300, 0.9, 70.0, 1.0)]).splitlines()
    assert lines[3].startswith("| **0.5, 300** | 0.90 s | 70.0 MiB/s | 1.00 s |")
    assert lines[4].startswith("| paper | 0.84 s | 73 MiB/s | 1.01 s |")
