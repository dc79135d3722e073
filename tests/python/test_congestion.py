"""Bursts of clients and congestion of relays, on tables with known answers."""

from typing import Any

import pytest
import synthetic

from penstock.paper import congestion
from penstock.result import Result

SCENARIO = """
[scenario]
title = "one path"
[run]
duration = "10 s"
[relays.fast]
link = "1000 KiB/s"
[relays.slow]
link = "100 KiB/s"
[relays.idle]
link = "100 KiB/s"
[servers.destination]
[workloads.web]
size = "1 MiB"
[clients.web]
workload = "web"
path = ["fast", "slow", "idle"]
"""


def result(**tables: list[dict[str, Any]]) -> Result:
    begun = [{"client": name, "workload": name, "warmup": False, "start_s": 0.0} for name in ("web", "bulk")]
    return synthetic.in_memory({"it": SCENARIO}, transfers=begun, **tables)


def test_intervals_without_bytes_count() -> None:
    steady = [{"client": "web", "t_s": step / 10, "received_bytes": 5} for step in range(1, 21)]
    # Every second interval has bytes: the mean is 11/21 of a full interval.
    bursts = [{"client": "bulk", "t_s": 2 * step / 10, "received_bytes": 10} for step in range(1, 12)]
    made = result(clients=steady + bursts)
    assert congestion.burstiness(made, "it", "web", "")["value"].to_list() == pytest.approx([0.0])
    half = 11 / 21
    assert congestion.burstiness(made, "it", "bulk", "")["value"].to_list() == pytest.approx(
        [(half - half**2) ** 0.5 / half]
    )


def test_waits_are_correlated_with_loads_and_bandwidths() -> None:
    # The fast relay has a load of a half and the shortest wait; the slow one a load of one and the longest wait.
    written = {"fast": 512_000, "slow": 102_400, "idle": 10_240}
    relays = [{"relay": name, "t_s": 1.0, "written_bytes": size} for name, size in written.items()]
    waits = {"guard": 0.01, "middle": 0.5, "exit": 0.1}
    cells = [
        {"circuit": 7, "hop": hop, "queued_ns": 1_000_000_000 * (late + 1), "nic_out_ns": 1, "kernel_in_s": 0.0,
         "circuit_queue_s": wait / 2, "outbuf_s": 0.0, "kernel_out_s": wait / 2}
        for hop, wait in waits.items() for late in range(congestion.LEAST)
    ]  # fmt: skip
    paths = [{"circuit": 7, "guard": "fast", "middle": "slow", "exit": "idle"}]
    made = result(relays=relays, cells=cells, paths=paths)
    assert congestion.by_load(made, "it", "*", "")["value"].to_list() == pytest.approx([0.5])
    assert congestion.by_capacity(made, "it", "*", "")["value"].to_list() == pytest.approx([-0.866], abs=1e-3)
    too_few = result(relays=relays, cells=cells[1:], paths=paths)
    assert congestion.by_load(too_few, "it", "*", "")["value"].to_list() == pytest.approx([1.0])
