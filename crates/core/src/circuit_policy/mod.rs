//! Which circuit sends next, and with what priority among all channels?
//!
//! One policy object orders the circuits of one channel. The priorities of the first circuits are
//! comparable across the channels of a relay, so that a global scheduler can choose among them.

mod class;
mod ewma;
mod round_robin;

pub use class::{PriorityClass, PriorityFactor};
pub use ewma::{EwmaConfig, Heap, List, Tick};
pub use round_robin::RoundRobin;

use crate::factory::Factory;
use crate::keys::CircuitKey;
use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;
use penstock_units::{Cells, Duration, Instant};
use std::fmt;

/// The lowest priority value is served first. Comparable across all channels of a relay.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Priority(pub f64);

/// The charge for a sent cell; 1 is an ordinary cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight(pub f64);

impl Weight {
    /// An ordinary cell.
    pub const ONE: Weight = Weight(1.0);
}

/// Orders the circuits of one channel.
///
/// A circuit is *eligible* from [`on_ready`](Self::on_ready) to [`on_blocked`](Self::on_blocked) or
/// [`on_close`](Self::on_close). The relay calls `on_ready` when an ineligible circuit has cells and
/// credit. It calls `on_flush` after each cell that left a circuit's queue, and then `on_blocked` if the
/// queue is empty or out of credit. Repeated calls of `on_ready` or `on_blocked` change nothing.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait CircuitPolicy: fmt::Debug + Send {
    /// `circuit` has cells and may send (again).
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey);
    /// `circuit` is empty or out of credit until the next `on_ready`.
    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey);
    /// `cells` of `circuit` left for the channel; `weight` scales the charge [1].
    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight);
    /// `circuit` is closed.
    fn on_close(&mut self, circuit: CircuitKey);
    /// The eligible circuit to serve at `now`, with its priority.
    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)>;
    /// How many circuits a choice examines [circuit]. A processor model charges for them.
    fn scans(&self) -> u64 {
        1
    }
    /// The operator changed the half-life of cell counts. Policies without one ignore it.
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
    /// An algorithm from outside this workspace.
    Custom(Factory<dyn CircuitPolicy>),
}

impl CircuitPolicyConfig {
    /// The same policy with another half-life, if it has one.
    fn with_half_life(self, half_life: Duration) -> Self {
        let ewma = EwmaConfig { half_life };
        match self {
            CircuitPolicyConfig::EwmaList(_) => CircuitPolicyConfig::EwmaList(ewma),
            CircuitPolicyConfig::EwmaHeap(_) => CircuitPolicyConfig::EwmaHeap(ewma),
            CircuitPolicyConfig::EwmaTick(_) => CircuitPolicyConfig::EwmaTick(ewma),
            other @ (CircuitPolicyConfig::RoundRobin | CircuitPolicyConfig::Custom(_)) => other,
        }
    }

    /// The new half-life, if `other` differs in nothing else.
    pub(crate) fn only_half_life(&self, other: &Self) -> Option<Duration> {
        match (self, other) {
            (CircuitPolicyConfig::EwmaList(_), CircuitPolicyConfig::EwmaList(new))
            | (CircuitPolicyConfig::EwmaHeap(_), CircuitPolicyConfig::EwmaHeap(new))
            | (CircuitPolicyConfig::EwmaTick(_), CircuitPolicyConfig::EwmaTick(new)) => Some(new.half_life),
            _ => None,
        }
    }

    /// Changes the half-life for new channels.
    pub(crate) fn set_half_life(&mut self, half_life: Duration) {
        *self = std::mem::take(self).with_half_life(half_life);
    }

    /// The policy of one channel.
    pub fn build(&self) -> AnyCircuitPolicy {
        match self {
            CircuitPolicyConfig::RoundRobin => AnyCircuitPolicy::RoundRobin(RoundRobin::default()),
            CircuitPolicyConfig::EwmaList(config) => AnyCircuitPolicy::EwmaList(List::new(*config)),
            CircuitPolicyConfig::EwmaHeap(config) => AnyCircuitPolicy::EwmaHeap(Heap::new(*config)),
            CircuitPolicyConfig::EwmaTick(config) => AnyCircuitPolicy::EwmaTick(Tick::new(*config)),
            CircuitPolicyConfig::Custom(factory) => AnyCircuitPolicy::Custom(factory.build()),
        }
    }
}

/// A built-in policy without an allocation, or an algorithm from outside.
#[enum_dispatch(CircuitPolicy)]
#[derive(Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum AnyCircuitPolicy {
    RoundRobin(RoundRobin),
    EwmaList(List),
    EwmaHeap(Heap),
    EwmaTick(Tick),
    Custom(Box<dyn CircuitPolicy>),
}
