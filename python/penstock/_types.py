"""What the extension module returns where a class would be too much."""

from typing import TypedDict


class Algorithm(TypedDict):
    """One of the algorithms of a relay or client."""

    key: str
    """The key that chooses it, such as `hop_control`."""
    kind: str
    meaning: str
    source: str
    parameters: list[tuple[str, str, str, str]]
    """Name, default in TOML (empty if there is none), unit and meaning of each."""
    partners: list[tuple[str, str, bool, str]]
    """What it does not go with: another key, its value, whether a scenario with both is refused, and why."""


class Head(TypedDict):
    """Which paper, section and figures a scenario stands for; empty where it says nothing."""

    title: str
    paper: str
    section: str
    figures: list[str]
    notes: str


class Estimate(TypedDict):
    """About how much work a run will be; what it was has the same names in the manifest."""

    sim_seconds: float
    cpu_seconds: float
    events: float
    peak_heap_bytes: float


class RunStats(TypedDict):
    """What a run cost."""

    sim_seconds: float
    """Simulated time that passed [s]."""
    events: int
    packets: int
    """Data segments, ACKs and datagrams, counted once at delivery."""
    cells: int
    """Cells written, counted at each hop."""
    data_cells: int
    """DATA cells delivered, at clients and exits."""
    sendmes: int
    """SENDMEs made, those of circuits and those of streams."""
    peak_heap_bytes: int
    """Largest heap of the run's thread, above what it held before [B]."""


class NetworkFacts(TypedDict):
    """What a consensus document says, in short."""

    flavor: str
    """`ns` or `microdesc`."""
    valid_after: str
    """UTC."""
    relays: int
    guards: int
    """Relays that are drawn as the first of a circuit."""
    middles: int
    exits: int
    weights: str
    """Where position weights are from: `document`, `computed`, or `even` for none."""


class PairCounts(TypedDict):
    """Of how many pairs of circuits something was true."""

    pairs: int
    guard: int
    middle: int
    exit: int
    relay: int
    """Some relay is on both, at whatever position."""
    socket: int
    """Some relay sends both through one socket, if both download or both upload."""
    connection: int
    """Some connection is on both, in whatever direction."""
    failures: int
    """Circuits that were begun anew, since nothing went together with what was chosen first."""


class ConsensusRelays(TypedDict):
    """What a consensus, and server descriptors, say of the relays that clients draw."""

    flavor: str
    valid_after: str
    relays: list[tuple[str, bool, bool, int, int, int | None, int | None]]
    """Nickname, guard, exit, weight and link [B/s], rate [B/s] and burst [B] of its buckets if they are known."""
    unused: int
    """Left out: no client draws them."""
    undescribed: int
    """Without descriptor, where descriptors were given."""
