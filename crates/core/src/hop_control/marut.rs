//! Marut: how much waits on the worst hop travels to the circuit's first node, whose window alone follows it.

use super::backtap::{MAX_WINDOW, Outstanding, Trips, Window, WindowConfig, forwarded_feedback};
use super::{CreditPath, Feedback, HopControl, HopOffer, Neighbour, RoundTrip, Side, Source};
use crate::datagram::Downstream;
use crate::error::Violation;
use crate::serial::ahead;
use penstock_units::{Cells, DataRate, Duration, Instant};

/// How a node runs Marut.
///
/// Source: slides, "Marut: Design Specifics". Deviation: all they leave open is an option here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarutConfig {
    /// The first node's window.
    pub window: WindowConfig,
    /// Which cells that window counts.
    pub counts: Counts,
    /// What a node in the middle lets be outstanding.
    pub middle: MiddleWindow,
    /// What of a hop's cells its diff is a part of.
    pub occupancy: Occupancy,
    /// How often the window changes.
    pub interval: ControlInterval,
    /// A node's own c_diff is said in steps of so much, rounded down [1/64 cell]; at least 1. Coarse steps tell a spy
    /// less.
    pub quantum: u16,
    /// After so many circuit round trips without news what was heard of c_diff fades, and after twice as many it is
    /// gone [1]; `None` keeps it for ever.
    pub memory: Option<u32>,
    /// A node in the middle in whose queue more than this waits tells nothing of what it forwards [cell]; `None` always
    /// tells.
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

/// Which cells the first node's window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// Those that the next node has not forwarded, as BackTap's.
    #[default]
    Hop,
    /// Those that the last node has not forwarded or delivered; FEEDBACK carries its count as well.
    Path,
}

/// What a node in the middle lets be outstanding on its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MiddleWindow {
    /// So many cells [cell], or what its rate carries, if that caps windows. It never changes.
    Fixed(u32),
    /// As much as datagrams hold, whatever the rate carries: Marut's authors ask no window there.
    Open,
    /// A window of its own, by its own diff: this is BackTap with Marut's word to the first node.
    Own,
}

/// What of a hop's cells its diff is a part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occupancy {
    /// The most that were outstanding in the round.
    #[default]
    Measured,
    /// The node's own window, which at nodes in the middle stays at its first value, as Marut's authors have it.
    Window,
}

/// How often the first node's window changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlInterval {
    /// Once in a round trip of its hop.
    Hop,
    /// No oftener than the circuit's round trip, which is measured if the last node's count is heard, and otherwise so
    /// many times that of the hop [1].
    Circuit {
        /// How many.
        hops: u32,
    },
}

/// What c_diff counts in [1/cell].
const PER_CELL: f64 = 64.0;

/// One node of a circuit, in one direction.
///
/// Every node estimates how many of its cells wait at the next one, diff, as BackTap does, and tells the node before of
/// the greater of that and what the next one told: c_diff. The first node adjusts its window with it, once in an
/// interval; the others never change theirs. The last node tells of nothing.
///
/// Source: slides, "Marut: Design Specifics" and "Effects on Anonymity".
#[derive(Debug)]
pub struct Marut {
    config: MarutConfig,
    rate: Option<DataRate>,
    /// Towards the next hop; `None` while it is not known, or if it is not controlled.
    after: Option<After>,
    /// From the hop before; `None` likewise.
    before: Option<Before>,
}

#[derive(Clone, Copy, Debug)]
struct After {
    window: Window,
    cells: Outstanding,
    /// Of them, those that this node made.
    here: u64,
    /// What the last node has of these cells, as far as is known.
    ended: u64,
    trips: Trips,
    /// The last cell that was sent when the hop's round began, and the most outstanding since then.
    round_end: u64,
    most: u64,
    /// diff of the last round, and whether the window has not followed it yet.
    own: f64,
    fresh: bool,
    /// The hop's round trip in the last round, and its least.
    trip: Duration,
    base: Duration,
    /// What the next hop told last [1/64 cell], and when.
    reported: (u16, Instant),
    /// A cell whose way to the last node is timed, and what the last one's took.
    timed: Option<(u64, Instant)>,
    circuit_trip: Option<Duration>,
    /// The least of these.
    circuit_base: Option<Duration>,
    /// The window changed then, and this was the last cell sent.
    changed: (Instant, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Before {
    received: u64,
    /// Forwarded, and taken here.
    forwarded: u64,
    taken: u64,
    /// What the last node has of these cells.
    ended: u64,
    /// Cells forwarded without a word.
    silent: u64,
}

impl Marut {
    /// For a new circuit and direction of a node with this rate.
    pub fn new(config: MarutConfig, rate: Option<DataRate>) -> Self {
        Marut { config, rate, after: None, before: None }
    }

    fn offer(&self) -> HopOffer {
        HopOffer::Marut { path: self.config.counts == Counts::Path }
    }

    /// Whether the window is this node's to change.
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

    /// What a circuit's round trip is, as far as is known.
    fn circuit_trip(&self, after: &After) -> Duration {
        let hops = if let ControlInterval::Circuit { hops } = self.config.interval { hops } else { 3 };
        after.circuit_trip.unwrap_or(after.trip * hops)
    }

    /// What the next hop told, less what time took of it [1/64 cell].
    fn received(&self, now: Instant) -> u16 {
        let Some(after) = &self.after else { return 0 };
        let (reported, at) = after.reported;
        let fresh = self.config.memory.map(|trips| self.circuit_trip(after) * trips);
        let Some(fresh) = fresh.filter(|fresh| !fresh.is_zero()) else { return reported };
        let late = now.since(at).saturating_sub(fresh).as_secs_f64() / fresh.as_secs_f64();
        (f64::from(reported) * (1.0 - late).max(0.0)) as u16
    }

    /// c_diff: the greater of the own diff and what was received [1/64 cell].
    fn cumulative(&self, now: Instant) -> u16 {
        let quantum = f64::from(self.config.quantum.max(1));
        let own = self.after.map_or(0.0, |after| (after.own * PER_CELL / quantum).floor() * quantum);
        // Saturates.
        (own as u16).max(self.received(now))
    }

    /// Of how many cells a hop's diff is a part.
    fn occupied(&self, after: &After) -> u64 {
        match self.config.occupancy {
            Occupancy::Measured => after.most,
            Occupancy::Window => after.window.get(),
        }
    }

    /// The end of a hop's round, if it is one: what waits there.
    fn measure(&mut self) {
        let Some(mut after) = self.after else { return };
        let Outstanding { sent, forwarded } = after.cells;
        let cells = self.occupied(&after);
        if forwarded > after.round_end {
            after.round_end = sent;
            // Too few of them count with those of the next round.
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

    /// The window follows what is known, if it is time.
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
            // What a rate carries while the cells are under way that the window counts.
            let base = match self.config.counts {
                Counts::Hop => after.base,
                Counts::Path => after.circuit_base.unwrap_or_default(),
            };
            after.window.on_round(beyond, after.cells.sent, base);
        }
        self.after = Some(after);
    }

    /// A cell of the hop before is gone from here.
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

    /// Cells that were forwarded without a word, since too many waited [cell].
    pub fn silent(&self) -> u64 {
        self.before.map_or(0, |before| before.silent)
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
        // In the count of the hop before: without what was made here, and with what was taken here.
        let ended = after.ended.saturating_sub(after.here);
        let before = self.before.as_mut()?;
        let ended = (ended + before.taken).min(before.forwarded);
        let grew = ended > before.ended;
        before.ended = before.ended.max(ended);
        grew.then(|| forwarded_feedback(before.forwarded))
    }

    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> Result<(), Violation> {
        let Some(after) = &mut self.after else { return Ok(()) };
        if after.cells.on_forwarded(feedback.forwarded)? {
            self.measure();
            self.adjust(now);
        }
        Ok(())
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
