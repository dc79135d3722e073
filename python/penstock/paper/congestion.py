"""Congestion of relays and bursts of clients.

Source: KIST section 3 (congestion is a function of a relay's capacity or load; how strongly, the paper leaves open) and
section 6 (with KIST, the throughput of a client becomes burstier over the short term).
"""

import polars as pl
from scipy.stats import spearmanr

from penstock import _core
from penstock.attacks.measurement import Sampled
from penstock.paper import totals
from penstock.replicates import RUN, RUN_SCHEMA
from penstock.result import Result


def burstiness(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The coefficient of variation of each client's throughput, from its first to its last interval with bytes [1].

    The intervals are those of `trace.clients`. A client needs ten intervals.
    """
    rows = totals.received(result, variant, workload)
    ends = result.clients.filter(variant=variant)["t_s"].unique().sort()
    interval = ends.diff().median()
    if interval is None:
        return pl.DataFrame([], {**RUN_SCHEMA, "value": pl.Float64()})
    received, t = pl.col("received_bytes").cast(pl.Float64), pl.col("t_s")
    # Intervals without bytes have no row.
    intervals = ((t.max() - t.min()) / interval).round() + 1
    of_clients = rows.group_by(*RUN, "client").agg(
        n=intervals, mean=received.sum() / intervals, square=received.pow(2).sum() / intervals
    )
    variance = pl.col("square") - pl.col("mean").pow(2)
    found = of_clients.filter(pl.col("n") >= 10).sort(*RUN, "client")
    return found.select(*RUN, value=variance.clip(0).sqrt() / pl.col("mean"))


def by_load(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """Spearman's correlation of the relays' loads with the waits of their cells: one number for each run.

    The load is the written bytes divided by what the relay's bandwidth allows.
    """
    return _correlation(result, variant, "load")


def by_capacity(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """Spearman's correlation of the relays' bandwidths with the waits of their cells: one number for each run."""
    return _correlation(result, variant, "bandwidth")


def _correlation(result: Result, variant: str, column: str) -> pl.DataFrame:
    rows = totals.in_intervals(result, variant, result.relays)
    queued = pl.col("circuit_queue_cells") * totals.CELL_B + pl.col("outbuf_bytes") + pl.col("kernel_out_bytes")
    written = pl.col("written_bytes").sum()
    relays = (
        rows.group_by(*RUN, "relay").agg(written=written, wait=queued.sum() / written).filter(pl.col("written") > 0)
    )
    document = _core.Document(
        next(each for each in result.manifest["scenario"]["variants"] if each["name"] == variant)["resolved"], variant
    )
    (name, _) = document.variants()[0]
    found = []
    for (network, seed), run in sorted(relays.partition_by(RUN, as_dict=True).items()):
        bandwidths = Sampled(document, name, int(network or seed)).bandwidths
        run = run.with_columns(bandwidth=pl.col("relay").replace_strict(bandwidths, return_dtype=pl.Float64))
        run = run.with_columns(load=pl.col("written") / pl.col("bandwidth"))
        found.append((network, seed, float(spearmanr(run[column], run["wait"]).statistic)))
    return pl.DataFrame(found, {**RUN_SCHEMA, "value": pl.Float64()}, orient="row")
