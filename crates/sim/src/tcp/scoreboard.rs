use super::config::{Kernel, LossDetection, TcpConfig};
use penstock_units::{Instant, fifo::take_first, time::nanos};
use std::collections::VecDeque;

/// The peer has received the segment out of order (`TCPCB_SACKED_ACKED`).
const SACKED: u8 = 1;
/// The segment counts as lost (`TCPCB_LOST`).
const LOST: u8 = 2;
/// A retransmission of the segment counts as in flight (`TCPCB_SACKED_RETRANS`).
const RETRANS: u8 = 4;
/// The segment was retransmitted at least once (`TCPCB_EVER_RETRANS`).
const EVER_RETRANS: u8 = 8;

/// The maximum value of `reordering` (`TCP_MAX_REORDERING`) [segments].
const MAX_REORDERING: u32 = 127;

/// A segment in flight that has payload or FIN.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    /// When the segment was last sent.
    at: Instant,
    /// The value of `snd_nxt` when the segment was last retransmitted [B].
    nxt_when_resent: u64,
    len: u32,
    marks: u8,
}

impl Sent {
    fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    /// Whether `una` has advanced. The ACK may cover only a part of a segment.
    pub(super) advanced: bool,
    pub(super) segments: u32,
    /// The degree of reordering that this ACK shows [segments].
    pub(super) reordered: u32,
    /// When the last acknowledged segment was sent. ZERO if no segment, or a retransmitted one, was acknowledged.
    pub(super) left: Instant,
}

/// The segment that was sent last among all segments that arrived. Source: RFC 8985 §6.1; Linux `tcp_rack`.
#[derive(Clone, Copy, Debug, Default)]
struct Rack {
    /// When the segment was sent.
    at: Instant,
    /// The sequence number after the segment [B].
    end: u64,
    /// The segment's round trip [ns].
    rtt: u64,
    /// Whether a segment has arrived since the last detection of losses.
    advanced: bool,
}

/// The retransmission queue: unacknowledged segments in order, with their SACK marks.
/// Source: Linux `tcp_sacktag_write_queue`, `tcp_mark_head_lost`, `tcp_mark_lost_retrans`, `tcp_clean_rtx_queue`; RFC
/// 2018, RFC 6675 §4, FACK (Mathis and Mahdavi 1996). A `hint` is a segment number counted from the start of the
/// connection, so it stays valid when segments leave the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    queue: VecDeque<Sent>,
    /// The number of the front segment, counted since the start of the connection.
    first: u64,
    /// All segments below this number are lost or SACKed.
    lost_hint: u64,
    /// No segment below this number waits for retransmission.
    retransmit_hint: u64,
    /// The sequence number after the highest SACKed segment [B]. Valid only while `sacked_out` > 0.
    highest_sacked: u64,
    /// The minimum of `nxt_when_resent` over all retransmissions in flight [B] (`lost_retrans_low`).
    lost_retrans_low: u64,
    /// The SACK blocks of the last ACK; their segments are already marked (`recv_sack_cache`).
    seen: [(u64, u64); 3],
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// A segment counts as lost after this many segments above it have arrived (`tcp_sock.reordering`) [segments].
    reordering: u32,
    /// Whether FACK is in use. Reordering disables it.
    fack: bool,
    rack_in_use: bool,
    /// Whether a retransmission counts as in flight until the cumulative ACK, even if the segment is SACKed. ns-3.44
    /// `TcpTxBuffer::Update` does not clear `m_retrans`.
    counts_resent: bool,
    reorders: bool,
    rack: Rack,
}

impl Scoreboard {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        Scoreboard {
            reordering: cfg.reordering,
            fack: cfg.loss_detection == LossDetection::Fack,
            rack_in_use: cfg.loss_detection == LossDetection::Rack,
            counts_resent: cfg.kernel == Kernel::Ns3,
            ..Scoreboard::default()
        }
    }

    /// Unacknowledged segments (`packets_out`).
    pub(super) fn packets_out(&self) -> u32 {
        self.queue.len() as u32
    }

    pub(super) fn reordering(&self) -> u32 {
        self.reordering
    }

    pub(super) fn sacked_out(&self) -> u32 {
        self.sacked_out
    }

    pub(super) fn lost_out(&self) -> u32 {
        self.lost_out
    }

    /// Whether no segment is SACKed, lost or retransmitted (`left_out` or `retrans_out`).
    pub(super) fn is_quiet(&self) -> bool {
        self.sacked_out == 0 && self.lost_out == 0 && self.retrans_out == 0
    }

    /// The estimated number of segments in the network (`tcp_packets_in_flight`).
    pub(super) fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    /// The number of segments up to the highest SACKed segment (`fackets_out`).
    pub(super) fn fackets_out(&self) -> u32 {
        if self.sacked_out == 0 {
            return 0;
        }
        self.queue.partition_point(|sent| sent.seq < self.highest_sacked) as u32
    }

    /// Whether the first segment was retransmitted, and this retransmission may still arrive.
    pub(super) fn head_is_resent(&self) -> bool {
        self.queue.front().is_some_and(|sent| sent.is(RETRANS))
    }

    /// Whether any segment is SACKed, but none at or after the sequence number `seq`.
    pub(super) fn is_beyond_sacks(&self, seq: u64) -> bool {
        self.sacked_out > 0 && seq >= self.highest_sacked
    }

    pub(super) fn on_send(&mut self, now: Instant, seq: u64, len: u32) {
        debug_assert!(self.queue.back().is_none_or(|last| last.end() == seq), "new data follow the old");
        self.queue.push_back(Sent { seq, at: now, nxt_when_resent: 0, len, marks: 0 });
    }

    /// When the first segment was last sent.
    pub(super) fn head_left(&self) -> Option<Instant> {
        self.queue.front().map(|sent| sent.at)
    }

    /// The last segment: the number for [`Self::on_retransmit`], the offset and the length.
    pub(super) fn last(&self) -> Option<(u64, u64, u32)> {
        let sent = self.queue.back().filter(|sent| !sent.is(SACKED | RETRANS))?;
        Some((self.first + self.queue.len() as u64 - 1, sent.seq, sent.len))
    }

    /// Where the last segment starts [B].
    pub(super) fn start_of_last(&self) -> Option<u64> {
        self.queue.back().map(|sent| sent.seq)
    }

    /// Removes all segments below `una`. `fackets` is the value of [`fackets_out`](Self::fackets_out) before the SACK
    /// blocks of this ACK were applied. `min_rtt` is the shortest round trip [ns].
    /// Source: Linux 3.2 `tcp_clean_rtx_queue` (`prior_fackets`).
    pub(super) fn on_ack(&mut self, now: Instant, una: u64, fackets: u32, min_rtt: u64) -> Acked {
        let mut acked = Acked::default();
        let mut resent = false;
        while let Some(sent) = self.queue.front_mut() {
            if sent.end() > una {
                if sent.seq < una {
                    sent.len -= (una - sent.seq) as u32;
                    sent.seq = una;
                }
                break;
            }
            let sent = *sent;
            self.uncount(sent.marks);
            if !sent.is(SACKED | EVER_RETRANS) && acked.segments < fackets {
                acked.reordered = acked.reordered.max(fackets - acked.segments);
            }
            acked.segments += 1;
            acked.left = sent.at;
            resent |= sent.is(EVER_RETRANS);
            if self.rack_in_use && !sent.is(SACKED) {
                self.rack_advance(now, &sent, min_rtt);
            }
            take_first(&mut self.queue);
        }
        if resent {
            acked.left = Instant::ZERO;
        }
        self.first += u64::from(acked.segments);
        acked
    }

    /// Marks the segments in the SACK blocks. Returns the degree of reordering that this ACK shows [segments].
    pub(super) fn on_sack(
        &mut self,
        now: Instant,
        blocks: impl Iterator<Item = (u64, u64)>,
        min_rtt: u64,
    ) -> u32 {
        let high_before = if self.sacked_out == 0 { 0 } else { self.highest_sacked };
        let mut earliest = usize::MAX;
        let mut seen = [(0, 0); 3];
        for (block, slot) in blocks.zip(&mut seen) {
            *slot = block;
            let (start, end) = block;
            let known = self.seen.iter().filter(|known| known.0 <= start && start < known.1);
            let from = known.map(|known| known.1).max().unwrap_or(start);
            let mut at = self.queue.partition_point(|sent| sent.end() <= from);
            while let Some(sent) = self.queue.get_mut(at).filter(|sent| sent.end() <= end) {
                let before = *sent;
                if sent.seq >= start && !sent.is(SACKED) {
                    let removed = if self.counts_resent { LOST } else { LOST | RETRANS };
                    sent.marks = (sent.marks | SACKED) & !removed;
                    if !before.is(EVER_RETRANS) && before.seq < high_before {
                        earliest = earliest.min(at);
                    }
                    let high = if self.sacked_out == 0 { 0 } else { self.highest_sacked };
                    self.highest_sacked = high.max(before.end());
                    self.uncount(before.marks & removed);
                    self.sacked_out += 1;
                    if self.rack_in_use {
                        self.rack_advance(now, &before, min_rtt);
                    }
                }
                at += 1;
            }
        }
        self.seen = seen;
        self.fackets_out().saturating_sub(u32::try_from(earliest).unwrap_or(u32::MAX))
    }

    /// Stores the arrived segment `sent`, if it was sent later than all segments that arrived before. Source: RFC 8985
    /// §6.2 step 2; Linux `tcp_rack_advance`. If an ACK comes sooner than the minimum round trip after a
    /// retransmission, it acknowledges the original segment.
    fn rack_advance(&mut self, now: Instant, sent: &Sent, min_rtt: u64) {
        let rtt = nanos(now.since(sent.at));
        if rtt < min_rtt && sent.is(EVER_RETRANS) {
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt = rtt;
        if (sent.at, sent.end()) > (self.rack.at, self.rack.end) {
            (self.rack.at, self.rack.end) = (sent.at, sent.end());
        }
    }

    /// The time until the segment counts as lost [ns]; 0 if it does now.
    fn rack_wait(&self, now: Instant, sent: &Sent, window: u64) -> u64 {
        (self.rack.rtt + window).saturating_sub(nanos(now.since(sent.at)))
    }

    /// Marks a segment as lost if a later segment has arrived and the segment was sent more than a round trip plus
    /// `window` ago [ns]. Returns the time until the next check [ns]; 0 means no check.
    /// Source: RFC 8985 §6.2 step 5; Linux `tcp_rack_detect_loss`.
    pub(super) fn mark_lost_by_time(&mut self, now: Instant, window: u64) -> u64 {
        self.rack.advanced = false;
        let mut longest = 0;
        // Below the hint, only retransmissions can be lost segments that are not yet marked.
        let known = self.lost_hint.saturating_sub(self.first) as usize;
        let start = if self.retrans_out > 0 { 0 } else { known };
        for at in start..self.queue.len() {
            let sent = self.queue[at];
            if sent.is(SACKED) || (sent.is(LOST) && !sent.is(RETRANS)) {
                continue;
            }
            if (self.rack.at, self.rack.end) <= (sent.at, sent.end()) {
                if sent.is(EVER_RETRANS) {
                    continue;
                }
                // All later segments were sent even later.
                break;
            }
            let wait = self.rack_wait(now, &sent, window);
            if wait == 0 {
                self.give_up(at);
            }
            longest = longest.max(wait);
        }
        while self
            .queue
            .get(self.lost_hint.saturating_sub(self.first) as usize)
            .is_some_and(|sent| sent.is(LOST | SACKED))
        {
            self.lost_hint = self.lost_hint.max(self.first) + 1;
        }
        longest
    }

    pub(super) fn rack_advanced(&self) -> bool {
        self.rack.advanced
    }

    pub(super) fn reorders(&self) -> bool {
        self.reorders
    }

    /// Marks a segment as lost, together with its retransmission.
    fn give_up(&mut self, at: usize) {
        let sent = &mut self.queue[at];
        if sent.is(RETRANS) {
            sent.marks &= !RETRANS;
            self.retrans_out -= 1;
            self.retransmit_hint = self.retransmit_hint.min(self.first + at as u64);
        }
        self.mark_one_lost(at);
    }

    /// Records reordering by `degree` segments. A degree above `reordering`, the threshold for losses, becomes the new
    /// threshold and disables FACK.
    /// Source: Linux `tcp_update_reordering`.
    pub(super) fn on_reordering(&mut self, degree: u32) {
        self.reorders = true;
        if degree > self.reordering {
            self.reordering = degree.min(MAX_REORDERING);
            self.fack = false;
        }
    }

    /// After a timeout, resets `reordering` to at most its configured value (Linux `tcp_enter_loss`).
    pub(super) fn forget_reordering(&mut self, usual: u32) {
        self.reordering = self.reordering.min(usual);
    }

    /// Whether the marks show a loss. `more`: the sender could send new data.
    /// Source: Linux 3.2 `tcp_time_to_recover`.
    pub(super) fn shows_loss(&self, threshold: u32, more: bool) -> bool {
        if self.rack_in_use {
            return self.lost_out > 0;
        }
        let few = self.packets_out() <= self.reordering
            && self.sacked_out >= threshold.max(self.packets_out() / 2)
            && !more;
        self.lost_out > 0 || self.gives_up_holes() || few
    }

    /// Whether so many segments arrived beyond the first hole that the hole counts as lost. Source: Linux 3.2
    /// `tcp_dupack_heuristics`, and the condition in `tcp_try_undo_partial`. A partial ACK alone is not enough.
    pub(super) fn gives_up_holes(&self) -> bool {
        let evidence = if self.fack { self.fackets_out() } else { self.sacked_out + 1 };
        evidence > self.reordering
    }

    /// Marks the holes below `limit` [B] that the SACKs show to be lost. If `head`, marks at least the first segment.
    /// Source: Linux 3.2 `tcp_update_scoreboard`, `tcp_mark_head_lost`; RFC 6675 `IsLost`.
    pub(super) fn mark_lost(&mut self, head: bool, limit: u64) {
        let upto = if self.fack {
            self.fackets_out().saturating_sub(self.reordering).max(1) as usize
        } else {
            self.holes_below_reordering().max(usize::from(head))
        };
        let start = self.lost_hint.saturating_sub(self.first) as usize;
        for at in start..upto.min(self.queue.len()) {
            if self.queue[at].end() > limit {
                return;
            }
            self.mark_one_lost(at);
            self.lost_hint = self.first + at as u64 + 1;
        }
    }

    /// The index of the first segment that has at most `reordering` SACKed segments after it.
    fn holes_below_reordering(&self) -> usize {
        if self.sacked_out < self.reordering {
            return 0;
        }
        let mut at = self.fackets_out() as usize;
        let mut above = 0;
        while at > 0 && above < self.reordering {
            at -= 1;
            above += u32::from(self.queue[at].is(SACKED));
        }
        at
    }

    /// Marks a retransmission as lost if data that were sent after it have arrived.
    /// Returns whether it marked one.
    /// Source: Linux 3.2 `tcp_mark_lost_retrans`, which also requires FACK.
    pub(super) fn mark_lost_retransmissions(&mut self) -> bool {
        if !self.fack || self.retrans_out == 0 || self.sacked_out == 0 {
            return false;
        }
        if self.highest_sacked <= self.lost_retrans_low {
            return false;
        }
        let before = self.retrans_out;
        let (mut low, mut left, mut at) = (u64::MAX, self.retrans_out, 0);
        while left > 0 && at < self.queue.len() {
            let sent = &mut self.queue[at];
            if sent.is(RETRANS) {
                left -= 1;
                if self.highest_sacked > sent.nxt_when_resent {
                    sent.marks &= !RETRANS;
                    self.retrans_out -= 1;
                    self.mark_one_lost(at);
                    self.retransmit_hint = self.retransmit_hint.min(self.first + at as u64);
                } else {
                    low = low.min(sent.nxt_when_resent);
                }
            }
            at += 1;
        }
        self.lost_retrans_low = if low == u64::MAX { self.highest_sacked } else { low };
        self.retrans_out < before
    }

    /// After a retransmission timeout, marks all segments without SACK as lost, including retransmissions. With RACK,
    /// only the first segment and segments that were sent at least a round trip ago are marked.
    /// Source: Linux `tcp_enter_loss`, `tcp_timeout_mark_lost`.
    pub(super) fn mark_all_lost(&mut self, now: Instant) {
        for at in 0..self.queue.len() {
            let sent = self.queue[at];
            let fresh = self.rack_in_use && at > 0 && self.rack_wait(now, &sent, 0) > 0;
            if !sent.is(SACKED) && !fresh {
                self.give_up(at);
            } else if sent.is(SACKED) && sent.is(RETRANS) {
                // Only with `counts_resent`.
                self.queue[at].marks &= !RETRANS;
                self.retrans_out -= 1;
            }
        }
        self.retransmit_hint = self.first;
        self.lost_hint = if self.rack_in_use { self.first } else { self.first + self.queue.len() as u64 };
    }

    /// The number of segments before segment `number`.
    pub(super) fn place_of(&self, number: u64) -> u32 {
        (number - self.first) as u32
    }

    /// Marks the segment at `seq` as lost, unless the peer has it or it was retransmitted.
    /// Source: Shadow 1.9.0 `scoreboard_packetDropped`.
    pub(super) fn mark_dropped(&mut self, seq: u64) {
        if let Ok(at) = self.queue.binary_search_by_key(&seq, |sent| sent.seq)
            && !self.queue[at].is(RETRANS)
        {
            self.mark_one_lost(at);
        }
    }

    /// Forgets which segments are lost or were retransmitted, so that SACKs can show their loss again.
    /// Source: Shadow 1.9.0 `scoreboard_clear`.
    pub(super) fn forget_holes(&mut self) {
        for sent in &mut self.queue {
            sent.marks &= !(LOST | RETRANS);
        }
        (self.lost_out, self.retrans_out) = (0, 0);
        (self.lost_hint, self.retransmit_hint) = (self.first, self.first);
    }

    /// Removes all loss marks (Linux `tcp_undo_cwr` with `undo_ssthresh`).
    pub(super) fn forget_losses(&mut self) {
        for sent in &mut self.queue {
            sent.marks &= !LOST;
        }
        self.lost_out = 0;
        self.lost_hint = self.first;
    }

    /// The first segment to retransmit: the number for [`Self::on_retransmit`], the offset and the length.
    pub(super) fn next_lost(&mut self) -> Option<(u64, u64, u32)> {
        if self.lost_out == 0 {
            return None;
        }
        let start = self.retransmit_hint.max(self.first);
        for at in (start - self.first) as usize..self.queue.len() {
            let sent = &self.queue[at];
            if sent.is(LOST) && !sent.is(RETRANS) {
                self.retransmit_hint = self.first + at as u64;
                return Some((self.retransmit_hint, sent.seq, sent.len));
            }
        }
        self.retransmit_hint = self.first + self.queue.len() as u64;
        None
    }

    /// Records that segment `number` was retransmitted while `snd_nxt` was `nxt`. Returns whether this is the first
    /// segment of the queue. In this case the caller restarts the timer.
    pub(super) fn on_retransmit(&mut self, now: Instant, number: u64, nxt: u64) -> bool {
        let sent = &mut self.queue[(number - self.first) as usize];
        sent.at = now;
        sent.marks |= RETRANS | EVER_RETRANS;
        sent.nxt_when_resent = nxt;
        self.retrans_out += 1;
        self.lost_retrans_low = self.lost_retrans_low.min(nxt);
        self.retransmit_hint = number + 1;
        number == self.first
    }

    fn mark_one_lost(&mut self, at: usize) {
        let sent = &mut self.queue[at];
        if !sent.is(LOST | SACKED) {
            sent.marks |= LOST;
            self.lost_out += 1;
            self.retransmit_hint = self.retransmit_hint.min(self.first + at as u64);
        }
    }

    fn uncount(&mut self, marks: u8) {
        self.sacked_out -= u32::from(marks & SACKED != 0);
        self.lost_out -= u32::from(marks & LOST != 0);
        self.retrans_out -= u32::from(marks & RETRANS != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Instant = Instant::ZERO;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::new(&TcpConfig::linux_3_2());
        for n in 0..segments {
            board.on_send(NOW, n * 100, 100);
        }
        board
    }

    #[test]
    fn three_segments_sacked_above_a_hole_show_its_loss() {
        let mut board = board(10);
        board.on_sack(NOW, [(100, 300)].into_iter(), 0);
        assert!(!board.shows_loss(3, true));
        board.on_sack(NOW, [(100, 400)].into_iter(), 0);
        assert!(board.shows_loss(3, true));
        board.mark_lost(true, u64::MAX);
        assert_eq!((board.lost_out(), board.sacked_out(), board.in_flight()), (1, 3, 6));
        assert_eq!(board.next_lost(), Some((0, 0, 100)));
        assert!(board.on_retransmit(NOW, 0, 1000));
        assert_eq!(board.in_flight(), 7);
        assert_eq!(board.next_lost(), None);
        assert_eq!(board.on_ack(NOW, 400, 4, 0).segments, 4);
        assert_eq!((board.packets_out(), board.in_flight()), (6, 6));
    }

    #[test]
    fn fack_gives_up_every_hole_three_below_the_highest_sack() {
        let mut board = board(20);
        board.on_sack(NOW, [(1000, 1100)].into_iter(), 0);
        board.mark_lost(true, u64::MAX);
        assert_eq!(board.lost_out(), 8);
    }

    #[test]
    fn without_fack_a_hole_needs_three_sacks_above_it() {
        let mut board = board(20);
        board.fack = false;
        board.on_sack(NOW, [(1000, 1100), (600, 700)].into_iter(), 0);
        board.mark_lost(false, u64::MAX);
        assert_eq!(board.lost_out(), 0);
        board.on_sack(NOW, [(300, 400), (1000, 1100), (600, 700)].into_iter(), 0);
        board.mark_lost(false, u64::MAX);
        assert_eq!(board.lost_out(), 3);
    }

    #[test]
    fn a_retransmission_is_lost_when_later_data_arrive() {
        let mut board = board(5);
        board.on_sack(NOW, [(100, 400)].into_iter(), 0);
        board.mark_lost(true, u64::MAX);
        board.on_retransmit(NOW, 0, 500);
        board.on_send(NOW, 500, 100);
        board.on_sack(NOW, [(100, 500)].into_iter(), 0);
        board.mark_lost_retransmissions();
        assert_eq!(board.next_lost(), None);
        board.on_sack(NOW, [(100, 600)].into_iter(), 0);
        board.mark_lost_retransmissions();
        assert_eq!(board.next_lost(), Some((0, 0, 100)));
    }

    #[test]
    fn a_late_segment_that_was_not_resent_is_reordering() {
        let mut board = board(10);
        assert_eq!(board.on_sack(NOW, [(500, 600)].into_iter(), 0), 0);
        assert_eq!(board.on_sack(NOW, [(200, 300), (500, 600)].into_iter(), 0), 4);
        assert_eq!(board.on_ack(NOW, 100, 6, 0).reordered, 6);
    }

    proptest! {
        #[test]
        fn counters_agree_with_the_marks(
            ns3: bool,
            steps in prop::collection::vec((0u8..6, 0u64..40, 1u64..10), 1..60),
        ) {
            let mut board = Scoreboard { counts_resent: ns3, ..board(0) };
            let (mut una, mut nxt) = (0u64, 0u64);
            for (kind, at, size) in steps {
                match kind {
                    0 => { board.on_send(NOW, nxt, 100); nxt += 100; }
                    1 => {
                        let start = (una + (at + 1) * 100).min(nxt);
                        let end = (start + size * 100).min(nxt);
                        board.on_sack(NOW, [(start, end)].into_iter().filter(|block| block.0 < block.1), 0);
                    }
                    2 => { una = (una + size * 100).min(nxt); let fackets = board.fackets_out(); board.on_ack(NOW, una, fackets, 0); }
                    3 => board.mark_lost(true, u64::MAX),
                    4 => board.mark_all_lost(NOW),
                    _ => {
                        board.mark_lost_retransmissions();
                        if let Some((number, ..)) = board.next_lost() { board.on_retransmit(NOW, number, nxt); }
                    }
                }
                let count = |mark| board.queue.iter().filter(|sent| sent.is(mark)).count() as u32;
                prop_assert_eq!(board.sacked_out, count(SACKED));
                prop_assert_eq!(board.lost_out, count(LOST));
                prop_assert_eq!(board.retrans_out, count(RETRANS));
                prop_assert!(board.in_flight() <= board.packets_out());
            }
        }
    }
}
