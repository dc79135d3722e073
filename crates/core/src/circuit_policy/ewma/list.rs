use super::{EwmaConfig, HeapEntry, Turn, charge, decay, half_lives};
use crate::circuit_policy::{CircuitPolicy, Flush, Priority, Weight};
use crate::keys::CircuitKey;
use penstock_units::{Cells, Instant};
use std::collections::BTreeMap;

/// EWMA that scans all active circuits for each choice, as in the first deployed version.
///
/// Source: EWMA §2.3; C tor d3be00e0f4 (first patch).
///
/// Deviation: each read of a count computes its decay, but does not store the result. The values are the same.
#[derive(Debug)]
pub struct List {
    config: EwmaConfig,
    circuits: BTreeMap<CircuitKey, Entry>,
    last: Turn,
}

#[derive(Debug)]
struct Entry {
    count: f64,
    since: Instant,
    turn: Turn,
    eligible: bool,
}

impl List {
    /// A policy without circuits.
    pub fn new(config: EwmaConfig) -> Self {
        List { config, circuits: BTreeMap::new(), last: Turn::default() }
    }

    fn entry(&mut self, now: Instant, circuit: CircuitKey) -> &mut Entry {
        let turn = Turn::never(circuit);
        self.circuits.entry(circuit).or_insert(Entry { count: 0.0, since: now, turn, eligible: false })
    }
}

impl CircuitPolicy for List {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        self.entry(now, circuit).eligible = true;
    }

    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        self.entry(now, circuit).eligible = false;
    }

    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        let half_life = self.config.half_life;
        self.last = self.last.next();
        let turn = self.last;
        let entry = self.entry(now, circuit);
        entry.count = entry.count * decay(half_lives(entry.since, now, half_life)) + charge(cells, weight);
        entry.since = now;
        entry.turn = turn;
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        self.circuits.remove(&circuit);
    }

    fn flush(&self) -> Flush {
        self.config.flush
    }

    fn scans(&self) -> u64 {
        self.circuits.values().filter(|entry| entry.eligible).count() as u64
    }

    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        let half_life = self.config.half_life;
        let standings =
            self.circuits.iter().filter(|(_, entry)| entry.eligible).map(|(key, entry)| HeapEntry {
                count: entry.count * decay(half_lives(entry.since, now, half_life)),
                turn: entry.turn,
                key: *key,
                slot: 0,
            });
        let best = standings.reduce(|best, next| if next.goes_before(&best) { next } else { best })?;
        Some((Priority(best.count), best.key))
    }

    fn set_half_life(&mut self, now: Instant, half_life: penstock_units::Duration) {
        let old = std::mem::replace(&mut self.config.half_life, half_life);
        for entry in self.circuits.values_mut() {
            entry.count *= decay(half_lives(entry.since, now, old));
            entry.since = now;
        }
    }
}
