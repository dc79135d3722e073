//! The learned timeout for building circuits. The client fits a Pareto distribution to the build times of its circuits.
//! It waits so long that 80 % of the circuits finish, and uses only these.
//!
//! The driver builds circuits, measures them and calls [`BuildTimes`]. A circuit that is not built within
//! [`BuildTimeout::timeout`] carries no streams. The driver keeps it until it is built or until
//! [`BuildTimeout::close`], so that slow circuits count, too.
//!
//! Source: path-spec, "Learning when to give up on circuit construction"; proposal 151; C tor `circuitstats.c`.
//! Deviation: the mode is always the average of the fullest bins. C tor 0.4.4 uses only the fullest bin until it has 1000
//! build times.
//! Deviation: the timeout is at most twice the initial timeout. C tor has no limit.
//! Deviation: a timeout counts even if the first hop did not answer. C tor counts it only after the first hop, and
//! stops counting while it receives no cells.

use penstock_units::{Duration, math};
use std::collections::{BTreeMap, VecDeque};

/// Build times that the client keeps [1] (`CBT_NCIRCUITS_TO_OBSERVE`).
const KEPT: usize = 1000;
/// Width of a bin of the histogram [ms] (`CBT_BIN_WIDTH`).
const BIN: u32 = 10;

/// The parameters of the estimate, which the consensus sets.
///
/// Source: param-spec; C tor `circuitstats.h`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildTimeParameters {
    /// Build times that an estimate needs [1] (`cbtmincircs`).
    pub min_circuits: u32,
    /// The interval between two test circuits, which the driver builds until the estimate has enough build times
    /// (`cbttestfreq`); `None` builds none.
    pub test_interval: Option<Duration>,
    /// The part of circuits that are built within the timeout, from 0 to below 1 (`cbtquantile`).
    pub quantile: f64,
    /// The part of circuits that are built within the close time, at least `quantile` (`cbtclosequantile`).
    pub close_quantile: f64,
    /// The timeout before the first estimate, and the least close time (`cbtinitialtimeout`).
    pub initial_timeout: Duration,
    /// The least timeout (`cbtmintimeout`).
    pub min_timeout: Duration,
    /// The fullest bins whose average is the Pareto distribution's parameter X_m [1] (`cbtnummodes`).
    pub modes: u32,
    /// The last circuits that show whether the network has changed [1] (`cbtrecentcount`).
    pub recent_circuits: u32,
    /// If so many of the last circuits timed out, the network has changed [1] (`cbtmaxtimeouts`).
    pub max_timeouts: u32,
}

impl Default for BuildTimeParameters {
    fn default() -> Self {
        BuildTimeParameters {
            min_circuits: 100,
            test_interval: Some(Duration::from_secs(10)),
            quantile: 0.80,
            close_quantile: 0.99,
            initial_timeout: Duration::from_secs(60),
            min_timeout: Duration::from_millis(10),
            modes: 10,
            recent_circuits: 20,
            max_timeouts: 18,
        }
    }
}

impl BuildTimeParameters {
    /// The greatest timeout.
    fn max_timeout(&self) -> Duration {
        (self.initial_timeout * 2).max(self.min_timeout)
    }
}

/// The time for which the client waits for a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildTimeout {
    /// A circuit that is not built after this time carries no streams.
    pub timeout: Duration,
    /// A circuit that is not built after this time is closed.
    pub close: Duration,
}

/// The build times of the last circuits.
#[derive(Clone, Debug)]
pub struct BuildTimes {
    parameters: BuildTimeParameters,
    /// Build times [ms]; `None` is a circuit that the client closed unfinished.
    times: VecDeque<Option<u32>>,
    /// Whether each of the last circuits timed out.
    recent: VecDeque<bool>,
    current: BuildTimeout,
}

impl Default for BuildTimes {
    fn default() -> Self {
        BuildTimes::new(BuildTimeParameters::default())
    }
}

impl BuildTimes {
    /// No build times yet.
    pub fn new(parameters: BuildTimeParameters) -> Self {
        let timeout = parameters.initial_timeout;
        let current = BuildTimeout { timeout, close: timeout };
        BuildTimes { parameters, times: VecDeque::new(), recent: VecDeque::new(), current }
    }

    /// The build times of a histogram: the middle of each bin [ms], and its circuits [1]. Then the number of unfinished
    /// circuits [1].
    pub fn of(histogram: &BTreeMap<u32, u32>, unfinished: u32) -> Self {
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
    pub fn histogram(&self) -> (BTreeMap<u32, u32>, u32) {
        let mut histogram = BTreeMap::new();
        for time in self.times.iter().flatten() {
            *histogram.entry(time / BIN * BIN + BIN / 2).or_insert(0) += 1;
        }
        (histogram, self.times.iter().filter(|time| time.is_none()).count() as u32)
    }

    /// The parameters of the estimate.
    pub fn parameters(&self) -> &BuildTimeParameters {
        &self.parameters
    }

    /// The current timeout.
    pub fn timeout(&self) -> BuildTimeout {
        self.current
    }

    /// Whether the estimate needs more circuits.
    pub fn needs_more(&self) -> bool {
        self.times.len() < self.parameters.min_circuits as usize
    }

    /// A circuit was built after this time. `is_late`: it carries no streams, because it timed out.
    ///
    /// Source: C tor `circuit_build_times_handle_completed_hop()`.
    pub fn on_built(&mut self, time: Duration, is_late: bool) {
        self.add(Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX)));
        if !is_late {
            self.note_recent(false);
        }
    }

    /// A circuit was not built within the timeout.
    pub fn on_timeout(&mut self) {
        self.note_recent(true);
    }

    /// The client closed a circuit that was not built within the close time.
    pub fn on_unfinished(&mut self) {
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
        let BuildTimeParameters { initial_timeout, recent_circuits, max_timeouts, .. } = self.parameters;
        if self.recent.len() >= recent_circuits as usize {
            self.recent.pop_front();
        }
        self.recent.push_back(timed_out);
        if self.recent.iter().filter(|timed_out| **timed_out).count() < max_timeouts as usize {
            return;
        }
        let known = self.current.timeout;
        let doubled = if known >= initial_timeout { known * 2 } else { initial_timeout };
        let timeout = doubled.min(self.parameters.max_timeout());
        *self = BuildTimes {
            current: BuildTimeout { timeout, close: timeout },
            ..BuildTimes::new(self.parameters)
        };
    }

    /// Source: C tor `circuit_build_times_set_timeout_worker()`.
    fn estimate(&mut self) {
        if self.needs_more() {
            return;
        }
        if let Some(Fit { mode, alpha, longest }) = self.fit() {
            let BuildTimeParameters { quantile, close_quantile, initial_timeout, min_timeout, .. } =
                self.parameters;
            let max_timeout = self.parameters.max_timeout();
            // `most` [ms]: a steep curve of few build times would give a timeout that no circuit has needed.
            let at = |quantile: f64, most: f64| {
                let millis = mode / math::pow(1.0 - quantile, 1.0 / alpha);
                let limit = most.min(max_timeout.as_millis() as f64);
                Duration::from_millis(millis.clamp(0.0, limit) as u64).clamp(min_timeout, max_timeout)
            };
            let timeout = at(quantile, longest);
            let close = at(close_quantile, 2.0 * longest).max(timeout).max(initial_timeout);
            self.current = BuildTimeout { timeout, close };
        }
    }

    /// The Pareto distribution; `None` if no circuit was built.
    ///
    /// The maximum likelihood estimate counts an unfinished circuit as one with the longest build time, and does not
    /// count it in the numerator.
    ///
    /// Source: C tor `circuit_build_times_get_xm()`, `circuit_build_times_update_alpha()`.
    fn fit(&self) -> Option<Fit> {
        let (histogram, unfinished) = self.histogram();
        let mut fullest: Vec<(u32, u32)> = histogram.into_iter().collect();
        fullest.sort_by_key(|(middle, count)| (std::cmp::Reverse(*count), *middle));
        fullest.truncate(self.parameters.modes as usize);
        let weight: u32 = fullest.iter().map(|(_, count)| count).sum();
        if weight == 0 {
            return None;
        }
        let sum: f64 = fullest.iter().map(|(middle, count)| f64::from(*middle) * f64::from(*count)).sum();
        let mode = (sum / f64::from(weight)).max(1.0);
        let longest = self.times.iter().flatten().max().map_or(mode, |time| f64::from(*time)).max(mode);
        let logs: f64 =
            self.times.iter().flatten().map(|time| math::ln(f64::from(*time).max(mode) / mode)).sum();
        let logs = logs + f64::from(unfinished) * math::ln(longest / mode);
        let built = self.times.len() as f64 - f64::from(unfinished);
        // If all circuits take equally long, alpha is very large.
        Some(Fit { mode, alpha: built / logs.max(1e-6), longest })
    }
}

/// A Pareto distribution of build times.
#[derive(Clone, Copy, Debug)]
struct Fit {
    /// X_m, where the distribution begins [ms].
    mode: f64,
    alpha: f64,
    /// The longest build time [ms].
    longest: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::{Rng, Seed};
    use proptest::prelude::*;

    const INITIAL: Duration = Duration::from_secs(60);
    const MAX: Duration = Duration::from_secs(120);

    fn rng() -> Rng {
        Seed(1).stream("build times")
    }

    fn pareto(rng: &mut Rng, mode: f64, alpha: f64) -> Duration {
        Duration::from_millis((mode / math::pow(rng.unit().max(1e-9), 1.0 / alpha)) as u64)
    }

    fn built(times: &mut BuildTimes, time: Duration) {
        let is_late = time > times.timeout().timeout;
        times.on_built(time, is_late);
    }

    #[test]
    fn the_timeout_is_one_minute_until_a_hundred_circuits_were_built() {
        let mut times = BuildTimes::default();
        for _ in 0..99 {
            built(&mut times, Duration::from_millis(300));
            assert_eq!((times.timeout().timeout, times.needs_more()), (INITIAL, true));
        }
        built(&mut times, Duration::from_millis(300));
        assert!(times.timeout().timeout < Duration::from_millis(400) && !times.needs_more());
    }

    #[test]
    fn four_of_five_circuits_are_built_within_the_timeout() {
        for (quantile, expected) in [(0.8, 7300..8700), (0.5, 4000..6000)] {
            let mut times = BuildTimes::new(BuildTimeParameters { quantile, ..Default::default() });
            let mut rng = rng();
            for _ in 0..1000 {
                built(&mut times, pareto(&mut rng, 400.0, 2.5));
            }
            let timeout = times.timeout().timeout;
            let in_time = (0..10_000).filter(|_| pareto(&mut rng, 400.0, 2.5) <= timeout).count();
            // The mode of the histogram is a biased estimate of X_m (path-spec).
            assert!(expected.contains(&in_time), "{in_time} {timeout:?}");
        }
    }

    #[test]
    fn unfinished_circuits_make_the_timeout_longer() {
        let (mut all, mut rng) = (BuildTimes::default(), rng());
        (0..200).for_each(|_| built(&mut all, pareto(&mut rng, 400.0, 2.5)));
        let before = all.timeout().timeout;
        (0..50).for_each(|_| all.on_unfinished());
        assert!(all.timeout().timeout > before);
    }

    #[test]
    fn the_timeout_is_at_most_the_longest_build_time() {
        let mut times = BuildTimes::default();
        (0..100).for_each(|_| built(&mut times, Duration::from_millis(300)));
        (0..10).for_each(|_| built(&mut times, Duration::from_millis(700)));
        (0..400).for_each(|_| times.on_unfinished());
        assert_eq!(times.timeout().timeout, Duration::from_millis(700));
    }

    #[test]
    fn the_client_starts_again_when_nearly_all_circuits_time_out() {
        let mut times = BuildTimes::default();
        (0..100).for_each(|_| built(&mut times, Duration::from_millis(300)));
        (0..18).for_each(|_| times.on_timeout());
        assert_eq!((times.timeout().timeout, times.needs_more()), (INITIAL, true));
        (0..18).for_each(|_| times.on_timeout());
        assert_eq!(times.timeout().timeout, MAX);
    }

    #[test]
    fn only_circuits_in_time_show_that_the_network_is_the_same() {
        let timeout_after = |is_late: bool| {
            let mut times = BuildTimes::default();
            (0..100).for_each(|_| times.on_built(Duration::from_millis(300), false));
            for _ in 0..18 {
                times.on_timeout();
                (0..2).for_each(|_| times.on_built(Duration::from_millis(400), is_late));
            }
            times.timeout().timeout
        };
        assert!(timeout_after(false) < Duration::from_secs(1));
        assert_eq!(timeout_after(true), INITIAL);
    }

    #[test]
    fn the_state_file_keeps_the_histogram() {
        let (mut times, mut rng) = (BuildTimes::default(), rng());
        (0..300).for_each(|_| built(&mut times, pareto(&mut rng, 400.0, 2.5)));
        (0..3).for_each(|_| times.on_unfinished());
        let (histogram, unfinished) = times.histogram();
        let again = BuildTimes::of(&histogram, unfinished);
        assert_eq!(again.histogram(), (histogram, unfinished));
        let difference = again.timeout().timeout.as_millis().abs_diff(times.timeout().timeout.as_millis());
        assert!(difference <= 20, "{difference} ms");
    }

    proptest! {
        #[test]
        fn every_timeout_is_within_its_limits(
            all in prop::collection::vec(prop::option::of(0u64..200_000), 100..400),
            min_circuits in 1u32..150,
            min_timeout in 1u64..1000,
        ) {
            let min_timeout = Duration::from_millis(min_timeout);
            let parameters = BuildTimeParameters { min_circuits, min_timeout, ..Default::default() };
            let mut times = BuildTimes::new(parameters);
            let mut longest = Duration::ZERO;
            for (time, number) in all.into_iter().zip(1..) {
                match time.map(Duration::from_millis) {
                    Some(time) => {
                        longest = longest.max(time);
                        built(&mut times, time);
                    }
                    None => times.on_unfinished(),
                }
                let BuildTimeout { timeout, close } = times.timeout();
                prop_assert!((min_timeout..=MAX).contains(&timeout) && close >= timeout && close <= MAX);
                prop_assert_eq!(times.needs_more(), number < min_circuits);
                // A bin's middle may be later than its circuits.
                let limit = (longest + Duration::from_millis(10)).max(min_timeout);
                prop_assert!(times.needs_more() || timeout <= limit || longest.is_zero(), "{timeout:?}");
            }
        }

        #[test]
        fn a_higher_quantile_gives_no_shorter_timeout(
            all in prop::collection::vec(1u64..20_000, 100..200),
            quantile in 0.0..0.9f64,
        ) {
            let timeout = |quantile: f64| {
                let parameters = BuildTimeParameters { quantile, ..Default::default() };
                let mut times = BuildTimes::new(parameters);
                all.iter().for_each(|time| times.on_built(Duration::from_millis(*time), false));
                times.timeout().timeout
            };
            prop_assert!(timeout(quantile) <= timeout(quantile + 0.09));
        }
    }
}
