//! Instants of a run. Durations are [`std::time::Duration`].

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A time since the start of a run [ns]. It is an integer, so that a simulation is exactly reproducible. It covers 584
/// years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Instant = Instant(0);
    /// A time after all events.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The time `nanos` nanoseconds after the start [ns].
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// The time `millis` milliseconds after the start [ms].
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis * 1_000_000)
    }

    /// The time `secs` seconds after the start [s].
    pub const fn from_secs(secs: u64) -> Self {
        Instant(secs * 1_000_000_000)
    }

    /// Nanoseconds since the start [ns].
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start [s], only for output.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time since `earlier`, or zero if `earlier` is later than `self`.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole nanoseconds [ns]; values above 64 bits saturate.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(span)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    /// Panics in debug builds if `earlier` is later than `self`, because a duration is never negative.
    fn sub(self, earlier: Instant) -> Duration {
        debug_assert!(self >= earlier, "{self:?} is before {earlier:?}");
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_add_and_subtract_in_nanoseconds() {
        let t = Instant::from_millis(80) + Duration::from_nanos(1);
        assert_eq!(t.as_nanos(), 80_000_001);
        assert_eq!(t - Instant::from_millis(80), Duration::from_nanos(1));
        assert_eq!(Instant::ZERO.since(t), Duration::ZERO);
        assert_eq!(format!("{t}"), "0.080000001s");
    }
}
