"""The check before a job that its runs fit into memory."""

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
    assert runs.default_threads(large, ["vanilla"], at_once=1, cores=4) == 4
    assert runs.default_threads(large, ["vanilla"], at_once=1, cores=64) == large.hosts("vanilla") // 100
    assert runs.default_threads(large, ["vanilla"], at_once=3, cores=8) == 2
    assert runs.default_threads(large, ["vanilla"], at_once=16, cores=8) == 1
    assert runs.default_threads(small, ["stock"], at_once=1, cores=8) == 1
