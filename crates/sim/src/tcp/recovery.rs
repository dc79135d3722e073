//! The congestion states of Linux: Open, Disorder, Recovery, Loss.

use super::config::TcpConfig;
use super::send::Sender;
use penstock_units::Instant;

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
    /// Source: Linux 3.2 `tcp_fastretrans_alert`.
    /// Deviation: a recovery that a timestamp shows to be spurious ends at once.
    pub(super) fn on_dubious_ack(&mut self, cfg: &TcpConfig, delivered: u32, advanced: bool, echo: Instant) {
        if self.recovery.state != CaState::Open && self.una >= self.recovery.high_seq {
            self.complete(echo);
        }
        let entered = match self.recovery.state {
            CaState::Recovery => {
                if advanced && self.try_undo(echo) {
                    return;
                }
                self.board.mark_lost_retransmissions();
                false
            }
            CaState::Loss => {
                if !advanced || !self.try_undo(echo) {
                    self.window.moderate(cfg, self.board.in_flight());
                }
                return;
            }
            CaState::Open | CaState::Disorder => {
                self.keep_open();
                let more = self.written > self.nxt && self.peer_window > self.nxt - self.una;
                if !self.board.shows_loss(cfg.reordering, more) {
                    if self.recovery.state == CaState::Disorder {
                        self.window.moderate(cfg, self.board.in_flight());
                    }
                    return;
                }
                self.enter_recovery();
                true
            }
        };
        if entered || self.board.gives_up_holes() {
            self.board.mark_lost(entered);
        }
        self.reduce_proportionally(delivered, entered);
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
    fn complete(&mut self, echo: Instant) {
        if !self.try_undo(echo) && self.recovery.state == CaState::Recovery {
            self.window.cwnd = self.window.ssthresh.max(1);
        }
        self.recovery.undo = false;
        self.recovery.state = CaState::Open;
    }

    fn enter_recovery(&mut self) {
        self.remember();
        self.recovery.state = CaState::Recovery;
        self.window.on_loss();
    }

    /// The retransmission timer fired.
    ///
    /// Source: Linux `tcp_enter_loss`: ssthresh falls once for each loss event, however often the
    /// timer fires.
    pub(super) fn enter_loss(&mut self) {
        let fresh = match self.recovery.state {
            CaState::Open | CaState::Disorder => true,
            CaState::Recovery => self.una >= self.recovery.high_seq,
            CaState::Loss => self.una >= self.recovery.high_seq || self.retries == 0,
        };
        if fresh {
            self.remember();
            self.window.on_loss();
        }
        self.window.on_timeout();
        self.board.mark_all_lost();
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
    fn try_undo(&mut self, echo: Instant) -> bool {
        let none_resent = self.recovery.first_resent == Instant::ZERO;
        let original = none_resent || (echo != Instant::ZERO && echo < self.recovery.first_resent);
        if !self.recovery.undo || !original {
            return false;
        }
        self.recovery.undo = false;
        self.window.undo(self.recovery.prior_cwnd, self.recovery.prior_ssthresh);
        self.board.forget_losses();
        self.keep_open();
        true
    }

    /// Proportional rate reduction: the window falls to ssthresh in step with what arrives.
    ///
    /// Source: RFC 6937 §3; Linux 3.2 `tcp_update_cwnd_in_recovery`.
    fn reduce_proportionally(&mut self, delivered: u32, entered: bool) {
        let state = &mut self.recovery;
        state.delivered += delivered;
        let (in_flight, ssthresh) = (self.board.in_flight(), self.window.ssthresh);
        let may_send = if in_flight > ssthresh {
            let due = u64::from(ssthresh) * u64::from(state.delivered);
            let due = due.div_ceil(u64::from(state.prior_cwnd.max(1))) as u32;
            due.saturating_sub(state.out)
        } else {
            let earned = state.delivered.saturating_sub(state.out).max(delivered) + 1;
            earned.min(ssthresh - in_flight)
        };
        // The first retransmission leaves at once.
        self.window.cwnd = (in_flight + may_send.max(u32::from(entered))).max(1);
    }
}
