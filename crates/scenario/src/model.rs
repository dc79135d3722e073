//! The model of a scenario: one variant with every default filled in, ready for a simulator or a testbed.
//!
//! Relays, clients, servers and workloads are in alphabetical order, and refer to each other by index. The simulator
//! also processes simultaneous events of nodes in this order.

use crate::keys::section;
use crate::markov::Markov;
use crate::rtt_matrix::RttMatrix;
use crate::values::{
    BUFFER, Choice, Flag, Fraction, Or, SAMPLED_TIME, Size, TEXT, TIME_OR_ZERO, Texts, Whole,
};
use penstock_core::build_times::BuildTimeParameters;
use penstock_core::circuit_policy::CircuitPolicyConfig;
use penstock_core::config::{Bandwidth, RelayConfig};
use penstock_core::throttle::{ClientBuckets, ThrottleConfig};
use penstock_network::geo::Spot;
use penstock_network::{Country, Environment, Era, Places, Selector};
use penstock_units::{Bytes, DataRate, Duration, Rng, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::distribution::{Amount, LONGEST, Mix, Quantiles, Span};

/// One variant of a scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title, paper and figures.
    pub head: Head,
    /// Name of the variant.
    pub variant: Variant,
    /// Duration of a run, and the conditions that end it.
    pub run: Run,
    /// Circuits and cells that the run records in detail.
    pub trace: Trace,
    /// TCP settings of all kernels.
    pub tcp: Tcp,
    /// Delays and losses between nodes.
    pub network: Network,
    /// Relays, in the order of their names.
    pub relays: Vec<Relay>,
    /// Groups of relays that each network samples from Tor's relays in one year.
    pub generated: Vec<Generated>,
    /// Deployments of new software on some relays (`[[deployments]]`). Later deployments override earlier ones.
    pub deployments: Deployments,
    /// Samples circuits on paths [`Path::Tor`]; present if a client has such a path.
    pub selector: Option<Arc<Selector>>,
    /// Clients with their onion proxies, in the order of their names.
    pub clients: Vec<Client>,
    /// Servers, in the order of their names.
    pub servers: Vec<Server>,
    /// Workloads, in the order of their names.
    pub workloads: Vec<Workload>,
    /// Changes of settings during a run, in the order of time.
    pub changes: Vec<Change>,
}

/// A change of one setting on a running relay or client.
#[derive(Clone, Debug)]
pub struct Change {
    /// Time of the change since the start of the run; above zero, and before the end.
    pub at: Duration,
    /// Node with the changed setting.
    pub node: TorNode,
    /// New setting.
    pub to: Switch,
}

/// A relay, or a client that uses Tor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TorNode {
    /// Index of the relay.
    Relay(usize),
    /// Index of the client. Its path is not [`Path::Direct`].
    Client(usize),
}

/// A setting that an operator can change without a restart.
#[derive(Clone, Debug)]
pub enum Switch {
    /// Rate limit of the node's reads and writes; `None` is no limit.
    Bandwidth(Option<Bandwidth>),
    /// The policy that selects the next circuit of a channel.
    CircuitPolicy(CircuitPolicyConfig),
    /// The throttle, which sets the rate of each client, and the token buckets of clients.
    Throttle(ThrottleConfig, ClientBuckets),
}

section! {
    /// `[scenario]`: the paper, section and figures that a scenario reproduces. Results do not depend on it.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Head("[scenario]") {
        /// One line for lists and headings.
        title: String = TEXT, Required;
        /// The short name of the paper that the scenario reproduces, such as `defenestrator`.
        paper: String = TEXT, Is("''");
        /// The section of the paper, such as `5.1`.
        section: String = TEXT, Is("''");
        /// The figures of the paper.
        figures: Vec<String> = Texts, Is("[]");
        /// Further remarks for the reader.
        notes: String = TEXT, Is("''");
    }
}

/// A named set of overrides. A figure shows a variant as one curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Name in output and on the command line.
    pub name: String,
    /// Name in figures.
    pub label: String,
}

/// Duration of a run, and conditions that end it earlier.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Simulated time at which the run ends at the latest.
    pub duration: Duration,
    /// Downloads that start before this time count as warm-up; less than `duration`.
    pub warmup: Duration,
    /// Number of downloads after which the run ends early.
    pub stop: Option<Stop>,
    /// Interval between records of relays; above zero.
    pub sample: Duration,
}

/// Ends a run when the clients of one workload have together finished a number of downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Index of the workload.
    pub workload: usize,
    /// Number of finished downloads, including warm-up [1].
    pub downloads: u64,
}

/// Circuits and cells that the run records in detail.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Indices of the workloads with traced circuits, in ascending order.
    pub workloads: Vec<usize>,
    /// Probability that the run records the circuits of a client in detail, in `[0, 1]`.
    pub share: f64,
    /// Interval between records of traced circuits; above zero.
    pub interval: Duration,
    /// Each node records one in every `cells` DATA cells of a traced circuit [cell]; 0 records none.
    pub cells: u32,
    /// Interval between records of the bytes that clients receive; above zero. `None` records none.
    pub clients: Option<Duration>,
}

impl Trace {
    /// Whether the run records the circuits of a client with these workloads. A larger share includes all clients of a
    /// smaller share.
    pub fn follows(&self, client: &str, mut workloads: impl Iterator<Item = usize>, seed: Seed) -> bool {
        let is_chosen = || self.share >= 1.0 || seed.stream(&format!("{client}/trace")).unit() < self.share;
        workloads.any(|workload| self.workloads.contains(&workload)) && is_chosen()
    }
}

section! {
    /// `[tcp]`: the TCP of all kernels.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Tcp("[tcp]") {
        /// The operating system whose TCP is modelled: loss recovery, timers, initial window, buffers.
        profile: TcpProfile = Choice(&[
            ("linux-3.2", TcpProfile::Linux3_2),
            ("linux-6", TcpProfile::Linux6),
            ("ns3", TcpProfile::Ns3),
            ("shadow-1.9-sockets", TcpProfile::Shadow1_9Sockets),
            ("shadow-1.9", TcpProfile::Shadow1_9),
            ("shadow-3.3", TcpProfile::Shadow3_3),
        ]), Is("linux-3.2");
        /// How the congestion window grows. With "newreno", it grows once for each ACK, as in ns-3's TcpNewReno.
        congestion: Congestion = Choice(&[
            ("cubic", Congestion::Cubic),
            ("reno", Congestion::Reno),
            ("newreno", Congestion::NewReno),
        ]), Is("cubic");
        /// The congestion window of a new connection. With "auto", the profile decides: 2 segments for
        /// "shadow-3.3", and otherwise 10.
        initial_window: Option<u32> = Or("auto", Whole { least: 1, most: 1000, unit: "segment" }), Is("auto");
        /// With true, CUBIC also leaves slow start when the round-trip time increases (HyStart).
        hystart: bool = Flag, Is("true");
        /// Sets TCP_NODELAY on every socket. Otherwise a small segment waits while another segment is unacknowledged
        /// (Nagle's algorithm). With "auto", only the profiles of simulators set it.
        nodelay: Option<bool> = Or("auto", Flag), Is("auto");
        /// The largest payload of a segment.
        mss: Bytes = Size { least: 88, most: 65_483 }, Is("1448 B");
        /// Send buffer of every socket. With "auto", the kernel of the profile tunes its size.
        send_buffer: Option<Bytes> = BUFFER, Is("auto");
        /// First size of a send buffer that the kernel tunes. With "auto", the profile decides: 23.4 kB for
        /// "linux-3.2", 46 kB for "linux-6" and 131 kB for Shadow. The largest size is 4 MiB.
        initial_send_buffer: Option<Bytes> = Or("auto", Size { least: 4096, most: 4 << 20 }), Is("auto");
        /// Receive buffer of every socket. With "auto", the kernel of the profile tunes its size.
        receive_buffer: Option<Bytes> = BUFFER, Is("auto");
        /// The time that an interface sends or receives at once; with "0 s", it handles packets one by one. With
        /// "auto", the profile decides: 10 ms for both profiles of Shadow 1.9, and otherwise "0 s".
        interface_batch: Option<Duration> = Or("auto", TIME_OR_ZERO), Is("auto");
        /// The order in which an interface of "shadow-1.9" sends its host's packets. With "arrival", it is that of their
        /// arrival in the interface's queue. With "oldest-write", packets wait in their sockets, and the interface sends
        /// ACKs first, and then the data that were written first; data that wait use the send buffer twice, and
        /// a full socket takes a part of a TLS record.
        interface_order: InterfaceOrder = Choice(&[
            ("arrival", InterfaceOrder::Arrival),
            ("oldest-write", InterfaceOrder::OldestWrite),
        ]), Is("arrival");
        /// With true, each write starts a new segment, as in Shadow 1.x, so small writes make small segments. Congestion
        /// windows count segments. With "auto", only "shadow-1.9" does this.
        segment_per_write: Option<bool> = Or("auto", Flag), Is("auto");
    }
}

/// A named set of TCP settings: loss recovery, timers and initial window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpProfile {
    /// Linux 3.2, the kernel of the papers: FACK, no RACK, initial window of 10 segments.
    Linux3_2,
    /// Linux 6.x: RACK, tail loss probes, TCP small queues.
    Linux6,
    /// Default sockets of ns-3: minimum RTO of 1 s, buffers of fixed size. Queues count packets.
    Ns3,
    /// Sockets and interfaces of Shadow 1.9.0 with the TCP of Linux 3.2: large first buffers, batches of 10 ms, and a
    /// TCP_INFO that counts unsent bytes as unacknowledged.
    Shadow1_9Sockets,
    /// Sockets, interfaces and TCP of Shadow 1.9.0: a segment for each write, windows that grow without being used, and a
    /// sender that hears of losses.
    Shadow1_9,
    /// Sockets of Shadow 3.3.0: windows that grow without being used, and an initial window of 2 segments.
    Shadow3_3,
}

impl Tcp {
    /// Whether every socket has TCP_NODELAY.
    pub fn sets_nodelay(&self) -> bool {
        let default = !matches!(self.profile, TcpProfile::Linux3_2 | TcpProfile::Linux6);
        self.nodelay.unwrap_or(default)
    }

    /// The time that an interface sends or receives at once; `None` if it handles packets one by one.
    pub fn batch(&self) -> Option<Duration> {
        let default = if self.profile.has_batches() { SHADOW_BATCH } else { Duration::ZERO };
        Some(self.interface_batch.unwrap_or(default)).filter(|batch| !batch.is_zero())
    }
}

/// The time that an interface of Shadow 1.9.0 sends or receives at once.
const SHADOW_BATCH: Duration = Duration::from_millis(10);

impl TcpProfile {
    /// Whether the profile has the interfaces of Shadow 1.9.
    fn has_batches(self) -> bool {
        matches!(self, TcpProfile::Shadow1_9Sockets | TcpProfile::Shadow1_9)
    }

    /// The queue of a receiving link, unless the scenario sets another one. Linux has no such queue; ModelNet's had 50
    /// packets of 1500 B.
    ///
    /// Deviation: Shadow 3.3.0 has CoDel without a limit there.
    pub fn link_queue(self) -> LinkQueue {
        match self {
            TcpProfile::Ns3 => LinkQueue::Packets(100),
            _ if self.has_batches() => LinkQueue::Bytes(Bytes::new(1_024_000)),
            _ => LinkQueue::Bytes(Bytes::new(75_000)),
        }
    }
}

/// The limit of a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkQueue {
    /// The total size of the packets [B].
    Bytes(Bytes),
    /// The number of packets [packet].
    Packets(u32),
}

impl LinkQueue {
    /// The limit in bytes, with full packets of 1514 B [B].
    pub fn bytes(self) -> Bytes {
        match self {
            LinkQueue::Bytes(bytes) => bytes,
            LinkQueue::Packets(packets) => Bytes::new(u64::from(packets) * 1514),
        }
    }
}

/// The order in which an interface serves the packets of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceOrder {
    /// The order of arrival at the interface's queue.
    Arrival,
    /// ACKs and retransmissions first, and then the data that were written first.
    OldestWrite,
}

/// Congestion control of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438), the default of Linux.
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// Reno as in ns-3's `TcpNewReno`.
    NewReno,
}

/// The delays and losses between the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Values for all pairs of nodes that [`exceptions`](Self::exceptions) does not list. Its round-trip time applies
    /// only if [`latency`](Self::latency) is [`Latency::Even`].
    pub default: Wire,
    /// Where delays between nodes come from.
    pub latency: Latency,
    /// The part of the loss of places and edges that packets meet, in `[0, 1]`.
    pub place_loss: f64,
    /// The factor on the delays and jitters of edges; [`latency`](Self::latency) includes it.
    pub place_latency: f64,
    /// Round-trip time of the trunk, which connects the two sides of a dumbbell; zero until a network is sampled.
    pub trunk: Duration,
    /// Values between two nodes or groups. The names of each pair are in alphabetical order. The first value is for
    /// packets from the first name to the second, the second value for the other direction.
    pub exceptions: BTreeMap<(String, String), [Wire; 2]>,
    /// Circuits for clients with [`Path::Listed`].
    pub circuits: Circuits,
}

/// The circuits of clients with [`Path::Listed`], and how clients take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuits {
    /// Indices of the relays of each circuit, from the entry to the exit. If this is `None`, each network samples three
    /// relays by weight for each client.
    pub each: Option<Arc<[Vec<usize>]>>,
    /// Whether each network samples the circuits. Otherwise the clients take the first circuits.
    pub sampled: bool,
}

/// The packets that a network may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossOf {
    /// All packets.
    All,
    /// Datagrams and TCP segments with payload.
    Data,
    /// No packet, whatever the loss of links, places and edges is.
    None,
}

/// Delay and loss of packets from the access link of one node to that of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Round-trip time without serialisation, queueing and jitter; above zero.
    pub rtt: Duration,
    /// One-way delay of a packet in this direction, without jitter; above zero.
    pub delay: Duration,
    /// Largest random deviation from the delay. Segments of a connection keep their order.
    pub jitter: Duration,
    /// Probability that a packet is lost, in `[0, 1)`.
    pub loss: f64,
    /// The packets that may be lost.
    pub loss_of: LossOf,
    /// Probability that a datagram is delayed by up to one more round-trip time. Later datagrams can then overtake it.
    pub reorder: f64,
    /// Probability that a datagram is duplicated.
    pub duplicate: f64,
}

/// Where the delays between nodes come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// All pairs of nodes have the same round-trip time.
    Even,
    /// Delays depend on the distance between both nodes, and on the sampled access delay of each node [ns].
    Geographic(Quantiles),
    /// Delays depend on the countries of both nodes, and on the sampled access delay of each node [ns].
    RttMatrix(RttMatrix, Quantiles),
    /// Delays and losses depend on the places of both nodes. If an environment generates the places, each network has
    /// its own. Until then, they are those of the network with seed 0.
    Places(Arc<Places>, Option<&'static Environment>),
    /// Delays depend on how far each node is from the two points of a dumbbell.
    Dumbbell(Dumbbell),
}

section! {
    /// `network.latency`: each node is connected to the near or the far point, and a trunk connects both. Without
    /// nodes on the far side, it is a star.
    ///
    /// Source: nstor's dumbbell.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Dumbbell("network.latency") {
        /// The delay that a node on the near side adds to each of its round trips.
        near: Quantiles = SAMPLED_TIME, Required;
        /// The delay that a node on the far side adds to each of its round trips.
        far: Quantiles = SAMPLED_TIME, As("near");
        /// Probability that a node is on the far side; with 0 the network is a star.
        far_share: f64 = Fraction, Is("0.0");
        /// The round-trip time between two nodes on different sides. The trunk adds this time minus the delays of two
        /// nodes, but at least 2 ms.
        across: Quantiles = SAMPLED_TIME, As("near");
    }
}

/// A node without Tor: name, access link and kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Unique name of the node, such as `entry`; `web0001` in a group with a `count`.
    pub name: Arc<str>,
    /// Settings that all nodes of a group share in memory.
    pub group: Arc<HostGroup>,
    /// Sending rate of the access link [B/s].
    pub link_up: DataRate,
    /// Receiving rate of the access link [B/s].
    pub link_down: DataRate,
    /// Country of the node, if the scenario sets it, or if an era samples it with the relay.
    pub country: Option<&'static Country>,
    /// The node's place in the sampled network.
    pub place: Place,
}

impl Host {
    /// Another node of the same group.
    pub(crate) fn named(&self, name: &str) -> Self {
        Host { name: name.into(), ..self.clone() }
    }
}

/// The nodes of one table of a scenario file: their names, access links and kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct HostGroup {
    /// Name of the table in the file, such as `entry` or `web`.
    pub name: String,
    /// Section of this table: `relays`, `clients` or `servers`.
    pub section: &'static str,
    /// The drop-tail queue before the receiving side of the access link; `None` if the profile decides.
    pub link_queue: Option<LinkQueue>,
    /// Send buffer of its sockets; `None` if the kernel of the profile tunes the size.
    pub send_buffer: Option<Bytes>,
    /// Receive buffer of its sockets; `None` if the kernel of the profile tunes the size.
    pub receive_buffer: Option<Bytes>,
    /// The processor time of Tor's work on this node; `None` if the work takes no time.
    pub cpu: Option<Costs>,
    /// Distributions of rates that each network samples. Until then, each node has the medians.
    pub sampled: SampledRates,
    /// Indices of places with their numbers of nodes. Each network assigns the nodes of a group to these places. If
    /// this is `None`, all places are possible.
    pub places: Option<PlaceCounts>,
}

/// Indices of places, each with a number of nodes.
pub type PlaceCounts = Arc<[(usize, u32)]>;

/// Distributions of the rates that each network samples for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledRates {
    /// Sending rate of the access link [B/s].
    pub link_up: Option<Quantiles>,
    /// Receiving rate of the access link [B/s].
    pub link_down: Option<Quantiles>,
    /// Refill rate of Tor's token buckets [B/s].
    pub bandwidth: Option<Quantiles>,
    /// Whether the access link sends, and receives, at the rates of the node's place.
    pub of_place: [bool; 2],
}

/// The place of a node in the sampled network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Place {
    /// Delays do not depend on the node, or the network is not sampled yet.
    #[default]
    Anywhere,
    /// A side of a dumbbell.
    Side {
        /// Whether the node is on the far side.
        far: bool,
        /// Access delay, which adds to every round-trip time of the node.
        access: Duration,
    },
    /// A geographic location.
    At {
        /// The location.
        spot: Spot,
        /// Access delay, which adds to every round-trip time of the node.
        access: Duration,
    },
    /// A country of the matrix of round-trip times.
    In {
        /// The country.
        country: &'static Country,
        /// Access delay, which adds to every round-trip time of the node.
        access: Duration,
    },
    /// Index of the place in [`Latency::Places`].
    Listed(usize),
}

impl Place {
    /// The delay that the node adds to each of its round-trip times.
    pub fn access(&self) -> Duration {
        match self {
            Place::Side { access, .. } | Place::At { access, .. } | Place::In { access, .. } => *access,
            Place::Anywhere | Place::Listed(_) => Duration::ZERO,
        }
    }
}

section! {
    /// `cpu`: the processor time of a Tor's work.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Costs("relay.cpu") {
        /// The time for each cell that is read or written.
        cell: Duration = TIME_OR_ZERO, Is("0 s");
        /// The time for each system call that reads or writes.
        call: Duration = TIME_OR_ZERO, Is("0 s");
        /// The time for each TLS record that is read or written.
        record: Duration = TIME_OR_ZERO, Is("0 s");
        /// The time for each circuit that the circuit policy scans.
        scan: Duration = TIME_OR_ZERO, Is("0 s");
        /// The time for each query of the scheduler about a socket: its buffer, its queue and its TCP state. The KIST
        /// paper measured 0.914 us.
        query: Duration = TIME_OR_ZERO, Is("0 s");
    }
}

/// A relay.
#[derive(Clone, Debug)]
pub struct Relay {
    /// Name, access link and kernel.
    pub host: Host,
    /// Weight for bandwidth-weighted path selection [B/s].
    pub weight: DataRate,
    /// Whether the sampled weight is the relay's bandwidth limit. Without a limit, it is the rate of the link.
    pub weight_follows: bool,
    /// Whether the relay may be the first relay of a path [`Path::Tor`].
    pub guard: bool,
    /// Whether the relay may be the last relay of a path [`Path::Tor`].
    pub exit: bool,
    /// The relays that are never together with this relay on a path [`Path::Tor`], as indices in increasing order.
    pub family: Arc<[u32]>,
    /// Configuration of Tor, which all relays of a group share. If [`refill_phase`](Self::refill_phase) is random,
    /// `refill.phase` is zero here.
    pub config: Arc<RelayConfig>,
    /// Time of the first refill of the token buckets.
    pub refill_phase: Phase,
}

/// Time of the first refill of token buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The time is sampled in `[0, interval)` for each seed, from the node's own random stream.
    Random,
    /// The first refill is always at this time, which is less than the refill interval.
    Fixed(Duration),
}

impl Phase {
    /// The phase in one run, in `[0, interval)`.
    pub fn draw(self, interval: Duration, rng: &mut Rng) -> Duration {
        match self {
            Phase::Random => Duration::from_nanos(rng.below(penstock_units::time::nanos(interval).max(1))),
            Phase::Fixed(phase) => phase,
        }
    }
}

/// A group of relays that each network samples from the Tor network of one year.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Year with its distributions.
    pub era: &'static Era,
    /// Name of the group. The seed of its random stream is derived from the name.
    pub group: String,
    /// Indices of the relays, in the order of their names.
    pub relays: Vec<usize>,
    /// Whether the relays have token buckets. Without buckets, the rate of a link is at most the bandwidth limit.
    pub buckets: bool,
    /// Whether the rate of a bucket is at most that of the link.
    pub rates_within_links: bool,
    /// Whether the weights of relays are drawn. Otherwise, they are the capacities.
    pub weights: bool,
    /// Whether the flags of relays are drawn. Otherwise, the group has them.
    pub flags: bool,
}

/// All deployments of a scenario, in the order in which they apply.
#[derive(Clone, Debug, Default)]
pub struct Deployments {
    pub(crate) each: Vec<Deployment>,
    /// Configuration of a relay, for each possible combination of the relay's group and the deployments that change the
    /// relay. With no deployment, this is the relay's own configuration.
    pub(crate) software: BTreeMap<(String, Layers), (Arc<RelayConfig>, Phase)>,
}

/// Indices of the deployments that change a relay's software, in ascending order.
pub(crate) type Layers = Vec<usize>;

/// A deployment: new software on some relays.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
    /// Indices of the relays that may get the new software.
    pub(crate) relays: Vec<usize>,
    /// The share of these relays that get it in each network; 1 for all [1].
    pub(crate) share: f64,
    /// Whether the share is of the relays' number or weight.
    pub(crate) share_of: ShareOf,
}

/// The quantity whose share a deployment reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareOf {
    /// The number of relays.
    Relays,
    /// The weight by which clients choose relays.
    Weight,
}

impl Deployments {
    /// Whether no deployment exists.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }
}

/// A client with an onion proxy.
#[derive(Clone, Debug)]
pub struct Client {
    /// Name, access link and kernel.
    pub host: Host,
    /// Settings that all clients of a group share in memory.
    pub group: Arc<ClientGroup>,
    /// Time at which the client begins its workloads; `None` if each workload has its own.
    pub start: Option<Arc<Span>>,
}

/// The clients of one table of a scenario file: their onion proxies and activity. If a network samples one of these
/// settings for each client, each client has a group of its own.
#[derive(Clone, Debug)]
pub struct ClientGroup {
    /// Configuration of the onion proxy. Unused if the path is [`Path::Direct`].
    pub config: Arc<RelayConfig>,
    /// Time of the first refill of the token buckets.
    pub refill_phase: Phase,
    /// Indices of the clients' workloads, which all run at the same time; never empty.
    pub workloads: Vec<usize>,
    /// Whether each workload has its own circuits. If not, all workloads of a client share one circuit.
    pub isolate: bool,
    /// How a client selects the relays of its circuits.
    pub path: Path,
    /// Indices of the relays of the second leg, if the path is [`Path::Fixed`] and the clients link circuits.
    pub second_path: Option<Vec<usize>>,
    /// Whether the first relay of the path is the next possible guard for each client of the group, in the order of
    /// names. Until a network is sampled, the path has another relay there.
    pub each_guard: bool,
    /// Whether a client is a part of the first relay of its path. It then has no host, link and onion proxy of its own.
    pub at_entry: bool,
    /// Maximum age of a circuit since its first stream. Later streams use a new circuit.
    pub circuit_lifetime: Option<Duration>,
    /// Time after which a client gives up building a circuit. It is adaptive only if the client draws its paths.
    pub build_timeout: Option<BuildLimit>,
    /// Indices of the clients' servers; never empty. Each download uses a random one. Groups can share this list in
    /// memory.
    pub servers: Arc<[usize]>,
}

/// The time after which a client gives up building a circuit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BuildLimit {
    /// The same time for all circuits, above zero.
    Fixed(Duration),
    /// Each client learns the time from the build times of its circuits.
    Adaptive(BuildTimeParameters),
}

impl ClientGroup {
    /// The parameters with which the clients learn their build timeout; `None` if they do not.
    pub fn build_times(&self) -> Option<BuildTimeParameters> {
        match self.build_timeout {
            Some(BuildLimit::Adaptive(parameters)) if self.path != Path::Direct => Some(parameters),
            _ => None,
        }
    }

    /// Whether streams of several workloads share a client's only circuit.
    pub fn shares_circuit(&self) -> bool {
        self.workloads.len() > 1 && !self.isolate
    }

    /// The relay that is this client; `None` if the client has its own host. Before a network is sampled, a client with
    /// a listed circuit has no relay yet.
    pub fn entry(&self) -> Option<usize> {
        match &self.path {
            Path::Fixed(path) if self.at_entry => path.first().copied(),
            _ => None,
        }
    }

    /// Whether the clients link circuits.
    pub fn links_circuits(&self) -> bool {
        self.config.conflux.is_some() && self.path != Path::Direct && !self.at_entry
    }

    /// Samples the relays of the second leg of linked circuits, whose first leg has the relays `first`. Returns `None` if
    /// the clients do not link circuits, the exit accepts no links, or there is no second guard or middle.
    pub fn draw_second(
        &self,
        scenario: &Scenario,
        guards: &[usize],
        first: &[usize],
        rng: &mut Rng,
    ) -> Option<Vec<usize>> {
        let exit = *first.last()?;
        if !self.links_circuits() || scenario.relays[exit].config.conflux.is_none() {
            return None;
        }
        match &self.path {
            Path::Direct | Path::Listed => None,
            Path::Fixed(_) => self.second_path.clone(),
            Path::Weighted { .. } => Some(draw_weighted_leg(&scenario.relays, first, rng)),
            Path::Tor { .. } => {
                let first = first.try_into().expect("such a circuit has three relays");
                let leg = scenario.selector.as_ref()?.draw_leg(rng, guards, first);
                leg.map(|leg| leg.to_vec())
            }
        }
    }

    /// The number of relays that write each cell of a download [1].
    pub fn hops(&self) -> usize {
        self.path.hops() - usize::from(self.at_entry)
    }
}

/// How a client selects the relays of its circuits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// No relays: the client connects to the server over TCP, without Tor.
    Direct,
    /// Indices of fixed relays, from the entry to the exit; never empty, without duplicates.
    Fixed(Vec<usize>),
    /// Different relays, each sampled with a probability proportional to its weight.
    Weighted {
        /// Number of relays [1].
        hops: usize,
    },
    /// A circuit of [`Network::circuits`], the same for a whole run. A sampled network has [`Path::Fixed`] instead.
    Listed,
    /// A guard, a middle and an exit, sampled as Tor's clients do.
    Tor {
        /// Number of guards that the client keeps [1]; above zero.
        guards: usize,
    },
}

impl Path {
    /// The number of relays in a circuit.
    pub fn hops(&self) -> usize {
        match self {
            Path::Direct => 0,
            Path::Fixed(path) => path.len(),
            Path::Weighted { hops } => *hops,
            Path::Tor { .. } | Path::Listed => 3,
        }
    }

    /// Samples the guards that a client keeps for a run. The result is empty if the path needs no guards.
    pub fn draw_guards(&self, scenario: &Scenario, rng: &mut Rng) -> Vec<usize> {
        match (self, &scenario.selector) {
            (Path::Tor { guards }, Some(selector)) => selector.guards(rng, *guards),
            _ => Vec::new(),
        }
    }

    /// Samples the relays of one circuit, from the entry to the exit. The result is empty without Tor. The client takes
    /// a random one of its guards. If this guard cannot be used together with the exit, the client takes the next one.
    ///
    /// Source: path-spec section 2.2; C tor 0.2.3 `choose_random_entry()`.
    pub fn draw(&self, scenario: &Scenario, guards: &[usize], rng: &mut Rng) -> Vec<usize> {
        match self {
            Path::Direct => Vec::new(),
            Path::Fixed(path) => path.clone(),
            Path::Listed => unreachable!("a sampled network has given each client its circuit"),
            Path::Weighted { hops } => draw_weighted(&scenario.relays, *hops, rng),
            Path::Tor { .. } => {
                let selector = scenario.selector.as_ref().expect("a scenario with such paths has a selector");
                let mut guards = guards.to_vec();
                if !guards.is_empty() {
                    let first = rng.below(guards.len() as u64) as usize;
                    guards.rotate_left(first);
                }
                // If no circuit can be completed, the client samples again, as in C tor.
                let mut draws = (0..MOST_DRAWS).map(|_| selector.draw(rng, &guards));
                let path =
                    draws.find_map(|path| path).expect("the builder found that a circuit can be drawn");
                path.to_vec()
            }
        }
    }
}

/// Maximum number of failed samples in a row. After them, no circuit is possible.
const MOST_DRAWS: usize = 10_000;

/// Samples `hops` relays by weight, without replacement. It uses integers, so that all platforms give the same result.
pub(crate) fn draw_weighted(relays: &[Relay], hops: usize, rng: &mut Rng) -> Vec<usize> {
    draw_more(relays, Vec::with_capacity(hops), hops, rng)
}

/// Samples a circuit to the exit of `first` over relays that are not in `first`.
fn draw_weighted_leg(relays: &[Relay], first: &[usize], rng: &mut Rng) -> Vec<usize> {
    let hops = first.len();
    let mut leg = draw_more(relays, first.to_vec(), 2 * hops - 1, rng).split_off(hops);
    leg.extend(first.last());
    leg
}

fn draw_more(relays: &[Relay], mut chosen: Vec<usize>, count: usize, rng: &mut Rng) -> Vec<usize> {
    while chosen.len() < count {
        let open = || (0..relays.len()).filter(|relay| !chosen.contains(relay));
        let total: u64 = open().map(|relay| relays[relay].weight.bytes_per_sec()).sum();
        let mut left = rng.below(total);
        let relay = open()
            .find(|relay| {
                let weight = relays[*relay].weight.bytes_per_sec();
                let here = left < weight;
                left = left.saturating_sub(weight);
                here
            })
            .expect("the draw is below the sum of the weights");
        chosen.push(relay);
    }
    chosen
}

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Name, access link and kernel.
    pub host: Host,
    /// Time from the arrival of a request to the first byte of the answer.
    pub think_time: Span,
}

/// A client's activity on each circuit. It repeats a download or a hold, and a pause after it (closed loop).
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name in output, such as `web` or `bulk`.
    pub name: String,
    /// The client's activity between two pauses.
    pub does: Activity,
    /// Number of parallel circuits, each with its own loop [1]; above zero.
    pub circuits: u32,
    /// Pause from the end of a download or hold to the start of the next one.
    pub pause: Span,
    /// Time at which a client starts, from the start of the run.
    pub start: Span,
    /// Whether every download uses a new circuit.
    pub fresh_circuit: bool,
    /// Time after which a client gives up a download.
    pub timeout: Option<Duration>,
    /// Size of a request [B]; above zero.
    pub request: Bytes,
}

/// A client's activity between two pauses.
#[derive(Clone, Debug, PartialEq)]
pub enum Activity {
    /// Downloads this size [B]; above zero.
    Download(Amount),
    /// Opens streams and sends packets by Markov models.
    Tgen(Tgen),
    /// Opens a circuit and sends nothing. After this time, closes the circuit and its connection.
    Hold(Span),
}

/// Traffic by Markov models. Each flow has its own circuit and consists of streams. Each stream consists of packets.
///
/// Source: tgen's actions `traffic`, `flow` and `stream`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tgen {
    /// When flows start. Without this model, a new flow starts one pause of the workload after the end of the previous
    /// flow.
    pub flows: Option<Arc<Markov>>,
    /// When streams of a flow start. Without this model, each flow has one stream.
    pub streams: Option<Arc<Markov>>,
    /// When packets of a stream leave, at the client and at the server.
    pub packets: Arc<Markov>,
    /// Payload of a packet [B]; above zero.
    pub packet: Bytes,
}

impl Tgen {
    /// Mean time between two streams [s], and mean number of bytes of a stream in both directions [B], from a few
    /// walks.
    pub(crate) fn typical(&self, pause: f64) -> (f64, f64) {
        let (packets, lasts) = self.packets.typical();
        let stream = packets * self.packet.get() as f64;
        let (streams, flow) = self.streams.as_ref().map_or((1.0, 0.0), |streams| streams.typical());
        let flow = match &self.flows {
            Some(flows) => {
                let (count, time) = flows.typical();
                time / count.max(1.0)
            }
            None => flow + lasts + pause,
        };
        // At least one microsecond.
        ((flow / streams.max(1.0)).max(1e-6), stream)
    }
}
