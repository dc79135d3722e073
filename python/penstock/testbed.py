"""Runs on live relays over emulated links: the program `penstock-testbed`, a process for each run."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import catalog
from penstock.errors import Cancelled, OutputError, PenstockError
from penstock.output import COSTS, Job, Origin

PROGRAM = "penstock-testbed"
"""The name of the program, which is in the search path or in the checkout that contains this package."""

LOOK_S = 0.1
"""The polling interval for the end of a run [s]."""


def program() -> Path:
    """The path of the program."""
    built = Path(__file__).resolve().parents[2] / "target" / "release" / PROGRAM
    if built.is_file():
        return built
    found = shutil.which(PROGRAM)
    if found is None:
        raise PenstockError(
            f"--world testbed needs {PROGRAM}, which is not installed: "
            f"cargo build --release --package {PROGRAM} --features relays"
        )
    return Path(found)


def run(origin: Origin, job: Job, part: Path, stopped: Callable[[], bool]) -> dict[str, Any]:
    """Do one run, write its tables into `part`, and return its costs.

    Raises:
        PenstockError: if the machine forbids the run, or the testbed lacks a feature of the scenario.
        OutputError: if the emulated network was late, which makes the run invalid.
        Cancelled: if the run was stopped.
    """
    words: list[str | Path] = [program(), "world", catalog.find(origin.typed)[1], "--world", "testbed"]
    words += ["--variant", job.variant, "--seed", str(job.seed), "--out", part]
    for each in origin.sets:
        words += ["--set", each]
    if origin.network is not None:
        words += ["--network", origin.network]
    with subprocess.Popen(  # noqa: S603
        _soon() + [os.fspath(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while True:
            try:
                said, complained = process.communicate(timeout=LOOK_S)
                break
            except subprocess.TimeoutExpired:
                if stopped():
                    process.kill()
    if stopped() or process.returncode == -signal.SIGINT:
        # Ctrl-C also reaches the program, which may end before this thread notices.
        raise Cancelled("the run was stopped")
    if process.returncode < 0:
        raise PenstockError(f"{job.variant}, seed {job.seed}: the testbed was ended by {_signal(-process.returncode)}")
    if process.returncode != 0:
        sentence = complained.strip().removeprefix(f"{PROGRAM}: ")
        raise PenstockError(f"{job.variant}, seed {job.seed}: {sentence or 'the testbed failed without a message'}")
    row = json.loads(said)
    if row["emulation"]["void"]:
        raise OutputError(f"{job.variant}, seed {job.seed}, is invalid: {row['emulation']['void']}")
    known = {"sim_seconds": row["seconds"], "packets": row["packets"], "cells": row["written_cells"]}
    return {name: known.get(name, 0) for name in COSTS}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _soon() -> list[str]:
    """The command prefix for real-time priority, if it is available."""
    chrt = shutil.which("chrt")
    if chrt is None:
        return []
    words = [chrt, "-f", "1"]
    silent = subprocess.DEVNULL
    trial = subprocess.run([*words, "true"], stdout=silent, stderr=silent, check=False)  # noqa: S603
    return words if trial.returncode == 0 else []
