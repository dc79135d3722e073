"""The anonymity set of a partial deployment."""

import numpy as np
import pytest
from conftest import Command, sentence

from penstock.attacks import partition


def test_equal_guards_lose_the_logarithm_of_the_share() -> None:
    found = partition.rows(np.ones(1024), 0.5, shares=(0.25, 0.5, 1.0))
    assert [row.lost[0] for row in found] == pytest.approx([2.0, 1.0, 0.0])
    assert [row.remaining for row in found] == pytest.approx([256, 512, 1024])
    # The consensus activates the new flow control at a half.
    assert [row.switched[0] for row in found] == pytest.approx([0.0, 1.0, 0.0])


def test_a_single_upgraded_guard_reveals_everything() -> None:
    [row] = partition.rows(np.ones(16), 1.0, shares=(0.01,))
    assert row.lost[0] == pytest.approx(4.0)
    assert row.switched == (0.0, 0.0, 0.0)


def test_the_entropy_of_weighted_guards() -> None:
    assert partition.entropy(np.array([2.0, 1.0, 1.0])) == pytest.approx(1.5)


def test_partition_prints_a_table(penstock: Command) -> None:
    done = penstock("partition", "attacks/guard-rates", "--switch", "0.4")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("| relays with the new flow control | guards that remain |")
    assert lines[-1].startswith("50 guards")
    rows = {line.split("|")[1].strip(): line.split("|")[4].strip() for line in lines[2:11]}
    assert rows["20 %"] == "0.00"
    assert rows["40 %"] != "0.00"


def test_a_scenario_without_guards_is_refused(penstock: Command) -> None:
    done = penstock("partition", "attacks/linked", "--set", "relay.flags=[]")
    assert "fewer than two relays that may be guards" in sentence(done)
