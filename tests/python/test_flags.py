"""Tests of the shares of flagged clients by minute, by hand for three clients."""

from typing import Any

import pytest
import synthetic
from conftest import program


def received(client: str, t_s: float, size: int, *, flagged: bool) -> dict[str, Any]:
    """A row of `clients`."""
    return {"client": client, "t_s": t_s, "received_bytes": size, "throttled": flagged}


def test_minutes_begin_after_the_warm_up() -> None:
    begun = {"bulk1": "bulk", "bulk2": "bulk", "web1": "web"}
    transfers = [
        {"client": client, "workload": workload, "warmup": False, "start_s": 100.0}
        for client, workload in begun.items()
    ]
    clients = [
        received("bulk1", 90, 1000, flagged=True),
        received("bulk1", 110, 30, flagged=False),
        received("bulk1", 160, 10, flagged=True),
        received("bulk2", 120, 20, flagged=False),
        received("web1", 120, 40, flagged=False),
        received("bulk1", 171, 5, flagged=True),
        received("web1", 171, 15, flagged=True),
    ]
    there = synthetic.in_memory({"it": ""}, transfers=transfers, clients=clients)
    first, second = program("flags")["minutes"](there, "it", "bulk").rows()
    assert first == (1, 0.5, pytest.approx(50 / 60), 0.6)
    assert second == (2, 1.0, 0.0, 0.25)
