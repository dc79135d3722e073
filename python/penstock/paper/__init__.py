"""A paper's experiments, and its claims checked one by one against what they measure here."""

from __future__ import annotations

from penstock.paper.claims import Claim, Claims, Gate, load
from penstock.paper.judge import Judged, judge
from penstock.paper.runner import Outcome, run

__all__ = ["Claim", "Claims", "Gate", "Judged", "Outcome", "judge", "load", "run"]
