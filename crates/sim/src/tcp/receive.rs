use super::buffers::RightSizing;
use super::config::{Kernel, TcpConfig};
use super::segment::{Flags, Segment};
use penstock_units::{Duration, Instant, time::nanos};

/// How many recently changed out-of-order ranges the receiver stores for SACK blocks.
const RECENT: usize = 4;

/// The receiving half of a connection: reassembly, ACKs and the receive window.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// The next expected sequence number; a FIN counts as one number (`rcv_nxt`) [B].
    pub(super) nxt: u64,
    /// The position up to which the application has read (`copied_seq`) [B].
    pub(super) copied: u64,
    /// The end of the peer's stream [B]; `u64::MAX` while unknown.
    fin_at: u64,
    /// The value of `nxt` in the last ACK (`rcv_wup`) [B].
    acked: u64,
    /// The window in the last ACK (`rcv_wnd`) [B].
    window: u64,
    /// The current maximum of the window. It grows while data arrive (`rcv_ssthresh`) [B].
    window_limit: u64,
    sizing: RightSizing,
    /// Data that arrived beyond a hole; allocated when needed.
    beyond: Option<Box<OutOfOrder>>,
    /// The timestamp that the next ACK echoes (`ts_recent`).
    pub(super) echo: Instant,
    /// When a delayed ACK is due; FAR_FUTURE if none is.
    pub(super) delayed_ack: Instant,
    /// When the last data arrived (`lrcvtime`); ZERO if none has.
    last_data: Instant,
    /// The delay of ACKs (`icsk_ack.ato`) [ns].
    delay: u64,
    /// The number of ACKs that are still sent immediately (`icsk_ack.quick`).
    quick: u8,
    /// Whether both sides send data, so that data segments carry the ACKs (`icsk_ack.pingpong`).
    interactive: bool,
    /// Whether a small segment has arrived and is not yet acknowledged (`ICSK_ACK_PUSHED`).
    pushed: bool,
    pub(super) ack_due: bool,
}

/// Byte ranges that arrived beyond a hole.
#[derive(Clone, Debug, Default)]
struct OutOfOrder {
    /// Disjoint ranges that are not adjacent, in ascending order.
    ranges: Vec<(u64, u64)>,
    /// One sequence number of each range that changed recently, beginning with the last change (RFC 2018 §4).
    recent: [u64; RECENT],
    bytes: u64,
}

impl OutOfOrder {
    fn insert(&mut self, start: u64, end: u64) {
        let from = self.ranges.partition_point(|range| range.1 < start);
        let upto = self.ranges.partition_point(|range| range.0 <= end);
        let merged = match self.ranges.get(from..upto) {
            Some([first, .., last]) => (first.0.min(start), last.1.max(end)),
            Some([only]) => (only.0.min(start), only.1.max(end)),
            _ => (start, end),
        };
        let before: u64 = self.ranges[from..upto].iter().map(|range| range.1 - range.0).sum();
        self.bytes += merged.1 - merged.0 - before;
        if upto > from {
            self.ranges[from] = merged;
            self.ranges.drain(from + 1..upto);
        } else {
            self.ranges.insert(from, merged);
        }
        let mut recent = [start; RECENT];
        let others = self.recent.iter().filter(|at| !(merged.0..merged.1).contains(at));
        for (slot, at) in recent[1..].iter_mut().zip(others) {
            *slot = *at;
        }
        self.recent = recent;
    }

    /// Removes the ranges that are in order now, because data up to `nxt` have arrived. Returns the new `nxt`.
    fn take(&mut self, mut nxt: u64) -> u64 {
        let mut joined = 0;
        while let Some(range) = self.ranges.get(joined).filter(|range| range.0 <= nxt) {
            self.bytes -= range.1 - range.0;
            nxt = nxt.max(range.1);
            joined += 1;
        }
        self.ranges.drain(..joined);
        nxt
    }

    fn range_of(&self, at: u64) -> Option<(u64, u64)> {
        let range = *self.ranges.get(self.ranges.partition_point(|range| range.1 <= at))?;
        (range.0 <= at).then_some(range)
    }
}

impl Receiver {
    pub(super) fn new(cfg: &TcpConfig, now: Instant) -> Self {
        let sizing = RightSizing::new(cfg, now);
        let first = u64::from(cfg.initial_receive_window) * u64::from(cfg.mss);
        Receiver {
            nxt: 0,
            copied: 0,
            fin_at: u64::MAX,
            acked: 0,
            window: first.min(sizing.window()),
            window_limit: first.min(sizing.window()),
            sizing,
            beyond: None,
            echo: Instant::ZERO,
            delayed_ack: Instant::FAR_FUTURE,
            last_data: Instant::ZERO,
            delay: nanos(cfg.delayed_ack),
            quick: 0,
            interactive: false,
            pushed: false,
            ack_due: false,
        }
    }

    /// The stream position after the data that arrived in order, without FIN [B].
    pub(super) fn received_end(&self) -> u64 {
        self.nxt.min(self.fin_at)
    }

    pub(super) fn readable(&self) -> u64 {
        self.received_end() - self.copied
    }

    pub(super) fn has_fin(&self) -> bool {
        self.nxt > self.fin_at
    }

    /// Stores the timestamp of the first unacknowledged segment, which the next ACK echoes.
    /// Source: RFC 7323 §4.3; Linux `tcp_replace_ts_recent`.
    pub(super) fn on_timestamp(&mut self, segment: &Segment) {
        if segment.seq <= self.acked && segment.ts_val > self.echo {
            self.echo = segment.ts_val;
        }
    }

    /// Handles an arriving segment. `srtt` is the smoothed round trip of the sending half, if known.
    /// Source: Linux `tcp_data_queue`, `tcp_sequence`.
    /// Deviation: a segment is cut at the edge of the window; a FIN is acknowledged immediately.
    pub(super) fn on_segment(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment, srtt: Duration) {
        self.on_timestamp(segment);
        if !segment.has_data() {
            self.ack_due |= segment.flags.has(Flags::PROBE);
            return;
        }
        let edge = self.acked + self.window;
        let end = segment.end().min(edge);
        if end <= self.nxt || segment.seq >= edge {
            // Duplicates, and data beyond the window, cause an immediate ACK.
            self.enter_quick_mode(cfg);
            self.ack_due = true;
            return;
        }
        if segment.flags.has(Flags::FIN) && end == segment.end() {
            self.fin_at = end - 1;
        }
        if segment.seq > self.nxt {
            self.beyond.get_or_insert_default().insert(segment.seq, end);
            self.interactive = false;
            self.ack_due = true;
            return;
        }
        self.nxt = end;
        let fills = self.take_beyond();
        let measures = segment.len >= cfg.mss || cfg.kernel == Kernel::Shadow;
        if measures && segment.ts_ecr != Instant::ZERO {
            self.sizing.on_rtt(now.since(segment.ts_ecr));
        }
        self.on_data_event(cfg, now, segment);
        self.schedule_ack(cfg, now, fills || self.has_fin(), srtt);
    }

    /// Moves `nxt` past out-of-order data that are in order now. Returns whether any data were out of order before.
    fn take_beyond(&mut self) -> bool {
        let Some(beyond) = self.beyond.as_mut().filter(|beyond| !beyond.ranges.is_empty()) else {
            return false;
        };
        self.nxt = beyond.take(self.nxt);
        true
    }

    /// Adapts the ACK delay to the gaps between arrivals, and increases the maximum of the window.
    /// Source: Linux `tcp_event_data_recv`, `tcp_grow_window`.
    fn on_data_event(&mut self, cfg: &TcpConfig, now: Instant, segment: &Segment) {
        let least = nanos(cfg.delayed_ack);
        let gap = nanos(now.since(self.last_data));
        if self.last_data == Instant::ZERO {
            self.enter_quick_mode(cfg);
        } else if gap <= least / 2 {
            self.delay = self.delay / 2 + least / 2;
        } else if gap < self.delay {
            self.delay = (self.delay / 2 + gap).min(nanos(cfg.max_delayed_ack));
        } else if gap > nanos(cfg.max_delayed_ack) && cfg.kernel != Kernel::Ns3 {
            // After a pause the sender may be in slow start again.
            self.add_quick_acks(cfg);
        }
        self.last_data = now;
        self.pushed |= segment.len < cfg.mss;
        if segment.len >= 128 {
            let room = self.sizing.window();
            self.window_limit = (self.window_limit + 2 * u64::from(cfg.mss)).min(room.max(self.window_limit));
        }
    }

    fn add_quick_acks(&mut self, cfg: &TcpConfig) {
        let half = (self.window / (2 * u64::from(cfg.mss.max(1)))).max(2);
        self.quick = self.quick.max(half.min(u64::from(cfg.quick_acks)) as u8);
    }

    fn enter_quick_mode(&mut self, cfg: &TcpConfig) {
        self.add_quick_acks(cfg);
        self.interactive = false;
        self.delay = nanos(cfg.delayed_ack);
    }

    /// Makes an ACK due now, or sets the timer of a delayed ACK. Source: Linux `__tcp_ack_snd_check`,
    /// `tcp_send_delayed_ack`.
    fn schedule_ack(&mut self, cfg: &TcpConfig, now: Instant, at_once: bool, srtt: Duration) {
        let second = self.nxt - self.acked > u64::from(cfg.mss) && self.select_window(cfg) >= self.window;
        let quick = self.quick > 0 && !self.interactive;
        let each = cfg.kernel == Kernel::Shadow;
        if at_once || second || quick || each {
            self.ack_due = true;
            return;
        }
        let least = nanos(cfg.delayed_ack);
        let mut most = nanos(cfg.max_delayed_ack);
        if srtt > Duration::ZERO {
            most = most.min(nanos(srtt).max(least));
        }
        let delay = self.delay.min(most);
        let due = now + Duration::from_nanos(delay);
        let soon = cfg.kernel != Kernel::Ns3 && self.delayed_ack <= now + Duration::from_nanos(delay / 4);
        if soon {
            self.ack_due = true;
        } else {
            self.delayed_ack = self.delayed_ack.min(due);
        }
    }

    pub(super) fn on_timer(&mut self, cfg: &TcpConfig, now: Instant) {
        if now < self.delayed_ack {
            return;
        }
        self.delayed_ack = Instant::FAR_FUTURE;
        self.delay = if self.interactive { nanos(cfg.delayed_ack) } else { self.delay * 2 };
        self.delay = self.delay.min(nanos(cfg.max_delayed_ack));
        self.interactive = false;
        self.ack_due = true;
    }

    /// Records that this endpoint sends data. If the peer's data arrived shortly before, data segments also carry the
    /// ACKs from now on (Linux `tcp_event_data_sent`).
    pub(super) fn on_data_sent(&mut self, now: Instant) {
        if self.last_data != Instant::ZERO && nanos(now.since(self.last_data)) < self.delay {
            self.interactive = true;
        }
    }

    /// Handles a read of `bytes` by the application. The window may have grown enough for a window update.
    /// Source: Linux `tcp_cleanup_rbuf`.
    pub(super) fn on_read(&mut self, cfg: &TcpConfig, now: Instant, bytes: u64) {
        self.copied += bytes.min(self.readable());
        self.sizing.on_read(cfg, now, self.copied);
        if self.has_fin() {
            return;
        }
        if self.delayed_ack != Instant::FAR_FUTURE {
            let two = self.nxt - self.acked > u64::from(cfg.mss);
            let pushed = self.pushed && !self.interactive && self.readable() == 0;
            self.ack_due |= two || pushed;
        }
        let offered = self.offered();
        let window = self.select_window(cfg);
        self.ack_due |= window > 0 && window >= 2 * offered && 2 * offered <= self.sizing.window();
    }

    /// The unused bytes of the last offered window (Linux `tcp_receive_window`) [B].
    fn offered(&self) -> u64 {
        (self.acked + self.window).saturating_sub(self.nxt)
    }

    /// The window that the receiver could offer now (Linux `__tcp_select_window`) [B].
    fn select_window(&self, cfg: &TcpConfig) -> u64 {
        let room = self.sizing.window();
        let held = self.readable() + self.beyond.as_ref().map_or(0, |beyond| beyond.bytes);
        let free = room.saturating_sub(held);
        // Silly window avoidance: a window below one segment becomes zero (RFC 9293 §3.8.6.2.2).
        if free < u64::from(cfg.mss).min(room) { 0 } else { free.min(self.window_limit) }
    }

    /// Writes the ACK, the window and the SACK blocks into `segment`, the first of `count` segments.
    /// Source: Linux `tcp_select_window` (an offered window is never taken back), `tcp_event_ack_sent`.
    pub(super) fn on_ack_sent(&mut self, cfg: &TcpConfig, segment: &mut Segment, count: u32) {
        self.window = self.select_window(cfg).max(self.offered());
        self.acked = self.nxt;
        self.ack_due = false;
        self.pushed = false;
        self.delayed_ack = Instant::FAR_FUTURE;
        self.quick = u32::from(self.quick).saturating_sub(count) as u8;
        segment.ack = self.nxt;
        segment.window = self.window;
        segment.ts_ecr = self.echo;
        let Some(beyond) = self.beyond.as_ref().filter(|beyond| !beyond.ranges.is_empty()) else { return };
        for at in beyond.recent {
            // The last entries of `recent` may repeat a range.
            if let Some((start, end)) = beyond.range_of(at).filter(|_| !repeats(segment, at)) {
                segment.push_sack(start, end);
            }
        }
    }
}

fn repeats(segment: &Segment, at: u64) -> bool {
    segment.sack_blocks().any(|(start, end)| (start..end).contains(&at))
}
