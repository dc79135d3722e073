"""Probing a guard: a client downloads continuously and measures its rate after the burst.

Source: throttling section 5.1, equations 1 and 2.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.replicates import RUN, RUN_SCHEMA

BURST = 2 << 20
"""The bytes that a client receives before it is throttled, beta [B] (throttling section 3.2, footnote 3)."""
PAYLOAD, CELL, RECORD, CELLS_OF_RECORD = 498, 512, 29, 8
"""The sizes of a cell's payload, a cell, and a record's TLS overhead [B]; the maximum number of cells per record."""


def rate(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """The estimated rate [B/s]: the payload after the first 2 MiB, divided by its duration.

    Source: throttling equation 2.
    """
    return _of_circuits(cells, hop, _rate)


def onset(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """The bytes on the wire before throttling starts, minus the refill of the bucket until then [B].

    The curve of arrived cells is first steep and then flat. Throttling starts at the corner between both parts. The
    corner is the point with the largest distance above a straight line between the curve's ends. Bytes on the wire are
    cells and the TLS overhead of their records.
    """
    return _of_circuits(cells, hop, _onset)


def arrivals(cells: pl.DataFrame, hop: str) -> NDArray[np.float64]:
    """The arrival times of the DATA cells of one circuit [s]."""
    return cells.filter(pl.col("hop") == hop)["nic_in_ns"].drop_nulls().sort().to_numpy().astype(np.float64) / 1e9


def _of_circuits(cells: pl.DataFrame, hop: str, estimate: Callable[[NDArray[np.float64]], float]) -> pl.DataFrame:
    """One number for each circuit that received more than a burst."""
    rows = []
    for (network, seed, _), circuit in cells.group_by(*RUN, "circuit", maintain_order=True):
        times = arrivals(circuit, hop)
        if len(times) * PAYLOAD > BURST:
            rows.append((network, seed, estimate(times)))
    return pl.DataFrame(rows, {**RUN_SCHEMA, "value": pl.Float64()}, orient="row")


def _rate(times: NDArray[np.float64]) -> float:
    first = -(-BURST // PAYLOAD)
    return float((len(times) - first) * PAYLOAD / (times[-1] - times[first - 1]))


def _onset(times: NDArray[np.float64]) -> float:
    corner = _corner(times)
    # Cells of a record arrive together.
    _, together = np.unique(times[: corner + 1], return_counts=True)
    wire = (corner + 1) * CELL + int(np.sum(-(-together // CELLS_OF_RECORD))) * RECORD
    slow = (len(times) - 1 - corner) * (CELL + RECORD / CELLS_OF_RECORD) / (times[-1] - times[corner])
    return float(wire - slow * (times[corner] - times[0]))


def _corner(times: NDArray[np.float64]) -> int:
    of_cells = np.arange(len(times)) / (len(times) - 1)
    of_time = (times - times[0]) / (times[-1] - times[0])
    return int(np.argmax(of_cells - of_time))
