//! SENDMEs as both ends of a circuit with congestion control count them.

use crate::error::Violation;
use penstock_units::{Duration, Instant};
use std::collections::VecDeque;
use std::num::NonZeroU8;

/// Between which bounds a congestion window lies, and how many cells a SENDME acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CwndBounds {
    /// Cells that one SENDME acknowledges [cell].
    pub sendme_inc: NonZeroU8,
    /// The congestion window of a new circuit [cell].
    pub cwnd_init: u32,
    /// The least that it may be [cell]; at least `sendme_inc`, or it would wait for ever.
    pub cwnd_min: u32,
    /// The most that it may be [cell].
    pub cwnd_max: u32,
}

impl CwndBounds {
    /// With what the two ends agreed on: a window is never too small for a SENDME.
    pub(super) fn with_increment(self, sendme_inc: NonZeroU8) -> Self {
        let least = u32::from(sendme_inc.get());
        let [cwnd_init, cwnd_min, cwnd_max] =
            [self.cwnd_init, self.cwnd_min, self.cwnd_max].map(|cwnd| cwnd.max(least));
        CwndBounds { sendme_inc, cwnd_init, cwnd_min, cwnd_max }
    }

    /// The nearest window that may be [cell].
    pub(super) fn clamp(&self, cwnd: u64) -> u64 {
        // Not `clamp`, which panics if the bounds are upside down.
        cwnd.min(self.cwnd_max.into()).max(self.cwnd_min.into())
    }
}

/// Counts the cells between SENDMEs at one end of a circuit, and times those that trigger one.
///
/// Source: proposal 324 §2; C tor `congestion_control_note_cell_sent()`, `sendme_circuit_consider_sending()`.
#[derive(Debug)]
pub(super) struct Sendmes {
    inc: u64,
    in_flight: u64,
    /// When the cells were sent whose arrival triggers a SENDME.
    stamps: VecDeque<Instant>,
    /// Cells delivered here since the last SENDME.
    unacknowledged: u64,
}

impl Sendmes {
    /// One for each so many cells.
    pub(super) fn each(inc: NonZeroU8) -> Self {
        Sendmes { inc: inc.get().into(), in_flight: 0, stamps: VecDeque::new(), unacknowledged: 0 }
    }

    /// Cells that one acknowledges [cell].
    pub(super) fn inc(&self) -> u64 {
        self.inc
    }

    /// Cells sent and not acknowledged [cell].
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether a window of so many cells has no room for another SENDME's; before one is counted.
    pub(super) fn is_full(&self, cwnd: u64) -> bool {
        self.in_flight + self.inc > cwnd
    }

    /// A DATA cell was sent; true if its arrival triggers a SENDME.
    pub(super) fn on_package(&mut self, now: Instant) -> bool {
        self.in_flight += 1;
        let triggers = self.in_flight.is_multiple_of(self.inc);
        if triggers {
            self.stamps.push_back(now);
        }
        triggers
    }

    /// A DATA cell was delivered; true if a SENDME is owed.
    pub(super) fn on_deliver(&mut self) -> bool {
        self.unacknowledged = (self.unacknowledged + 1) % self.inc;
        self.unacknowledged == 0
    }

    /// A SENDME came; returns how long ago the cell was sent that triggered it.
    pub(super) fn on_sendme(&mut self, now: Instant) -> Result<Duration, Violation> {
        let sent = self.stamps.pop_front().ok_or(Violation::UnexpectedSendme)?;
        // There is a stamp for each `inc` cells in flight.
        self.in_flight -= self.inc;
        Ok(now - sent)
    }
}
