//! References to packets, on their way to a host or in its link's queue.

use crate::queue::HostId;
use penstock_units::Instant;
use std::cmp::Ordering;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SockRef {
    pub(crate) conn: u32,
    /// 0 for the side that connected, 1 for the side that accepted.
    pub(crate) side: u8,
}

impl SockRef {
    /// The other end.
    pub(crate) fn peer(self) -> SockRef {
        SockRef { conn: self.conn, side: self.side ^ 1 }
    }
}

/// A packet on its way to a host: the first segment in flight of a connection, or any datagram.
///
/// Packets of one instant are ordered by the names of their senders, then by their number at the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) from: HostId,
    pub(crate) count: u64,
    pub(crate) what: Packet,
}

/// A reference to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    /// The next segment of this connection.
    Segment(SockRef),
    /// The datagram in this slot.
    Datagram(u32),
}

impl Arrival {
    pub(crate) fn key(&self) -> (Instant, HostId, u64) {
        (self.at, self.from, self.count)
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Arrival {}
impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Arrival {
    /// The reverse order: a heap's maximum is the earliest packet.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// A packet in the access link's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// The time at which it reaches the kernel.
    pub(crate) at: Instant,
    pub(crate) what: Packet,
}
