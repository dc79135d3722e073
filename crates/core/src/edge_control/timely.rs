//! TIMELY: a rate that follows the gradient of the round-trip time. A window enforces this rate.

use super::congestion::{Acknowledged, CongestionControl, CwndBounds};
use super::{Signals, WindowsConfig, XonXoffConfig};
use penstock_units::{DataRate, Duration, Instant};
use std::num::NonZeroU8;

/// Parameters of [`Timely`].
///
/// Source: Mittal et al. 2015 §4.3 (beta); Zhu et al. 2016 table 2 (alpha, because Mittal et al. give no value). The
/// thresholds and the step are Penstock's own, because a data centre's values do not fit Tor; see `Deviation` at
/// [`Timely`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelyConfig {
    /// The bounds of the window. One SENDME acknowledges 31 cells (16 KB), as much as the paper's smallest segment
    /// (§4.1). The initial window is that of Vegas. The minimum window is the cells of two SENDMEs; the maximum is 1000
    /// cells as for fixed windows.
    pub bounds: CwndBounds,
    /// If the round trip is below the circuit's minimum plus this time, the rate grows with any gradient [ns].
    pub t_low: Duration,
    /// If the round trip is above the circuit's minimum plus this time, the rate falls with any gradient [ns].
    pub t_high: Duration,
    /// How much the rate increases in one round trip [B/s]. A cell counts 512 B.
    pub delta: DataRate,
    /// How strongly a positive gradient or a long round trip reduces the rate, in [0, 1).
    pub beta: f64,
    /// The weight of the newest round-trip difference in the average gradient, in [0, 1).
    pub alpha: f64,
    /// Flow control of streams on circuits that use TIMELY.
    pub streams: XonXoffConfig,
    /// Window sizes of circuits whose other end does not know TIMELY.
    pub windows: WindowsConfig,
}

impl Default for TimelyConfig {
    fn default() -> Self {
        let sendme_inc = NonZeroU8::new(31).expect("31 is not zero");
        TimelyConfig {
            bounds: CwndBounds { sendme_inc, cwnd_init: 124, cwnd_min: 62, cwnd_max: 1000 },
            t_low: Duration::from_millis(10),
            t_high: Duration::from_millis(100),
            delta: DataRate::kib(10),
            beta: 0.8,
            alpha: 0.875,
            streams: XonXoffConfig::TOR_0_4_9,
            windows: WindowsConfig::STOCK,
        }
    }
}

/// After this many consecutive gradients that are not positive, each rate step is multiplied by this number (HAI) [1].
const HAI: u32 = 5;
/// The size of a cell for the rate [B].
const CELL: f64 = 512.0;
/// The minimum valid sample. No relay can have a shorter round trip.
const MIN_RTT: Duration = Duration::from_micros(1);

/// TIMELY's rate at one end of a circuit, and the window that enforces it.
///
/// The cells of one SENDME correspond to a segment of the paper. Each SENDME gives a round-trip time. While the round
/// trip is short, the rate grows by delta. After five consecutive gradients that are not positive it grows by five
/// times delta. The rate falls in proportion to a positive gradient, or in proportion to the excess of a long round
/// trip above T_high.
///
/// Source: Mittal et al. 2015 §4.3, algorithm 1. Two rules are from the authors' published code, as in eRPC's
/// `timely.h`. First, a change is proportional to the time since the last change, so that more SENDMEs do not make
/// larger changes. Second, one change at most halves the rate.
/// Deviation: T_low and T_high are compared with the round trip minus the circuit's minimum. Paths in a data centre
/// have almost no base delay; Tor's paths have some hundred milliseconds, different for each path.
/// Deviation: cells are not paced. The window is the rate times the newest round trip, which gives this rate on
/// average.
/// Deviation: minRTT is the circuit's minimum so far, not a constant of the network.
/// Deviation: an unused rate does not grow, because a short round trip then does not show spare capacity.
#[derive(Clone, Debug)]
pub struct Timely {
    config: TimelyConfig,
    cwnd: u64,
    measured: Option<Measured>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    rate: f64,
    last: Duration,
    least: Duration,
    /// The average difference of consecutive round trips [s].
    diff: f64,
    /// Consecutive gradients that were not positive [1].
    falling: u32,
    updated: Instant,
}

impl Timely {
    /// The window of a new circuit.
    pub fn new(config: TimelyConfig) -> Self {
        let cwnd = config.bounds.clamp(config.bounds.cwnd_init.into());
        Timely { config, cwnd, measured: None }
    }

    /// The rate [cell/s]; `None` before the first round trip.
    pub fn rate(&self) -> Option<f64> {
        self.measured.map(|measured| measured.rate)
    }

    /// Handles a SENDME. `rtt` is the round trip of the cell that triggered it. `full`: before this SENDME, the
    /// window's free space was less than the cells of one SENDME.
    pub fn on_sendme(&mut self, now: Instant, rtt: Duration, full: bool) {
        if rtt < MIN_RTT {
            return;
        }
        let Some(measured) = &mut self.measured else {
            let rate = self.cwnd as f64 / rtt.as_secs_f64();
            self.measured =
                Some(Measured { rate, last: rtt, least: rtt, diff: 0.0, falling: 0, updated: now });
            return;
        };
        measured.update(&self.config, now, rtt, full);
        let window = measured.rate * rtt.as_secs_f64();
        self.cwnd = self.config.bounds.clamp(window as u64);
        // The rate stays within the window's bounds, because it would return to them only slowly.
        let bounds = self.config.bounds;
        let [least, most] =
            [bounds.cwnd_min, bounds.cwnd_max].map(|cwnd| f64::from(cwnd) / rtt.as_secs_f64());
        measured.rate = measured.rate.min(most).max(least);
    }
}

impl Measured {
    fn update(&mut self, config: &TimelyConfig, now: Instant, rtt: Duration, full: bool) {
        let new_diff = rtt.as_secs_f64() - self.last.as_secs_f64();
        self.diff = (1.0 - config.alpha) * self.diff + config.alpha * new_diff;
        self.last = rtt;
        self.least = self.least.min(rtt);
        let least = self.least.as_secs_f64();
        let gradient = self.diff / least;
        self.falling = if gradient <= 0.0 { self.falling.saturating_add(1) } else { 0 };
        let part = (now.since(self.updated).as_secs_f64() / least).min(1.0);
        self.updated = now;
        let delta = config.delta.bytes_per_sec() as f64 / CELL;
        let excess = rtt - self.least;
        let rate = if excess < config.t_low {
            self.rate + part * delta
        } else if excess > config.t_high {
            let over = 1.0 - config.t_high.as_secs_f64() / excess.as_secs_f64();
            self.rate * (1.0 - part * config.beta * over)
        } else if gradient <= 0.0 {
            let steps = if self.falling >= HAI { f64::from(HAI) } else { 1.0 };
            self.rate + part * steps * delta
        } else {
            self.rate * (1.0 - part * config.beta * gradient)
        };
        if full || rate < self.rate {
            self.rate = rate.max(self.rate / 2.0);
        }
    }
}

impl CongestionControl for Timely {
    fn bounds(&self) -> &CwndBounds {
        &self.config.bounds
    }
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn last_rtt(&self) -> Option<Duration> {
        self.measured.map(|measured| measured.last)
    }
    fn on_acknowledged(&mut self, now: Instant, acknowledged: Acknowledged, _signals: Signals) {
        self.on_sendme(now, acknowledged.rtt, acknowledged.full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge_control::{EdgeControl, TimelyWindow};
    use crate::error::Violation;
    use penstock_units::Cells;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Rates [cell/s] and windows [cell] after these RTTs [ms]. With one sample per second, each sample has its full
    /// effect.
    fn rows(rtts: &[u64]) -> Vec<(f64, u64)> {
        let mut timely = Timely::new(TimelyConfig::default());
        let row = |(second, rtt): (usize, &u64)| {
            timely.on_sendme(Instant::from_secs(second as u64), MS(*rtt), true);
            (timely.rate().unwrap(), timely.cwnd())
        };
        rtts.iter().enumerate().map(row).collect()
    }

    #[test]
    fn the_first_rtt_sets_the_rate_and_short_rtts_add_delta() {
        assert_eq!(rows(&[200, 200, 205, 209]), [(620.0, 124), (640.0, 128), (660.0, 135), (680.0, 142)]);
    }

    #[test]
    fn a_rising_rtt_lowers_the_rate_by_its_gradient_and_five_falling_rtts_add_five_steps() {
        let found = rows(&[200, 240, 238, 236, 234, 232, 230, 228]);
        // The gradient is 40 ms of 200 ms, weighted with 0.875. One eighth of it less 7/8 of 2 ms
        // is still positive.
        let first = 620.0 * (1.0 - 0.8 * 0.875 * 0.2);
        let second = first * (1.0 - 0.8 * (0.125 * 0.035 - 0.875 * 0.002) / 0.2);
        let expected = [620.0, first, second];
        for (row, expected) in expected.into_iter().enumerate() {
            assert!((found[row].0 - expected).abs() < 1e-9, "{found:?}");
        }
        let steps: Vec<f64> = found[2..].windows(2).map(|pair| (pair[1].0 - pair[0].0).round()).collect();
        assert_eq!(steps, [20.0, 20.0, 20.0, 20.0, 100.0]);
    }

    #[test]
    fn a_long_rtt_lowers_the_rate_by_its_excess_over_t_high() {
        let found = rows(&[200, 400]);
        assert!((found[1].0 - 620.0 * 0.6).abs() < 1e-9, "half of the 200 ms exceeds 100 ms: {found:?}");
        let found = rows(&[200, 1000]);
        assert!((found[1].0 - 310.0).abs() < 1e-9, "one change removes at most half: {found:?}");
        let found = rows(&[200, 10_000]);
        assert_eq!(found[1], (100.0, 1000), "the maximum window limits the window and the rate");
    }

    #[test]
    fn an_unused_rate_does_not_grow_but_can_fall() {
        let mut timely = Timely::new(TimelyConfig::default());
        let mut rate = |second, rtt| {
            timely.on_sendme(Instant::from_secs(second), MS(rtt), false);
            timely.rate().unwrap()
        };
        assert_eq!([rate(0, 200), rate(1, 200), rate(2, 199)], [620.0; 3]);
        assert!(rate(3, 500) < 400.0);
    }

    #[test]
    fn the_effect_of_a_sample_is_proportional_to_the_time_since_the_last_one() {
        // Two SENDMEs, each a tenth of an RTT after the one before, add a tenth of delta each.
        let mut timely = Timely::new(TimelyConfig::default());
        for at in [1000, 1020, 1040] {
            timely.on_sendme(Instant::from_millis(at), MS(200), true);
        }
        assert!((timely.rate().unwrap() - 624.0).abs() < 1e-9);
    }

    #[test]
    fn every_31st_cell_is_timed_and_an_unexpected_sendme_is_a_violation() {
        let mut control = TimelyWindow::new(Timely::new(TimelyConfig::default()));
        let sent: Vec<bool> =
            (0..124).map(|_| control.on_package(Instant::ZERO, Signals::default())).collect();
        assert_eq!(control.package_window(), Cells::ZERO);
        let due: Vec<bool> = (0..124).map(|_| control.on_deliver(Instant::ZERO).unwrap()).collect();
        assert_eq!(sent, due, "both ends expect the same SENDMEs");
        let later = Instant::from_millis(100);
        for _ in 0..4 {
            assert_eq!(control.on_sendme(later, Signals::default()), Ok(()));
        }
        assert_eq!(control.on_sendme(later, Signals::default()), Err(Violation::UnexpectedSendme));
        assert_eq!(control.rtt(), Some(MS(100)));
    }

    /// Algorithm 1 in milliseconds, for one row. The state is the rate [cell/s], the last RTT, the
    /// minimum RTT, the average RTT difference [ms], and the number of consecutive gradients that
    /// were not positive.
    fn by_definition(state: (f64, f64, f64, f64, u32), rtt: f64, pause: f64) -> (f64, f64, f64, f64, u32) {
        let (rate, last, least, diff, falling) = state;
        let diff = 0.125 * diff + 0.875 * (rtt - last);
        let least = least.min(rtt);
        let (gradient, excess, part) = (diff / least, rtt - least, (pause / least).min(1.0));
        let falling = if gradient <= 0.0 { falling + 1 } else { 0 };
        let step = part * 10_240.0 / 512.0;
        let next = match excess {
            _ if excess < 10.0 => rate + step,
            _ if excess > 100.0 => rate - rate * part * 0.8 * (excess - 100.0) / excess,
            _ if gradient <= 0.0 => rate + step * if falling >= 5 { 5.0 } else { 1.0 },
            _ => rate - rate * part * 0.8 * gradient,
        };
        let next = next.max(rate / 2.0).clamp(62_000.0 / rtt, 1_000_000.0 / rtt);
        (next, rtt, least, diff, falling)
    }

    proptest! {
        /// The comparison ends at a row whose gradient is near zero, because rounding decides the sign of such a
        /// gradient.
        #[test]
        fn rates_follow_algorithm_1_row_by_row(
            rows in proptest::collection::vec((20u64..800, 1u64..400), 2..200),
        ) {
            let mut timely = Timely::new(TimelyConfig::default());
            let (mut now, mut state) = (Instant::ZERO, None);
            for (row, (rtt, pause)) in rows.into_iter().enumerate() {
                now += MS(pause);
                timely.on_sendme(now, MS(rtt), true);
                let (rtt, pause) = (rtt as f64, pause as f64);
                let next = match state {
                    None => (124_000.0 / rtt, rtt, rtt, 0.0, 0),
                    Some(state) => by_definition(state, rtt, pause),
                };
                state = Some(next);
                if row > 0 && next.3.abs() < 1e-9 {
                    break;
                }
                let rate = timely.rate().unwrap();
                prop_assert!((rate - next.0).abs() <= 1e-9 * next.0, "row {}: {} is not {}", row, rate, next.0);
                prop_assert!((62..=1000).contains(&timely.cwnd()));
                let product = rate * rtt / 1000.0;
                if row > 0 {
                    prop_assert!((timely.cwnd() as f64 - product).abs() <= 1.0, "{} for {}", timely.cwnd(), product);
                }
            }
        }

        #[test]
        fn every_sendme_keeps_the_bounds(
            rows in proptest::collection::vec((0u64..5_000_000_000, any::<bool>()), 1..300),
            inc in 1u8..=254,
        ) {
            let config = TimelyConfig::default();
            let bounds = config.bounds.with_increment(NonZeroU8::new(inc).unwrap());
            let mut timely = Timely::new(TimelyConfig { bounds, ..config });
            let mut now = Instant::ZERO;
            for (nanos, full) in rows {
                now += Duration::from_nanos(nanos);
                timely.on_sendme(now, Duration::from_nanos(nanos), full);
                prop_assert!((u64::from(inc).max(62)..=1000).contains(&timely.cwnd()));
                prop_assert!(timely.rate().is_none_or(|rate| rate.is_finite() && rate > 0.0));
            }
        }
    }
}
