//! BackTap: a window for each circuit and hop, by the delay that the next node's forwarding shows.

mod window;

pub use window::{MAX_WINDOW, WindowConfig};
pub(super) use window::{Trips, Window};

use super::{CreditPath, Feedback, HopControl, HopOffer, Neighbour, RoundTrip, Side, Source};
use crate::error::Violation;
use crate::keys::Direction;
use crate::serial::ahead;
use penstock_units::{Cells, DataRate, Instant};

/// What was sent to the next node and what of it that node forwarded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outstanding {
    pub(super) sent: u64,
    pub(super) forwarded: u64,
}

impl Outstanding {
    /// Cells sent and not known to be forwarded.
    pub(super) fn cells(&self) -> u64 {
        self.sent - self.forwarded
    }

    /// The next node forwarded so many in all, modulo 2³²; false if that is old.
    pub(super) fn on_forwarded(&mut self, forwarded: u32) -> Result<bool, Violation> {
        let Ok(ahead) = u64::try_from(ahead(forwarded, self.forwarded)) else { return Ok(false) };
        if self.forwarded + ahead > self.sent {
            return Err(Violation::ForgedCredit);
        }
        self.forwarded += ahead;
        Ok(true)
    }
}

/// A window towards the next node, adjusted once in a round trip, and word to the node before of each cell forwarded.
///
/// At most cwnd cells are sent that the next node is not known to have forwarded. A round ends when a cell is forwarded
/// that was sent after the last round's end. If three round trips or more were measured in it,
/// diff = cwnd · (actualRtt / baseRtt − 1) says how many of these cells wait, where actualRtt is the least of them and
/// baseRtt the least of all circuits to that neighbour; diff < α adds a cell to the window, diff > β takes one. Fewer
/// round trips count with those of the next round. The first node of a circuit reads its streams only for what the window
/// has room for.
///
/// Source: slides, "BackTap Congestion Control" and "Bktap Queue Management"; nstor for rounds and numbers.
/// Deviation: see [`WindowConfig`] for what the slides leave open. A cell counts as sent when it leaves the circuit's
/// queue, so a little more than what is on its way counts while the output buffer is not empty.
#[derive(Debug)]
pub struct BackTap {
    /// Towards the next hop; `None` while it is not known, or if it is not controlled.
    after: Option<After>,
    config: WindowConfig,
    rate: Option<DataRate>,
    /// What of the hop before was forwarded; `None` likewise.
    before: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct After {
    window: Window,
    cells: Outstanding,
    trips: Trips,
    /// The last cell that was sent when the round began.
    round_end: u64,
}

impl BackTap {
    /// For a new circuit and direction of a node with this rate.
    pub fn new(config: WindowConfig, rate: Option<DataRate>) -> Self {
        BackTap { after: None, config, rate, before: None }
    }

    fn on_forwarded(&mut self) -> Option<Feedback> {
        let forwarded = self.before.as_mut()?;
        *forwarded += 1;
        Some(forwarded_feedback(*forwarded))
    }
}

/// What the relay tells the hop before.
pub(super) fn forwarded_feedback(forwarded: u64) -> Feedback {
    Feedback { direction: Direction::Forward, forwarded: forwarded as u32, allowance: 0 }
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
                    window: Window::new(self.config, self.rate),
                    cells: Outstanding::default(),
                    trips: Trips::default(),
                    round_end: 0,
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
        let left = |after: After| after.window.get().saturating_sub(after.cells.cells());
        Cells::new(self.after.map_or(u64::MAX, left))
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

    fn on_round_trip(&mut self, _now: Instant, trip: RoundTrip) {
        if let Some(after) = &mut self.after {
            after.trips.add(trip.rtt, trip.base);
        }
    }

    fn on_feedback(&mut self, _now: Instant, feedback: Feedback) -> Result<(), Violation> {
        let Some(after) = &mut self.after else { return Ok(()) };
        if !after.cells.on_forwarded(feedback.forwarded)? {
            return Ok(());
        }
        let Outstanding { sent, forwarded } = after.cells;
        let diff = after.trips.diff(after.window.get(), self.config.samples);
        after.window.on_forwarded(diff, forwarded);
        if forwarded > after.round_end {
            after.round_end = sent;
            // Too few of them count with those of the next round.
            if let Some(diff) = after.trips.diff(after.window.get(), self.config.samples) {
                after.window.on_round(diff, sent, after.trips.base());
                after.trips = Trips::default();
            }
        }
        Ok(())
    }

    fn edge_queue_limit(&self) -> Option<Cells> {
        self.after.map(|_| self.credit())
    }

    fn window(&self) -> Option<Cells> {
        self.after.map(|after| Cells::new(after.window.get()))
    }

    fn credit_path(&self) -> CreditPath {
        CreditPath::Acknowledgement
    }
}
