//! One hop over a bad network: a sender and a receiver, and a pipe each way that loses, reorders and repeats.

use super::message::Downstream;
use super::{Receiver, Repair, RoundTrips, Sender};
use penstock_units::{Duration, Instant, Rng, Seed};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// The fate of a message in a pipe.
#[derive(Clone, Copy, Debug)]
struct Bad {
    loss: f64,
    /// How likely it is that something takes up to five times as long.
    late: f64,
    /// How likely it is that something comes twice.
    twice: f64,
}

impl Bad {
    const NOT: Bad = Bad { loss: 0.0, late: 0.0, twice: 0.0 };
}

#[derive(Clone, Copy, Debug)]
enum Flying {
    Cell(u64),
    Probe,
    Feedback { ack: u32, forwarded: u32, hole: bool },
}

/// A sender, a pipe each way, a receiver and the queue behind it.
struct Hop {
    now: Instant,
    first: u64,
    sender: Sender<u64>,
    receiver: Receiver<u64>,
    bad: Bad,
    /// One message that is always lost.
    lost: Option<u64>,
    chance: Rng,
    flying: BTreeMap<(Instant, u64), Flying>,
    sent: u64,
    /// Cells that arrived in order and were not forwarded.
    queue: VecDeque<u64>,
    arrived: u64,
    forwarded: u64,
    /// The part of them that the sender knows.
    known: u64,
    again: u64,
    /// Cells that took longer on their way, each time.
    late: u64,
    probes: u64,
}

const LATENCY: Duration = Duration::from_millis(10);

impl Hop {
    fn new(first: u64, bad: Bad, seed: u64) -> Hop {
        Hop {
            now: Instant::ZERO,
            first,
            sender: Sender::new(first, Duration::from_secs(1), RoundTrips::Forwarded),
            receiver: Receiver::new(first),
            bad,
            lost: None,
            chance: Seed(seed).stream("pipe"),
            flying: BTreeMap::new(),
            sent: 0,
            queue: VecDeque::new(),
            arrived: 0,
            forwarded: 0,
            known: 0,
            again: 0,
            late: 0,
            probes: 0,
        }
    }

    fn fly(&mut self, what: Flying) {
        let times = if self.chance.bernoulli(self.bad.twice) { 2 } else { 1 };
        for _ in 0..times {
            if !self.chance.bernoulli(self.bad.loss) {
                let late = self.chance.bernoulli(self.bad.late);
                let slow = if late { self.chance.below(40_000_000) } else { 0 };
                self.late += u64::from(late && matches!(what, Flying::Cell(_)));
                self.sent += 1;
                if self.lost == Some(self.sent) {
                    continue;
                }
                self.flying.insert((self.now + LATENCY + Duration::from_nanos(slow), self.sent), what);
            }
        }
    }

    fn send(&mut self, seq: u64) {
        if self.sender.on_packed(self.now, seq) {
            self.fly(Flying::Cell(seq));
        }
    }

    fn acknowledge(&mut self, hole: bool) {
        let ack = self.receiver.ack();
        let forwarded = (self.first + self.forwarded) as u32;
        // ACK is never behind FWD at the same node (G-51).
        assert!(ack.wrapping_sub(forwarded).cast_signed() >= 0);
        self.fly(Flying::Feedback { ack, forwarded, hole });
    }

    fn forward(&mut self) {
        if let Some(cell) = self.queue.pop_front() {
            assert_eq!(cell, self.first + self.forwarded, "in order, once");
            self.forwarded += 1;
            self.acknowledge(false);
        }
    }

    fn arrive(&mut self, what: Flying) {
        match what {
            Flying::Cell(seq) => {
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
            Flying::Probe => self.acknowledge(false),
            Flying::Feedback { ack, forwarded, hole } => {
                let acknowledged =
                    self.sender.on_feedback(self.now, ack, forwarded, hole, Downstream::default());
                let acknowledged = acknowledged.expect("an honest receiver acknowledges what was sent");
                if let Some(count) = acknowledged.forwarded {
                    let count = u64::from(count.wrapping_sub(self.first as u32));
                    assert!(
                        self.known <= count && count <= self.forwarded,
                        "FWD grows and never precedes (G-51)"
                    );
                    self.known = count;
                }
                assert!(acknowledged.rtt.is_none_or(|rtt| rtt >= LATENCY * 2), "{acknowledged:?}");
                self.repeat();
            }
        }
    }

    fn repeat(&mut self) {
        while let Some(seq) = self.sender.poll_again() {
            self.again += 1;
            self.send(seq);
        }
    }

    /// Sends so many cells through a window, forwarding one each `pace`; true if all was done in time.
    fn carry(&mut self, cells: u64, window: u64, pace: Duration, patience: Duration) -> bool {
        let mut made = 0;
        let mut next_forward = Instant::ZERO;
        while self.known < cells {
            while made < cells && made - self.known < window {
                let seq = self.sender.push(self.first + made, true).expect("the window is below the bound");
                assert_eq!(seq, self.first + made);
                made += 1;
                self.send(seq);
            }
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let forward = (!self.queue.is_empty()).then_some(next_forward.max(self.now));
            let timer = self.sender.poll_timeout();
            let Some(at) = [arrival, forward, timer].into_iter().flatten().min() else { return false };
            self.now = self.now.max(at);
            if self.now > Instant::ZERO + patience {
                return false;
            }
            if arrival == Some(at) {
                let (_, what) = self.flying.pop_first().expect("it was just there");
                self.arrive(what);
            } else if forward == Some(at) {
                self.forward();
                next_forward = self.now + pace;
            } else {
                match self.sender.on_timer(self.now) {
                    Repair::Nothing => {}
                    Repair::Again => self.repeat(),
                    Repair::Probe => {
                        self.probes += 1;
                        self.fly(Flying::Probe);
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
fn without_loss_nothing_goes_again() {
    let mut hop = Hop::new(0, Bad::NOT, 1);
    assert!(hop.carry(5000, 50, Duration::from_millis(1), FOREVER));
    assert_eq!((hop.again, hop.probes), (0, 0));
    assert_eq!(hop.sent, 3 * 5000, "a cell, its ACK and its FWD");
}

/// A window that takes longer than the least timeout to be forwarded is acknowledged at once all the same.
#[test]
fn a_slow_reader_has_nothing_sent_again() {
    let mut hop = Hop::new(0, Bad::NOT, 1);
    assert!(hop.carry(200, 50, Duration::from_millis(400), FOREVER));
    assert_eq!(hop.again, 0);
    assert!(hop.probes <= 2, "the reader forwards in time, it was asked {} times", hop.probes);
}

#[test]
fn a_lost_word_on_the_last_cell_is_asked_for() {
    let mut hop = Hop::new(0, Bad::NOT, 1);
    hop.lost = Some(3);
    assert!(hop.carry(1, 1, LATENCY, Duration::from_secs(2)));
    assert_eq!((hop.known, hop.probes, hop.again), (1, 1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// G-50, G-51.
    #[test]
    fn a_lossy_network_loses_no_cell_and_stalls_no_circuit(
        loss in 0.0..0.3f64,
        late in 0.0..0.5f64,
        twice in 0.0..0.2f64,
        window in 1u64..200,
        pace in 0u64..4,
        first in prop_oneof![Just(0), Just(u64::from(u32::MAX) - 100)],
        seed in any::<u64>(),
    ) {
        let mut hop = Hop::new(first, Bad { loss, late, twice }, seed);
        prop_assert!(hop.carry(400, window, Duration::from_millis(pace), FOREVER), "it stalls at {}", hop.now);
        prop_assert_eq!((hop.arrived, hop.forwarded), (400, 400));
    }
}

/// Without loss only cells that three others overtook, and that are late by so much, are retransmitted.
/// In one run many may be (27 for five late ones were seen); over many runs, fewer than are late.
#[test]
fn late_or_repeated_cells_cause_few_retransmissions() {
    for (late, twice) in [(0.002, 0.15), (0.01, 0.0), (0.01, 0.2), (0.05, 0.1), (0.1, 0.2)] {
        for window in [1, 10, 50, 99] {
            let (mut again, mut slow) = (0, 0);
            for seed in 0..20 {
                let mut hop = Hop::new(0, Bad { loss: 0.0, late, twice }, seed);
                assert!(hop.carry(1000, window, Duration::from_millis(1), FOREVER));
                assert_eq!(hop.probes, 0);
                (again, slow) = (again + hop.again, slow + hop.late);
            }
            assert!(again <= slow, "late {late}, twice {twice}, window {window}: {again} again, {slow} late");
        }
    }
}
