"""Reports the progress of long runs on standard error.

A terminal shows bars; a file or CI gets a plain line from time to time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

MIN_DURATION_S = 2.0
"""Shorter jobs report no progress [s]."""

PLAIN_INTERVAL_S = 30.0
"""Time between two plain lines [s]."""


class Watch(Protocol):
    """A receiver of progress reports."""

    def update(self, finished: int, total: int, running: Mapping[str, float]) -> None:
        """Report the finished runs, the total, and the share in [0, 1] of each running one."""


class Shown:
    """A receiver that writes to a terminal or a log."""

    def __init__(self, what: str) -> None:
        """Report the runs of `what`."""
        self._what = what
        self._console = Console(stderr=True, markup=False, emoji=False)
        self._began = time.monotonic()
        self._next_line = self._began + MIN_DURATION_S
        self._bars: _Bars | None = None

    def __enter__(self) -> Shown:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def update(self, finished: int, total: int, running: Mapping[str, float]) -> None:
        """Show the progress of a job that lasts longer than MIN_DURATION_S."""
        now = time.monotonic()
        if now - self._began < MIN_DURATION_S:
            return
        if self._console.is_terminal:
            self._bars = self._bars or _Bars(self._console, self._what, total)
            self._bars.update(finished, running)
        elif now >= self._next_line:
            self._next_line = now + PLAIN_INTERVAL_S
            share = (finished + sum(running.values())) / total
            line = f"penstock: {self._what}: {finished} of {total} runs finished, {100 * share:.0f} % done"
            print(line, file=sys.stderr, flush=True)


class _Bars:
    """One bar for all runs, and one for each running one."""

    def __init__(self, console: Console, what: str, total: int) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[runs]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._total = total
        self._all = self._progress.add_task(what, total=total, runs="")
        self._each: dict[str, TaskID] = {}
        self._progress.start()

    def update(self, finished: int, running: Mapping[str, float]) -> None:
        done = finished + sum(running.values())
        self._progress.update(self._all, completed=done, runs=f"{finished}/{self._total} runs")
        for name in self._each.keys() - running.keys():
            self._progress.remove_task(self._each.pop(name))
        for name, share in running.items():
            if name not in self._each:
                self._each[name] = self._progress.add_task(f"  {name}", total=1.0, runs="")
            self._progress.update(self._each[name], completed=share)

    def stop(self) -> None:
        self._progress.stop()
