//! Marut: the congestion of the worst hop travels to the circuit's first node, and only that node's window follows it.

use super::backtap::{MAX_WINDOW, Outstanding, Trips, Window, WindowConfig, forwarded_feedback};
use super::{CreditPath, DatagramHop, Feedback, HopControl, HopOffer, Neighbour, RoundTrip, Side, Source};
use crate::datagram::Downstream;
use crate::error::Violation;
use crate::serial::ahead;
use penstock_units::{Cells, DataRate, Duration, Instant};

/// The configuration of Marut.
///
/// Source: slides, "Marut: Design Specifics". Deviation: all their open points are options here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarutConfig {
    /// The first node's window.
    pub window: WindowConfig,
    /// The cells that this window counts.
    pub counts: Counts,
    /// The limit of outstanding cells at middle nodes.
    pub middle: MiddleWindow,
    /// The base of a hop's diff.
    pub occupancy: Occupancy,
    /// How often the window changes.
    pub interval: ControlInterval,
    /// A node reports its own c_diff in steps of this size, rounded down [1/64 cell]; at least 1. Coarse
    /// steps reveal less to a spy.
    pub quantum: u16,
    /// After this many circuit round trips without news, a reported c_diff fades, and after twice as
    /// many it is zero [1]; `None` keeps it forever.
    pub memory: Option<u32>,
    /// A middle node with more cells than this in its queue sends no feedback [cell]; `None` always sends it.
    pub queue_cap: Option<u32>,
}

impl Default for MarutConfig {
    fn default() -> Self {
        MarutConfig {
            window: WindowConfig::default(),
            counts: Counts::Hop,
            middle: MiddleWindow::Fixed(1024),
            occupancy: Occupancy::Measured,
            interval: ControlInterval::Circuit { hops: 3 },
            quantum: 1,
            memory: Some(2),
            queue_cap: Some(2000),
        }
    }
}

/// The cells that the first node's window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// Cells that the next node has not forwarded, as in BackTap.
    #[default]
    Hop,
    /// Cells that the last node has not forwarded or delivered. FEEDBACK carries its count, too.
    Path,
}

/// The limit of outstanding cells at middle nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MiddleWindow {
    /// This many cells [cell], or fewer if the node's rate caps windows. It never changes.
    Fixed(u32),
    /// As much as datagrams hold, for any rate: Marut's authors want no window there.
    Open,
    /// A window of its own, by its own diff: BackTap with Marut's reports to the first node.
    Own,
}

/// The base of a hop's diff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occupancy {
    /// The most cells that were outstanding in the round.
    #[default]
    Measured,
    /// The node's own window, as Marut's authors have it. At middle nodes it stays at its first value.
    Window,
}

/// How often the first node's window changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlInterval {
    /// Once in a round trip of its hop.
    Hop,
    /// At most once in a round trip of the circuit. It is measured if the last node's count is reported,
    /// otherwise it is this multiple of the hop's round trip [1].
    Circuit {
        /// The multiple.
        hops: u32,
    },
}

/// The unit of c_diff [1/cell].
const PER_CELL: f64 = 64.0;

/// Marut at one node of a circuit, in one direction.
///
/// Every node estimates how many of its cells wait at the next node, diff, as BackTap does. It reports c_diff to the
/// previous node: the greater of its diff and the next node's c_diff. The first node adjusts its window by c_diff, once
/// in an interval; other nodes never change theirs. The last node reports nothing.
///
/// Source: slides, "Marut: Design Specifics" and "Effects on Anonymity".
#[derive(Debug)]
pub struct Marut {
    config: MarutConfig,
    rate: Option<DataRate>,
    /// The next hop; `None` while it is unknown, or if it is not controlled.
    after: Option<After>,
    /// The previous hop, likewise.
    before: Option<Before>,
}

#[derive(Clone, Copy, Debug)]
struct After {
    window: Window,
    cells: Outstanding,
    /// Those of them that this node made.
    here: u64,
    /// Those that the last node has, according to the last report.
    ended: u64,
    trips: Trips,
    /// The last cell sent when the hop's round began, and the most outstanding cells since then.
    round_end: u64,
    most: u64,
    /// The diff of the last round, and whether the window has not followed it yet.
    own: f64,
    fresh: bool,
    /// The hop's round trip in the last round, and its minimum.
    trip: Duration,
    base: Duration,
    /// The last report of the next hop [1/64 cell], and when it came.
    reported: (u16, Instant),
    /// A cell whose time to the last node is measured, and the last result.
    timed: Option<(u64, Instant)>,
    circuit_trip: Option<Duration>,
    /// The minimum of these.
    circuit_base: Option<Duration>,
    /// When the window changed last, and the last cell sent then.
    changed: (Instant, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Before {
    received: u64,
    /// Cells forwarded or delivered, and those of them delivered here.
    forwarded: u64,
    taken: u64,
    /// Cells that the last node has.
    ended: u64,
    /// Cells forwarded without feedback.
    silent: u64,
}

impl Marut {
    /// The control of a new circuit and direction of a node with this rate.
    pub fn new(config: MarutConfig, rate: Option<DataRate>) -> Self {
        Marut { config, rate, after: None, before: None }
    }

    fn offer(&self) -> HopOffer {
        HopOffer::Marut { path: self.config.counts == Counts::Path }
    }

    /// Whether this node changes its window.
    fn governs(&self) -> bool {
        self.before.is_none() || self.config.middle == MiddleWindow::Own
    }

    fn limit(&self, after: &After) -> u64 {
        match self.config.middle {
            MiddleWindow::Fixed(cells) if self.before.is_some() => {
                u64::from(cells).min(after.window.most(after.base))
            }
            MiddleWindow::Open if self.before.is_some() => MAX_WINDOW.into(),
            _ => after.window.get(),
        }
    }

    /// The best estimate of the circuit's round trip.
    fn circuit_trip(&self, after: &After) -> Duration {
        let hops = if let ControlInterval::Circuit { hops } = self.config.interval { hops } else { 3 };
        after.circuit_trip.unwrap_or(after.trip * hops)
    }

    /// The next hop's last report, faded with time [1/64 cell].
    fn received(&self, now: Instant) -> u16 {
        let Some(after) = &self.after else { return 0 };
        let (reported, at) = after.reported;
        let fresh = self.config.memory.map(|trips| self.circuit_trip(after) * trips);
        let Some(fresh) = fresh.filter(|fresh| !fresh.is_zero()) else { return reported };
        let late = now.since(at).saturating_sub(fresh).as_secs_f64() / fresh.as_secs_f64();
        (f64::from(reported) * (1.0 - late).max(0.0)) as u16
    }

    /// c_diff: the greater of the own diff and the next hop's report [1/64 cell].
    fn cumulative(&self, now: Instant) -> u16 {
        let quantum = f64::from(self.config.quantum.max(1));
        let own = self.after.map_or(0.0, |after| (after.own * PER_CELL / quantum).floor() * quantum);
        // The conversion saturates.
        (own as u16).max(self.received(now))
    }

    /// The base of a hop's diff [cell].
    fn occupied(&self, after: &After) -> u64 {
        match self.config.occupancy {
            Occupancy::Measured => after.most,
            Occupancy::Window => after.window.get(),
        }
    }

    /// Computes diff at the end of a hop's round.
    fn measure(&mut self) {
        let Some(mut after) = self.after else { return };
        let Outstanding { sent, forwarded } = after.cells;
        let cells = self.occupied(&after);
        if forwarded > after.round_end {
            after.round_end = sent;
            // A round with too few samples continues.
            if let Some(diff) = after.trips.diff(cells, self.config.window.samples) {
                (after.own, after.fresh) = (diff, true);
                (after.trip, after.base) = (after.trips.least().unwrap_or_default(), after.trips.base());
                after.trips = Trips::default();
                after.most = after.cells.cells();
            }
        }
        if after.cells.cells() == 0 {
            after.own = 0.0;
        }
        self.after = Some(after);
    }

    /// Adjusts the window if its interval is over.
    fn adjust(&mut self, now: Instant) {
        let Some(mut after) = self.after.filter(|_| self.governs()) else { return };
        let alone = self.before.is_some();
        let beyond = if alone { after.own } else { f64::from(self.cumulative(now)) / PER_CELL };
        let through = match self.config.counts {
            Counts::Hop => after.cells.forwarded,
            Counts::Path => after.ended,
        };
        let occupied = self.occupied(&after);
        let waits = after.trips.diff(occupied, self.config.window.samples).map(|diff| diff.max(beyond));
        after.window.on_forwarded(waits, through);
        let pause = match self.config.interval {
            ControlInterval::Hop => Duration::ZERO,
            ControlInterval::Circuit { .. } => self.circuit_trip(&after),
        };
        if after.fresh && through > after.changed.1 && now >= after.changed.0 + pause {
            after.fresh = false;
            after.changed = (now, after.cells.sent);
            // The cap is the node's rate times the base time of the counted cells.
            let base = match self.config.counts {
                Counts::Hop => after.base,
                Counts::Path => after.circuit_base.unwrap_or_default(),
            };
            after.window.on_round(beyond, after.cells.sent, base);
        }
        self.after = Some(after);
    }

    /// A cell of the previous hop left this node.
    fn on_gone(&mut self, taken: bool) -> Option<Feedback> {
        let cap = self.config.queue_cap.map_or(u64::MAX, u64::from);
        let before = self.before.as_mut()?;
        before.forwarded += 1;
        before.taken += u64::from(taken);
        if before.received.saturating_sub(before.forwarded) > cap {
            before.silent += 1;
            return None;
        }
        Some(forwarded_feedback(before.forwarded))
    }

    /// Cells that were forwarded without feedback, because too many waited [cell].
    pub fn silent(&self) -> u64 {
        self.before.map_or(0, |before| before.silent)
    }
}

impl DatagramHop for Marut {
    fn on_round_trip(&mut self, _now: Instant, trip: RoundTrip) {
        if let Some(after) = &mut self.after {
            after.trips.add(trip.rtt, trip.base);
        }
    }

    fn on_downstream(&mut self, now: Instant, downstream: Downstream) -> Option<Feedback> {
        let after = self.after.as_mut()?;
        if let Some(congestion) = downstream.congestion {
            after.reported = (congestion, now);
        }
        let ended = downstream.ended.filter(|_| self.config.counts == Counts::Path)?;
        let ended = after.ended + u64::try_from(ahead(ended, after.ended)).ok()?;
        after.ended = ended.min(after.cells.sent);
        if let Some((_, at)) = after.timed.take_if(|(cell, _)| *cell <= after.ended) {
            let trip = now.since(at);
            after.circuit_trip = Some(trip);
            after.circuit_base = Some(after.circuit_base.map_or(trip, |base| base.min(trip)));
        }
        // In the count of the previous hop: without cells made here, and with cells delivered here.
        let ended = after.ended.saturating_sub(after.here);
        let before = self.before.as_mut()?;
        let ended = (ended + before.taken).min(before.forwarded);
        let grew = ended > before.ended;
        before.ended = before.ended.max(ended);
        grew.then(|| forwarded_feedback(before.forwarded))
    }

    fn downstream(&self, now: Instant) -> Downstream {
        let ended = || match (&self.before, &self.after) {
            (Some(before), Some(_)) => before.ended as u32,
            (Some(before), None) => before.forwarded as u32,
            (None, _) => 0,
        };
        Downstream {
            congestion: Some(self.cumulative(now)),
            ended: (self.config.counts == Counts::Path).then(ended),
        }
    }
}

impl HopControl for Marut {
    fn on_neighbour(&mut self, neighbour: Neighbour) {
        if neighbour.agreed != Some(self.offer()) {
            return;
        }
        match neighbour.side {
            Side::Before => self.before = Some(Before::default()),
            Side::After => {
                self.after = Some(After {
                    window: Window::new(self.config.window, self.rate),
                    cells: Outstanding::default(),
                    here: 0,
                    ended: 0,
                    trips: Trips::default(),
                    round_end: 0,
                    most: 0,
                    own: 0.0,
                    fresh: false,
                    trip: Duration::ZERO,
                    base: Duration::ZERO,
                    reported: (0, Instant::ZERO),
                    timed: None,
                    circuit_trip: None,
                    circuit_base: None,
                    changed: (Instant::ZERO, 0),
                });
            }
        }
    }

    fn set_rate(&mut self, rate: Option<DataRate>) {
        self.rate = rate;
        if let Some(after) = &mut self.after {
            after.window.set_rate(rate);
        }
    }

    fn credit(&self) -> Cells {
        let left = |after: After| {
            let begins = self.before.is_none() && self.config.counts == Counts::Path;
            let outstanding = if begins { after.cells.sent - after.ended } else { after.cells.cells() };
            self.limit(&after).saturating_sub(outstanding)
        };
        Cells::new(self.after.map_or(u64::MAX, left))
    }

    fn on_received(&mut self, _now: Instant) -> Result<(), Violation> {
        if let Some(before) = &mut self.before {
            before.received += 1;
        }
        Ok(())
    }

    fn on_sent(&mut self, now: Instant, source: Source) -> Option<Feedback> {
        if let Some(after) = &mut self.after {
            after.cells.sent += 1;
            after.here += u64::from(source == Source::Here);
            after.most = after.most.max(after.cells.cells());
            after.timed.get_or_insert((after.cells.sent, now));
        }
        if source == Source::Before { self.on_gone(false) } else { None }
    }

    fn on_delivered(&mut self, _now: Instant) -> Option<Feedback> {
        self.on_gone(true)
    }

    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> Result<(), Violation> {
        let Some(after) = &mut self.after else { return Ok(()) };
        if after.cells.on_forwarded(feedback.forwarded)? {
            self.measure();
            self.adjust(now);
        }
        Ok(())
    }

    fn edge_queue_limit(&self) -> Option<Cells> {
        self.after.map(|_| self.credit())
    }

    fn window(&self) -> Option<Cells> {
        self.after.map(|after| Cells::new(self.limit(&after)))
    }

    fn credit_path(&self) -> CreditPath {
        CreditPath::Acknowledgement
    }
}
