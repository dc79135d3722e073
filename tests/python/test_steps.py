"""Steps and shares: by hand, for a few samples, cells and downloads."""

from typing import Any

import polars as pl
import pytest
import synthetic

from penstock.paper import shares, steps
from penstock.result import Result

STILL = """
[scenario]
title = "one path"
[run]
duration = "10 s"
[relays.entry]
[relays.exit]
[servers.destination]
[workloads.bulk]
size = "1 MiB"
[clients.bulk]
workload = "bulk"
path = ["entry", "exit"]
"""
CHANGED = STILL + '[[changes]]\nat = "1000 ms"\nset = { "relay.bandwidth_rate" = "1 MiB/s" }\n'


def result(**tables: list[dict[str, Any]]) -> Result:
    """A run with a change at one second."""
    return synthetic.in_memory({"it": CHANGED, "still": STILL}, **tables)


def samples() -> Result:
    """Windows shrink before the change, which does not count, and after it: the exit's at 1.3 s, the guard's at 1.1."""
    windows = {"exit": [9, 8, 8, 8, 7], "middle": [9, 9, 9, 9, 9], "guard": [9, 9, 9, 8, 8]}
    queues = {"exit": [9, 0, 0, 1, 2], "middle": [9, 0, 8, 9, 5], "guard": [9, 9, 3, 4, 10]}
    times = [0.8, 0.9, 1.0, 1.1, 1.3]
    rows = [
        {"workload": "bulk", "circuit": 0, "hop": hop, "t_s": t, "window_cells": window, "queue_cells": queue}
        for hop in windows
        for t, window, queue in zip(times, windows[hop], queues[hop], strict=True)
    ]
    cells = [
        {"workload": "bulk", "circuit": 0, "cell": cell, "hop": hop, "queued_ns": at, "parsed_ns": at}
        for cell, made, come in ((0, 100, 200), (1, 1001, 1201), (2, 1002, 1502))
        for hop, at in (("exit", made * 10**6), ("client", come * 10**6))
    ]
    return result(circuits=rows, cells=cells)


def values(frame: pl.DataFrame) -> list[float]:
    assert frame.columns == ["network", "seed", "value"]
    return frame["value"].to_list()


def test_a_window_s_first_decrease_counts_from_the_change() -> None:
    assert steps.onset(samples(), "it") == 1.0
    assert steps.onset(samples(), "still") is None
    assert values(steps.decrease(samples(), "it", "bulk", "exit")) == pytest.approx([0.3])
    assert values(steps.decrease(samples(), "it", "bulk", "guard")) == pytest.approx([0.1])
    assert values(steps.decrease(samples(), "it", "bulk", "middle")) == []
    assert values(steps.decrease_after(samples(), "it", "bulk", "guard")) == pytest.approx([0.2])


def test_a_hop_holds_back_when_cells_wait_longer_than_before_the_change() -> None:
    def rows(hop: str, waits: list[tuple[float, float]]) -> list[dict[str, Any]]:
        return [
            {"workload": "bulk", "circuit": 0, "cell": cell, "hop": hop, "queued_ns": int(1e9 * at),
             "outbuf_ns": int(1e9 * (at + wait))}
            for cell, (at, wait) in enumerate(waits)
        ]  # fmt: skip

    # A long wait in the first half of the time before the change does not count.
    middle = rows("middle", [(0.1, 0.5), (0.6, 0.02), (0.8, 0.03), (1.1, 0.03), (1.2, 0.04), (1.3, 0.5)])
    assert values(steps.held_back(result(cells=middle), "it", "bulk", "middle")) == pytest.approx([0.2])
    assert values(steps.held_back(result(cells=middle[:-2]), "it", "bulk", "middle")) == []
    # The exit's hold is a pause of more than twice the longest one before.
    exit_ = rows("exit", [(at, 0.0) for at in (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.15, 1.34, 1.65)])
    assert values(steps.held_back(result(cells=exit_), "it", "bulk", "exit")) == pytest.approx([0.34])
    assert values(steps.held_back(result(cells=exit_[:-1]), "it", "bulk", "exit")) == []


def test_a_round_trip_is_there_with_its_waits_and_back_without() -> None:
    assert values(steps.decrease_trips(samples(), "it", "bulk", "exit")) == pytest.approx([0.3 / (0.2 + 0.1)])


def test_peaks_are_summed_from_the_exit_on_and_queues_held_against_the_window_before() -> None:
    assert values(steps.queue_peaks(samples(), "it", "bulk", "middle")) == [2 + 9]
    assert values(steps.queue_peaks(samples(), "it", "bulk", "guard")) == [2 + 9 + 10]
    assert sorted(values(steps.over_window(samples(), "it", "bulk", "middle"))) == [5 - 7, 9 - 8]
    assert sorted(values(steps.over_window(samples(), "it", "bulk", "guard"))) == [4 - 9, 10 - 9]


def downloads() -> Result:
    """One client with two circuits of 10 B/s, one with one of 20 B/s. Cut off or early downloads do not count."""
    rows = [
        ("web", "a", 0, 100, 10.0, "ok", False),
        ("web", "a", 1, 100, 10.0, "ok", False),
        ("bulk", "b", 2, 100, 4.0, "ok", False),
        ("bulk", "b", 2, 100, 6.0, "ok", False),
        ("bulk", "b", 2, 900, None, "unfinished", False),
        ("web", "a", 0, 100, 1.0, "ok", True),
    ]
    names = ["workload", "client", "circuit", "bytes", "ttlb_s", "outcome", "warmup"]
    return result(transfers=[{"direction": "download"} | dict(zip(names, row, strict=True)) for row in rows])


def test_shares_are_of_circuits_or_of_users() -> None:
    assert values(shares.of_circuits(downloads(), "it", "*", "")) == pytest.approx([40**2 / (3 * 600)])
    assert values(shares.of_users(downloads(), "it", "*", "")) == pytest.approx([1.0])


def tracked() -> pl.DataFrame:
    """Of circuit 0 ten cells a second come, of circuit 1 thirty; cells wait 0.1 or 0.3 s, in the second half alike."""
    rows = [
        {**synthetic.RUN, "circuit": circuit, "cell": rate * t, "hop": "middle", "parsed_ns": t * 10**9,
         "kernel_in_s": wait, "circuit_queue_s": 0.0, "outbuf_s": 0.0, "kernel_out_s": 0.0}
        for circuit, rate in ((0, 10), (1, 30))
        for t in range(11)
        for wait in [0.1 if t % 2 else 0.3]
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_equal_circuits_are_compared_with_their_mean_and_queues_follow_littles_law() -> None:
    assert sorted(values(shares.of_equals(tracked(), "middle"))) == pytest.approx([0.5, 1.5])
    # From 6 to 10 s: three of five cells wait 0.2 s longer than the luckiest.
    assert sorted(values(shares.backlog(tracked(), "middle"))) == pytest.approx([10 * 0.12, 30 * 0.12])
