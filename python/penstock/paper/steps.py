"""Effects of a rate change on a circuit: the time until windows decrease or a node holds back cells, and the queues.

A run's change is the first of its scenario's `[[changes]]`. Hops are ordered along a download, from exit to client.

Source: slides of Ojha and Sharma, "Problems with Bktap Design" and "Marut: Design Specifics"; DefenestraTor, section
4.2.
"""

import polars as pl

from penstock import catalog
from penstock.replicates import RUN
from penstock.result import Result

ALONG = ("exit", "middle", "guard")
"""The relays, in the order in which a download's cells pass them."""


def onset(result: Result, variant: str) -> float | None:
    """The time of a variant's first change [s]; None without a change."""
    name, document = catalog.resolved(result.manifest["scenario"], variant)
    return next(iter(document.changes(name)), None)


def decrease(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The time from the change to the first decrease of the window at a hop [s]; no value without a decrease."""
    at = onset(result, variant)
    there = result.circuits.filter(variant=variant, workload=workload, hop=hop)
    shrinks = pl.col("window_cells").diff().over([*RUN, "circuit"], order_by="t_s") < 0
    shrunk = there.filter(shrinks).filter(pl.col("t_s") > at)
    return shrunk.group_by(RUN).agg(value=pl.col("t_s").min() - at).sort(RUN)


def decrease_after(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The time from a hop's first window decrease to the exit's first one [s]; negative if the exit is first."""
    here, exit_ = (decrease(result, variant, workload, at) for at in (hop, "exit"))
    both = here.join(exit_, on=RUN, suffix="_exit")
    return both.select(*RUN, value=pl.col("value_exit") - pl.col("value"))


def decrease_trips(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The time of `decrease`, divided by the circuit's round-trip time after the change [1].

    The round-trip time is the time of the first tracked cell after the change from the exit to the client, plus the
    shortest such time of any cell. The second part stands for the way back, because feedback waits in no queue.
    """
    mine = result.cells.filter(variant=variant, workload=workload)
    key = [*RUN, "circuit", "cell"]
    made = mine.filter(hop="exit").select(*key, at=pl.col("queued_ns") / 1e9)
    come = mine.filter(hop="client").select(*key, come=pl.col("parsed_ns") / 1e9)
    times = made.join(come, on=key).with_columns(forth=pl.col("come") - pl.col("at"))
    after = times.filter(pl.col("at") > onset(result, variant)).sort("at")
    trips = after.group_by(RUN).agg(pl.col("forth").first())
    trips = trips.join(times.group_by(RUN).agg(back=pl.col("forth").min()), on=RUN)
    both = decrease(result, variant, workload, hop).join(trips, on=RUN)
    return both.select(*RUN, value=pl.col("value") / (pl.col("forth") + pl.col("back"))).sort(RUN)


def held_back(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The time from the change until a hop first holds back a circuit's cells [s]; no value if it never does.

    The exit holds back data that it does not read, so the hold begins with its last cell before a pause that is longer
    than twice the longest one in the second half of the time before the change. Another hop holds back the first cell
    that waits longer in the circuit's queue than all cells in that time. The measure needs every cell
    (`trace.cells = 1`) of one circuit that always has cells.
    """
    at = onset(result, variant) or 0.0
    there = result.cells.filter(variant=variant, workload=workload, hop=hop).drop_nulls("outbuf_ns")
    cells = there.select(*RUN, t_s=pl.col("queued_ns") / 1e9, left=pl.col("outbuf_ns") / 1e9).sort(*RUN, "t_s")
    if hop == "exit":
        hold, factor = pl.col("t_s").shift(-1).over(RUN) - pl.col("t_s"), 2
    else:
        hold, factor = pl.col("left") - pl.col("t_s"), 1
    cells = cells.with_columns(hold=hold)
    before = cells.filter(pl.col("t_s") >= at / 2, pl.col("t_s") + pl.col("hold") < at)
    usual = before.group_by(RUN).agg(usual=pl.col("hold").max())
    long = cells.join(usual, on=RUN).filter(pl.col("t_s") >= at, pl.col("hold") > factor * pl.col("usual"))
    return long.group_by(RUN).agg(value=pl.col("t_s").min() - at).sort(RUN)


def queue_peaks(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The sum of the longest circuit queues after the change, over the relays from the exit to a hop [cell]."""
    rows = _changed(result, variant, workload).filter(pl.col("hop").is_in(ALONG[: ALONG.index(hop) + 1]))
    peaks = rows.group_by(*RUN, "hop").agg(pl.col("queue_cells").max())
    return peaks.group_by(RUN).agg(value=pl.col("queue_cells").sum().cast(pl.Float64)).sort(RUN)


def over_window(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """A circuit's queue at a hop minus the window of the previous relay, at each sample after the change [cell]."""
    key = [*RUN, "circuit", "t_s"]
    rows = _changed(result, variant, workload).cast({"queue_cells": pl.Int64})
    windows = rows.filter(hop=ALONG[ALONG.index(hop) - 1]).select(*key, "window_cells").drop_nulls()
    over = (pl.col("queue_cells") - pl.col("window_cells")).cast(pl.Float64)
    return rows.filter(hop=hop).select(*key, "queue_cells").join(windows, on=key).select(*RUN, value=over)


def _changed(result: Result, variant: str, workload: str) -> pl.DataFrame:
    rows = result.circuits.filter(variant=variant, workload=workload)
    return rows.filter(pl.col("t_s") > onset(result, variant))
