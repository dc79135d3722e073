"""The estimated cost of runs, which a terminal shows before they begin, and a log if they are long."""

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock._core import Document
from penstock.errors import PenstockError
from penstock.output import Job

ASK_S = 3600.0
"""The estimated duration from which a terminal asks before it begins [s]."""

Confirm = Callable[["Cost"], None]
"""Receives the estimated cost before the first run; an exception ends the command."""


class Cost(NamedTuple):
    """The estimated cost of runs."""

    runs: int
    wall_seconds: float
    """The duration if all cores work all the time [s]."""
    at_once: int
    """The largest number of runs at the same time."""
    memory: float
    """The largest memory of all runs at the same time [B]."""

    def __add__(self, other: object) -> "Cost":
        """The cost of these runs, and then the others."""
        if not isinstance(other, Cost):
            return NotImplemented
        at_once, memory = max(self.at_once, other.at_once), max(self.memory, other.memory)
        return Cost(self.runs + other.runs, self.wall_seconds + other.wall_seconds, at_once, memory)

    def text(self) -> str:
        """The cost as a sentence without an end."""
        some = f"{self.runs} run{'s' if self.runs != 1 else ''}, {self.at_once} at the same time"
        return f"{some}: about {duration(self.wall_seconds)}, {self.memory / 1e6:.0f} MB of memory"


def of(document: Document, jobs: Iterable[Job], at_once: int) -> Cost:
    """The cost of runs of a scenario."""
    each = [document.estimate(job.variant) for job in jobs]
    heaps = sorted((one["peak_heap_bytes"] for one in each), reverse=True)
    at_once = max(min(at_once, len(each)), 1)
    return Cost(len(each), sum(one["cpu_seconds"] for one in each) / at_once, at_once, sum(heaps[:at_once]))


def duration(seconds: float) -> str:
    """A duration in its largest unit, such as `3 min`."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{max(seconds, 1):.0f} s"


def stated(*, yes: bool) -> Confirm:
    """States a cost on a terminal, and that of long runs also in a log. Asks before long runs unless `yes`."""
    on_terminal = sys.stderr.isatty() and sys.stdin.isatty()

    def confirm(cost: Cost) -> None:
        is_long = cost.wall_seconds >= ASK_S
        if cost.runs and (on_terminal or is_long):
            print(f"penstock: {cost.text()}", file=sys.stderr, flush=True)
        if yes or not (on_terminal and is_long):
            return
        print("penstock: continue? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise PenstockError("nothing was run; --yes answers the question")

    return confirm
