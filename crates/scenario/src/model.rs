//! What a scenario says, in types that cannot be wrong.
//!
//! One [`Scenario`] is one variant of a file with every default filled in. Everything refers to
//! everything else by index: relays, clients, servers and workloads are in the order of their
//! names, which is also their rank in the order of events.

use crate::deploy::Deployments;
use crate::drawn::{DrawnRates, Latency, Place, Quantiles};
use crate::era::Generated;
use crate::markov::Markov;
use penstock_core::circuit_policy::CircuitPolicyConfig;
use penstock_core::config::{Bandwidth, RelayConfig};
use penstock_core::throttle::{ClientBuckets, ThrottleConfig};
use penstock_network::{Country, Selector};
use penstock_units::{Bytes, DataRate, Duration, Rng, Seed, math};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One variant of a scenario, ready to be run in any world.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it stands for.
    pub head: Head,
    /// Which of the file's variants this is.
    pub variant: Variant,
    /// How long it lasts, and what ends it.
    pub run: Run,
    /// What is recorded in detail.
    pub trace: Trace,
    /// The kernels' TCP.
    pub tcp: Tcp,
    /// What lies between the nodes.
    pub network: Network,
    /// Relays, in the order of their names.
    pub relays: Vec<Relay>,
    /// Which of them are drawn as they were in some year.
    pub generated: Vec<Generated>,
    /// Which of them have other software, in the order in which it is laid over.
    pub deployments: Deployments,
    /// How circuits on paths [`Path::Tor`] are drawn; there if some client has such a path.
    pub selector: Option<Arc<Selector>>,
    /// Clients with their onion proxies, in the order of their names.
    pub clients: Vec<Client>,
    /// Servers, in the order of their names.
    pub servers: Vec<Server>,
    /// Workloads, in the order of their names.
    pub workloads: Vec<Workload>,
    /// What is different from some time on, in the order of time.
    pub changes: Vec<Change>,
}

/// What the operator of a Tor changes while it runs.
#[derive(Clone, Debug)]
pub struct Change {
    /// When, from the beginning of the run; above zero and below its duration.
    pub at: Duration,
    /// Whose.
    pub node: TorNode,
    /// What it is from then on.
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

/// What an operator can change without a restart.
#[derive(Clone, Debug)]
pub enum Switch {
    /// What it may read and write at all; `None` is no limit.
    Bandwidth(Option<Bandwidth>),
    /// Which circuit of a channel sends next.
    CircuitPolicy(CircuitPolicyConfig),
    /// At what rate each client is served, and from what.
    Throttle(ThrottleConfig, ClientBuckets),
}

/// Which paper, section and figure a scenario stands for. Results do not depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// One line for lists and headings.
    pub title: String,
    /// Short name of the paper, such as `defenestrator`; empty if none.
    pub paper: String,
    /// Its section, such as `5.1`; empty if none.
    pub section: String,
    /// Its figures, such as `5`.
    pub figures: Vec<String>,
    /// Whatever else a reader should know.
    pub notes: String,
}

/// A named set of overrides: one curve of the figure.
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
    /// Downloads that start before this are marked as warm-up; below `duration`.
    pub warmup: Duration,
    /// What ends the run earlier.
    pub stop: Option<Stop>,
    /// Interval of the relays' records; above zero.
    pub sample: Duration,
}

/// Ends a run when the clients of one workload finished so many downloads in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Index of the workload.
    pub workload: usize,
    /// Downloads, warm-up included [1].
    pub downloads: u64,
}

/// What is recorded in detail.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Indices of the workloads whose circuits are traced, in order.
    pub workloads: Vec<usize>,
    /// Probability that a client is one whose circuits are traced, in `[0, 1]`.
    pub share: f64,
    /// Interval of the traced circuits' records; above zero.
    pub interval: Duration,
    /// One of every so many DATA cells of a traced circuit is followed through its stations; 0 is none [cell].
    pub cells: u32,
}

impl Trace {
    /// Whether circuits of a client with these workloads are traced. Who is in a small share is in a larger one too.
    pub fn follows(&self, client: &str, mut workloads: impl Iterator<Item = usize>, seed: Seed) -> bool {
        let is_chosen = || self.share >= 1.0 || seed.stream(&format!("{client}/trace")).unit() < self.share;
        workloads.any(|workload| self.workloads.contains(&workload)) && is_chosen()
    }
}

/// The kernels' TCP. Buffers are on each [`Host`].
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// Whose TCP it is.
    pub profile: TcpProfile,
    /// How the congestion window grows.
    pub congestion: Congestion,
    /// CUBIC leaves slow start when round trips grow.
    pub hystart: bool,
    /// TCP_NODELAY on every socket. C tor sets it on none.
    pub nodelay: bool,
    /// Most payload of a segment [B].
    pub mss: Bytes,
}

/// Whose TCP it is: a named bundle of loss recovery, timers and initial windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpProfile {
    /// Linux 3.2, the papers' kernel: FACK, no RACK, an initial window of 10 segments.
    Linux3_2,
    /// Linux 6.x: RACK and tail loss probes, small queues.
    Linux6,
    /// ns-3's default sockets: least RTO 1 s, fixed buffers.
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

/// How large a socket's buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The profile's auto-tuning.
    Auto,
    /// So much, always [B].
    Fixed(Bytes),
}

/// What lies between the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Between any two nodes that [`exceptions`](Self::exceptions) does not name; its round trip if
    /// [`latency`](Self::latency) is even.
    pub default: Wire,
    /// Where the nodes' delays come from.
    pub latency: Latency,
    /// The way between the points of a dumbbell, there and back; zero until it is drawn.
    pub trunk: Duration,
    /// Between these nodes or groups, in both directions; each pair in alphabetical order.
    pub exceptions: BTreeMap<(String, String), Wire>,
}

impl Network {
    /// What lies between two nodes, whichever way: an exception of the two nodes themselves goes
    /// before one of a node and a group, and that before one of two groups.
    pub fn between(&self, one: &Host, other: &Host) -> Wire {
        let usual = || Wire { rtt: self.default_rtt(one, other), ..self.default };
        if self.exceptions.is_empty() {
            return usual();
        }
        let pairs = [
            (&one.name, &other.name),
            (&one.name, &other.group),
            (&one.group, &other.name),
            (&one.group, &other.group),
        ];
        let sorted = |(a, b): (&String, &String)| {
            if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) }
        };
        let found = pairs.into_iter().find_map(|pair| self.exceptions.get(&sorted(pair)));
        found.copied().unwrap_or_else(usual)
    }
}

/// Delay and loss between the access links of two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// There and back, without serialisation and queues; above zero. One way takes half of it.
    pub rtt: Duration,
    /// Probability that a packet is lost on its way, in each direction, in `[0, 1)`.
    pub loss: f64,
    /// Probability that a datagram takes up to a round trip longer, so that others overtake it.
    pub reorder: f64,
    /// Probability that a datagram comes twice.
    pub duplicate: f64,
}

/// What a node has below Tor: a name, an access link and a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Unique among all nodes: `entry`, or `web0001` if its group has a `count`.
    pub name: String,
    /// The name of its table: `entry`, `web`.
    pub group: String,
    /// What its access link sends [B/s].
    pub link_up: DataRate,
    /// What its access link receives [B/s].
    pub link_down: DataRate,
    /// Drop-tail queue of the network in front of its receiving link [B].
    pub link_queue: Bytes,
    /// Send buffer of its sockets.
    pub send_buffer: Buffer,
    /// Receive buffer of its sockets.
    pub receive_buffer: Buffer,
    /// What its Tor costs its processor; nothing if absent.
    pub cpu: Option<Costs>,
    /// Which of its rates are drawn anew for each seed; until then they are medians.
    pub drawn: DrawnRates,
    /// The country that it is in, if one is given.
    pub country: Option<&'static Country>,
    /// Where it is; nowhere until that is drawn.
    pub place: Place,
}

/// How long a processor takes for the work of a Tor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Each cell read or written [ns].
    pub cell: Duration,
    /// Each system call that reads or writes [ns].
    pub call: Duration,
    /// Each TLS record read or written [ns].
    pub record: Duration,
    /// Each circuit that a policy looks at [ns].
    pub look: Duration,
    /// Each question about a socket's buffer, queue and TCP state, which KIST asks of each channel in a round [ns].
    pub query: Duration,
}

/// A relay.
#[derive(Clone, Debug)]
pub struct Relay {
    /// Its name, link and kernel.
    pub host: Host,
    /// Its share in bandwidth-weighted paths [B/s].
    pub weight: DataRate,
    /// That share is what the relay's bandwidth is, or its link if it has none.
    pub weight_follows: bool,
    /// May be the first relay on paths [`Path::Tor`].
    pub guard: bool,
    /// May be the last one.
    pub exit: bool,
    /// Its Tor. `refill.phase` is zero where [`refill_phase`](Self::refill_phase) is random. Shared by a whole group.
    pub config: Arc<RelayConfig>,
    /// When its buckets are refilled first.
    pub refill_phase: Phase,
}

/// When token buckets are refilled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Drawn in `[0, interval)` from the node's own stream, for each seed.
    Random,
    /// Always then; below the interval.
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

/// A client and its onion proxy.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name, link and kernel.
    pub host: Host,
    /// Its Tor; without meaning if the path is [`Path::Direct`]. Shared by a whole group.
    pub config: Arc<RelayConfig>,
    /// When its buckets are refilled first.
    pub refill_phase: Phase,
    /// Indices of what it does, all of it at once; never empty.
    pub workloads: Vec<usize>,
    /// Each of several workloads has circuits of its own, instead of all sharing one.
    pub isolate: bool,
    /// Through which relays.
    pub path: Path,
    /// A circuit whose first stream began so long ago gets no new one.
    pub circuit_lifetime: Option<Duration>,
    /// A circuit that is not built so long after it was begun is given up.
    pub build_timeout: Option<Duration>,
    /// Indices of the servers it downloads from, one drawn for each download; never empty. Shared:
    /// thousands of clients may use thousands of servers.
    pub servers: Arc<[usize]>,
}

impl Client {
    /// Whether streams of several workloads share the client's only circuit.
    pub fn shares_circuit(&self) -> bool {
        self.workloads.len() > 1 && !self.isolate
    }
}

/// Through which relays a client's circuits go, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// Straight to the server over TCP, without Tor.
    Direct,
    /// Indices of these relays, from the entry to the exit; never empty, none twice.
    Fixed(Vec<usize>),
    /// So many different relays, each drawn with a probability proportional to its weight.
    Weighted {
        /// How many relays [1].
        hops: usize,
    },
    /// A guard, a middle and an exit, as Tor's clients draw them.
    Tor {
        /// How many guards the client keeps [1]; above zero.
        guards: usize,
    },
}

impl Path {
    /// How many relays it has.
    pub fn hops(&self) -> usize {
        match self {
            Path::Direct => 0,
            Path::Fixed(path) => path.len(),
            Path::Weighted { hops } => *hops,
            Path::Tor { .. } => 3,
        }
    }

    /// The guards that a client keeps for a run; none if its paths need none.
    pub fn draw_guards(&self, scenario: &Scenario, rng: &mut Rng) -> Vec<usize> {
        match (self, &scenario.selector) {
            (Path::Tor { guards }, Some(selector)) => selector.guards(rng, *guards),
            _ => Vec::new(),
        }
    }

    /// The relays of one circuit, from the entry to the exit; none without Tor.
    ///
    /// A client with several guards takes one of them at random, or if it does not go together with the exit, the next.
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
                // A circuit that cannot be completed is begun anew, as C tor does.
                let mut draws = (0..MOST_DRAWS).map(|_| selector.draw(rng, &guards));
                let path =
                    draws.find_map(|path| path).expect("there are circuits: that was tried when it was read");
                path.to_vec()
            }
        }
    }
}

/// So many circuits in a row cannot be completed only where there are none at all.
const MOST_DRAWS: usize = 10_000;

/// Draws `hops` relays without replacement; integers only, so that it repeats to the bit.
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
            .expect("what was drawn is below the sum of the weights");
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

/// What a client does on each of its circuits, in a closed loop: download or hold, pause, again.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name in output: `web`, `bulk`, or the scenario's own.
    pub name: String,
    /// What it does between two pauses.
    pub does: Activity,
    /// So many circuits at once, each with a loop of its own [1]; above zero.
    pub circuits: u32,
    /// From the last byte of a download, or the end of a hold, to the next one.
    pub pause: Span,
    /// When a client begins.
    pub start: Span,
    /// Every download gets a circuit of its own.
    pub fresh_circuit: bool,
    /// A download that takes longer is given up.
    pub timeout: Option<Duration>,
    /// Size of the request that asks for the file [B]; above zero.
    pub request: Bytes,
}

/// What a client does between two pauses.
#[derive(Clone, Debug, PartialEq)]
pub enum Activity {
    /// It downloads so much [B]; above zero.
    Download(Amount),
    /// Streams and packets as Markov models say.
    Tgen(Tgen),
    /// It opens a circuit, sends nothing, and closes the circuit and its connection so long after it began.
    Hold(Span),
}

/// Traffic of Markov models: flows, each with a circuit of its own; in each of them streams, in each of these packets.
///
/// Source: tgen's actions `traffic`, `flow` and `stream`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tgen {
    /// When flows begin; without it one after the other, with the workload's pause between.
    pub flows: Option<Arc<Markov>>,
    /// When streams of a flow begin; without it a flow is one stream.
    pub streams: Option<Arc<Markov>>,
    /// When packets of a stream leave, on either side.
    pub packets: Arc<Markov>,
    /// What a packet carries [B]; above zero.
    pub packet: Bytes,
}

impl Tgen {
    /// From one stream to the next [s], and what a stream carries both ways [B]: of a few walks, none of them long.
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
        // Never less than a microsecond, whatever a model says.
        ((flow / streams.max(1.0)).max(1e-6), stream)
    }
}

/// How much, each time.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// Always the same [B].
    Fixed(Bytes),
    /// Any whole number of bytes from the first to the second, both included [B].
    Uniform(Bytes, Bytes),
    /// As these quantiles say [B].
    Quantiles(Quantiles),
    /// One of several.
    Mix(Mix),
}

impl Amount {
    /// The amount of one download.
    pub fn draw(&self, rng: &mut Rng) -> Bytes {
        match self {
            Amount::Fixed(bytes) => *bytes,
            Amount::Uniform(low, high) => Bytes::new(rng.between(low.get(), high.get())),
            Amount::Quantiles(sizes) => Bytes::new(sizes.at(rng.unit())),
            Amount::Mix(mix) => mix.draw(rng),
        }
    }

    /// Its mean, rounded down [B].
    pub fn mean(&self) -> Bytes {
        match self {
            Amount::Fixed(bytes) => *bytes,
            Amount::Uniform(low, high) => Bytes::new(low.get() + (high.get() - low.get()) / 2),
            Amount::Quantiles(sizes) => Bytes::new(sizes.mean()),
            Amount::Mix(mix) => mix.mean(),
        }
    }
}

/// Several sizes, each with the weight with which it is drawn; all above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix(Arc<[(f64, Bytes)]>);

impl Mix {
    /// Of these; `None` if there are none, or a weight is not above zero.
    pub fn new(parts: Vec<(f64, Bytes)>) -> Option<Self> {
        let right = |weight: f64| weight > 0.0 && weight.is_finite();
        (!parts.is_empty() && parts.iter().all(|(weight, _)| right(*weight))).then(|| Mix(parts.into()))
    }

    /// Each size with its share of all draws, in `(0, 1]`.
    pub fn shares(&self) -> impl Iterator<Item = (f64, Bytes)> {
        let total = self.total();
        self.0.iter().map(move |(weight, size)| (weight / total, *size))
    }

    fn total(&self) -> f64 {
        self.0.iter().map(|(weight, _)| weight).sum()
    }

    fn draw(&self, rng: &mut Rng) -> Bytes {
        let mut left = rng.unit() * self.total();
        let found = self.0.iter().find(|(weight, _)| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a little of the sum over: it is the last one's.
        found.unwrap_or(&self.0[self.0.len() - 1]).1
    }

    fn mean(&self) -> Bytes {
        Bytes::new(self.shares().map(|(share, size)| share * size.get() as f64).sum::<f64>() as u64)
    }
}

/// So many nanoseconds, from zero to the longest.
fn capped(nanos: f64) -> Duration {
    Duration::from_nanos(nanos as u64).min(LONGEST)
}

/// How long, each time.
#[derive(Clone, Debug, PartialEq)]
pub enum Span {
    /// Always the same.
    Fixed(Duration),
    /// Any whole number of nanoseconds from the first to the second, both included.
    Uniform(Duration, Duration),
    /// The logarithm is normal: around this median, with this deviation, and never more than the last.
    LogNormal(Duration, f64, Duration),
    /// As these quantiles say [ns].
    Quantiles(Quantiles),
    /// Exponential, with this mean.
    Exponential(Duration),
    /// Normal, with this mean and deviation; what is negative is zero.
    Normal(Duration, Duration),
    /// Pareto: the least, and the exponent with which the share above falls, above zero.
    Pareto(Duration, f64),
}

/// No span is longer, so that the sums of many stay far from the largest integer.
pub const LONGEST: Duration = Duration::from_secs(100_000 * 3600);

impl Span {
    /// One span.
    pub fn draw(&self, rng: &mut Rng) -> Duration {
        use penstock_units::time::nanos;
        match self {
            Span::Fixed(span) => *span,
            Span::Uniform(low, high) => Duration::from_nanos(rng.between(nanos(*low), nanos(*high))),
            Span::LogNormal(median, sigma, most) => {
                let factor = math::exp(sigma * rng.normal());
                // Saturates far above any duration that a scenario may have.
                Duration::from_nanos((nanos(*median) as f64 * factor) as u64).min(*most)
            }
            Span::Quantiles(spans) => Duration::from_nanos(spans.at(rng.unit())),
            // `1 - unit` lies in (0, 1]; what is negative or too much saturates.
            Span::Exponential(mean) => capped(-math::ln(1.0 - rng.unit()) * nanos(*mean) as f64),
            Span::Normal(mean, deviation) => {
                capped(nanos(*mean) as f64 + nanos(*deviation) as f64 * rng.normal())
            }
            Span::Pareto(least, shape) => {
                capped(nanos(*least) as f64 * math::pow(1.0 - rng.unit(), -1.0 / shape))
            }
        }
    }

    /// Whether it is never longer than nothing.
    pub fn is_zero(&self) -> bool {
        match self {
            Span::Fixed(most) | Span::Uniform(_, most) | Span::Exponential(most) | Span::Pareto(most, _) => {
                most.is_zero()
            }
            Span::Normal(mean, deviation) => mean.is_zero() && deviation.is_zero(),
            Span::LogNormal(median, ..) => median.is_zero(),
            Span::Quantiles(spans) => spans.ends()[1] == 0,
        }
    }

    /// Its mean.
    pub fn mean(&self) -> Duration {
        match self {
            Span::Fixed(span) => *span,
            Span::Uniform(low, high) => *low + (*high - *low) / 2,
            Span::LogNormal(median, sigma, most) => log_normal_mean(*median, *sigma, *most),
            Span::Quantiles(spans) => Duration::from_nanos(spans.mean()),
            Span::Exponential(mean) | Span::Normal(mean, _) => *mean,
            Span::Pareto(least, shape) if *shape > 1.0 => {
                capped(penstock_units::time::nanos(*least) as f64 * shape / (shape - 1.0))
            }
            // It has none.
            Span::Pareto(..) => LONGEST,
        }
    }
}

/// The mean of a log-normal that is never more than `most`.
///
/// What is below the cap is a log-normal's partial expectation, the rest is the cap itself: with k the cap's place in
/// deviations of the logarithm, m exp(σ²/2) Φ(k - σ) + c (1 - Φ(k)).
///
/// Source: Johnson, Kotz, Balakrishnan: Continuous univariate distributions 1, 1994, chapter 14.
fn log_normal_mean(median: Duration, sigma: f64, most: Duration) -> Duration {
    let [middle, cap] = [median, most].map(|span| span.as_secs_f64());
    if sigma == 0.0 || median.is_zero() || most.is_zero() {
        return median.min(most);
    }
    let place = math::ln(cap / middle) / sigma;
    let below = middle * math::exp(sigma * sigma / 2.0) * math::normal_below(place - sigma);
    // A great deviation makes the first factor infinite where the other is nothing.
    let below = if below.is_finite() { below } else { 0.0 };
    Duration::from_secs_f64((below + cap * math::normal_below(-place)).min(cap))
}
