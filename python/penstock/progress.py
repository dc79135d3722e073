"""Reports the progress of long runs on standard error.

A terminal shows bars; a file or CI gets a plain line from time to time.
"""

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from penstock.terminal import printable

MIN_DURATION_S = 2.0
"""The minimum duration of a job that reports progress [s]."""

POLL_S = 0.1
"""The longest interval between two reports to a watch [s]."""

PLAIN_INTERVAL_S = 30.0
"""Time between two plain lines [s]."""


class Watch(Protocol):
    """A receiver of progress reports."""

    def update(self, finished: int, total: int, running: Mapping[str, float]) -> None:
        """Report the numbers of finished runs and of all runs, and the finished share of each running run [0 to 1]."""


class Shown:
    """A receiver that writes to a terminal or a log."""

    def __init__(self, what: str) -> None:
        """Prepare reports on the runs of `what`."""
        self._what = what
        self._console = Console(stderr=True, markup=False, emoji=False)
        self._began = time.monotonic()
        self._next_line = self._began + MIN_DURATION_S
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def update(self, finished: int, total: int, running: Mapping[str, float]) -> None:
        """Show the progress of a job that lasts longer than MIN_DURATION_S."""
        now = time.monotonic()
        share = (finished + sum(running.values())) / total
        if now - self._began < MIN_DURATION_S:
            return
        if self._console.is_terminal:
            self._draw({"": share, **running}, f"{finished}/{total} runs")
        elif now >= self._next_line:
            self._next_line = now + PLAIN_INTERVAL_S
            line = f"penstock: {printable(self._what)}: {finished} of {total} runs finished, {100 * share:.0f} % done"
            print(line, file=sys.stderr, flush=True)

    def _draw(self, shares: Mapping[str, float], runs: str) -> None:
        if self._bars is None:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[runs]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(compact=True),
            )
            self._bars = Progress(*columns, console=self._console, transient=True)
            self._bars.start()
        for name in self._tasks.keys() - shares.keys():
            self._bars.remove_task(self._tasks.pop(name))
        for name, share in shares.items():
            if name not in self._tasks:
                text = printable(f"  {name}" if name else self._what)
                self._tasks[name] = self._bars.add_task(text, total=1.0, runs="")
            self._bars.update(self._tasks[name], completed=share, runs="" if name else runs)
