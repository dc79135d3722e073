//! The real clock: the one place that reads it.

use penstock_units::Instant;
use std::time::SystemTime;

/// Time since this node began, and the date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: std::time::Instant,
    /// So much is the date ahead of what the system says [s].
    ahead: i64,
}

impl Clock {
    /// Begins now.
    #[expect(clippy::disallowed_methods, reason = "a live node lives in real time")]
    pub fn start() -> Self {
        Clock { began: std::time::Instant::now(), ahead: 0 }
    }

    /// The same clock, of which the date is so much ahead, or behind, of the system's [s]: for tests of nodes whose clock is wrong.
    pub fn off_by(self, ahead: i64) -> Self {
        Clock { ahead, ..self }
    }

    /// What the core calls now: nanoseconds since the node began.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed()
    }

    /// The date, which certificates and documents need.
    #[expect(clippy::disallowed_methods, reason = "certificates are of some day")]
    pub fn date(&self) -> SystemTime {
        let now = SystemTime::now();
        let off = std::time::Duration::from_secs(self.ahead.unsigned_abs());
        if self.ahead < 0 { now - off } else { now + off }
    }
}
