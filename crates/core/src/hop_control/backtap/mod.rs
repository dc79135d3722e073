//! BackTap: for each circuit and hop, a window that follows the delay of forwarding at the next node.

mod recent;
mod window;

pub use window::{MAX_WINDOW, WindowConfig};
pub(super) use window::{Trips, Window};

use recent::RecentTrips;

use super::{
    Backlog, CreditPath, DatagramHop, Feedback, HopControl, HopOffer, Neighbour, RoundTrip, Side, Source,
};
use crate::error::Violation;
use crate::keys::Direction;
use crate::serial::ahead;
use penstock_units::{Cells, DataRate, Instant};

/// When a window changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judged {
    /// At the end of a round. actualRtt is the minimum of the round.
    #[default]
    Round,
    /// At every report of forwarded cells. actualRtt is the minimum of the last round trip before the report.
    Report,
}

/// The configuration of [`BackTap`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackTapConfig {
    /// The windows.
    pub window: WindowConfig,
    /// When a window changes.
    ///
    /// Source: slides, "BackTap Congestion Control": "smallest RTT sample during the last RTT", and no time between two
    /// changes. nstor has rounds. Deviation: a report of several cells causes one change.
    pub judged: Judged,
}

/// Counts of the cells that this node sent to the next node, and of those that the next node forwarded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outstanding {
    pub(super) sent: u64,
    pub(super) forwarded: u64,
}

impl Outstanding {
    pub(super) fn cells(&self) -> u64 {
        self.sent - self.forwarded
    }

    /// Handles the next node's count of forwarded cells (modulo 2³²). Returns false if the count is outdated.
    pub(super) fn on_forwarded(&mut self, forwarded: u32) -> Result<bool, Violation> {
        let Ok(ahead) = u64::try_from(ahead(forwarded, self.forwarded)) else { return Ok(false) };
        if self.forwarded + ahead > self.sent {
            return Err(Violation::ForgedCredit);
        }
        self.forwarded += ahead;
        Ok(true)
    }
}

/// BackTap: a window for each circuit and hop that follows the delay until the next node forwards a cell.
///
/// At most cwnd cells are outstanding: sent, but not reported as forwarded. A round ends when the next node has
/// forwarded a cell that was sent after the previous round ended, and the round has at least three round trips. Then
/// diff = cwnd · (actualRtt / baseRtt − 1) estimates the cells that wait at the next node. actualRtt is the minimum of
/// the round, and baseRtt the minimum of all circuits to this neighbour. The window grows by one cell if diff is below
/// α, and shrinks by one cell if diff is above β. Each forwarded cell causes feedback to the previous node. The first
/// node of a circuit reads its streams only if the window has space.
///
/// With [`Judged::Report`], there are no rounds: the window changes by at most one cell at each report of newly forwarded
/// cells, and actualRtt is the minimum of the last round trip.
///
/// Source: slides, "BackTap Congestion Control" and "Bktap Queue Management"; nstor for rounds and numbers.
/// Deviation: see [`WindowConfig`] for questions that the slides leave open. A cell counts as sent when it leaves the
/// circuit's queue, so cells in the output buffer count as sent.
#[derive(Debug)]
pub struct BackTap {
    /// The next hop; `None` while it is unknown, or if it has no hop control.
    after: Option<After>,
    config: BackTapConfig,
    rate: Option<DataRate>,
    /// How many cells from the previous hop were forwarded; `None` if the previous hop has no hop control.
    before: Option<u64>,
}

#[derive(Debug)]
struct After {
    window: Window,
    cells: Outstanding,
    trips: Trips,
    /// The trips of [`Judged::Report`].
    recent: RecentTrips,
    /// How many cells were sent before the current round began.
    round_end: u64,
    /// The last diff that changed the window [cell].
    diff: Option<f64>,
}

impl BackTap {
    /// The hop control for one direction of a new circuit. `rate` is the node's own bandwidth rate.
    pub fn new(config: BackTapConfig, rate: Option<DataRate>) -> Self {
        BackTap { after: None, config, rate, before: None }
    }

    fn on_forwarded(&mut self) -> Option<Feedback> {
        let forwarded = self.before.as_mut()?;
        *forwarded += 1;
        Some(forwarded_feedback(*forwarded))
    }
}

pub(super) fn forwarded_feedback(forwarded: u64) -> Feedback {
    Feedback { direction: Direction::Forward, forwarded: forwarded as u32, allowance: 0 }
}

impl DatagramHop for BackTap {
    fn on_round_trip(&mut self, now: Instant, trip: RoundTrip) {
        if let Some(after) = &mut self.after {
            after.trips.add(trip);
            if self.config.judged == Judged::Report {
                after.recent.add(now, trip.rtt);
            }
        }
    }
}

impl HopControl for BackTap {
    fn on_neighbour(&mut self, neighbour: Neighbour) {
        if neighbour.agreed != Some(HopOffer::BackTap) {
            return;
        }
        match neighbour.side {
            Side::Before => self.before = Some(0),
            Side::After => {
                self.after = Some(After {
                    window: Window::new(self.config.window, self.rate),
                    cells: Outstanding::default(),
                    trips: Trips::default(),
                    recent: RecentTrips::default(),
                    round_end: 0,
                    diff: None,
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
        let left = |after: &After| after.window.get().saturating_sub(after.cells.cells());
        Cells::new(self.after.as_ref().map_or(u64::MAX, left))
    }

    fn on_received(&mut self, _now: Instant) -> Result<(), Violation> {
        Ok(())
    }

    fn on_sent(&mut self, _now: Instant, source: Source) -> Option<Feedback> {
        if let Some(after) = &mut self.after {
            after.cells.sent += 1;
        }
        if source == Source::Before { self.on_forwarded() } else { None }
    }

    fn on_delivered(&mut self, _now: Instant) -> Option<Feedback> {
        self.on_forwarded()
    }

    fn on_feedback(&mut self, now: Instant, feedback: Feedback) -> Result<(), Violation> {
        let Some(after) = &mut self.after else { return Ok(()) };
        let known = after.cells.forwarded;
        if !after.cells.on_forwarded(feedback.forwarded)? {
            return Ok(());
        }
        let Outstanding { sent, forwarded } = after.cells;
        if self.config.judged == Judged::Report {
            let least = after.recent.least(now).filter(|_| forwarded > known);
            if let Some(diff) = least.and_then(|least| after.trips.diff_of(least, after.window.get())) {
                after.window.on_round(diff, sent, after.trips.unqueued());
                after.diff = Some(diff);
            }
            return Ok(());
        }
        let samples = self.config.window.samples;
        let diff = after.trips.diff(after.window.get(), samples);
        after.window.on_forwarded(diff, forwarded);
        if forwarded > after.round_end {
            after.round_end = sent;
            if let Some(diff) = after.trips.diff(after.window.get(), samples) {
                after.window.on_round(diff, sent, after.trips.unqueued());
                after.trips = Trips::default();
                after.diff = Some(diff);
            }
        }
        Ok(())
    }

    fn edge_queue_limit(&self) -> Option<Cells> {
        self.after.as_ref().map(|_| self.credit())
    }

    fn window(&self) -> Option<Cells> {
        self.after.as_ref().map(|after| Cells::new(after.window.get()))
    }

    fn backlog(&self) -> Option<Backlog> {
        let after = self.after.as_ref()?;
        // Without outstanding cells, no cell waits.
        let next = after.diff.map(|diff| if after.cells.cells() == 0 { 0.0 } else { diff });
        Some(Backlog { next, beyond: None })
    }

    fn credit_path(&self) -> CreditPath {
        CreditPath::Acknowledgement
    }
}
