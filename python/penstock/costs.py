"""The costs of a run: its wall-clock time and its processor time."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock import _core


def measured(run: Callable[[], Mapping[str, Any]], control: _core.Control) -> dict[str, Any]:
    """The statistics that `run` returns, and its costs; `control` counts the run's other threads."""
    wall, cpu = time.perf_counter(), time.thread_time()
    stats = run()
    wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu + control.cpu_seconds_of_others()
    return {**stats, "wall_seconds": wall, "cpu_seconds": cpu}
