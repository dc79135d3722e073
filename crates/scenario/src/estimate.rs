//! An estimate of the work of a run: within a factor of two for runs longer than a second.
//!
//! [`queueing_model`](crate::queueing_model) estimates the durations of downloads and pauses. They determine the number
//! of cells, and the number of cells determines time and memory, by the constants below.

use crate::model::{Scenario, Workload};
use crate::queueing_model::{PAYLOAD, Session, settle};
use penstock_units::{Duration, Seed};

/// Payload of a segment of a connection without Tor [B].
const SEGMENT: f64 = 1448.0;
/// Time of one core for one cell on one hop, all in the cache [s].
const SECONDS_PER_CELL: f64 = 5.5e-7;
/// How much longer it takes with each doubling of the circuits beyond those that the cache holds [s].
const SECONDS_PER_DOUBLING: f64 = 1.4e-7;
/// How many circuits those are [1].
const CACHED_CIRCUITS: f64 = 50.0;
/// Time of one core for one segment of a connection without Tor, its acknowledgement included [s].
const SECONDS_PER_SEGMENT: f64 = 3.5e-7;
/// Events of the queue for one cell on one hop, and for one segment [1].
const EVENTS_PER_CELL: f64 = 0.9;
const EVENTS_PER_SEGMENT: f64 = 1.6;
/// What any run takes [B].
const BASE_MEMORY: f64 = 2e5;
/// What a client's circuit takes on all its hops, with connections, queues and buffers [B]: 48 to 64 kB in scenarios of 80 to 13,800 clients.
const CIRCUIT_MEMORY: f64 = 5e4;
/// What a relay takes, with its connections to others [B].
const RELAY_MEMORY: f64 = 2e4;
/// What a row of a table takes until it is written [B], room for more of them included.
const ROW_MEMORY: f64 = 400.0;

/// Of how many starts what is left of the run is averaged.
const STARTS: u32 = 32;

/// The work of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Simulated time [s].
    pub simulated: f64,
    /// Finished downloads of all clients [1].
    pub downloads: f64,
    /// Events of the queue [1].
    pub events: f64,
    /// Time of one core [s].
    pub seconds: f64,
    /// Memory [B].
    pub memory: f64,
}

/// Estimates one run of `scenario`, in this network of its.
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
    // What is written down each second, but for downloads.
    let relays = scenario.relays.len() as f64;
    let mut rows = per_second(scenario.run.sample) * relays;
    let (mut downloads, mut cells, mut segments) = (0.0, 0.0, 0.0);
    for (index, workload) in scenario.workloads.iter().enumerate() {
        let left = left_to(workload, simulated);
        for session in of_workload(&sessions, index) {
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

/// What is left of the run [s] after some of the times at which a workload may start.
fn left_to(workload: &Workload, simulated: f64) -> Vec<f64> {
    let mut rng = Seed(0).stream("estimate");
    let starts = (0..STARTS).map(|_| workload.start.draw(&mut rng).as_secs_f64());
    starts.map(|start| (simulated - start).max(0.0)).collect()
}

/// How often something happens once in each interval.
fn per_second(interval: Duration) -> f64 {
    1.0 / interval.as_secs_f64()
}
