"""The comparison of the testbed with the simulator, on rows with known results."""

from typing import Any

import pytest
from conftest import program

WORLDS = program("references/worlds")


def row(variant: str, seed: int, *, web: float, fast: int) -> dict[str, Any]:
    stations = {"kernel_out_percentiles_s": [0.01, 0.02, 0.03], "count": 300}
    return {
        "variant": variant,
        "seed": seed,
        "downloads": {"web": {"ttlb_s": [web * (1 + seed / 1000)]}},
        "cells": {"exit": stations},
        "relay_cells": {"fast-middle": fast, "slow-middle": 1000 - fast, "exit": 1000},
    }


def verdicts(fast: int, web: float) -> dict[tuple[str, str], str]:
    """The verdicts if the simulator's linked circuits have these results. The testbed's are 600 cells and 2 s."""
    sides = {"testbed": (600, 2.0), "sim": (fast, web)}
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for backend, (cells, time) in sides.items():
        rows[backend, "unlinked"] = [row("unlinked", seed, web=1.9, fast=500) for seed in (1, 2, 3)]
        rows[backend, "conflux"] = [row("conflux", seed, web=time, fast=cells) for seed in (1, 2, 3)]
    return {(line[0], line[1]): line[-1] for line in WORLDS["table"](rows)}


@pytest.mark.parametrize(("fast", "verdict"), [(501, "holds"), (699, "holds"), (499, "**fails**"), (701, "**fails**")])
def test_shares_of_the_legs_may_differ_by_10_points(fast: int, verdict: str) -> None:
    assert verdicts(fast, 2.0)["conflux", "cells on the fast leg"] == verdict


@pytest.mark.parametrize(("web", "band", "sign"), [(2.3, "holds", "holds"), (1.8, "holds", "**fails**")])
def test_linked_circuits_have_the_criteria_of_a_mechanism(web: float, band: str, sign: str) -> None:
    verdict = verdicts(600, web)
    assert (verdict["conflux", "web"], verdict["unlinked to conflux", "web"]) == (band, sign)
    assert verdicts(600, 2.5)["conflux", "web"] == "**fails**"
