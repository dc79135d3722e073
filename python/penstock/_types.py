"""Dictionaries that the extension module returns."""

from typing import TypedDict


class Algorithm(TypedDict):
    """An algorithm of a relay or client."""

    key: str
    """The key of a scenario that selects the algorithm, such as `hop_control`."""
    kind: str
    meaning: str
    source: str
    parameters: list[tuple[str, str, str, str]]
    """Name, default in TOML (empty if there is none), unit and meaning of each parameter."""
    partners: list[tuple[str, str, bool, str]]
    """Incompatible choices: key, value, whether a scenario with both is refused, and the reason."""


class Head(TypedDict):
    """The paper, section and figures that a scenario reproduces; empty if it names none."""

    title: str
    paper: str
    section: str
    figures: list[str]
    notes: str


class Estimate(TypedDict):
    """The estimated work of a run. In the manifest, the measured work has the same names."""

    sim_seconds: float
    cpu_seconds: float
    events: float
    peak_heap_bytes: float


class RunStats(TypedDict):
    """The costs of a run."""

    sim_seconds: float
    """Simulated time [s]."""
    events: int
    packets: int
    """Data segments, ACKs and datagrams, counted once at delivery."""
    cells: int
    """Cells written, counted at each hop."""
    data_cells: int
    """DATA cells delivered, at clients and exits."""
    sendmes: int
    """SENDMEs of circuits and streams."""
    peak_heap_bytes: int
    """The peak of the heap of the run's thread, above its initial size [B]."""


class NetworkFacts(TypedDict):
    """A summary of a consensus document."""

    flavor: str
    """The flavour of the document: `ns` or `microdesc`."""
    valid_after: str
    """The valid-after time in UTC."""
    relays: int
    guards: int
    """The number of relays that clients may choose as guards."""
    middles: int
    exits: int
    weights: str
    """The source of position weights: `document`, `computed`, or `even` if there are none."""


class PairCounts(TypedDict):
    """The numbers of sampled pairs of circuits: all of them, and those that share a relay or a connection."""

    pairs: int
    guard: int
    middle: int
    exit: int
    relay: int
    """Pairs with a common relay at any position."""
    socket: int
    """Pairs in which a relay sends both circuits through one socket if both download or both upload."""
    connection: int
    """Pairs with a common connection, in the same or opposite directions."""
    failures: int
    """Circuits that were sampled again, because no relay was compatible with the relays chosen before."""


class ConsensusRelays(TypedDict):
    """The relays of a consensus that clients may choose, with data of server descriptors."""

    flavor: str
    valid_after: str
    relays: list[tuple[str, bool, bool, int, int, int | None, int | None]]
    """Nickname, guard, exit, weight and link [B/s], rate [B/s] and burst [B] of its buckets if they are known."""
    unused: int
    """The number of relays that are left out because no client may choose them."""
    undescribed: int
    """The number of relays without a descriptor, if descriptors were given."""
