"""The check before a job that its runs fit into memory, and the cores that the runs share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL

from penstock import _core, catalog, fits, runs
from penstock.errors import PenstockError


def test_runs_that_do_not_fit_into_memory_are_refused_with_advice() -> None:
    document = _core.Document(SMALL, "small.toml")
    most = max(document.estimate(name)["peak_heap_bytes"] for name in ("stock", "small"))
    memory = int(2.5 * most / fits.SHARE)
    both = ["stock", "small"]
    assert fits.at_once(document, both, None, 8, memory) == 2
    assert fits.at_once(document, both, 1, 8, memory) == 1
    assert fits.at_once(document, both, 2, 8, memory) == 2
    with pytest.raises(PenstockError, match=r"use at most --jobs 2$"):
        fits.at_once(document, both, 3, 8, memory)
    with pytest.raises(
        PenstockError, match=r"^a run of \w+ needs about .* GB and this machine has .* GB: use a smaller"
    ):
        fits.at_once(document, both, None, 8, int(most / 2))


def test_this_machine_has_memory() -> None:
    assert fits.machine() > 1 << 28


def test_a_larger_network_needs_more_and_a_longer_run_takes_longer() -> None:
    def estimate(*sets: str) -> dict[str, float]:
        document = _core.Document(SMALL, "small.toml", list(sets))
        return {key: float(value) for key, value in document.estimate("stock").items() if isinstance(value, float)}

    short, long = estimate(), estimate("run.duration=300 s")
    # Not to the digit: a short run has a larger part of downloads whose pauses it does not see.
    assert long["cpu_seconds"] == pytest.approx(10 * short["cpu_seconds"], rel=0.1)
    assert long["peak_heap_bytes"] >= short["peak_heap_bytes"]


def test_only_large_networks_use_idle_cores() -> None:
    _, small = catalog.load("quickstart")
    _, large = catalog.load("kist/ci")
    assert runs.threads_of_each(large, ["vanilla"], None, at_once=1, cores=4) == 4
    assert runs.threads_of_each(large, ["vanilla"], None, at_once=1, cores=64) == large.hosts("vanilla") // 100
    assert runs.threads_of_each(large, ["vanilla"], None, at_once=3, cores=8) == 2
    assert runs.threads_of_each(large, ["vanilla"], None, at_once=16, cores=8) == 1
    assert runs.threads_of_each(small, ["stock"], None, at_once=1, cores=8) == 1


def test_runs_with_several_threads_have_a_core_for_each_thread() -> None:
    _, small = catalog.load("quickstart")
    assert runs.threads_of_each(small, ["stock"], 3, at_once=2, cores=8) == 3
    assert runs.threads_of_each(small, ["stock"], 4, at_once=3, cores=8) == 2
    assert runs.threads_of_each(small, ["stock"], 64, at_once=1, cores=2) == 2
    assert runs.threads_of_each(small, ["stock"], 2, at_once=8, cores=4) == 1


GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
"""The interval in which a cgroup may use its quota of processor time."""


@pytest.fixture
def group() -> Iterator[Path]:
    """A new cgroup with a quota of one core, if this process may create it: of version 2 or, in `cpu`, of version 1."""
    two = GROUPS / "cgroup.subtree_control"
    parent = GROUPS if two.exists() and "cpu" in two.read_text().split() else GROUPS / "cpu"
    path = parent / f"penstock-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"a test of CPU quotas needs a writable cgroup: {error}")
    try:
        if parent == GROUPS:
            (path / "cpu.max").write_text(f"{PERIOD_US} {PERIOD_US}")
        else:
            (path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (path / "cpu.cfs_quota_us").write_text(str(PERIOD_US))
        yield path
    finally:
        path.rmdir()


def test_the_cores_of_a_container_are_those_of_its_quota(group: Path) -> None:
    if _core.cores() < 2:
        pytest.skip("a test of CPU quotas needs two cores")
    code = """import os, pathlib, sys
pathlib.Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from penstock import _core
print(_core.cores())"""
    limited = subprocess.run([sys.executable, "-c", code, group], capture_output=True, text=True, check=True)
    assert limited.stdout == "1\n"


def test_the_cores_of_a_process_are_those_of_its_affinity_mask() -> None:
    code = """import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from penstock import _core
print(_core.cores())"""
    limited = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert limited.stdout == "1\n"
    assert 1 <= _core.cores() <= len(os.sched_getaffinity(0))
