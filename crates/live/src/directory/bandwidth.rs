//! The observed bandwidth of this relay, for its descriptor.
//!
//! Source: dir-spec, "bandwidth" (observed); C tor `bwhist_bandwidth_assess()`.

use penstock_units::{Duration, Instant};
use std::collections::VecDeque;

/// Length of the averaging window [s].
const WINDOW: usize = 10;
const SECOND: Duration = Duration::from_secs(1);
/// Number of days with a recorded maximum, including today [1].
const DAYS: usize = 5;
const DAY: Duration = Duration::from_secs(86_400);

/// The highest rate over ten seconds in the last days, for each direction. The slower direction counts.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    second: Instant,
    day: Instant,
    /// Counters of read and written bytes at the start of the current second [B].
    counted: [u64; 2],
    /// Bytes read and written in each of the last seconds, the newest last [B].
    seconds: VecDeque<[u64; 2]>,
    /// Highest sum of bytes over ten seconds on each day, the newest last [B].
    days: VecDeque<[u64; 2]>,
}

impl Observed {
    pub(super) fn new(now: Instant) -> Self {
        Observed {
            second: now + SECOND,
            day: now + DAY,
            counted: [0; 2],
            seconds: VecDeque::new(),
            days: VecDeque::from([[0; 2]]),
        }
    }

    /// Takes the total counts of read and written bytes [B]. All bytes since the last call are assigned to one second.
    /// Late calls never make the rate higher.
    pub(super) fn on_count(&mut self, now: Instant, counted: [u64; 2]) {
        if now < self.second {
            return;
        }
        let carried = [0, 1].map(|way| counted[way].saturating_sub(self.counted[way]));
        self.counted = counted;
        self.push(carried);
        self.second += SECOND;
        // Skipped seconds count as idle, because their bytes are already counted.
        while self.second <= now && self.seconds.iter().any(|second| *second != [0; 2]) {
            self.push([0; 2]);
            self.second += SECOND;
        }
        if self.second <= now {
            self.second = now + SECOND;
        }
        while self.day <= now {
            self.day += DAY;
            self.days.push_back([0; 2]);
            if self.days.len() > DAYS {
                self.days.pop_front();
            }
        }
    }

    fn push(&mut self, carried: [u64; 2]) {
        self.seconds.push_back(carried);
        if self.seconds.len() > WINDOW {
            self.seconds.pop_front();
        }
        let today = self.days.back_mut().expect("there is always today");
        for way in [0, 1] {
            today[way] = today[way].max(self.seconds.iter().map(|second| second[way]).sum());
        }
    }

    /// The observed bandwidth [B/s].
    pub(super) fn rate(&self) -> u64 {
        let most = |way: usize| self.days.iter().map(|day| day[way]).max().unwrap_or(0);
        most(0).min(most(1)) / WINDOW as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `on_count` every second with these bytes.
    fn drive(observed: &mut Observed, from: u64, carried: &[[u64; 2]]) {
        let mut counted = observed.counted;
        for (second, carried) in (from + 1..).zip(carried) {
            counted = [counted[0] + carried[0], counted[1] + carried[1]];
            observed.on_count(Instant::ZERO + Duration::from_secs(second), counted);
        }
    }

    #[test]
    fn the_maximum_over_ten_seconds_of_the_slower_direction_counts() {
        let mut observed = Observed::new(Instant::ZERO);
        let mut carried = vec![[100, 40]; 30];
        carried[15..20].fill([300, 60]);
        drive(&mut observed, 0, &carried);
        assert_eq!(observed.rate(), (5 * 60 + 5 * 40) / 10);
    }

    #[test]
    fn a_short_burst_is_averaged_over_ten_seconds() {
        let mut observed = Observed::new(Instant::ZERO);
        drive(&mut observed, 0, &[[1000, 1000]]);
        assert_eq!(observed.rate(), 100);
    }

    #[test]
    fn old_maxima_expire_after_five_days() {
        let mut observed = Observed::new(Instant::ZERO);
        drive(&mut observed, 0, &[[1000, 1000]; 10]);
        for day in 1..5 {
            observed.on_count(Instant::ZERO + day * DAY, [10_000; 2]);
            assert_eq!(observed.rate(), 1000, "day {day}");
        }
        observed.on_count(Instant::ZERO + 5 * DAY, [10_000; 2]);
        assert_eq!(observed.rate(), 0);
    }

    #[test]
    fn late_calls_never_increase_the_rate() {
        let mut observed = Observed::new(Instant::ZERO);
        observed.on_count(Instant::ZERO + Duration::from_secs(100), [1000, 1000]);
        assert_eq!(observed.rate(), 100);
    }
}
