//! The only place that reads the real clock.

use penstock_units::{Duration, Instant};

/// Nanoseconds since this clock was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// Starts at [`Instant::ZERO`].
    pub fn start() -> Clock {
        Clock(read())
    }

    /// The time since the start.
    pub fn now(&self) -> Instant {
        Instant::ZERO + read().duration_since(self.0)
    }

    /// Sleeps until `instant`. Returns at once if it is past.
    pub fn sleep_until(&self, instant: Instant) {
        let span = instant.since(self.now());
        if span > Duration::ZERO {
            std::thread::sleep(span);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the world that reads the real clock")]
fn read() -> std::time::Instant {
    std::time::Instant::now()
}
