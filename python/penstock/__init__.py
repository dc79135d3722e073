"""Congestion management for onion-routing networks, and the bench on which it is judged.

    import penstock

    result = penstock.run("quickstart", runs=5)
    print(result.summary())
    result.transfers  # a polars data frame, one row per download

`run` takes what the command `penstock run` takes; `load` opens an output directory that is already there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._core import version
from penstock.errors import Cancelled, OutputError, PenstockError, ScenarioError

if TYPE_CHECKING:
    from penstock.result import Result, load
    from penstock.runs import run

__version__ = version()

__all__ = ["Cancelled", "OutputError", "PenstockError", "Result", "ScenarioError", "__version__", "load", "run"]


def __getattr__(name: str) -> object:
    """Import data frames and statistics when they are first asked for: `penstock list` needs none of them."""
    if name in ("Result", "load"):
        from penstock import result

        return getattr(result, name)
    if name == "run":
        from penstock.runs import run

        return run
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
