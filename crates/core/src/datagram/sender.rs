use super::MAX_IN_FLIGHT;
use super::message::Downstream;
use super::timeout::Timeout;
use crate::error::Violation;
use crate::serial::ahead;
use penstock_units::{Duration, Instant, fifo::trim};
use std::collections::VecDeque;

/// The number of duplicate ACKs that indicates a loss [1] (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;
/// Consecutive timeouts after which the sender gives up [1]. With a minimum timeout of 1 s this takes half an hour.
/// With 30 % loss in each direction, up to thirteen consecutive timeouts were observed although the peer was alive.
const GIVE_UP: u32 = 30;
/// After a timeout, the cells that are retransmitted for each new ACK [cell], as in slow start.
const AGAIN_PER_ACK: u32 = 2;

/// How round trips are measured on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundTrips {
    /// A round trip ends when the peer reports that it has forwarded the cell.
    Forwarded,
    /// Round trips are not measured, because the peer does not report forwarded cells.
    Unknown,
}

/// The sending half of a hop. It stores the cells of one circuit until the next node acknowledges them, and counts the
/// cells that the next node forwarded.
///
/// After three duplicate ACKs the sender retransmits a cell, at most once in a round trip. After a timeout, the sender
/// retransmits all cells in flight, as ACKs arrive (go-back-N). If all cells have arrived but the next node forwards
/// some of them too late, the sender sends a PROBE, because the last FEEDBACK may be lost.
///
/// Source: nstor's `seqQueue` and its slides: cumulative ACK, three duplicates, timeout with go-back-N; Karn and
/// Partridge, SIGCOMM 1987.
///
/// Deviation: a FEEDBACK says whether it answers a cell beyond a missing cell. Only this ACK counts as a duplicate,
/// because most other FEEDBACKs about forwarded cells repeat the last ACK.
///
/// Deviation: RTT samples of cells queued behind a retransmission are skipped, because they include the repair.
///
/// Deviation: where nstor stalls, the sender sends a PROBE, because it no longer has the acknowledged cells.
#[derive(Debug)]
pub struct Sender<B> {
    round_trips: RoundTrips,
    /// Unacknowledged cells. The first cell has the sequence number `head`.
    cells: VecDeque<Sent<B>>,
    head: u64,
    next: u64,
    /// Counts of RELAY cells that this node sent (`counted`), that the next node forwarded, and that the circuit's last
    /// node handled (`ended`; `None` if the last node does not report it).
    counted: u64,
    forwarded: u64,
    ended: Option<u64>,
    /// The send time of each RELAY cell that the next node has not yet reported as forwarded; `None` if its round trip is not measured.
    times: VecDeque<Option<Instant>>,
    duplicates: u32,
    /// Cells with a sequence number below this were sent before the last loss was detected.
    recover: u64,
    /// After a timeout, the sequence number of the next cell to retransmit. Retransmission ends at `recover`.
    cursor: u64,
    /// How many cells from `cursor` on may be retransmitted now.
    again: u32,
    head_again: bool,
    /// `timeout` runs from `acked_at` until the next ACK. `forward_timeout` runs from `forwarded_at` until more cells are
    /// forwarded.
    timeout: Timeout,
    acked_at: Instant,
    forward_timeout: Timeout,
    forwarded_at: Instant,
}

#[derive(Debug)]
struct Sent<B> {
    body: B,
    counts: bool,
    at: Option<Instant>,
    again: bool,
    /// Whether a retransmission of the cell waits to be sent.
    queued: bool,
}

/// The result of a FEEDBACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// RELAY cells that the next node has forwarded, modulo 2³² [cell]; `None` if the FEEDBACK is outdated.
    pub forwarded: Option<u32>,
    /// The round trip of the last forwarded cell [ns], if the measurement is valid.
    pub rtt: Option<Duration>,
}

/// The action that a timeout requires of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing, because the timer expired too early.
    Nothing,
    /// Retransmit the cells of [`Sender::poll_again`].
    Again,
    /// Send the peer a PROBE, which requests FEEDBACK.
    Probe,
    /// Close the circuit, because the peer has not answered for too long.
    GiveUp,
}

impl<B> Sender<B> {
    /// A sender. `first` is the sequence number of the first cell, and `floor` is the minimum timeout.
    pub fn new(first: u64, floor: Duration, round_trips: RoundTrips) -> Self {
        Sender {
            round_trips,
            cells: VecDeque::new(),
            head: first,
            next: first,
            counted: first,
            forwarded: first,
            ended: None,
            times: VecDeque::new(),
            duplicates: 0,
            recover: first,
            cursor: first,
            again: 0,
            head_again: false,
            timeout: Timeout::new(floor),
            acked_at: Instant::ZERO,
            forward_timeout: Timeout::new(floor),
            forwarded_at: Instant::ZERO,
        }
    }

    /// Adds a cell and returns its sequence number. A peer that leaves too many cells unacknowledged violates the
    /// protocol.
    pub fn push(&mut self, body: B, counts: bool) -> Result<u64, Violation> {
        if self.cells.len() as u64 >= MAX_IN_FLIGHT {
            return Err(Violation::Unacknowledged);
        }
        self.cells.push_back(Sent { body, counts, at: None, again: false, queued: false });
        Ok(self.head + self.cells.len() as u64 - 1)
    }

    /// Records that this cell is now sent or retransmitted. Returns false if the cell need not be sent.
    pub fn on_packed(&mut self, now: Instant, seq: u64) -> bool {
        let Some(place) = seq.checked_sub(self.head) else { return false };
        let Some(cell) = self.cells.get_mut(place as usize) else { return false };
        // New cells are sent in order, so this number must belong to an earlier circuit.
        if cell.at.is_none() && seq != self.next {
            return false;
        }
        if cell.at.replace(now).is_some() {
            (cell.again, cell.queued) = (true, false);
            // The receiver holds back all later cells until this cell arrives.
            let since = self.cells.range(place as usize..).filter(|cell| cell.counts && cell.at.is_some());
            let waiting = since.count().min(self.times.len());
            let behind = self.times.len() - waiting;
            self.times.range_mut(behind..).for_each(|time| *time = None);
            return true;
        }
        if self.next == self.head {
            self.acked_at = now;
        }
        self.next += 1;
        if cell.counts && self.round_trips == RoundTrips::Forwarded {
            if self.counted == self.forwarded {
                self.forwarded_at = now;
            }
            self.counted += 1;
            self.times.push_back(Some(now));
        }
        true
    }

    /// The cell with this sequence number, if it is unacknowledged.
    pub fn cell(&self, seq: u64) -> Option<&B> {
        let place = seq.checked_sub(self.head)?;
        self.cells.get(place as usize).map(|sent| &sent.body)
    }

    /// Cells that wait to be sent or acknowledged [cell].
    pub fn len(&self) -> u64 {
        self.cells.len() as u64
    }

    /// Whether no cell waits to be sent or acknowledged.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Handles FEEDBACK. Outdated counts have no effect; counts of cells that were never sent are a [`Violation`].
    pub fn on_feedback(
        &mut self,
        now: Instant,
        ack: u32,
        forwarded: u32,
        hole: bool,
        downstream: Downstream,
    ) -> Result<Acknowledgement, Violation> {
        let acked = ahead(ack, self.head);
        if acked > (self.next - self.head) as i64 {
            return Err(Violation::ForgedAcknowledgement);
        }
        let newly_forwarded = match self.round_trips {
            RoundTrips::Forwarded => ahead(forwarded, self.forwarded),
            RoundTrips::Unknown => -1,
        };
        if newly_forwarded > self.times.len() as i64 {
            return Err(Violation::ForgedAcknowledgement);
        }
        if let Ok(acked) = u64::try_from(acked) {
            self.on_ack(now, acked, hole);
        }
        let Ok(newly_forwarded) = u64::try_from(newly_forwarded) else {
            return Ok(Acknowledgement::default());
        };
        let rtt = self.on_forwarded(now, newly_forwarded);
        match downstream.ended {
            Some(ended) => self.on_ended(now, ended)?,
            // The peer does not report the last node's count, so the sender stops waiting for the count.
            None => self.ended = None,
        }
        Ok(Acknowledgement { forwarded: Some(self.forwarded as u32), rtt })
    }

    fn on_ack(&mut self, now: Instant, acked: u64, hole: bool) {
        if acked > 0 {
            let mut sample = None;
            let mut clean = true;
            for cell in self.cells.drain(..acked as usize) {
                clean &= !cell.again;
                sample = cell.at;
            }
            if let Some(at) = sample.filter(|_| clean) {
                self.timeout.sample(now.since(at));
                self.forward_timeout.sample(now.since(at));
            }
            trim(&mut self.cells);
            self.head += acked;
            self.timeout.reset();
            self.acked_at = now;
            self.duplicates = 0;
            self.head_again = false;
            // The cells after the acknowledged cell were probably lost as well, so the sender retransmits them next.
            if self.cursor < self.recover {
                self.again = AGAIN_PER_ACK;
            }
        }
        self.duplicates += u32::from(hole);
        let lost = self.duplicates >= DUPLICATES || (hole && acked > 0 && self.head < self.recover);
        if lost && self.head < self.next && self.head_has_rested(now) {
            self.duplicates = 0;
            self.head_again = true;
            (self.recover, self.cursor, self.again) = (self.next, self.next, 0);
        }
    }

    /// Whether the first cell was sent at least one smoothed round trip ago.
    fn head_has_rested(&self, now: Instant) -> bool {
        let sent = self.cells.front().and_then(|cell| cell.at);
        let trip = self.timeout.smooth().unwrap_or_default();
        sent.is_some_and(|sent| now >= sent + trip)
    }

    fn on_forwarded(&mut self, now: Instant, newly_forwarded: u64) -> Option<Duration> {
        if newly_forwarded == 0 {
            return None;
        }
        self.forwarded += newly_forwarded;
        self.forward_timeout.reset();
        self.forwarded_at = now;
        let last = self.times.drain(..newly_forwarded as usize).next_back().flatten();
        trim(&mut self.times);
        last.map(|at| now.since(at))
    }

    fn on_ended(&mut self, now: Instant, ended: u32) -> Result<(), Violation> {
        let beyond = ahead(ended, self.forwarded);
        if beyond > 0 {
            return Err(Violation::ForgedAcknowledgement);
        }
        let ended = self.forwarded.saturating_add_signed(beyond);
        if self.ended.is_none_or(|known| known < ended) {
            self.ended = Some(ended);
            self.forward_timeout.reset();
            self.forwarded_at = now;
        }
        Ok(())
    }

    /// The sequence number of the next cell to retransmit now. The caller calls [`on_packed`](Self::on_packed) when it
    /// sends the cell. Before this call, further reports of the peer do not cause another retransmission.
    pub fn poll_again(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.head_again) && self.queue_again(self.head) {
            return Some(self.head);
        }
        self.cursor = self.cursor.max(self.head);
        while self.again > 0 && self.cursor < self.recover {
            self.again -= 1;
            self.cursor += 1;
            if self.queue_again(self.cursor - 1) {
                return Some(self.cursor - 1);
            }
        }
        None
    }

    /// Queues a cell for retransmission. Returns false if it waits already.
    fn queue_again(&mut self, seq: u64) -> bool {
        let cell = self.cells.get_mut((seq - self.head) as usize);
        cell.is_some_and(|cell| !std::mem::replace(&mut cell.queued, true))
    }

    /// When to call [`on_timer`](Self::on_timer); `None` if no timeout is running.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.head < self.next {
            return Some(self.acked_at + self.timeout.span());
        }
        let waits = self.forwarded < self.counted || self.ended.is_some_and(|ended| ended < self.counted);
        waits.then(|| self.forwarded_at + self.forward_timeout.span())
    }

    /// Handles the timer, which may be early. Returns the action that the caller must take.
    pub fn on_timer(&mut self, now: Instant) -> Repair {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return Repair::Nothing;
        }
        if self.head == self.next {
            self.forward_timeout.expired();
            self.forwarded_at = now;
            return Repair::Probe;
        }
        self.acked_at = now;
        self.duplicates = 0;
        (self.recover, self.cursor, self.again) = (self.next, self.head, 1);
        if self.timeout.expired() >= GIVE_UP { Repair::GiveUp } else { Repair::Again }
    }

    /// The current timeout for ACKs [ns].
    pub fn timeout(&self) -> Duration {
        self.timeout.span()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;
    const NOTHING: Downstream = Downstream { congestion: None, ended: None };

    /// A sender that sent `cells` RELAY cells, one per millisecond, the first at 0 ms.
    fn sender(cells: u64) -> Sender<u64> {
        let mut sender = Sender::new(0, Duration::from_secs(1), RoundTrips::Forwarded);
        for cell in 0..cells {
            assert_eq!(sender.push(cell, true), Ok(cell));
            assert!(sender.on_packed(MS(cell), cell));
        }
        sender
    }

    fn again(sender: &mut Sender<u64>) -> Vec<u64> {
        std::iter::from_fn(|| sender.poll_again()).collect()
    }

    #[test]
    fn an_ack_frees_cells_and_a_fwd_gives_an_rtt_sample() {
        let mut sender = sender(4);
        let acknowledged = sender.on_feedback(MS(50), 3, 0, false, NOTHING).unwrap();
        assert_eq!(acknowledged, Acknowledgement { forwarded: Some(0), rtt: None });
        assert_eq!((sender.len(), sender.cell(3), sender.cell(2)), (1, Some(&3), None));
        let acknowledged = sender.on_feedback(MS(72), 4, 2, false, NOTHING).unwrap();
        let trip = Some(Duration::from_millis(71));
        assert_eq!(
            acknowledged,
            Acknowledgement { forwarded: Some(2), rtt: trip },
            "the second cell left at 1 ms"
        );
        let old = sender.on_feedback(MS(80), 3, 1, false, NOTHING).unwrap();
        assert_eq!(old, Acknowledgement::default());
    }

    #[test]
    fn three_duplicate_acks_retransmit_the_missing_cell_once() {
        let mut sender = sender(9);
        sender.on_feedback(MS(20), 1, 0, false, NOTHING).unwrap();
        for (at, expected) in
            [(21, vec![]), (22, vec![]), (23, vec![1]), (24, vec![]), (25, vec![]), (26, vec![])]
        {
            sender.on_feedback(MS(at), 1, 1, true, NOTHING).unwrap();
            let lost = again(&mut sender);
            assert_eq!(lost, expected, "at {at} ms");
            lost.into_iter().for_each(|seq| assert!(sender.on_packed(MS(at), seq)));
        }
        // Two cells were lost: the ACK that shows the second loss retransmits that cell.
        sender.on_feedback(MS(45), 5, 1, true, NOTHING).unwrap();
        assert_eq!(again(&mut sender), [5]);
    }

    #[test]
    fn a_cell_that_waits_for_its_retransmission_is_not_queued_again() {
        let mut sender = sender(9);
        // The peer reports the same missing cell again and again, and no datagram leaves.
        let mut queued = Vec::new();
        for at in 20..320 {
            sender.on_feedback(MS(at), 1, 0, true, NOTHING).unwrap();
            queued.extend(again(&mut sender));
        }
        assert_eq!(queued, [1]);
        assert!(sender.on_packed(MS(320), 1));
        for at in [400, 401, 402] {
            sender.on_feedback(MS(at), 1, 0, true, NOTHING).unwrap();
        }
        assert_eq!(again(&mut sender), [1], "the retransmission is lost, too");
    }

    #[test]
    fn a_fwd_that_repeats_the_ack_is_no_duplicate_ack() {
        let mut sender = sender(9);
        for forwarded in 0..5 {
            sender.on_feedback(MS(20), 5, forwarded, false, NOTHING).unwrap();
            assert_eq!(again(&mut sender), [0; 0]);
        }
    }

    #[test]
    fn retransmissions_and_cells_behind_them_give_no_rtt_sample() {
        let mut sender = sender(4);
        assert!(sender.on_packed(MS(30), 1));
        let mut trips = Vec::new();
        for forwarded in 1..=4 {
            trips.push(sender.on_feedback(MS(60), 4, forwarded, false, NOTHING).unwrap().rtt);
        }
        assert_eq!(trips, [Some(Duration::from_millis(60)), None, None, None]);
        assert_eq!(sender.timeout(), Duration::from_secs(1), "by Karn's rule the ACK gives no sample either");
    }

    #[test]
    fn after_a_timeout_acks_retransmit_all_cells() {
        let mut sender = sender(6);
        assert_eq!(sender.on_timer(MS(999)), Repair::Nothing);
        assert_eq!(sender.poll_timeout(), Some(MS(1000)));
        assert_eq!(sender.on_timer(MS(1000)), Repair::Again);
        assert_eq!(again(&mut sender), [0]);
        assert_eq!(sender.poll_timeout(), Some(MS(3000)), "the timeout doubled");
        sender.on_feedback(MS(1020), 1, 0, false, NOTHING).unwrap();
        assert_eq!(again(&mut sender), [1, 2]);
        // The fourth cell had arrived.
        sender.on_feedback(MS(1040), 4, 0, false, NOTHING).unwrap();
        assert_eq!(again(&mut sender), [4, 5]);
        sender.on_feedback(MS(1060), 6, 6, false, NOTHING).unwrap();
        assert_eq!((again(&mut sender), sender.poll_timeout()), (vec![], None));
    }

    #[test]
    fn a_sender_without_forward_counts_probes_with_backoff() {
        let mut sender = sender(2);
        sender.on_feedback(MS(20), 2, 1, false, NOTHING).unwrap();
        assert_eq!(sender.on_timer(MS(1020)), Repair::Probe);
        assert_eq!(sender.on_timer(MS(2000)), Repair::Nothing);
        assert_eq!(sender.on_timer(MS(3020)), Repair::Probe);
        sender.on_feedback(MS(3040), 2, 2, false, NOTHING).unwrap();
        assert_eq!(sender.poll_timeout(), None);
        // The same holds if the last node's count is missing.
        let ended = |ended| Downstream { ended: Some(ended), ..NOTHING };
        sender.on_feedback(MS(3050), 2, 2, false, ended(1)).unwrap();
        assert_eq!(sender.on_timer(MS(4050)), Repair::Probe);
        sender.on_feedback(MS(4060), 2, 2, false, ended(2)).unwrap();
        assert_eq!(sender.poll_timeout(), None);
        // The sender does not probe for a count that the peer no longer reports.
        sender.push(2, true).unwrap();
        assert!(sender.on_packed(MS(4070), 2));
        sender.on_feedback(MS(4090), 3, 3, false, NOTHING).unwrap();
        assert_eq!(sender.poll_timeout(), None);
    }

    #[test]
    fn counts_of_unsent_cells_are_forged() {
        let forged = Err(Violation::ForgedAcknowledgement);
        let mut sender = sender(3);
        sender.push(3, true).unwrap();
        assert_eq!(
            sender.on_feedback(MS(9), 4, 0, false, NOTHING),
            forged,
            "the fourth cell was not sent yet"
        );
        assert_eq!(sender.on_feedback(MS(9), 3, 4, false, NOTHING), forged);
        let downstream = Downstream { ended: Some(3), ..NOTHING };
        assert_eq!(
            sender.on_feedback(MS(9), 3, 2, false, downstream),
            forged,
            "a cell cannot end before it is forwarded"
        );
        assert_eq!(sender.on_feedback(MS(9), 3, 3, false, downstream).map(|_| ()), Ok(()));
    }

    #[test]
    fn the_sender_gives_up_on_a_peer_that_never_answers_and_its_buffer_is_bounded() {
        let mut sender = sender(1);
        let mut waits = Vec::new();
        let end = loop {
            let due = sender.poll_timeout().expect("a cell is not acknowledged");
            waits.push(due);
            match sender.on_timer(due) {
                Repair::Again => {
                    assert_eq!(again(&mut sender), [0]);
                    assert!(sender.on_packed(due, 0));
                }
                other => break other,
            }
        };
        assert_eq!((end, waits.len()), (Repair::GiveUp, 30));
        assert_eq!(waits[29], Instant::from_secs(127 + 23 * 64));
        for cell in 1..MAX_IN_FLIGHT {
            assert_eq!(sender.push(cell, true), Ok(cell));
        }
        assert_eq!(sender.push(0, true), Err(Violation::Unacknowledged));
    }
}
