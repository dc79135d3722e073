"""Samples circuits of clients over several consensuses, as the path simulator TorPS does."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from penstock import _core, packed, paths, tables
from penstock._types import NetworkFacts
from penstock.errors import PenstockError, naming, replacing

HEAD = 64 << 10
"""The first part of a consensus, which has all lines before the first relay [B]; they need some 10 KiB."""

CLIENTS = 1000
EVERY = 600
"""The time after which a Tor client uses no circuit for new streams (MaxCircuitDirtiness) [s]."""

MOST = 1_000_000
"""The largest number of circuits while one consensus is valid; they are in memory at once, with some 700 bytes each."""


@dataclass(frozen=True)
class Consensus:
    """A consensus, and the time in which clients use it [s since 1970]."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True)
class Outcome:
    """Circuits of clients over several consensuses."""

    consensuses: list[Consensus]
    networks: list[NetworkFacts]
    clients: int
    every: int
    """The time between two circuits of a client [s]."""
    circuits: int
    used_guards: dict[int, int]
    """The number of clients by the number of guards that they have used."""
    failures: int
    seconds: float
    """The time for reading and sampling [s]."""


def ordered(files: Sequence[Path]) -> list[Consensus]:
    """The consensuses of these files and directories, which must follow each other without gaps.

    The consensuses of a directory are sorted by their times. Its subdirectories are read, too.
    """
    found = [consensus for path in files for consensus in _inside(path)]
    for one, other in pairwise(found):
        begins = f"{other.path}: it is valid after {_date(other.start)}"
        if other.start < one.start:
            raise PenstockError(
                f"{begins}, before {one.path} ({_date(one.start)}); name the files in the order of their times"
            )
        if other.start < one.end:
            raise PenstockError(f"{begins}, but {one.path} is fresh until {_date(one.end)}; leave one of the two out")
        if other.start > one.end:
            raise PenstockError(
                f"{begins}, and {one.path} is fresh until {_date(one.end)}; add the consensuses between them"
            )
    return found


def sample(
    consensuses: Sequence[Consensus],
    *,
    clients: int = CLIENTS,
    every: int = EVERY,
    seed: int = 1,
    descriptors: _core.Descriptors | None = None,
    out: Path | None = None,
) -> Outcome:
    """Sample the circuits of `clients` clients, which need a new one every `every` seconds; write them to `out`.

    Raises:
        PenstockError: if there are too many circuits while one of the consensuses is valid.
    """
    for consensus in consensuses:
        count = clients * math.ceil((consensus.end - consensus.start) / every)
        if count > MOST:
            raise PenstockError(
                f"{consensus.path}: {clients:,} clients with a new circuit every {every:,} s have {count:,} circuits "
                f"while it is valid, above {MOST:,}; use fewer clients, or a longer time between circuits"
            )
    history = _core.PathHistory(clients, every, seed)
    began = time.perf_counter()
    networks, count = [], 0
    steps = _steps(history, consensuses, descriptors)
    if out is None:
        for network, circuits in steps:
            networks.append(network)
            count += circuits.height
    else:
        with replacing(out) as temporary:
            try:
                with temporary.open("wb") as file:
                    for network, circuits in steps:
                        circuits.write_csv(file, include_header=not networks)
                        networks.append(network)
                        count += circuits.height
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    seconds = time.perf_counter() - began
    used, failures = history.used_guards(), history.failures()
    return Outcome(list(consensuses), networks, clients, every, count, used, failures, seconds)


def show(outcome: Outcome, seed: int, out: Path | None, to: Console) -> None:
    """Print a summary."""
    first, last = outcome.networks[0], outcome.networks[-1]
    sizes = sorted({network["relays"] for network in outcome.networks})
    relays = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    flavors = " and ".join(sorted({network["flavor"] for network in outcome.networks}))
    count = len(outcome.networks)
    documents = f"{flavors} consensus" if count == 1 else f"{count} {flavors} consensuses"
    dates = first["valid_after"] if count == 1 else f"{first['valid_after']} to {last['valid_after']}"
    failures = f"; {outcome.failures:,} circuits had no fitting relay and were drawn again" if outcome.failures else ""
    to.print(
        f"{documents} with {relays} relays, valid after {dates} UTC\n"
        f"{paths.families(outcome.networks)}\n"
        f"{outcome.clients:,} clients, each with a new circuit every {outcome.every:,} s: "
        f"{outcome.circuits:,} circuits with seed {seed} in {outcome.seconds:.1f} s{failures}\n"
        + (f"circuits: {out}\n" if out else ""),
        soft_wrap=True,
    )
    to.print(_guards(outcome))


def _guards(outcome: Outcome) -> Table:
    table = tables.plain("Guards that a client used", [], ["guards", "clients", "share [%]"])
    for guards, clients in sorted(outcome.used_guards.items()):
        table.add_row(str(guards), f"{clients:,}", f"{100 * clients / outcome.clients:.2f}")
    return table


def _steps(
    history: _core.PathHistory, consensuses: Sequence[Consensus], descriptors: _core.Descriptors | None
) -> Iterator[tuple[NetworkFacts, pl.DataFrame]]:
    """For each consensus, its summary and its circuits."""
    for consensus in consensuses:
        text = paths.read(consensus.path)
        network, names, circuits = history.advance(text, str(consensus.path), descriptors)
        relays = pl.Series(names, dtype=pl.String)
        times, clients, *positions = (pl.Series(values, dtype=pl.Int64) for values in circuits)
        guards, middles, exits = (relays.gather(places) for places in positions)
        columns = {
            "time": pl.from_epoch(times, time_unit="s").dt.to_string("%Y-%m-%d %H:%M:%S"),
            "consensus": pl.repeat(network["valid_after"], times.len(), eager=True),
            "client": clients,
            "guard": guards,
            "middle": middles,
            "exit": exits,
        }
        yield network, pl.DataFrame(columns)


def _inside(path: Path) -> list[Consensus]:
    if not path.is_dir():
        return [_dated(path)]
    with naming(path, "read"):
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    if not files:
        raise PenstockError(f"{path}: this directory has no files; it must have consensuses")
    return sorted((_dated(file) for file in files), key=lambda consensus: consensus.start)


def _dated(path: Path) -> Consensus:
    start, end = _core.consensus_period(packed.head(path, HEAD), str(path))
    return Consensus(path, start, end)


def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
