use super::config::{Kernel, TcpConfig};
use penstock_units::{Duration, time::nanos};

const MS: u64 = 1_000_000;

/// The smoothed round trip, its variation and the retransmission timeout (RTO).
/// Source: RFC 6298 §2; Linux `tcp_rtt_estimator`, `tcp_set_rto`. Linux limits the variation from below: RTO = srtt +
/// max(200 ms, 4·mdev). The variation falls at most once in a window. After unusually short samples it changes slowly.
/// A sample is `now` minus the echoed timestamp, which satisfies Karn's rule.
/// Deviation: times are in nanoseconds instead of jiffies.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    /// The smoothed round trip [ns]; 0 before the first sample.
    srtt: u64,
    /// The mean deviation [ns].
    mdev: u64,
    /// The largest 4·mdev in the current window [ns].
    window_max: u64,
    /// The time that the RTO adds to srtt [ns].
    rttvar: u64,
    /// The current window ends when this sequence number is acknowledged [B].
    window_end: u64,
    min: u64,
    /// The number of doublings of the RTO since the last sample.
    backoff: u8,
}

impl Default for Rtt {
    fn default() -> Self {
        Rtt { srtt: 0, mdev: 0, window_max: 0, rttvar: 0, window_end: 0, min: u64::MAX, backoff: 0 }
    }
}

impl Rtt {
    /// The shortest round trip [ns]; `u64::MAX` before the first sample.
    ///
    /// Deviation: the minimum covers the whole connection; Linux forgets it after 5 min (`tcp_min_rtt_wlen`).
    pub(super) fn min(&self) -> u64 {
        self.min
    }

    /// Adds a sample. `una` and `nxt` are the limits of the data in flight [B].
    pub(super) fn on_sample(&mut self, cfg: &TcpConfig, sample: Duration, una: u64, nxt: u64) {
        let sample = nanos(sample).max(1);
        let floor = match cfg.kernel {
            Kernel::Shadow => return self.on_sample_in_ms(sample / MS),
            Kernel::Linux3_2 | Kernel::Linux6 => nanos(cfg.min_rto),
            // In ns-3 the minimum RTO limits the sum, and the clock's resolution limits the variation.
            Kernel::Ns3 => MS,
        };
        self.backoff = 0;
        self.min = self.min.min(sample);
        if self.srtt == 0 {
            self.srtt = sample;
            self.mdev = sample / 2;
            self.rttvar = (4 * self.mdev).max(floor);
            self.window_max = self.rttvar;
            self.window_end = nxt;
            return;
        }
        if cfg.kernel == Kernel::Ns3 {
            // RFC 6298 without Linux's refinements (ns-3 `RttMeanDeviation`).
            let error = sample.abs_diff(self.srtt);
            self.mdev = self.mdev - self.mdev / 4 + error / 4;
            self.srtt = self.srtt - self.srtt / 8 + sample / 8;
            self.rttvar = (4 * self.mdev).max(floor);
            return;
        }
        let (error, shorter) = (sample.abs_diff(self.srtt), sample < self.srtt);
        self.srtt = if shorter { self.srtt - error / 8 } else { self.srtt + error / 8 };
        if error <= self.mdev {
            self.mdev -= (self.mdev - error) / 4;
        } else {
            // A sudden improvement of the path must not raise the RTO much.
            self.mdev += (error - self.mdev) / if shorter { 32 } else { 4 };
        }
        self.window_max = self.window_max.max(4 * self.mdev);
        self.rttvar = self.rttvar.max(self.window_max);
        if una > self.window_end {
            self.rttvar -= (self.rttvar - self.window_max) / 4;
            self.window_end = nxt;
            self.window_max = floor;
        }
    }

    /// Adds a sample as Shadow does, whose numbers are whole milliseconds.
    /// Source: Shadow 1.9.0 `_tcp_updateRTTEstimate`.
    fn on_sample_in_ms(&mut self, sample: u64) {
        let (sample, srtt, mdev) = (sample.max(1), self.srtt / MS, self.mdev / MS);
        let (srtt, mdev) = if srtt == 0 {
            (sample, sample / 2)
        } else {
            (7 * srtt / 8 + sample / 8, 3 * mdev / 4 + srtt.abs_diff(sample) / 4)
        };
        (self.srtt, self.mdev, self.rttvar) = (srtt * MS, mdev * MS, 4 * mdev * MS);
        (self.backoff, self.min) = (0, self.min.min(sample * MS));
    }

    /// Doubles the next RTO after a timeout (RFC 6298 §5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(31);
    }

    /// Ends the doubling, because the peer has answered.
    pub(super) fn forget_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The RTO, doubled after each consecutive timeout.
    pub(super) fn rto(&self, cfg: &TcpConfig) -> Duration {
        let base = nanos(self.base_rto(cfg));
        Duration::from_nanos(base.saturating_mul(1 << self.backoff).min(nanos(cfg.max_rto)))
    }

    pub(super) fn base_rto(&self, cfg: &TcpConfig) -> Duration {
        if self.srtt == 0 {
            return cfg.initial_rto;
        }
        Duration::from_nanos(self.srtt + self.rttvar).max(cfg.min_rto).min(cfg.max_rto)
    }

    pub(super) fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_timeout_of_a_constant_path_is_its_round_trip_and_200_ms() {
        let (cfg, mut rtt) = (TcpConfig::default(), Rtt::default());
        assert_eq!(rtt.rto(&cfg), Duration::from_secs(1));
        for round in 0..100 {
            rtt.on_sample(&cfg, 80 * MS, round * 10 + 1, round * 10 + 10);
        }
        assert_eq!(rtt.srtt(), 80 * MS);
        assert_eq!(rtt.rto(&cfg), 280 * MS);
    }

    #[test]
    fn the_timeout_doubles_up_to_two_minutes_and_a_sample_resets_it() {
        let (cfg, mut rtt) = (TcpConfig::default(), Rtt::default());
        rtt.on_sample(&cfg, 100 * MS, 0, 10);
        for doubled in [300, 600, 1200, 2400, 4800] {
            assert_eq!(rtt.rto(&cfg), doubled * MS);
            rtt.back_off();
        }
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(&cfg), Duration::from_secs(120));
        rtt.on_sample(&cfg, 100 * MS, 0, 10);
        assert_eq!(rtt.rto(&cfg), 300 * MS);
    }

    #[test]
    fn a_jump_of_the_round_trip_raises_the_timeout_above_it() {
        let (cfg, mut rtt) = (TcpConfig::default(), Rtt::default());
        for round in 0..20 {
            rtt.on_sample(&cfg, 50 * MS, round * 10 + 1, round * 10 + 10);
        }
        for round in 20..24 {
            rtt.on_sample(&cfg, 240 * MS, round * 10 + 1, round * 10 + 10);
        }
        assert!(rtt.rto(&cfg) > 340 * MS, "{:?}", rtt.rto(&cfg));
    }
}
