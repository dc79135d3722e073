//! A circuit policy: of the circuits that have cells, the one that sent least in its whole life goes first.

use penstock_core::CircuitKey;
use penstock_core::circuit_policy::{CircuitPolicy, Priority, Weight};
use penstock_units::{Cells, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Counts for ever, where EWMA forgets.
#[derive(Debug, Default)]
pub struct LeastSent {
    /// What each circuit sent, eligible or not [cell].
    sent: BTreeMap<CircuitKey, u64>,
    /// Those that have cells and may send, the one that sent least first.
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
