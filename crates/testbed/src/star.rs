//! A network of hosts around one central point, as in the simulator. This module has no I/O and no clock.
//!
//! Each host has an access link with a rate in each direction. The sending link serialises a packet. The packet then
//! takes the fixed delay of the path, and may be lost. At the receiver, it waits in a drop-tail queue, and the
//! receiving link serialises it. The sending side drops no packets, because its queue is in the sending kernel.

use penstock_units::{Bytes, DataRate, Duration, Instant, Rng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Access link of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Rate in the sending direction [B/s].
    pub up: DataRate,
    /// Rate in the receiving direction [B/s].
    pub down: DataRate,
    /// Capacity of the queue before the receiving link, including the packet in transmission [B].
    pub queue: Bytes,
}

/// Delay and loss from one host to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// One-way delay, from the last sent bit to the receiver's queue. It is half of the round-trip time.
    pub delay: Duration,
    /// Probability that a packet is lost, in `[0, 1)`.
    pub loss: f64,
}

/// Packet counts of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that have arrived, or are on the receiving link [packet].
    pub carried: u64,
    /// Packets lost at random [packet].
    pub lost: u64,
    /// Packets dropped by the full queue [packet].
    pub dropped: u64,
}

/// One direction of an access link. For a FIFO, the time at which the link becomes idle is enough state.
#[derive(Clone, Copy, Debug)]
struct Wire {
    rate: DataRate,
    free: Instant,
}

impl Wire {
    /// How long a new packet waits before its first bit is sent.
    fn waits(&self, now: Instant) -> Duration {
        self.free.since(now)
    }

    /// Adds a packet. Returns the time at which its last bit has left.
    fn send(&mut self, now: Instant, len: Bytes) -> Instant {
        self.free = self.free.max(now) + len / self.rate;
        self.free
    }
}

/// All hosts, the delays between them, and packets in transit. `P` is the packet type.
#[derive(Debug)]
pub struct Star<P> {
    ups: Vec<Wire>,
    downs: Vec<(Wire, Duration)>,
    edges: Edges,
    /// Packets between two hosts, sorted by their arrival at the receiver's queue. Packets with equal times keep their
    /// order.
    flying: BinaryHeap<Reverse<Flight<P>>>,
    /// Packets in the queues of receivers, sorted by the end of their reception.
    landing: BinaryHeap<Reverse<Flight<P>>>,
    count: u64,
    packet_counts: Vec<PacketCounts>,
}

/// One-way delays, losses, and random streams for the losses, between all pairs of hosts.
#[derive(Debug, Default)]
pub struct Edges {
    /// Delay and loss from the first to the second host.
    pub between: BTreeMap<(usize, usize), Edge>,
    /// Random stream for the losses from the first to the second host.
    pub rng: BTreeMap<(usize, usize), Rng>,
}

#[derive(Debug)]
struct Flight<P> {
    at: Instant,
    count: u64,
    to: usize,
    len: Bytes,
    packet: P,
}

impl<P> Flight<P> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.count)
    }
}

impl<P> PartialEq for Flight<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<P> Eq for Flight<P> {}
impl<P> PartialOrd for Flight<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<P> Ord for Flight<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<P> Star<P> {
    /// A network with idle links.
    pub fn new(hosts: &[Access], edges: Edges) -> Self {
        let wire = |rate| Wire { rate, free: Instant::ZERO };
        Star {
            ups: hosts.iter().map(|host| wire(host.up)).collect(),
            downs: hosts.iter().map(|host| (wire(host.down), host.queue / host.down)).collect(),
            edges,
            flying: BinaryHeap::new(),
            landing: BinaryHeap::new(),
            count: 0,
            packet_counts: vec![PacketCounts::default(); hosts.len()],
        }
    }

    /// Sends a packet of `len` bytes from the kernel of `from` to `to`. Returns the time at which the last bit leaves
    /// the link. Calls must be in order of time. A packet without a path is dropped.
    pub fn offer(&mut self, now: Instant, from: usize, to: usize, len: Bytes, packet: P) -> Instant {
        let left = self.ups[from].send(now, len);
        let Some(edge) = self.edges.between.get(&(from, to)) else { return left };
        if self.edges.rng.get_mut(&(from, to)).is_some_and(|rng| rng.bernoulli(edge.loss)) {
            self.packet_counts[to].lost += 1;
            return left;
        }
        self.count += 1;
        self.flying.push(Reverse(Flight { at: left + edge.delay, count: self.count, to, len, packet }));
        left
    }

    /// The next packet that has arrived by `now`, with its time and host. Call this until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, usize, P)> {
        while let Some(flight) = pop_due(&mut self.flying, now) {
            self.admit(flight);
        }
        let flight = pop_due(&mut self.landing, now)?;
        Some((flight.at, flight.to, flight.packet))
    }

    /// Adds a packet to its receiver's queue. Calls must be in order of time.
    fn admit(&mut self, flight: Flight<P>) {
        let (wire, depth) = &mut self.downs[flight.to];
        let waits = wire.waits(flight.at);
        if waits > Duration::ZERO && waits + flight.len / wire.rate > *depth {
            self.packet_counts[flight.to].dropped += 1;
            return;
        }
        let at = wire.send(flight.at, flight.len);
        self.packet_counts[flight.to].carried += 1;
        self.landing.push(Reverse(Flight { at, ..flight }));
    }

    /// Time of the next event.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let at = |heap: &BinaryHeap<Reverse<Flight<P>>>| heap.peek().map(|Reverse(flight)| flight.at);
        at(&self.flying).into_iter().chain(at(&self.landing)).min()
    }

    /// How long a packet that `host` sends at `now` waits for the link.
    pub fn waits(&self, now: Instant, host: usize) -> Duration {
        self.ups[host].waits(now)
    }

    /// Packet counts of each host so far [packet].
    pub fn packet_counts(&self) -> &[PacketCounts] {
        &self.packet_counts
    }
}

/// The first packet, if its time is not after `now`.
fn pop_due<P>(heap: &mut BinaryHeap<Reverse<Flight<P>>>, now: Instant) -> Option<Flight<P>> {
    heap.peek().filter(|Reverse(flight)| flight.at <= now)?;
    heap.pop().map(|Reverse(flight)| flight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Seed;
    use proptest::prelude::*;

    const FULL: Bytes = Bytes::new(1500);

    /// A network of two hosts, 20 ms apart. Host 0 sends at 1 MB/s. Host 1 receives at 500 kB/s, behind a queue of four
    /// packets.
    fn star(loss: f64) -> Star<u32> {
        let access = |up, down| Access { up: rate(up), down: rate(down), queue: Bytes::new(6000) };
        let edge = Edge { delay: Duration::from_millis(20), loss };
        let between = [((0, 1), edge), ((2, 1), edge), ((1, 0), edge)].into_iter().collect();
        let rng = [((0, 1), Seed(1).stream("0->1/loss"))].into_iter().collect();
        let hosts = [access(1_000_000, 1_000_000), access(500_000, 500_000), access(1_000_000, 1_000_000)];
        Star::new(&hosts, Edges { between, rng })
    }

    fn rate(bytes: u64) -> DataRate {
        DataRate::new(bytes).unwrap()
    }

    fn micros(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn arrivals(star: &mut Star<u32>) -> Vec<(Instant, usize, u32)> {
        std::iter::from_fn(|| star.poll(Instant::from_secs(100))).collect()
    }

    #[test]
    fn a_packet_takes_both_transmission_times_and_the_delay() {
        let mut star = star(0.0);
        assert_eq!(star.offer(Instant::ZERO, 0, 1, FULL, 7), micros(1500));
        assert_eq!(star.poll_timeout(), Some(micros(21_500)));
        assert_eq!(star.poll(micros(21_500)), None);
        assert_eq!(star.poll_timeout(), Some(micros(24_500)));
        assert_eq!(star.poll(micros(24_499)), None);
        assert_eq!(star.poll(micros(24_500)), Some((micros(24_500), 1, 7)));
        assert_eq!((star.poll(micros(24_500)), star.poll_timeout()), (None, None));
    }

    #[test]
    fn only_the_queue_of_the_receiving_link_drops_packets() {
        let mut star = star(0.0);
        for n in 0..12 {
            assert_eq!(star.offer(Instant::ZERO, 0, 1, FULL, n), micros(1500 * u64::from(n + 1)));
        }
        assert_eq!(star.waits(Instant::ZERO, 0), Duration::from_millis(18));
        // One packet leaves the queue in the time in which two arrive. The queue is full with the seventh; then every
        // second packet fits.
        let arrived: Vec<u32> = arrivals(&mut star).into_iter().map(|(.., n)| n).collect();
        assert_eq!(arrived, [0, 1, 2, 3, 4, 5, 6, 8, 10]);
        assert_eq!(star.packet_counts()[1], PacketCounts { carried: 9, lost: 0, dropped: 3 });
    }

    #[test]
    fn packets_of_several_hosts_share_the_receivers_queue_in_order_of_arrival() {
        let mut star = star(0.0);
        star.offer(Instant::ZERO, 0, 1, FULL, 1);
        star.offer(micros(500), 2, 1, Bytes::new(500), 2);
        star.offer(micros(600), 2, 1, Bytes::new(500), 3);
        let arrived = arrivals(&mut star);
        // The short packet was sent later and left sooner.
        assert_eq!(arrived, [(micros(22_000), 1, 2), (micros(25_000), 1, 1), (micros(26_000), 1, 3)]);
    }

    #[test]
    fn a_lost_packet_also_occupies_the_sending_link() {
        let mut star = star(0.5);
        for n in 0..1000 {
            let now = micros(10_000 * u64::from(n));
            assert_eq!(star.offer(now, 0, 1, FULL, n), now + Duration::from_micros(1500));
        }
        let arrived = arrivals(&mut star).len() as u64;
        // 500 ± 16, five standard deviations.
        assert!((420..580).contains(&arrived), "{arrived}");
        assert_eq!(
            star.packet_counts()[1],
            PacketCounts { carried: arrived, lost: 1000 - arrived, dropped: 0 }
        );
    }

    #[test]
    fn a_packet_to_an_unknown_host_is_dropped() {
        let mut star = star(0.0);
        star.offer(Instant::ZERO, 0, 2, FULL, 1);
        assert_eq!((arrivals(&mut star), star.poll_timeout()), (vec![], None));
    }

    proptest! {
        /// Each packet arrives once or is counted as lost or dropped. No packet is early, and packets of one path keep
        /// their order.
        #[test]
        fn packets_are_conserved_and_keep_their_order(sent in prop::collection::vec((0u64..4000, 0usize..2, 40u64..1500), 1..200)) {
            let mut star = star(0.0);
            let mut now = Instant::ZERO;
            let mut due = Vec::new();
            for (n, (gap, from, len)) in sent.iter().enumerate() {
                now += Duration::from_micros(*gap);
                let (from, len) = (if *from == 0 { 0 } else { 2 }, Bytes::new(*len));
                let left = star.offer(now, from, 1, len, n as u32);
                prop_assert!(left >= now + len / rate(1_000_000));
                due.push((from, left + Duration::from_millis(20) + len / rate(500_000)));
            }
            let arrived = arrivals(&mut star);
            prop_assert_eq!(arrived.len() as u64 + star.packet_counts()[1].dropped, sent.len() as u64);
            prop_assert!(arrived.is_sorted_by_key(|(at, ..)| *at));
            for from in [0, 2] {
                let own: Vec<u32> = arrived.iter().map(|(.., n)| *n).filter(|n| due[*n as usize].0 == from).collect();
                prop_assert!(own.is_sorted());
            }
            for (at, _, n) in &arrived {
                prop_assert!(*at >= due[*n as usize].1);
            }
        }
    }
}
