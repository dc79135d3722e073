//! The real clock. No other module reads it.

use penstock_units::Instant;
use std::time::SystemTime;

/// The time since the node began, and the date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: std::time::Instant,
    /// The offset of the date from the system's date [s].
    ahead: i64,
}

impl Clock {
    /// Starts the clock now.
    #[expect(clippy::disallowed_methods, reason = "a live node lives in real time")]
    pub fn start() -> Self {
        Clock { began: std::time::Instant::now(), ahead: 0 }
    }

    /// The same clock with a date that is `ahead` of the system's date [s], for tests with a wrong clock.
    pub fn off_by(self, ahead: i64) -> Self {
        Clock { ahead, ..self }
    }

    /// The time for the core: nanoseconds since the node began.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed()
    }

    /// The date, for certificates and documents.
    #[expect(clippy::disallowed_methods, reason = "certificates are of some day")]
    pub fn date(&self) -> SystemTime {
        let now = SystemTime::now();
        let off = std::time::Duration::from_secs(self.ahead.unsigned_abs());
        if self.ahead < 0 { now - off } else { now + off }
    }
}
