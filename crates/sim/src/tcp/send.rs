use super::buffers;
use super::config::{InterfaceOrder, Kernel, LossDetection, Offload, TcpConfig};
use super::congestion::Window;
use super::recovery::{CaState, Recovery};
use super::rtt::Rtt;
use super::scoreboard::{Acked, Scoreboard};
use super::segment::Segment;
use super::small_queue::{LIMIT_OUTPUT, SmallQueue};
use penstock_units::{Duration, Instant, time::nanos};
use std::collections::VecDeque;
use std::iter;

/// The time that Linux adds to very short timers (`TCP_TIMEOUT_MIN_US`).
pub(super) const TIMER_GRAIN: Duration = Duration::from_millis(2);

/// The fields of a segment that the sending half decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The stream position of the first byte [B].
    pub(super) seq: u64,
    /// The payload's size [B].
    pub(super) len: u32,
    /// The stream ends after this payload.
    pub(super) fin: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Payload or FIN, new or retransmitted, and the number of consecutive chunks of this size.
    Data(Chunk, u32),
    Probe,
}

/// The event for which the retransmission timer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// A retransmission, or a probe of a closed window (`ICSK_TIME_RETRANS`, `ICSK_TIME_PROBE0`).
    Timeout,
    /// A tail loss probe (`ICSK_TIME_LOSS_PROBE`).
    Tail,
    /// Loss detection by time (`ICSK_TIME_REO_TIMEOUT`).
    Reordering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailProbe {
    None,
    /// Send new data, even beyond the congestion window.
    New,
    Again,
}

/// The maximum number of retransmissions was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut;

/// A write of the application.
#[derive(Clone, Copy, Debug)]
struct Write {
    /// The stream position after the write [B].
    end: u64,
    /// The write's number on its host.
    number: u64,
}

/// The sending half of a connection: selects the segments to send, and runs the retransmission timer.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// The first unacknowledged sequence number (`snd_una`) [B].
    pub(super) una: u64,
    /// The first unsent sequence number (`snd_nxt`) [B].
    pub(super) nxt: u64,
    /// The stream position after the data that the application has written (`write_seq`) [B].
    pub(super) written: u64,
    /// The unsent writes, with [`TcpConfig::segment_per_write`] or [`InterfaceOrder::OldestWrite`].
    writes: VecDeque<Write>,
    /// The peer's receive window, counted from `una` (`snd_wnd`) [B].
    pub(super) peer_window: u64,
    /// The `seq` of the segment that announced `peer_window` (`snd_wl1`).
    peer_window_seq: u64,
    /// The payload capacity of the socket (`sk_sndbuf`) [B].
    pub(super) capacity: u64,
    /// Whether the application has filled the send buffer and waits until the socket is writable.
    wants_space: bool,
    /// Whether an ACK has freed space in the send buffer since the last check.
    shrank: bool,
    pub(super) board: Scoreboard,
    pub(super) window: Window,
    pub(super) rtt: Rtt,
    pub(super) recovery: Recovery,
    /// The time of the retransmission or probe timer. As in Linux, there is only one timer.
    pub(super) timer: Instant,
    pub(super) awaits: Awaits,
    tail_probe: TailProbe,
    /// Whether the tail loss probe was a retransmission of the last segment (`tlp_retrans`).
    tail_again: bool,
    /// The value of `snd_nxt` at the tail loss probe; 0 if there was none (`tlp_high_seq`) [B].
    pub(super) tail_high: u64,
    /// The sequence number after the last small segment (`snd_sml`) [B].
    small_end: u64,
    pub(super) small_queue: SmallQueue,
    /// Data that were polled but still wait in the socket for the interface ([`InterfaceOrder::OldestWrite`]) [B].
    pub(super) held: u32,
    /// The segments that the network has dropped, and when the sender learns it. Only Shadow tells senders.
    #[expect(clippy::box_collection, reason = "few senders hear of drops, and a sender stays small")]
    pub(super) drops: Option<Box<VecDeque<(Instant, u64)>>>,
    /// When the last data segment was sent (`lsndtime`).
    last_sent: Instant,
    /// Retransmitted segments, including SYNs.
    pub(super) retransmits: u64,
    /// Consecutive timeouts without an answer (`icsk_retransmits`, `icsk_probes_out`).
    pub(super) retries: u8,
    pub(super) fin: bool,
    probe_due: bool,
    /// Whether new data were sent since the last validation of the congestion window.
    sent_new: bool,
}

impl Sender {
    pub(super) fn new(cfg: &TcpConfig, now: Instant) -> Self {
        Sender {
            una: 0,
            nxt: 0,
            written: 0,
            writes: VecDeque::new(),
            peer_window: 0,
            peer_window_seq: 0,
            capacity: buffers::initial_send_capacity(cfg),
            wants_space: false,
            shrank: false,
            board: Scoreboard::new(cfg),
            window: Window::new(cfg, now),
            rtt: Rtt::default(),
            recovery: Recovery::default(),
            timer: Instant::FAR_FUTURE,
            awaits: Awaits::Timeout,
            tail_probe: TailProbe::None,
            tail_again: false,
            tail_high: 0,
            small_end: 0,
            small_queue: SmallQueue::default(),
            held: 0,
            drops: None,
            last_sent: now,
            retransmits: 0,
            retries: 0,
            fin: false,
            probe_due: false,
            sent_new: false,
        }
    }

    /// Completes the handshake. `segment` contains the peer's first receive window.
    /// Source: Linux 3.2 `tcp_init_cwnd`: if more than one SYN was lost, the window starts at one segment.
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

    /// Records a write by the application. If the socket is not writable afterwards, the application waits for space
    /// (`SOCK_NOSPACE`).
    /// Source: Linux `tcp_sendmsg`, `tcp_poll`.
    /// Deviation: the application waits even if it has no more data.
    pub(super) fn on_write(&mut self, cfg: &TcpConfig, number: u64, bytes: u64) {
        self.written += bytes;
        if (cfg.segment_per_write || cfg.sockets_wait()) && bytes > 0 {
            self.writes.push_back(Write { end: self.written, number });
        }
        self.wants_space = !buffers::is_writable(cfg, self.occupied(), self.capacity);
    }

    pub(super) fn queued(&self) -> u64 {
        self.written - self.una.min(self.written)
    }

    /// The used space of the send buffer [B]. Data that wait for the interface count twice, because they are in the queues
    /// of the socket and of TCP. Source: Shadow 1.9.0 `_tcp_getBufferSpaceOut`.
    pub(super) fn occupied(&self) -> u64 {
        self.queued() + u64::from(self.held)
    }

    pub(super) fn not_sent(&self) -> u64 {
        self.written - self.nxt.min(self.written)
    }

    /// The end of the data that the next segment may have: all written data, or those of the first unsent write.
    fn end_of_next(&self, cfg: &TcpConfig) -> u64 {
        let first = self.writes.front().filter(|_| cfg.segment_per_write);
        first.map_or(self.written, |write| write.end)
    }

    /// Unsent segments, if each write starts a new one.
    pub(super) fn unsent_segments(&self, cfg: &TcpConfig) -> u64 {
        let starts = iter::once(self.nxt).chain(self.writes.iter().map(|write| write.end));
        starts.zip(&self.writes).map(|(start, write)| (write.end - start).div_ceil(cfg.mss.into())).sum()
    }

    /// Unsent sequence numbers, including the FIN [B].
    fn unsent(&self) -> u64 {
        self.written + u64::from(self.fin) - self.nxt
    }

    /// Handles an acceptable segment with an ACK. Source: Linux 3.2 `tcp_ack`.
    /// Deviation: an ACK below `una` is ignored, including its SACK blocks.
    pub(super) fn on_ack(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment) {
        if segment.ack > self.nxt || segment.ack < self.una {
            return;
        }
        let advanced = segment.ack > self.una;
        self.recovery.duplicates = if advanced { 0 } else { self.recovery.duplicates.saturating_add(1) };
        self.update_peer_window(segment, advanced);
        if self.is_idle() && !advanced {
            // This endpoint has no data in flight, so the ACK reports nothing new.
            self.retries = 0;
            return;
        }
        let (in_flight, sacked) = (self.board.in_flight(), self.board.sacked_out());
        let fackets = self.board.fackets_out();
        let min_rtt = self.rtt.min();
        let late = match segment.sack_blocks().next() {
            Some(_) => self.board.on_sack(now, segment.sack_blocks(), min_rtt),
            None => 0,
        };
        let sacked_new = self.board.sacked_out() - sacked;
        let mut acked = self.board.on_ack(now, segment.ack, fackets, min_rtt);
        acked.reordered = acked.reordered.max(late);
        acked.advanced = advanced;
        if acked.reordered > 0 && self.recovery.state != CaState::Loss && cfg.kernel != Kernel::Shadow {
            self.board.on_reordering(acked.reordered);
        }
        if advanced || self.board.packets_out() == 0 {
            self.retries = 0;
        }
        self.una = segment.ack;
        if self.tail_high > 0 {
            self.on_tail_ack(cfg, segment, advanced, sacked_new > 0);
        }
        if advanced || cfg.kernel == Kernel::Shadow {
            self.sample_rtt(cfg, now, segment.ts_ecr);
        }
        if advanced {
            if self.recovery.restarts_timer(cfg, self.una) {
                self.restart_timer(cfg, now);
            }
        } else if self.board.packets_out() == 0 {
            self.on_window_answer(cfg, now);
        }
        let delivered = (acked.segments + self.board.sacked_out()).saturating_sub(sacked);
        if acked.segments > 0 {
            self.shrank = true;
            self.grow_window(cfg, now, &acked, delivered, in_flight);
        }
        if sacked_new > 0 || self.recovery.state != CaState::Open {
            let before = self.recovery.state;
            self.on_dubious_ack(cfg, now, delivered, sacked_new > 0, &acked, segment.ts_ecr);
            let recovered = before == CaState::Recovery && self.recovery.state != before;
            if cfg.kernel == Kernel::Ns3 && recovered {
                // In ns-3, the ACK that ends recovery lets the window grow for all segments that it acknowledges
                // (`ProcessAck`).
                self.window.on_ack(cfg, now, acked.segments, u32::MAX);
            }
        }
    }

    /// Whether no data are in flight and none wait to be sent.
    fn is_idle(&self) -> bool {
        self.recovery.state == CaState::Open
            && self.board.packets_out() == 0
            && self.unsent() == 0
            && self.tail_high == 0
    }

    /// Lets the congestion window grow after segments were acknowledged.
    /// Source: Linux 3.2 `tcp_ack` (`tcp_may_raise_cwnd`), `bictcp_acked`.
    fn grow_window(&mut self, cfg: &TcpConfig, now: Instant, acked: &Acked, delivered: u32, in_flight: u32) {
        let open = self.recovery.state == CaState::Open;
        let sample = (acked.left != Instant::ZERO).then(|| now.since(acked.left));
        self.window.on_delivery(cfg, now, acked.segments, sample, (self.una, self.nxt), open, &self.rtt);
        if self.recovery.state != CaState::Recovery {
            let credit = match cfg.kernel {
                Kernel::Linux3_2 | Kernel::Shadow => acked.segments,
                Kernel::Linux6 => delivered,
                Kernel::Ns3 => self.recovery.credit_like_ns3(cfg, self.una, delivered),
            };
            self.window.on_ack(cfg, now, credit, in_flight);
        }
    }

    /// Grows the send buffer if three conditions hold: the application waits for space, an ACK has freed space, and the
    /// buffered data did not fill the congestion window.
    /// Source: Linux 3.2 `tcp_check_space`, `tcp_should_expand_sndbuf`, `sk_stream_write_space`.
    fn tune_buffer(&mut self, cfg: &TcpConfig, now: Instant) {
        let always = cfg.kernel == Kernel::Shadow;
        if !std::mem::take(&mut self.shrank) || !(self.wants_space || always) {
            return;
        }
        let unfilled = match cfg.offload {
            Offload::None => false,
            Offload::Deferred => self.recovery.state == CaState::Open,
            Offload::Parts => !self.window.in_slow_start(cfg),
        };
        if always || unfilled || self.board.packets_out() < self.window.cwnd {
            let reordering = self.board.reordering();
            self.capacity = buffers::grown_send_capacity(cfg, self.capacity, self.window.cwnd, reordering);
            self.window.postpone_validation(now);
        }
        self.wants_space &= !buffers::is_writable(cfg, self.occupied(), self.capacity);
    }

    /// Updates the window of the peer, unless the segment is older than the last update. Source: Linux
    /// `tcp_may_update_window`; RFC 9293 §3.10.7.4.
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
        }
    }

    /// The next segment to send, or at most `most` segments of new data. The caller repeats this until it returns
    /// `None`.
    /// Source: Linux `tcp_xmit_retransmit_queue`, then `tcp_write_xmit`.
    pub(super) fn poll(&mut self, cfg: &TcpConfig, now: Instant, most: u32) -> Option<Outgoing> {
        if self.is_idle() && !self.shrank && !self.sent_new && !self.probe_due {
            return None;
        }
        if let Some(chunk) = self.poll_tail_probe(cfg, now) {
            return Some(Outgoing::Data(chunk, 1));
        }
        if std::mem::take(&mut self.recovery.extra)
            && let Some(chunk) = self.poll_extra(cfg, now)
        {
            return Some(Outgoing::Data(chunk, 1));
        }
        if let Some(chunk) = self.poll_retransmission(cfg, now) {
            return Some(Outgoing::Data(chunk, 1));
        }
        if let Some((chunk, count)) = self.poll_new(cfg, now, most) {
            return Some(Outgoing::Data(chunk, count));
        }
        self.on_nothing_to_send(cfg, now);
        std::mem::take(&mut self.probe_due).then_some(Outgoing::Probe)
    }

    /// A lost segment, if the window has room. After a timeout, ns-3 sends new data before it retransmits segments beyond
    /// the highest SACKed one (RFC 6675 §4, `NextSeg` rule 1).
    fn poll_retransmission(&mut self, cfg: &TcpConfig, now: Instant) -> Option<Chunk> {
        if cfg.kernel == Kernel::Shadow {
            let (number, seq, numbers) = self.board.next_lost()?;
            let fits = self.board.place_of(number) < self.packet_window(cfg);
            return fits.then(|| self.send_again(cfg, now, number, seq, numbers));
        }
        if !self.recovery.state.retransmits() || self.board.in_flight() >= self.window.cwnd {
            return None;
        }
        if cfg.small_queues && self.board.lost_out() > 0 && self.interface_is_full(cfg, now, 2) {
            return None;
        }
        let (number, seq, numbers) = self.board.next_lost()?;
        if cfg.kernel == Kernel::Ns3 && self.board.is_beyond_sacks(seq) {
            return None;
        }
        Some(self.send_again(cfg, now, number, seq, numbers))
    }

    /// The segment that a partial ACK sends beyond the window: the next lost segment, or new data.
    /// Source: ns-3.44 `TcpSocketBase::DoRetransmit`.
    /// Deviation: without lost segments and new data, ns-3 sends the first segment again.
    fn poll_extra(&mut self, cfg: &TcpConfig, now: Instant) -> Option<Chunk> {
        if let Some((number, seq, numbers)) = self.board.next_lost() {
            return Some(self.send_again(cfg, now, number, seq, numbers));
        }
        let chunk = self.next_new(cfg, true)?;
        Some(self.send_new(cfg, now, chunk))
    }

    /// Retransmits segment `number`, which has `numbers` sequence numbers from `seq` on.
    fn send_again(&mut self, cfg: &TcpConfig, now: Instant, number: u64, seq: u64, numbers: u32) -> Chunk {
        // Shadow notes the last segment that was sent, not the next one (`_tcp_flush`), so its SACK counts as a loss of the
        // retransmission.
        let early = cfg.kernel == Kernel::Shadow;
        let is_head = self.board.on_retransmit(now, number, self.nxt - u64::from(early));
        let restarts = match cfg.kernel {
            Kernel::Shadow => true,
            // `SendDataPacket` does not restart a running timer.
            Kernel::Ns3 => is_head && self.timer == Instant::FAR_FUTURE,
            Kernel::Linux3_2 | Kernel::Linux6 => is_head,
        };
        if restarts {
            self.arm(Awaits::Timeout, now + self.rtt.rto(cfg));
        }
        self.retransmits += 1;
        self.recovery.on_retransmit(now);
        self.last_sent = now;
        let fin = seq + u64::from(numbers) > self.written;
        Chunk { seq, len: numbers - u32::from(fin), fin }
    }

    /// Whether this socket must wait because too much of its data is in the interface's queue. The limit is the data of
    /// 1 ms at the pacing rate, but at least four segments. For retransmissions the limit is multiplied by `times`.
    /// Source: Linux `tcp_small_queue_check`, `tcp_update_pacing_rate`; Shadow 3.3.0 `queuing.rs`.
    fn interface_is_full(&mut self, cfg: &TcpConfig, now: Instant, times: u64) -> bool {
        if cfg.interface_order == InterfaceOrder::Turns {
            return self.small_queue.exceeds(now, 0);
        }
        let least = 4 * times * cfg.full_segment();
        if self.small_queue.bytes <= least || self.board.packets_out() <= 2 {
            return false;
        }
        let doubles = self.window.cwnd < self.window.ssthresh / 2;
        let window = u64::from(self.window.cwnd.max(self.board.packets_out())) * u64::from(cfg.mss);
        let rate = window * if doubles { 20 } else { 12 } / 10;
        let srtt = nanos(self.rtt.srtt()).max(1);
        let limit = (u128::from(rate) * 1_000_000_000 / u128::from(srtt) / 1024) as u64;
        self.small_queue.exceeds(now, least.max(times * limit.min(LIMIT_OUTPUT)))
    }

    pub(super) fn on_departure(&mut self, at: Instant, bytes: u32) {
        self.small_queue.push(at, bytes);
    }

    pub(super) fn due(&self) -> Instant {
        let heard = self.drops.as_ref().and_then(|drops| drops.front());
        let heard = heard.map_or(Instant::FAR_FUTURE, |(at, _)| *at);
        self.timer.min(self.small_queue.wake).min(heard)
    }

    /// The network has dropped the segment at `seq`. The sender receives a notice after two round trips.
    /// Source: Shadow 1.9.0 `_tcp_createPacket`, `worker_schedulePacket`.
    pub(super) fn on_dropped(&mut self, now: Instant, seq: u64) {
        if self.rtt.srtt() > Duration::ZERO {
            let drops = self.drops.get_or_insert_default();
            let last = drops.back().map_or(now, |(last, _)| *last);
            drops.push_back((last.max(now + 2 * self.rtt.srtt()), seq));
        }
    }

    /// Handles the loss notices that are due. Source: Shadow 1.9.0 `tcp_dropPacket`.
    fn on_loss_notices(&mut self, now: Instant) {
        let Some(drops) = &mut self.drops else { return };
        while let Some((_, seq)) = drops.front().filter(|(at, _)| *at <= now) {
            self.board.mark_dropped(*seq);
            drops.pop_front();
        }
    }

    /// The tail loss probe that is due. Source: RFC 8985 §7.3; Linux `tcp_send_loss_probe`.
    fn poll_tail_probe(&mut self, cfg: &TcpConfig, now: Instant) -> Option<Chunk> {
        let chunk = match std::mem::replace(&mut self.tail_probe, TailProbe::None) {
            TailProbe::None => return None,
            TailProbe::New => self.next_new(cfg, true).map(|chunk| self.send_new(cfg, now, chunk))?,
            TailProbe::Again => {
                let (number, seq, numbers) = self.board.last()?;
                self.tail_again = true;
                self.send_again(cfg, now, number, seq, numbers)
            }
        };
        self.tail_high = self.nxt;
        Some(chunk)
    }

    /// Handles an ACK after a tail loss probe. Source: RFC 8985 §7.4; Linux `tcp_process_tlp_ack`.
    /// Deviation: without DSACK, a pure duplicate ACK shows that both the original and the probe arrived.
    fn on_tail_ack(&mut self, cfg: &TcpConfig, segment: &Segment, advanced: bool, sacks: bool) {
        if segment.ack < self.tail_high {
            return;
        }
        let bare = !advanced && !sacks && !segment.has_data();
        if !self.tail_again || bare {
            self.tail_high = 0;
        } else if segment.ack > self.tail_high {
            // The probe repaired a loss. Like any other loss, it reduces the window.
            self.tail_high = 0;
            self.window.cwnd = self.window.on_loss(cfg, self.board.in_flight()).max(1);
        }
    }

    fn arm(&mut self, awaits: Awaits, at: Instant) {
        (self.awaits, self.timer) = (awaits, at);
    }

    /// Sets the timer of a tail loss probe, if a probe is allowed.
    /// Source: RFC 8985 §7.2; Linux `tcp_schedule_loss_probe`.
    fn arm_tail_probe(&mut self, cfg: &TcpConfig, now: Instant, timeout: Instant) -> bool {
        let usable = cfg.loss_detection == LossDetection::Rack
            && self.recovery.state == CaState::Open
            && self.board.packets_out() > 0;
        if !usable {
            return false;
        }
        let wait = match self.rtt.srtt() {
            Duration::ZERO => cfg.initial_rto,
            srtt if self.board.packets_out() == 1 => 2 * srtt + cfg.min_rto,
            srtt => 2 * srtt + TIMER_GRAIN,
        };
        self.arm(Awaits::Tail, (now + wait).min(timeout.max(now)));
        true
    }

    /// When the first segment's RTO expires (Linux `tcp_rto_delta_us`).
    fn timeout_of_head(&self, cfg: &TcpConfig, now: Instant) -> Instant {
        (self.board.head_left().unwrap_or(now) + self.rtt.rto(cfg)).max(now)
    }

    fn poll_new(&mut self, cfg: &TcpConfig, now: Instant, most: u32) -> Option<(Chunk, u32)> {
        let chunk = self.next_new(cfg, false)?;
        if cfg.small_queues && self.interface_is_full(cfg, now, 1) {
            return None;
        }
        let chunk = self.send_new(cfg, now, chunk);
        let full = chunk.len == cfg.mss && !chunk.fin && !cfg.small_queues;
        let more =
            if full { self.full_segments(cfg).min(u64::from(most.saturating_sub(1))) as u32 } else { 0 };
        for _ in 0..more {
            self.board.on_send(now, self.nxt, cfg.mss);
            self.recovery.on_send();
            self.nxt += u64::from(cfg.mss);
        }
        self.forget_sent_writes();
        Some((chunk, 1 + more))
    }

    /// How many consecutive full segments without FIN [`Self::next_new`] would return.
    fn full_segments(&self, cfg: &TcpConfig) -> u64 {
        let mss = u64::from(cfg.mss);
        let left = (self.end_of_next(cfg) - self.nxt).saturating_sub(u64::from(self.fin));
        let room = (self.una + self.peer_window).saturating_sub(self.nxt);
        (left.min(room) / mss).min(u64::from(self.places(cfg)))
    }

    /// How many segments of new data the congestion window permits. In Shadow, both windows count packets, and segments
    /// that have arrived count until a cumulative ACK.
    /// Source: Shadow 1.9.0 `_tcp_flush`, `_tcp_updateSendWindow`, `_tcp_updateReceiveWindow`.
    fn places(&self, cfg: &TcpConfig) -> u32 {
        match cfg.kernel {
            Kernel::Shadow => self.packet_window(cfg).saturating_sub(self.board.packets_out()),
            _ => self.window.cwnd.saturating_sub(self.board.in_flight()),
        }
    }

    /// The smaller one of Shadow's two windows [segments].
    fn packet_window(&self, cfg: &TcpConfig) -> u32 {
        let peers = u32::try_from(self.peer_window / u64::from(cfg.mss)).unwrap_or(u32::MAX);
        self.window.cwnd.min(peers.max(1))
    }

    /// The number of the first write whose data were not sent completely.
    pub(super) fn unsent_write(&self) -> Option<u64> {
        self.writes.front().map(|write| write.number)
    }

    fn forget_sent_writes(&mut self) {
        while self.writes.front().is_some_and(|write| write.end <= self.nxt) {
            self.writes.pop_front();
        }
    }

    fn send_new(&mut self, cfg: &TcpConfig, now: Instant, chunk: Chunk) -> Chunk {
        if self.board.packets_out() == 0 {
            let (rto, idle) = (self.rtt.base_rto(cfg), now.since(self.last_sent));
            self.window.on_idle(cfg, now, idle, rto);
            self.arm(Awaits::Timeout, now + self.rtt.rto(cfg));
        }
        let numbers = chunk.len + u32::from(chunk.fin);
        self.board.on_send(now, chunk.seq, numbers);
        self.recovery.on_send();
        self.nxt += u64::from(numbers);
        self.forget_sent_writes();
        if chunk.len < cfg.mss {
            self.small_end = self.nxt;
        }
        self.last_sent = now;
        self.sent_new = true;
        self.probe_due = false;
        chunk
    }

    /// The next segment of new data, if the congestion window, the peer's window and Nagle's rule allow it. With
    /// `beyond`, the congestion window is ignored.
    /// Source: Linux `tcp_snd_test` (the congestion window does not limit a single FIN). A segment is sent whole; only
    /// a window probe may be cut at the end of the window (`tcp_write_wakeup`). Nagle's rule is Minshall's variant
    /// (`tcp_minshall_check`).
    fn next_new(&self, cfg: &TcpConfig, beyond: bool) -> Option<Chunk> {
        if self.unsent() == 0 {
            return None;
        }
        let left = self.written - self.nxt;
        let mut len = (self.end_of_next(cfg) - self.nxt).min(u64::from(cfg.mss));
        let room = (self.una + self.peer_window).saturating_sub(self.nxt);
        if self.probe_due {
            len = len.min(room);
        }
        let fin = self.fin && len == left && room > len;
        let full = !beyond && self.places(cfg) == 0;
        if len > room || (len == 0 && !fin) || (len > 0 && full) {
            return None;
        }
        let small = len < u64::from(cfg.mss) && !fin;
        // Nagle's rule is for the last write (Linux `tcp_nagle_test`).
        let is_last = !cfg.segment_per_write || self.writes.len() <= 1;
        let waits = is_last && self.small_end > self.una;
        if cfg.nagle && small && waits && !beyond {
            return None;
        }
        Some(Chunk { seq: self.nxt, len: len as u32, fin })
    }

    /// Ends a burst of sent segments: validates the congestion window, and sets a timer if the peer's window is closed.
    fn on_nothing_to_send(&mut self, cfg: &TcpConfig, now: Instant) {
        self.tune_buffer(cfg, now);
        if std::mem::take(&mut self.sent_new) {
            let rto = self.rtt.base_rto(cfg);
            let waits_for_app = self.queued() < self.capacity;
            let (in_flight, packets_out) = (self.board.in_flight(), self.board.packets_out());
            self.window.validate(
                cfg,
                now,
                (self.una, self.nxt),
                (in_flight, packets_out),
                rto,
                waits_for_app,
            );
            if self.awaits != Awaits::Reordering {
                let timeout = self.timeout_of_head(cfg, now);
                self.arm_tail_probe(cfg, now, timeout);
            }
        }
        let idle_timer = self.timer == Instant::FAR_FUTURE;
        if idle_timer && self.board.packets_out() == 0 && self.unsent() > 0 {
            self.arm(Awaits::Timeout, now + self.rtt.rto(cfg));
        }
    }

    /// Handles an ACK while the peer's closed window prevents sending (Linux `tcp_ack_probe`).
    fn on_window_answer(&mut self, cfg: &TcpConfig, now: Instant) {
        if self.next_new(cfg, false).is_some() {
            self.rtt.forget_backoff();
            self.timer = Instant::FAR_FUTURE;
        } else if self.unsent() > 0 {
            self.timer = now + self.rtt.rto(cfg);
        }
    }

    /// Restarts the timer after the first segment was acknowledged (Linux `tcp_set_xmit_timer`).
    pub(super) fn restart_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        let timeout = now + self.rtt.rto(cfg);
        if self.board.packets_out() == 0 {
            self.arm(Awaits::Timeout, Instant::FAR_FUTURE);
        } else if !self.arm_tail_probe(cfg, now, timeout) {
            self.arm(Awaits::Timeout, timeout);
        }
    }

    /// Handles an expired timer. Early calls are harmless.
    /// Source: Linux `tcp_retransmit_timer`, `tcp_probe_timer`; RFC 6298 §5.4 to 5.6, RFC 9293 §3.8.6.1.
    /// Deviation: the connection fails after a number of timeouts, not after a total time.
    pub(super) fn on_timer(&mut self, cfg: &TcpConfig, now: Instant) -> Result<(), TimedOut> {
        if now >= self.small_queue.wake {
            self.small_queue.wake = Instant::FAR_FUTURE;
        }
        self.on_loss_notices(now);
        if now < self.timer {
            return Ok(());
        }
        self.timer = Instant::FAR_FUTURE;
        match std::mem::replace(&mut self.awaits, Awaits::Timeout) {
            Awaits::Timeout => {}
            Awaits::Tail => {
                self.on_tail_timer(cfg, now);
                return Ok(());
            }
            Awaits::Reordering => {
                self.on_reordering_timer(cfg, now);
                return Ok(());
            }
        }
        let unacked = self.board.packets_out() > 0;
        if !unacked && self.unsent() == 0 {
            return Ok(());
        }
        if self.retries >= cfg.retries {
            return Err(TimedOut);
        }
        if unacked {
            self.enter_loss(cfg, now);
        } else {
            self.probe_due = true;
        }
        self.retries += 1;
        self.rtt.back_off();
        self.timer = now + self.rtt.rto(cfg);
        Ok(())
    }

    /// Sends a tail loss probe, because no ACK arrived for two round trips.
    fn on_tail_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        if self.board.packets_out() == 0 {
            return;
        }
        let timeout = if self.tail_high == 0 {
            self.tail_again = false;
            let new = self.next_new(cfg, true).is_some();
            self.tail_probe = if new { TailProbe::New } else { TailProbe::Again };
            now + self.rtt.rto(cfg)
        } else {
            self.timeout_of_head(cfg, now).max(now + Duration::from_nanos(1))
        };
        self.arm(Awaits::Timeout, timeout);
    }
}
