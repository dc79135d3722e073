//! The model of a scenario: one variant with every default filled in, ready for a simulator or a testbed.
//!
//! Relays, clients, servers and workloads are in the alphabetical order of their names, and refer to each other by
//! index. This order also decides between events at the same time.

use crate::keys::section;
use crate::markov::Markov;
use crate::rtt_matrix::RttMatrix;
use crate::values::{BUFFER, Choice, Flag, Fraction, SAMPLED_TIME, Size, TEXT, TIME_OR_ZERO, Texts};
use penstock_core::circuit_policy::CircuitPolicyConfig;
use penstock_core::config::{Bandwidth, RelayConfig};
use penstock_core::throttle::{ClientBuckets, ThrottleConfig};
use penstock_network::geo::Spot;
use penstock_network::{Country, Era, Selector};
use penstock_units::{Bytes, DataRate, Duration, Rng, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::distribution::{Amount, LONGEST, Mix, Quantiles, Span};

/// One variant of a scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The paper and the figure that it reproduces.
    pub head: Head,
    /// The variant of the file.
    pub variant: Variant,
    /// The duration of a run, and its end.
    pub run: Run,
    /// The circuits and cells that are recorded in detail.
    pub trace: Trace,
    /// The TCP of all kernels.
    pub tcp: Tcp,
    /// The delays and losses between the nodes.
    pub network: Network,
    /// Relays, in the order of their names.
    pub relays: Vec<Relay>,
    /// The groups of relays that are drawn as they were in some year.
    pub generated: Vec<Generated>,
    /// The relays that have other software, in the order in which it is merged.
    pub deployments: Deployments,
    /// How circuits on paths [`Path::Tor`] are drawn; present if a client has such a path.
    pub selector: Option<Arc<Selector>>,
    /// Clients with their onion proxies, in the order of their names.
    pub clients: Vec<Client>,
    /// Servers, in the order of their names.
    pub servers: Vec<Server>,
    /// Workloads, in the order of their names.
    pub workloads: Vec<Workload>,
    /// Changes of the settings during a run, in the order of time.
    pub changes: Vec<Change>,
}

/// A change of the settings of a running Tor, as its operator makes it.
#[derive(Clone, Debug)]
pub struct Change {
    /// When, from the beginning of the run; above zero and below its duration.
    pub at: Duration,
    /// The node that changes.
    pub node: TorNode,
    /// The new setting.
    pub to: Switch,
}

/// A node with a Tor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TorNode {
    /// Index of the relay.
    Relay(usize),
    /// Index of the client, which has a path.
    Client(usize),
}

/// A setting that an operator can change without a restart.
#[derive(Clone, Debug)]
pub enum Switch {
    /// The limit of reads and writes; `None` is no limit.
    Bandwidth(Option<Bandwidth>),
    /// Which circuit of a channel sends next.
    CircuitPolicy(CircuitPolicyConfig),
    /// The rate of each client, and its buckets.
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

/// A named set of overrides: one curve of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in output and on the command line.
    pub name: String,
    /// Its name in pictures.
    pub label: String,
}

/// How long a run lasts, and what ends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The latest end of simulated time.
    pub duration: Duration,
    /// Downloads that start before this time are marked as warm-up; below `duration`.
    pub warmup: Duration,
    /// A number of downloads that ends the run earlier.
    pub stop: Option<Stop>,
    /// Interval of the relays' records; above zero.
    pub sample: Duration,
}

/// Ends a run when the clients of one workload have finished a number of downloads in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Index of the workload.
    pub workload: usize,
    /// Downloads, warm-up included [1].
    pub downloads: u64,
}

/// The circuits and cells that are recorded in detail.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Indices of the workloads whose circuits are traced, in order.
    pub workloads: Vec<usize>,
    /// Probability that a client's circuits are traced, in `[0, 1]`.
    pub share: f64,
    /// Interval of the traced circuits' records; above zero.
    pub interval: Duration,
    /// One in this number of DATA cells of a traced circuit is recorded at every node; 0 is none [cell].
    pub cells: u32,
}

impl Trace {
    /// Whether circuits of a client with these workloads are traced. A larger share contains the clients of a smaller one.
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
        ]), Is("linux-3.2");
        /// How the congestion window grows.
        congestion: Congestion = Choice(&[("cubic", Congestion::Cubic), ("reno", Congestion::Reno)]), Is("cubic");
        /// CUBIC leaves slow start when round trips grow (HyStart).
        hystart: bool = Flag, Is("true");
        /// TCP_NODELAY on every socket. Without it a small segment waits while another is unacknowledged.
        nodelay: bool = Flag, Is("false");
        /// The largest payload of a segment.
        mss: Bytes = Size { least: 88, most: 65_483 }, Is("1448 B");
        /// The send buffer of every socket; "auto" tunes it as the profile does.
        send_buffer: Option<Bytes> = BUFFER, Is("auto");
        /// The receive buffer of every socket; "auto" tunes it as the profile does.
        receive_buffer: Option<Bytes> = BUFFER, Is("auto");
    }
}

/// A named bundle of loss recovery, timers and initial windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpProfile {
    /// Linux 3.2, the kernel of the papers: FACK, no RACK, an initial window of 10 segments.
    Linux3_2,
    /// Linux 6.x: RACK and tail loss probes, small queues.
    Linux6,
    /// ns-3's default sockets: a minimum RTO of 1 s, fixed buffers.
    Ns3,
}

/// How the congestion window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438), the default of Linux.
    Cubic,
    /// Reno (RFC 5681).
    Reno,
}

/// The size of a socket's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The profile tunes it.
    Auto,
    /// Always this size [B].
    Fixed(Bytes),
}

impl From<Option<Bytes>> for Buffer {
    fn from(size: Option<Bytes>) -> Self {
        size.map_or(Buffer::Auto, Buffer::Fixed)
    }
}

/// The delays and losses between the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Between any two nodes that [`exceptions`](Self::exceptions) does not list; its round trip counts if
    /// [`latency`](Self::latency) is even.
    pub default: Wire,
    /// The source of the nodes' delays.
    pub latency: Latency,
    /// The round trip between the two points of a dumbbell; zero until it is drawn.
    pub trunk: Duration,
    /// Between two nodes or groups, in both directions; each pair in alphabetical order.
    pub exceptions: BTreeMap<(String, String), Wire>,
}

/// Delay and loss between the access links of two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// The round trip without serialisation and queues; above zero. Each direction takes half of it.
    pub rtt: Duration,
    /// Probability that a packet is lost, in each direction, in `[0, 1)`.
    pub loss: f64,
    /// Probability that a datagram takes up to a round trip longer, so that others overtake it.
    pub reorder: f64,
    /// Probability that a datagram is duplicated.
    pub duplicate: f64,
}

/// The source of the nodes' delays.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// All nodes have the same round trip to each other.
    Even,
    /// By the distance between the nodes' places, and the access delay of each node [ns].
    Geographic(Quantiles),
    /// By the nodes' countries, and the access delay of each node [ns].
    RttMatrix(RttMatrix, Quantiles),
    /// By the delays to the two points of a dumbbell.
    Dumbbell(Dumbbell),
}

section! {
    /// `network.latency`: each node is connected to one of two points, and a trunk connects the points.
    ///
    /// Source: nstor's dumbbell. A star is a dumbbell without nodes on its far side.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Dumbbell("network.latency") {
        /// What a node on the near side adds to all its round trips.
        near: Quantiles = SAMPLED_TIME, Required;
        /// What a node on the far side adds.
        far: Quantiles = SAMPLED_TIME, As("near");
        /// Probability that a node is on the far side; with 0 the network is a star.
        far_share: f64 = Fraction, Is("0.0");
        /// Round trip from one side to the other. The trunk takes this less the delay of one node on each side, and at
        /// least 2 ms.
        across: Quantiles = SAMPLED_TIME, As("near");
    }
}

/// A node without its Tor: a name, an access link and a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Unique among all nodes: `entry`, or `web0001` if its group has a `count`.
    pub name: String,
    /// The name of its table: `entry`, `web`.
    pub group: String,
    /// The sending rate of its access link [B/s].
    pub link_up: DataRate,
    /// The receiving rate [B/s].
    pub link_down: DataRate,
    /// Drop-tail queue of the network in front of its receiving link [B].
    pub link_queue: Bytes,
    /// Send buffer of its sockets.
    pub send_buffer: Buffer,
    /// Receive buffer of its sockets.
    pub receive_buffer: Buffer,
    /// The processor time of its Tor; none if absent.
    pub cpu: Option<Costs>,
    /// Which of its rates are drawn for each network; before the draw they are medians.
    pub sampled: SampledRates,
    /// The country that the scenario gives it.
    pub country: Option<&'static Country>,
    /// Its place in the network, once it is drawn.
    pub place: Place,
}

/// The distributions of those rates of a node that are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledRates {
    /// The sending rate of its access link [B/s].
    pub link_up: Option<Quantiles>,
    /// The receiving rate [B/s].
    pub link_down: Option<Quantiles>,
    /// The refill rate of its Tor's buckets [B/s].
    pub bandwidth: Option<Quantiles>,
}

/// The place of a node in its network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// Whether it is on the far side of a dumbbell.
    pub far: bool,
    /// Its access delay: what it adds to each of its round trips.
    pub access: Duration,
    /// Its place on Earth, if delays depend on it.
    pub spot: Option<Spot>,
    /// Its country, if delays depend on it.
    pub country: Option<&'static Country>,
}

section! {
    /// `cpu`: the processor time of a Tor's work.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Costs("relay.cpu") {
        /// For each cell that is read or written.
        cell: Duration = TIME_OR_ZERO, Is("0 s");
        /// For each system call that reads or writes.
        call: Duration = TIME_OR_ZERO, Is("0 s");
        /// For each TLS record that is read or written.
        record: Duration = TIME_OR_ZERO, Is("0 s");
        /// For each circuit that the circuit policy scans.
        look: Duration = TIME_OR_ZERO, Is("0 s");
        /// For each query of the scheduler about a socket's buffer, queue and TCP state. The KIST paper measured 0.914 us.
        query: Duration = TIME_OR_ZERO, Is("0 s");
    }
}

/// A relay.
#[derive(Clone, Debug)]
pub struct Relay {
    /// Its name, link and kernel.
    pub host: Host,
    /// Its share in bandwidth-weighted paths [B/s].
    pub weight: DataRate,
    /// Whether that share follows the relay's bandwidth, or its link if it has no bandwidth limit.
    pub weight_follows: bool,
    /// Whether it may be the first relay on paths [`Path::Tor`].
    pub guard: bool,
    /// Whether it may be the last one.
    pub exit: bool,
    /// Its Tor. `refill.phase` is zero if [`refill_phase`](Self::refill_phase) is random. A whole group shares it.
    pub config: Arc<RelayConfig>,
    /// When its buckets are refilled first.
    pub refill_phase: Phase,
}

/// When token buckets are refilled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Drawn in `[0, interval)` from the node's own stream, for each seed.
    Random,
    /// Always at this time, below the interval.
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

/// A group of relays that are drawn as they were in one year.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The year.
    pub era: &'static Era,
    /// The name of the group, which seeds the draws.
    pub group: String,
    /// Indices of its relays, in the order of their names.
    pub relays: Vec<usize>,
    /// Whether they have token buckets; without buckets, the smaller of link and rate is the link.
    pub buckets: bool,
}

/// All deployments of a scenario, in the order in which they are merged.
#[derive(Clone, Debug, Default)]
pub struct Deployments {
    pub(crate) each: Vec<Deployment>,
    /// The software of a relay of a group, by the deployments that reach it.
    pub(crate) software: BTreeMap<(String, Layers), (Arc<RelayConfig>, Phase)>,
}

/// The deployments that reach a relay, as growing indices.
pub(crate) type Layers = Vec<usize>;

/// Software that a share of some relays has.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
    /// Indices of the relays that it may reach.
    pub(crate) relays: Vec<usize>,
    /// How many of them it reaches.
    pub(crate) count: usize,
}

impl Deployments {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }
}

/// A client and its onion proxy.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name, link and kernel.
    pub host: Host,
    /// Its Tor; unused if the path is [`Path::Direct`]. A whole group shares it.
    pub config: Arc<RelayConfig>,
    /// When its buckets are refilled first.
    pub refill_phase: Phase,
    /// Indices of its workloads, which all run at once; never empty.
    pub workloads: Vec<usize>,
    /// Whether each of several workloads has circuits of its own, instead of one circuit for all.
    pub isolate: bool,
    /// The relays of its circuits.
    pub path: Path,
    /// The age of its first stream at which a circuit gets no new stream.
    pub circuit_lifetime: Option<Duration>,
    /// The time after which the client abandons a circuit that is not built.
    pub build_timeout: Option<Duration>,
    /// Indices of the servers, of which one is drawn for each download; never empty. Thousands of clients share a list.
    pub servers: Arc<[usize]>,
}

impl Client {
    /// Whether streams of several workloads share the client's only circuit.
    pub fn shares_circuit(&self) -> bool {
        self.workloads.len() > 1 && !self.isolate
    }
}

/// The relays of a client's circuits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// None: the client has a TCP connection to the server, without Tor.
    Direct,
    /// Indices of the relays, from the entry to the exit; never empty, none twice.
    Fixed(Vec<usize>),
    /// Different relays, each drawn with a probability proportional to its weight.
    Weighted {
        /// The number of relays [1].
        hops: usize,
    },
    /// A guard, a middle and an exit, as Tor's clients draw them.
    Tor {
        /// The number of guards that the client keeps [1]; above zero.
        guards: usize,
    },
}

impl Path {
    /// The number of relays.
    pub fn hops(&self) -> usize {
        match self {
            Path::Direct => 0,
            Path::Fixed(path) => path.len(),
            Path::Weighted { hops } => *hops,
            Path::Tor { .. } => 3,
        }
    }

    /// The guards that a client keeps for a run; none if its path needs none.
    pub fn draw_guards(&self, scenario: &Scenario, rng: &mut Rng) -> Vec<usize> {
        match (self, &scenario.selector) {
            (Path::Tor { guards }, Some(selector)) => selector.guards(rng, *guards),
            _ => Vec::new(),
        }
    }

    /// The relays of one circuit, from the entry to the exit; none without Tor.
    ///
    /// A client with several guards takes a random one, and the next one if this guard does not go with the exit.
    ///
    /// Source: path-spec section 2.2; C tor 0.2.3 `choose_random_entry()`.
    pub fn draw(&self, scenario: &Scenario, guards: &[usize], rng: &mut Rng) -> Vec<usize> {
        match self {
            Path::Direct => Vec::new(),
            Path::Fixed(path) => path.clone(),
            Path::Weighted { hops } => draw_weighted(&scenario.relays, *hops, rng),
            Path::Tor { .. } => {
                let selector = scenario.selector.as_ref().expect("a scenario with such paths has a selector");
                let mut guards = guards.to_vec();
                if !guards.is_empty() {
                    let first = rng.below(guards.len() as u64) as usize;
                    guards.rotate_left(first);
                }
                // A circuit that cannot be completed is drawn again, as in C tor.
                let mut draws = (0..MOST_DRAWS).map(|_| selector.draw(rng, &guards));
                let path =
                    draws.find_map(|path| path).expect("the builder found that a circuit can be drawn");
                path.to_vec()
            }
        }
    }
}

/// If this number of draws in a row fails, no circuit is possible.
const MOST_DRAWS: usize = 10_000;

/// Draws `hops` relays without replacement. It uses integers only, so that every platform draws the same.
fn draw_weighted(relays: &[Relay], hops: usize, rng: &mut Rng) -> Vec<usize> {
    let mut chosen = Vec::with_capacity(hops);
    while chosen.len() < hops {
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
    /// Its name, link and kernel.
    pub host: Host,
}

/// The work of a client on each of its circuits, in a closed loop: download or hold, pause, again.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name in output: `web`, `bulk`, or the scenario's own.
    pub name: String,
    /// The work between two pauses.
    pub does: Activity,
    /// The number of circuits at once, each with a loop of its own [1]; above zero.
    pub circuits: u32,
    /// From the last byte of a download, or the end of a hold, to the next one.
    pub pause: Span,
    /// When a client begins.
    pub start: Span,
    /// Whether every download gets a circuit of its own.
    pub fresh_circuit: bool,
    /// The time after which a client abandons a download.
    pub timeout: Option<Duration>,
    /// Size of the request for the file [B]; above zero.
    pub request: Bytes,
}

/// The work of a client between two pauses.
#[derive(Clone, Debug, PartialEq)]
pub enum Activity {
    /// A download of this size [B]; above zero.
    Download(Amount),
    /// Streams and packets by Markov models.
    Tgen(Tgen),
    /// The client opens a circuit, sends nothing, and closes the circuit and its connection after this time.
    Hold(Span),
}

/// Traffic of Markov models: flows, each with a circuit of its own; in each flow streams, in each stream packets.
///
/// Source: tgen's actions `traffic`, `flow` and `stream`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tgen {
    /// When flows begin. Without it they follow each other, with the workload's pause between them.
    pub flows: Option<Arc<Markov>>,
    /// When streams of a flow begin. Without it a flow is one stream.
    pub streams: Option<Arc<Markov>>,
    /// When packets of a stream leave, on either side.
    pub packets: Arc<Markov>,
    /// The payload of a packet [B]; above zero.
    pub packet: Bytes,
}

impl Tgen {
    /// The mean time between two streams [s], and the mean size of a stream in both directions [B]: of a few short walks.
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
        // Never below a microsecond.
        ((flow / streams.max(1.0)).max(1e-6), stream)
    }
}
