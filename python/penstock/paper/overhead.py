"""The cost of flow control in cells.

Source: DefenestraTor section 5.1: a credit for each N2 data cells that a router forwards, a SENDME of a stream for each
50 and one of the circuit for each 100.
"""

from __future__ import annotations

import polars as pl


def of_credits(relays: pl.DataFrame, hop: str) -> pl.DataFrame:
    """A relay's credits over its other written cells: one number for each run."""
    there = relays.filter(pl.col("relay") == hop).group_by("network", "seed", maintain_order=True)
    given, written = pl.col("credits").sum(), pl.col("written_cells").sum()
    return there.agg(value=given / (written - given))


def of_sendmes(runs: pl.DataFrame, _hop: str) -> pl.DataFrame:
    """SENDMEs of circuits and streams over the delivered DATA cells: one number for each run."""
    return runs.select("network", "seed", value=pl.col("sendmes") / pl.col("data_cells"))
