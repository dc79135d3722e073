//! The real clock. Only this module reads it.

use nix::time::{ClockId, clock_gettime};
use penstock_units::Instant;
use std::time::SystemTime;

/// The time since the node started, and the date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: std::time::Instant,
    /// Difference between this clock's date and the system's date [s]; positive if this clock is ahead.
    ahead: i64,
}

impl Clock {
    /// Starts the clock at the present time.
    #[expect(clippy::disallowed_methods, reason = "a live node lives in real time")]
    pub fn start() -> Self {
        Clock { began: std::time::Instant::now(), ahead: 0 }
    }

    /// The same clock, whose date is ahead of the system's date by `ahead` [s]. Tests use it for a wrong clock.
    pub fn off_by(self, ahead: i64) -> Self {
        Clock { ahead, ..self }
    }

    /// The time since the node started, for the core.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed()
    }

    /// This time as an instant of the standard library, for libraries.
    pub fn at(&self, now: Instant) -> std::time::Instant {
        self.began + now.since(Instant::ZERO)
    }

    /// The time of an instant of the standard library.
    pub fn time_of(&self, at: std::time::Instant) -> Instant {
        Instant::ZERO + at.saturating_duration_since(self.began)
    }

    /// The date, for certificates and documents.
    #[expect(clippy::disallowed_methods, reason = "certificates are of some day")]
    pub fn date(&self) -> SystemTime {
        let now = SystemTime::now();
        let off = std::time::Duration::from_secs(self.ahead.unsigned_abs());
        if self.ahead < 0 { now - off } else { now + off }
    }

    /// Linux's `CLOCK_MONOTONIC` [µs], which the service manager reads as well.
    ///
    /// The call is the C library's, because rustix's first call needs a `prctl` that the sandbox does not allow.
    pub fn monotonic_micros() -> u64 {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
        let micros = time.tv_sec() * 1_000_000 + time.tv_nsec() / 1000;
        u64::try_from(micros).expect("this clock starts at 0")
    }
}
