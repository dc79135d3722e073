"""Waits of cells: by hand, for two cells on a path of two relays."""

import polars as pl
import pytest
import synthetic

from penstock.paper import waits

STATIONS = ["kernel_in_s", "circuit_queue_s", "outbuf_s", "kernel_out_s"]


def cells() -> pl.DataFrame:
    """Cell 0 reached the client, cell 1 only the guard, which it has not left."""
    rows = [
        (0, "exit", 9.0, 0.1, 0.2, 0.7, 1),
        (0, "guard", 0.5, 0.1, 0.1, 0.3, 2),
        (0, "client", 0.4, None, None, None, None),
        (1, "exit", 9.0, 0.0, 0.0, 3.0, 3),
        (1, "guard", 0.2, 0.1, None, None, None),
    ]
    names = ["cell", "hop", *STATIONS, "nic_out_ns"]
    return pl.DataFrame(rows, names, orient="row").with_columns(network=pl.lit(""), seed=1, circuit=0)


def test_a_server_s_bytes_are_no_wait_of_the_circuit() -> None:
    assert waits.of_circuit(cells(), "client")["value"].to_list() == pytest.approx([1.0 + 1.0])


def test_a_share_is_that_of_all_that_left_the_relay() -> None:
    assert waits.kernel_out_share(cells(), "exit")["value"].to_list() == pytest.approx([3.7 / 4.0])
    assert waits.kernel_out_share(cells(), "guard")["value"].to_list() == pytest.approx([0.3])


def test_a_step_is_made_of_those_that_leave_when_a_timer_of_10_ms_fires() -> None:
    queues = [(0.0, 0.0094), (0.01, 0.0), (0.004, 0.0061), (0.0, 0.02)]
    there = pl.DataFrame(queues, ["circuit_queue_s", "outbuf_s"], orient="row")
    there = there.with_columns(network=pl.lit(""), seed=1, hop=pl.lit("middle"))
    assert waits.at_timer(there, "middle")["value"].to_list() == [0.0, 1.0, 1.0, 0.0]


def test_time_in_tor_is_that_of_both_queues() -> None:
    assert waits.in_tor(cells(), "exit")["value"].to_list() == pytest.approx([0.3, 0.0])


def test_cells_that_enter_with_a_sendme() -> None:
    """The first SENDME and cells before it, before 0.2 s, do not count. The next ones arrive before 0.4 and 0.5 s."""
    samples = [
        {"workload": "bulk", "circuit": 0, "hop": "exit", "t_s": (place + 1) / 10, "sendmes": sendmes}
        for place, sendmes in enumerate([0, 1, 1, 3, 4, 4])
    ]
    cells = [
        {"workload": "bulk", "circuit": 0, "cell": cell, "hop": "exit", "queued_ns": round(at * 1e9)}
        for cell, at in enumerate([0.05, 0.15, 0.25, 0.33, 0.4, 0.41, 0.55])
    ]
    there = synthetic.in_memory({"it": ""}, circuits=samples, cells=cells)
    assert waits.at_sendmes(there, "it", "bulk", "exit")["value"].to_list() == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_the_comparison_is_the_second_after_a_cell() -> None:
    counts = {0.1: 1, 1.1: 1, 1.2: 1, 1.3: 5}
    samples = [
        {"workload": "bulk", "circuit": 0, "hop": "exit", "t_s": at, "sendmes": count} for at, count in counts.items()
    ]
    cells = [
        {"workload": "bulk", "circuit": 0, "cell": 0, "hop": "exit", "queued_ns": round(at * 1e9)}
        for at in (0.15, 0.25)
    ]
    there = synthetic.in_memory({"it": ""}, circuits=samples, cells=cells)
    assert waits.at_later_sendmes(there, "it", "bulk", "exit")["value"].to_list() == [0.0, 1.0]
