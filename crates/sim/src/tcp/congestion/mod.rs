//! The growth of the congestion window, its reduction after losses, and its decay while it is unused.
//!
//! All algorithms share `Window` (Linux keeps it in `tcp_sock`). An algorithm only computes the growth above ssthresh
//! and the ssthresh after a loss.

mod cubic;
mod hystart;
mod reno;

use super::config::{Congestion, Kernel, Offload, TcpConfig};
use super::rtt::Rtt;
use cubic::Cubic;
use penstock_units::{Duration, Instant, time::nanos};

#[derive(Clone, Debug)]
enum Algorithm {
    Reno,
    NewReno,
    Cubic(Cubic),
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The congestion window [segments]; at least 1.
    pub(super) cwnd: u32,
    /// The slow-start threshold [segments].
    pub(super) ssthresh: u32,
    /// The bytes of `cwnd` beyond whole segments [B]. Only `TcpNewReno` counts the window in bytes.
    part: u32,
    /// The bytes of `ssthresh` beyond whole segments [B].
    ssthresh_part: u32,
    /// Acknowledged segments that count towards the next increase (`snd_cwnd_cnt`).
    count: u32,
    /// The maximum number of segments in flight since the time `validated` (`snd_cwnd_used`).
    used: u32,
    /// Whether the window was full at any time since `una` passed `usage_end` (`is_cwnd_limited`).
    full: bool,
    /// The maximum number of unacknowledged segments since `una` passed `usage_end` (`max_packets_out`).
    most_out: u32,
    /// When this sequence number is acknowledged, `full` and `most_out` restart (`cwnd_usage_seq`) [B].
    usage_end: u64,
    /// When the window was last full or validated (`snd_cwnd_stamp`).
    validated: Instant,
    algorithm: Algorithm,
}

impl Window {
    pub(super) fn new(cfg: &TcpConfig, now: Instant) -> Self {
        Window {
            cwnd: cfg.initial_cwnd.max(1),
            ssthresh: cfg.initial_ssthresh,
            part: 0,
            ssthresh_part: 0,
            count: 0,
            used: 0,
            full: false,
            most_out: 0,
            usage_end: 0,
            validated: now,
            algorithm: match cfg.congestion {
                Congestion::Reno => Algorithm::Reno,
                Congestion::NewReno => Algorithm::NewReno,
                Congestion::Cubic => Algorithm::Cubic(Cubic::default()),
            },
        }
    }

    pub(super) fn in_slow_start(&self, cfg: &TcpConfig) -> bool {
        self.cwnd < self.slow_start_end(cfg)
    }

    /// The window that ends slow start. In Shadow 1.9.0 it is above ssthresh (`cubic_congestionAvoidance`), so that the
    /// window grows by a segment after each loss.
    fn slow_start_end(&self, cfg: &TcpConfig) -> u32 {
        self.ssthresh.saturating_add(u32::from(cfg.kernel == Kernel::Shadow))
    }

    /// Handles an ACK that covered `segments`; the last of them was sent `sample` ago. The data in flight are now
    /// between `una` and `nxt` [B]. `open` means no loss and no reordering.
    /// Source: Linux 3.2 `bictcp_acked`, 6.12 `cubictcp_acked`.
    #[expect(clippy::too_many_arguments, reason = "what an ACK tells")]
    pub(super) fn on_delivery(
        &mut self,
        cfg: &TcpConfig,
        now: Instant,
        segments: u32,
        sample: Option<Duration>,
        ends: (u64, u64),
        open: bool,
        rtt: &Rtt,
    ) {
        let slow_start = self.in_slow_start(cfg);
        let Algorithm::Cubic(cubic) = &mut self.algorithm else { return };
        if open {
            cubic.on_acked(segments);
        }
        let Some(sample) = sample else { return };
        // Both simulators pass the smoothed round trip to CUBIC.
        let smoothed = matches!(cfg.kernel, Kernel::Ns3 | Kernel::Shadow);
        let sample = if smoothed { rtt.srtt() } else { sample };
        cubic.on_rtt(cfg.kernel, now, sample);
        if !cfg.hystart || !slow_start {
            return;
        }
        let times = (nanos(sample), cubic.min_rtt(), nanos(rtt.srtt()));
        if cubic.hystart.on_ack(cfg, now, ends, self.cwnd, times) {
            self.ssthresh = self.cwnd;
        }
    }

    /// Handles an ACK outside of recovery that covered `acked` segments. Before the ACK, `in_flight` segments were in
    /// flight.
    /// Source: Linux `tcp_cong_avoid`, `tcp_slow_start`, `tcp_is_cwnd_limited`; RFC 5681 §3.1.
    pub(super) fn on_ack(&mut self, cfg: &TcpConfig, now: Instant, acked: u32, in_flight: u32) {
        if !self.is_limiting(cfg, in_flight) {
            return;
        }
        if matches!(self.algorithm, Algorithm::NewReno) {
            self.grow_like_newreno(cfg, acked);
            return;
        }
        let mut credit = if cfg.byte_counting { acked } else { acked.min(1) };
        if self.in_slow_start(cfg) {
            let step = credit.min(self.slow_start_end(cfg) - self.cwnd);
            self.cwnd += step;
            credit -= step;
            if credit == 0 {
                return;
            }
        }
        let per_increase = match &mut self.algorithm {
            Algorithm::Reno => reno::segments_per_increase(self.cwnd),
            Algorithm::NewReno => return,
            Algorithm::Cubic(cubic) => cubic.credit_per_increase(cfg.kernel, now, self.cwnd, credit),
        };
        match (&self.algorithm, cfg.kernel) {
            (Algorithm::Cubic(_), Kernel::Ns3) => self.add_one(credit, per_increase),
            _ => self.add(credit, per_increase),
        }
    }

    /// Lets the window grow once for an ACK. Above ssthresh, it grows by a segment's square over the window, in bytes.
    /// Source: ns-3.44 `TcpNewReno::IncreaseWindow`. An ACK that ends slow start also grows the window as above ssthresh,
    /// if it covers more than one segment.
    fn grow_like_newreno(&mut self, cfg: &TcpConfig, acked: u32) {
        let in_slow_start = (self.cwnd, self.part) < (self.ssthresh, self.ssthresh_part);
        self.cwnd += u32::from(in_slow_start && acked > 0);
        let left = acked.saturating_sub(u32::from(in_slow_start));
        if left > 0 && (self.cwnd, self.part) >= (self.ssthresh, self.ssthresh_part) {
            self.part += reno::bytes_per_ack(self.bytes(cfg), cfg.mss);
            self.cwnd += self.part / cfg.mss;
            self.part %= cfg.mss;
        }
    }

    /// The window [B].
    fn bytes(&self, cfg: &TcpConfig) -> u64 {
        u64::from(self.cwnd) * u64::from(cfg.mss) + u64::from(self.part)
    }

    /// The slow-start threshold [B].
    pub(super) fn ssthresh_bytes(&self, cfg: &TcpConfig) -> u64 {
        u64::from(self.ssthresh) * u64::from(cfg.mss) + u64::from(self.ssthresh_part)
    }

    /// Sets the window to ssthresh after a recovery.
    pub(super) fn leave_recovery(&mut self) {
        (self.cwnd, self.part) = (self.ssthresh.max(1), self.ssthresh_part);
    }

    /// Adds credit as in ns-3's CUBIC: an ACK increases the window by at most one segment, and the remaining credit is
    /// kept (`TcpCubic::IncreaseWindow`).
    fn add_one(&mut self, credit: u32, per_increase: u32) {
        self.count += credit;
        if self.count >= per_increase {
            self.count -= per_increase;
            self.cwnd += 1;
        }
    }

    /// Adds `credit` segments towards the next increase of the window. Source: Linux `tcp_cong_avoid_ai`. If earlier
    /// credit alone is enough for an increase, the window grows by only one segment.
    fn add(&mut self, credit: u32, per_increase: u32) {
        if self.count >= per_increase {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += credit;
        self.cwnd += self.count / per_increase;
        self.count %= per_increase;
    }

    /// Whether the congestion window limits the flow, rather than the application or the peer.
    /// Source: Linux 3.2 and 6.12 `tcp_is_cwnd_limited`. In 3.2 with segmentation offload, a window also counts as full
    /// if its unused part is below 64 KiB and below a third of the window.
    fn is_limiting(&self, cfg: &TcpConfig, in_flight: u32) -> bool {
        match cfg.kernel {
            _ if cfg.grows_unused => true,
            Kernel::Linux3_2 | Kernel::Shadow => {
                let left = self.cwnd.saturating_sub(in_flight);
                let held =
                    cfg.offload == Offload::Deferred && 3 * left < self.cwnd && left * cfg.mss < 65_536;
                held || left <= cfg.reordering
            }
            Kernel::Linux6 => self.full || (self.in_slow_start(cfg) && self.cwnd < 2 * self.most_out),
            // Only TcpLinuxReno checks whether the window limits the flow.
            Kernel::Ns3 => !matches!(self.algorithm, Algorithm::Reno) || in_flight >= self.cwnd,
        }
    }

    /// Sets and returns the new ssthresh after a loss, when `in_flight` segments are in flight. Recovery then reduces the
    /// window.
    pub(super) fn on_loss(&mut self, cfg: &TcpConfig, in_flight: u32) -> u32 {
        // ns-3 and Shadow keep the credit (`m_cWndCnt`, `windowCount`).
        if !matches!(cfg.kernel, Kernel::Ns3 | Kernel::Shadow) {
            self.count = 0;
        }
        self.ssthresh = match &mut self.algorithm {
            Algorithm::Reno => reno::ssthresh(self.cwnd),
            Algorithm::NewReno => {
                let ssthresh = reno::ssthresh(in_flight);
                self.ssthresh_part = if in_flight > 2 * ssthresh { cfg.mss / 2 } else { 0 };
                ssthresh
            }
            Algorithm::Cubic(cubic) => cubic.ssthresh(cfg.kernel, self.cwnd),
        };
        self.ssthresh
    }

    /// Handles a retransmission timeout. The window becomes `cwnd`, which is one segment more than the data in flight.
    /// The algorithm resets its state.
    /// Source: Linux `tcp_enter_loss`; `bictcp_state`.
    pub(super) fn on_timeout(&mut self, cfg: &TcpConfig, cwnd: u32) {
        (self.cwnd, self.part) = (cwnd, 0);
        if cfg.kernel != Kernel::Ns3 {
            self.count = 0;
        }
        if let Algorithm::Cubic(cubic) = &mut self.algorithm {
            cubic.reset();
        }
    }

    /// Limits the window so that no burst has more than `reordering` segments (Linux `tcp_moderate_cwnd`).
    pub(super) fn moderate(&mut self, cfg: &TcpConfig, in_flight: u32) {
        self.cwnd = self.cwnd.min(in_flight + cfg.reordering).max(1);
    }

    /// Restores the earlier window after a spurious loss (Linux `tcp_undo_cwr`).
    pub(super) fn undo(&mut self, cwnd: u32, ssthresh: u32) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    /// Handles new data after an idle time. During the time `idle`, no data were in flight.
    /// Source: Linux `tcp_cwnd_restart`; RFC 2861.
    pub(super) fn on_idle(&mut self, cfg: &TcpConfig, now: Instant, idle: Duration, rto: Duration) {
        // In Linux 3.2 the time of the cubic function also runs during idle time.
        if let (Algorithm::Cubic(cubic), Kernel::Linux6) = (&mut self.algorithm, cfg.kernel) {
            cubic.on_idle(idle);
        }
        if !cfg.slow_start_after_idle || idle <= rto {
            return;
        }
        self.ssthresh = self.remembered_ssthresh();
        let floor = cfg.initial_cwnd.min(self.cwnd);
        let halvings = (nanos(idle) - 1) / nanos(rto).max(1);
        let halved = self.cwnd.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0);
        self.cwnd = halved.max(floor);
        self.validated = now;
        self.used = 0;
    }

    /// Restarts the clock for the time since the window was full, because the application waited for the send buffer
    /// (Linux `tcp_new_space` sets `snd_cwnd_stamp`).
    pub(super) fn postpone_validation(&mut self, now: Instant) {
        self.validated = now;
    }

    /// After data were sent, checks whether they fill the window. Reduces a window that was not full for too long. The
    /// sent data are between `una` and `nxt` [B]: `in_flight` segments are in flight, `packets_out` are unacknowledged.
    /// `waits_for_app`: the application has no more data to write.
    /// Source: Linux 3.2 and 6.12 `tcp_cwnd_validate`, `tcp_cwnd_application_limited`.
    pub(super) fn validate(
        &mut self,
        cfg: &TcpConfig,
        now: Instant,
        (una, nxt): (u64, u64),
        (in_flight, packets_out): (u32, u32),
        rto: Duration,
        waits_for_app: bool,
    ) {
        let full = in_flight >= self.cwnd;
        if una >= self.usage_end || full || (!self.full && packets_out > self.most_out) {
            (self.full, self.most_out, self.usage_end) = (full, packets_out, nxt);
        }
        let limiting = match cfg.kernel {
            Kernel::Linux6 => self.is_limiting(cfg, in_flight),
            Kernel::Linux3_2 | Kernel::Ns3 | Kernel::Shadow => packets_out >= self.cwnd,
        };
        if limiting {
            self.used = 0;
            self.validated = now;
            return;
        }
        self.used = self.used.max(packets_out);
        if !cfg.slow_start_after_idle || now.since(self.validated) < rto {
            return;
        }
        let used = self.used.max(cfg.initial_cwnd);
        if waits_for_app && used < self.cwnd {
            self.ssthresh = self.remembered_ssthresh();
            self.cwnd = self.cwnd.midpoint(used);
        }
        self.used = 0;
        self.validated = now;
    }

    /// The ssthresh after an application's pause (Linux `tcp_current_ssthresh`).
    fn remembered_ssthresh(&self) -> u32 {
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(congestion: Congestion) -> (TcpConfig, Window) {
        let cfg = TcpConfig { congestion, ..TcpConfig::default() };
        let window = Window::new(&cfg, Instant::ZERO);
        (cfg, window)
    }

    #[test]
    fn slow_start_adds_a_segment_for_every_ack() {
        let (cfg, mut window) = window(Congestion::Reno);
        for _ in 0..10 {
            window.on_ack(&cfg, Instant::ZERO, 1, 20);
        }
        assert_eq!(window.cwnd, 20);
        let counting = TcpConfig { byte_counting: true, ..cfg };
        window.on_ack(&counting, Instant::ZERO, 2, 20);
        assert_eq!(window.cwnd, 22);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let (cfg, mut window) = window(Congestion::Cubic);
        for _ in 0..100 {
            window.on_ack(&cfg, Instant::ZERO, 1, 3);
        }
        assert_eq!(window.cwnd, 10);
    }

    #[test]
    fn an_unused_window_of_shadow_3_3_grows_with_every_segment() {
        let cfg = TcpConfig { congestion: Congestion::Reno, ..TcpConfig::shadow_3_3() };
        let mut window = Window::new(&cfg, Instant::ZERO);
        for _ in 0..100 {
            window.on_ack(&cfg, Instant::ZERO, 2, 3);
        }
        assert_eq!(window.cwnd, 202);
        let second = Duration::from_secs(1);
        window.on_idle(&cfg, Instant::ZERO, second * 1000, second);
        window.validate(&cfg, Instant::from_millis(2_000_000), (0, 9), (1, 1), second, true);
        assert_eq!(window.cwnd, 202);
    }

    #[test]
    fn reno_adds_a_segment_for_every_window_and_halves() {
        let (cfg, mut window) = window(Congestion::Reno);
        window.ssthresh = 10;
        for _ in 0..10 {
            window.on_ack(&cfg, Instant::ZERO, 1, 10);
        }
        assert_eq!(window.cwnd, 11);
        assert_eq!(window.on_loss(&cfg, 9), 5);
    }

    /// ns-3's TcpNewReno ignores the number of acknowledged segments and the use of the window.
    #[test]
    fn newreno_counts_acks_and_halves_the_data_in_flight() {
        let cfg = TcpConfig { congestion: Congestion::NewReno, ..TcpConfig::ns3() };
        let mut window = Window::new(&cfg, Instant::ZERO);
        window.ssthresh = 12;
        window.on_ack(&cfg, Instant::ZERO, 2, 0);
        window.on_ack(&cfg, Instant::ZERO, 0, 0);
        assert_eq!(window.cwnd, 11);
        // The second ACK reaches ssthresh, and its second segment adds 1448² / (12 * 1448) B.
        window.on_ack(&cfg, Instant::ZERO, 2, 0);
        assert_eq!((window.cwnd, window.part), (12, 120));
        // From 12 to 13 segments, each ACK adds less than a twelfth of a segment.
        for _ in 0..11 {
            window.on_ack(&cfg, Instant::ZERO, 2, 0);
        }
        assert_eq!(window.cwnd, 12);
        window.on_ack(&cfg, Instant::ZERO, 2, 0);
        assert_eq!(window.cwnd, 13);
        for (in_flight, ssthresh) in [(9, (4, 724)), (8, (4, 0)), (1, (2, 0))] {
            assert_eq!((window.on_loss(&cfg, in_flight), window.ssthresh_part), ssthresh);
        }
        window.on_loss(&cfg, 9);
        window.leave_recovery();
        assert_eq!(window.bytes(&cfg), 4 * 1448 + 724);
        window.on_timeout(&cfg, 1);
        assert_eq!(window.bytes(&cfg), 1448);
    }

    #[test]
    fn credit_from_slow_growth_allows_no_burst() {
        let (_, mut window) = window(Congestion::Cubic);
        window.add(900, 1000);
        window.add(1, 2);
        assert_eq!((window.cwnd, window.count), (11, 1));
    }

    #[test]
    fn idle_time_halves_the_window_at_each_timeout_down_to_the_initial_one() {
        let (cfg, mut window) = window(Congestion::Reno);
        let second = Duration::from_secs(1);
        window.cwnd = 100;
        window.on_idle(&cfg, Instant::ZERO, second / 2, second);
        assert_eq!(window.cwnd, 100);
        window.ssthresh = 60;
        window.on_idle(&cfg, Instant::ZERO, second * 5 / 2, second);
        assert_eq!((window.cwnd, window.ssthresh), (25, 75));
        window.on_idle(&cfg, Instant::ZERO, second * 1000, second);
        assert_eq!(window.cwnd, 10);
    }

    #[test]
    fn a_half_used_window_decays_towards_its_use() {
        let (cfg, mut window) = window(Congestion::Reno);
        window.cwnd = 100;
        let rto = Duration::from_millis(300);
        window.validate(&cfg, Instant::from_millis(100), (0, 9), (20, 20), rto, true);
        assert_eq!(window.cwnd, 100);
        window.validate(&cfg, Instant::from_millis(300), (0, 9), (10, 10), rto, true);
        assert_eq!(window.cwnd, 60);
    }
}
