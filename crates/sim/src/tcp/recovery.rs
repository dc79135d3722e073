use super::config::{Kernel, LossDetection, TcpConfig};
use super::scoreboard::Acked;
use super::send::{Awaits, Sender, TIMER_GRAIN};
use penstock_units::{Duration, Instant, time::nanos};

/// The sender's congestion state in Linux (`tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CaState {
    /// ACKs show neither loss nor reordering.
    #[default]
    Open,
    /// Segments arrived out of order, so one may be lost.
    Disorder,
    /// ACKs showed a loss. The sender retransmits lost segments and reduces the window.
    Recovery,
    /// The retransmission timer expired. The sender retransmits all unacknowledged data. The window starts at one
    /// segment.
    Loss,
}

impl CaState {
    pub(super) fn retransmits(self) -> bool {
        matches!(self, CaState::Recovery | CaState::Loss)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    pub(super) state: CaState,
    /// Whether the window reduction may be undone (`undo_marker`).
    undo: bool,
    /// The value of `snd_nxt` when the state began. The state ends when this number is acknowledged (`high_seq`) [B]. In
    /// Shadow's recovery, it is the start of the last segment (`recoveryPoint`).
    high_seq: u64,
    /// When the first segment was retransmitted in this state (`retrans_stamp`); ZERO if none was.
    first_resent: Instant,
    /// The window before this state began [segments].
    prior_cwnd: u32,
    /// The ssthresh before this state began [segments].
    prior_ssthresh: u32,
    /// Segments delivered in this recovery (`prr_delivered`).
    delivered: u32,
    /// Segments sent in this recovery (`prr_out`).
    out: u32,
    /// A partial ACK has restarted the timer in this recovery (ns-3 `m_isFirstPartialAck`).
    restarted: bool,
    /// A partial ACK allows one segment beyond the window (ns-3 `DoRetransmit`).
    pub(super) extra: bool,
    /// Consecutive ACKs that acknowledged nothing new (Shadow `dupAcknowledgmentCount`).
    pub(super) duplicates: u32,
}

impl Recovery {
    pub(super) fn on_retransmit(&mut self, now: Instant) {
        if self.first_resent == Instant::ZERO {
            self.first_resent = now;
        }
        self.out += 1;
    }

    pub(super) fn on_send(&mut self) {
        self.out += u32::from(self.state == CaState::Recovery);
    }

    /// Whether an ACK that advances `una` restarts the retransmission timer. In ns-3 only the first partial ACK of a
    /// recovery restarts it.
    /// Source: RFC 6582 §4, impatient variant; ns-3 `TcpSocketBase::ProcessAck`.
    pub(super) fn restarts_timer(&mut self, cfg: &TcpConfig, una: u64) -> bool {
        let partial = cfg.kernel == Kernel::Ns3 && self.state == CaState::Recovery && una < self.high_seq;
        !(partial && std::mem::replace(&mut self.restarted, true))
    }

    /// The number of segments for which an ACK outside of recovery increases the window in ns-3. `delivered` is the
    /// number of segments that the ACK delivered. If the ACK ends the state Loss, only segments beyond the recovery
    /// point count. Source: ns-3.44 `TcpSocketBase::ProcessAck`.
    pub(super) fn credit_like_ns3(&self, cfg: &TcpConfig, una: u64, delivered: u32) -> u32 {
        match self.state {
            CaState::Loss if una >= self.high_seq => ((una - self.high_seq) / u64::from(cfg.mss)) as u32,
            _ => delivered,
        }
    }
}

impl Sender {
    /// Handles an ACK that shows or may show a loss. `delivered` is the number of delivered segments. `sacked_new`: the ACK
    /// SACKed new segments. `acked` is the result of the cumulative ACK, and `echo` is the echoed timestamp.
    /// Source: Linux 3.2 and 6.12 `tcp_fastretrans_alert`.
    /// Deviation: a recovery ends immediately if a timestamp shows that it was spurious. There is no F-RTO: timestamps
    /// detect spurious timeouts, and the sender always retransmits before it sends new data.
    pub(super) fn on_dubious_ack(
        &mut self,
        cfg: &TcpConfig,
        now: Instant,
        delivered: u32,
        sacked_new: bool,
        acked: &Acked,
        echo: Instant,
    ) {
        let advanced = acked.advanced;
        if cfg.kernel == Kernel::Shadow {
            self.on_dubious_ack_like_shadow(cfg);
            return;
        }
        if self.recovery.state != CaState::Open && self.una >= self.recovery.high_seq {
            self.complete(cfg, echo);
        }
        let lost = self.board.lost_out();
        let entered = match self.recovery.state {
            CaState::Recovery => {
                if advanced && self.try_undo(cfg, echo) {
                    return;
                }
                self.board.mark_lost_retransmissions();
                self.detect_by_time(cfg, now);
                false
            }
            CaState::Loss => {
                let undone = advanced && self.try_undo(cfg, echo);
                self.detect_by_time(cfg, now);
                if !undone && cfg.kernel == Kernel::Linux3_2 {
                    self.window.moderate(cfg, self.board.in_flight());
                }
                return;
            }
            CaState::Open | CaState::Disorder => {
                self.keep_open();
                self.detect_by_time(cfg, now);
                let more = self.written > self.nxt && self.peer_window > self.nxt - self.una;
                if !self.board.shows_loss(cfg.reordering, more) {
                    if self.recovery.state == CaState::Disorder && cfg.kernel == Kernel::Linux3_2 {
                        self.window.moderate(cfg, self.board.in_flight());
                    }
                    return;
                }
                if cfg.kernel == Kernel::Ns3 {
                    // ns-3 computes ssthresh without the segments that count as lost.
                    self.board.mark_lost(true, u64::MAX);
                }
                self.enter_recovery(cfg);
                true
            }
        };
        if cfg.loss_detection != LossDetection::Rack && (entered || self.board.gives_up_holes()) {
            // In Linux 3.2, a recovery does not retransmit segments that were sent after it began.
            let all = cfg.kernel != Kernel::Linux3_2;
            let limit = if all { u64::MAX } else { self.recovery.high_seq };
            self.board.mark_lost(entered, limit);
        }
        if cfg.kernel == Kernel::Ns3 {
            self.reduce_like_ns3(cfg, delivered, sacked_new || entered, entered, acked);
            self.recovery.extra = advanced && !entered && !self.board.head_is_resent();
            return;
        }
        let clean = advanced && self.board.lost_out() <= lost;
        self.reduce_proportionally(cfg, delivered, entered, clean);
    }

    /// Detects losses by time (RACK), and sets a timer for segments that may count as lost later.
    /// Source: RFC 8985 §6.2; Linux `tcp_rack_mark_lost`, `tcp_rack_reo_wnd`.
    /// Deviation: without DSACK the reordering window never exceeds a quarter of a round trip.
    fn detect_by_time(&mut self, cfg: &TcpConfig, now: Instant) {
        if cfg.loss_detection == LossDetection::Rack && self.board.rack_advanced() {
            self.mark_lost_by_time(cfg, now);
        }
    }

    fn mark_lost_by_time(&mut self, cfg: &TcpConfig, now: Instant) {
        let recovering = matches!(self.recovery.state, CaState::Recovery | CaState::Loss);
        let sure = recovering || self.board.sacked_out() >= cfg.reordering;
        let window = match self.rtt.min() {
            _ if sure && !self.board.reorders() => 0,
            u64::MAX => 0,
            min => (min / 4).min(nanos(self.rtt.srtt())),
        };
        let wait = self.board.mark_lost_by_time(now, window);
        if wait > 0 {
            (self.awaits, self.timer) = (Awaits::Reordering, now + Duration::from_nanos(wait) + TIMER_GRAIN);
        }
    }

    /// Handles the timer for segments that may be reordered or lost (Linux `tcp_rack_reo_timeout`).
    pub(super) fn on_reordering_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        let before = self.board.in_flight();
        self.mark_lost_by_time(cfg, now);
        if self.board.in_flight() != before {
            let entered = !self.recovery.state.retransmits();
            if entered {
                self.enter_recovery(cfg);
            }
            if self.recovery.state == CaState::Recovery {
                self.reduce_proportionally(cfg, 1, entered, false);
            }
        }
        if self.awaits != Awaits::Reordering {
            self.restart_timer(cfg, now);
        }
    }

    /// Enters Open if no segment is out of order, otherwise Disorder (Linux `tcp_try_keep_open`).
    fn keep_open(&mut self) {
        let state = if self.board.is_quiet() { CaState::Open } else { CaState::Disorder };
        if state != self.recovery.state {
            self.recovery.state = state;
            self.recovery.high_seq = self.nxt;
        }
    }

    /// Ends Recovery or Loss, because all data that were sent before the state began have arrived.
    /// Source: Linux 3.2 `tcp_try_undo_recovery`, `tcp_complete_cwr`.
    fn complete(&mut self, cfg: &TcpConfig, echo: Instant) {
        if !self.try_undo(cfg, echo) && self.recovery.state == CaState::Recovery {
            self.window.leave_recovery();
        }
        self.recovery.undo = false;
        self.recovery.state = CaState::Open;
    }

    fn enter_recovery(&mut self, cfg: &TcpConfig) {
        self.remember();
        self.recovery.state = CaState::Recovery;
        self.tail_high = 0;
        self.window.on_loss(cfg, self.board.in_flight());
    }

    /// Handles an ACK that shows or may show a loss. Each newly detected loss outside of Recovery reduces the window at
    /// once and begins a Recovery. A third duplicate ACK ends it, so that a burst of losses reduces the window repeatedly.
    /// An ACK of all data before the last segment ends it, too.
    /// Source: Shadow 1.9.0 `tcp_processPacket`, `_tcp_fastRetransmitAlert`, `scoreboard_update`.
    fn on_dubious_ack_like_shadow(&mut self, cfg: &TcpConfig) {
        if self.recovery.duplicates == 3 && self.recovery.state == CaState::Recovery {
            self.recovery.state = CaState::Disorder;
        }
        let again = self.board.mark_lost_retransmissions();
        let lost = self.board.lost_out();
        if self.board.gives_up_holes() {
            self.board.mark_lost(false, u64::MAX);
        }
        let loss = again || self.board.lost_out() > lost;
        if self.recovery.state != CaState::Open && self.una >= self.recovery.high_seq {
            if self.recovery.state == CaState::Recovery {
                self.board.forget_holes();
                self.keep_open();
                return;
            }
            self.recovery.state = CaState::Open;
        }
        if loss && self.recovery.state != CaState::Recovery {
            self.enter_recovery(cfg);
            self.recovery.high_seq = self.board.start_of_last().expect("a lost segment is on the board");
            self.window.leave_recovery();
        } else if self.recovery.state == CaState::Open {
            self.keep_open();
        }
    }

    /// Handles the retransmission timeout.
    /// Source: Linux `tcp_enter_loss`, where several timeouts in the same loss event reduce ssthresh only once. In ns-3.44
    /// `TcpSocketBase::ReTxTimeout`, each timeout reduces it, because the sender forgets its retransmissions before it
    /// checks whether the first segment was retransmitted.
    pub(super) fn enter_loss(&mut self, cfg: &TcpConfig, now: Instant) {
        let fresh = match self.recovery.state {
            CaState::Open | CaState::Disorder => true,
            CaState::Recovery | CaState::Loss if matches!(cfg.kernel, Kernel::Ns3 | Kernel::Shadow) => true,
            CaState::Recovery => self.una >= self.recovery.high_seq,
            CaState::Loss => self.una >= self.recovery.high_seq || self.retries == 0,
        };
        if fresh {
            self.remember();
            self.window.on_loss(cfg, self.board.in_flight());
        }
        self.board.mark_all_lost(now);
        self.board.forget_reordering(cfg.reordering);
        match cfg.kernel {
            // A timeout reduces the window like any other loss (`tcp_retransmitTimerExpired`).
            Kernel::Shadow => self.window.leave_recovery(),
            // With RACK, segments that were sent recently remain in flight.
            _ => self.window.on_timeout(cfg, self.board.in_flight() + 1),
        }
        self.tail_high = 0;
        self.recovery.state = CaState::Loss;
        self.recovery.high_seq = self.nxt;
    }

    fn remember(&mut self) {
        self.recovery = Recovery {
            state: self.recovery.state,
            undo: true,
            high_seq: self.nxt,
            prior_cwnd: self.window.cwnd,
            prior_ssthresh: self.window.ssthresh,
            duplicates: self.recovery.duplicates,
            ..Recovery::default()
        };
    }

    /// Undoes the window reduction if this ACK answers an original segment, not a retransmission.
    /// Source: Linux `tcp_may_undo`, `tcp_packet_delayed`, `tcp_undo_cwr`; RFC 3522 (Eifel).
    fn try_undo(&mut self, cfg: &TcpConfig, echo: Instant) -> bool {
        let none_resent = self.recovery.first_resent == Instant::ZERO;
        let original = none_resent || (echo != Instant::ZERO && echo < self.recovery.first_resent);
        if !cfg.undo || !self.recovery.undo || !original {
            return false;
        }
        self.recovery.undo = false;
        self.window.undo(self.recovery.prior_cwnd, self.recovery.prior_ssthresh);
        self.board.forget_losses();
        self.keep_open();
        true
    }

    /// Proportional rate reduction: the window falls to ssthresh in proportion to the delivered data. `clean`: the ACK
    /// made progress and showed no further loss.
    /// Source: RFC 6937 §3; Linux 3.2 `tcp_update_cwnd_in_recovery`, 6.12 `tcp_cwnd_reduction`.
    fn reduce_proportionally(&mut self, cfg: &TcpConfig, delivered: u32, entered: bool, clean: bool) {
        let in_flight = self.board.in_flight();
        let state = &mut self.recovery;
        state.delivered += delivered;
        let ssthresh = self.window.ssthresh;
        let may_send = if in_flight > ssthresh {
            let due = u64::from(ssthresh) * u64::from(state.delivered);
            let due = due.div_ceil(u64::from(state.prior_cwnd.max(1))) as u32;
            due.saturating_sub(state.out)
        } else {
            let more = u32::from(clean || cfg.kernel == Kernel::Linux3_2);
            let earned = state.delivered.saturating_sub(state.out).max(delivered) + more;
            earned.min(ssthresh - in_flight)
        };
        let first = entered || (state.out == 0 && cfg.kernel == Kernel::Linux6);
        self.window.cwnd = (in_flight + may_send.max(u32::from(first))).max(1);
    }

    /// The window reduction of ns-3.44, with four differences from proportional rate reduction. An ACK with new SACKs
    /// counts one segment more than it delivered. An ACK with progress counts twice. The reduction starts from the data
    /// in flight after the loss was detected. A product in bytes is limited to 32 bits.
    /// Source: ns-3.44 `TcpSocketBase::DupAck`, `ProcessAck`, `TcpPrrRecovery::DoRecovery`.
    fn reduce_like_ns3(
        &mut self,
        cfg: &TcpConfig,
        delivered: u32,
        sacked_new: bool,
        entered: bool,
        acked: &Acked,
    ) {
        let in_flight = self.board.in_flight();
        if entered {
            self.recovery.prior_cwnd = in_flight.max(1);
        }
        let again = acked.segments > 0 && acked.left == Instant::ZERO;
        if sacked_new {
            let extra = u32::from(self.recovery.delivered < self.recovery.prior_cwnd);
            self.reduce_once(cfg, in_flight, delivered + extra, again);
        }
        if acked.segments > 0 {
            self.reduce_once(cfg, in_flight, delivered, again);
        }
    }

    /// Applies one step of the reduction. `again`: the ACK covered a retransmission. If more segments were sent than
    /// delivered, ns-3 subtracts unsigned numbers, and the step allows no segment.
    fn reduce_once(&mut self, cfg: &TcpConfig, in_flight: u32, delivered: u32, again: bool) {
        let state = &mut self.recovery;
        state.delivered += delivered;
        let mss = i64::from(cfg.mss);
        let ssthresh = self.window.ssthresh_bytes(cfg);
        let [in_flight_bytes, out] = [in_flight, state.out].map(|segments| i64::from(segments) * mss);
        let may_send = if in_flight_bytes as u64 > ssthresh {
            let product = (state.delivered * cfg.mss).wrapping_mul(ssthresh as u32);
            i64::from(product.div_ceil(state.prior_cwnd * cfg.mss)) - out
        } else {
            let left = i64::from(state.delivered) - i64::from(state.out);
            let earned = if left < 0 { left } else { left.max(delivered.into()) } + i64::from(again);
            (earned * mss).min(ssthresh as i64 - in_flight_bytes)
        };
        let may_send = (may_send.max(0) / mss) as u32;
        self.window.cwnd = (in_flight + may_send.max(u32::from(state.out == 0))).max(1);
    }
}
