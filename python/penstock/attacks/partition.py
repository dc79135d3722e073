"""How far a partial deployment narrows down the guard of a client.

Clients that use a new flow control choose only relays that support it, so an adversary that sees the new flow control
knows that the guard is one of these relays. With an activation by the consensus, all clients use the new flow control
from a certain share of relays on, and none before.

Source: DefenestraTor section 6.3. Deviation: the paper gives no numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock import catalog, generated, stats
from penstock.attacks.information import Floats
from penstock.attacks.measurement import Sampled
from penstock.errors import PenstockError

SHARES = (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
"""The shares of relays that support the new flow control."""

DRAWS = 100
"""The number of random sets of upgraded relays for each share."""

HEAD = (
    "relays with the new flow control",
    "guards that remain",
    "bits lost",
    "bits lost with a switch in the consensus",
)


class Row(NamedTuple):
    """What an adversary learns about a guard at one share of upgraded relays: means, with 95 % intervals over draws."""

    share: float
    remaining: float
    """The guards that support the new flow control, 2 to the power of the entropy of a client's choice."""
    lost: tuple[float, float, float]
    """The entropy of the guard that the adversary takes from a client that uses the new flow control [bit]."""
    switched: tuple[float, float, float]
    """As `lost`; 0 below the share at which the consensus switches."""


def entropy(weights: Floats) -> float:
    """The entropy of a choice with probabilities in proportion to weights [bit]; 0 for a single candidate."""
    chances = weights[weights > 0] / weights.sum()
    return float(-np.sum(chances * np.log2(chances))) + 0.0


def rows(weights: Floats, switch: float, seed: int = 1, shares: Sequence[float] = SHARES) -> list[Row]:
    """A row for each share of upgraded guards. Each draw upgrades random guards, at least one.

    Args:
        weights: how often clients choose each guard, up to a factor; shape (guards,).
        switch: the share of upgraded relays from which the consensus activates the new flow control, in [0, 1].
        seed: the seed of the draws.
        shares: the shares of upgraded guards, in (0, 1].
    """
    rng, found = np.random.default_rng(seed), []
    before = entropy(weights)
    for share in shares:
        count = max(round(share * len(weights)), 1)
        left = np.array([entropy(rng.choice(weights, count, replace=False)) for _ in range(DRAWS)])
        lost = stats.mean_interval(list(before - left))
        found.append(Row(share, float(np.mean(2**left)), lost, lost if share >= switch else (0.0, 0.0, 0.0)))
    return found


def weights_of(scenario: str, sets: Sequence[str] = ()) -> Floats:
    """The weights of the guards in the first network of a scenario.

    Raises:
        PenstockError: if the scenario has fewer than two guards.
    """
    _, document = catalog.load(scenario, tuple(sets))
    networks = document.networks()
    sampled = Sampled(document, document.variants()[0][0], networks[0] if networks else document.seeds()[0])
    weights = np.array([sampled.weights[name] for name in sampled.guards], dtype=np.float64)
    if len(weights) < 2:
        raise PenstockError(
            f"{scenario} has fewer than two relays that may be guards; give more relays the flag 'guard'"
        )
    return weights


def markdown(found: Sequence[Row], guards: int, switch: float) -> str:
    """The table, and a sentence about its network."""
    table = generated.table(
        HEAD,
        [
            (f"{100 * row.share:.0f} %", f"{row.remaining:.0f}", _interval(row.lost), _interval(row.switched))
            for row in found
        ],
    )
    origin = f"{guards} guards, chosen by weight; {DRAWS} random sets of upgraded guards for each share"
    return (
        f"{table}\n\n{origin}, with 95 % intervals of the mean. Remaining guards are 2 to the power of the entropy. "
        f"The consensus switches at {100 * switch:.0f} %."
    )


def _interval(value: tuple[float, float, float]) -> str:
    mean, low, high = (round(each, 2) + 0.0 for each in value)
    return f"{mean:.2f}" if low == high else f"{mean:.2f} ({low:.2f} to {high:.2f})"
