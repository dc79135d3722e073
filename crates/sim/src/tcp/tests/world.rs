//! The smallest network: two hosts and a link with a rate, a delay, a queue and faults.

use crate::tcp::{Endpoint, Segment, TcpConfig};
use penstock_units::{DataRate, Duration, Instant, Rng, Seed};
use std::collections::BTreeMap;

/// The faults of one direction of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Kind,
    /// Each data segment is lost with this probability.
    Random(f64),
    /// Each segment or ACK is lost with the first probability, and delayed by up to the duration with the second.
    Rough(f64, f64, Duration),
    /// Every n-th data segment is lost.
    Periodic(u64),
}

/// The link, equal in both directions. Only data segments can be dropped by a small queue.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) rate: DataRate,
    /// One-way delay.
    pub(super) delay: Duration,
    /// The capacity of the drop-tail queue [B].
    pub(super) queue: u64,
    pub(super) fate: Fate,
}

impl Path {
    pub(super) fn new(mbit: u64, rtt_ms: u64) -> Self {
        let rate = DataRate::mbit(mbit);
        let rtt = Duration::from_millis(rtt_ms);
        let queue = rate.bytes_in(rtt).get().max(64 * 1514);
        Path { rate, delay: rtt / 2, queue, fate: Fate::Kind }
    }

    pub(super) fn with(self, fate: Fate) -> Self {
        Path { fate, ..self }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    free_at: Instant,
    data: u64,
}

/// Two endpoints. Endpoint 0 connects, and endpoint 1 listens.
pub(super) struct World {
    pub(super) cfg: [TcpConfig; 2],
    pub(super) ends: [Endpoint; 2],
    pub(super) now: Instant,
    pub(super) path: Path,
    /// Whether the application of each side reads all received data.
    pub(super) reads: [bool; 2],
    /// Data that each side still has to write [B].
    pub(super) backlog: [u64; 2],
    /// Data segments sent by each side.
    pub(super) data_sent: [u64; 2],
    /// The sent segments with time and sender; `None` if tracing is off.
    pub(super) trace: Option<Vec<(Instant, usize, Segment)>>,
    /// Decides whether the network drops a segment.
    pub(super) censor: Option<fn(usize, &Segment) -> bool>,
    /// Side 0's data segment at this offset is lost once.
    pub(super) lose_once: Option<u64>,
    /// Whether the link is also the hosts' interface, so that TCP small queues count its packets.
    pub(super) own_interface: bool,
    /// Maximum number of segments per poll.
    pub(super) longest_train: u32,
    lines: [Line; 2],
    events: BTreeMap<(Instant, u64), (usize, Segment)>,
    sent: u64,
    rng: Rng,
}

impl World {
    pub(super) fn new(cfg: TcpConfig, path: Path) -> Self {
        let mut world = World {
            cfg: [cfg.clone(), cfg],
            ends: [Endpoint::new(), Endpoint::new()],
            now: Instant::from_millis(1),
            path,
            reads: [true; 2],
            backlog: [0; 2],
            data_sent: [0; 2],
            trace: None,
            censor: None,
            lose_once: None,
            own_interface: false,
            longest_train: 1,
            lines: [Line::default(); 2],
            events: BTreeMap::new(),
            sent: 0,
            rng: Seed(1).stream("tcp/world"),
        };
        world.ends[1].listen();
        world.ends[0].connect(&world.cfg[0], world.now);
        world.drain(0);
        world
    }

    pub(super) fn seed(mut self, seed: u64) -> Self {
        self.rng = Seed(seed).stream("tcp/world");
        self
    }

    /// An established connection.
    pub(super) fn connected(cfg: TcpConfig, path: Path) -> Self {
        let mut world = World::new(cfg, path);
        while !world.ends.iter().all(Endpoint::is_established) {
            assert!(world.step(Instant::FAR_FUTURE), "the handshake ends");
        }
        world
    }

    /// One side writes `bytes` as its socket accepts them.
    pub(super) fn write(&mut self, side: usize, bytes: u64) {
        self.backlog[side] += bytes;
        self.drain(side);
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// Data in the queue of one side's link [B].
    pub(super) fn waiting(&self, side: usize) -> u64 {
        self.path.rate.bytes_in(self.lines[side].free_at.since(self.now)).get()
    }

    /// Runs until no events remain.
    pub(super) fn run_out(&mut self) {
        let end = self.now + Duration::from_secs(100_000);
        while self.step(end) {}
    }

    /// The next event up to `end`; false if there is none.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        let arrival = self.events.first_key_value().map_or(Instant::FAR_FUTURE, |(key, _)| key.0);
        let timer = |side: usize| self.ends[side].poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        let timers = [timer(0), timer(1)];
        let next = arrival.min(timers[0]).min(timers[1]);
        if next == Instant::FAR_FUTURE || next > end {
            return false;
        }
        assert!(next >= self.now, "time advances");
        self.now = next;
        let side = if arrival == next {
            let ((_, _), (side, segment)) = self.events.pop_first().expect("the map is not empty");
            self.ends[side].on_segment(&self.cfg[side], next, &segment);
            side
        } else {
            let side = usize::from(timers[0] != next);
            self.ends[side].on_timer(&self.cfg[side], next);
            side
        };
        self.drain(side);
        true
    }

    /// The application acts, then the endpoint's segments are sent.
    pub(super) fn drain(&mut self, side: usize) {
        let now = self.now;
        let (end, cfg) = (&mut self.ends[side], &self.cfg[side]);
        if self.reads[side] && end.readable() > 0 {
            let bytes = end.readable();
            end.read(cfg, now, bytes);
        }
        let space = end.write_space().min(self.backlog[side]);
        if space > 0 {
            self.backlog[side] -= space;
            end.write(cfg, 0, space);
        }
        loop {
            let settled = self.ends[side].is_settled().then(|| self.ends[side].poll_timeout());
            let train = self.ends[side].poll_train(&self.cfg[side], now, self.longest_train);
            if let Some(timeout) = settled {
                assert_eq!(
                    (train, self.ends[side].poll_timeout()),
                    (None, timeout),
                    "no timer is due before its announced time"
                );
            }
            let Some(train) = train else { break };
            assert!(self.ends[side].info(&self.cfg[side]).cwnd >= 1, "G-60");
            for index in 0..train.count {
                self.transmit(side, train.segment(index));
            }
        }
    }

    fn transmit(&mut self, side: usize, segment: Segment) {
        if let Some(trace) = &mut self.trace {
            trace.push((self.now, side, segment));
        }
        self.sent += 1;
        self.data_sent[side] += u64::from(segment.has_data());
        let line = &mut self.lines[side];
        let start = line.free_at.max(self.now);
        let waiting = self.path.rate.bytes_in(start.since(self.now)).get();
        let data = segment.has_data();
        if self.censor.is_some_and(|censor| censor(side, &segment)) {
            return;
        }
        if side == 0 && data && self.lose_once == Some(segment.seq) {
            self.lose_once = None;
            return;
        }
        if data && waiting + segment.wire_bytes() > self.path.queue {
            return;
        }
        line.free_at = start + Duration::from_nanos(self.path.rate.nanos_for(segment.wire_bytes()));
        if self.own_interface {
            self.ends[side].on_departure(&self.cfg[side], line.free_at, segment.wire_bytes());
        }
        line.data += u64::from(data);
        let mut arrival = line.free_at + self.path.delay;
        let lost = match self.path.fate {
            Fate::Kind => false,
            Fate::Random(p) => data && self.rng.bernoulli(p),
            Fate::Periodic(n) => data && line.data.is_multiple_of(n),
            Fate::Rough(p, reordered, by) => {
                if self.rng.bernoulli(reordered) {
                    arrival += by.mul_f64(self.rng.unit());
                }
                self.rng.bernoulli(p)
            }
        };
        if !lost {
            self.events.insert((arrival, self.sent), (1 - side, segment));
        } else if self.rng.bernoulli(self.cfg[side].drop_notices) {
            self.ends[side].on_dropped(self.now, &segment);
        }
    }
}
