//! A circuit policy. The circuit with the fewest cells sent so far goes first.

use penstock_core::CircuitKey;
use penstock_core::circuit_policy::{CircuitPolicy, Priority, Weight};
use penstock_units::{Cells, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// The circuit policy of one channel. Unlike in EWMA, the counts never decay.
#[derive(Debug, Default)]
pub(crate) struct LeastSent {
    /// Cells that each circuit has sent [cell]. The map also has circuits that may not send now.
    sent: BTreeMap<CircuitKey, u64>,
    /// Circuits that have cells and may send, sorted by cells sent.
    eligible: BTreeSet<(u64, CircuitKey)>,
}

impl LeastSent {
    fn sent(&self, circuit: CircuitKey) -> u64 {
        self.sent.get(&circuit).copied().unwrap_or(0)
    }
}

impl CircuitPolicy for LeastSent {
    fn on_ready(&mut self, _now: Instant, circuit: CircuitKey) {
        self.eligible.insert((self.sent(circuit), circuit));
    }

    fn on_blocked(&mut self, _now: Instant, circuit: CircuitKey) {
        self.eligible.remove(&(self.sent(circuit), circuit));
    }

    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, _weight: Weight) {
        self.on_blocked(now, circuit);
        *self.sent.entry(circuit).or_default() += cells.get();
        self.on_ready(now, circuit);
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        self.eligible.remove(&(self.sent(circuit), circuit));
        self.sent.remove(&circuit);
    }

    fn head(&self, _now: Instant) -> Option<(Priority, CircuitKey)> {
        self.eligible.first().map(|(sent, circuit)| (Priority(*sent as f64), *circuit))
    }
}
