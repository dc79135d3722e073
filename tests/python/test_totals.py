"""The cost of flow control in cells, on tables with known answers."""

import polars as pl

from penstock.paper import totals


def test_credits_are_counted_against_the_other_cells_of_a_relay() -> None:
    rows = [("middle", 1, 110, 10), ("middle", 1, 220, 20), ("middle", 2, 105, 5), ("exit", 1, 50, 25)]
    table = pl.DataFrame(rows, ["relay", "seed", "written_cells", "credits"], orient="row")
    shares = totals.of_credits(table.with_columns(network=pl.lit("")), "middle")
    assert shares.select("seed", "value").rows() == [(1, 0.1), (2, 0.05)]


def test_sendmes_are_counted_against_the_data_cells_of_a_run() -> None:
    table = pl.DataFrame({"network": ["", ""], "seed": [1, 2], "sendmes": [3, 0], "data_cells": [100, 50]})
    assert totals.of_sendmes(table, "").select("seed", "value").rows() == [(1, 0.03), (2, 0.0)]
