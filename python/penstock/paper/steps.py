"""Effects of a rate change on a circuit: when the windows shrink, and how long queues are then.

A run's change is the first of its scenario's `[[changes]]`; hops are seen along a download, from exit to client.

Source: slides of Ojha and Sharma, "Problems with Bktap Design" and "Marut: Design Specifics".
"""

from __future__ import annotations

import polars as pl

from penstock import _core
from penstock.result import Result

RUN = ["network", "seed"]

ALONG = ("exit", "middle", "guard")
"""Relays in the order in which a download's cells pass them."""


def onset(result: Result, variant: str) -> float | None:
    """The time of a variant's first change [s]; none without a change."""
    of = next(each for each in result.manifest["scenario"]["variants"] if each["name"] == variant)
    document = _core.Document(of["resolved"], variant)
    (name, _) = document.variants()[0]
    return next(iter(document.changes(name)), None)


def decrease(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The time from the change to the first decrease of the window at a hop [s]; no value without a decrease."""
    at = onset(result, variant)
    there = _samples(result, variant, workload).filter(pl.col("hop") == hop)
    shrinks = pl.col("window_cells").diff().over([*RUN, "circuit"], order_by="t_s") < 0
    shrunk = there.filter(shrinks).filter(pl.col("t_s") > at)
    return shrunk.group_by(RUN).agg(value=pl.col("t_s").min() - at).sort(RUN)


def decrease_after(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The time from the first decrease of the window at a hop to that at the exit; may be negative [s]."""
    here, exit_ = (decrease(result, variant, workload, at) for at in (hop, "exit"))
    both = here.join(exit_, on=RUN, suffix="_exit")
    return both.select(*RUN, value=pl.col("value_exit") - pl.col("value"))


def decrease_trips(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """`decrease` in round trips of the circuit, measured by the first tracked cell after the change.

    The way back is the least that a cell took for the way to the client: what comes back waits in no queue.
    """
    mine = (pl.col("variant") == variant) & (pl.col("workload") == workload)
    key = [*RUN, "circuit", "cell"]
    made = result.cells.filter(mine, pl.col("hop") == "exit").select(*key, at=pl.col("queued_ns") / 1e9)
    come = result.cells.filter(mine, pl.col("hop") == "client").select(*key, come=pl.col("parsed_ns") / 1e9)
    ways = made.join(come, on=key).with_columns(way=pl.col("come") - pl.col("at"))
    after = ways.filter(pl.col("at") > onset(result, variant)).sort("at")
    trips = after.group_by(RUN).agg(way=pl.col("way").first())
    trips = trips.join(ways.group_by(RUN).agg(back=pl.col("way").min()), on=RUN)
    heard = decrease(result, variant, workload, hop).join(trips.cast({"seed": pl.Int64}), on=RUN)
    return heard.select(*RUN, value=pl.col("value") / (pl.col("way") + pl.col("back"))).sort(RUN)


def queue_peaks(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The longest circuit queue of each relay after the change, summed from the exit to a hop [cell]."""
    relays = ALONG[: ALONG.index(hop) + 1]
    at = onset(result, variant)
    rows = _samples(result, variant, workload).filter(pl.col("hop").is_in(relays), pl.col("t_s") > at)
    peaks = rows.group_by(*RUN, "hop").agg(pl.col("queue_cells").max())
    return peaks.group_by(RUN).agg(value=pl.col("queue_cells").sum().cast(pl.Float64)).sort(RUN)


def over_window(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The excess of a circuit's queue over the window before it, at each sample after the change [cell]."""
    before = ALONG[ALONG.index(hop) - 1]
    key = [*RUN, "circuit", "t_s"]
    rows = _samples(result, variant, workload).filter(pl.col("t_s") > onset(result, variant))
    windows = rows.filter(pl.col("hop") == before).select(*key, "window_cells").drop_nulls()
    queues = rows.filter(pl.col("hop") == hop).select(*key, pl.col("queue_cells").cast(pl.Int64))
    over = (pl.col("queue_cells") - pl.col("window_cells")).cast(pl.Float64)
    return queues.join(windows, on=key).select(*RUN, value=over)


def _samples(result: Result, variant: str, workload: str) -> pl.DataFrame:
    mine = (pl.col("variant") == variant) & (pl.col("workload") == workload)
    return result.circuits.filter(mine).cast({"seed": pl.Int64})
