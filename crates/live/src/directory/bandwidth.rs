//! The observed bandwidth of this relay, for its descriptor.
//!
//! Source: dir-spec, "bandwidth" (observed); C tor `bwhist_bandwidth_assess()`.

use penstock_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

/// Length of the averaging window [s].
const WINDOW: usize = 10;
const SECOND: Duration = Duration::from_secs(1);
/// Number of days with a recorded maximum, including today [1].
const DAYS: usize = 5;
const DAY: Duration = Duration::from_secs(86_400);
/// The keywords of C tor's state file for the two directions.
const DIRECTIONS: [&str; 2] = ["BWHistoryRead", "BWHistoryWrite"];

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

    /// Continues the maxima of an earlier run, from the lines of [`history`](Self::history) or of C tor's state file. Other
    /// lines are ignored. `date` is the date at `now`.
    ///
    /// Source: C tor `bwhist_load_state()`.
    pub(super) fn continued(now: Instant, date: SystemTime, history: &str) -> Self {
        let mut observed = Observed::new(now);
        let lines: BTreeMap<&str, &str> = history.lines().filter_map(|line| line.split_once(' ')).collect();
        let directions = DIRECTIONS.map(|name| {
            let value = |key: &str| lines.get(&format!("{name}{key}")[..]).map(|text| text.trim());
            let ends = humantime::parse_rfc3339_weak(value("Ends")?).ok()?;
            let is_daily = value("Interval")?.parse() == Ok(DAY.as_secs());
            let maxima: Option<Vec<u64>> =
                value("Maxima")?.split(',').map(|text| text.trim().parse().ok()).collect();
            Some((ends, maxima.filter(|_| is_daily)?))
        });
        let [Some((ends, read)), Some((_, written))] = directions else { return observed };
        let (age, left) = match date.duration_since(ends) {
            // The last day of the file is over.
            Ok(since) => {
                let days = since.as_secs() / DAY.as_secs() + 1;
                (days, Duration::from_secs(days * DAY.as_secs() - since.as_secs()))
            }
            Err(early) => (0, Duration::from_secs(early.duration().as_secs()).min(DAY)),
        };
        observed.day = now + left;
        let days = read.iter().rev().zip(written.iter().rev());
        let known =
            days.map(|(read, written)| [*read, *written].map(|rate| rate.saturating_mul(WINDOW as u64)));
        let empty = (0..age.min(DAYS as u64)).map(|_| [0; 2]);
        observed.days = empty.chain(known).take(DAYS).collect();
        if observed.days.is_empty() {
            observed.days.push_back([0; 2]);
        }
        // The newest day is the last one.
        observed.days.make_contiguous().reverse();
        observed
    }

    /// The maxima of the last days, as lines of C tor's state file. `date` is the date at `now`.
    ///
    /// Source: C tor `bwhist_update_bwhist_state_section()`.
    pub(super) fn history(&self, now: Instant, date: SystemTime) -> String {
        let ends = date + std::time::Duration::from_secs(self.day.since(now).as_secs());
        let ends = humantime::format_rfc3339_seconds(ends).to_string().replace('T', " ");
        let direction = |way: usize| {
            let (name, ends) = (DIRECTIONS[way], ends.trim_end_matches('Z'));
            let maxima: Vec<_> = self.days.iter().map(|day| (day[way] / WINDOW as u64).to_string()).collect();
            let maxima = maxima.join(",");
            format!("{name}Ends {ends}\n{name}Interval {}\n{name}Maxima {maxima}\n", DAY.as_secs())
        };
        direction(0) + &direction(1)
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

    fn date(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + seconds)
    }

    /// The maxima of three days: 1000, 3000 and 2000 B/s. A third of the third day is over.
    fn three_days() -> (Observed, Instant) {
        let mut observed = Observed::new(Instant::ZERO);
        for (day, rate) in [1000, 3000, 2000].into_iter().enumerate() {
            drive(&mut observed, day as u64 * DAY.as_secs() + 100, &[[rate, rate + 1]; 20]);
        }
        (observed, Instant::ZERO + 2 * DAY + DAY / 3)
    }

    #[test]
    fn the_maxima_survive_a_restart() {
        let (observed, now) = three_days();
        assert_eq!(observed.rate(), 3000);
        let history = observed.history(now, date(0));
        let mut again = Observed::continued(Instant::ZERO, date(0), &history);
        assert_eq!(again.days, observed.days);
        assert_eq!(again.history(Instant::ZERO, date(0)), history);
        // The second day counts on four more days.
        let rest = DAY.as_secs() - DAY.as_secs() / 3;
        let mut at = |days: u64, seconds: u64| {
            again.on_count(Instant::ZERO + Duration::from_secs(days * DAY.as_secs() + seconds), [0; 2]);
            again.rate()
        };
        assert_eq!([at(2, rest + 10), at(3, rest + 10), at(4, rest + 10)], [3000, 2000, 0]);
    }

    #[test]
    fn days_without_the_relay_also_pass() {
        let (observed, now) = three_days();
        let history = observed.history(now, date(0));
        let after = |days: u64| {
            let observed = Observed::continued(Instant::ZERO, date(days * DAY.as_secs()), &history);
            assert!(observed.day <= Instant::ZERO + DAY && !observed.days.is_empty());
            observed.rate()
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 100].map(after), [3000, 3000, 3000, 3000, 2000, 0, 0]);
    }

    #[test]
    fn a_state_file_of_c_tor_is_continued_and_malformed_lines_count_nothing() {
        let text = "# Tor state file\nBWHistoryReadEnds 2023-11-14 23:00:00\nBWHistoryReadInterval 86400\n\
                    BWHistoryReadMaxima 5120,9216\nBWHistoryReadValues 1024,2048\n\
                    BWHistoryWriteEnds 2023-11-14 23:00:00\nBWHistoryWriteInterval 86400\n\
                    BWHistoryWriteMaxima 4096,8192\nDormant 0\n";
        let rate = |text: &str| Observed::continued(Instant::ZERO, date(0), text).rate();
        assert_eq!(rate(text), 8192);
        for (good, bad) in
            [("86400", "900"), ("9216", "x"), ("BWHistoryWriteEnds 2023", "BWHistoryWriteEnds x")]
        {
            assert_eq!(rate(&text.replace(good, bad)), 0, "{bad}");
        }
        assert_eq!(rate(""), 0);
    }

    #[test]
    fn late_calls_never_increase_the_rate() {
        let mut observed = Observed::new(Instant::ZERO);
        observed.on_count(Instant::ZERO + Duration::from_secs(100), [1000, 1000]);
        assert_eq!(observed.rate(), 100);
    }
}
