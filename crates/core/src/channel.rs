//! A channel: one connection to another relay or client, shared by circuits.

use crate::cell::{Cell, CircId, PeerId};
use crate::circuit_policy::AnyCircuitPolicy;
use crate::delay::Delay;
use crate::hop_control::HopOffer;
use crate::kernel::Interest;
use crate::keys::{CircuitIndex, ClientKey};
use crate::token_bucket::TokenBucket;
use crate::transport::Transport;
use penstock_units::{Bytes, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

/// One channel and what waits for its socket.
#[derive(Debug)]
pub(crate) struct Channel<C> {
    pub(crate) peer: PeerId,
    /// The peer is no relay: it may be throttled.
    pub(crate) to_client: bool,
    /// A client is at one of its ends.
    pub(crate) with_client: bool,
    pub(crate) open: bool,
    /// What its two ends know of the control of hops.
    pub(crate) hops: Option<HopOffer>,
    /// How long cells wait in the output buffer, if anyone asks.
    pub(crate) delay: Option<Box<Delay>>,
    /// Cells that left their circuit queues.
    pub(crate) outbuf: VecDeque<C>,
    /// What takes them from there.
    pub(crate) transport: Transport<C>,
    /// Without circuits: when it closes.
    pub(crate) closes_at: Option<Instant>,
    /// When that is to be told that time passed: what is in the node's lists.
    pub(crate) due: Option<Instant>,
    pub(crate) held: Option<Instant>,
    pub(crate) policy: AnyCircuitPolicy,
    pub(crate) circuits: CircIds,
    pub(crate) interest: Interest,
    /// Which of the relay's clients this is a connection of, once it is open and if they are throttled.
    pub(crate) client: Option<ClientKey>,
}

/// Read and write buckets of one client, or of the whole relay.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub(crate) read: TokenBucket,
    pub(crate) write: TokenBucket,
}

impl<C: Cell> Channel<C> {
    /// Puts a cell at the end of the output buffer.
    pub(crate) fn push(&mut self, now: Instant, cell: C) {
        if let Some(delay) = &mut self.delay {
            delay.on_queued(now);
        }
        self.outbuf.push_back(cell);
    }

    /// What is in the output buffer: all cells of a channel have one size.
    pub(crate) fn outbuf_len(&self) -> Bytes {
        let size = self.outbuf.front().map_or(0, Cell::wire_size);
        Bytes::new(self.outbuf.len() as u64 * u64::from(size))
    }

    /// What could be written now: the output buffer, and what datagrams have to say beside it.
    pub(crate) fn to_write(&self) -> Bytes {
        self.outbuf_len() + self.transport.ready()
    }
}

/// The circuits of a channel by their ids on it.
#[derive(Debug)]
pub(crate) struct CircIds {
    by_id: BTreeMap<CircId, CircuitIndex>,
    initiator: bool,
    next: u32,
    /// Our own ids are below this.
    end: u32,
    /// How many of them are in use.
    own: u32,
}

const INITIATOR: u32 = 1 << 31;
/// Datagrams name a circuit with 16 bits.
const NARROW: u32 = 1 << 15;

impl CircIds {
    /// For the side that opened the channel, or the other one; `narrow` if datagrams may have to name them.
    pub(crate) fn new(initiator: bool, narrow: bool) -> Self {
        let end = if narrow { NARROW } else { INITIATOR };
        CircIds { by_id: BTreeMap::new(), initiator, next: 1, end, own: 0 }
    }

    /// Whether all ids of our half of the space are in use.
    pub(crate) fn is_full(&self) -> bool {
        self.own + 1 >= self.end
    }

    /// A free id of our half of the space for `circuit`; there is one.
    pub(crate) fn allocate(&mut self, circuit: CircuitIndex) -> CircId {
        loop {
            let low = self.next;
            self.next = if low + 1 < self.end { low + 1 } else { 1 };
            let id = low | if self.initiator { INITIATOR } else { 0 };
            let id = CircId(NonZeroU32::new(id).expect("ids count from one"));
            if self.insert(id, circuit) {
                self.own += 1;
                return id;
            }
        }
    }

    /// Whether `id` lies in the peer's half of the space.
    pub(crate) fn is_peers(&self, id: CircId) -> bool {
        (id.0.get() & INITIATOR != 0) != self.initiator
    }

    /// False if the id is in use.
    pub(crate) fn insert(&mut self, id: CircId, circuit: CircuitIndex) -> bool {
        match self.by_id.entry(id) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(circuit);
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        }
    }

    pub(crate) fn get(&self, id: CircId) -> Option<CircuitIndex> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn remove(&mut self, id: CircId) {
        if self.by_id.remove(&id).is_some() && !self.is_peers(id) {
            self.own -= 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn all(&self) -> Vec<CircuitIndex> {
        self.by_id.values().copied().collect()
    }
}
