//! The congestion states of Linux: Open, Disorder, Recovery, Loss.

use super::config::{Kernel, LossDetection, TcpConfig};
use super::send::{Awaits, Sender, TIMER_GRAIN};
use penstock_units::{Duration, Instant, time::nanos};

/// What the sender believes of the network (`tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CaState {
    /// All is in order.
    #[default]
    Open,
    /// Something arrived out of order; it may be a loss.
    Disorder,
    /// A loss was found by ACKs: it is sent again while the window falls.
    Recovery,
    /// The retransmission timer fired: everything unacknowledged is sent again from a window of one.
    Loss,
}

impl CaState {
    /// Whether lost segments are sent again.
    pub(super) fn retransmits(self) -> bool {
        matches!(self, CaState::Recovery | CaState::Loss)
    }
}

/// The current state and what it must remember.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    pub(super) state: CaState,
    /// The reduction may be taken back (`undo_marker`).
    undo: bool,
    /// `snd_nxt` when the state was entered: it ends when this is acknowledged (`high_seq`) [B].
    high_seq: u64,
    /// When something was first sent again in this episode (`retrans_stamp`); ZERO is never.
    first_resent: Instant,
    /// The window before [segments].
    prior_cwnd: u32,
    /// ssthresh before [segments].
    prior_ssthresh: u32,
    /// Segments delivered in this recovery (`prr_delivered`).
    delivered: u32,
    /// Segments sent in this recovery (`prr_out`).
    out: u32,
}

impl Recovery {
    /// Something left for the second time.
    pub(super) fn on_retransmit(&mut self, now: Instant) {
        if self.first_resent == Instant::ZERO {
            self.first_resent = now;
        }
        self.out += 1;
    }

    /// New data left.
    pub(super) fn on_send(&mut self) {
        self.out += u32::from(self.state == CaState::Recovery);
    }
}

impl Sender {
    /// An ACK that is not plain progress: `delivered` segments reached the peer by it, `advanced`
    /// says that `una` moved, `echo` is its timestamp.
    ///
    /// Source: Linux 3.2 and 6.12 `tcp_fastretrans_alert`.
    /// Deviation: a recovery that a timestamp shows to be spurious ends at once. No F-RTO: timestamps find
    /// spurious timeouts, too, but new data do not go before repetitions.
    pub(super) fn on_dubious_ack(
        &mut self,
        cfg: &TcpConfig,
        now: Instant,
        delivered: u32,
        advanced: bool,
        echo: Instant,
    ) {
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
                self.enter_recovery();
                true
            }
        };
        if cfg.loss_detection != LossDetection::Rack && (entered || self.board.gives_up_holes()) {
            // In 3.2, what was sent since the recovery began waits for the next one.
            let all = cfg.kernel != Kernel::Linux3_2;
            let limit = if all { u64::MAX } else { self.recovery.high_seq };
            self.board.mark_lost(entered, limit);
        }
        let clean = advanced && self.board.lost_out() <= lost;
        self.reduce_proportionally(cfg, delivered, entered, clean);
    }

    /// Looks for losses by time, and arms the timer if it is too early to tell.
    ///
    /// Source: RFC 8985 §6.2; Linux `tcp_rack_mark_lost`, `tcp_rack_reo_wnd`.
    /// Deviation: without DSACK the window for reordering never grows beyond a quarter of a round trip.
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

    /// What was out of order would have arrived by now (Linux `tcp_rack_reo_timeout`).
    pub(super) fn on_reordering_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        let before = self.board.in_flight();
        self.mark_lost_by_time(cfg, now);
        if self.board.in_flight() != before {
            let entered = !self.recovery.state.retransmits();
            if entered {
                self.enter_recovery();
            }
            if self.recovery.state == CaState::Recovery {
                self.reduce_proportionally(cfg, 1, entered, false);
            }
        }
        if self.awaits != Awaits::Reordering {
            self.restart_timer(cfg, now);
        }
    }

    /// Open if nothing is out of order, else Disorder (Linux `tcp_try_keep_open`).
    fn keep_open(&mut self) {
        let state = if self.board.is_quiet() { CaState::Open } else { CaState::Disorder };
        if state != self.recovery.state {
            self.recovery.state = state;
            self.recovery.high_seq = self.nxt;
        }
    }

    /// All that was sent when the state began has arrived.
    ///
    /// Source: Linux 3.2 `tcp_try_undo_recovery`, `tcp_complete_cwr`.
    fn complete(&mut self, cfg: &TcpConfig, echo: Instant) {
        if !self.try_undo(cfg, echo) && self.recovery.state == CaState::Recovery {
            self.window.cwnd = self.window.ssthresh.max(1);
        }
        self.recovery.undo = false;
        self.recovery.state = CaState::Open;
    }

    fn enter_recovery(&mut self) {
        self.remember();
        self.recovery.state = CaState::Recovery;
        self.tail_high = 0;
        self.window.on_loss();
    }

    /// The retransmission timer fired.
    ///
    /// Source: Linux `tcp_enter_loss`: ssthresh falls once for each loss event, however often the
    /// timer fires.
    pub(super) fn enter_loss(&mut self, cfg: &TcpConfig, now: Instant) {
        let fresh = match self.recovery.state {
            CaState::Open | CaState::Disorder => true,
            CaState::Recovery => self.una >= self.recovery.high_seq,
            CaState::Loss => self.una >= self.recovery.high_seq || self.retries == 0,
        };
        if fresh {
            self.remember();
            self.window.on_loss();
        }
        self.board.mark_all_lost(now);
        self.board.forget_reordering(cfg.reordering);
        // With RACK, what left a moment ago is still on its way.
        self.window.on_timeout(self.board.in_flight() + 1);
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
            ..Recovery::default()
        };
    }

    /// Takes the reduction back if this ACK answers an original, sent before anything was sent again.
    ///
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

    /// Proportional rate reduction: the window falls to ssthresh in step with what arrives. `clean` says
    /// that the ACK made progress and showed no further loss.
    ///
    /// Source: RFC 6937 §3; Linux 3.2 `tcp_update_cwnd_in_recovery`, 6.12 `tcp_cwnd_reduction`.
    /// Deviation: of ns-3's peculiarities only that it reckons from what was in flight at the loss, and that
    /// it slow-starts only with progress.
    fn reduce_proportionally(&mut self, cfg: &TcpConfig, delivered: u32, entered: bool, clean: bool) {
        let in_flight = self.board.in_flight();
        if entered && cfg.kernel == Kernel::Ns3 {
            self.recovery.prior_cwnd = in_flight.max(1);
        }
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
        // The first retransmission leaves at once.
        let first = entered || (state.out == 0 && cfg.kernel == Kernel::Linux6);
        self.window.cwnd = (in_flight + may_send.max(u32::from(first))).max(1);
    }
}
