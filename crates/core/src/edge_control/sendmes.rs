use crate::error::Violation;
use penstock_units::{Duration, Instant};
use std::collections::VecDeque;
use std::num::NonZeroU8;

/// The bounds of a congestion window, and the number of cells per SENDME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CwndBounds {
    /// The number of cells that one SENDME acknowledges [cell].
    pub sendme_inc: NonZeroU8,
    /// The congestion window of a new circuit [cell].
    pub cwnd_init: u32,
    /// The minimum window [cell]; at least `sendme_inc`, because a smaller window would never get a SENDME.
    pub cwnd_min: u32,
    /// The maximum window [cell].
    pub cwnd_max: u32,
}

impl CwndBounds {
    /// The same bounds with the SENDME increment that both ends agreed on. Each window is at least this increment.
    pub(super) fn with_increment(self, sendme_inc: NonZeroU8) -> Self {
        let least = u32::from(sendme_inc.get());
        let [cwnd_init, cwnd_min, cwnd_max] =
            [self.cwnd_init, self.cwnd_min, self.cwnd_max].map(|cwnd| cwnd.max(least));
        CwndBounds { sendme_inc, cwnd_init, cwnd_min, cwnd_max }
    }

    pub(super) fn clamp(&self, cwnd: u64) -> u64 {
        cwnd.min(self.cwnd_max.into()).max(self.cwnd_min.into())
    }
}

/// Counts the cells between SENDMEs at one end of a circuit, and measures the round trips of the cells that trigger
/// one.
///
/// Source: proposal 324 §2; C tor `congestion_control_note_cell_sent()`, `sendme_circuit_consider_sending()`.
#[derive(Debug)]
pub(super) struct Sendmes {
    inc: u64,
    in_flight: u64,
    /// The send times of the cells that trigger a SENDME.
    stamps: VecDeque<Instant>,
    unacknowledged: u64,
}

impl Sendmes {
    pub(super) fn each(inc: NonZeroU8) -> Self {
        Sendmes { inc: inc.get().into(), in_flight: 0, stamps: VecDeque::new(), unacknowledged: 0 }
    }

    pub(super) fn inc(&self) -> u64 {
        self.inc
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether the window has no space for the cells of another SENDME. Call this before the SENDME is counted.
    pub(super) fn is_full(&self, cwnd: u64) -> bool {
        self.in_flight + self.inc > cwnd
    }

    pub(super) fn on_package(&mut self, now: Instant) -> bool {
        self.in_flight += 1;
        let triggers = self.in_flight.is_multiple_of(self.inc);
        if triggers {
            self.stamps.push_back(now);
        }
        triggers
    }

    pub(super) fn on_deliver(&mut self) -> bool {
        self.unacknowledged = (self.unacknowledged + 1) % self.inc;
        self.unacknowledged == 0
    }

    /// Handles a SENDME. Returns the time since the triggering cell was sent.
    pub(super) fn on_sendme(&mut self, now: Instant) -> Result<Duration, Violation> {
        let sent = self.stamps.pop_front().ok_or(Violation::UnexpectedSendme)?;
        // `stamps` has one send time for every `inc` cells in flight, so this cannot underflow.
        self.in_flight -= self.inc;
        Ok(now - sent)
    }
}
