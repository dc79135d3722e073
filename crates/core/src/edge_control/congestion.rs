//! The congestion window of one end of a circuit, and the SENDMEs that this end sends.

use super::{EdgeControl, Signals};
use crate::error::Violation;
use penstock_units::{Cells, Duration, Instant};
use std::collections::VecDeque;
use std::fmt;
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
    /// The same bounds with the negotiated `sendme_inc`. Each bound becomes at least `sendme_inc`.
    pub(super) fn with_increment(self, sendme_inc: NonZeroU8) -> Self {
        let least = u32::from(sendme_inc.get());
        let [cwnd_init, cwnd_min, cwnd_max] =
            [self.cwnd_init, self.cwnd_min, self.cwnd_max].map(|cwnd| cwnd.max(least));
        CwndBounds { sendme_inc, cwnd_init, cwnd_min, cwnd_max }
    }

    /// Cells that one SENDME acknowledges [cell].
    pub(super) fn inc(&self) -> u64 {
        self.sendme_inc.get().into()
    }

    pub(super) fn clamp(&self, cwnd: u64) -> u64 {
        cwnd.min(self.cwnd_max.into()).max(self.cwnd_min.into())
    }
}

/// The measurements that a [`CongestionControl`] gets with each SENDME.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// The round-trip time of the cell that triggered this SENDME.
    pub rtt: Duration,
    /// The number of cells in flight before this SENDME [cell].
    pub in_flight: u64,
    /// Whether the window's free space was less than the cells of one SENDME.
    pub full: bool,
}

/// A congestion window that changes with each SENDME.
pub trait CongestionControl: fmt::Debug + Send {
    /// Whether this end reports to the other end how many cells were marked.
    const REPORTS_MARKS: bool = false;
    /// The bounds of the window.
    fn bounds(&self) -> &CwndBounds;
    /// The congestion window [cell].
    fn cwnd(&self) -> u64;
    /// The last valid round-trip time.
    fn last_rtt(&self) -> Option<Duration>;
    /// The smoothed round-trip time; the last one if the algorithm smooths none.
    fn smoothed_rtt(&self) -> Option<Duration> {
        self.last_rtt()
    }
    /// Handles a SENDME that arrives.
    fn on_acknowledged(&mut self, now: Instant, acknowledged: Acknowledged, signals: Signals);
}

/// The [`CongestionControl`] of one end of a circuit, and the SENDMEs that this end sends.
///
/// Source: proposal 324 §2, §3.3; C tor `congestion_control_note_cell_sent()`,
/// `congestion_control_get_package_window()`, `sendme_circuit_consider_sending()`. Deviation: none.
#[derive(Debug)]
pub struct CongestionWindow<A> {
    pub(super) algorithm: A,
    inc: u64,
    in_flight: u64,
    /// The send times of the cells that trigger a SENDME.
    stamps: VecDeque<Instant>,
    unacknowledged: u64,
    /// Marked cells that no SENDME has reported yet.
    marks: u8,
}

impl<A: CongestionControl> CongestionWindow<A> {
    /// The state of one end of a new circuit.
    pub fn new(algorithm: A) -> Self {
        let inc = algorithm.bounds().inc();
        CongestionWindow {
            algorithm,
            inc,
            in_flight: 0,
            stamps: VecDeque::new(),
            unacknowledged: 0,
            marks: 0,
        }
    }
}

impl<A: CongestionControl> EdgeControl for CongestionWindow<A> {
    fn package_window(&self) -> Cells {
        // If the window is smaller than the cells in flight, the circuit may send nothing.
        Cells::new(self.algorithm.cwnd().saturating_sub(self.in_flight))
    }
    fn on_package(&mut self, now: Instant, _signals: Signals) -> bool {
        self.in_flight += 1;
        let triggers = self.in_flight.is_multiple_of(self.inc);
        if triggers {
            self.stamps.push_back(now);
        }
        triggers
    }
    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        self.unacknowledged = (self.unacknowledged + 1) % self.inc;
        Ok(self.unacknowledged == 0)
    }
    fn on_mark(&mut self) {
        self.marks += u8::from(A::REPORTS_MARKS);
    }
    fn take_marks(&mut self) -> u8 {
        std::mem::take(&mut self.marks)
    }
    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation> {
        let sent = self.stamps.pop_front().ok_or(Violation::UnexpectedSendme)?;
        if A::REPORTS_MARKS && u64::from(signals.marked) > self.inc {
            return Err(Violation::ForgedMarks);
        }
        let (in_flight, full) = (self.in_flight, self.in_flight + self.inc > self.algorithm.cwnd());
        // `stamps` has one send time for every `inc` cells in flight, so this cannot underflow.
        self.in_flight -= self.inc;
        self.algorithm.on_acknowledged(now, Acknowledged { rtt: now - sent, in_flight, full }, signals);
        Ok(())
    }
    fn window(&self) -> Cells {
        Cells::new(self.algorithm.cwnd())
    }
    fn rtt(&self) -> Option<Duration> {
        self.algorithm.last_rtt()
    }
    fn smoothed_rtt(&self) -> Option<Duration> {
        self.algorithm.smoothed_rtt()
    }
}
