//! Links that serialise: a network interface that sends, and an access link that receives.

use penstock_units::{Bytes, DataRate, Instant};

/// One direction of a link: packets leave one after the other at its rate.
///
/// The queue is not stored: a FIFO is described by when it will be empty.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    rate: DataRate,
    free_at: Instant,
}

impl Wire {
    pub(crate) fn new(rate: DataRate) -> Self {
        Wire { rate, free_at: Instant::ZERO }
    }

    /// When a packet of `bytes` that joins the queue now has left.
    pub(crate) fn send(&mut self, now: Instant, bytes: u64) -> Instant {
        let start = self.free_at.max(now);
        self.free_at = Instant::from_nanos(start.as_nanos() + self.rate.nanos_for(bytes));
        self.free_at
    }

    /// What waits or is being sent [B].
    pub(crate) fn backlog(&self, now: Instant) -> Bytes {
        self.rate.bytes_in(self.free_at.since(now))
    }

    /// When only `bytes` of what waits now will be left.
    pub(crate) fn drained_to(&self, now: Instant, bytes: Bytes) -> Instant {
        let excess = self.backlog(now).saturating_sub(bytes);
        Instant::from_nanos(now.as_nanos() + self.rate.nanos_for(excess.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_one_after_the_other() {
        let mut wire = Wire::new(DataRate::new(1_000_000).unwrap());
        let t = Instant::from_millis(5);
        assert_eq!(wire.send(t, 1500), t + penstock_units::Duration::from_micros(1500));
        assert_eq!(wire.send(t, 500), t + penstock_units::Duration::from_millis(2));
        assert_eq!(wire.backlog(t), Bytes::new(2000));
        assert_eq!(wire.drained_to(t, Bytes::new(500)), t + penstock_units::Duration::from_micros(1500));
        let later = Instant::from_secs(1);
        assert_eq!(wire.backlog(later), Bytes::ZERO);
        assert_eq!(wire.send(later, 1000), later + penstock_units::Duration::from_millis(1));
    }
}
