"""Congestion of relays and bursts of clients.

Source: KIST section 3 (congestion is a function of a relay's capacity or load; how strongly, the paper leaves open) and
section 6 (with KIST, the throughput of a client becomes burstier over the short term).
"""

import polars as pl
from scipy.stats import spearmanr

from penstock import catalog
from penstock.attacks.measurement import Sampled
from penstock.paper import totals, waits
from penstock.replicates import RUN, RUN_SCHEMA
from penstock.result import Result

LEAST = 10
"""The least number of tracked cells of a relay whose mean wait counts [1]."""


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
    """Spearman's correlation of relays' loads with the mean waits of tracked cells in them: one number for each run.

    The load is the written bytes divided by what the relay's bandwidth allows.
    """
    return _correlation(result, variant, "load")


def by_capacity(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """Spearman's correlation of relays' bandwidths with the mean waits of tracked cells: one number for each run."""
    return _correlation(result, variant, "bandwidth")


def _correlation(result: Result, variant: str, column: str) -> pl.DataFrame:
    """Correlations over the relays with at least `LEAST` tracked cells; no value without two different waits."""
    name, document = catalog.resolved(result.manifest["scenario"], variant)
    written = (
        totals.in_intervals(result, variant, result.relays).group_by(*RUN, "relay").agg(pl.col("written_bytes").sum())
    )
    relays = _waits(result, variant).join(written, on=[*RUN, "relay"])
    found = []
    for (network, seed), run in sorted(relays.partition_by(RUN, as_dict=True).items()):
        bandwidths = Sampled(document, name, int(network or seed)).bandwidths
        run = run.with_columns(bandwidth=pl.col("relay").replace_strict(bandwidths, return_dtype=pl.Float64))
        run = run.with_columns(load=pl.col("written_bytes") / pl.col("bandwidth"))
        found.append((network, seed, float(spearmanr(run[column], run["wait"]).statistic)))
    return pl.DataFrame(found, {**RUN_SCHEMA, "value": pl.Float64()}, orient="row").drop_nans()


def _waits(result: Result, variant: str) -> pl.DataFrame:
    """The mean wait of tracked cells in each relay after the warm-up [s]."""
    cells = result.cells.drop_nulls("nic_out_ns").with_columns(t_s=pl.col("queued_ns") / 1e9)
    cells = totals.in_intervals(result, variant, cells).select(*RUN, "circuit", "hop", wait=waits.IN_RELAY)
    hops = result.paths.filter(variant=variant).unpivot(
        ["guard", "middle", "exit"], index=[*RUN, "circuit"], variable_name="hop", value_name="relay"
    )
    relays = cells.join(hops, on=[*RUN, "circuit", "hop"]).group_by(*RUN, "relay")
    return relays.agg(pl.col("wait").mean(), n=pl.len()).filter(pl.col("n") >= LEAST).sort(*RUN, "relay")
