"""The cost of flow control in cells, on tables with known answers."""

import polars as pl
import synthetic

from penstock.paper import totals


def test_credits_are_counted_against_the_other_cells_of_a_relay() -> None:
    rows = [("middle", 1, 110, 10), ("middle", 1, 220, 20), ("middle", 2, 105, 5), ("exit", 1, 50, 25)]
    table = pl.DataFrame(rows, ["relay", "seed", "written_cells", "credits"], orient="row")
    shares = totals.of_credits(table.with_columns(network=pl.lit("")), "middle")
    assert shares.select("seed", "value").rows() == [(1, 0.1), (2, 0.05)]


def test_throttled_clients_are_counted_once_and_their_bytes_by_interval() -> None:
    clients = {"a": "web", "b": "web", "c": "bulk"}
    transfers = [{"client": c, "workload": w, "warmup": False, "start_s": 10.0} for c, w in clients.items()]
    rows = [("a", 5.0, 900, True), ("a", 20.0, 100, False), ("b", 20.0, 200, True), ("b", 30.0, 100, False)]
    rows += [("c", 20.0, 5, True)]
    names = ["client", "t_s", "received_bytes", "throttled"]
    received = [dict(zip(names, row, strict=True)) for row in rows]
    made = synthetic.in_memory({}, transfers=transfers, clients=received)
    found = [
        measure(made, "it", workload, "")["value"].to_list()
        for measure in (totals.throttled_users, totals.throttled_bytes)
        for workload in ("web", "bulk")
    ]
    assert found == [[0.5], [1.0], [0.5], [1.0]]


def test_a_share_counts_every_byte_after_the_warm_up() -> None:
    # Client c's download began in the warm-up and does not end; client d receives nothing.
    users = [("a", "web", False, 10.0), ("b", "web", True, 1.0), ("c", "bulk", True, 1.0), ("d", "idle", False, 11.0)]
    transfers = [
        dict(zip(["client", "workload", "warmup", "start_s"], user, strict=True)) | {"direction": "download"}
        for user in users
    ]
    rows = [("a", 5.0, 900), ("a", 20.0, 100), ("b", 20.0, 200), ("c", 20.0, 250), ("c", 30.0, 50)]
    received = [dict(zip(["client", "t_s", "received_bytes"], row, strict=True)) for row in rows]
    made = synthetic.in_memory({}, transfers=transfers, clients=received)
    shares = [totals.delivered_share(made, "it", name, "")["value"].to_list() for name in ("web", "bulk", "idle")]
    assert shares == [[0.5], [0.5], [0.0]]


def test_bytes_count_for_tcp_while_it_binds_the_relay() -> None:
    rows = [(5.0, 900, "tcp"), (20.0, 100, "tcp"), (20.0, 200, "link"), (30.0, 100, None)]
    relays = [dict(zip(["t_s", "written_bytes", "bound_by"], row, strict=True)) for row in rows]
    made = synthetic.in_memory({}, transfers=[{"warmup": False, "start_s": 10.0}], relays=relays)
    assert totals.bound_by_tcp(made, "it", totals.EVERY, "")["value"].to_list() == [0.25]


def test_windows_count_after_the_warm_up() -> None:
    transfers = [{"warmup": warmup, "start_s": at} for warmup, at in ((True, 1.0), (False, 10.0))]
    rows = [
        ("bulk", "exit", 5.0, 90),
        ("bulk", "exit", 11.0, 7),
        ("bulk", "exit", 12.0, None),
        ("web", "exit", 12.0, 5),
    ]
    names = ["workload", "hop", "t_s", "window_cells"]
    samples = [dict(zip(names, row, strict=True)) for row in rows]
    made = synthetic.in_memory({}, transfers=transfers, circuits=samples)
    assert totals.windows(made, "it", "bulk", "exit")["value"].to_list() == [7.0]


def test_sendmes_are_counted_against_the_data_cells_of_a_run() -> None:
    table = pl.DataFrame({"network": ["", ""], "seed": [1, 2], "sendmes": [3, 0], "data_cells": [100, 50]})
    assert totals.of_sendmes(table, "").select("seed", "value").rows() == [(1, 0.03), (2, 0.0)]
