use super::buffers;
use super::config::TcpConfig;
use super::receive::Receiver;
use super::recovery::CaState;
use super::segment::{Flags, Segment, Train};
use super::send::{Chunk, Outgoing, Sender, TimedOut};
use super::small_queue::SmallQueue;
use penstock_units::{Duration, Instant};

/// The stage of the handshake. After the handshake, `halves` has the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    Reset,
}

/// The state that the host reports about a connection (TCP_INFO, SIOCOUTQ, SIOCOUTQNSD).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Congestion window [segments] (`tcpi_snd_cwnd`).
    pub cwnd: u32,
    /// Slow-start threshold [segments], `u32::MAX` if infinite (`tcpi_snd_ssthresh`).
    pub ssthresh: u32,
    /// Segments sent but not acknowledged [segments] (`tcpi_unacked`). With [`TcpConfig::info_counts_unsent`], also
    /// those that were not sent.
    pub unacked: u32,
    /// Segments in flight [segments] (`tcpi_unacked - tcpi_sacked - tcpi_lost + tcpi_retrans`).
    pub in_flight: u32,
    /// The peer's receive window after the first unacknowledged byte [B] (`tcpi_snd_wnd`).
    pub peer_window: u64,
    /// Payload of a full segment [B] (`tcpi_snd_mss`).
    pub mss: u32,
    /// Payload capacity of the send buffer [B] (SO_SNDBUF).
    pub send_capacity: u64,
    /// Bytes written but not acknowledged [B] (SIOCOUTQ).
    pub queued: u64,
    /// Bytes written but not sent [B] (SIOCOUTQNSD).
    pub not_sent: u64,
    /// Smoothed round trip, zero before the first sample (`tcpi_rtt`).
    pub srtt: Duration,
    /// Retransmission timeout with backoff (`tcpi_rto`).
    pub rto: Duration,
    /// The congestion state (`tcpi_ca_state`).
    pub state: CaState,
    /// Retransmitted segments so far (`tcpi_total_retrans`).
    pub retransmits: u64,
}

/// One end of a TCP connection. It handles handshake and close, and calls its sending and its receiving half.
///
/// Pass the same [`TcpConfig`] to every call for one connection; the endpoint does not store it. After each call with
/// `&mut self`, call [`Endpoint::poll_transmit`] until it returns `None`.
#[derive(Clone, Debug)]
pub struct Endpoint {
    stage: Stage,
    syn_due: bool,
    reset_due: bool,
    /// The sending and the receiving half. They are allocated when the connection opens, to keep closed endpoints
    /// small.
    halves: Option<Box<Halves>>,
}

#[derive(Clone, Debug)]
struct Halves {
    send: Sender,
    receive: Receiver,
    /// Whether the last poll returned nothing and no later call changed the state.
    settled: bool,
}

impl Default for Endpoint {
    fn default() -> Self {
        Endpoint::new()
    }
}

impl Endpoint {
    /// A closed endpoint.
    pub fn new() -> Self {
        Endpoint { stage: Stage::Closed, syn_due: false, reset_due: false, halves: None }
    }

    /// Opens the connection. The next poll returns a SYN.
    /// Source: RFC 9293 §3.10.1; Linux `tcp_connect`.
    pub fn connect(&mut self, cfg: &TcpConfig, now: Instant) {
        self.open(cfg, now);
        self.stage = Stage::SynSent;
    }

    /// Waits for a SYN from the peer.
    pub fn listen(&mut self) {
        *self = Endpoint { stage: Stage::Listen, ..Endpoint::new() };
    }

    fn open(&mut self, cfg: &TcpConfig, now: Instant) {
        let mut send = Sender::new(cfg, now);
        send.timer = now + cfg.initial_rto;
        self.halves = Some(Box::new(Halves { send, receive: Receiver::new(cfg, now), settled: false }));
        self.syn_due = true;
        self.reset_due = false;
    }

    /// Whether the handshake is complete and the connection was not reset. This remains true after both FINs, because
    /// the endpoint must still answer a repeated FIN; see [`Endpoint::is_closed`].
    pub fn is_established(&self) -> bool {
        self.stage == Stage::Established
    }

    /// Whether no data will be sent or received any more. True if the connection was never opened or was reset. Also
    /// true if both streams have ended, and all data were acknowledged and read.
    pub fn is_closed(&self) -> bool {
        match self.stage {
            Stage::Closed | Stage::Reset => true,
            Stage::Established => self.send_closed() && self.receive_closed(),
            Stage::Listen | Stage::SynSent | Stage::SynReceived => false,
        }
    }

    /// Whether this endpoint's FIN was sent and acknowledged.
    pub fn send_closed(&self) -> bool {
        self.halves.as_ref().is_some_and(|halves| halves.send.fin && halves.send.una > halves.send.written)
    }

    /// Whether the peer's FIN arrived and the application has read all data before it.
    pub fn receive_closed(&self) -> bool {
        self.halves.as_ref().is_some_and(|halves| halves.receive.has_fin() && halves.receive.readable() == 0)
    }

    /// Whether a RST was sent or received, or the peer did not answer retransmissions (ECONNRESET, ETIMEDOUT).
    pub fn is_reset(&self) -> bool {
        self.stage == Stage::Reset
    }

    /// The free space of the send buffer [B]; 0 corresponds to EWOULDBLOCK.
    pub fn write_space(&self) -> u64 {
        self.open_send().map_or(0, |send| send.capacity.saturating_sub(send.occupied()))
    }

    /// Whether `poll()` reports POLLOUT, which in Linux requires that a third of the buffer is free.
    ///
    /// Source: Linux `sk_stream_is_writeable`.
    pub fn is_writable(&self, cfg: &TcpConfig) -> bool {
        self.open_send().is_some_and(|send| buffers::is_writable(cfg, send.occupied(), send.capacity))
    }

    fn open_send(&self) -> Option<&Sender> {
        let halves = self.halves.as_ref().filter(|_| self.is_established())?;
        Some(&halves.send).filter(|send| !send.fin)
    }

    /// The application makes its host's write `number`, of `bytes` [B]. Ignored during the handshake and after
    /// [`Endpoint::shutdown`].
    ///
    /// The caller must respect [`Endpoint::write_space`]. Only the last message of a write may exceed the free space,
    /// because the kernel accepts a message whole.
    pub fn write(&mut self, cfg: &TcpConfig, number: u64, bytes: u64) {
        if self.open_send().is_some() {
            self.with(|halves| halves.send.on_write(cfg, number, bytes));
        }
    }

    /// The application ends its stream. The FIN follows the queued data.
    pub fn shutdown(&mut self) {
        self.with(|halves| halves.send.fin = true);
    }

    /// Aborts the connection. Queued data are lost, and the next poll returns a RST.
    pub fn reset(&mut self) {
        self.reset_due = matches!(self.stage, Stage::SynReceived | Stage::Established);
        self.abort();
    }

    fn abort(&mut self) {
        self.stage = Stage::Reset;
        self.syn_due = false;
        self.with(|halves| {
            halves.send.timer = Instant::FAR_FUTURE;
            halves.send.small_queue = SmallQueue::default();
            halves.send.drops = None;
            halves.receive.delayed_ack = Instant::FAR_FUTURE;
        });
    }

    /// In-order bytes that the application has not read [B]. These bytes remain readable after a reset.
    pub fn readable(&self) -> u64 {
        self.halves.as_ref().map_or(0, |halves| halves.receive.readable())
    }

    /// The stream position after the bytes that arrived in order [B].
    pub fn received_end(&self) -> u64 {
        self.halves.as_ref().map_or(0, |halves| halves.receive.received_end())
    }

    /// The application reads `bytes`, at most [`Endpoint::readable`] [B]. The next poll may return a window update.
    pub fn read(&mut self, cfg: &TcpConfig, now: Instant, bytes: u64) {
        if let Some(halves) = &mut self.halves {
            halves.receive.on_read(cfg, now, bytes);
            halves.settled &= !halves.receive.ack_due;
        }
    }

    /// Whether [`Endpoint::poll_transmit`] would return `None` and [`Endpoint::poll_timeout`] would repeat its last
    /// result.
    pub fn is_settled(&self) -> bool {
        self.halves.as_ref().is_some_and(|halves| halves.settled)
    }

    /// Handles an arriving segment.
    ///
    /// Source: RFC 9293 §3.10.7.
    /// Deviation: any RST is accepted, even one outside the window.
    pub fn on_segment(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment) {
        let syn = segment.flags.has(Flags::SYN);
        if segment.flags.has(Flags::RST) {
            if !matches!(self.stage, Stage::Closed | Stage::Listen) {
                self.abort();
            }
            return;
        }
        match self.stage {
            Stage::Closed | Stage::Reset => self.reset_due = true,
            Stage::Listen if syn => {
                self.open(cfg, now);
                self.stage = Stage::SynReceived;
                self.with(|halves| halves.receive.on_timestamp(segment));
            }
            Stage::SynReceived if syn => self.syn_due = true,
            Stage::SynSent if syn => {
                self.establish(cfg, now, segment);
                self.with(|halves| halves.receive.ack_due = true);
            }
            Stage::Listen | Stage::SynSent => {}
            Stage::SynReceived => {
                self.establish(cfg, now, segment);
                self.on_established_segment(cfg, now, segment);
            }
            // The peer has repeated the SYN-ACK, because this endpoint's ACK was lost.
            Stage::Established if syn => self.with(|halves| halves.receive.ack_due = true),
            Stage::Established => self.on_established_segment(cfg, now, segment),
        }
    }

    fn establish(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment) {
        self.stage = Stage::Established;
        self.syn_due = false;
        self.with(|halves| {
            halves.receive.on_timestamp(segment);
            halves.send.on_established(cfg, now, segment);
        });
    }

    fn on_established_segment(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment) {
        self.with(|Halves { send, receive, .. }| {
            if segment.flags.has(Flags::ACK) {
                send.on_ack(cfg, now, segment);
            }
            receive.on_segment(cfg, now, segment, send.rtt.srtt());
        });
    }

    /// The network has dropped `segment`, and tells this endpoint, which sent it ([`TcpConfig::drop_notices`]).
    pub fn on_dropped(&mut self, now: Instant, segment: &Segment) {
        let is_open = self.stage == Stage::Established;
        if is_open && segment.has_data() {
            self.with(|halves| halves.send.on_dropped(now, segment.seq));
        }
    }

    /// Handles expired timers. Calls that are early or repeated have no effect.
    pub fn on_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        match self.stage {
            Stage::Closed | Stage::Listen | Stage::Reset => {}
            Stage::SynSent | Stage::SynReceived => self.on_syn_timer(cfg, now),
            Stage::Established => {
                let mut outcome = Ok(());
                self.with(|halves| {
                    halves.receive.on_timer(cfg, now);
                    outcome = halves.send.on_timer(cfg, now);
                });
                if outcome == Err(TimedOut) {
                    self.abort();
                }
            }
        }
    }

    /// Retransmits the SYN or SYN-ACK, or gives up. Source: Linux `tcp_retransmit_timer` in SYN-SENT,
    /// `inet_csk_reqsk_queue_prune`; RFC 6298 §5.7.
    fn on_syn_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        let Some(halves) = self.halves.as_mut().filter(|halves| now >= halves.send.timer) else { return };
        halves.settled = false;
        let send = &mut halves.send;
        if send.retries >= cfg.syn_retries {
            self.abort();
            return;
        }
        send.retries += 1;
        send.retransmits += 1;
        send.rtt.back_off();
        send.timer = now + send.rtt.rto(cfg);
        self.syn_due = true;
    }

    /// When to call [`Endpoint::on_timer`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let halves = self.halves.as_ref()?;
        Some(halves.send.due().min(halves.receive.delayed_ack)).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// The next segment to send. After each call of another method with `&mut self`, call this until it returns `None`.
    pub fn poll_transmit(&mut self, cfg: &TcpConfig, now: Instant) -> Option<Segment> {
        self.poll_train(cfg, now, 1).map(|train| train.first)
    }

    /// The next segments to send, at most `most`. A train consists of full segments of new data, which
    /// [`Endpoint::poll_transmit`] would return one by one. With [`TcpConfig::small_queues`] a train has one segment.
    pub fn poll_train(&mut self, cfg: &TcpConfig, now: Instant, most: u32) -> Option<Train> {
        let single = |first| Train { first, count: 1 };
        match self.stage {
            Stage::Closed | Stage::Listen | Stage::Reset => {
                let due = std::mem::take(&mut self.reset_due);
                due.then(|| single(Segment { flags: Flags::RST, ts_val: now, ..Segment::default() }))
            }
            Stage::SynSent => self.poll_syn(cfg, now, Flags::SYN).map(single),
            Stage::SynReceived => self.poll_syn(cfg, now, Flags::SYN.with(Flags::ACK)).map(single),
            Stage::Established => self.halves.as_mut()?.poll(cfg, now, most),
        }
    }

    /// The number of the first write whose data were not sent completely, with
    /// [`InterfaceOrder::OldestWrite`](super::InterfaceOrder::OldestWrite).
    pub fn unsent_write(&self) -> Option<u64> {
        self.halves.as_ref().and_then(|halves| halves.send.unsent_write())
    }

    /// The host's interface has accepted the last polled segment, and will have sent it at `at`. The segment has
    /// `bytes` on the wire.
    ///
    /// Only TCP small queues need this call ([`TcpConfig::small_queues`]); without them, and for segments without data,
    /// it has no effect. If a socket waits for the departure of its own segments, [`Endpoint::poll_timeout`] includes
    /// the departure time.
    pub fn on_departure(&mut self, cfg: &TcpConfig, at: Instant, bytes: u64) {
        if cfg.small_queues && bytes > u64::from(super::HEADER_BYTES) {
            self.with(|halves| halves.send.on_departure(at, bytes as u32));
        }
    }

    /// A polled segment with `bytes` of data waits in the socket for the interface, until [`Endpoint::release`] [B].
    pub fn hold(&mut self, bytes: u32) {
        if let Some(halves) = &mut self.halves {
            halves.send.held += bytes;
        }
    }

    /// The interface takes a segment with `bytes` of data from the socket [B].
    pub fn release(&mut self, bytes: u32) {
        if let Some(halves) = &mut self.halves {
            halves.send.held = halves.send.held.checked_sub(bytes).expect("only held bytes are released");
        }
    }

    fn poll_syn(&mut self, cfg: &TcpConfig, now: Instant, flags: Flags) -> Option<Segment> {
        if !std::mem::take(&mut self.syn_due) {
            return None;
        }
        let mut segment = Segment { flags, ts_val: now, ..Segment::default() };
        self.with(|halves| halves.receive.on_ack_sent(cfg, &mut segment, 1));
        Some(segment)
    }

    /// The state that the host reports about the connection.
    pub fn info(&self, cfg: &TcpConfig) -> Info {
        let Some(halves) = &self.halves else {
            return Info {
                cwnd: cfg.initial_cwnd,
                ssthresh: cfg.initial_ssthresh,
                unacked: 0,
                in_flight: 0,
                peer_window: 0,
                mss: cfg.mss,
                send_capacity: buffers::initial_send_capacity(cfg),
                queued: 0,
                not_sent: 0,
                srtt: Duration::ZERO,
                rto: cfg.initial_rto,
                state: CaState::Open,
                retransmits: 0,
            };
        };
        let send = &halves.send;
        Info {
            cwnd: send.window.cwnd,
            ssthresh: send.window.ssthresh,
            unacked: match (cfg.info_counts_unsent, cfg.segment_per_write) {
                (true, true) => send.board.packets_out() + send.unsent_segments(cfg) as u32,
                (true, false) => send.queued().div_ceil(cfg.mss.into()) as u32,
                (false, _) => send.board.packets_out(),
            },
            in_flight: send.board.in_flight(),
            peer_window: send.peer_window,
            mss: cfg.mss,
            send_capacity: send.capacity,
            queued: send.queued(),
            not_sent: send.not_sent(),
            srtt: send.rtt.srtt(),
            rto: send.rtt.rto(cfg),
            state: send.recovery.state,
            retransmits: send.retransmits,
        }
    }

    /// Bytes written but not sent [B] (SIOCOUTQNSD).
    pub fn not_sent(&self) -> u64 {
        self.halves.as_ref().map_or(0, |halves| halves.send.not_sent())
    }

    /// Bytes that the peer acknowledged [B].
    pub fn acked(&self) -> u64 {
        self.halves.as_ref().map_or(0, |halves| halves.send.una.min(halves.send.written))
    }

    /// The stream position after the data that were sent at least once (`snd_nxt`), without FIN [B].
    pub fn sent_end(&self) -> u64 {
        self.halves.as_ref().map_or(0, |halves| halves.send.nxt.min(halves.send.written))
    }

    /// The stream position after the data that the application wrote (`write_seq`) [B].
    pub fn written_end(&self) -> u64 {
        self.halves.as_ref().map_or(0, |halves| halves.send.written)
    }

    fn with(&mut self, change: impl FnOnce(&mut Halves)) {
        if let Some(halves) = &mut self.halves {
            halves.settled = false;
            change(halves);
        }
    }
}

impl Halves {
    fn poll(&mut self, cfg: &TcpConfig, now: Instant, most: u32) -> Option<Train> {
        let out = self.send.poll(cfg, now, most);
        let (seq, len, flags, count) = match out {
            Some(Outgoing::Data(Chunk { seq, len, fin }, count)) => {
                self.receive.on_data_sent(now);
                (seq, len, if fin { Flags::FIN } else { Flags::NONE }, count)
            }
            Some(Outgoing::Probe) => (self.send.nxt, 0, Flags::PROBE, 1),
            None => {
                // A pure ACK is always the last segment.
                self.settled = true;
                if !self.receive.ack_due {
                    return None;
                }
                (self.send.nxt, 0, Flags::NONE, 1)
            }
        };
        let flags = flags.with(Flags::ACK);
        let mut first = Segment { seq, len, flags, ts_val: now, ..Segment::default() };
        self.receive.on_ack_sent(cfg, &mut first, count);
        Some(Train { first, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_small_and_a_closed_one_smaller() {
        assert!(size_of::<Endpoint>() <= 16, "{}", size_of::<Endpoint>());
        assert!(size_of::<Halves>() <= 768, "{}", size_of::<Halves>());
    }

    #[test]
    fn a_closed_port_answers_with_rst_and_rst_ends_the_other_side() {
        let (cfg, now) = (TcpConfig::default(), Instant::from_millis(1));
        let (mut client, mut closed) = (Endpoint::new(), Endpoint::new());
        client.connect(&cfg, now);
        let syn = client.poll_transmit(&cfg, now).unwrap();
        closed.on_segment(&cfg, now, &syn);
        let rst = closed.poll_transmit(&cfg, now).unwrap();
        assert!(rst.flags.has(Flags::RST));
        client.on_segment(&cfg, now, &rst);
        assert!(client.is_reset() && client.is_closed());
        assert_eq!(client.poll_transmit(&cfg, now), None);
        assert_eq!(client.poll_timeout(), None);
    }

    #[test]
    fn a_syn_is_repeated_after_1_3_7_15_31_seconds_and_abandoned_after_63() {
        let (cfg, mut client) = (TcpConfig::default(), Endpoint::new());
        client.connect(&cfg, Instant::ZERO);
        let mut sent = Vec::new();
        let mut now = Instant::ZERO;
        loop {
            while client.poll_transmit(&cfg, now).is_some() {
                sent.push(now.as_nanos() / 1_000_000_000);
            }
            let Some(at) = client.poll_timeout() else { break };
            now = at;
            client.on_timer(&cfg, now);
        }
        assert_eq!(sent, [0, 1, 3, 7, 15, 31]);
        assert_eq!(now, Instant::from_secs(63));
        assert!(client.is_reset());
    }
}
