//! What may one hop have outstanding, and what feedback is owed?
//!
//! One object per circuit and direction at one relay. It sees both sides of the relay: what it
//! may forward to the next hop (its credit), and what it owes the hop before for what it forwarded.

use crate::factory::Factory;
use crate::keys::Direction;
use penstock_units::{Cells, Instant};
use std::fmt;

/// What one hop tells the one before it: a credit. Its cell is made by the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The direction of the data that this is about.
    pub direction: Direction,
    /// Data cells forwarded so far, modulo 2³² [cell].
    pub forwarded: u32,
    /// The algorithm's own number, such as N3 [cell].
    pub allowance: u32,
}

/// Flow control over one hop of one circuit, in one direction.
///
/// The relay calls `on_sent` for each RELAY cell that leaves the circuit's queue for the output
/// buffer, or is delivered to a stream at the end of the path; a returned [`Feedback`] goes to the
/// hop the cell came from, if it came from one.
pub trait HopControl: fmt::Debug + Send {
    /// How many more cells may leave the circuit's queue now [cell].
    fn credit(&self) -> Cells;
    /// A cell left the circuit's queue for the next hop.
    fn on_sent(&mut self, now: Instant) -> Option<Feedback>;
    /// A cell was delivered here, at the end of the path.
    fn on_delivered(&mut self, now: Instant) -> Option<Feedback>;
    /// The next hop sent feedback; true if the circuit may have become eligible.
    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> bool;
    /// How long the circuit's queue may get at the packaging edge [cell]; `None` leaves the
    /// edge's own watermarks in force.
    fn edge_queue_limit(&self) -> Option<Cells> {
        None
    }
}

/// No control: the hop carries whatever the edges allow.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHopControl;

impl HopControl for NoHopControl {
    fn credit(&self) -> Cells {
        Cells::new(u64::MAX)
    }
    fn on_sent(&mut self, _now: Instant) -> Option<Feedback> {
        None
    }
    fn on_delivered(&mut self, _now: Instant) -> Option<Feedback> {
        None
    }
    fn on_feedback(&mut self, _now: Instant, _feedback: Feedback) -> bool {
        false
    }
}

/// Builds a [`HopControl`] for each circuit and direction.
#[derive(Clone, Debug, Default)]
pub enum HopControlConfig {
    /// [`NoHopControl`].
    #[default]
    None,
    /// Whatever this builds: the way in for algorithms outside this workspace.
    Custom(Factory<dyn HopControl>),
}

impl HopControlConfig {
    /// The control of one circuit in one direction.
    pub fn build(&self) -> AnyHopControl {
        match self {
            HopControlConfig::None => AnyHopControl::None(NoHopControl),
            HopControlConfig::Custom(factory) => AnyHopControl::Custom(factory.build()),
        }
    }
}

/// A built-in control without an allocation, or anyone's.
#[derive(Debug)]
pub enum AnyHopControl {
    /// [`NoHopControl`].
    None(NoHopControl),
    /// An algorithm from outside.
    Custom(Box<dyn HopControl>),
}

macro_rules! each {
    ($self:ident, $control:ident => $call:expr) => {
        match $self {
            AnyHopControl::None($control) => $call,
            AnyHopControl::Custom($control) => $call,
        }
    };
}

impl HopControl for AnyHopControl {
    fn credit(&self) -> Cells {
        each!(self, control => control.credit())
    }
    fn on_sent(&mut self, now: Instant) -> Option<Feedback> {
        each!(self, control => control.on_sent(now))
    }
    fn on_delivered(&mut self, now: Instant) -> Option<Feedback> {
        each!(self, control => control.on_delivered(now))
    }
    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> bool {
        each!(self, control => control.on_feedback(now, feedback))
    }
    fn edge_queue_limit(&self) -> Option<Cells> {
        each!(self, control => control.edge_queue_limit())
    }
}
