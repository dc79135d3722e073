//! A deterministic simulator of a whole onion-routing network.
//!
//! Layers, in order: [`tcp`] (one end of a connection, sans-IO), `queue` (the timers of a host), `host_queue` (the
//! hosts of each window), `awake` (the state of each host that has started), `net` (hosts, links, connections,
//! datagrams, and the [`Kernel`] of a relay), `script` (one end of a stream that follows a Markov model), `client` (the sessions of a
//! client), [`replay`] (the downloads of an earlier run), `tracker`, `bound` and `observer` (measurements), `plan` (all
//! nodes, and the shard of each), `world` (the nodes of a shard), `run` (the main loop, in one thread for each shard).
//!
//! The same scenario, seed and version give the same tables, byte for byte, on any machine, with any number of threads
//! and beside other runs. The simulator uses no real clock, no hash order and no global state.
//!
//! [`Kernel`]: penstock_core::Kernel

pub mod control;
pub mod error;
pub mod tcp;

mod awake;
mod bound;
mod cell;
mod client;
mod host_queue;
mod net;
mod observer;
mod plan;
mod queue;
pub mod replay;
mod run;
mod script;
mod tracker;
mod world;

pub use control::Control;
pub use error::Error;
pub use replay::Replay;

use penstock_core::Counters;
pub use penstock_core::datagram::DatagramCounters;
use penstock_record::{RunStats, Tables};
use penstock_scenario::Scenario;
use penstock_units::{Bytes, Cells, Duration, Seed};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The recorded rows.
    pub tables: Tables,
    /// The cost of the run. The caller adds the real time and the processor time.
    pub stats: RunStats,
    /// The counters and the final state of every relay, and of every client that has started, in the order of their
    /// names.
    pub nodes: Vec<NodeReport>,
    /// Cells, connections and packets between the nodes at the end of the run.
    pub network: NetworkReport,
    /// The speed that several threads allow, relative to one thread, if all events take the same time and waiting takes
    /// none: the number of events, divided by the sum over all windows of the events of the busiest thread.
    pub balance: f64,
}

/// The counters and the state of a relay or client at the end of a run. For its counters and cells, `received + made =
/// sent + consumed + dropped + held`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node's name.
    pub name: String,
    /// Whether the node is a relay; otherwise it is a client.
    pub is_relay: bool,
    /// The learned build timeout; `None` without an adaptive build timeout.
    pub build_times: Option<BuildTimesReport>,
    /// The number of the client's circuits that were over the build timeout, with test circuits [1].
    pub timed_out: u32,
    /// The number of reads, writes and datagrams on channels.
    pub calls: u64,
    /// The number of times that the node asked for the state of a channel's socket.
    pub queries: u64,
    /// The node's counters.
    pub counters: Counters,
    /// Cells in the node's circuit queues and output buffers.
    pub held: Cells,
    /// The numbers of open channels, circuits and streams.
    pub population: [usize; 3],
    /// Bytes that the node's access link sent and received, with headers [B].
    pub link_bytes: [Bytes; 2],
    /// The counters of the node's datagrams.
    pub datagrams: DatagramCounters,
    /// Cells that the node sent in datagrams and that the peer has not acknowledged.
    pub unacknowledged: Cells,
}

/// The adaptive build timeout of a client at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildTimesReport {
    /// The current timeout.
    pub timeout: Duration,
    /// Whether the client has enough build times for an estimate.
    pub is_learned: bool,
    /// The number of test circuits [1].
    pub tests: u32,
}

/// Cells, connections and packets between the nodes at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkReport {
    /// Cells that one node has written to its kernel but the peer has not yet read.
    pub cells: Cells,
    /// Cells lost because their connection closed.
    pub lost: Cells,
    /// Connections that are not yet closed on both sides.
    pub connections: usize,
    /// Packets in transit.
    pub packets: usize,
}

/// Runs one variant of a scenario. The seed determines the network and the clients' behaviour. The only error is
/// [`Error::Cancelled`], after `control` was cancelled.
pub fn run(scenario: &Scenario, seed: u64, control: &Control) -> Result<Outcome, Error> {
    run_in(scenario, seed, seed, control)
}

/// Runs a variant with separate seeds for the network and the clients. `network` determines relays, rates, locations
/// and software; `seed` determines the clients' behaviour.
pub fn run_in(scenario: &Scenario, network: u64, seed: u64, control: &Control) -> Result<Outcome, Error> {
    run_plan(&scenario.sampled(Seed(network)), seed, None, control)
}

/// Runs a variant in an open loop: clients repeat the downloads of an earlier run at the recorded times, even if
/// earlier downloads have not finished.
pub fn replay(
    scenario: &Scenario,
    network: u64,
    seed: u64,
    record: &Replay,
    control: &Control,
) -> Result<Outcome, Error> {
    run_plan(&scenario.sampled(Seed(network)), seed, Some(record), control)
}

fn run_plan(
    scenario: &Scenario,
    seed: u64,
    record: Option<&Replay>,
    control: &Control,
) -> Result<Outcome, Error> {
    run::Run::all(&plan::Plan::new(scenario, Seed(seed), record, control.threads()), control)
}
