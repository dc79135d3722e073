"""Shared fixtures: the command `penstock`, a scenario that runs in a fraction of a second, and made-up output."""

import io
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import synthetic

from penstock import cli

BENCHES = Path(__file__).parents[2] / "benches"

SMALL = """
[scenario]
title = "One path, for tests"

[run]
seeds = [1, 2]
duration = "30 s"

[trace]
workloads = ["web"]
interval = "100 ms"
cells = 10

[relays.entry]
[relays.middle]
link = "256 KiB/s"
[relays.exit]

[servers.destination]

[workloads.web]
size = "100 KiB"
pause = "uniform(1 s, 2 s)"

[clients.web]
workload = "web"
path = ["entry", "middle", "exit"]

[[variants]]
name = "stock"
label = "stock Tor"

[[variants]]
name = "small"
label = "50 KiB windows"
set = { "relay.edge_control.circuit_window" = 100 }
"""

ENDLESS = (
    SMALL
    + """
[[variants]]
name = "endless"
set = { "run.duration" = "2000 h", "run.sample" = "1 h", "trace.workloads" = [] }
"""
)
"""The same with an endless variant."""


def program(name: str) -> dict[str, Any]:
    """The names of a program in benches/, like "kist_loss" or "references/worlds"."""
    path = BENCHES / f"{name}.py"
    with patch.object(sys, "path", [str(path.parent), *sys.path]):
        return runpy.run_path(str(path))


@dataclass(frozen=True)
class Finished:
    """The result of a command."""

    status: int
    out: str
    err: str


@contextmanager
def captured() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Capture standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        yield out, err


class Command:
    """The command `penstock`, run in one directory."""

    def __init__(self, directory: Path) -> None:
        """Run in `directory`."""
        self.directory = directory
        self.env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "MPLBACKEND": "agg"}

    def words(self, *arguments: str | Path) -> list[str]:
        """The whole command line."""
        return [sys.executable, "-m", "penstock", *map(str, arguments)]

    def __call__(self, *arguments: str | Path) -> Finished:
        """Run to the end in this process, which saves the time for imports."""
        with patch.dict(os.environ, self.env, clear=True), chdir(self.directory), captured() as (out, err):
            with patch.object(sys, "argv", ["penstock", *map(str, arguments)]):
                status = cli.run()
            return Finished(status, out.getvalue(), err.getvalue())

    def run(self, words: list[str]) -> Finished:
        """Run any command to the end in its own process."""
        done = subprocess.run(words, cwd=self.directory, env=self.env, capture_output=True, text=True, timeout=120)
        return Finished(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start the command in its own process, and do not wait."""
        # The parent of the tests may ignore Ctrl-C; these children must not.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pipe = subprocess.PIPE
        words = self.words(*arguments)
        return subprocess.Popen(words, cwd=self.directory, env=self.env, stdout=pipe, stderr=pipe, text=True)


PAPER = """
paper = "made-up"
title = "Made up"
"""
CLAIM = """
[[claims]]
id = "{0}"
section = "1"
says = "The first byte arrives."
scenario = "{0}"
variants = ["stock"]
workload = "web"
measure = "ttfb_s"
statistic = "median"
gate = {{ at_most = 60.0, by = "mean" }}
"""


def make_paper(small: Path, folder: Path) -> None:
    """A paper with a claim for each of two equal scenarios, `small` and `other`."""
    (folder / "other.toml").write_text(small.read_text())
    (folder / "claims.toml").write_text(PAPER + CLAIM.format("small") + CLAIM.format("other"))


def sentence(done: Finished) -> str:
    """The single sentence of an error."""
    assert done.status == 2, done
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("penstock: ")
    return lines[0]


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until `path` exists."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


@pytest.fixture
def penstock(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario with two variants and two seeds that runs in a fraction of a second."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished output directory with made-up numbers; not to be written to."""
    return synthetic.write(tmp_path_factory.mktemp("made-up") / "out")


@pytest.fixture
def make_up(tmp_path: Path) -> Callable[..., Path]:
    """Writes an output directory of the test's own with made-up numbers."""

    def make(name: str = "out", **how: object) -> Path:
        return synthetic.write(tmp_path / name, **how)  # type: ignore[arg-type]

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file with this name and content into a temporary folder; returns its path."""

    def writing(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return writing
