//! The real clock: the one place that reads it.

use penstock_units::Instant;
use std::time::SystemTime;

/// Time since this node began.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// Begins now.
    #[expect(clippy::disallowed_methods, reason = "a live node lives in real time")]
    pub fn start() -> Self {
        Clock(std::time::Instant::now())
    }

    /// What the core calls now: nanoseconds since the node began.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.0.elapsed()
    }

    /// The date, which certificates and documents need.
    #[expect(clippy::disallowed_methods, reason = "certificates are of some day")]
    pub fn date(&self) -> SystemTime {
        SystemTime::now()
    }
}
