//! The loss recovery of ns-3: a sender whose ACKs the test writes.

use super::super::receive::Receiver;
use super::super::send::{Outgoing, Sender};
use super::*;

const SEGMENT: u64 = 1448;

fn newreno() -> TcpConfig {
    TcpConfig { congestion: Congestion::NewReno, ..roomy(TcpConfig::ns3()) }
}

/// A sender with much data that has sent its initial window of ten segments.
struct Flow {
    cfg: TcpConfig,
    now: Instant,
    sender: Sender,
}

impl Flow {
    fn new() -> Self {
        let (cfg, now) = (newreno(), Instant::from_secs(1));
        let mut sender = Sender::new(&cfg, now);
        sender.on_established(&cfg, now, &Segment { window: 1 << 20, ..Segment::default() });
        sender.on_write(&cfg, 0, 1 << 20);
        let mut flow = Flow { cfg, now, sender };
        assert_eq!(flow.sent(), (0..10).collect::<Vec<_>>());
        flow
    }

    /// The numbers of the segments that the sender sends now.
    fn sent(&mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(Outgoing::Data(chunk, count)) = self.sender.poll(&self.cfg, self.now, 1) {
            assert_eq!((chunk.len, count), (1448, 1));
            numbers.push(chunk.seq / SEGMENT);
        }
        numbers
    }

    /// The segments that the sender sends after an ACK of all segments below `ack`. The SACKs have ranges of segments.
    fn after_ack(&mut self, ack: u64, sacks: &[(u64, u64)]) -> Vec<u64> {
        self.now += Duration::from_millis(10);
        let mut segment = Segment { ack: ack * SEGMENT, window: 1 << 20, ..Segment::default() };
        sacks.iter().for_each(|(start, end)| segment.push_sack(start * SEGMENT, end * SEGMENT));
        self.sender.on_ack(&self.cfg, self.now, &segment);
        self.sent()
    }

    /// The segments that the sender sends after a retransmission timeout.
    fn after_timeout(&mut self) -> Vec<u64> {
        self.now = self.sender.due();
        self.sender.on_timer(&self.cfg, self.now).expect("the sender does not give up");
        self.sent()
    }

    fn ssthresh(&self) -> u64 {
        self.sender.window.ssthresh_bytes(&self.cfg)
    }
}

/// Source: ns-3.44 `TcpSocketBase::ReceivedAck` marks lost segments before `EnterRecovery` computes ssthresh.
#[test]
fn all_lost_segments_are_missing_in_the_flight_that_is_halved() {
    let mut flow = Flow::new();
    // Segments 0 to 4 are lost, and two are in flight.
    flow.after_ack(0, &[(5, 8)]);
    assert_eq!(flow.ssthresh(), 2 * SEGMENT);
    let mut flow = Flow::new();
    flow.after_ack(0, &[(1, 4)]);
    assert_eq!(flow.ssthresh(), 3 * SEGMENT);
    let mut flow = Flow::new();
    flow.after_ack(0, &[(2, 5)]);
    assert_eq!(flow.ssthresh(), 5 * SEGMENT / 2);
}

/// Source: ns-3.44 `TcpSocketBase::ProcessAck` and `DoRetransmit`.
#[test]
fn a_partial_ack_sends_a_segment_beyond_the_window() {
    let mut flow = Flow::new();
    assert_eq!(flow.after_ack(0, &[(1, 4)]), [0, 10]);
    assert_eq!(flow.after_ack(4, &[]), [11]);
    assert!(flow.sender.board.in_flight() > flow.sender.window.cwnd);
}

/// Source: ns-3.44 `TcpTxBuffer::NextSeg`, rule 1.
#[test]
fn after_a_timeout_new_data_precede_segments_above_the_sacks() {
    let mut flow = Flow::new();
    assert_eq!(flow.after_ack(0, &[(1, 2), (5, 6)]), [10, 11]);
    assert_eq!(flow.after_timeout(), [0]);
    assert_eq!(flow.after_ack(2, &[(5, 6)]), [2, 3]);
    assert_eq!(flow.after_ack(4, &[(5, 6)]), [4, 12, 13]);
    // All segments below the highest SACK have arrived.
    assert_eq!(flow.after_ack(6, &[]), [6, 7]);
}

/// Source: ns-3.44 `TcpTxBuffer::SetSentListLost`, after which `IsHeadRetransmitted` is false in `ReTxTimeout`.
#[test]
fn each_timeout_reduces_ssthresh() {
    let mut flow = Flow::new();
    assert_eq!(flow.after_timeout(), [0]);
    assert_eq!(flow.ssthresh(), 5 * SEGMENT);
    assert_eq!(flow.after_timeout(), [0]);
    assert_eq!(flow.ssthresh(), 2 * SEGMENT);
}

/// Source: ns-3.44 `TcpTxBuffer::Update`, which does not change `m_retrans`.
#[test]
fn a_sacked_retransmission_stays_in_flight_until_the_cumulative_ack() {
    let mut flow = Flow::new();
    flow.after_ack(0, &[(2, 6)]);
    // Both holes were retransmitted. Segment 1 arrives, and segment 0 is lost again.
    let before = flow.sender.board.in_flight();
    let sent = flow.after_ack(0, &[(1, 6)]).len() as u32;
    assert_eq!(flow.sender.board.in_flight(), before + sent);
    flow.after_timeout();
    assert_eq!(flow.sender.board.in_flight(), 1);
}

/// Linux acknowledges a segment after a pause immediately, ns-3 after 200 ms or with the next segment.
#[test]
fn a_segment_after_a_pause_waits_for_its_delayed_ack() {
    for (cfg, immediate) in [(TcpConfig::linux_3_2(), true), (TcpConfig::ns3(), false)] {
        let mut receiver = Receiver::new(&cfg, Instant::ZERO);
        let mut at_once = Vec::new();
        for (number, millis) in [(0, 100), (1, 101), (2, 2000)] {
            let segment = Segment { seq: number * SEGMENT, len: 1448, ..Segment::default() };
            let now = Instant::from_millis(millis);
            receiver.on_segment(&cfg, now, &segment, Duration::ZERO);
            at_once.push(receiver.ack_due);
            receiver.on_ack_sent(&cfg, &mut Segment::default(), 1);
        }
        assert_eq!(at_once[2], immediate, "{:?}", cfg.kernel);
    }
}
