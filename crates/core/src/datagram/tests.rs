//! Tests one hop over a lossy network: a sender, a receiver, and a pipe in each direction that loses, reorders and
//! duplicates messages.

use super::message::Downstream;
use super::{Receiver, Repair, RoundTrips, Sender};
use penstock_units::{Duration, Instant, Rng, Seed};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Losses, delays and duplicates in a pipe.
#[derive(Clone, Copy, Debug)]
struct Impairments {
    loss: f64,
    /// Probability that a message takes up to five times as long.
    delayed: f64,
    /// Probability that a message arrives twice.
    duplicated: f64,
}

impl Impairments {
    const NONE: Impairments = Impairments { loss: 0.0, delayed: 0.0, duplicated: 0.0 };
}

#[derive(Clone, Copy, Debug)]
enum InFlight {
    Cell(u64),
    Probe,
    Feedback { ack: u32, forwarded: u32, hole: bool },
}

/// A hop: a sender, a receiver, a pipe in each direction, and the queue behind the receiver.
struct Hop {
    now: Instant,
    first: u64,
    sender: Sender<u64>,
    receiver: Receiver<u64>,
    impairments: Impairments,
    /// The number of one message that is always lost.
    lost: Option<u64>,
    rng: Rng,
    in_flight: BTreeMap<(Instant, u64), InFlight>,
    sent: u64,
    /// Cells that arrived in order and are not forwarded yet.
    queue: VecDeque<u64>,
    arrived: u64,
    forwarded: u64,
    /// The number of forwarded cells that the sender knows.
    known: u64,
    again: u64,
    /// The number of delayed transmissions of cells.
    delayed: u64,
    probes: u64,
}

const LATENCY: Duration = Duration::from_millis(10);

impl Hop {
    fn new(first: u64, impairments: Impairments, seed: u64) -> Hop {
        Hop {
            now: Instant::ZERO,
            first,
            sender: Sender::new(first, Duration::from_secs(1), RoundTrips::Forwarded),
            receiver: Receiver::new(first),
            impairments,
            lost: None,
            rng: Seed(seed).stream("pipe"),
            in_flight: BTreeMap::new(),
            sent: 0,
            queue: VecDeque::new(),
            arrived: 0,
            forwarded: 0,
            known: 0,
            again: 0,
            delayed: 0,
            probes: 0,
        }
    }

    fn transmit(&mut self, message: InFlight) {
        let times = if self.rng.bernoulli(self.impairments.duplicated) { 2 } else { 1 };
        for _ in 0..times {
            if !self.rng.bernoulli(self.impairments.loss) {
                let delayed = self.rng.bernoulli(self.impairments.delayed);
                let slow = if delayed { self.rng.below(40_000_000) } else { 0 };
                self.delayed += u64::from(delayed && matches!(message, InFlight::Cell(_)));
                self.sent += 1;
                if self.lost == Some(self.sent) {
                    continue;
                }
                self.in_flight.insert((self.now + LATENCY + Duration::from_nanos(slow), self.sent), message);
            }
        }
    }

    fn send(&mut self, seq: u64) {
        if self.sender.on_packed(self.now, seq) {
            self.transmit(InFlight::Cell(seq));
        }
    }

    fn acknowledge(&mut self, hole: bool) {
        let ack = self.receiver.ack();
        let forwarded = (self.first + self.forwarded) as u32;
        // At one node, the ACK is never behind the FWD (G-51).
        assert!(ack.wrapping_sub(forwarded).cast_signed() >= 0);
        self.transmit(InFlight::Feedback { ack, forwarded, hole });
    }

    fn forward(&mut self) {
        if let Some(cell) = self.queue.pop_front() {
            assert_eq!(cell, self.first + self.forwarded, "each cell arrives once and in order");
            self.forwarded += 1;
            self.acknowledge(false);
        }
    }

    fn arrive(&mut self, message: InFlight) {
        match message {
            InFlight::Cell(seq) => {
                let queue = &mut self.queue;
                let arrived = &mut self.arrived;
                self.receiver
                    .on_data(seq as u32, seq, |cell| {
                        *arrived += 1;
                        queue.push_back(cell);
                    })
                    .expect("an honest sender is never too far ahead");
                self.acknowledge(self.receiver.has_hole());
            }
            InFlight::Probe => self.acknowledge(false),
            InFlight::Feedback { ack, forwarded, hole } => {
                let acknowledged =
                    self.sender.on_feedback(self.now, ack, forwarded, hole, Downstream::default());
                let acknowledged = acknowledged.expect("an honest receiver acknowledges only sent cells");
                if let Some(count) = acknowledged.forwarded {
                    let count = u64::from(count.wrapping_sub(self.first as u32));
                    assert!(
                        self.known <= count && count <= self.forwarded,
                        "FWD never decreases and never exceeds the forwarded cells (G-51)"
                    );
                    self.known = count;
                }
                assert!(acknowledged.rtt.is_none_or(|rtt| rtt >= LATENCY * 2), "{acknowledged:?}");
                self.retransmit();
            }
        }
    }

    fn retransmit(&mut self) {
        while let Some(seq) = self.sender.poll_again() {
            self.again += 1;
            self.send(seq);
        }
    }

    /// Sends `cells` cells through a window, and forwards one cell in each interval `pace`. Returns true if all cells
    /// arrived before `timeout`.
    fn transfer(&mut self, cells: u64, window: u64, pace: Duration, timeout: Duration) -> bool {
        let mut made = 0;
        let mut next_forward = Instant::ZERO;
        while self.known < cells {
            while made < cells && made - self.known < window {
                let seq = self.sender.push(self.first + made, true).expect("the window is below the bound");
                assert_eq!(seq, self.first + made);
                made += 1;
                self.send(seq);
            }
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let forward = (!self.queue.is_empty()).then_some(next_forward.max(self.now));
            let timer = self.sender.poll_timeout();
            let Some(at) = [arrival, forward, timer].into_iter().flatten().min() else { return false };
            self.now = self.now.max(at);
            if self.now > Instant::ZERO + timeout {
                return false;
            }
            if arrival == Some(at) {
                let (_, message) = self.in_flight.pop_first().expect("the map is not empty");
                self.arrive(message);
            } else if forward == Some(at) {
                self.forward();
                next_forward = self.now + pace;
            } else {
                match self.sender.on_timer(self.now) {
                    Repair::Nothing => {}
                    Repair::Again => self.retransmit(),
                    Repair::Probe => {
                        self.probes += 1;
                        self.transmit(InFlight::Probe);
                    }
                    Repair::GiveUp => return false,
                }
            }
        }
        true
    }
}

const FOREVER: Duration = Duration::from_secs(100_000);

#[test]
fn without_loss_no_cell_is_retransmitted() {
    let mut hop = Hop::new(0, Impairments::NONE, 1);
    assert!(hop.transfer(5000, 50, Duration::from_millis(1), FOREVER));
    assert_eq!((hop.again, hop.probes), (0, 0));
    assert_eq!(hop.sent, 3 * 5000, "one cell, one ACK and one FWD each");
}

/// A slow reader needs longer than the minimum timeout to read a window. The receiver still acknowledges each cell
/// immediately.
#[test]
fn a_slow_reader_causes_no_retransmission() {
    let mut hop = Hop::new(0, Impairments::NONE, 1);
    assert!(hop.transfer(200, 50, Duration::from_millis(400), FOREVER));
    assert_eq!(hop.again, 0);
    assert!(hop.probes <= 2, "the reader forwards in time, but the sender sent {} probes", hop.probes);
}

#[test]
fn a_lost_feedback_for_the_last_cell_is_probed() {
    let mut hop = Hop::new(0, Impairments::NONE, 1);
    hop.lost = Some(3);
    assert!(hop.transfer(1, 1, LATENCY, Duration::from_secs(2)));
    assert_eq!((hop.known, hop.probes, hop.again), (1, 1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// G-50, G-51: in a lossy network, every cell arrives once and in order, and no circuit stalls.
    #[test]
    fn a_lossy_network_loses_no_cell_and_stalls_no_circuit(
        loss in 0.0..0.3f64,
        delayed in 0.0..0.5f64,
        duplicated in 0.0..0.2f64,
        window in 1u64..200,
        pace in 0u64..4,
        first in prop_oneof![Just(0), Just(u64::from(u32::MAX) - 100)],
        seed in any::<u64>(),
    ) {
        let mut hop = Hop::new(first, Impairments { loss, delayed, duplicated }, seed);
        prop_assert!(hop.transfer(400, window, Duration::from_millis(pace), FOREVER), "the hop stalls at {}", hop.now);
        prop_assert_eq!((hop.arrived, hop.forwarded), (400, 400));
    }
}

/// Without loss, the sender retransmits only delayed cells that three later cells overtake. One run
/// can have more retransmissions than delayed cells (27 for five). Over many runs there are fewer.
#[test]
fn delayed_or_duplicated_cells_cause_few_retransmissions() {
    for (delayed, duplicated) in [(0.002, 0.15), (0.01, 0.0), (0.01, 0.2), (0.05, 0.1), (0.1, 0.2)] {
        for window in [1, 10, 50, 99] {
            let (mut again, mut slow) = (0, 0);
            for seed in 0..20 {
                let mut hop = Hop::new(0, Impairments { loss: 0.0, delayed, duplicated }, seed);
                assert!(hop.transfer(1000, window, Duration::from_millis(1), FOREVER));
                assert_eq!(hop.probes, 0);
                (again, slow) = (again + hop.again, slow + hop.delayed);
            }
            assert!(
                again <= slow,
                "delayed {delayed}, duplicated {duplicated}, window {window}: {again} retransmissions, {slow} delayed cells"
            );
        }
    }
}
