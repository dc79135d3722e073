"""Dictionaries that the extension module returns."""

from typing import TypedDict


class Algorithm(TypedDict):
    """An algorithm of a relay or client."""

    key: str
    """The key that chooses it, such as `hop_control`."""
    kind: str
    meaning: str
    source: str
    parameters: list[tuple[str, str, str, str]]
    """Name, default in TOML (empty if there is none), unit and meaning of each."""
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
    """`ns` or `microdesc`."""
    valid_after: str
    """UTC."""
    relays: int
    guards: int
    """Relays that clients choose as guards."""
    middles: int
    exits: int
    weights: str
    """The source of position weights: `document`, `computed`, or `even` for none."""


class PairCounts(TypedDict):
    """The numbers of sampled pairs of circuits: all of them, and those that share a relay or a connection."""

    pairs: int
    guard: int
    middle: int
    exit: int
    relay: int
    """Both use a common relay at any position."""
    socket: int
    """A relay sends both through one socket, if both download or both upload."""
    connection: int
    """Both use a common connection in any direction."""
    failures: int
    """Circuits that were sampled again, because the first choices had no valid continuation."""


class ConsensusRelays(TypedDict):
    """The relays of a consensus that clients choose, with data of server descriptors."""

    flavor: str
    valid_after: str
    relays: list[tuple[str, bool, bool, int, int, int | None, int | None]]
    """Nickname, guard, exit, weight and link [B/s], rate [B/s] and burst [B] of its buckets if they are known."""
    unused: int
    """Relays that are left out because no client chooses them."""
    undescribed: int
    """Relays without descriptor, if descriptors were given."""
