use super::VegasConfig;
use super::rtt::{Moment, RoundTrips};
use crate::edge_control::Signals;
use crate::edge_control::congestion::{Acknowledged, CongestionControl, CwndBounds};
use penstock_units::{Duration, Instant};

/// The Vegas congestion window at one end of a circuit. It has no timers and sends nothing by itself.
///
/// Each SENDME gives a round-trip time. The bandwidth-delay product (BDP) is the window multiplied by RTT_min /
/// RTT_ewma. The window minus the BDP is the estimated number of cells in the circuit's queues. Slow start adds to the
/// window with each SENDME until gamma cells wait in queues. Afterwards the window changes once in several SENDMEs. The
/// window grows if fewer than alpha cells wait in queues, and shrinks if more than beta cells wait. If more than delta
/// cells wait, the window drops to BDP + delta in one step.
///
/// Source: proposal 324 §3.3 (TOR_VEGAS), §3.1 (the estimator CWND·RTTmin/RTT); RFC 3742; C tor
/// `congestion_control_vegas_process_sendme()`, `congestion_control_update_circuit_bdp()`.
/// Deviation: the window never falls below its minimum. In C tor slow start can end below the minimum if gamma is
/// small.
#[derive(Clone, Debug)]
pub struct Vegas {
    config: VegasConfig,
    cwnd: u64,
    slow_start: bool,
    full: bool,
    blocked: bool,
    /// The bandwidth-delay product [cell].
    bdp: u64,
    next_update: u64,
    next_window: u64,
    rtt: RoundTrips,
}

impl Vegas {
    /// The window of a new circuit.
    pub fn new(config: VegasConfig) -> Self {
        Vegas {
            config,
            cwnd: config.bounds.cwnd_init.into(),
            slow_start: true,
            full: false,
            blocked: false,
            bdp: 0,
            next_update: 1,
            next_window: 0,
            rtt: RoundTrips::default(),
        }
    }

    /// Handles a SENDME. `rtt` is the round trip of the cell that triggered it. `in_flight` counts the cells in flight
    /// before it. `blocked` and `queue` [cell] describe the circuit's queue at this end.
    pub fn on_sendme(&mut self, rtt: Duration, in_flight: u64, blocked: bool, queue: u64) {
        self.next_update = self.next_update.saturating_sub(1);
        self.next_window = self.next_window.saturating_sub(1);
        if self.estimate(rtt, blocked, queue) {
            self.adjust(in_flight);
        }
    }

    fn estimate(&mut self, rtt: Duration, blocked: bool, queue: u64) -> bool {
        let at = Moment {
            slow_start: self.slow_start,
            cwnd_is_least: self.cwnd == u64::from(self.config.bounds.cwnd_min),
            update_rate: self.update_rate(),
        };
        let believed = self.rtt.add(&self.config, rtt, at);
        if self.rtt.ewma == 0 {
            self.bdp =
                if blocked { self.config.bounds.clamp(self.cwnd.saturating_sub(queue)) } else { self.cwnd };
            self.blocked = blocked;
            return blocked;
        }
        let product = u128::from(self.cwnd) * u128::from(self.rtt.min) / u128::from(self.rtt.ewma);
        // The minimum can be above the average after a reset, so the product can exceed the window.
        self.bdp = u64::try_from(product).unwrap_or(u64::MAX);
        // When the circuit's queue fills or drains, the window is updated immediately.
        if blocked != self.blocked {
            self.next_update = 0;
            self.blocked = blocked;
        }
        believed || blocked
    }

    fn adjust(&mut self, in_flight: u64) {
        let queued = self.cwnd.saturating_sub(self.bdp);
        self.note_fullness(in_flight);
        if self.slow_start {
            self.start_slowly(queued);
        } else if self.next_update == 0 {
            self.steer(queued);
        }
        self.cwnd = self.config.bounds.clamp(self.cwnd);
        if self.next_window == 0 {
            self.next_window = self.sendmes_per_cwnd();
        }
        if self.next_update == 0 {
            self.next_update = self.update_rate();
        }
        let expired = if self.config.cwnd_full_per_cwnd {
            self.next_window == self.sendmes_per_cwnd()
        } else {
            self.next_update == self.update_rate()
        };
        self.full &= !expired;
    }

    /// Records whether the window is full. A window that is not full must not grow.
    fn note_fullness(&mut self, in_flight: u64) {
        let gap = u64::from(self.config.cwnd_full_gap) * self.config.bounds.inc();
        if in_flight + gap >= self.cwnd {
            self.full = true;
        } else if 100 * in_flight < u64::from(self.config.cwnd_full_minpct) * self.cwnd {
            self.full = false;
        }
    }

    fn start_slowly(&mut self, queued: u64) {
        if queued >= self.config.gamma.into() || self.blocked {
            self.cwnd = self.bdp.saturating_add(self.config.gamma.into());
            self.slow_start = false;
        } else if self.full {
            let step = self.limited_slow_start();
            self.cwnd += step;
            let steady = u64::from(self.config.cwnd_inc) * u64::from(self.config.cwnd_inc_rate);
            self.slow_start = step * self.sendmes_per_cwnd() > steady;
        }
        let most = self.config.ss_max.into();
        if self.cwnd >= most {
            self.cwnd = most;
            self.slow_start = false;
        }
    }

    /// The increase of the window for one SENDME in slow start [cell].
    /// Source: RFC 3742 §2, with `sscap` for max_ssthresh and the cells of a SENDME for MSS.
    fn limited_slow_start(&self) -> u64 {
        let cap = u64::from(self.config.sscap);
        if self.cwnd <= cap {
            (u64::from(self.config.cwnd_inc_pct_ss) * self.config.bounds.inc() + 50) / 100
        } else {
            ((self.config.bounds.inc() * cap + self.cwnd) / (2 * self.cwnd)).max(1)
        }
    }

    fn steer(&mut self, queued: u64) {
        let step = u64::from(self.config.cwnd_inc);
        if queued > self.config.delta.into() {
            self.cwnd = self.bdp.saturating_add(self.config.delta.into()).saturating_sub(step);
        } else if queued > self.config.beta.into() || self.blocked {
            self.cwnd = self.cwnd.saturating_sub(step);
        } else if self.full && queued < self.config.alpha.into() {
            self.cwnd += step;
        }
    }

    /// The number of SENDMEs between two updates of the window; 0 means an update at each SENDME.
    /// Source: C tor `CWND_UPDATE_RATE()`.
    fn update_rate(&self) -> u64 {
        if self.slow_start {
            return 1;
        }
        let cells = u64::from(self.config.cwnd_inc_rate) * self.config.bounds.inc();
        (self.cwnd + cells / 2) / cells
    }

    /// The number of SENDMEs that acknowledge one window of cells. Source: C tor `SENDME_PER_CWND()`.
    fn sendmes_per_cwnd(&self) -> u64 {
        (self.cwnd + self.config.bounds.inc() / 2) / self.config.bounds.inc()
    }
}

impl CongestionControl for Vegas {
    fn bounds(&self) -> &CwndBounds {
        &self.config.bounds
    }
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn last_rtt(&self) -> Option<Duration> {
        self.rtt.last
    }
    fn smoothed_rtt(&self) -> Option<Duration> {
        (self.rtt.ewma > 0).then(|| Duration::from_micros(self.rtt.ewma))
    }
    fn on_acknowledged(&mut self, _now: Instant, acknowledged: Acknowledged, signals: Signals) {
        let Acknowledged { rtt, in_flight, .. } = acknowledged;
        self.on_sendme(rtt, in_flight, signals.blocked, signals.queue.get());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::vectors::{Row, VECTORS};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn windows_match_c_tors_vectors_row_by_row() {
        for (vector, rows) in VECTORS.iter().enumerate() {
            let mut vegas = Vegas::new(VegasConfig::TOR_0_4_9);
            for (row, expected) in rows.iter().enumerate() {
                let Row { sent, acknowledged, blocked, in_flight, .. } = *expected;
                vegas.on_sendme(Duration::from_micros(acknowledged - sent), in_flight, blocked == 1, 0);
                let found = Row {
                    sent,
                    acknowledged,
                    blocked,
                    in_flight,
                    ewma: vegas.rtt.ewma,
                    min: vegas.rtt.min,
                    cwnd: vegas.cwnd,
                    slow_start: vegas.slow_start.into(),
                    full: vegas.full.into(),
                    was_blocked: vegas.blocked.into(),
                };
                assert_eq!(found, *expected, "row {row} of vector {vector}");
            }
        }
    }

    /// Delivers `sendmes` SENDMEs with an RTT of 100 ms to a sender that always fills its window.
    fn grow(vegas: &mut Vegas, sendmes: u64) {
        for _ in 0..sendmes {
            vegas.on_sendme(Duration::from_millis(100), vegas.cwnd(), false, 0);
        }
    }

    #[test]
    fn slow_start_doubles_to_the_cap_and_then_grows_more_slowly() {
        let mut vegas = Vegas::new(VegasConfig::TOR_0_4_9);
        let windows = [4, 8, 4, 1, 1, 100].map(|sendmes| {
            grow(&mut vegas, sendmes);
            vegas.cwnd()
        });
        assert_eq!(windows[..2], [248, 496], "a round of four SENDMEs, then one of eight");
        assert_eq!(windows[2..5], [620, 635, 650], "from 600 on it adds at most half of 31");
        assert!(windows[5] < 650 + 100 * 14, "the growth slows down: {}", windows[5]);
        assert!(vegas.slow_start);
    }

    #[test]
    fn gamma_queued_cells_end_slow_start_at_gamma_above_the_bdp() {
        let mut vegas = Vegas::new(VegasConfig::TOR_0_4_9);
        grow(&mut vegas, 12);
        let before = vegas.cwnd();
        // The average of the two samples, with weights 2:1, is 500 ms / 3, so 40 % of the window is
        // queued.
        vegas.on_sendme(Duration::from_millis(200), before, false, 0);
        assert!(!vegas.slow_start);
        assert_eq!(vegas.cwnd(), before * 100_000 / 166_666 + 186);
    }

    #[test]
    fn a_full_queue_ends_slow_start_and_a_drained_queue_updates_the_window_immediately() {
        let mut vegas = Vegas::new(VegasConfig::TOR_0_4_9);
        grow(&mut vegas, 4);
        vegas.on_sendme(Duration::from_millis(100), 248, true, 256);
        assert_eq!((vegas.slow_start, vegas.cwnd()), (false, 248 + 186));
        vegas.next_update = 9;
        vegas.on_sendme(Duration::from_millis(100), 434, false, 0);
        assert_eq!(vegas.cwnd(), 435, "without a queue the window grows by one, long before its next update");
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut vegas = Vegas::new(VegasConfig::TOR_0_4_9);
        for _ in 0..50 {
            vegas.on_sendme(Duration::from_millis(100), 31, false, 0);
        }
        // 31 cells and a gap of four SENDMEs fill a window of 155. They are less than a quarter of
        // 186.
        assert_eq!(vegas.cwnd(), 186);
    }

    #[test]
    fn before_the_first_rtt_sample_only_a_full_queue_counts() {
        let mut vegas = Vegas::new(VegasConfig::TOR_0_4_9);
        vegas.on_sendme(Duration::ZERO, 124, false, 0);
        assert_eq!((vegas.cwnd(), vegas.slow_start), (124, true));
        vegas.on_sendme(Duration::ZERO, 93, true, 256);
        assert_eq!((vegas.cwnd(), vegas.slow_start), (124 + 186, false));
    }

    proptest! {
        #[test]
        fn the_window_keeps_its_bounds(
            sendmes in proptest::collection::vec((0u64..5_000_000, any::<bool>(), 0u64..3000), 1..400),
            gamma in 0u32..1000,
            per_cwnd in any::<bool>(),
            inc in 1u8..=124,
        ) {
            let config = VegasConfig {
                gamma,
                cwnd_full_per_cwnd: per_cwnd,
                bounds: CwndBounds {
                    cwnd_max: 6000,
                    sendme_inc: std::num::NonZeroU8::new(inc).unwrap(),
                    ..VegasConfig::TOR_0_4_9.bounds
                },
                ..VegasConfig::TOR_0_4_9
            };
            let mut vegas = Vegas::new(config);
            let mut in_flight = 0;
            for (micros, blocked, queue) in sendmes {
                in_flight = vegas.cwnd().max(in_flight);
                prop_assert!(in_flight >= u64::from(inc), "every window allows one SENDME");
                vegas.on_sendme(Duration::from_micros(micros), in_flight, blocked, queue);
                in_flight -= u64::from(inc);
                prop_assert!((124..=6000).contains(&vegas.cwnd()));
            }
        }
    }
}
