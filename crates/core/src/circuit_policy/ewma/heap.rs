//! The heap form: counts refer to one fixed time, so that decay changes no order.

use super::{EwmaConfig, IndexedHeap, charge, decay, half_lives};
use crate::circuit_policy::{CircuitPolicy, Priority, Weight};
use crate::keys::CircuitKey;
use penstock_units::{Cells, Duration, Instant, math};

/// Counts are brought to a new reference time when a cell's charge would exceed 2 to this.
const RENORMALISE_AT: f64 = 40.0;

/// EWMA by a heap keyed by counts at a reference time; a cell at time t is charged V = 2^((t - ref)/H).
///
/// A circuit that is not eligible keeps its count and its own reference, and is rescaled when it returns.
///
/// Source: EWMA §3.5; C tor 06e8370c33. ALGORITHMS 5. Deviation: none.
#[derive(Debug)]
pub struct Heap {
    config: EwmaConfig,
    reference: Instant,
    /// Counts renormalisations; an ineligible circuit's count may refer to an earlier one.
    epochs: Vec<Instant>,
    circuits: IndexedHeap,
    /// V at the time it was last needed: one time per write event, many cells.
    cached: (Instant, f64),
}

impl Heap {
    /// Without circuits.
    pub fn new(config: EwmaConfig) -> Self {
        Heap {
            config,
            reference: Instant::ZERO,
            epochs: vec![Instant::ZERO],
            circuits: IndexedHeap::default(),
            cached: (Instant::ZERO, 1.0),
        }
    }

    fn epoch(&self) -> u64 {
        self.epochs.len() as u64 - 1
    }

    /// V at `now`, after bringing the reference near enough.
    fn weight_at(&mut self, now: Instant) -> f64 {
        if self.cached.0 != now {
            let mut ahead = half_lives(self.reference, now, self.config.half_life);
            if ahead > RENORMALISE_AT {
                self.circuits.rescale_eligible(decay(ahead));
                self.reference = now;
                self.epochs.push(now);
                ahead = 0.0;
            }
            self.cached = (now, math::exp2(ahead));
        }
        self.cached.1
    }

    /// A circuit's slot, its count brought to the present reference.
    fn slot(&mut self, circuit: CircuitKey) -> usize {
        let epoch = self.epoch();
        let slot = self.circuits.slot_of(circuit, epoch);
        let state = &mut self.circuits.slots[slot];
        if state.place.is_none() && state.epoch != epoch {
            let since = self.epochs[state.epoch as usize];
            state.standing.count *= decay(half_lives(since, self.reference, self.config.half_life));
        }
        state.epoch = epoch;
        slot
    }
}

impl CircuitPolicy for Heap {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        self.weight_at(now);
        let slot = self.slot(circuit);
        self.circuits.enter(slot);
    }

    fn on_blocked(&mut self, _now: Instant, circuit: CircuitKey) {
        let slot = self.slot(circuit);
        self.circuits.leave(slot);
    }

    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        let amount = charge(cells, weight) * self.weight_at(now);
        let slot = self.slot(circuit);
        self.circuits.charge(slot, amount);
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        self.circuits.forget(circuit);
    }

    fn looks(&self) -> u64 {
        self.circuits.looks()
    }

    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        let best = self.circuits.head()?;
        let scale = if self.cached.0 == now {
            1.0 / self.cached.1
        } else {
            decay(half_lives(self.reference, now, self.config.half_life))
        };
        Some((Priority(best.count * scale), best.key))
    }

    fn set_half_life(&mut self, now: Instant, half_life: Duration) {
        // Everyone's count as of now, under the old half-life; the new one counts from here.
        let epochs = std::mem::replace(&mut self.epochs, vec![now]);
        for (_, slot) in &mut self.circuits.slots {
            let since = if slot.place.is_some() { self.reference } else { epochs[slot.epoch as usize] };
            slot.standing.count *= decay(half_lives(since, now, self.config.half_life));
            slot.epoch = 0;
        }
        self.config.half_life = half_life;
        self.reference = now;
        self.cached = (now, 1.0);
    }
}
