"""Runs a paper's experiments and checks its claims one by one."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.paper.claims import Claim, Claims, Gate, load
    from penstock.paper.runner import Outcome, run
    from penstock.paper.verdicts import Checked, decide

__all__ = ["Checked", "Claim", "Claims", "Gate", "Outcome", "decide", "load", "run"]

_WHERE = {
    **dict.fromkeys(("Claim", "Claims", "Gate", "load"), "claims"),
    **dict.fromkeys(("Outcome", "run"), "runner"),
    **dict.fromkeys(("Checked", "decide"), "verdicts"),
}


def __getattr__(name: str) -> object:
    """Import a name on its first use, because figures need only the module `waits`."""
    if name in _WHERE:
        return getattr(import_module(f"penstock.paper.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'penstock.paper' has no attribute {name!r}")
