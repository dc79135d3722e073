//! How many cells may one hop have outstanding, and which feedback must a node send?
//!
//! At each relay, each direction of a circuit has a hop control. The hop control limits the cells to the next hop (the
//! credit), and reports forwarded cells to the previous hop (the feedback). The first node of a direction has no
//! previous hop; the last node has no next hop.
//!
//! A hop is controlled if both nodes offer the same control when their channel opens ([`HopOffer`]). All other hops
//! carry cells without a limit, so a path may contain upgraded and old relays.

mod backtap;
mod marut;
mod n23;
mod none;

pub use backtap::{BackTap, BackTapConfig, Judged, MAX_WINDOW, WindowConfig};
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

/// Feedback from a node to the previous hop, for example an N23 credit. The relay makes the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The direction of the data cells that this feedback counts.
    pub direction: Direction,
    /// All RELAY cells that the sender of this feedback has forwarded or delivered so far, modulo 2³² [cell].
    pub forwarded: u32,
    /// How many cells beyond `forwarded` may be outstanding [cell]: N2 + N3.
    pub allowance: u32,
}

/// The hop control that a node offers in the link handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopOffer {
    /// Credits ([`N23`]). The numbers apply to each direction of each circuit.
    Credits {
        /// Cells that the node accepts before its first credit [cell].
        start: u32,
        /// The maximum number of outstanding cells that the node will ever allow [cell].
        most: u32,
    },
    /// A window that follows the forwarding delay ([`BackTap`]); requires datagrams.
    BackTap,
    /// A window that follows the congestion of the whole path ([`Marut`]); requires datagrams.
    Marut {
        /// Whether windows count the cells that have not reached the last node ([`Counts::Path`]).
        path: bool,
    },
    /// An algorithm from outside this workspace, with a number that identifies it.
    Custom(u32),
}

impl HopOffer {
    /// The result of this node's offer `ours` and the peer's offer `theirs`: the peer's offer if both are of the same
    /// kind, otherwise `None`.
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

    /// Whether every hop of a path is controlled. `path` lists the nodes' offers, beginning with the client.
    pub fn all_along(path: impl IntoIterator<Item = Option<HopOffer>>) -> bool {
        let mut nodes = path.into_iter();
        let first = nodes.next().flatten();
        nodes.try_fold(first, |before, node| HopOffer::agree(before, node).map(Some)).is_some()
    }

    /// Whether the control requires a channel of datagrams.
    pub fn needs_datagrams(self) -> bool {
        matches!(self, HopOffer::BackTap | HopOffer::Marut { .. })
    }

    pub(crate) fn round_trips(agreed: Option<HopOffer>) -> RoundTrips {
        match agreed {
            Some(HopOffer::BackTap | HopOffer::Marut { .. } | HopOffer::Custom(_)) => RoundTrips::Forwarded,
            Some(HopOffer::Credits { .. }) | None => RoundTrips::Unknown,
        }
    }
}

/// Whether a neighbour is before or after this node, in the direction of the cells.
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
    /// Whether the neighbour is the previous or the next hop.
    pub side: Side,
    /// The direction of the cells that this hop control counts.
    pub direction: Direction,
    /// The channel to the neighbour.
    pub channel: ChannelKey,
    /// The neighbour's offer, if it matches this node's offer; `None` if the hop has no hop control.
    pub agreed: Option<HopOffer>,
}

/// Where a cell that leaves this node came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The previous hop, which may expect feedback.
    Before,
    /// This node, which packaged the cell.
    Here,
}

/// How feedback travels to the previous hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditPath {
    /// In a link-control cell, which leaves after the cells in the output buffer and before those in circuit queues.
    #[default]
    Link,
    /// In a cell of the circuit's queue for the opposite direction. This cell overtakes RELAY cells only if they lack
    /// credit.
    Circuit,
    /// In the acknowledgements of a channel of datagrams, which do not contain the allowance.
    Acknowledgement,
}

/// The time from sending a RELAY cell to the feedback that the next node has forwarded the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// The newest measurement [ns].
    pub rtt: Duration,
    /// The minimum round trip of all circuits to the same neighbour [ns].
    pub base: Duration,
    /// The maximum time for which a message may wait for a second message of the same datagram [ns].
    pub hold: Duration,
}

/// Where the measured delay of a channel's cells ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayConfig {
    /// True: the delay ends when the kernel has sent the cell. False: it ends when the kernel has taken the cell from
    /// the output buffer.
    pub kernel: bool,
}

/// The measurements that a hop control gets at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopSignals {
    /// RELAY cells that wait in the circuit's queue [cell].
    pub queue: Cells,
    /// Measurements of the channel to the next hop; all zero if there is no channel.
    pub link: LinkSignals,
}

/// Measurements of one channel. All circuits that send on the channel share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSignals {
    /// The recent delay in the channel's output buffer minus the minimum delay; zero if no cell waits.
    pub delay: Duration,
    /// Cells in the queues of all circuits that send on the channel [cell].
    pub queued: Cells,
    /// The number of circuits that send on the channel [1].
    pub circuits: u32,
    /// Cells that these circuits moved to the output buffer since the last tick [cell].
    pub moved: Cells,
}

/// A node's knowledge about a circuit's queues further along the path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// The node's own estimate of the cells that wait at the next node [cell]; `None` before the first estimate.
    pub next: Option<f64>,
    /// The largest estimate of the nodes beyond, in the last report of the next node [cell]; `None` without a report.
    pub beyond: Option<f64>,
}

/// The result of a hop control's tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Feedback that the relay must send to the previous hop now.
    pub feedback: Option<Feedback>,
    /// Whether the control wants another tick even if no cell arrives.
    pub again: bool,
}

/// Hop control of one direction of a circuit at one node, towards the previous and the next hop.
///
/// For a RELAY cell from the previous hop, the relay calls `on_received`. Later it calls `on_sent` when the cell moves
/// from the circuit's queue to the output buffer, or `on_delivered` at the end of the path. For a RELAY cell that this
/// node packaged, the relay calls only `on_sent`. Other cells, such as CREATE and feedback, are not counted and need no
/// credit. The relay sends the returned [`Feedback`] to the previous hop and fills in its direction.
///
/// The relay holds back cells only in circuit queues. To hold back cells, a hop control reduces its `credit`.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait HopControl: DatagramHop + fmt::Debug + Send {
    /// The channel to a neighbour is open. The relay calls this before the first RELAY cell.
    fn on_neighbour(&mut self, neighbour: Neighbour);
    /// The operator changed the node's own rate; `None` means no rate.
    fn set_rate(&mut self, _rate: Option<DataRate>) {}
    /// How many more RELAY cells may leave the circuit's queue now [cell].
    fn credit(&self) -> Cells;
    /// A RELAY cell arrived from the previous hop. On a [`Violation`] the circuit must close.
    fn on_received(&mut self, now: Instant) -> Result<(), Violation>;
    /// A RELAY cell left the circuit's queue for the next hop.
    fn on_sent(&mut self, now: Instant, source: Source) -> Option<Feedback>;
    /// A RELAY cell ended its path at this node: the stream's socket took the data, or the cell was dropped.
    fn on_delivered(&mut self, now: Instant) -> Option<Feedback>;
    /// Feedback from the next hop arrived and may change the credit. On a [`Violation`] the circuit must close.
    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> Result<(), Violation>;
    /// The window of RELAY cells to the next hop [cell]; `None` if there is no window. Only for output.
    fn window(&self) -> Option<Cells> {
        None
    }
    /// The control's knowledge about queues further along the path; `None` if it estimates none. Only for output.
    fn backlog(&self) -> Option<Backlog> {
        None
    }
    /// The maximum length of the circuit's queue at the node that packages cells [cell]. `None` applies
    /// [`EdgeQueue`](crate::config::EdgeQueue).
    fn edge_queue_limit(&self) -> Option<Cells> {
        None
    }
    /// How the feedback of this hop control travels.
    fn credit_path(&self) -> CreditPath {
        CreditPath::Link
    }
    /// The interval between ticks; `None` requests no ticks.
    fn period(&self) -> Option<Duration> {
        None
    }
    /// Handles a tick. Ticks begin with the circuit's first cell, and stop when no hop control requests another tick.
    fn on_tick(&mut self, _now: Instant, _signals: HopSignals) -> Ticked {
        Ticked::default()
    }
}

/// The calls that a hop control gets only on channels of datagrams. A hop control that needs none has an empty `impl`.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait DatagramHop {
    /// A round trip was measured. The relay then calls `on_feedback` for the same message.
    fn on_round_trip(&mut self, _now: Instant, _trip: RoundTrip) {}
    /// The next hop reported congestion further along the path. The relay then calls `on_feedback` for the same
    /// message, and sends the returned feedback to the previous hop.
    fn on_downstream(&mut self, _now: Instant, _downstream: Downstream) -> Option<Feedback> {
        None
    }
    /// The congestion further along the path, for feedback to the previous hop.
    fn downstream(&self, _now: Instant) -> Downstream {
        Downstream::default()
    }
}

/// Builds a [`HopControl`] for each direction of each circuit.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum HopControlConfig {
    #[default]
    None,
    N23(N23Config),
    BackTap(BackTapConfig),
    Marut(MarutConfig),
    /// An algorithm from outside this workspace.
    Custom {
        /// Builds the control of one direction of a circuit.
        control: Factory<dyn HopControl>,
        /// The number that identifies the algorithm in an offer. Both nodes of a hop must offer the same number.
        offer: u32,
        /// How the delay of channels is measured, if the algorithm needs it.
        delay: Option<DelayConfig>,
    },
}

impl HopControlConfig {
    /// Builds the hop control for one direction of a circuit, at a node with this bandwidth rate.
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

    /// The hop control that this node offers when a channel opens. `with_client`: one end of the channel is a client.
    pub fn offer(&self, with_client: bool) -> Option<HopOffer> {
        match self {
            HopControlConfig::None => None,
            HopControlConfig::N23(config) => config.offer(with_client),
            HopControlConfig::BackTap(_) => Some(HopOffer::BackTap),
            HopControlConfig::Marut(config) => Some(HopOffer::Marut { path: config.counts == Counts::Path }),
            HopControlConfig::Custom { offer, .. } => Some(HopOffer::Custom(*offer)),
        }
    }

    /// Whether this node offers hop control to other relays.
    pub fn is_active(&self) -> bool {
        self.offer(false).is_some()
    }

    /// Applies the consensus parameter that enables N23. The consensus has no other parameter of hop control.
    pub fn set_active(&mut self, active: bool) {
        if let HopControlConfig::N23(config) = self {
            config.active = active;
        }
    }

    pub(crate) fn delay(&self) -> Option<DelayConfig> {
        match self {
            HopControlConfig::None | HopControlConfig::BackTap(_) | HopControlConfig::Marut(_) => None,
            HopControlConfig::N23(config) => config.delay(),
            HopControlConfig::Custom { delay, .. } => *delay,
        }
    }
}

/// A built-in control (boxed if it has state), or an algorithm from outside this workspace.
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
    mod contract;
    mod windows;

    use super::*;

    #[test]
    fn a_path_has_hop_control_if_all_nodes_offer_the_same_control() {
        let (credits, backtap) = (Some(HopOffer::Credits { start: 90, most: 510 }), Some(HopOffer::BackTap));
        assert!(HopOffer::all_along([credits; 4]));
        assert!(!HopOffer::all_along([None, credits, credits, credits]), "the client is a node of the path");
        assert!(!HopOffer::all_along([credits, credits, None, credits]));
        assert!(!HopOffer::all_along([credits, credits, backtap, backtap]));
    }

    #[test]
    fn two_nodes_agree_on_equal_offers() {
        let credits = |start| Some(HopOffer::Credits { start, most: 510 });
        assert_eq!(HopOffer::agree(credits(90), credits(510)), credits(510), "the peer's window counts");
        assert_eq!(HopOffer::agree(None, credits(90)), None);
        assert_eq!(HopOffer::agree(credits(90), None), None);
        assert_eq!(HopOffer::agree(credits(90), Some(HopOffer::Custom(1))), None);
        let custom = |number| Some(HopOffer::Custom(number));
        assert_eq!(HopOffer::agree(custom(1), custom(1)), custom(1));
        assert_eq!(HopOffer::agree(custom(1), custom(2)), None);
    }
}
