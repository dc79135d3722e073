//! Which circuit sends next, and with what priority among all channels?
//!
//! One policy object orders the circuits of one channel. Heads compare across the channels of a
//! relay, so that a global scheduler may choose among them.

mod class;
mod ewma;
mod round_robin;

pub use class::{PriorityClass, PriorityFactor};
pub use ewma::{EwmaConfig, Heap, List, Tick};
pub use round_robin::RoundRobin;

use crate::factory::Factory;
use crate::keys::CircuitKey;
use penstock_units::{Cells, Duration, Instant};
use std::fmt;

/// Lower is served first. Comparable across all channels of a relay.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Priority(pub f64);

/// How much a sent cell is charged; 1 is an ordinary cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight(pub f64);

impl Weight {
    /// An ordinary cell.
    pub const ONE: Weight = Weight(1.0);
}

/// Orders the circuits of one channel.
///
/// A circuit is *eligible* from [`on_ready`](Self::on_ready) to [`on_blocked`](Self::on_blocked) or
/// [`on_close`](Self::on_close). The relay calls `on_ready` when a circuit that was not eligible has
/// cells and credit, `on_flush` after each cell that left a circuit's queue, and then `on_blocked` if
/// the queue is empty or out of credit. Repeated calls of `on_ready` or `on_blocked` change nothing.
pub trait CircuitPolicy: fmt::Debug + Send {
    /// `circuit` has cells and may send (again).
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey);
    /// `circuit` is empty or out of credit: skip it until `on_ready`.
    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey);
    /// `cells` of `circuit` left for the channel; `weight` scales the charge [1].
    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight);
    /// `circuit` is gone; forget it.
    fn on_close(&mut self, circuit: CircuitKey);
    /// The eligible circuit to serve at `now`, with its priority.
    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)>;
    /// How many circuits a choice looks at [circuit]: what a model of a processor charges for.
    fn scans(&self) -> u64 {
        1
    }
    /// The operator changed the half-life of what it remembers, if it has one.
    fn set_half_life(&mut self, _now: Instant, _half_life: Duration) {}
}

/// Builds a [`CircuitPolicy`] for each channel of a relay.
#[derive(Clone, Debug, Default)]
pub enum CircuitPolicyConfig {
    /// [`RoundRobin`].
    #[default]
    RoundRobin,
    /// [`List`].
    EwmaList(EwmaConfig),
    /// [`Heap`].
    EwmaHeap(EwmaConfig),
    /// [`Tick`].
    EwmaTick(EwmaConfig),
    /// Whatever this builds: the way in for algorithms outside this workspace.
    Custom(Factory<dyn CircuitPolicy>),
}

impl CircuitPolicyConfig {
    /// The half-life of what a circuit sent, changed; a policy without one stays as it is.
    fn with_half_life(self, half_life: Duration) -> Self {
        let ewma = EwmaConfig { half_life };
        match self {
            CircuitPolicyConfig::EwmaList(_) => CircuitPolicyConfig::EwmaList(ewma),
            CircuitPolicyConfig::EwmaHeap(_) => CircuitPolicyConfig::EwmaHeap(ewma),
            CircuitPolicyConfig::EwmaTick(_) => CircuitPolicyConfig::EwmaTick(ewma),
            other @ (CircuitPolicyConfig::RoundRobin | CircuitPolicyConfig::Custom(_)) => other,
        }
    }

    /// The half-life, if that is all in which `other` differs from this.
    pub(crate) fn only_half_life(&self, other: &Self) -> Option<Duration> {
        match (self, other) {
            (CircuitPolicyConfig::EwmaList(_), CircuitPolicyConfig::EwmaList(new))
            | (CircuitPolicyConfig::EwmaHeap(_), CircuitPolicyConfig::EwmaHeap(new))
            | (CircuitPolicyConfig::EwmaTick(_), CircuitPolicyConfig::EwmaTick(new)) => Some(new.half_life),
            _ => None,
        }
    }

    /// Changes the half-life for channels to come.
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

/// A built-in policy without an allocation, or anyone's.
#[derive(Debug)]
pub enum AnyCircuitPolicy {
    /// [`RoundRobin`].
    RoundRobin(RoundRobin),
    /// [`List`].
    EwmaList(List),
    /// [`Heap`].
    EwmaHeap(Heap),
    /// [`Tick`].
    EwmaTick(Tick),
    /// An algorithm from outside.
    Custom(Box<dyn CircuitPolicy>),
}

macro_rules! each {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            AnyCircuitPolicy::RoundRobin($policy) => $call,
            AnyCircuitPolicy::EwmaList($policy) => $call,
            AnyCircuitPolicy::EwmaHeap($policy) => $call,
            AnyCircuitPolicy::EwmaTick($policy) => $call,
            AnyCircuitPolicy::Custom($policy) => $call,
        }
    };
}

impl CircuitPolicy for AnyCircuitPolicy {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        each!(self, policy => policy.on_ready(now, circuit));
    }
    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        each!(self, policy => policy.on_blocked(now, circuit));
    }
    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        each!(self, policy => policy.on_flush(now, circuit, cells, weight));
    }
    fn on_close(&mut self, circuit: CircuitKey) {
        each!(self, policy => policy.on_close(circuit));
    }
    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        each!(self, policy => policy.head(now))
    }
    fn scans(&self) -> u64 {
        each!(self, policy => policy.scans())
    }
    fn set_half_life(&mut self, now: Instant, half_life: Duration) {
        each!(self, policy => policy.set_half_life(now, half_life));
    }
}
