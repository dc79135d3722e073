"""An interrupted job keeps its finished runs, prints one sentence, and can be resumed."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ENDLESS, SMALL, Command, wait_for

import penstock as package
from penstock import _core
from penstock.output import TABLES
from test_leaks import SCENARIO as ATTACK


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
        f"and the same command with --out {out} executes the others"
    ]
    result = package.load(out)
    assert not result.finished
    assert list(result.variants) == ["stock", "small"]
    assert result.transfers["variant"].unique(maintain_order=True).to_list() == ["stock", "small"]
    assert {part.name for part in (out / "parts").iterdir()} == {"stock-1", "small-1"}


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
    """Write the output of a killed job: a manifest without an end, one finished part and one incomplete part."""
    parts = directory / "parts"
    (parts / "stock-1").mkdir(parents=True)
    document = _core.Document(scenario.read_text(), str(scenario))
    stats = _core.run(document, "stock", None, 1, parts / "stock-1", _core.Control())
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


def test_a_table_that_may_not_grow_leaves_the_parts_and_nothing_else(penstock: Command, small: Path) -> None:
    """Each run's cells fit below the limit, those of all runs do not: the merge fails, and another one does not."""
    run = penstock.words("run", small, "--runs", "3", "--set", "trace.cells=1", "--no-report", "--out", "out")
    done = penstock.run(["bash", "-c", 'ulimit -f 800; exec "$@"', "-", *run])
    assert done.status == 2, done
    assert "cannot merge the tables: " in done.err
    assert "File too large" in done.err
    assert len(done.err.splitlines()) == 1
    out = penstock.directory / "out"
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "parts"]
    result = package.load(out)
    assert not result.finished
    assert len(result.manifest["runs"]) == 6
    assert penstock.run(run).status == 0
    assert package.load(out).finished


INTERRUPTED_BY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from penstock.cli import main
sys.argv = ["penstock", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("verb", "module"),
    [
        ("list", "penstock.listing"),
        ("run", "polars"),
        ("run", "penstock.runs"),
        ("run", "matplotlib"),
        ("report", "matplotlib.figure"),
        ("report", "matplotlib.backends.backend_svg"),
    ],
)
def test_ctrl_c_outside_of_runs_is_one_sentence_too(
    penstock: Command, small: Path, made_up: Path, verb: str, module: str
) -> None:
    words = {"list": ["list"], "run": ["run", str(small), "--runs", "1"], "report": ["report", str(made_up)]}
    code = INTERRUPTED_BY.format(module=module)
    done = penstock.run([sys.executable, "-c", code, *words[verb]])
    assert (done.status, done.err) == (130, "penstock: stopped\n"), done


def test_ctrl_c_in_the_merge_keeps_all_runs(penstock: Command, small: Path) -> None:
    code = INTERRUPTED_BY.format(module="nothing").replace(
        "from penstock.cli import main",
        "from penstock import _core\n_core.merge = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "from penstock.cli import main",
    )
    arguments = ["run", str(small), "--no-report", "--out", "out"]
    done = penstock.run([sys.executable, "-c", code, *arguments])
    assert done.status == 130, done
    assert done.out == ""
    assert done.err.startswith("penstock: stopped: 4 of 4 runs are finished and kept in out, ")
    assert len(done.err.splitlines()) == 1
    assert penstock(*arguments).status == 0
    assert package.load(penstock.directory / "out").finished


@pytest.mark.parametrize("left", [0, 1, 4])
def test_an_output_after_a_kill_can_be_read_and_completed(penstock: Command, small: Path, left: int) -> None:
    """The manifest of the beginning, some parts, and tables of a merge that did not end."""
    assert penstock("run", small, "--no-report", "--out", "whole").status == 0
    out = penstock.directory / "out"
    (out / "parts" / "small-2.tmp").mkdir(parents=True)
    manifest = json.loads((penstock.directory / "whole" / "manifest.json").read_text())
    document = _core.Document(small.read_text(), str(small))
    for run in manifest["runs"][:left]:
        part = out / "parts" / f"{run['variant']}-{run['seed']}"
        part.mkdir()
        _core.run(document, run["variant"], None, run["seed"], part, _core.Control())
        (part / "run.json").write_text(json.dumps(run))
    (out / "manifest.json").write_text(json.dumps({**manifest, "finished": False, "runs": []}))
    for torn in ("transfers.parquet", "paths.parquet", "cells.parquet.tmp"):
        (out / torn).write_text("PAR1")
    result = package.load(out)
    assert [(run["variant"], run["seed"]) for run in result.manifest["runs"]] == [
        (run["variant"], run["seed"]) for run in manifest["runs"][:left]
    ]
    done = penstock("report", "out")
    command = "penstock run small.toml --seed 1 --runs 2 --out out"
    if left:
        assert done.status == 0, done
        assert f"unfinished: {left} of 4 runs are finished; to run the rest: " in done.out
        whole = package.load(penstock.directory / "whole").transfers
        assert result.transfers.equals(whole.head(result.transfers.height))
        page = (out / "report.html").read_text()
        assert "How to finish these runs" in page
        assert f"<pre>{command.replace('small.toml', str(small))}</pre>" in page
    else:
        assert (done.status, done.err) == (2, "penstock: out has no finished run yet\n")
    assert penstock("run", small, "--no-report", "--out", "out").status == 0
    for table in TABLES:
        name = f"{table}.parquet"
        assert (out / name).read_bytes() == (penstock.directory / "whole" / name).read_bytes(), name
    assert not list(out.glob("*.tmp"))


def test_a_smaller_request_neither_completes_nor_removes_a_larger_one(penstock: Command, small: Path) -> None:
    assert penstock("run", small, "--no-report", "--out", "out", "--seed", "1", "--runs", "2").status == 0
    out = penstock.directory / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["asked"] == {"scenario": str(small), "variants": ["stock", "small"], "seeds": [1, 2]}
    (out / "parts").mkdir()
    (out / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
    done = penstock("run", "small.toml", "--no-report", "--out", "out", "--seed", "9", "--variant", "small")
    assert done.status == 0, done
    assert "unfinished: 1 of 6 runs" in done.out
    assert "penstock run small.toml --set 'run.seeds=[1,2,9]' --out out" in done.out
    result = package.load(out)
    assert not result.finished
    assert result.asked == {"scenario": "small.toml", "variants": ["stock", "small"], "seeds": [1, 2, 9]}
    assert [path.name for path in (out / "parts").iterdir()] == ["small-9"]
    assert penstock.run([*penstock.words(), *shlex.split(result.command)[1:-1], "out", "--no-report"]).status == 0
    result = package.load(out)
    assert (result.finished, result.seeds) == (True, [1, 2, 9])
    assert result.command == "penstock run small.toml --set 'run.seeds=[1,2,9]'"


def test_a_long_run_writes_its_progress_to_a_log(penstock: Command, endless: Path) -> None:
    process = penstock.start("run", endless, "--variant", "endless", "--runs", "1", "--out", "out")
    assert process.stderr is not None
    line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert line == f"penstock: {endless}: 0 of 1 runs finished, 0 % done\n"


def test_an_interrupted_attack_resumes_to_the_same_bytes(penstock: Command) -> None:
    text = ATTACK.replace("seeds = [1, 2]", "seeds = [1, 2, 3]").replace('"40 s"', '"400 s"')
    (penstock.directory / "mine.toml").write_text(text)
    whole, half = penstock.directory / "whole", penstock.directory / "half"
    command = ("attack", "mine.toml", "--jobs", "1", "--threads", "1", "--no-report", "--out")
    process = penstock.start(*command, half)
    wait_for(half / "parts" / "default-1", process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not json.loads((half / "manifest.json").read_text())["finished"]
    assert not (half / "leaks.parquet").exists()
    for directory in (half, whole):
        done = penstock(*command, directory)
        assert done.status == 0, done.err
    for table in (*TABLES, "victims", "leaks"):
        name = f"{table}.parquet"
        assert (half / name).read_bytes() == (whole / name).read_bytes(), name
