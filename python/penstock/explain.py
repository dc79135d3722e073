"""`penstock explain`: the relay and the limit at which data waits, and the algorithms that can act there."""

import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from rich.console import Console
from rich.table import Table

from penstock import _core, catalog, refusals, runs, tables
from penstock.errors import PenstockError
from penstock.overrides import Sets, typed
from penstock.replicates import RUN
from penstock.result import Result
from penstock.stations import STATIONS

SHORT_S = 60.0
"""The longest estimated processor time of a scenario that the command runs itself [s]."""
HOPS_OF_CELLS = ("exit", "middle", "guard")
"""The hops at which cells wait, in the direction of the cells."""
RATES = ("link", "link_up", "link_down", "bandwidth_rate")
DRAWN = "("
"""A rate that each network draws is a distribution, such as `quantiles(1 MiB/s, 2 MiB/s)`."""
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
WRITES = Lever("scheduler", "divides the wait between kernel and circuit queue, where circuit_policy orders cells")
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
    """The relays that this limit binds most, with their share of samples. If each run draws its relays, a name has the
    run, such as `exit0004 of seed 3`."""
    station: str
    """The station with the longest mean wait, such as `circuit queue of the exit`; empty without tracked cells."""
    wait_s: float
    waits: list[dict[str, Any]]
    """The mean wait of tracked cells at each hop and station [s], from the exit to the guard."""
    circuits: int
    """The number of circuits that clients began to build."""
    built: int
    """The number of circuits that were built."""
    refused: str
    """The reason why no circuit was built; empty if one was."""


def find(result: Result) -> list[Bound]:
    """The limit that binds most under each variant.

    Raises:
        PenstockError: if the output has no samples of relays, or is damaged.
    """
    with result.reading():
        rows = result.scan("relays").select("variant", *RUN, "relay", "written_bytes", "bound_by").collect()
        if rows.is_empty():
            raise PenstockError(f"{result.directory} has no samples of relays, so no limit can be named")
        return [_bound(result, name, rows.filter(variant=name)) for name in result.variants]


def _bound(result: Result, variant: str, rows: pl.DataFrame) -> Bound:
    total = max(float(rows["written_bytes"].sum()), 1.0)
    counts = rows.drop_nulls("bound_by").group_by("bound_by").agg(pl.col("written_bytes").sum())
    shares = {str(limit): float(written) / total for limit, written in counts.iter_rows()}
    waits = _waits(result, variant)
    began, built = refusals.circuits(result, variant)
    refused = refusals.sentence(result, variant, began) if began and not built else ""
    rest = (*_longest(waits), waits, began, built, refused)
    label = result.variants[variant]
    # While clients build circuits in vain, only cells of construction wait.
    limit = next((limit for limit in (_largest(group, shares) for group in CAUSES) if limit), "")
    if not limit or refused:
        return Bound(variant, label, "", 0.0, [], *rest)
    keys = [*RUN, "relay"] if draws_relays(result, variant) else ["relay"]
    each = rows.group_by(keys).agg(
        share=(pl.col("bound_by") == limit).fill_null(value=False).mean(), written=pl.col("written_bytes").sum()
    )
    bound = each.filter(pl.col("share") > 0)
    order = ["share", "written", *keys]
    most = bound.sort(order, descending=[name in ("share", "written") for name in order]).head(SHOWN)
    relays = [(_name(row), row["share"]) for row in most.iter_rows(named=True)]
    return Bound(variant, label, limit, shares[limit], relays, *rest)


def draws_relays(result: Result, variant: str) -> bool:
    """Whether runs of a variant have different relays with the same name."""
    networks = {(run["network"], "" if run["network"] else run["seed"]) for run in result.manifest["runs"]}
    resolved = catalog.resolved_text(result.scenario, variant)
    sections = tomllib.loads(resolved)
    common = sections.get("relay", {})
    groups = [{**common, **own} for own in sections.get("relays", {}).values()]
    return len(networks) > 1 and any(
        group.get("era", "none") != "none" or any(DRAWN in str(group.get(key, "")) for key in RATES) for group in groups
    )


def _name(row: dict[str, Any]) -> str:
    if "seed" not in row:
        return str(row["relay"])
    return f"{row['relay']} of network {row['network']}" if row["network"] else f"{row['relay']} of seed {row['seed']}"


def _largest(group: tuple[str, ...], shares: dict[str, float]) -> str:
    """The limit of a group with the largest share of bytes; empty if none reaches BUSY."""
    share, limit = max((shares.get(limit, 0.0), limit) for limit in group)
    return limit if share >= BUSY else ""


def _waits(result: Result, variant: str) -> list[dict[str, Any]]:
    """The mean wait of tracked cells at each hop and station [s], in the direction of the cells."""
    cells = result.scan("cells").filter(pl.col("variant") == variant, pl.col("hop") != "client")
    waits = cells.group_by("hop").agg(pl.col(*STATIONS).mean()).collect()
    return sorted(waits.iter_rows(named=True), key=lambda row: HOPS_OF_CELLS.index(row["hop"]))


def _longest(waits: list[dict[str, Any]]) -> tuple[str, float]:
    """The station with the longest mean wait, and this wait [s]."""
    found = [
        (row[name] or 0.0, f"{title} of the {row['hop']}")
        for row in waits
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
    if any(each.waits for each in found):
        to.print(_stations(found))
        to.print(" Bytes in the incoming kernel of an exit come from servers, and are no cells yet.", soft_wrap=True)
    for each in found:
        if each.refused:
            to.print(f"\n{each.refused}", soft_wrap=True, markup=False)
    for limit in dict.fromkeys(each.limit for each in found if not each.refused):
        to.print(f"\n{_words(limit)}", soft_wrap=True, markup=False)
        if limit:
            to.print(_acting(limit))


def _stations(found: list[Bound]) -> Table:
    table = tables.plain("\nMean wait of tracked cells [s]", ["variant", "hop"], list(STATIONS.values()))
    for each in found:
        for row in each.waits:
            waits = ["-" if row[name] is None else f"{row[name]:.3f}" for name in STATIONS]
            table.add_row(each.label if row is each.waits[0] else "", row["hop"], *waits)
    return table


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
