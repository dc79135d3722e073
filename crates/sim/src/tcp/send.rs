//! The sending half: what may leave, and the timer that watches it.

use super::buffers;
use super::config::{Offload, TcpConfig};
use super::congestion::Window;
use super::recovery::{CaState, Recovery};
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::segment::Segment;
use penstock_units::Instant;

/// What the sending half wants in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Offset of the first byte [B].
    pub(super) seq: u64,
    /// Payload [B].
    pub(super) len: u32,
    /// The stream ends after the payload.
    pub(super) fin: bool,
}

/// What [`Sender::poll`] lets out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Payload or FIN, new or again.
    Data(Chunk),
    /// A question for the peer's window.
    Probe,
}

/// The peer has been silent for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut;

/// The sending half of a connection.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// First number not acknowledged (`snd_una`) [B].
    pub(super) una: u64,
    /// First number not sent (`snd_nxt`) [B].
    pub(super) nxt: u64,
    /// What the application has written (`write_seq`) [B].
    pub(super) written: u64,
    /// How far beyond `una` the peer allows (`snd_wnd`) [B].
    pub(super) peer_window: u64,
    /// `seq` of the segment that said so (`snd_wl1`).
    peer_window_seq: u64,
    /// Payload that the socket takes (`sk_sndbuf`) [B].
    pub(super) capacity: u64,
    /// The application filled the buffer and waits for it to be writable.
    wants_space: bool,
    /// An ACK freed some of the buffer since it was last looked at.
    shrank: bool,
    pub(super) board: Scoreboard,
    pub(super) window: Window,
    pub(super) rtt: Rtt,
    pub(super) recovery: Recovery,
    /// When the retransmission or probe timer fires; one timer, as in Linux.
    pub(super) timer: Instant,
    /// When data last left (`lsndtime`).
    last_sent: Instant,
    /// Segments sent again, SYNs included.
    pub(super) retransmits: u64,
    /// Timeouts in a row without an answer (`icsk_retransmits`, `icsk_probes_out`).
    pub(super) retries: u8,
    /// The stream ends at `written`.
    pub(super) fin: bool,
    probe_due: bool,
    /// New data left since the window was last validated.
    sent_new: bool,
}

impl Sender {
    pub(super) fn new(cfg: &TcpConfig, now: Instant) -> Self {
        Sender {
            una: 0,
            nxt: 0,
            written: 0,
            peer_window: 0,
            peer_window_seq: 0,
            capacity: buffers::initial_send_capacity(cfg),
            wants_space: false,
            shrank: false,
            board: Scoreboard::new(cfg.reordering, cfg.fack),
            window: Window::new(cfg, now),
            rtt: Rtt::default(),
            recovery: Recovery::default(),
            timer: Instant::FAR_FUTURE,
            last_sent: now,
            retransmits: 0,
            retries: 0,
            fin: false,
            probe_due: false,
            sent_new: false,
        }
    }

    /// The handshake is over; `segment` came with the peer's first window.
    ///
    /// Source: Linux 3.2 `tcp_init_cwnd`: more than one SYN lost costs the initial window.
    pub(super) fn on_established(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment) {
        self.peer_window = segment.window;
        self.window = Window::new(cfg, now);
        if self.retries > 1 {
            self.window.cwnd = 1;
        }
        self.retries = 0;
        self.last_sent = now;
        self.timer = Instant::FAR_FUTURE;
        self.sample_rtt(cfg, now, segment.ts_ecr);
        self.rtt.forget_backoff();
    }

    /// The application writes; it waits for space if that fills the buffer (`SOCK_NOSPACE`).
    pub(super) fn on_write(&mut self, bytes: u64) {
        self.written += bytes;
        self.wants_space |= self.queued() >= self.capacity;
    }

    /// Bytes written and not acknowledged [B].
    pub(super) fn queued(&self) -> u64 {
        self.written - self.una.min(self.written)
    }

    /// Numbers not yet sent, FIN included [B].
    fn unsent(&self) -> u64 {
        self.written + u64::from(self.fin) - self.nxt
    }

    /// An acceptable segment with ACK arrived.
    ///
    /// Source: Linux 3.2 `tcp_ack`. Deviation: an ACK older than `una` is ignored with its SACKs.
    pub(super) fn on_ack(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment) {
        if segment.ack > self.nxt || segment.ack < self.una {
            return;
        }
        let advanced = segment.ack > self.una;
        self.update_peer_window(segment, advanced);
        let (in_flight, sacked) = (self.board.in_flight(), self.board.sacked_out());
        let fackets = self.board.fackets_out();
        let late = self.board.on_sack(segment.sack_blocks());
        let news = self.board.sacked_out() - sacked;
        let mut acked = self.board.on_ack(segment.ack, fackets);
        acked.reordered = acked.reordered.max(late);
        if acked.reordered > 0 && self.recovery.state != CaState::Loss {
            self.board.on_reordering(acked.reordered);
        }
        if advanced || self.board.packets_out() == 0 {
            self.retries = 0;
        }
        self.una = segment.ack;
        if advanced {
            self.sample_rtt(cfg, now, segment.ts_ecr);
            self.restart_timer(cfg, now);
        } else if self.board.packets_out() == 0 {
            self.on_window_answer(cfg, now);
        }
        self.shrank |= acked.segments > 0;
        if acked.segments > 0 && self.recovery.state != CaState::Recovery {
            self.window.on_ack(cfg, now, acked.segments, in_flight);
        }
        if news > 0 || self.recovery.state != CaState::Open {
            let delivered = (acked.segments + self.board.sacked_out()).saturating_sub(sacked);
            self.on_dubious_ack(cfg, delivered, advanced, segment.ts_ecr);
        }
    }

    /// The application found the socket not writable and waits (`SOCK_NOSPACE`).
    pub(super) fn on_refused(&mut self) {
        self.wants_space |= !buffers::is_writable(self.queued(), self.capacity);
    }

    /// Lets the buffer grow if the application waits for space, an ACK made some, and that is not
    /// enough to fill the congestion window: a buffer that fills it is large enough.
    ///
    /// Source: Linux 3.2 `tcp_check_space`, `tcp_should_expand_sndbuf`, `sk_stream_write_space`.
    fn tune_buffer(&mut self, cfg: &TcpConfig, now: Instant) {
        if !std::mem::take(&mut self.shrank) || !self.wants_space {
            return;
        }
        let unfilled = match cfg.offload {
            Offload::None => false,
            Offload::Deferred => self.recovery.state == CaState::Open,
            Offload::Parts => !self.window.in_slow_start(),
        };
        if unfilled || self.board.packets_out() < self.window.cwnd {
            let reordering = self.board.reordering();
            self.capacity = buffers::grown_send_capacity(cfg, self.capacity, self.window.cwnd, reordering);
            self.window.postpone_validation(now);
        }
        self.wants_space = !buffers::is_writable(self.queued(), self.capacity);
    }

    /// Source: Linux `tcp_may_update_window`; RFC 9293 §3.10.7.4.
    fn update_peer_window(&mut self, segment: &Segment, advanced: bool) {
        let newer = segment.seq > self.peer_window_seq;
        let wider = segment.seq == self.peer_window_seq && segment.window > self.peer_window;
        if advanced || newer || wider {
            self.peer_window = segment.window;
            self.peer_window_seq = segment.seq;
        }
    }

    fn sample_rtt(&mut self, cfg: &TcpConfig, now: Instant, echo: Instant) {
        if echo != Instant::ZERO {
            let sample = now.since(echo);
            self.rtt.on_sample(cfg, sample, self.una, self.nxt);
            self.window.on_rtt(sample);
        }
    }

    /// The next thing to send. Call until `None`.
    ///
    /// Source: Linux `tcp_xmit_retransmit_queue`, then `tcp_write_xmit`.
    pub(super) fn poll(&mut self, cfg: &TcpConfig, now: Instant) -> Option<Outgoing> {
        let chunk = match self.poll_retransmission(cfg, now) {
            Some(chunk) => Some(chunk),
            None => self.poll_new(cfg, now),
        };
        if let Some(chunk) = chunk {
            return Some(Outgoing::Data(chunk));
        }
        self.on_nothing_to_send(cfg, now);
        std::mem::take(&mut self.probe_due).then_some(Outgoing::Probe)
    }

    fn poll_retransmission(&mut self, cfg: &TcpConfig, now: Instant) -> Option<Chunk> {
        if !self.recovery.state.retransmits() || self.board.in_flight() >= self.window.cwnd {
            return None;
        }
        let (number, seq, numbers) = self.board.next_lost()?;
        let is_head = self.board.on_retransmit(number, self.nxt);
        if is_head {
            self.timer = now + self.rtt.rto(cfg);
        }
        self.retransmits += 1;
        self.recovery.on_retransmit(now);
        self.last_sent = now;
        let fin = seq + u64::from(numbers) > self.written;
        Some(Chunk { seq, len: numbers - u32::from(fin), fin })
    }

    fn poll_new(&mut self, cfg: &TcpConfig, now: Instant) -> Option<Chunk> {
        let chunk = self.next_new(cfg)?;
        let (rto, idle) = (self.rtt.base_rto(cfg), now.since(self.last_sent));
        if self.board.packets_out() == 0 {
            self.window.on_idle(cfg, now, idle, rto);
            self.timer = now + self.rtt.rto(cfg);
        }
        let numbers = chunk.len + u32::from(chunk.fin);
        self.board.on_send(chunk.seq, numbers);
        self.recovery.on_send();
        self.nxt += u64::from(numbers);
        self.last_sent = now;
        self.sent_new = true;
        self.probe_due = false;
        Some(chunk)
    }

    /// The next segment of new data, if congestion window, peer and Nagle let it go.
    ///
    /// Source: Linux `tcp_snd_test`: cwnd (a lone FIN is exempt), Nagle, peer's window. A segment goes
    /// whole or, when a probe is due, as far as the window lets it (`tcp_write_wakeup`).
    /// Deviation: Nagle's own rule, not Minshall's.
    fn next_new(&self, cfg: &TcpConfig) -> Option<Chunk> {
        if self.unsent() == 0 {
            return None;
        }
        let left = self.written - self.nxt;
        let mut len = left.min(u64::from(cfg.mss));
        let room = (self.una + self.peer_window).saturating_sub(self.nxt);
        if self.probe_due {
            len = len.min(room);
        }
        let fin = self.fin && len == left && room > len;
        let full = self.board.in_flight() >= self.window.cwnd;
        if len > room || (len == 0 && !fin) || (len > 0 && full) {
            return None;
        }
        let small = len < u64::from(cfg.mss) && !fin;
        if cfg.nagle && small && self.board.packets_out() > 0 {
            return None;
        }
        Some(Chunk { seq: self.nxt, len: len as u32, fin })
    }

    /// The burst is over: validate the window, and watch a closed one.
    fn on_nothing_to_send(&mut self, cfg: &TcpConfig, now: Instant) {
        self.tune_buffer(cfg, now);
        if std::mem::take(&mut self.sent_new) {
            let rto = self.rtt.base_rto(cfg);
            let waits_for_app = self.queued() < self.capacity;
            self.window.validate(cfg, now, self.board.packets_out(), rto, waits_for_app);
        }
        let idle_timer = self.timer == Instant::FAR_FUTURE;
        if idle_timer && self.board.packets_out() == 0 && self.unsent() > 0 {
            self.timer = now + self.rtt.rto(cfg);
        }
    }

    /// An answer while only the peer's window holds us back (Linux `tcp_ack_probe`).
    fn on_window_answer(&mut self, cfg: &TcpConfig, now: Instant) {
        if self.next_new(cfg).is_some() {
            self.rtt.forget_backoff();
            self.timer = Instant::FAR_FUTURE;
        } else if self.unsent() > 0 {
            self.timer = now + self.rtt.rto(cfg);
        }
    }

    fn restart_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        let waits = self.board.packets_out() > 0;
        self.timer = if waits { now + self.rtt.rto(cfg) } else { Instant::FAR_FUTURE };
    }

    /// The timer may have fired.
    ///
    /// Source: Linux `tcp_retransmit_timer`, `tcp_probe_timer`; RFC 6298 §5.4 to 5.6, RFC 9293 §3.8.6.1.
    /// Deviation: it gives up by the number of timeouts, not by the time they would have taken.
    pub(super) fn on_timer(&mut self, cfg: &TcpConfig, now: Instant) -> Result<(), TimedOut> {
        if now < self.timer {
            return Ok(());
        }
        self.timer = Instant::FAR_FUTURE;
        let unacked = self.board.packets_out() > 0;
        if !unacked && self.unsent() == 0 {
            return Ok(());
        }
        if self.retries >= cfg.retries {
            return Err(TimedOut);
        }
        if unacked {
            self.enter_loss();
        } else {
            self.probe_due = true;
        }
        self.retries += 1;
        self.rtt.back_off();
        self.timer = now + self.rtt.rto(cfg);
        Ok(())
    }
}
