//! The heap implementation. All counts refer to one fixed time, so they keep their order without updates.

use super::{EwmaConfig, IndexedHeap, charge, decay, half_lives};
use crate::circuit_policy::{CircuitPolicy, Flush, Priority, Weight};
use crate::keys::CircuitKey;
use penstock_units::{Cells, Duration, Instant, math};
use std::cell::Cell;

/// When the charge of a cell would exceed this value, the reference time of all counts moves to the current time.
const MOST_CHARGE: f64 = (1u64 << 40) as f64;

/// EWMA with a heap of counts at a common reference time. A cell that leaves at time t adds V = 2^((t - ref)/H) to its
/// circuit's count.
///
/// The count of an ineligible circuit is rescaled only when the circuit becomes eligible.
///
/// Source: EWMA §3.5; C tor 06e8370c33. Deviation: none.
#[derive(Debug)]
pub struct Heap {
    config: EwmaConfig,
    reference: Instant,
    /// All circuits. The count of an ineligible circuit has its own reference time [ns].
    circuits: IndexedHeap,
    /// The last time for which V was computed, and this V. One write event sends many cells at the same time (EWMA
    /// §3.5).
    cached: Cell<(Instant, f64)>,
}

impl Heap {
    /// A policy without circuits.
    pub fn new(config: EwmaConfig) -> Self {
        Heap {
            config,
            reference: Instant::ZERO,
            circuits: IndexedHeap::default(),
            cached: Cell::new((Instant::ZERO, 1.0)),
        }
    }

    /// The charge V at `now`, even if V exceeds `MOST_CHARGE`.
    fn charge_at(&self, now: Instant) -> f64 {
        let (at, charge) = self.cached.get();
        if at == now {
            return charge;
        }
        let charge = math::exp2(half_lives(self.reference, now, self.config.half_life));
        self.cached.set((now, charge));
        charge
    }

    /// The charge V at `now`. If V would exceed `MOST_CHARGE`, moves the reference time first.
    fn weight_at(&mut self, now: Instant) -> f64 {
        let charge = self.charge_at(now);
        if charge <= MOST_CHARGE {
            return charge;
        }
        let ahead = half_lives(self.reference, now, self.config.half_life);
        self.circuits.rescale_eligible(decay(ahead));
        self.reference = now;
        self.cached.set((now, 1.0));
        1.0
    }

    fn slot(&mut self, circuit: CircuitKey) -> usize {
        let (reference, half_life) = (self.reference, self.config.half_life);
        self.circuits.slot_of(circuit, reference.as_nanos(), |since| {
            decay(half_lives(Instant::from_nanos(since), reference, half_life))
        })
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
        self.circuits.leave(slot, self.reference.as_nanos());
    }

    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        let amount = charge(cells, weight) * self.weight_at(now);
        let slot = self.slot(circuit);
        self.circuits.charge(slot, amount);
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        self.circuits.forget(circuit);
    }

    fn flush(&self) -> Flush {
        self.config.flush
    }

    fn scans(&self) -> u64 {
        self.circuits.scans()
    }

    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        let best = self.circuits.head()?;
        Some((Priority(best.count / self.charge_at(now)), best.key))
    }

    fn set_half_life(&mut self, now: Instant, half_life: Duration) {
        // Up to now, the old half-life applies to all counts; from now on, the new half-life applies.
        let old = self.config.half_life;
        self.circuits.rescale_eligible(decay(half_lives(self.reference, now, old)));
        self.circuits
            .rescale_others(now.as_nanos(), |since| decay(half_lives(Instant::from_nanos(since), now, old)));
        self.config.half_life = half_life;
        self.reference = now;
        self.cached.set((now, 1.0));
    }
}
