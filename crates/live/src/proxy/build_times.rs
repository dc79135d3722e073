//! The learned timeout for building circuits. The client fits a Pareto distribution to the build times of its circuits.
//! It waits so long that 80 % of the circuits finish, and uses only these.
//!
//! Source: path-spec, "Learning when to give up on circuit construction"; C tor `circuitstats.c`.
//! Deviation: the mode is the average of the ten fullest bins, without C tor's consensus parameters.

use penstock_units::Duration;
use std::collections::{BTreeMap, VecDeque};

/// Build times that the client keeps [1] (`CBT_NCIRCUITS_TO_OBSERVE`).
const KEPT: usize = 1000;
/// Build times that an estimate needs [1] (`CBT_DEFAULT_MIN_CIRCUITS_TO_OBSERVE`).
const MIN_CIRCUITS: usize = 100;
/// Width of a bin of the histogram [ms] (`CBT_BIN_WIDTH`).
const BIN: u32 = 10;
/// The fullest bins that give the Pareto distribution's parameter X_m [1] (`CBT_DEFAULT_NUM_XM_MODES`).
const MODES: usize = 10;
/// The part of circuits that are built in time, and the part that is built before the client gives up.
const QUANTILE: f64 = 0.80;
const CLOSE_QUANTILE: f64 = 0.99;
/// The timeout before the first estimate (`CBT_DEFAULT_TIMEOUT_INITIAL_VALUE`), and its limits.
const INITIAL: Duration = Duration::from_secs(60);
const MIN: Duration = Duration::from_millis(10);
const MAX: Duration = Duration::from_secs(120);
/// If so many of the last circuits timed out, the network has changed [1] (`CBT_DEFAULT_RECENT_CIRCUITS`,
/// `CBT_DEFAULT_MAX_RECENT_TIMEOUT_COUNT`).
const RECENT: usize = 20;
const MAX_RECENT: usize = 18;

/// The time for which the client waits for a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuildTimeout {
    /// A circuit that is not built after this time carries no streams.
    pub(crate) timeout: Duration,
    /// A circuit that is not built after this time is closed.
    pub(crate) close: Duration,
}

/// The build times of the last circuits.
#[derive(Clone, Debug)]
pub(crate) struct BuildTimes {
    /// Build times [ms]; `None` is a circuit that the client closed unfinished.
    times: VecDeque<Option<u32>>,
    /// Whether each of the last circuits timed out.
    recent: VecDeque<bool>,
    current: BuildTimeout,
}

impl Default for BuildTimes {
    fn default() -> Self {
        BuildTimes {
            times: VecDeque::new(),
            recent: VecDeque::new(),
            current: BuildTimeout { timeout: INITIAL, close: INITIAL },
        }
    }
}

impl BuildTimes {
    /// The build times of a histogram: the middle of each bin [ms], and its circuits [1]. Then the number of unfinished
    /// circuits [1].
    pub(crate) fn of(histogram: &BTreeMap<u32, u32>, unfinished: u32) -> Self {
        let bins = histogram
            .iter()
            .flat_map(|(middle, count)| std::iter::repeat_n(Some(*middle), (*count as usize).min(KEPT)));
        let unfinished = std::iter::repeat_n(None, (unfinished as usize).min(KEPT));
        let mut times =
            BuildTimes { times: bins.chain(unfinished).take(KEPT).collect(), ..BuildTimes::default() };
        times.estimate();
        times
    }

    /// The histogram and the number of unfinished circuits, for the state file.
    pub(crate) fn histogram(&self) -> (BTreeMap<u32, u32>, u32) {
        let mut histogram = BTreeMap::new();
        for time in self.times.iter().flatten() {
            *histogram.entry(time / BIN * BIN + BIN / 2).or_insert(0) += 1;
        }
        (histogram, self.times.iter().filter(|time| time.is_none()).count() as u32)
    }

    pub(crate) fn timeout(&self) -> BuildTimeout {
        self.current
    }

    /// Whether the estimate needs more circuits.
    pub(crate) fn needs_more(&self) -> bool {
        self.times.len() < MIN_CIRCUITS
    }

    /// A circuit was built after this time.
    pub(crate) fn on_built(&mut self, time: Duration) {
        let is_late = time > self.current.timeout;
        self.add(Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX)));
        if !is_late {
            self.note_recent(false);
        }
    }

    /// A circuit was not built within the timeout.
    pub(crate) fn on_timeout(&mut self) {
        self.note_recent(true);
    }

    /// The client closed a circuit that was not built within the close time.
    pub(crate) fn on_unfinished(&mut self) {
        self.add(None);
    }

    fn add(&mut self, time: Option<u32>) {
        if self.times.len() == KEPT {
            self.times.pop_front();
        }
        self.times.push_back(time);
        self.estimate();
    }

    /// If nearly all circuits time out, the client forgets its build times and doubles the timeout.
    /// Source: C tor `circuit_build_times_network_check_changed()`.
    fn note_recent(&mut self, timed_out: bool) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(timed_out);
        if self.recent.iter().filter(|timed_out| **timed_out).count() < MAX_RECENT {
            return;
        }
        let doubled = if self.current.timeout >= INITIAL { self.current.timeout * 2 } else { INITIAL };
        let timeout = doubled.min(MAX);
        *self = BuildTimes { current: BuildTimeout { timeout, close: timeout }, ..BuildTimes::default() };
    }

    fn estimate(&mut self) {
        if self.times.len() < MIN_CIRCUITS {
            return;
        }
        if let Some((mode, alpha)) = self.fit() {
            let at = |quantile: f64| {
                let millis = mode / (1.0 - quantile).powf(1.0 / alpha);
                Duration::from_millis(millis.clamp(0.0, MAX.as_millis() as f64) as u64).clamp(MIN, MAX)
            };
            let timeout = at(QUANTILE);
            self.current = BuildTimeout { timeout, close: at(CLOSE_QUANTILE).max(timeout).max(INITIAL) };
        }
    }

    /// The parameters X_m [ms] and alpha of the Pareto distribution; `None` if no circuit was built.
    ///
    /// The maximum likelihood estimate counts an unfinished circuit as one with the longest build time, and does not
    /// count it in the numerator (path-spec, "Parameter estimation").
    fn fit(&self) -> Option<(f64, f64)> {
        let (histogram, unfinished) = self.histogram();
        let mut fullest: Vec<(u32, u32)> = histogram.into_iter().collect();
        fullest.sort_by_key(|(middle, count)| (std::cmp::Reverse(*count), *middle));
        fullest.truncate(MODES);
        let weight: u32 = fullest.iter().map(|(_, count)| count).sum();
        if weight == 0 {
            return None;
        }
        let sum: f64 = fullest.iter().map(|(middle, count)| f64::from(*middle) * f64::from(*count)).sum();
        let mode = (sum / f64::from(weight)).max(1.0);
        let longest = self.times.iter().flatten().max().map_or(mode, |time| f64::from(*time)).max(mode);
        let logs: f64 =
            self.times.iter().flatten().map(|time| (f64::from(*time).max(mode) / mode).ln()).sum();
        let logs = logs + f64::from(unfinished) * (longest / mode).ln();
        let built = self.times.len() as f64 - f64::from(unfinished);
        // If all circuits take equally long, alpha is very large.
        Some((mode, built / logs.max(1e-6)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    fn pareto(rng: &mut StdRng, mode: f64, alpha: f64) -> Duration {
        Duration::from_millis((mode / rng.random::<f64>().max(1e-9).powf(1.0 / alpha)) as u64)
    }

    #[test]
    fn the_timeout_is_one_minute_until_a_hundred_circuits_were_built() {
        let mut times = BuildTimes::default();
        for _ in 0..99 {
            times.on_built(Duration::from_millis(300));
            assert_eq!((times.timeout().timeout, times.needs_more()), (INITIAL, true));
        }
        times.on_built(Duration::from_millis(300));
        assert!(times.timeout().timeout < Duration::from_millis(400) && !times.needs_more());
    }

    #[test]
    fn four_of_five_circuits_are_built_within_the_timeout() {
        let (mut times, mut rng) = (BuildTimes::default(), StdRng::seed_from_u64(1));
        for _ in 0..1000 {
            times.on_built(pareto(&mut rng, 400.0, 2.5));
        }
        let timeout = times.timeout().timeout;
        let in_time = (0..10_000).filter(|_| pareto(&mut rng, 400.0, 2.5) <= timeout).count();
        // The mode of the histogram is a biased estimate of X_m (path-spec).
        assert!((7300..8700).contains(&in_time), "{in_time} {timeout:?}");
    }

    #[test]
    fn unfinished_circuits_make_the_timeout_longer() {
        let (mut all, mut rng) = (BuildTimes::default(), StdRng::seed_from_u64(1));
        (0..200).for_each(|_| all.on_built(pareto(&mut rng, 400.0, 2.5)));
        let before = all.timeout().timeout;
        (0..50).for_each(|_| all.on_unfinished());
        assert!(all.timeout().timeout > before);
    }

    #[test]
    fn the_client_starts_again_when_nearly_all_circuits_time_out() {
        let mut times = BuildTimes::default();
        (0..100).for_each(|_| times.on_built(Duration::from_millis(300)));
        (0..MAX_RECENT).for_each(|_| times.on_timeout());
        assert_eq!((times.timeout().timeout, times.needs_more()), (INITIAL, true));
        (0..MAX_RECENT).for_each(|_| times.on_timeout());
        assert_eq!(times.timeout().timeout, MAX);
    }

    #[test]
    fn the_state_file_keeps_the_histogram() {
        let (mut times, mut rng) = (BuildTimes::default(), StdRng::seed_from_u64(1));
        (0..300).for_each(|_| times.on_built(pareto(&mut rng, 400.0, 2.5)));
        (0..3).for_each(|_| times.on_unfinished());
        let (histogram, unfinished) = times.histogram();
        let again = BuildTimes::of(&histogram, unfinished);
        assert_eq!(again.histogram(), (histogram, unfinished));
        let difference = again.timeout().timeout.as_millis().abs_diff(times.timeout().timeout.as_millis());
        assert!(difference <= 20, "{difference} ms");
    }

    proptest! {
        #[test]
        fn every_timeout_is_within_its_limits(all in prop::collection::vec(prop::option::of(0u64..200_000), 100..400)) {
            let mut times = BuildTimes::default();
            for time in all {
                match time {
                    Some(time) => times.on_built(Duration::from_millis(time)),
                    None => times.on_unfinished(),
                }
                let BuildTimeout { timeout, close } = times.timeout();
                prop_assert!((MIN..=MAX).contains(&timeout) && close >= timeout && close <= MAX);
            }
        }
    }
}
