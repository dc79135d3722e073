"""Congestion management for onion-routing networks: a simulator, and tools to compare results.

    import penstock

    result = penstock.run("quickstart", runs=5)
    print(result.summary())
    result.transfers  # a polars data frame, one row per download

`run` and `sweep` have the options of the commands with these names. `load` opens an existing output directory. `check`,
`entries`, `run_paper`, `compare_outputs` and `draw_figures` do what `penstock check`, `list`, `paper`, `compare` and
`report` do. `Scenario` makes a scenario without TOML text.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock import extension

if TYPE_CHECKING:
    from penstock.builder import Scenario
    from penstock.errors import Cancelled, OutputError, PenstockError, ScenarioError
    from penstock.functions import check, compare_outputs, draw_figures, entries, run_paper
    from penstock.result import Result, load
    from penstock.runs import run, sweep
    from penstock.shards import merge

    __version__: str

extension.prepare()

__all__ = [
    "Cancelled",
    "OutputError",
    "PenstockError",
    "Result",
    "Scenario",
    "ScenarioError",
    "__version__",
    "check",
    "compare_outputs",
    "draw_figures",
    "entries",
    "load",
    "merge",
    "run",
    "run_paper",
    "sweep",
]

_WHERE = {
    **dict.fromkeys(("Cancelled", "OutputError", "PenstockError", "ScenarioError"), "penstock.errors"),
    **dict.fromkeys(("check", "compare_outputs", "draw_figures", "entries", "run_paper"), "penstock.functions"),
    "Scenario": "penstock.builder",
    **dict.fromkeys(("Result", "load"), "penstock.result"),
    **dict.fromkeys(("run", "sweep"), "penstock.runs"),
    "merge": "penstock.shards",
}


def __getattr__(name: str) -> object:
    """Import a name on its first use, so that errors appear before the slow library of data frames is loaded."""
    if name == "__version__":
        return import_module("penstock._core").version()
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, also those that are imported on first use."""
    return sorted({*globals(), *__all__})
