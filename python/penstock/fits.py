"""Whether runs fit into this machine's memory, before anything is run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from penstock import _core
from penstock.errors import PenstockError

SHARE = 0.9
"""What of the memory runs may take; the rest is the system's."""


def machine() -> int:
    """How much memory there is [B]."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def at_once(
    document: _core.Document, variants: Iterable[str], jobs: int | None, cores: int, memory: int | None = None
) -> int:
    """How many runs of these variants are done at once: `jobs` if that is asked for, else as `cores` and memory allow.

    Raises:
        PenstockError: if a single run, or `jobs` of them, would need more than the machine has; it says what would fit.
    """
    there = machine() if memory is None else memory
    most, variant = max((document.estimate(name)["peak_heap_bytes"], name) for name in variants)
    fitting = int(SHARE * there / most)
    need = f"a run of {variant} needs about {_gb(most)} and this machine has {_gb(there)}"
    if fitting == 0:
        raise PenstockError(f"{need}: take a smaller network or a shorter run (--set run.duration=...)")
    if jobs is not None and jobs > fitting:
        raise PenstockError(f"{need}: {jobs} at once do not fit; at most --jobs {fitting} do")
    return min(cores, fitting) if jobs is None else jobs


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
