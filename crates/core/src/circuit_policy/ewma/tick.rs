//! C tor's implementation: time advances in ticks of ten seconds, and each tick rescales all active counts.

use super::{EwmaConfig, IndexedHeap, charge, decay};
use crate::circuit_policy::{CircuitPolicy, Flush, Priority, Weight};
use crate::keys::CircuitKey;
use penstock_units::{Cells, Duration, Instant, math, time};
use std::cell::Cell;

/// The length of a tick [ns] (C tor: `CircuitPriorityTickSecs`).
const TICK: Duration = Duration::from_secs(10);

/// EWMA with a heap whose counts are rescaled at each tick.
///
/// With s = 0.5^(tick/H), a cell that leaves at fraction f of the tick is charged s^(-f). At the end of the tick, all
/// active counts are multiplied by s. This keeps the order of the counts.
///
/// Source: C tor `circuitmux_ewma.c`: `cell_ewma_get_current_tick_and_fraction()`, `scale_active_circuits()`.
/// Deviation: none.
#[derive(Debug)]
pub struct Tick {
    /// The length of a tick, in half-lives [1].
    per_tick: f64,
    flush: Flush,
    tick: u64,
    circuits: IndexedHeap,
    cached: Cell<(Instant, f64)>,
}

impl Tick {
    /// A policy without circuits.
    pub fn new(config: EwmaConfig) -> Self {
        Tick {
            per_tick: per_tick(config.half_life),
            flush: config.flush,
            tick: 0,
            circuits: IndexedHeap::default(),
            cached: Cell::new((Instant::ZERO, 1.0)),
        }
    }

    /// Advances to the tick that contains `now`. Returns the fraction of this tick that has passed.
    fn advance(&mut self, now: Instant) -> f64 {
        let (tick, fraction) = split(now);
        if tick > self.tick {
            self.circuits.rescale_eligible(decay((tick - self.tick) as f64 * self.per_tick));
            self.tick = tick;
        }
        fraction
    }

    fn charge_at(&self, now: Instant, fraction: f64) -> f64 {
        let (at, charge) = self.cached.get();
        if at == now {
            return charge;
        }
        let charge = math::exp2(fraction * self.per_tick);
        self.cached.set((now, charge));
        charge
    }

    fn slot(&mut self, circuit: CircuitKey) -> usize {
        let (tick, per_tick) = (self.tick, self.per_tick);
        self.circuits.slot_of(circuit, tick, |since| decay((tick - since) as f64 * per_tick))
    }
}

fn per_tick(half_life: Duration) -> f64 {
    time::nanos(TICK) as f64 / time::nanos(half_life).max(1) as f64
}

fn split(now: Instant) -> (u64, f64) {
    let tick = time::nanos(TICK);
    (now.as_nanos() / tick, (now.as_nanos() % tick) as f64 / tick as f64)
}

impl CircuitPolicy for Tick {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        self.advance(now);
        let slot = self.slot(circuit);
        self.circuits.enter(slot);
    }

    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        self.advance(now);
        let slot = self.slot(circuit);
        self.circuits.leave(slot, self.tick);
    }

    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        let fraction = self.advance(now);
        let amount = charge(cells, weight) * self.charge_at(now, fraction);
        let slot = self.slot(circuit);
        self.circuits.charge(slot, amount);
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        self.circuits.forget(circuit);
    }

    fn flush(&self) -> Flush {
        self.flush
    }

    fn scans(&self) -> u64 {
        self.circuits.scans()
    }

    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        let best = self.circuits.head()?;
        let (tick, fraction) = split(now);
        let ticks = tick.saturating_sub(self.tick);
        let older = if ticks == 0 { 1.0 } else { decay(ticks as f64 * self.per_tick) };
        Some((Priority(best.count / self.charge_at(now, fraction) * older), best.key))
    }

    fn set_half_life(&mut self, now: Instant, half_life: Duration) {
        // As in C tor, a new half-life changes only the decay factor. The counts stay.
        self.advance(now);
        self.per_tick = per_tick(half_life);
        self.cached.set((now, math::exp2(split(now).1 * self.per_tick)));
    }
}
