//! The real clock. Only this module reads it.

use penstock_units::{Duration, Instant};

/// Time since this clock was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// Starts a clock at [`Instant::ZERO`].
    pub fn start() -> Clock {
        Clock(read())
    }

    /// Time since the start of this clock.
    pub fn now(&self) -> Instant {
        Instant::ZERO + read().duration_since(self.0)
    }

    /// Sleeps until `instant`. Returns immediately if `instant` has passed.
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
