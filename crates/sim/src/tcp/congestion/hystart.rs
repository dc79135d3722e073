use crate::tcp::config::{Kernel, TcpConfig};
use penstock_units::{Duration, Instant, time::nanos};

/// The minimum window for leaving slow start [segments] (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// How many round-trip samples HyStart needs in each round (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u8 = 8;
/// The maximum gap between two ACKs of the same train [ns] (`hystart_ack_delta`).
const ACK_DELTA: u64 = 2_000_000;
const MS: u64 = 1_000_000;

/// HyStart ends slow start when the path seems full. There are two signs: an ACK train as long as half a round trip,
/// and growing round trips.
/// Source: Ha and Rhee 2011; Linux 3.2 and 6.12 `hystart_update`; ns-3.44 `TcpCubic::HystartUpdate`.
/// Deviation: nanoseconds instead of the milliseconds of Linux 3.2.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    round: Instant,
    /// The time of the last ACK in the train.
    last_ack: Instant,
    /// The round ends when this sequence number is acknowledged [B].
    end: u64,
    /// The shortest round trip of the current round [ns]; 0 means unknown.
    current: u64,
    samples: u8,
    found: bool,
}

impl HyStart {
    /// Handles an ACK in slow start that acknowledges data up to `una`. `nxt` is the end of the sent data [B], and
    /// `sample` the ACK's round trip. `min_rtt` and `srtt` are the minimum and the smoothed round trip [ns]. Returns
    /// whether slow start ends.
    pub(super) fn on_ack(
        &mut self,
        cfg: &TcpConfig,
        now: Instant,
        (una, nxt): (u64, u64),
        cwnd: u32,
        (sample, min_rtt, srtt): (u64, u64, u64),
    ) -> bool {
        if una > self.end {
            *self = HyStart { round: now, last_ack: now, end: nxt, found: self.found, ..HyStart::default() };
        }
        if self.found || cwnd < LOW_WINDOW {
            return false;
        }
        self.found = self.train(cfg, now, cwnd, min_rtt, srtt) | self.delay(cfg, sample, min_rtt);
        self.found
    }

    fn train(&mut self, cfg: &TcpConfig, now: Instant, cwnd: u32, min_rtt: u64, srtt: u64) -> bool {
        if nanos(now.since(self.last_ack)) > ACK_DELTA {
            return false;
        }
        self.last_ack = now;
        let longest = match cfg.kernel {
            Kernel::Linux3_2 | Kernel::Shadow => min_rtt / 2,
            Kernel::Linux6 => (min_rtt + offload_delay(cfg, cwnd, srtt)) / 2,
            Kernel::Ns3 => min_rtt,
        };
        nanos(now.since(self.round)) > longest
    }

    fn delay(&mut self, cfg: &TcpConfig, sample: u64, min_rtt: u64) -> bool {
        let fresh = self.samples < MIN_SAMPLES;
        // Linux 3.2 uses only the minimum of the first eight samples.
        if (fresh || cfg.kernel == Kernel::Linux6) && (self.current == 0 || sample < self.current) {
            self.current = sample;
        }
        if fresh {
            self.samples += 1;
            return false;
        }
        let more = match cfg.kernel {
            Kernel::Linux3_2 => (min_rtt / 16).clamp(4 * MS, 16 * MS),
            Kernel::Linux6 => (min_rtt / 8).clamp(4 * MS, 16 * MS),
            Kernel::Ns3 => min_rtt.clamp(4 * MS, 1000 * MS),
            // The first of the eight smoothed round trips is also the one with which Shadow compares them.
            Kernel::Shadow => return false,
        };
        self.current > min_rtt + more
    }

    pub(super) fn reset(&mut self) {
        self.found = false;
    }
}

/// The delay that segmentation offload adds [ns] (Linux `hystart_ack_delay`). This delay is the time to send four 64
/// KiB packets at the pacing rate of slow start, but at most 1 ms. The pacing rate is two windows per round trip.
fn offload_delay(cfg: &TcpConfig, cwnd: u32, srtt: u64) -> u64 {
    let window = 2 * u64::from(cwnd) * u64::from(cfg.mss);
    (4 * 65_536 * srtt / window.max(1)).min(nanos(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of ACKs until slow start ends, with ACKs `gap` apart and round trips of `rtt`. The minimum round trip is
    /// 80 ms.
    fn ends_after(cfg: &TcpConfig, cwnd: u32, gap: Duration, rtt: Duration) -> Option<u64> {
        let mut hystart = HyStart::default();
        let min = 80 * MS;
        (1..=u64::from(cwnd)).find(|ack| {
            let now = Instant::from_secs(1) + gap * (*ack as u32);
            hystart.on_ack(cfg, now, (*ack, 1000), cwnd, (nanos(rtt), min, min))
        })
    }

    #[test]
    fn longer_rtts_end_slow_start_after_eight_samples() {
        let far = Duration::from_millis(3);
        for (cfg, more) in
            [(TcpConfig::linux_3_2(), 5u64), (TcpConfig::linux_6(), 10), (TcpConfig::ns3(), 80)]
        {
            let rtt = |more: u64| Duration::from_millis(80 + more);
            assert_eq!(ends_after(&cfg, 30, far, rtt(more)), None, "{:?}", cfg.kernel);
            assert_eq!(ends_after(&cfg, 30, far, rtt(more + 1)), Some(9), "{:?}", cfg.kernel);
            assert_eq!(ends_after(&cfg, 15, far, rtt(more + 1)), None, "a small window continues");
        }
    }

    #[test]
    fn a_train_of_acks_as_long_as_half_an_rtt_ends_slow_start() {
        let (near, rtt) = (Duration::from_millis(1), Duration::from_millis(80));
        assert_eq!(ends_after(&TcpConfig::linux_3_2(), 90, near, rtt), Some(42));
        assert_eq!(ends_after(&TcpConfig::linux_6(), 90, near, rtt), Some(42));
        assert_eq!(ends_after(&TcpConfig::ns3(), 90, near, rtt), Some(82));
        assert_eq!(ends_after(&TcpConfig::linux_6(), 38, near, rtt), None, "the train is too short");
    }
}
