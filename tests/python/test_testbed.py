"""`penstock run --world testbed`, with a program that replaces the testbed and prints prepared output."""

import json
import signal
import stat
import sys
from pathlib import Path

import pytest

import penstock
from penstock import testbed
from penstock.errors import Cancelled, OutputError, PenstockError, ScenarioError

SCENARIO = """
[scenario]
title = "x"
[run]
duration = "2 s"
[relays.entry]
[servers.server]
[workloads.web]
size = "10 KiB"
[clients.web]
workload = "web"
path = ["entry"]
"""

STAND_IN = """#!{python}
import json, sys
import penstock._core as core
words = sys.argv[1:]
assert words[0] == "world"
said = dict(zip(words[2::2], words[3::2]))
assert said["--world"] == "testbed"
{does}
document = core.Document(open(words[1]).read(), words[1])
costs = core.run(document, said["--variant"], None, int(said["--seed"]), said["--out"], core.Control())
emulation = {{"void": {void!r}}}
print(json.dumps({{"seconds": 2.0, "packets": 7, "written_cells": 9, "emulation": emulation}}))
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A small scenario."""
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, void: str | None = None, does: str = "") -> None:
    """Puts a program in the testbed's place, which simulates."""
    path = tmp_path / "stand-in"
    path.write_text(STAND_IN.format(python=sys.executable, void=void, does=does))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(testbed, "program", lambda: path)


def test_tables_of_the_testbed_are_read_as_any(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scenario: Path) -> None:
    stand_in(monkeypatch, tmp_path)
    result = penstock.run(scenario, world="testbed", runs=2, out=tmp_path / "out")
    assert sorted(result.transfers["seed"].unique()) == [1, 2]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["world"] == "testbed"
    assert [(run["sim_seconds"], run["packets"], run["cells"]) for run in manifest["runs"]] == [(2.0, 7, 9)] * 2


def test_a_late_run_is_refused_and_another_backend_cannot_continue_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scenario: Path
) -> None:
    stand_in(monkeypatch, tmp_path, void="1 % of the packets were at least 3 ms late")
    with pytest.raises(OutputError, match="default, seed 1, is invalid: 1 % of the packets"):
        penstock.run(scenario, world="testbed", runs=1, out=tmp_path / "out")
    assert not list((tmp_path / "out" / "parts").iterdir())
    with pytest.raises(OutputError, match="holds unfinished runs of --world testbed"):
        penstock.run(scenario, runs=1, out=tmp_path / "out")


def test_an_error_of_the_program_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scenario: Path) -> None:
    stand_in(monkeypatch, tmp_path, does='sys.exit("penstock-testbed: no user namespace can be made here")')
    with pytest.raises(PenstockError, match=r"^default, seed 1: no user namespace can be made here$"):
        penstock.run(scenario, world="testbed", runs=1, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV"), (40, "signal 40")]
)
def test_a_program_killed_by_a_signal_counts_as_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scenario: Path, number: int, name: str
) -> None:
    stand_in(monkeypatch, tmp_path, does=f"import os; os.kill(os.getpid(), {int(number)})")
    with pytest.raises(PenstockError, match=f"^default, seed 1: the testbed was ended by {name}$") as failed:
        penstock.run(scenario, world="testbed", runs=1, out=tmp_path / "out")
    assert not isinstance(failed.value, Cancelled)


def test_ctrl_c_that_the_program_hears_first_stops_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scenario: Path
) -> None:
    does = "import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)"
    stand_in(monkeypatch, tmp_path, does=does)
    with pytest.raises(Cancelled, match=r"^the run was stopped$"):
        penstock.run(scenario, world="testbed", runs=1, out=tmp_path / "out")


def test_the_testbed_replays_nothing_and_has_no_networks_of_their_own(tmp_path: Path, scenario: Path) -> None:
    with pytest.raises(ScenarioError, match="each seed samples its own network"):
        penstock.run(scenario, world="testbed", networks=2, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
