"""Measures how often two circuits share relays and sockets, as in section 5.1 of the KIST paper (TorPS)."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from penstock import _core, packed, tables
from penstock._types import NetworkFacts, PairCounts

AT_LEAST = 99.775
"""The share of pairs of paths without a common outgoing socket in KIST section 5.1 [%]."""

LARGEST = 256 << 20
"""The largest accepted document [B]; a consensus has about 3 MiB."""

LARGEST_DESCRIPTORS = 2 << 30
"""The largest accepted file of descriptors [B]; a month of them has about 1 GiB."""

PAIRS = 10_000_000

STEP = 100_000
"""The number of pairs to sample between two checks for Ctrl-C."""

NO_FAMILIES = "relays have no families, because no descriptors were given; add --descriptors FILE"

WEIGHTS = {
    "document": "position weights from the document",
    "computed": "position weights computed as authorities do, because the document has none",
    "even": "no position weights, because the document has none and a class of relays is empty",
}


SharedLink = Literal["socket", "connection"]
SharedPart = Literal["guard", "middle", "exit", "relay", "socket", "connection"]
"""The keys of `PairCounts`."""


@dataclass(frozen=True)
class Share:
    """An estimated probability."""

    count: int
    of: int

    @property
    def percent(self) -> float:
        """The estimate [%]; NaN without trials."""
        return 100 * self.count / self.of if self.of else math.nan

    @property
    def error(self) -> float:
        """The standard error [%] for independent trials."""
        share = self.percent / 100
        return 100 * math.sqrt(share * (1 - share) / self.of) if self.of else math.nan

    @property
    def at_most(self) -> float:
        """The upper end of Wilson's 95 % interval [%], which is above 0 without any event.

        Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22, 1927.
        """
        if not self.of:
            return math.nan
        share, z2 = self.count / self.of, 1.959964**2
        half = math.sqrt(z2 * (share * (1 - share) / self.of + z2 / (4 * self.of**2)))
        return min(100.0, 100 * (share + z2 / (2 * self.of) + half) / (1 + z2 / self.of))

    @property
    def cells(self) -> tuple[str, str]:
        """The estimate and the standard error as text for a table.

        Without any event, or with events only, the standard error would be 0: a bound of 95 % stands there instead.
        """
        if self.of and self.count in (0, self.of):
            other = Share(self.of - self.count, self.of) if self.count else self
            bound = f"at most {other.at_most:.2g}" if not self.count else f"at least {100 - other.at_most:.7g}"
            return f"{self.percent:.5f}", bound
        return f"{self.percent:.5f}", f"{self.error:.5f}"


@dataclass(frozen=True)
class Outcome:
    """Pairs of circuits through one network."""

    network: NetworkFacts
    counts: PairCounts
    seconds: float
    """The time for sampling and counting [s]."""

    def sharing(self, what: SharedPart) -> Share:
        """The estimated probability that two circuits share `what`."""
        return Share(self.counts[what], self.counts["pairs"])

    def unshared(self, what: SharedLink, *, given_a_relay: bool) -> Share:
        """The probability that two circuits do not share `what`, for all pairs or for pairs that share a relay."""
        of = self.counts["relay"] if given_a_relay else self.counts["pairs"]
        return Share(of - self.counts[what], of)


def read(path: Path) -> bytes:
    """A document, plain or compressed with xz."""
    return packed.read(path, LARGEST, "a consensus some 3 MiB")


def described(files: Sequence[Path]) -> _core.Descriptors | None:
    """The descriptors of these files; none without files."""
    if not files:
        return None
    found = _core.Descriptors()
    for file in files:
        found.read(packed.read(file, LARGEST_DESCRIPTORS, "a day of server descriptors has some 30 MiB"), str(file))
    return found


def families(networks: Sequence[NetworkFacts]) -> str:
    """A sentence on the families of consensuses, without a full stop."""
    last = networks[-1]
    if last["described"] is None:
        return NO_FAMILIES
    of = "the last consensus" if len(networks) > 1 else "the consensus"
    described = f"{last['described']} of {last['relays']} have a descriptor"
    return f"{last['in_family']} relays of {of} are in a family; {described}"


def sample(path: Path, pairs: int, seed: int, descriptors: _core.Descriptors | None = None) -> Outcome:
    """Sample pairs of circuits through the network of a consensus."""
    drawing = _core.Paths(read(path), str(path), seed, descriptors)
    began = time.perf_counter()
    for start in range(0, pairs, STEP):
        drawing.advance(min(STEP, pairs - start))
    return Outcome(drawing.network(), drawing.counts(), time.perf_counter() - began)


def show(path: Path, seed: int, outcome: Outcome, to: Console) -> None:
    """Print the results."""
    network, counts = outcome.network, outcome.counts
    to.print(
        f"{path}: {network['flavor']} consensus, valid after {network['valid_after']} UTC\n"
        f"{network['relays']} relays: {network['guards']} candidates for guards, "
        f"{network['middles']} for middles and {network['exits']} for exits; {WEIGHTS[network['weights']]}\n"
        f"{families([network])}\n"
        f"{counts['pairs']:,} pairs of circuits with seed {seed} in {outcome.seconds:.1f} s"
        + (f"; {counts['failures']:,} circuits had no fitting relay and were drawn again" if counts["failures"] else "")
        + "\n",
        soft_wrap=True,
    )
    to.print(_sharing(outcome))
    to.print(_unshared(outcome))
    to.print(
        f"\nKIST, section 5.1: at least {AT_LEAST} % of all pairs, or of those that share a relay, share no outgoing "
        "socket. ± is one standard error. Without any event, the bound is the end of Wilson's 95 % interval.",
        soft_wrap=True,
    )


def _sharing(outcome: Outcome) -> Table:
    table = tables.plain("Two circuits share", [""], ["share [%]", "±"])
    rows: list[tuple[SharedPart, str]] = [
        ("guard", "the guard"),
        ("middle", "the middle"),
        ("exit", "the exit"),
        ("relay", "a relay, at any position"),
        ("socket", "an outgoing socket (both download or both upload)"),
        ("connection", "a connection (in any direction)"),
    ]
    for what, words in rows:
        table.add_row(words, *outcome.sharing(what).cells)
    return table


def _unshared(outcome: Outcome) -> Table:
    table = tables.plain("\nThey share none", [""], ["of all pairs [%]", "±", "of those that share a relay [%]", "±"])
    rows: list[tuple[SharedLink, str]] = [("socket", "no outgoing socket"), ("connection", "no connection")]
    for what, words in rows:
        shares = [outcome.unshared(what, given_a_relay=given) for given in (False, True)]
        table.add_row(words, *shares[0].cells, *shares[1].cells)
    return table
