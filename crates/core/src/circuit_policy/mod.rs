//! Which circuit sends next, and with what priority among all channels?
//!
//! One policy object orders the circuits of one channel. A global scheduler compares the priorities of different
//! channels.

mod class;
mod ewma;
mod flush;
mod round_robin;

pub use class::{PriorityClass, PriorityFactor};
pub use ewma::{Connection, ConnectionConfig, EwmaConfig, Heap, List, Share, Tick};
pub use flush::Flush;
pub use round_robin::RoundRobin;

use crate::factory::Factory;
use crate::keys::CircuitKey;
use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;
use penstock_units::{Cells, Duration, Instant};
use std::fmt;

/// A circuit's priority. The lowest value is served first; values are comparable across all channels of a relay.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Priority(pub f64);

/// The charge for a sent cell [1]. An ordinary cell has the charge 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight(pub f64);

impl Weight {
    /// The charge of an ordinary cell.
    pub const ONE: Weight = Weight(1.0);
}

/// Orders the circuits of one channel.
///
/// A circuit is *eligible* (it may send) from [`on_ready`](Self::on_ready) until [`on_blocked`](Self::on_blocked) or
/// [`on_close`](Self::on_close). The relay calls `on_ready` when an ineligible circuit has cells and credit. It calls
/// `on_flush` after each cell that left a circuit's queue, and then `on_blocked` if the queue is empty or out of
/// credit. Repeated calls of `on_ready` or `on_blocked` change nothing.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait CircuitPolicy: fmt::Debug + Send {
    /// `circuit` has cells and credit, so it may send.
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey);
    /// `circuit` has no cells or no credit until the next `on_ready`.
    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey);
    /// `circuit` moved `cells` to the channel's output buffer. `weight` is the charge for each cell [1].
    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight);
    /// `circuit` is closed.
    fn on_close(&mut self, circuit: CircuitKey);
    /// The eligible circuit that sends next at `now`, with its priority.
    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)>;
    /// How many cells of this circuit leave its queue before the next choice.
    fn flush(&self) -> Flush {
        Flush::Cell
    }
    /// How many circuits the policy examines for one choice [circuit], for models of processor time.
    fn scans(&self) -> u64 {
        1
    }
    /// The operator changed the half-life of cell counts. A policy without half-life ignores this.
    fn set_half_life(&mut self, _now: Instant, _half_life: Duration) {}
}

/// Builds a [`CircuitPolicy`] for each channel of a relay.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum CircuitPolicyConfig {
    #[default]
    RoundRobin,
    EwmaList(EwmaConfig),
    EwmaHeap(EwmaConfig),
    EwmaTick(EwmaConfig),
    EwmaConnection(ConnectionConfig),
    /// An algorithm from outside this workspace.
    Custom(Factory<dyn CircuitPolicy>),
}

impl CircuitPolicyConfig {
    fn with_half_life(self, half_life: Duration) -> Self {
        let of = |ewma| EwmaConfig { half_life, ..ewma };
        match self {
            CircuitPolicyConfig::EwmaList(ewma) => CircuitPolicyConfig::EwmaList(of(ewma)),
            CircuitPolicyConfig::EwmaHeap(ewma) => CircuitPolicyConfig::EwmaHeap(of(ewma)),
            CircuitPolicyConfig::EwmaTick(ewma) => CircuitPolicyConfig::EwmaTick(of(ewma)),
            CircuitPolicyConfig::EwmaConnection(ewma) => {
                CircuitPolicyConfig::EwmaConnection(ConnectionConfig { half_life, ..ewma })
            }
            other @ (CircuitPolicyConfig::RoundRobin | CircuitPolicyConfig::Custom(_)) => other,
        }
    }

    /// The half-life of `other`, if `other` differs from this configuration only in the half-life.
    pub(crate) fn only_half_life(&self, other: &Self) -> Option<Duration> {
        match (self, other) {
            (CircuitPolicyConfig::EwmaList(old), CircuitPolicyConfig::EwmaList(new))
            | (CircuitPolicyConfig::EwmaHeap(old), CircuitPolicyConfig::EwmaHeap(new))
            | (CircuitPolicyConfig::EwmaTick(old), CircuitPolicyConfig::EwmaTick(new))
                if old.flush == new.flush =>
            {
                Some(new.half_life)
            }
            (CircuitPolicyConfig::EwmaConnection(old), CircuitPolicyConfig::EwmaConnection(new))
                if old.share == new.share =>
            {
                Some(new.half_life)
            }
            _ => None,
        }
    }

    pub(crate) fn set_half_life(&mut self, half_life: Duration) {
        *self = std::mem::take(self).with_half_life(half_life);
    }

    /// Builds the circuit policy of one channel.
    pub fn build(&self) -> AnyCircuitPolicy {
        match self {
            CircuitPolicyConfig::RoundRobin => AnyCircuitPolicy::RoundRobin(RoundRobin::default()),
            CircuitPolicyConfig::EwmaList(config) => AnyCircuitPolicy::EwmaList(List::new(*config)),
            CircuitPolicyConfig::EwmaHeap(config) => AnyCircuitPolicy::EwmaHeap(Heap::new(*config)),
            CircuitPolicyConfig::EwmaTick(config) => AnyCircuitPolicy::EwmaTick(Tick::new(*config)),
            CircuitPolicyConfig::EwmaConnection(config) => {
                AnyCircuitPolicy::EwmaConnection(Connection::new(*config))
            }
            CircuitPolicyConfig::Custom(factory) => AnyCircuitPolicy::Custom(factory.build()),
        }
    }
}

/// A built-in policy (stored without an allocation), or an algorithm from outside this workspace.
#[enum_dispatch(CircuitPolicy)]
#[derive(Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum AnyCircuitPolicy {
    RoundRobin(RoundRobin),
    EwmaList(List),
    EwmaHeap(Heap),
    EwmaTick(Tick),
    EwmaConnection(Connection),
    Custom(Box<dyn CircuitPolicy>),
}
