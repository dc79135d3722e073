//! What a node looked like while it ran.

#![allow(dead_code, reason = "each test takes what it needs of this")]

use penstock_live::node::{Node, Observation};
use penstock_units::Duration;
use std::sync::{Arc, Mutex};

/// A node is looked at so often.
const LOOK: Duration = Duration::from_millis(50);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) last: Option<Observation>,
    /// Most of them at once.
    pub(crate) circuits: usize,
    pub(crate) streams: usize,
    pub(crate) queued: u64,
    pub(crate) outbuf: u64,
}

/// What a node's thread looks at, and a test's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window(Arc<Mutex<Seen>>);

impl Window {
    /// After each turn of the node.
    pub(crate) fn look(&self, node: &Node) {
        let mut seen = self.0.lock().unwrap();
        let now = node.now();
        if seen.last.as_ref().is_none_or(|last| now.since(last.at) >= LOOK) {
            let last = node.observe();
            let [_, circuits, streams] = last.population;
            seen.circuits = seen.circuits.max(circuits);
            seen.streams = seen.streams.max(streams);
            seen.queued = seen.queued.max(last.queued.get());
            seen.outbuf = seen.outbuf.max(last.outbuf.get());
            seen.last = Some(last);
        }
    }

    /// All that was seen so far.
    pub(crate) fn seen(&self) -> Seen {
        self.0.lock().unwrap().clone()
    }

    /// What the node looks like from now on: it turns once a second at least.
    pub(crate) fn now(&self) -> Observation {
        let at = || self.seen().last.map(|last| last.at);
        let before = at();
        while at() == before {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.seen().last.expect("it was looked at")
    }
}
