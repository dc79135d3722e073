"""`penstock explain`: the relay and the limit at which data waits, and the algorithms that can act there."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from rich.console import Console
from rich.table import Table

from penstock import _core, catalog, runs, tables
from penstock.errors import PenstockError
from penstock.overrides import Sets, typed
from penstock.result import Result
from penstock.stations import STATIONS

SHORT_S = 60.0
"""The longest estimated processor time of a scenario that the command runs itself [s]."""
SHOWN = 3
"""The number of relays that a row names."""
BUSY = 0.05
"""The share of written bytes from which a limit counts: below it, cells hardly wait."""

CAUSES = (("link", "bucket", "cpu"), ("credit",), ("tcp",), ("window",))
"""Limits, causes first: a full link, bucket or processor also makes TCP and windows in front of it wait."""


class Lever(NamedTuple):
    """A key whose algorithms can act at a limit, and how they act."""

    key: str
    how: str


ORDER = Lever("circuit_policy", "decides which circuit waits; interactive circuits can leave first")
WRITES = Lever(
    "scheduler", "KIST and KISTLite keep cells in Tor instead of the kernel, where circuit_policy can order them"
)
ENDS = Lever("edge_control", "decides how many cells wait here at all")
HOPS = Lever("hop_control", "limits the queue of each circuit at each hop")
GUARDS = Lever("throttle", "slows bulk clients at the guard, so fewer cells arrive here")
CHANNELS = Lever("channel_map", "gives circuits connections of their own, so a loss stops one circuit only")

LEVERS = {
    "link": (WRITES, ORDER, ENDS, HOPS, GUARDS),
    "bucket": (ORDER, ENDS, HOPS, GUARDS),
    "tcp": (WRITES, CHANNELS, HOPS, ENDS),
    "cpu": (ORDER, GUARDS),
    "credit": (HOPS,),
    "window": (ENDS,),
}
"""What can act at each limit of `bound_by`, the most direct first."""

MEANINGS = {
    "link": "packets wait for the access link",
    "bucket": "the token bucket of the relay is empty",
    "tcp": "TCP's congestion window or the peer's window is used up",
    "cpu": "cells wait for the processor",
    "credit": "circuits have cells but no credit",
    "window": "the windows of streams or circuits are used up",
}


class Bound(NamedTuple):
    """The limit that binds most, under one variant."""

    variant: str
    label: str
    limit: str
    """A value of `bound_by`; empty if no relay is bound."""
    share: float
    """The share of all written bytes that relays wrote in intervals with this limit."""
    relays: list[tuple[str, float]]
    """The relays that this limit binds most, with their share of samples."""
    station: str
    """The station with the longest mean wait, such as `circuit queue of the exit`; empty without tracked cells."""
    wait_s: float


def find(result: Result) -> list[Bound]:
    """The limit that binds most under each variant.

    Raises:
        PenstockError: if the output has no samples of relays, or is damaged.
    """
    with result.reading():
        rows = result.scan("relays").select("variant", "relay", "written_bytes", "bound_by").collect()
        if rows.is_empty():
            raise PenstockError(f"{result.directory} has no samples of relays, so no limit can be named")
        return [_bound(result, name, rows.filter(variant=name)) for name in result.variants]


def _bound(result: Result, variant: str, rows: pl.DataFrame) -> Bound:
    total = max(float(rows["written_bytes"].sum()), 1.0)
    counts = rows.drop_nulls("bound_by").group_by("bound_by").agg(pl.col("written_bytes").sum())
    shares = {str(limit): float(written) / total for limit, written in counts.iter_rows()}
    label, place = result.variants[variant], _station(result, variant)
    limit = next((limit for limit in (_largest(group, shares) for group in CAUSES) if limit), "")
    if not limit:
        return Bound(variant, label, "", 0.0, [], *place)
    each = rows.group_by("relay").agg(
        share=(pl.col("bound_by") == limit).fill_null(value=False).mean(), written=pl.col("written_bytes").sum()
    )
    bound = each.filter(pl.col("share") > 0)
    most = bound.sort("share", "written", "relay", descending=[True, True, False]).head(SHOWN)
    return Bound(variant, label, limit, shares[limit], list(most.select("relay", "share").iter_rows()), *place)


def _largest(group: tuple[str, ...], shares: dict[str, float]) -> str:
    """The limit of a group with the largest share of bytes; empty if none reaches BUSY."""
    share, limit = max((shares.get(limit, 0.0), limit) for limit in group)
    return limit if share >= BUSY else ""


def _station(result: Result, variant: str) -> tuple[str, float]:
    """The station with the longest mean wait of tracked cells, and this wait [s]."""
    cells = result.scan("cells").filter(pl.col("variant") == variant, pl.col("hop") != "client")
    waits = cells.group_by("hop").agg(pl.col(*STATIONS).mean()).collect()
    found = [
        (row[name] or 0.0, f"{title} of the {row['hop']}")
        for row in waits.sort("hop").iter_rows(named=True)
        for name, title in STATIONS.items()
        # The kernel of an exit holds a server's bytes, which are no cells yet.
        if (row["hop"], name) != ("exit", "kernel_in_s")
    ]
    wait, station = max(found, default=(0.0, ""))
    return station, wait


def levers(limit: str) -> list[tuple[Lever, list[str]]]:
    """What can act at a limit, with the algorithms of each key except those that do nothing."""
    known = _core.algorithms()
    idle = {"none", "round-robin", "vanilla", "shared"}
    return [
        (lever, [each["kind"] for each in known if each["key"] == lever.key and each["kind"] not in idle])
        for lever in LEVERS[limit]
    ]


def find_in(what: str, sets: Sets = ()) -> list[Bound]:
    """What binds in an output directory, or in a short run of a scenario.

    Raises:
        PenstockError: if the output or scenario is wrong, or the scenario is too long to be run here.
    """
    if Path(what).is_dir():
        if sets:
            raise PenstockError("--set changes a scenario, and an output is finished; leave --set out")
        return find(Result(what))
    _, document = catalog.load(what, typed(sets))
    seconds = sum(document.estimate(name)["cpu_seconds"] for name, _ in document.variants())
    if seconds > SHORT_S:
        raise PenstockError(
            f"a run of {what} takes about {seconds:.0f} s: run it first (penstock run {what}), and explain its output"
        )
    with tempfile.TemporaryDirectory(prefix="penstock-explain-") as folder:
        return find(runs.run(what, sets=sets, runs=1, out=Path(folder) / "out"))


def show(found: list[Bound], to: Console) -> None:
    """Print the limits, and what can act at each of them."""
    table = tables.plain("Where data waits", ["variant", "limit", "relays", "longest mean wait of cells"], [])
    for each in found:
        relays = ", ".join(f"{name} ({share:.0%} of time)" for name, share in each.relays)
        wait = f"{each.station}: {each.wait_s:.3f} s" if each.station else "-"
        table.add_row(each.label, each.limit or "none", relays or "-", wait)
    to.print(table)
    for limit in dict.fromkeys(each.limit for each in found):
        to.print(f"\n{_words(limit)}", soft_wrap=True, markup=False)
        if limit:
            to.print(_acting(limit))


def _words(limit: str) -> str:
    if not limit:
        return "none: no relay is a bottleneck. Only delays of links and windows of circuits limit the downloads."
    return f"{limit}: {MEANINGS[limit]}. These keys can act there:"


def _acting(limit: str) -> Table:
    table = tables.plain("", ["key", "algorithms", "effect"], [])
    for lever, kinds in levers(limit):
        table.add_row(f"relay.{lever.key}", ", ".join(kinds), lever.how)
    return table


def described(found: list[Bound]) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            **each._asdict(),
            "relays": [{"relay": name, "share": share} for name, share in each.relays],
            "levers": [{"key": f"relay.{lever.key}", "algorithms": kinds} for lever, kinds in levers(each.limit)]
            if each.limit
            else [],
        }
        for each in found
    ]
