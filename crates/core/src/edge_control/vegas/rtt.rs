use super::VegasConfig;
use penstock_units::Duration;

/// The minimum and the average round-trip time of a circuit, in microseconds as in C tor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    pub(super) last: Option<Duration>,
    /// The average over N samples [µs]; 0 before the first sample.
    pub(super) ewma: u64,
    /// The smallest average so far [µs].
    pub(super) min: u64,
}

/// A sample is invalid if it is this many times the average [1] (C tor `DELTA_DISCREPENCY_RATIO_MAX`).
const JUMP: u64 = 5000;

impl RoundTrips {
    /// Adds a sample. Returns false if the sample is invalid.
    /// Source: proposal 324 §2.1; C tor `congestion_control_update_circuit_rtt()`.
    /// Deviation: after a sample below a microsecond (invalid in both), C tor also marks the clock as stalled for other
    /// circuits. Penstock's clock does not stall.
    pub(super) fn add(&mut self, config: &VegasConfig, sample: Duration, at: Moment) -> bool {
        let micros = u64::try_from(sample.as_micros()).unwrap_or(u64::MAX);
        let jumped = !at.slow_start && self.ewma > 0 && micros > self.ewma.saturating_mul(JUMP);
        if micros == 0 || jumped {
            return false;
        }
        self.last = Some(sample);
        self.ewma = n_count_ewma(micros, self.ewma, at.samples(config));
        if self.min == 0 {
            self.min = self.ewma;
        } else if at.cwnd_is_least && !at.slow_start {
            let (high, low) = (self.ewma.max(self.min), self.ewma.min(self.min));
            let pct = u64::from(config.rtt_reset_pct);
            self.min = high * pct / 100 + low * (100 - pct) / 100;
        } else {
            self.min = self.min.min(self.ewma);
        }
        true
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) slow_start: bool,
    pub(super) cwnd_is_least: bool,
    pub(super) update_rate: u64,
}

impl Moment {
    fn samples(self, config: &VegasConfig) -> u64 {
        let samples = if self.slow_start {
            config.ewma_ss.into()
        } else {
            (self.update_rate * u64::from(config.ewma_cwnd_pct) / 100).min(config.ewma_max.into())
        };
        samples.max(2)
    }
}

/// The average of `n` samples. `value` is the newest sample, and `before` the previous average (0 if none).
/// Source: proposal 324 §2.1.2 (N_EWMA_SMOOTHING).
pub(in crate::edge_control) fn n_count_ewma(value: u64, before: u64, n: u64) -> u64 {
    if before == 0 { value } else { (2 * value + (n - 1) * before) / (n + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns are: sent [µs], acknowledged [µs], congestion window [cell], in slow start [0 or 1], and the
    /// sampled, average and minimum RTT [µs].
    ///
    /// Source: C tor 0.4.9 `test_congestion_control.c`; the same numbers are in tor-proto 0.47 `rtt.rs`.
    const VECTOR: [[u64; 7]; 9] = [
        [100_000, 200_000, 124, 1, 100_000, 100_000, 100_000],
        [200_000, 300_000, 124, 1, 100_000, 100_000, 100_000],
        [350_000, 500_000, 124, 1, 150_000, 133_333, 100_000],
        [500_000, 550_000, 124, 1, 50_000, 77_777, 77_777],
        [600_000, 700_000, 124, 1, 100_000, 92_592, 77_777],
        [700_000, 750_000, 124, 1, 50_000, 64_197, 64_197],
        [750_000, 875_000, 124, 0, 125_000, 104_732, 104_732],
        [875_000, 900_000, 124, 0, 25_000, 51_577, 104_732],
        [900_000, 950_000, 200, 0, 50_000, 50_525, 50_525],
    ];

    #[test]
    fn rtts_match_c_tors_vector() {
        let config = VegasConfig::TOR_0_4_9;
        let mut rtt = RoundTrips::default();
        for [sent, acknowledged, cwnd, slow_start, sample, ewma, min] in VECTOR {
            // A window of 124 or 200 cells is updated at every SENDME.
            let at = Moment { slow_start: slow_start == 1, cwnd_is_least: cwnd == 124, update_rate: 0 };
            assert!(rtt.add(&config, Duration::from_micros(acknowledged - sent), at));
            let expected = (Some(Duration::from_micros(sample)), ewma, min);
            assert_eq!((rtt.last, rtt.ewma, rtt.min), expected, "sent at {sent}");
        }
    }

    #[test]
    fn an_impossible_rtt_is_ignored() {
        let config = VegasConfig::TOR_0_4_9;
        let steady = Moment { slow_start: false, cwnd_is_least: false, update_rate: 1 };
        let mut rtt = RoundTrips::default();
        assert!(!rtt.add(&config, Duration::from_nanos(999), steady));
        assert!(rtt.add(&config, Duration::from_micros(10), steady));
        assert!(!rtt.add(&config, Duration::from_micros(50_001), steady));
        assert!(rtt.add(&config, Duration::from_micros(50_000), steady));
        assert_eq!(rtt.min, 10);
    }
}
