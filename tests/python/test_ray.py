"""Runs on Ray: the same tables as without it, also if a worker dies."""

import importlib.util
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import make_paper

import penstock
from penstock import ray_runs
from penstock.catalog import SHIPPED
from penstock.errors import PenstockError, ScenarioError
from penstock.estimates import Cost
from penstock.output import TABLES
from penstock.paper import runner as paper

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed: pip install 'penstock[ray]'")

SHORT = ("run.duration=30 s", 'run.stop="none"', "run.warmup=0 s")
RUNS = 100


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of the same runs without Ray."""
    return penstock.run("quickstart", sets=SHORT, runs=RUNS, out=tmp_path_factory.mktemp("alone") / "out").directory


def same_tables(one: Path, other: Path) -> None:
    for table in TABLES:
        assert (one / f"{table}.parquet").read_bytes() == (other / f"{table}.parquet").read_bytes(), table


@needs_ray
def test_a_killed_worker_loses_only_its_run(alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    keep = ray_runs.RayPool._keep

    def kill_then_keep(self: ray_runs.RayPool, job: Any, done: Any) -> None:
        if not killed:
            killed.append(_kill_a_worker())
        keep(self, job, done)

    monkeypatch.setattr(ray_runs.RayPool, "_keep", kill_then_keep)
    result = penstock.run("quickstart", sets=SHORT, runs=RUNS, out=tmp_path / "out", jobs=4, ray="local")
    assert killed
    assert len(result.manifest["runs"]) == 2 * RUNS
    same_tables(alone, result.directory)


def _kill_a_worker() -> int:
    """Kill a Ray worker of this process that executes a run; its process id."""
    for _ in range(100):
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if (
                    folder.name.isdigit()
                    and (folder / "cmdline").read_bytes().startswith(b"ray::execute")
                    and os.getpid() in _ancestors(int(folder.name))
                ):
                    os.kill(int(folder.name), signal.SIGKILL)
                    return int(folder.name)
        time.sleep(0.01)
    pytest.fail("no Ray worker executes a run")


def _ancestors(process: int) -> set[int]:
    found: set[int] = set()
    while process > 1:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        process = int(stat.rpartition(")")[2].split()[1])
        found.add(process)
    return found


@needs_ray
def test_ctrl_c_keeps_finished_runs_and_ray_finishes_the_others(alone: Path, tmp_path: Path) -> None:
    class Watch:
        def update(self, finished: int, _total: int, _shares: Any) -> None:
            if finished >= 3:
                signal.raise_signal(signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    out = tmp_path / "out"
    with pytest.raises(penstock.Cancelled, match="are finished and kept"):
        penstock.run("quickstart", sets=SHORT, runs=RUNS, out=out, ray="local", watch=Watch())
    assert 3 <= len(list((out / "parts").iterdir())) < 2 * RUNS
    same_tables(alone, penstock.run("quickstart", sets=SHORT, runs=RUNS, out=out, ray="local").directory)


@needs_ray
def test_an_address_without_a_cluster_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        PenstockError,
        match=r"--ray 127.0.0.1:1: there is no Ray cluster .*; start one with ray start, and check RAY_AUTH_MODE",
    ):
        penstock.run("quickstart", out=tmp_path / "out", ray="127.0.0.1:1")
    assert not (tmp_path / "out").exists()


@needs_ray
def test_a_paper_connects_once_and_estimates_with_the_cores_of_the_cluster(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    make_paper(small, tmp_path)
    asked: list[Cost] = []
    connected: list[str] = []
    init = ray.init

    def counted(**options: Any) -> Any:
        connected.append(options["address"])
        return init(**options)

    monkeypatch.setattr(ray, "init", counted)
    monkeypatch.setattr(ray_runs.Cluster, "cores", lambda _: 3)
    out = tmp_path / "out"
    outcome = paper.run(str(tmp_path), seeds=3, out=out, jobs=1, ray="local", confirm=asked.append)
    assert connected == ["local"]
    assert [len(result.manifest["runs"]) for result in outcome.results.values()] == [3, 3]
    [cost] = asked
    assert (cost.runs, cost.at_once) == (6, 3)
    # Finished outputs need no cluster.
    paper.run(str(tmp_path), seeds=3, out=out, ray="127.0.0.1:1")
    assert connected == ["local"]


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_error_names_the_extra() -> None:
    with pytest.raises(PenstockError, match=r"install it with: pip install 'penstock\[ray\]'"):
        penstock.run("quickstart", ray="local")


@needs_ray
def test_an_address_of_clients_is_refused() -> None:
    with pytest.raises(PenstockError, match=r"--ray is ray://a:1; give the address of the cluster's head instead"):
        penstock.run("quickstart", ray="ray://a:1")


@needs_ray
def test_a_label_with_control_characters_reaches_the_worker(tmp_path: Path) -> None:
    text = (SHIPPED / "quickstart.toml").read_text(encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(text.replace('label = "stock Tor"', r'label = "a\nb\u007f\"c\\"'), encoding="utf-8")
    result = penstock.run(path, sets=SHORT, runs=1, out=tmp_path / "out", ray="local")
    # Labels are printable in the manifest.
    assert result.variants["stock"] == 'a\nb\ufffd"c\\'


@needs_ray
def test_more_threads_than_cores_are_reduced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = penstock.run(
        "quickstart", sets=SHORT, variants=["stock"], runs=1, out=tmp_path / "out", ray="local", threads=1000
    )
    assert len(result.manifest["runs"]) == 1
    assert "--threads 1000 is reduced to" in capfd.readouterr().err


def test_ray_has_no_testbed() -> None:
    with pytest.raises(ScenarioError, match="--ray has no --world testbed and no --replay"):
        penstock.run("quickstart", world="testbed", ray="local")


def test_a_worker_refuses_another_build() -> None:
    from penstock.output import Job

    done = ray_runs.execute(ray_runs.Task("0.0.0", "", Job("default", -1, 1), 1))
    assert "and this is 0.0.0; install the same build" in done.error
