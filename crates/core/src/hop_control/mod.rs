//! What may one hop have outstanding, and what feedback is owed?
//!
//! One object per circuit and direction at one relay. It sees both sides of the relay: what it
//! may forward to the next hop (its credit), and what it owes the hop before for what it forwarded.
//! So at the first node of a direction there is no hop before, and at the last one none after.
//!
//! A hop is controlled if both its nodes know how: they say so when their channel opens ([`HopOffer`]).
//! All others carry whatever comes, so a path may be half upgraded.

mod backtap;
#[cfg(test)]
mod contract;
mod marut;
mod n23;
mod none;
#[cfg(test)]
mod windows;

pub use backtap::{BackTap, MAX_WINDOW, WindowConfig};
pub use marut::{ControlInterval, Counts, Marut, MarutConfig, MiddleWindow, Occupancy};
pub use n23::{AdaptConfig, ExponentialConfig, Kung94Config, LawConfig, MAX_N3, MIN_N3, N23, N23Config};
pub use none::NoHopControl;

use crate::datagram::{Downstream, RoundTrips};
use crate::error::Violation;
use crate::factory::Factory;
use crate::keys::{ChannelKey, Direction};
use penstock_units::{Cells, DataRate, Duration, Instant};
use std::fmt;

/// What one hop tells the one before it: a credit. Its cell is made by the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The direction of the data that this is about.
    pub direction: Direction,
    /// RELAY cells that came over the hop and were forwarded or delivered so far, modulo 2³² [cell].
    pub forwarded: u32,
    /// How many more than these may be sent in all [cell]: N2 + N3.
    pub allowance: u32,
}

/// What a node says of its hop control when a channel is opened, in the link's handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopOffer {
    /// Credits ([`N23`]): how many cells of each circuit and direction it takes before its first one, and how many
    /// it will ever let be outstanding [cell].
    Credits {
        /// At first.
        start: u32,
        /// At most.
        most: u32,
    },
    /// A window by the delay of what is forwarded ([`BackTap`]); over datagrams alone.
    BackTap,
    /// The same by the congestion of all the way ([`Marut`]); over datagrams alone.
    Marut {
        /// Windows count what the last node has not ([`Counts::Path`]).
        path: bool,
    },
    /// An algorithm from outside, by a number of its own.
    Custom(u32),
}

impl HopOffer {
    /// What a node that says `ours` makes of `theirs`: the peer's offer, if both speak of the same.
    pub fn agree(ours: Option<HopOffer>, theirs: Option<HopOffer>) -> Option<HopOffer> {
        let same = match (ours?, theirs?) {
            (HopOffer::Credits { .. }, HopOffer::Credits { .. }) => true,
            (HopOffer::BackTap, HopOffer::BackTap) => true,
            (HopOffer::Marut { path: one }, HopOffer::Marut { path: other }) => one == other,
            (HopOffer::Custom(one), HopOffer::Custom(other)) => one == other,
            _ => false,
        };
        theirs.filter(|_| same)
    }

    /// Whether every hop of a path is controlled whose nodes say this, the client first: neighbours agree.
    pub fn all_along(path: impl IntoIterator<Item = Option<HopOffer>>) -> bool {
        let mut nodes = path.into_iter();
        let first = nodes.next().flatten();
        nodes.try_fold(first, |before, node| HopOffer::agree(before, node).map(Some)).is_some()
    }

    /// Whether it needs a channel of datagrams.
    pub fn needs_datagrams(self) -> bool {
        matches!(self, HopOffer::BackTap | HopOffer::Marut { .. })
    }

    /// Whether a node that agreed on it says what it forwards in its acknowledgements.
    pub(crate) fn round_trips(agreed: Option<HopOffer>) -> RoundTrips {
        match agreed {
            Some(HopOffer::BackTap | HopOffer::Marut { .. } | HopOffer::Custom(_)) => RoundTrips::Forwarded,
            Some(HopOffer::Credits { .. }) | None => RoundTrips::Unknown,
        }
    }
}

/// Where a neighbour is, seen along the cells' way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Cells come from it.
    Before,
    /// Cells go to it.
    After,
}

/// The node on one side, as soon as the channel to it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Which side.
    pub side: Side,
    /// Which way the cells travel that the control is for.
    pub direction: Direction,
    /// The channel to it.
    pub channel: ChannelKey,
    /// What it offered, if this node knows the same: otherwise the hop is not controlled.
    pub agreed: Option<HopOffer>,
}

/// Who made a cell that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The hop before, which waits to hear that it is gone.
    Before,
    /// This node.
    Here,
}

/// How feedback travels to the hop before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditPath {
    /// As the link's own business: behind what is in the output buffer, before all circuits.
    #[default]
    Link,
    /// At the end of the circuit's queue of the other direction; past RELAY cells only while these lack credit.
    Circuit,
    /// With the acknowledgements of a channel of datagrams; its allowance is not carried.
    Acknowledgement,
}

/// How long a RELAY cell took to the next node and out of it again, as word of it came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// This one [ns].
    pub rtt: Duration,
    /// The least that was measured of any circuit to the same neighbour [ns].
    pub base: Duration,
}

/// How a channel's delay is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayConfig {
    /// Until the kernel has sent a cell, instead of until it took it from the output buffer.
    pub kernel: bool,
}

/// What a control may see when time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopSignals {
    /// RELAY cells that wait in the circuit's queue [cell].
    pub queue: Cells,
    /// The channel on which they go; all zero where there is none.
    pub link: LinkSignals,
}

/// A channel, as all circuits that send on it see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSignals {
    /// How much longer than at best cells wait in its output buffer of late; zero while nothing does.
    pub delay: Duration,
    /// What waits in the queues of all these circuits [cell].
    pub queued: Cells,
    /// How many these circuits are [1].
    pub circuits: u32,
    /// What all of them moved to the output buffer since the last tick [cell].
    pub moved: Cells,
}

/// What a tick brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Feedback for the hop before that cannot wait.
    pub feedback: Option<Feedback>,
    /// Another tick is wanted, even if no cell comes.
    pub again: bool,
}

/// Flow control over the hops before and after one node, for one circuit in one direction.
///
/// For a RELAY cell that comes from a neighbour the relay calls `on_received`, then either `on_sent` when the cell
/// leaves the circuit's queue for the output buffer, or `on_delivered` when it was taken at the end of the path; for
/// one that is made here, `on_sent` alone. Cells of the link itself, CREATE and feedback among them, are not counted
/// and need no credit. A returned [`Feedback`] goes to the hop before; the relay fills in its direction.
///
/// What a circuit has in no queue is unknown to the relay: a control that must hold cells back for longer, or wants
/// a smaller loop, has to say so by `credit`.
pub trait HopControl: fmt::Debug + Send {
    /// The channel to the node on one side is open. Before that no RELAY cell crosses it.
    fn on_neighbour(&mut self, neighbour: Neighbour);
    /// The operator changed the node's own rate; `None` is none.
    fn set_rate(&mut self, _rate: Option<DataRate>) {}
    /// How many more RELAY cells may leave the circuit's queue now [cell].
    fn credit(&self) -> Cells;
    /// A RELAY cell came from the hop before. On a [`Violation`] the circuit must close.
    fn on_received(&mut self, now: Instant) -> Result<(), Violation>;
    /// A RELAY cell left the circuit's queue for the next hop.
    fn on_sent(&mut self, now: Instant, source: Source) -> Option<Feedback>;
    /// A RELAY cell was taken here, at the end of its path: its stream's socket has it, or nobody wants it.
    fn on_delivered(&mut self, now: Instant) -> Option<Feedback>;
    /// The next hop sent feedback, which may give credit or take some. On a [`Violation`] the circuit must close.
    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> Result<(), Violation>;
    /// Over datagrams: a round trip was measured; before the `on_feedback` that brought it.
    fn on_round_trip(&mut self, _now: Instant, _trip: RoundTrip) {}
    /// Over datagrams: what the next hop said of the way beyond it, before its `on_feedback`. Returned feedback goes to
    /// the hop before once that is done.
    fn on_downstream(&mut self, _now: Instant, _onward: Downstream) -> Option<Feedback> {
        None
    }
    /// Over datagrams: what to say of the way beyond this node, with any feedback.
    fn downstream(&self, _now: Instant) -> Downstream {
        Downstream::default()
    }
    /// How many RELAY cells may be outstanding on the next hop, if a window says so [cell]; for instruments.
    fn window(&self) -> Option<Cells> {
        None
    }
    /// How long the circuit's queue may get at the packaging edge [cell]; `None` leaves the
    /// edge's own watermarks in force.
    fn edge_queue_limit(&self) -> Option<Cells> {
        None
    }
    /// How its feedback travels.
    fn credit_path(&self) -> CreditPath {
        CreditPath::Link
    }
    /// How often it wants to be told that time passed; `None` is never.
    fn period(&self) -> Option<Duration> {
        None
    }
    /// A period passed. Ticks begin with the circuit's first cell, and stop when no control wants another.
    fn on_tick(&mut self, _now: Instant, _signals: HopSignals) -> Ticked {
        Ticked::default()
    }
}

/// Builds a [`HopControl`] for each circuit and direction.
#[derive(Clone, Debug, Default)]
pub enum HopControlConfig {
    /// [`NoHopControl`].
    #[default]
    None,
    /// [`N23`].
    N23(N23Config),
    /// [`BackTap`].
    BackTap(WindowConfig),
    /// [`Marut`].
    Marut(MarutConfig),
    /// Whatever this builds: the way in for algorithms outside this workspace.
    Custom {
        /// For a circuit and direction.
        control: Factory<dyn HopControl>,
        /// What nodes must both say for it to run between them.
        offer: u32,
        /// How its channels' delays are measured, if it wants to know.
        delay: Option<DelayConfig>,
    },
}

impl HopControlConfig {
    /// The control of one circuit in one direction, at a node with this rate.
    pub fn build(&self, rate: Option<DataRate>) -> AnyHopControl {
        match self {
            HopControlConfig::None => AnyHopControl::None(NoHopControl),
            HopControlConfig::N23(config) => AnyHopControl::N23(Box::new(N23::new(*config))),
            HopControlConfig::BackTap(config) => {
                AnyHopControl::BackTap(Box::new(BackTap::new(*config, rate)))
            }
            HopControlConfig::Marut(config) => AnyHopControl::Marut(Box::new(Marut::new(*config, rate))),
            HopControlConfig::Custom { control, .. } => AnyHopControl::Custom(control.build()),
        }
    }

    /// What a node says when a channel opens; `with_client` if a client is at one of its ends.
    pub fn offer(&self, with_client: bool) -> Option<HopOffer> {
        match self {
            HopControlConfig::None => None,
            HopControlConfig::N23(config) => config.offer(with_client),
            HopControlConfig::BackTap(_) => Some(HopOffer::BackTap),
            HopControlConfig::Marut(config) => Some(HopOffer::Marut { path: config.counts == Counts::Path }),
            HopControlConfig::Custom { offer, .. } => Some(HopOffer::Custom(*offer)),
        }
    }

    /// Whether a node controls the hops to other relays, as the consensus knows it.
    pub fn is_active(&self) -> bool {
        self.offer(false).is_some()
    }

    /// What the consensus says of N23: whether who knows it uses it. Nothing else is asked of the consensus.
    pub fn set_active(&mut self, active: bool) {
        if let HopControlConfig::N23(config) = self {
            config.active = active;
        }
    }

    /// How the delays of this node's channels are to be measured; `None` measures nothing.
    pub(crate) fn delay(&self) -> Option<DelayConfig> {
        match self {
            HopControlConfig::None | HopControlConfig::BackTap(_) | HopControlConfig::Marut(_) => None,
            HopControlConfig::N23(config) => config.delay(),
            HopControlConfig::Custom { delay, .. } => *delay,
        }
    }
}

/// A built-in control, or anyone's. Those with a memory are boxed: most circuits have none.
#[derive(Debug)]
pub enum AnyHopControl {
    /// [`NoHopControl`].
    None(NoHopControl),
    /// [`N23`].
    N23(Box<N23>),
    /// [`BackTap`].
    BackTap(Box<BackTap>),
    /// [`Marut`].
    Marut(Box<Marut>),
    /// An algorithm from outside.
    Custom(Box<dyn HopControl>),
}

macro_rules! each {
    ($self:ident, $control:ident => $call:expr) => {
        match $self {
            AnyHopControl::None($control) => $call,
            AnyHopControl::N23($control) => $call,
            AnyHopControl::BackTap($control) => $call,
            AnyHopControl::Marut($control) => $call,
            AnyHopControl::Custom($control) => $call,
        }
    };
}

impl HopControl for AnyHopControl {
    fn on_neighbour(&mut self, neighbour: Neighbour) {
        each!(self, control => control.on_neighbour(neighbour));
    }
    fn set_rate(&mut self, rate: Option<DataRate>) {
        each!(self, control => control.set_rate(rate));
    }
    fn credit(&self) -> Cells {
        each!(self, control => control.credit())
    }
    fn on_received(&mut self, now: Instant) -> Result<(), Violation> {
        each!(self, control => control.on_received(now))
    }
    fn on_sent(&mut self, now: Instant, source: Source) -> Option<Feedback> {
        each!(self, control => control.on_sent(now, source))
    }
    fn on_delivered(&mut self, now: Instant) -> Option<Feedback> {
        each!(self, control => control.on_delivered(now))
    }
    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> Result<(), Violation> {
        each!(self, control => control.on_feedback(now, feedback))
    }
    fn on_round_trip(&mut self, now: Instant, trip: RoundTrip) {
        each!(self, control => control.on_round_trip(now, trip));
    }
    fn on_downstream(&mut self, now: Instant, downstream: Downstream) -> Option<Feedback> {
        each!(self, control => control.on_downstream(now, downstream))
    }
    fn downstream(&self, now: Instant) -> Downstream {
        each!(self, control => control.downstream(now))
    }
    fn window(&self) -> Option<Cells> {
        each!(self, control => control.window())
    }
    fn edge_queue_limit(&self) -> Option<Cells> {
        each!(self, control => control.edge_queue_limit())
    }
    fn credit_path(&self) -> CreditPath {
        each!(self, control => control.credit_path())
    }
    fn period(&self) -> Option<Duration> {
        each!(self, control => control.period())
    }
    fn on_tick(&mut self, now: Instant, signals: HopSignals) -> Ticked {
        each!(self, control => control.on_tick(now, signals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_controlled_if_all_of_it_speaks_of_the_same() {
        let (credits, backtap) = (Some(HopOffer::Credits { start: 90, most: 510 }), Some(HopOffer::BackTap));
        assert!(HopOffer::all_along([credits; 4]));
        assert!(!HopOffer::all_along([None, credits, credits, credits]), "the client is one of them");
        assert!(!HopOffer::all_along([credits, credits, None, credits]));
        assert!(!HopOffer::all_along([credits, credits, backtap, backtap]));
    }

    #[test]
    fn two_nodes_agree_if_they_speak_of_the_same() {
        let credits = |start| Some(HopOffer::Credits { start, most: 510 });
        assert_eq!(HopOffer::agree(credits(90), credits(510)), credits(510), "the peer's number counts");
        assert_eq!(HopOffer::agree(None, credits(90)), None);
        assert_eq!(HopOffer::agree(credits(90), None), None);
        assert_eq!(HopOffer::agree(credits(90), Some(HopOffer::Custom(1))), None);
        let custom = |number| Some(HopOffer::Custom(number));
        assert_eq!(HopOffer::agree(custom(1), custom(1)), custom(1));
        assert_eq!(HopOffer::agree(custom(1), custom(2)), None);
    }
}
