//! What happens to a run from outside: it may be watched, and stopped.

use penstock_units::Instant;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between a running simulation and whoever waits for it. Neither changes any result.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    one_by_one: bool,
    now: AtomicU64,
    /// In millionths.
    fraction: AtomicU64,
}

impl Control {
    /// Of a run that has not begun.
    pub fn new() -> Self {
        Control::default()
    }

    /// Of a run that handles one event at a time, in the order of time over all hosts, and sends every
    /// packet alone. It is slower and has the same results; tests compare the two.
    pub fn one_by_one() -> Self {
        Control { one_by_one: true, ..Control::default() }
    }

    pub(crate) fn is_one_by_one(&self) -> bool {
        self.one_by_one
    }

    /// RequestKind the run to stop; it does so within a few thousand events.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Simulated seconds so far [s], and about how much of the run that is [0 to 1].
    pub fn progress(&self) -> (f64, f64) {
        let now = Instant::from_nanos(self.now.load(Ordering::Relaxed)).as_secs_f64();
        (now, self.fraction.load(Ordering::Relaxed) as f64 / 1e6)
    }

    pub(crate) fn report(&self, now: Instant, fraction: f64) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
        self.fraction.store((fraction.clamp(0.0, 1.0) * 1e6) as u64, Ordering::Relaxed);
    }
}

/// Why a run has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// [`Control::cancel`] was called.
    Cancelled,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Cancelled => f.write_str("the run was cancelled"),
        }
    }
}

impl std::error::Error for Error {}
