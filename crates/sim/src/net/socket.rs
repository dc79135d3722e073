//! Connections: two TCP endpoints, and what ends at which byte of each stream.

use crate::cell::{Request, SimCell};
use crate::queue::Rank;
use crate::tcp::{Endpoint, Segment};
use penstock_core::cell::Tag;
use penstock_core::kernel::Interest;
use penstock_core::{ChannelKey, StreamKey};
use penstock_units::{Duration, Instant};
use std::collections::VecDeque;

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

/// A connection between two hosts. No payload is copied: each side remembers which message of
/// its stream ends at which byte.
#[derive(Debug)]
pub(crate) struct Conn {
    /// Tells this connection from an earlier one in the same slot.
    pub(crate) generation: u32,
    /// One way, without serialisation and queues.
    pub(crate) delay: Duration,
    /// Probability that a packet is lost.
    pub(crate) loss: f64,
    /// Neither side needs it.
    pub(crate) finished: bool,
    pub(crate) sides: [Side; 2],
}

/// One end of a connection at its host.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) host: Rank,
    pub(crate) owner: Owner,
    pub(crate) tcp: Endpoint,
    /// What is on its way to this side, the first to arrive in front.
    pub(crate) inbound: VecDeque<Flight>,
    /// How many of these are in the access link's queue.
    pub(crate) admitted: usize,
    /// Messages this side sent that the other one has not read, by the byte after their last.
    pub(crate) sent: VecDeque<(u64, Item)>,
    pub(crate) interest: Interest,
    /// Waiting for its turn in the host's loop.
    pub(crate) ready: Interest,
    /// When the earliest timer event for this side happens.
    pub(crate) timer: Option<Instant>,
    /// The owner was told that the connection is there.
    pub(crate) announced: bool,
    /// Waits for room in the network interface's queue.
    pub(crate) awaits_nic: bool,
    /// Tracked messages in flight, by the byte after their last; empty for most.
    pub(crate) tracked: VecDeque<Tracked>,
    /// As an exit of a traced circuit: its number, and which bytes arrived when.
    pub(crate) traced: Option<Box<Traced>>,
}

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// When it reaches the queue before the receiver's access link.
    pub(crate) at: Instant,
    /// Which of all packets of its host it was.
    pub(crate) count: u64,
    pub(crate) segment: Segment,
}

/// A tracked message of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    pub(crate) end: u64,
    pub(crate) tag: Tag,
    pub(crate) left: bool,
    pub(crate) arrived: bool,
}

/// What an exit remembers of a traced circuit's stream.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) circuit: u32,
    /// The byte after the last that had arrived, and when.
    pub(crate) arrivals: VecDeque<(u64, Instant)>,
}

/// What a message is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// A cell in a TLS record.
    Cell(SimCell),
    /// A step of the link handshake.
    Link(u8),
    /// The end of a request.
    Request(Request),
}

/// Whose a side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A channel that is being set up: the initiator's key, or none yet.
    Linking(Option<ChannelKey>),
    /// A relay's channel.
    Channel(ChannelKey),
    /// An exit's stream.
    Stream(StreamKey),
    /// The connection of a client without Tor.
    Plain,
    /// A server's connection, with what it still has to send [B].
    Server(u64),
    /// Nobody's: what still arrives is thrown away.
    Gone,
}

impl Side {
    pub(crate) fn new(host: Rank, owner: Owner) -> Self {
        Side {
            host,
            owner,
            tcp: Endpoint::new(),
            inbound: VecDeque::new(),
            admitted: 0,
            sent: VecDeque::new(),
            interest: Interest::default(),
            ready: Interest::default(),
            timer: None,
            announced: false,
            awaits_nic: false,
            tracked: VecDeque::new(),
            traced: None,
        }
    }

    /// Whether the host needs it no more.
    pub(crate) fn is_done(&self) -> bool {
        self.owner == Owner::Gone && self.tcp.is_closed()
    }
}
