use super::backtap::{MAX_WINDOW, Outstanding, Trips, Window, WindowConfig, forwarded_feedback};
use super::{
    Backlog, CreditPath, DatagramHop, Feedback, HopControl, HopOffer, Neighbour, RoundTrip, Side, Source,
};
use crate::datagram::Downstream;
use crate::error::Violation;
use crate::serial::ahead;
use penstock_units::{Cells, DataRate, Duration, Instant};

/// The configuration of Marut.
///
/// Source: slides, "Marut: Design Specifics". Deviation: each question that the slides leave open is an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarutConfig {
    /// The window of the circuit's first node.
    pub window: WindowConfig,
    /// Which cells the first node's window counts.
    pub counts: Counts,
    /// How middle nodes limit their outstanding cells.
    pub middle: MiddleWindow,
    /// Which number of cells the formula for diff uses.
    pub occupancy: Occupancy,
    /// How often the first node's window changes.
    pub interval: ControlInterval,
    /// A node rounds c_diff down to a multiple of this [1/64 cell]; at least 1. Coarse steps reveal less.
    pub quantum: u16,
    /// A reported c_diff is valid for this many circuit round trips [1], and then decays to zero in the same time. With
    /// `None`, a reported c_diff never decays.
    pub memory: Option<u32>,
    /// A middle node with more cells than this in its queue sends no feedback [cell]; `None` always sends feedback.
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
    /// Cells that the next node has not forwarded, as in BackTap.
    #[default]
    Hop,
    /// Cells that the last node has not forwarded or delivered. FEEDBACK then also contains the last node's count.
    Path,
}

/// How middle nodes limit their outstanding cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MiddleWindow {
    /// A constant window [cell]. The node's rate may limit it further.
    Fixed(u32),
    /// No window at middle nodes, as Marut's authors want. Only the general maximum window applies.
    Open,
    /// A window that follows the middle node's own diff, as in BackTap. The node still reports to the first node.
    Own,
}

/// Which number of cells the formula for diff uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occupancy {
    /// The maximum number of cells that were outstanding in the round.
    #[default]
    Measured,
    /// The node's own window, as Marut's authors use it. At middle nodes the window stays at its initial value.
    Window,
}

/// How often the first node's window changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlInterval {
    /// The window changes once in each round trip of the first hop.
    Hop,
    /// The window changes at most once in each round trip of the circuit. If the last node reports no count, this round
    /// trip is estimated from the first hop's.
    Circuit {
        /// The multiple of the first hop's round trip [1].
        hops: u32,
    },
}

/// How many units of c_diff are one cell [1/cell].
const PER_CELL: f64 = 64.0;

/// Marut at one node of a circuit: the circuit's most congested hop determines the first node's window.
///
/// Every node estimates diff, the number of cells that wait at the next node, as BackTap does. Then c_diff is the
/// maximum of the node's own diff and the c_diff that the next node reported. The node reports c_diff to the previous
/// node. The last node reports nothing. Once in an interval the first node adjusts the window by c_diff; the other
/// nodes do not change their windows.
///
/// Source: slides, "Marut: Design Specifics" and "Effects on Anonymity".
#[derive(Debug)]
pub struct Marut {
    config: MarutConfig,
    rate: Option<DataRate>,
    /// The next hop; `None` while it is unknown, or if it has no hop control.
    after: Option<After>,
    /// The previous hop; `None` while it is unknown, or if it has no hop control.
    before: Option<Before>,
}

#[derive(Clone, Copy, Debug)]
struct After {
    window: Window,
    cells: Outstanding,
    here: u64,
    /// How many sent cells have reached the circuit's last node, by its last report.
    ended: u64,
    trips: Trips,
    /// `round_end`: the cells sent before the current round. `most`: the maximum of outstanding cells in the round.
    round_end: u64,
    most: u64,
    /// `own`: the diff of the last round. `fresh`: the window has not yet used this diff.
    own: f64,
    fresh: bool,
    /// `trip`: the hop's minimum round trip in the last round. `unqueued`: its round trip without queues.
    trip: Duration,
    unqueued: Duration,
    /// The longest hold of a single message on this hop.
    hold: Duration,
    /// The last c_diff that the next hop reported [1/64 cell], and the time of the report.
    reported: (u16, Instant),
    /// `timed`: a cell whose round trip to the last node is being measured, and its send time. `circuit_trip`: the last
    /// result.
    timed: Option<(u64, Instant)>,
    circuit_trip: Option<Duration>,
    circuit_base: Option<Duration>,
    /// When the window last changed, and how many cells were sent before this change.
    changed: (Instant, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Before {
    received: u64,
    /// `forwarded`: cells forwarded or delivered. `taken`: only those that were delivered at this node.
    forwarded: u64,
    taken: u64,
    /// Cells that the circuit's last node has forwarded or delivered.
    ended: u64,
    /// Forwarded cells for which the previous hop got no feedback.
    silent: u64,
}

impl Marut {
    /// The control of one direction of a new circuit. `rate` is the node's own rate.
    pub fn new(config: MarutConfig, rate: Option<DataRate>) -> Self {
        Marut { config, rate, after: None, before: None }
    }

    fn offer(&self) -> HopOffer {
        HopOffer::Marut { path: self.config.counts == Counts::Path }
    }

    fn governs(&self) -> bool {
        self.before.is_none() || self.config.middle == MiddleWindow::Own
    }

    fn limit(&self, after: &After) -> u64 {
        match self.config.middle {
            MiddleWindow::Fixed(cells) if self.before.is_some() => {
                u64::from(cells).min(after.window.most(after.unqueued))
            }
            MiddleWindow::Open if self.before.is_some() => MAX_WINDOW.into(),
            _ => after.window.get(),
        }
    }

    /// The circuit's round trip; if it is not measured, an estimate from the hop's round trip.
    fn circuit_trip(&self, after: &After) -> Duration {
        let hops = if let ControlInterval::Circuit { hops } = self.config.interval { hops } else { 3 };
        after.circuit_trip.unwrap_or(after.trip * hops)
    }

    /// The c_diff that the next hop reported last [1/64 cell]. The value decays with time.
    fn received(&self, now: Instant) -> u16 {
        let Some(after) = &self.after else { return 0 };
        let (reported, at) = after.reported;
        let fresh = self.config.memory.map(|trips| self.circuit_trip(after) * trips);
        let Some(fresh) = fresh.filter(|fresh| !fresh.is_zero()) else { return reported };
        let late = now.since(at).saturating_sub(fresh).as_secs_f64() / fresh.as_secs_f64();
        (f64::from(reported) * (1.0 - late).max(0.0)) as u16
    }

    /// c_diff: the maximum of the node's own diff and the next hop's report [1/64 cell].
    fn cumulative(&self, now: Instant) -> u16 {
        let quantum = f64::from(self.config.quantum.max(1));
        let own = self.after.map_or(0.0, |after| (after.own * PER_CELL / quantum).floor() * quantum);
        (own as u16).max(self.received(now))
    }

    fn occupied(&self, after: &After) -> u64 {
        match self.config.occupancy {
            Occupancy::Measured => after.most,
            Occupancy::Window => after.window.get(),
        }
    }

    fn measure(&mut self) {
        let Some(mut after) = self.after else { return };
        let Outstanding { sent, forwarded } = after.cells;
        let cells = self.occupied(&after);
        if forwarded > after.round_end {
            after.round_end = sent;
            if let Some(diff) = after.trips.diff(cells, self.config.window.samples) {
                (after.own, after.fresh) = (diff, true);
                (after.trip, after.unqueued) =
                    (after.trips.least().unwrap_or_default(), after.trips.unqueued());
                after.trips = Trips::default();
                after.most = after.cells.cells();
            }
        }
        if after.cells.cells() == 0 {
            after.own = 0.0;
        }
        self.after = Some(after);
    }

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
            // The maximum window is the node's rate times the base round trip of the cells that the window counts.
            let unqueued = match self.config.counts {
                Counts::Hop => after.unqueued,
                Counts::Path => after.circuit_base.map_or(Duration::ZERO, |base| base + after.hold),
            };
            after.window.on_round(beyond, after.cells.sent, unqueued);
        }
        self.after = Some(after);
    }

    /// Records that a cell from the previous hop was forwarded or, if `taken`, delivered at this node.
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

    /// Cells forwarded without feedback because too many cells waited [cell].
    pub fn silent(&self) -> u64 {
        self.before.map_or(0, |before| before.silent)
    }
}

impl DatagramHop for Marut {
    fn on_round_trip(&mut self, _now: Instant, trip: RoundTrip) {
        if let Some(after) = &mut self.after {
            after.trips.add(trip);
            after.hold = trip.hold;
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
        // The previous hop's count excludes cells packaged at this node and includes cells delivered at this node.
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
                    unqueued: Duration::ZERO,
                    hold: Duration::ZERO,
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

    fn backlog(&self) -> Option<Backlog> {
        let after = self.after.as_ref()?;
        let is_reported = after.reported.1 > Instant::ZERO;
        let beyond = is_reported.then(|| f64::from(after.reported.0) / PER_CELL);
        Some(Backlog { next: (!after.trip.is_zero()).then_some(after.own), beyond })
    }

    fn credit_path(&self) -> CreditPath {
        CreditPath::Acknowledgement
    }
}
