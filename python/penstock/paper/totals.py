"""Totals over a run, a relay or all relays: bytes, credits and SENDMEs."""

import tomllib

import polars as pl

from penstock import catalog
from penstock.replicates import RUN
from penstock.result import Result

EVERY = "*"
"""The name that stands for all workloads together."""

CELL_B = 512
"""The size of a cell [B]."""

QUERY_CALLS = 3
"""The system calls of Penstock's relay for a query of a socket: SO_SNDBUF, SIOCOUTQ and TCP_INFO.

Source: KIST section 5.2, "Managing Socket Output". C tor needs two calls.
"""


def written(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """The bytes that all relays wrote in each interval after the warm-up [B].

    Source: KIST section 5.3, figure 8.
    """
    return _of_network(result, variant, pl.col("written_bytes"))


def written_per_client(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """The bytes that all relays wrote in each interval after the warm-up, for each second and client [B/s].

    With this number, networks of other sizes and intervals compare with figure 8 of KIST.
    """
    bytes_of_relays = written(result, variant, EVERY, "")
    interval = result.relays.filter(variant=variant)["t_s"].unique().sort().diff().min()
    if interval is None:
        return bytes_of_relays.clear()
    groups = tomllib.loads(catalog.resolved_text(result.scenario, variant)).get("clients", {})
    clients = sum(group["count"] for group in groups.values())
    if not clients:
        return bytes_of_relays.clear()
    return bytes_of_relays.with_columns(value=pl.col("value") / interval / clients)


def queued(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """The cells that wait in the circuit queues of all relays, at the end of each interval after the warm-up [cell].

    Source: DefenestraTor section 3.2, which limits these queues to limit the memory of relays.
    """
    return _of_network(result, variant, pl.col("circuit_queue_cells"))


def held(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """The cells in circuit queues, output buffers and kernel send buffers of all relays, at the same times [cell].

    Cells that a node keeps to send a datagram again are not counted.
    """
    buffers = (pl.col("outbuf_bytes") + pl.col("kernel_out_bytes")) / CELL_B
    return _of_network(result, variant, pl.col("circuit_queue_cells") + buffers)


def delivered(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The bytes that a workload's clients received in each interval of `trace.clients` after the warm-up [B]."""
    rows = result.clients if workload == EVERY else received(result, variant, workload)
    return _sums(result, variant, rows, pl.col("received_bytes"))


def delivered_share(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """A workload's share of the bytes that all clients received after the warm-up: one number for each run.

    Downloads that began in the warm-up or do not end count, too: a throttle stops some for whole runs.

    Source: throttling section 4, table 1.
    """
    size = pl.col("received_bytes").sum()
    everyone = in_intervals(result, variant, result.clients).group_by(RUN).agg(everyone=size)
    users = received(result, variant, workload).group_by(RUN).agg(users=size)
    shares = everyone.join(users, on=RUN, how="left", nulls_equal=True).fill_null(0)
    return shares.select(*RUN, value=pl.col("users") / pl.col("everyone")).sort(RUN)


def bound_by_tcp(result: Result, variant: str, _workload: str, _hop: str) -> pl.DataFrame:
    """The share of bytes that relays wrote while TCP limited them, after the warm-up: one number for each run [1]."""
    size = pl.col("written_bytes")
    share = size.filter(pl.col("bound_by") == "tcp").sum() / size.sum()
    return in_intervals(result, variant, result.relays).group_by(RUN).agg(value=share).sort(RUN)


def throttled_users(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The share of a workload's clients that a guard throttled at the end of an interval with bytes [1].

    Clients and intervals without bytes after the warm-up do not count.

    Source: throttling section 3; for web clients, this is the rate of false positives.
    """
    users = received(result, variant, workload).group_by(*RUN, "client").agg(pl.col("throttled").any())
    return users.group_by(RUN).agg(value=pl.col("throttled").mean()).sort(RUN)


def throttled_bytes(result: Result, variant: str, workload: str, _hop: str) -> pl.DataFrame:
    """The share of a workload's bytes in intervals at whose end a guard throttled the client, after the warm-up [1]."""
    size = pl.col("received_bytes")
    share = size.filter(pl.col("throttled")).sum() / size.sum()
    return received(result, variant, workload).group_by(RUN).agg(value=share).sort(RUN)


def received(result: Result, variant: str, workload: str) -> pl.DataFrame:
    """The rows of `clients` that belong to a workload and to intervals after the warm-up."""
    transfers = result.transfers.filter(variant=variant, workload=workload)
    users = transfers.select(*RUN, "client").unique()
    return in_intervals(result, variant, result.clients).join(users, on=[*RUN, "client"], how="semi", nulls_equal=True)


def _of_network(result: Result, variant: str, value: pl.Expr) -> pl.DataFrame:
    """The sum over all relays, for each interval after the warm-up."""
    return _sums(result, variant, result.relays, value)


def _sums(result: Result, variant: str, rows: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """The sum of the rows of each interval after the warm-up."""
    sums = in_intervals(result, variant, rows).group_by(*RUN, "t_s").agg(value=value.sum().cast(pl.Float64))
    return sums.sort(*RUN, "t_s").select(*RUN, "value")


def windows(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The windows of a workload's circuits at a hop, at each sample after the warm-up [cell]."""
    there = in_intervals(result, variant, result.circuits).filter(workload=workload, hop=hop)
    return there.select(*RUN, value=pl.col("window_cells").cast(pl.Float64)).drop_nulls()


def in_intervals(result: Result, variant: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of intervals that end after the warm-up."""
    # No interval lies between the end of the warm-up and the first download that counts.
    begun = result.transfers.filter(variant=variant, warmup=False).group_by(RUN).agg(pl.col("start_s").min())
    return rows.filter(variant=variant).join(begun, on=RUN).filter(pl.col("t_s") > pl.col("start_s"))


def of_credits(relays: pl.DataFrame, hop: str) -> pl.DataFrame:
    """A relay's credits, divided by its other written cells: one number for each run.

    Source: DefenestraTor section 5.1: a relay sends one credit for N2 forwarded data cells.
    """
    credit = pl.col("credits").sum()
    return relays.filter(relay=hop).group_by(RUN).agg(value=credit / (pl.col("written_cells").sum() - credit)).sort(RUN)


def of_sendmes(runs: pl.DataFrame, _hop: str) -> pl.DataFrame:
    """SENDMEs of circuits and streams, divided by the delivered DATA cells: one number for each run.

    Source: DefenestraTor section 5.1: one SENDME for 50 cells of a stream, and one for 100 cells of a circuit.
    """
    return runs.select(*RUN, value=pl.col("sendmes") / pl.col("data_cells"))


def of_calls(runs: pl.DataFrame, _hop: str) -> pl.DataFrame:
    """System calls of all relays for their channels, divided by the delivered DATA cells: one number for each run.

    These are the calls of Penstock's relay. Encryption, streams of exits and the choices of policies are not counted.
    """
    calls = pl.col("relay_calls") + QUERY_CALLS * pl.col("relay_queries")
    return runs.select(*RUN, value=calls / pl.col("data_cells"))
