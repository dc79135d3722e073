use penstock_units::{Bytes, DataRate, Instant};

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
}

impl Link {
    pub(crate) fn new(rate: DataRate, queue: Bytes) -> Self {
        let depth = rate.nanos_for(queue.get());
        Link { rate, free_at: Instant::ZERO, depth, like_last: [(0, 0); 2], carried: Bytes::ZERO }
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
        let waiting = self.free_at.as_nanos().saturating_sub(now.as_nanos());
        waiting == 0 || waiting + self.nanos_for(bytes) <= self.depth
    }

    /// How many packets of `bytes` fit into the queue, rounded down to an allowed train length [packet].
    pub(crate) fn room(&mut self, now: Instant, bytes: u64) -> u32 {
        let waiting = self.free_at.as_nanos().saturating_sub(now.as_nanos());
        let each = self.nanos_for(bytes);
        let fits = |count: &&u32| waiting + u64::from(**count) * each <= self.depth;
        TRAINS.iter().find(fits).copied().unwrap_or(u32::from(self.has_room(now, bytes)))
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
        (Instant::from_nanos(start + each), each)
    }

    /// Bytes that have left the link [B].
    pub(crate) fn carried(&self, now: Instant) -> Bytes {
        self.carried.saturating_sub(self.backlog(now))
    }

    /// Bytes in the queue and in transmission [B].
    pub(crate) fn backlog(&self, now: Instant) -> Bytes {
        self.rate.bytes_in(self.free_at.since(now))
    }

    /// The time at which `bytes` of the current queue will have left. If the queue has fewer bytes, the time at which
    /// it will be empty.
    pub(crate) fn after(&self, now: Instant, bytes: u64) -> Instant {
        let gone = Instant::from_nanos(now.as_nanos() + self.rate.nanos_for(bytes));
        gone.min(self.free_at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let later = Instant::from_secs(1);
        assert_eq!(wire.backlog(later), Bytes::ZERO);
        assert_eq!(wire.send(later, 1000), later + penstock_units::Duration::from_millis(1));
    }
}
