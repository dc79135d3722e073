use crate::queue::HostId;
use penstock_units::Instant;
use std::cmp::Ordering;

/// A socket: one end of a connection. Another connection may use the same slot later, with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SockRef {
    pub(crate) host: HostId,
    /// The index in the host's sockets.
    pub(crate) slot: u32,
}

/// A socket with its generation, as the other end of the connection knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) sock: SockRef,
    pub(crate) generation: u32,
}

impl Peer {
    /// The peer of a socket that has sent a SYN and got no answer.
    pub(crate) fn unknown(host: HostId) -> Self {
        Peer { sock: SockRef { host, slot: u32::MAX }, generation: 0 }
    }
}

impl SockRef {
    pub(crate) fn is_known(self) -> bool {
        self.slot != u32::MAX
    }
}

/// A packet in transit to a host: a datagram, or the first segment in flight of a connection.
///
/// If packets arrive at the same time, they are ordered by the sender's name, then by the sender's packet number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) from: HostId,
    pub(crate) count: u64,
    /// The packet's size on the wire [B].
    pub(crate) bytes: u32,
    pub(crate) what: Packet,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    /// A segment to the socket in this slot.
    Segment(u32),
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
    /// Reverses the order of times, because the heap returns the maximum and the earliest packet must come first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// When the packet reaches the kernel.
    pub(crate) at: Instant,
    pub(crate) what: Packet,
}
