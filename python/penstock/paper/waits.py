"""Waits of tracked cells in relays: sums over the stations of `cells.parquet`.

At the exit, `kernel_in_s` does not count: the kernel there holds a server's bytes, which are not yet cells.

Source: KIST section 4.1 (kernel in, Tor, kernel out) and figure 6(c), the congestion of a whole circuit.
"""

import polars as pl

from penstock import sendmes
from penstock.replicates import RUN
from penstock.result import Result

CELL = [*RUN, "circuit", "cell"]
"""The columns that identify a cell within a variant."""

IN_TOR = pl.col("circuit_queue_s") + pl.col("outbuf_s")
"""The wait from entering the circuit's queue to entering the kernel [s]."""
KERNEL_IN = pl.when(pl.col("hop") == "exit").then(0.0).otherwise(pl.col("kernel_in_s"))
IN_RELAY = KERNEL_IN + IN_TOR + pl.col("kernel_out_s")
"""The wait from one network interface to the other, without the time for decryption [s]."""


def in_tor(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """The wait of each cell in Tor's queues at a hop [s]."""
    return cells.filter(hop=hop).select(*RUN, value=IN_TOR)


def at_timer(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """Whether each cell waited for the 10 ms timer that its own arrival had started [0 or 1]."""
    there = cells.filter(IN_TOR.is_not_null(), hop=hop)
    return there.select(*RUN, value=IN_TOR.is_between(0.0095, 0.0105).cast(pl.Float64))


def of_circuit(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """The total wait at all relays of each cell that reached a hop [s]."""
    waits = cells.drop_nulls("nic_out_ns").select(*CELL, value=IN_RELAY)
    reached = waits.join(cells.filter(hop=hop), on=CELL, how="semi", nulls_equal=True)
    return reached.group_by(CELL, maintain_order=True).agg(pl.col("value").sum())


def kernel_out_share(cells: pl.DataFrame, hop: str) -> pl.DataFrame:
    """The share of the wait at a relay that is in the kernel's send buffer: one number for each run."""
    there = cells.filter(hop=hop).drop_nulls("nic_out_ns")
    return there.group_by(RUN).agg(value=pl.col("kernel_out_s").sum() / IN_RELAY.sum())


def at_sendmes(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """Whether each cell entered a hop's circuit queue between two samples between which a SENDME arrived [0 or 1].

    Cells before the first sample with a SENDME do not count: the initial windows released them.
    """
    return _at_sendmes(result, variant, workload, hop, 0.0)


def at_later_sendmes(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The same for the time one second after each cell: how often a SENDME arrives without a reason [0 or 1]."""
    return _at_sendmes(result, variant, workload, hop, 1.0)


def _at_sendmes(result: Result, variant: str, workload: str, hop: str, after_s: float) -> pl.DataFrame:
    mine = {"variant": variant, "workload": workload, "hop": hop}
    cells = result.cells.filter(**mine).drop_nulls("queued_ns")
    times = cells.select(*RUN, "circuit", t_s=pl.col("queued_ns") / 1e9 + after_s).sort("t_s")
    samples = sendmes.samples(result.circuits.filter(**mine))
    found = times.join_asof(samples, on="t_s", by=[*RUN, "circuit"], strategy="forward", check_sortedness=False)
    return found.select(*RUN, value=pl.col("arrived").cast(pl.Float64)).drop_nulls()
