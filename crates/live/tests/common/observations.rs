//! Observations of a running node.

#![allow(dead_code, reason = "each test uses a part of this module")]

use penstock_live::node::{Node, Observation};
use penstock_units::Duration;
use std::sync::{Arc, Mutex};

/// The minimum interval between two observations.
const OBSERVATION_INTERVAL: Duration = Duration::from_millis(50);

/// The newest observation, and the maxima of all observations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) last: Option<Observation>,
    /// The maxima of each value, over all observations.
    pub(crate) circuits: usize,
    pub(crate) streams: usize,
    pub(crate) queued: u64,
    pub(crate) outbuf: u64,
}

/// The observations of a node, shared by the node's thread and the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations(Arc<Mutex<Summary>>);

impl Observations {
    /// Records an observation if the interval has passed. The node's thread calls this after each
    /// turn.
    pub(crate) fn record(&self, node: &Node) {
        let mut summary = self.0.lock().unwrap();
        let now = node.now();
        if summary.last.as_ref().is_none_or(|last| now.since(last.at) >= OBSERVATION_INTERVAL) {
            let last = node.observe();
            let [_, circuits, streams] = last.population;
            summary.circuits = summary.circuits.max(circuits);
            summary.streams = summary.streams.max(streams);
            summary.queued = summary.queued.max(last.queued.get());
            summary.outbuf = summary.outbuf.max(last.outbuf.get());
            summary.last = Some(last);
        }
    }

    /// All observations so far.
    pub(crate) fn summary(&self) -> Summary {
        self.0.lock().unwrap().clone()
    }

    /// Waits for the next observation. A node takes a turn at least once a second.
    pub(crate) fn next_observation(&self) -> Observation {
        let at = || self.summary().last.map(|last| last.at);
        let before = at();
        while at() == before {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.summary().last.expect("the node was observed")
    }
}
