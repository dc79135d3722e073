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
    relay_calls: int
    """Reads, writes and datagrams of relays on their channels."""
    relay_queries: int
    """Queries of relays for the state of their channels' sockets."""
    timed_out_circuits: int
    """Circuits over the build timeout, with test circuits."""
    test_circuits: int
    """Circuits that clients built only to learn their build timeout."""
    build_timeout_s: float | None
    """The median of the learned build timeouts [s]; none if no client has learned one."""
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
    described: int | None
    """The number of relays with a descriptor; none if no descriptors were given."""
    in_family: int
    """The number of relays that have another relay in their family."""


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
    relays: list[tuple[str, bool, bool, int, int, int | None, int | None, list[int]]]
    """Nickname, guard, exit, weight and link [B/s], rate [B/s] and burst [B] of its buckets if they are known, and the
    other relays of its family, as places in this list."""
    unused: int
    """The number of relays that are left out because no client may choose them."""
    undescribed: int
    """The number of relays without a server descriptor, if server descriptors were given."""


class SampledTor(TypedDict):
    """The software of a relay or client."""

    bandwidth: tuple[int, int] | None
    """Rate [B/s] and depth [B] of the token buckets."""
    refill_s: float
    unblock_s: float | None
    circuit_policy: str
    half_life_s: float | None
    worse_class: bool
    scheduler: str
    interval_s: float | None
    """Minimum time between two runs of the scheduler [s]."""
    socket_factor: float | None
    edge_control: str
    vegas: dict[str, int]
    """Consensus parameters of Vegas and of XON/XOFF; empty with other edge controls."""
    circuit_window: int | None
    stream_window: int | None
    odd_sendmes: bool
    """Whether SENDMEs leave earlier or later than a correct receiver sends them."""
    hop_control: str
    datagrams: bool
    throttle: str
    client_rate: int | None
    client_burst: int
    client_by_address: bool
    channel_map: str
    ecn_threshold: int | None
    edge_queue: tuple[int, int]
    max_circuit_queue: int
    conflux: bool
    optimistic_data: bool


class SampledHost(TypedDict):
    """A node of a sampled network."""

    name: str
    group: str
    link_up: int
    """Sending rate [B/s]."""
    link_down: int
    """Receiving rate [B/s]."""
    link_queue: int | None
    send_buffer: int | None
    receive_buffer: int | None
    cpu: bool
    place: int
    """The place, whose delays and losses are in `Sampled.edges`."""


class SampledRelay(SampledHost):
    """A relay of a sampled network."""

    weight: int
    guard: bool
    exit: bool
    family: list[int]
    """The other relays of its family, as places in the list of relays."""
    tor: SampledTor


class SampledClient(SampledHost):
    """A client of a sampled network."""

    workloads: list[int]
    isolate: bool
    at_entry: bool
    """Whether the client is a part of the first relay of its path."""
    start_s: list[float] | None
    """Start times of equal probability; none if each workload has its own."""
    path: str
    """`direct`, `fixed`, `weighted` or `tor`."""
    relays: list[int]
    guards: int
    circuit_lifetime_s: float | None
    build_timeout_s: float | None
    learns_as_tor: bool | None
    """Whether an adaptive build timeout has C tor's parameters; none if the timeout is not adaptive."""
    servers: list[int]
    tor: SampledTor


class SampledServer(SampledHost):
    """A server of a sampled network."""

    thinks: bool


class SampledWorkload(TypedDict):
    """A workload. Lists of times have values of equal probability."""

    name: str
    does: str
    """`download`, `tgen` or `hold`."""
    sizes: list[tuple[float, int]]
    """Probabilities and sizes [B]."""
    circuits: int
    pause_s: list[float]
    start_s: list[float]
    fresh_circuit: bool
    timeout_s: float | None
    request: int


class SampledRun(TypedDict):
    """The duration of a run."""

    duration_s: float
    warmup_s: float
    sample_s: float
    stops_early: bool
    """Whether a number of downloads ends the run before its duration."""
    changes: int


class SampledTcp(TypedDict):
    """The TCP of all kernels."""

    profile: str
    congestion: str
    initial_window: int | None
    mss: int


class Sampled(TypedDict):
    """A variant in one sampled network."""

    run: SampledRun
    tcp: SampledTcp
    relays: list[SampledRelay]
    clients: list[SampledClient]
    servers: list[SampledServer]
    workloads: list[SampledWorkload]
    edges: list[tuple[int, int, float, float, float, bool, bool]]
    """For each pair of places: both places, delay [s], jitter [s], loss, whether loss spares ACKs, and whether packets
    are reordered or duplicated."""
