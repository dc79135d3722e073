//! What may one hop have outstanding, and what feedback is owed?
//!
//! Each circuit and direction at one relay has a hop control. It limits the cells to the next hop (its
//! credit), and makes the feedback to the previous hop about forwarded cells. The first node of a
//! direction has no previous hop; the last one has no next hop.
//!
//! A hop is controlled if both its nodes offer the same control when their channel opens ([`HopOffer`]).
//! All other hops carry everything, so a path may be half upgraded.

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
use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;
use penstock_units::{Cells, DataRate, Duration, Instant};
use std::fmt;

/// Feedback of one hop to the previous one: a credit. The relay makes its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The direction of the data cells.
    pub direction: Direction,
    /// All RELAY cells of the hop that were forwarded or delivered so far, modulo 2³² [cell].
    pub forwarded: u32,
    /// How many more cells than these may be sent in total [cell]: N2 + N3.
    pub allowance: u32,
}

/// A node's offer of hop control in the handshake of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopOffer {
    /// Credits ([`N23`]). The numbers apply to each circuit and direction.
    Credits {
        /// Cells that the node accepts before its first credit [cell].
        start: u32,
        /// The maximum of outstanding cells that it will ever allow [cell].
        most: u32,
    },
    /// A window by the delay of forwarding ([`BackTap`]); only over datagrams.
    BackTap,
    /// A window by the congestion of the whole path ([`Marut`]); only over datagrams.
    Marut {
        /// Windows count the cells that the last node does not have ([`Counts::Path`]).
        path: bool,
    },
    /// An algorithm from outside, with a number of its own.
    Custom(u32),
}

impl HopOffer {
    /// The agreement of a node that offers `ours` with a peer that offers `theirs`: the peer's offer, if
    /// both are of the same kind.
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

    /// Whether every hop of a path is controlled. `path` lists the nodes' offers, the client first.
    pub fn all_along(path: impl IntoIterator<Item = Option<HopOffer>>) -> bool {
        let mut nodes = path.into_iter();
        let first = nodes.next().flatten();
        nodes.try_fold(first, |before, node| HopOffer::agree(before, node).map(Some)).is_some()
    }

    /// Whether the control needs a channel of datagrams.
    pub fn needs_datagrams(self) -> bool {
        matches!(self, HopOffer::BackTap | HopOffer::Marut { .. })
    }

    /// How round trips are measured on a channel with this agreement.
    pub(crate) fn round_trips(agreed: Option<HopOffer>) -> RoundTrips {
        match agreed {
            Some(HopOffer::BackTap | HopOffer::Marut { .. } | HopOffer::Custom(_)) => RoundTrips::Forwarded,
            Some(HopOffer::Credits { .. }) | None => RoundTrips::Unknown,
        }
    }
}

/// The side of a neighbour in the direction of the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The previous hop.
    Before,
    /// The next hop.
    After,
}

/// A neighbour whose channel is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Which side.
    pub side: Side,
    /// The direction of the control's cells.
    pub direction: Direction,
    /// The channel to the neighbour.
    pub channel: ChannelKey,
    /// The neighbour's offer, if this node agrees with it; `None` leaves the hop without control.
    pub agreed: Option<HopOffer>,
}

/// The origin of a cell that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The previous hop, which may wait for feedback.
    Before,
    /// This node.
    Here,
}

/// The path of feedback to the previous hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditPath {
    /// A link-control cell: behind the output buffer, before all circuits.
    #[default]
    Link,
    /// The end of the circuit's queue of the other direction. It overtakes RELAY cells only while they lack credit.
    Circuit,
    /// The acknowledgements of a channel of datagrams, which do not carry the allowance.
    Acknowledgement,
}

/// The time from sending a RELAY cell to the feedback that the next node forwarded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// The newest measurement [ns].
    pub rtt: Duration,
    /// The minimum of all circuits to the same neighbour [ns].
    pub base: Duration,
}

/// The measurement of a channel's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayConfig {
    /// Measure until the kernel has sent a cell, not until it took the cell from the output buffer.
    pub kernel: bool,
}

/// A hop control's view at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopSignals {
    /// RELAY cells that wait in the circuit's queue [cell].
    pub queue: Cells,
    /// The channel of these cells; all zero if there is none.
    pub link: LinkSignals,
}

/// A channel's measurements for all circuits that send on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSignals {
    /// The recent delay in its output buffer above the minimum; zero if nothing waits.
    pub delay: Duration,
    /// Cells in the queues of all these circuits [cell].
    pub queued: Cells,
    /// The number of these circuits [1].
    pub circuits: u32,
    /// Cells that they moved to the output buffer since the last tick [cell].
    pub moved: Cells,
}

/// The result of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Urgent feedback for the previous hop.
    pub feedback: Option<Feedback>,
    /// The control wants another tick, even if no cell comes.
    pub again: bool,
}

/// Flow control over the previous and next hops of one node, for one circuit in one direction.
///
/// For a RELAY cell from the previous hop the relay calls `on_received`. Then it calls `on_sent` when the cell leaves
/// the circuit's queue for the output buffer, or `on_delivered` at the end of the path. For a RELAY cell of this node
/// it calls `on_sent` only. Other cells, such as CREATE and feedback, are not counted and need no credit. The returned
/// [`Feedback`] goes to the previous hop; the relay fills in its direction.
///
/// The relay only holds cells in circuit queues. A control that must delay cells further reduces its `credit`.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait HopControl: DatagramHop + fmt::Debug + Send {
    /// The channel to a neighbour is open. RELAY cells follow only after this call.
    fn on_neighbour(&mut self, neighbour: Neighbour);
    /// The operator changed the node's own rate; `None` is no rate.
    fn set_rate(&mut self, _rate: Option<DataRate>) {}
    /// How many more RELAY cells may leave the circuit's queue now [cell].
    fn credit(&self) -> Cells;
    /// A RELAY cell came from the previous hop. On a [`Violation`] the circuit must close.
    fn on_received(&mut self, now: Instant) -> Result<(), Violation>;
    /// A RELAY cell left the circuit's queue for the next hop.
    fn on_sent(&mut self, now: Instant, source: Source) -> Option<Feedback>;
    /// A RELAY cell ended here, at the end of its path: the stream's socket took it, or it was dropped.
    fn on_delivered(&mut self, now: Instant) -> Option<Feedback>;
    /// The next hop sent feedback, which changes the credit. On a [`Violation`] the circuit must close.
    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> Result<(), Violation>;
    /// The window of RELAY cells on the next hop [cell], for instruments; `None` if there is no window.
    fn window(&self) -> Option<Cells> {
        None
    }
    /// The maximum queue of the circuit at the packaging edge [cell]; `None` leaves the edge's own marks.
    fn edge_queue_limit(&self) -> Option<Cells> {
        None
    }
    /// The path of its feedback.
    fn credit_path(&self) -> CreditPath {
        CreditPath::Link
    }
    /// The interval of ticks; `None` is never.
    fn period(&self) -> Option<Duration> {
        None
    }
    /// Handles a tick. Ticks begin with the circuit's first cell, and stop when no control wants another one.
    fn on_tick(&mut self, _now: Instant, _signals: HopSignals) -> Ticked {
        Ticked::default()
    }
}

/// The part of a hop control that only channels of datagrams use. Other hop controls have an empty `impl`.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait DatagramHop {
    /// A round trip was measured. The `on_feedback` that brought it follows.
    fn on_round_trip(&mut self, _now: Instant, _trip: RoundTrip) {}
    /// The next hop reported the state downstream of it. Its `on_feedback` follows; then the returned feedback
    /// goes to the previous hop.
    fn on_downstream(&mut self, _now: Instant, _downstream: Downstream) -> Option<Feedback> {
        None
    }
    /// The state downstream of this node, which feedback to the previous hop carries.
    fn downstream(&self, _now: Instant) -> Downstream {
        Downstream::default()
    }
}

/// Builds a [`HopControl`] for each circuit and direction.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum HopControlConfig {
    #[default]
    None,
    N23(N23Config),
    BackTap(WindowConfig),
    Marut(MarutConfig),
    /// An algorithm from outside this workspace.
    Custom {
        /// For each circuit and direction.
        control: Factory<dyn HopControl>,
        /// The number in the offer. Both nodes of a hop must offer the same one.
        offer: u32,
        /// The measurement of its channels' delays, if it needs one.
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

    /// A node's offer when a channel opens. `with_client`: a client is at one end of the channel.
    pub fn offer(&self, with_client: bool) -> Option<HopOffer> {
        match self {
            HopControlConfig::None => None,
            HopControlConfig::N23(config) => config.offer(with_client),
            HopControlConfig::BackTap(_) => Some(HopOffer::BackTap),
            HopControlConfig::Marut(config) => Some(HopOffer::Marut { path: config.counts == Counts::Path }),
            HopControlConfig::Custom { offer, .. } => Some(HopOffer::Custom(*offer)),
        }
    }

    /// Whether a node controls the hops to other relays, according to the consensus.
    pub fn is_active(&self) -> bool {
        self.offer(false).is_some()
    }

    /// Applies the consensus's decision on the use of N23. The consensus has no other parameter of hop control.
    pub fn set_active(&mut self, active: bool) {
        if let HopControlConfig::N23(config) = self {
            config.active = active;
        }
    }

    /// The measurement of delays of this node's channels; `None` measures nothing.
    pub(crate) fn delay(&self) -> Option<DelayConfig> {
        match self {
            HopControlConfig::None | HopControlConfig::BackTap(_) | HopControlConfig::Marut(_) => None,
            HopControlConfig::N23(config) => config.delay(),
            HopControlConfig::Custom { delay, .. } => *delay,
        }
    }
}

/// A built-in control, or an algorithm from outside. Those with state are boxed, because most circuits have none.
#[enum_dispatch(HopControl, DatagramHop)]
#[derive(Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum AnyHopControl {
    None(NoHopControl),
    N23(Box<N23>),
    BackTap(Box<BackTap>),
    Marut(Box<Marut>),
    Custom(Box<dyn HopControl>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_controlled_if_all_nodes_offer_the_same_control() {
        let (credits, backtap) = (Some(HopOffer::Credits { start: 90, most: 510 }), Some(HopOffer::BackTap));
        assert!(HopOffer::all_along([credits; 4]));
        assert!(!HopOffer::all_along([None, credits, credits, credits]), "the client is one of them");
        assert!(!HopOffer::all_along([credits, credits, None, credits]));
        assert!(!HopOffer::all_along([credits, credits, backtap, backtap]));
    }

    #[test]
    fn two_nodes_agree_on_equal_offers() {
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
