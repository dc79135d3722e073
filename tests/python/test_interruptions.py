"""What ends a job before its time keeps what is finished, says so in one sentence, and can be taken up again."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import SMALL, Command

import penstock as package
from penstock import _core
from penstock.output import TABLES

ENDLESS = SMALL + '\n[[variants]]\nname = "endless"\nset = { "run.duration" = "100000 h", "run.sample" = "1 h" }\n'


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Until `path` is there."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Two variants that end soon, and one that does not end before tomorrow."""
    path = tmp_path / "endless.toml"
    path.write_text(ENDLESS)
    return path


def interrupt(command: Command, scenario: Path, out: Path) -> subprocess.Popen[str]:
    """Start `scenario`, and send Ctrl-C when its first two variants are finished."""
    process = command.start("run", scenario, "--runs", "1", "--jobs", "1", "--out", out)
    wait_for(out / "parts" / "small-1", process)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    return process


def test_ctrl_c_ends_within_a_second_and_keeps_finished_runs(penstock: Command, endless: Path) -> None:
    out = penstock.directory / "out"
    process = interrupt(penstock, endless, out)
    began = time.monotonic()
    said, complaint = process.communicate(timeout=30)
    took = time.monotonic() - began
    assert process.returncode == 130
    assert took < 1.0, f"{took:.2f} s"
    assert said == ""
    assert complaint.splitlines() == [
        f"penstock: stopped: 2 of 3 runs are finished and kept in {out}, "
        f"and the same command with --out {out} does the rest"
    ]
    result = package.load(out)
    assert not result.finished
    assert list(result.variants) == ["stock", "small"]
    assert result.transfers["variant"].unique(maintain_order=True).to_list() == ["stock", "small"]
    for table in TABLES:
        assert (out / f"{table}.parquet").is_file()
    assert not list((out / "parts").glob("*.tmp"))


def test_an_unfinished_directory_resumes_to_the_same_tables(penstock: Command, small: Path) -> None:
    whole, half = penstock.directory / "whole", penstock.directory / "half"
    assert penstock("run", small, "--no-report", "--out", whole).status == 0
    leave_half(half, whole, small)
    done = penstock("run", small, "--no-report", "--out", half)
    assert done.status == 0, done.err
    manifest = json.loads((half / "manifest.json").read_text())
    assert manifest["finished"]
    runs = [(run["variant"], run["seed"]) for run in manifest["runs"]]
    assert runs == [("stock", 1), ("stock", 2), ("small", 1), ("small", 2)]
    assert manifest["runs"][0]["wall_seconds"] == 4321.0, "a finished run was done again"
    for table in TABLES:
        name = f"{table}.parquet"
        assert (half / name).read_bytes() == (whole / name).read_bytes(), name


def leave_half(directory: Path, whole: Path, scenario: Path) -> None:
    """Leave what a kill leaves: a manifest that has no end, one finished part, and one torn one."""
    parts = directory / "parts"
    (parts / "stock-1").mkdir(parents=True)
    document = _core.Document(scenario.read_text(), str(scenario))
    stats = _core.run(document, "stock", 1, parts / "stock-1", _core.Control())
    record = {"variant": "stock", "network": "", "seed": 1, **stats, "wall_seconds": 4321.0, "cpu_seconds": 1.0}
    (parts / "stock-1" / "run.json").write_text(json.dumps(record))
    (parts / "small-1.tmp").mkdir()
    (parts / "small-1.tmp" / "transfers.parquet").write_text("PAR1")
    manifest = json.loads((whole / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps({**manifest, "finished": False, "runs": []}))


@pytest.mark.parametrize("change", ["scenario", "version"])
def test_an_unfinished_directory_of_something_else_is_refused(penstock: Command, small: Path, change: str) -> None:
    assert penstock("run", small, "--no-report", "--out", "out", "--runs", "1").status == 0
    path = penstock.directory / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["finished"] = False
    if change == "version":
        manifest["version"] = "0.0.1"
    path.write_text(json.dumps(manifest))
    override = ["--set", "trace.cells=20"] if change == "scenario" else []
    done = penstock("run", small, "--out", "out", *override)
    assert done.status == 2
    assert done.err.startswith("penstock: out exists and ")
    assert len(done.err.splitlines()) == 1
    assert json.loads(path.read_text()) == manifest


def test_two_commands_do_not_write_into_one_directory(penstock: Command, endless: Path) -> None:
    out = penstock.directory / "out"
    process = penstock.start("run", endless, "--variant", "endless", "--runs", "1", "--out", out)
    try:
        wait_for(out / "parts" / "endless-1.tmp", process)
        done = penstock("run", endless, "--variant", "endless", "--runs", "1", "--out", out)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert (done.status, done.err) == (2, f"penstock: another penstock is writing to {out}\n")


def test_a_file_that_may_not_grow_is_named_and_finished_runs_are_kept(penstock: Command, small: Path) -> None:
    """RLIMIT_FSIZE stands in for a full disk: the first variant fits below the limit, the second one traces cells."""
    text = SMALL.replace("cells = 10", "cells = 0").replace('size = "100 KiB"', 'size = "2 MiB"')
    small.write_text(text.replace("{ ", '{ "trace.cells" = 1, '))
    limit = ["bash", "-c", 'ulimit -f 48; exec "$@"', "-"]
    done = penstock.run(limit + penstock.words("run", small, "--runs", "1", "--jobs", "1", "--out", "out"))
    assert done.status == 2, done
    assert done.err == "penstock: cannot write out/parts/small-1.tmp/cells.parquet: File too large (os error 27)\n"
    out = penstock.directory / "out"
    result = package.load(out)
    assert not result.finished
    assert list(result.variants) == ["stock"]
    assert result.transfers.height > 0
    assert [path.name for path in (out / "parts").iterdir()] == ["stock-1"]
