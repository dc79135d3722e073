"""Checks before a run whether it fits into this machine's memory."""

import os
from collections.abc import Iterable

from penstock import _core
from penstock.errors import PenstockError

SHARE = 0.9
"""The share of memory that runs may use. The system needs the rest."""


def machine() -> int:
    """The memory of this machine [B]."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cores(document: _core.Document) -> int:
    """The number of cores that the runs of a scenario can use in this process: 1 for prototypes, which are Python."""
    return 1 if document.prototypes() else _core.cores()


def at_once(
    document: _core.Document, variants: Iterable[str], jobs: int | None, cores: int, memory: int | None = None
) -> int:
    """The number of runs at the same time: `jobs` if given, otherwise limited by `cores` and memory.

    Raises:
        PenstockError: if one run, or `jobs` runs, would need more memory than the machine has. The message says how
            many runs fit.
    """
    there = machine() if memory is None else memory
    most, variant = max((document.estimate(name)["peak_heap_bytes"], name) for name in variants)
    fitting = int(SHARE * there / most)
    need = f"a run of {variant} needs about {_gb(most)} and this machine has {_gb(there)}"
    if fitting == 0:
        raise PenstockError(f"{need}: use a smaller network or a shorter run (--set run.duration=...)")
    if jobs is not None and jobs > fitting:
        raise PenstockError(f"{need}: use at most --jobs {fitting}")
    return min(cores, fitting) if jobs is None else jobs


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
