use penstock_units::{Bytes, DataRate, Duration, Instant, fifo::take_first, time::nanos};
use std::collections::VecDeque;

/// Packets above this size carry data; smaller packets are ACKs [B].
const LARGE: u64 = 200;

/// The allowed lengths of a train, besides 1 [packet]. With fixed lengths, [`Link::room`] needs no division.
const TRAINS: [u32; 3] = [44, 16, 4];

/// One direction of a link. Packets leave one after the other at the link's rate.
///
/// The link does not store the queue. For a FIFO it is enough to store when the queue will be empty.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    rate: DataRate,
    free_at: Instant,
    /// The transmission time of a full queue [ns].
    depth: u64,
    /// Size [B] and transmission time [ns] of the last small packet and the last large packet, because most packets
    /// have one of these two sizes.
    like_last: [(u64, u64); 2],
    /// Bytes that have entered the queue so far [B].
    carried: Bytes,
    /// The behaviour of links in other simulators. Most links have none.
    foreign: Option<Box<Foreign>>,
}

/// How links of other simulators differ from those of Linux.
#[derive(Clone, Debug, Default)]
struct Foreign {
    /// The queue's limit in packets. It replaces the limit in bytes [packet].
    packets: Option<usize>,
    /// When the transmission of each packet in the queue begins; only with a limit in packets.
    begins: VecDeque<Instant>,
    batches: Option<Batches>,
    /// Whether packets wait in their sockets until the interface is idle.
    sockets_wait: bool,
}

impl Foreign {
    /// Whether the queue has room for a packet; `None` if its limit counts bytes.
    #[cold]
    #[inline(never)]
    fn has_room(&mut self, now: Instant) -> Option<bool> {
        let most = self.packets?;
        while self.begins.front().is_some_and(|at| *at <= now) {
            take_first(&mut self.begins);
        }
        Some(self.begins.len() < most)
    }

    /// Adds a packet whose transmission begins at `start` and takes `each` [ns]. Returns when its batch leaves; `None`
    /// if packets leave one by one.
    #[cold]
    #[inline(never)]
    fn send(&mut self, now: Instant, start: u64, each: u64) -> Option<Instant> {
        if self.packets.is_some() {
            self.begins.push_back(Instant::from_nanos(start));
        }
        self.batches.as_mut().map(|batches| batches.add(now, each, self.sockets_wait))
    }
}

/// Shadow's interface handles its packets in batches.
///
/// A batch takes all waiting packets at once, until their transmission times add up to `time`. The next batch follows
/// after the sum of these times.
/// Source: Shadow 1.9.0 `_networkinterface_scheduleNextSend`, `_networkinterface_scheduleNextReceive`.
/// Deviation: the packets of a batch occupy the queue until their transmission times have passed.
#[derive(Clone, Copy, Debug)]
struct Batches {
    time: u64,
    /// When the last batch begins, and the sum of its transmission times [ns].
    begins: Instant,
    used: u64,
}

impl Batches {
    /// Adds a packet with a transmission time of `each`. Returns when its batch begins. With `at_begin`, a batch takes
    /// packets also at the moment when it begins.
    fn add(&mut self, now: Instant, each: u64, at_begin: bool) -> Instant {
        let free_at = Instant::from_nanos(self.begins.as_nanos() + self.used);
        let takes = now < self.begins || (at_begin && now == self.begins);
        if takes && self.used <= self.time {
            self.used += each;
        } else {
            (self.begins, self.used) = (free_at.max(now), each);
        }
        self.begins
    }
}

impl Link {
    pub(crate) fn new(rate: DataRate, queue: Bytes) -> Self {
        let depth = rate.nanos_for(queue.get());
        let (free_at, carried) = (Instant::ZERO, Bytes::ZERO);
        Link { rate, free_at, depth, like_last: [(0, 0); 2], carried, foreign: None }
    }

    /// Limits the queue by its number of packets, as ns-3's drop-tail queue. The packet in transmission does not count.
    pub(crate) fn limit_packets(&mut self, packets: u32) {
        self.foreign.get_or_insert_default().packets = Some(packets as usize);
    }

    /// Handles packets in batches of `time`, as Shadow 1.9.0's interface.
    pub(crate) fn set_batches(&mut self, time: Duration) {
        let batches = Batches { time: nanos(time), begins: Instant::ZERO, used: 0 };
        self.foreign.get_or_insert_default().batches = Some(batches);
    }

    /// Lets packets wait in their sockets until the interface is idle.
    pub(crate) fn let_sockets_wait(&mut self) {
        self.foreign.get_or_insert_default().sockets_wait = true;
    }

    /// The transmission time of a packet of `bytes` [ns].
    fn nanos_for(&mut self, bytes: u64) -> u64 {
        let known = &mut self.like_last[usize::from(bytes > LARGE)];
        if known.0 != bytes {
            *known = (bytes, self.rate.nanos_for(bytes));
        }
        known.1
    }

    /// Whether a packet of `bytes` fits into the queue. A packet always fits if the link is idle.
    pub(crate) fn has_room(&mut self, now: Instant, bytes: u64) -> bool {
        if let Some(has_room) = self.foreign.as_deref_mut().and_then(|foreign| foreign.has_room(now)) {
            return has_room;
        }
        let waiting = self.free_at.as_nanos().saturating_sub(now.as_nanos());
        waiting == 0 || waiting + self.nanos_for(bytes) <= self.depth
    }

    /// How many packets of `bytes` fit into the queue, rounded down to an allowed train length [packet].
    pub(crate) fn room(&mut self, now: Instant, bytes: u64) -> u32 {
        // The gaps between packets may differ.
        if self.foreign.is_some() {
            return self.foreign_room(now, bytes);
        }
        let waiting = self.free_at.as_nanos().saturating_sub(now.as_nanos());
        let each = self.nanos_for(bytes);
        let fits = |count: &&u32| waiting + u64::from(**count) * each <= self.depth;
        TRAINS.iter().find(fits).copied().unwrap_or(u32::from(self.has_room(now, bytes)))
    }

    #[cold]
    #[inline(never)]
    fn foreign_room(&mut self, now: Instant, bytes: u64) -> u32 {
        u32::from(self.has_room(now, bytes))
    }

    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// Whether the interface is idle, or has begun a batch at `now` that takes more packets.
    pub(crate) fn continues(&self, now: Instant) -> bool {
        let in_batch = |batches: &Batches| batches.begins == now && batches.used <= batches.time;
        self.is_idle(now)
            || self.foreign.as_ref().and_then(|foreign| foreign.batches.as_ref()).is_some_and(in_batch)
    }

    /// A packet of `bytes` that enters the queue at `at` or later does not leave before this time.
    pub(crate) fn earliest(&self, at: Instant, bytes: u64) -> Instant {
        // Shadow's interface may deliver a packet at once.
        if self.foreign.is_some() {
            return at;
        }
        let known = self.like_last.iter().find(|known| known.0 == bytes);
        let each = known.map_or_else(|| self.rate.nanos_for(bytes), |known| known.1);
        Instant::from_nanos(at.max(self.free_at).as_nanos() + each)
    }

    /// Adds a packet of `bytes` to the queue. Returns when the packet will have left.
    pub(crate) fn send(&mut self, now: Instant, bytes: u64) -> Instant {
        self.send_train(now, bytes, 1).0
    }

    /// Adds `count` packets of `bytes` to the queue. Returns when the first packet will have left, and the gap between
    /// two packets [ns].
    pub(crate) fn send_train(&mut self, now: Instant, bytes: u64, count: u32) -> (Instant, u64) {
        let start = self.free_at.max(now).as_nanos();
        let each = self.nanos_for(bytes);
        self.free_at = Instant::from_nanos(start + each * u64::from(count));
        self.carried += Bytes::new(bytes * u64::from(count));
        let left = Instant::from_nanos(start + each);
        match self.foreign.as_deref_mut() {
            None => (left, each),
            Some(foreign) => (foreign.send(now, start, each).unwrap_or(left), each),
        }
    }

    /// Bytes that have left the link [B].
    pub(crate) fn carried(&self, now: Instant) -> Bytes {
        self.carried.saturating_sub(self.backlog(now))
    }

    /// Bytes in the queue and in transmission [B].
    pub(crate) fn backlog(&self, now: Instant) -> Bytes {
        self.rate.bytes_in(self.free_at.since(now))
    }

    /// The time at which `bytes` of the current queue will have left. If the queue has fewer bytes, or packets wait in
    /// their sockets, the time at which it will be empty.
    pub(crate) fn after(&self, now: Instant, bytes: u64) -> Instant {
        if self.foreign.as_ref().is_some_and(|foreign| foreign.sockets_wait) {
            return self.free_at.max(now);
        }
        let gone = Instant::from_nanos(now.as_nanos() + self.rate.nanos_for(bytes));
        gone.min(self.free_at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    #[test]
    fn a_queue_of_packets_drops_by_their_number() {
        let mut link = Link::new(DataRate::new(1_000_000).unwrap(), Bytes::new(3000));
        link.limit_packets(2);
        // The first packet is in transmission, two wait.
        for bytes in [1000, 66, 66] {
            assert_eq!(link.room(MS(0), bytes), 1);
            link.send(MS(0), bytes);
        }
        assert!(!link.has_room(MS(0), 66));
        // The queue has room again when the second packet's transmission begins.
        assert!(link.has_room(MS(1), 9000));
    }

    /// 1 B takes 1 µs. The first batch has only the first packet, because no other packet waits at its begin.
    #[test]
    fn a_batch_takes_waiting_packets_until_its_time_is_used() {
        let mut link = Link::new(DataRate::new(1_000_000).unwrap(), Bytes::mib(1));
        link.set_batches(Duration::from_millis(10));
        let left: Vec<_> = (0..6).map(|_| link.send(MS(5), 4000).as_nanos() / 1_000_000).collect();
        assert_eq!(left, [5, 9, 9, 9, 21, 21]);
        assert_eq!(link.send(MS(40), 4000), MS(40), "an idle interface delays nothing");
        assert_eq!(link.send(MS(42), 4000), MS(44));
        assert_eq!(link.backlog(MS(42)), Bytes::new(6000));
    }

    /// 1 B takes 1 µs. An idle interface takes one packet. When that packet has left, a batch takes the packets that wait.
    #[test]
    fn packets_wait_in_sockets_until_the_interface_is_idle() {
        let mut link = Link::new(DataRate::new(1_000_000).unwrap(), Bytes::mib(1));
        link.set_batches(Duration::from_millis(10));
        link.let_sockets_wait();
        assert!(link.is_idle(MS(5)));
        assert_eq!(link.send(MS(5), 4000), MS(5));
        assert!(!link.is_idle(MS(5)) && !link.continues(MS(8)));
        assert_eq!(link.after(MS(8), 0), MS(9));
        let mut sent = 0;
        while link.continues(MS(9)) {
            assert_eq!(link.send(MS(9), 4000), MS(9));
            sent += 1;
        }
        assert_eq!(
            (sent, link.after(MS(9), 0)),
            (3, MS(21)),
            "8 ms are below the limit of 10 ms, so a third one goes"
        );
        link.set_batches(Duration::ZERO);
        assert!(link.continues(MS(21)));
    }

    #[test]
    fn packets_leave_one_after_the_other() {
        let mut wire = Link::new(DataRate::new(1_000_000).unwrap(), Bytes::new(2500));
        let t = Instant::from_millis(5);
        assert_eq!(wire.send(t, 1500), t + penstock_units::Duration::from_micros(1500));
        assert_eq!(wire.send(t, 500), t + penstock_units::Duration::from_millis(2));
        assert_eq!(wire.backlog(t), Bytes::new(2000));
        assert_eq!(wire.after(t, 1500), t + penstock_units::Duration::from_micros(1500));
        assert_eq!(wire.after(t, 9000), t + penstock_units::Duration::from_millis(2));
        assert!(wire.has_room(t, 500) && !wire.has_room(t, 501));
        assert_eq!(
            [wire.room(t, 125), wire.room(t, 250), wire.room(t, 501), wire.room(Instant::from_secs(1), 9000)],
            [4, 1, 0, 1]
        );
        assert_eq!(wire.earliest(t, 500), wire.clone().send(t, 500));
        let later = Instant::from_secs(1);
        assert_eq!(wire.earliest(later, 1000), wire.clone().send(later, 1000));
        assert_eq!(wire.backlog(later), Bytes::ZERO);
        assert_eq!(wire.send(later, 1000), later + penstock_units::Duration::from_millis(1));
    }
}
