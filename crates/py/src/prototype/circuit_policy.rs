use super::{Instance, method};
use penstock_core::CircuitKey;
use penstock_core::circuit_policy::{CircuitPolicy, Priority, Weight};
use penstock_units::{Cells, Instant};
use pyo3::prelude::*;
use std::collections::BTreeSet;

/// A Python class that orders the circuits of one channel.
#[derive(Debug)]
pub(super) struct Prototype {
    instance: Instance,
    /// The circuits that may send. Repeated calls do not reach the class, and it must choose one of these.
    ready: BTreeSet<CircuitKey>,
}

impl Prototype {
    pub(super) fn new(instance: Instance) -> Self {
        Prototype { instance, ready: BTreeSet::new() }
    }

    /// The answer of `head`, if it names a circuit that may send.
    fn chosen(&self, value: &Bound<'_, PyAny>) -> Option<(Priority, CircuitKey)> {
        let (priority, index) = value.extract::<(f64, u32)>().ok()?;
        let circuit = CircuitKey::from_index(index);
        (!priority.is_nan() && self.ready.contains(&circuit)).then_some((Priority(priority), circuit))
    }
}

fn index(circuit: CircuitKey) -> u64 {
    circuit.index() as u64
}

const HEAD: &str = "a priority and the number of a circuit that may send";

impl CircuitPolicy for Prototype {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        if self.ready.insert(circuit) {
            self.instance.tell(method!("on_ready"), (now.as_nanos(), index(circuit)));
        }
    }
    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        if self.ready.remove(&circuit) {
            self.instance.tell(method!("on_blocked"), (now.as_nanos(), index(circuit)));
        }
    }
    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        self.instance.tell(method!("on_flush"), (now.as_nanos(), index(circuit), cells.get(), weight.0));
    }
    fn on_close(&mut self, circuit: CircuitKey) {
        self.ready.remove(&circuit);
        self.instance.tell(method!("on_close"), (index(circuit),));
    }
    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        if self.ready.is_empty() {
            return None;
        }
        let read = |value: &Bound<'_, PyAny>| self.chosen(value).map(Some);
        self.instance.call(method!("head"), (now.as_nanos(),), HEAD, read).unwrap_or(None)
    }
}
