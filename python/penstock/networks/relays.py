"""Relays as a network file has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock import _core

MOST = 1 << 40
"""No relay has a greater rate [B/s], by far; a scenario takes no greater one either."""


@dataclass(frozen=True)
class Relay:
    """One of them, as far as its document says."""

    nickname: str
    guard: bool
    exit: bool
    weight: int
    """Its share in drawn paths [B/s]."""
    link: int
    """Each direction [B/s]."""
    rate: int | None = None
    """Refill of its buckets [B/s]."""
    burst: int | None = None
    """Their depth [B]."""
    country: str | None = None
    """Two letters, one of those that scenarios know."""


@dataclass
class Source:
    """Relays, and what is to be said of where they are from."""

    relays: list[Relay]
    notes: list[str] = field(default_factory=list)
    """Sentences without a stop."""

    def sample(self, count: int, seed: int) -> Source:
        """Fewer of them: each class keeps its share, and in each one comes from each stratum of weights."""
        if count >= len(self.relays):
            return self
        drawn = _core.sample([(relay.guard, relay.exit, relay.weight) for relay in self.relays], count, seed)
        note = f"{count} of {len(self.relays)} relays, drawn with seed {seed}"
        return Source([self.relays[place] for place in drawn], [*self.notes, note])


def counted(number: int, what: str) -> list[str]:
    """A note about so many relays, if there are any."""
    return [f"{number} {'relay' if number == 1 else 'relays'} {what}"] if number else []
