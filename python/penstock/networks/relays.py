"""The relays of a network file."""

from dataclasses import dataclass, field, replace
from typing import Self

from penstock import _core

MOST = 1 << 40
"""The largest accepted rate [B/s], in scenarios, too."""


@dataclass(frozen=True)
class Relay:
    """A relay, with the data of its document."""

    nickname: str
    guard: bool
    exit: bool
    weight: int
    """The weight in path selection [B/s]."""
    link: int
    """The receiving rate, and with `link_up` 0 also the sending rate [B/s]; 0 is a rate that the file does not give."""
    rate: int | None = None
    """The refill rate of the buckets [B/s]."""
    burst: int | None = None
    """The capacity of the buckets [B]."""
    country: str | None = None
    """Two letters of a country that scenarios know."""
    link_up: int = 0
    """The sending rate, if it differs from the receiving rate [B/s]."""
    place: str | None = None
    """The name of a place of the same network file."""
    number: bool = True
    """Whether a unique number follows the nickname; otherwise the nickname is unique."""
    family: tuple[int, ...] = ()
    """The other relays of the family, as places in the list of all relays."""


@dataclass
class Source:
    """Relays, and notes on their origin."""

    relays: list[Relay]
    notes: list[str] = field(default_factory=list)
    """Sentences without a full stop."""

    def sample(self, count: int, seed: int) -> Self:
        """A stratified sample: each class keeps its share, and each stratum of weights has a relay."""
        if count >= len(self.relays):
            return self
        drawn = _core.sample([(relay.guard, relay.exit, relay.weight) for relay in self.relays], count, seed)
        note = f"{count} of {len(self.relays)} relays, drawn with seed {seed}"
        places = {old: new for new, old in enumerate(drawn)}
        relays = [
            replace(relay, family=tuple(places[other] for other in relay.family if other in places))
            for relay in (self.relays[old] for old in drawn)
        ]
        return replace(self, relays=relays, notes=[*self.notes, note])


def counted(number: int, what: str) -> list[str]:
    """A list with a note about a number of relays; empty for zero."""
    return [f"{number} {'relay' if number == 1 else 'relays'} {what}"] if number else []
