"""Runs a paper's experiments and checks its claims one by one."""

from penstock.paper.claims import Claim, Claims, Gate, load
from penstock.paper.runner import Outcome, run
from penstock.paper.verdicts import Checked, decide

__all__ = ["Checked", "Claim", "Claims", "Gate", "Outcome", "decide", "load", "run"]
