//! A deterministic simulator of a whole onion-routing network.
//!
//! Layers, in order: [`tcp`] (one end of a connection, sans-IO), `queue` (the timers of a host), `host_queue` (the next
//! host to act), `net` (hosts, links, connections, datagrams, and the [`Kernel`] of a relay), `script` (one side of a
//! stream of a Markov model), `client` (the sessions of a client), [`replay`] (the downloads of an earlier run),
//! `tracker`, `bound` and `observer` (instruments), `world` (nodes and the main loop).
//!
//! The same scenario, seed and version give the same tables, byte for byte, on any machine and next to other runs in
//! threads. The simulator uses no clock, no thread, no hash order and no global state.
//!
//! [`Kernel`]: penstock_core::Kernel

pub mod control;
pub mod error;
pub mod tcp;

mod bound;
mod cell;
mod client;
mod host_queue;
mod net;
mod observer;
mod queue;
pub mod replay;
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
use penstock_units::{Bytes, Cells, Seed};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The recorded rows.
    pub tables: Tables,
    /// The cost of the run. The caller fills in the times of the real clock.
    pub stats: RunStats,
    /// Counters and state of every relay and client, in the order of their names.
    pub nodes: Vec<NodeReport>,
    /// Cells, connections and packets between the nodes at the end.
    pub network: NetworkReport,
}

/// A relay or client at the end of a run.
///
/// `received + made = sent + consumed + dropped + held`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Its counters.
    pub counters: Counters,
    /// Cells in its circuit queues and output buffers.
    pub held: Cells,
    /// Number of open channels, circuits and streams.
    pub population: [usize; 3],
    /// Bytes that its access link sent and received, with headers [B].
    pub link_bytes: [Bytes; 2],
    /// Counters of its datagrams.
    pub datagrams: DatagramCounters,
    /// Cells that it sent in datagrams and that are not acknowledged.
    pub unacknowledged: Cells,
}

/// Cells, connections and packets between the nodes at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkReport {
    /// Cells that one relay wrote to its kernel and the other relay has not read.
    pub cells: Cells,
    /// Cells that were lost when their connection closed.
    pub lost: Cells,
    /// Connections that are not closed on both sides.
    pub connections: usize,
    /// Packets in transit.
    pub packets: usize,
}

/// Runs one variant of a scenario. The seed decides the network and the clients' behaviour.
///
/// Returns [`Error::Cancelled`] if `control` was cancelled. There are no other errors.
pub fn run(scenario: &Scenario, seed: u64, control: &Control) -> Result<Outcome, Error> {
    run_in(scenario, seed, seed, control)
}

/// Runs a variant in the network of another seed. `network` decides relays, rates, places and software; `seed` decides
/// the clients' behaviour.
pub fn run_in(scenario: &Scenario, network: u64, seed: u64, control: &Control) -> Result<Outcome, Error> {
    world::World::new(&scenario.sampled(Seed(network)), Seed(seed), None).run(control)
}

/// Runs a variant in an open loop: clients request the downloads of an earlier run at the recorded times, independently
/// of earlier downloads.
pub fn replay(
    scenario: &Scenario,
    network: u64,
    seed: u64,
    record: &Replay,
    control: &Control,
) -> Result<Outcome, Error> {
    world::World::new(&scenario.sampled(Seed(network)), Seed(seed), Some(record)).run(control)
}
