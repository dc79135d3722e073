//! Estimates the work of a run. The estimate for a run of more than a second is between half and twice the real work.
//!
//! [`queueing_model`](crate::queueing_model) estimates the durations of downloads and pauses. These durations give
//! the number of cells. The number of cells gives CPU time and memory, by the constants below.

use crate::model::{Scenario, Span};
use crate::queueing_model::{PAYLOAD, Session, settle};
use penstock_units::{Duration, Seed};

/// Payload of one TCP segment of a client without Tor [B].
const SEGMENT: f64 = 1448.0;
/// CPU time for one cell on one hop, if all circuits fit into the processor's cache [s].
const SECONDS_PER_CELL: f64 = 5.5e-7;
/// Additional CPU time for one cell on one hop [s], each time the number of circuits doubles above [`CACHED_CIRCUITS`].
const SECONDS_PER_DOUBLING: f64 = 1.4e-7;
/// Number of circuits that fit into the processor's cache [1].
const CACHED_CIRCUITS: f64 = 50.0;
/// CPU time for one TCP segment without Tor, including its acknowledgement [s].
const SECONDS_PER_SEGMENT: f64 = 3.5e-7;
/// Events for one cell on one hop, and for one TCP segment without Tor [1].
const EVENTS_PER_CELL: f64 = 0.9;
const EVENTS_PER_SEGMENT: f64 = 1.6;
/// Memory that every run needs [B].
const BASE_MEMORY: f64 = 2e5;
/// Memory for one circuit on all its hops, with connections, queues and buffers [B]. Measured: 48 to 64 kB in
/// scenarios with 80 to 13,800 clients.
const CIRCUIT_MEMORY: f64 = 5e4;
/// Memory for one relay and its connections to other relays [B].
const RELAY_MEMORY: f64 = 2e4;
/// Memory for one row of an output table until the simulator writes the table [B]. It includes reserved, unused memory.
const ROW_MEMORY: f64 = 400.0;

/// Number of start times of a workload that the estimate samples and averages.
const STARTS: u32 = 32;

/// Estimated work of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Simulated time [s].
    pub simulated: f64,
    /// Finished downloads of all clients [1].
    pub downloads: f64,
    /// Events in the simulator's event queue [1].
    pub events: f64,
    /// CPU time on one core [s].
    pub seconds: f64,
    /// Memory [B].
    pub memory: f64,
}

/// Estimates one run of `scenario` in the network with this seed.
pub(crate) fn estimate(scenario: &Scenario, network: Seed) -> Estimate {
    let scenario = &*scenario.sampled(network);
    let sessions = settle(scenario);
    let simulated = match scenario.run.stop {
        Some(stop) => {
            let start = scenario.workloads[stop.workload].start.mean().as_secs_f64();
            let rate: f64 =
                of_workload(&sessions, stop.workload).map(|session| session.circuits / session.cycle()).sum();
            scenario.run.duration.as_secs_f64().min(start + stop.downloads as f64 / rate)
        }
        None => scenario.run.duration.as_secs_f64(),
    };
    // Rows of output tables per second, except the rows of downloads.
    let relays = scenario.relays.len() as f64;
    let mut rows = per_second(scenario.run.sample) * relays;
    let (mut downloads, mut cells, mut segments) = (0.0, 0.0, 0.0);
    for (index, workload) in scenario.workloads.iter().enumerate() {
        let left = left_after(&workload.start, simulated);
        for session in of_workload(&sessions, index) {
            // A client's own start replaces the start of its workload.
            let own = scenario.clients[session.client].start.as_ref();
            let own = own.map(|start| left_after(start, simulated));
            let left = own.as_ref().unwrap_or(&left);
            let count = session.circuits * left.iter().map(|left| session.downloads_in(*left)).sum::<f64>()
                / left.len() as f64;
            downloads += count;
            let carried = count * session.size;
            if session.hops == 0.0 {
                segments += carried / SEGMENT;
            } else {
                cells += carried / PAYLOAD * session.hops;
            }
            if scenario.trace.workloads.contains(&index) {
                let every = f64::from(scenario.trace.cells);
                let tracked = if every == 0.0 { 0.0 } else { carried / PAYLOAD / every / simulated };
                let sampled = session.circuits * per_second(scenario.trace.interval);
                rows += scenario.trace.share * (session.hops + 1.0) * (tracked + sampled);
            }
        }
    }
    let circuits: f64 = sessions.iter().map(|session| session.circuits).sum();
    let cold = (1.0 + circuits / CACHED_CIRCUITS).log2();
    Estimate {
        simulated,
        downloads,
        events: cells * EVENTS_PER_CELL + segments * EVENTS_PER_SEGMENT,
        seconds: cells * (SECONDS_PER_CELL + cold * SECONDS_PER_DOUBLING) + segments * SECONDS_PER_SEGMENT,
        memory: BASE_MEMORY
            + circuits * CIRCUIT_MEMORY
            + relays * RELAY_MEMORY
            + (simulated * rows + downloads) * ROW_MEMORY,
    }
}

fn of_workload(sessions: &[Session], workload: usize) -> impl Iterator<Item = &Session> {
    sessions.iter().filter(move |session| session.workload == workload)
}

/// Samples start times. Returns the remaining time of the run after each start [s].
fn left_after(start: &Span, simulated: f64) -> Vec<f64> {
    let mut rng = Seed(0).stream("estimate");
    let starts = (0..STARTS).map(|_| start.draw(&mut rng).as_secs_f64());
    starts.map(|start| (simulated - start).max(0.0)).collect()
}

fn per_second(interval: Duration) -> f64 {
    1.0 / interval.as_secs_f64()
}
