//! A deterministic simulator of a whole onion-routing network.
//!
//! Layers, in order: [`tcp`] (one end of a connection, sans-IO), `queue` (what happens next, in
//! one total order), `net` (hosts, interfaces, links, connections, and the [`Kernel`] that a
//! relay sees), `script` (one side's part in a stream of a model), `client` (what a client does), [`replay`] (what clients did in an earlier run), `tracker` and `observer` (instruments), `world`
//! (nodes and the loop that drives them).
//!
//! Same scenario, seed and version: same tables, byte for byte, on any machine, alone or beside
//! others in threads. There is no clock, no thread, no hash order and no global state in here.
//!
//! [`Kernel`]: penstock_core::Kernel

pub mod control;
pub mod error;
pub mod tcp;

mod bound;
mod cell;
mod client;
mod event;
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

/// What a run leaves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was recorded.
    pub tables: Tables,
    /// What it cost; the times on the clock are the caller's to fill in.
    pub stats: RunStats,
    /// What every relay and client counted and still has, in the order of their names.
    pub nodes: Vec<NodeReport>,
    /// What is left in the network between them.
    pub network: NetworkReport,
}

/// A relay or client at the end of a run.
///
/// `received + made = sent + consumed + dropped + held`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// What it counted.
    pub counters: Counters,
    /// Cells in its circuit queues and output buffers.
    pub held: Cells,
    /// Channels, circuits and streams that it has.
    pub population: [usize; 3],
    /// What its access link sent and received, headers included [B].
    pub link_bytes: [Bytes; 2],
    /// What it counted of its datagrams.
    pub datagrams: DatagramCounters,
    /// Cells that left in datagrams and are not acknowledged.
    pub unacknowledged: Cells,
}

/// What is between the nodes at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkReport {
    /// Cells written to a kernel and not read from the other one yet.
    pub cells: Cells,
    /// Cells that nobody read: their connections were closed.
    pub lost: Cells,
    /// Connections that are not closed on both sides.
    pub connections: usize,
    /// Packets under way.
    pub packets: usize,
}

/// Runs one variant of a scenario with one seed, which draws its network, too.
///
/// Returns [`Error::Cancelled`] if `control` asked for that; nothing else goes wrong.
pub fn run(scenario: &Scenario, seed: u64, control: &Control) -> Result<Outcome, Error> {
    run_in(scenario, seed, seed, control)
}

/// The same in the network of another seed: relays, rates, places and who has what software are drawn from `network`,
/// what clients do from `seed`.
pub fn run_in(scenario: &Scenario, network: u64, seed: u64, control: &Control) -> Result<Outcome, Error> {
    world::World::new(&scenario.drawn(Seed(network)), Seed(seed), None).run(control)
}

/// The same in an open loop: clients ask for the downloads of an earlier run at their times, whatever becomes of them.
pub fn replay(
    scenario: &Scenario,
    network: u64,
    seed: u64,
    record: &Replay,
    control: &Control,
) -> Result<Outcome, Error> {
    world::World::new(&scenario.drawn(Seed(network)), Seed(seed), Some(record)).run(control)
}
