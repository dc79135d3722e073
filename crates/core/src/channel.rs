use crate::cell::{self, CircId, PeerId};
use crate::circuit_policy::AnyCircuitPolicy;
use crate::delay::Delay;
use crate::hop_control::HopOffer;
use crate::kernel::Interest;
use crate::keys::{CircuitIndex, ClientKey};
use crate::reason::DestroyReason;
use crate::relay::timers::ChannelTimers;
use crate::token_bucket::TokenBucket;
use crate::transport::Transport;
use penstock_units::{Bytes, Instant, fifo::trim};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

#[derive(Debug)]
pub(crate) struct Channel<C> {
    pub(crate) peer: PeerId,
    pub(crate) to_client: bool,
    pub(crate) with_client: bool,
    pub(crate) open: bool,
    /// The hop control that both ends agreed on when the channel opened.
    pub(crate) hops: Option<HopOffer>,
    /// Measures the delay of cells in the output buffer, if a hop control needs this delay.
    pub(crate) delay: Option<Box<Delay>>,
    pub(crate) outbuf: VecDeque<C>,
    /// Closed circuits whose DESTROY waits because the output buffer is long.
    pub(crate) destroys: VecDeque<(CircId, DestroyReason)>,
    pub(crate) transport: Transport<C>,
    pub(crate) timers: ChannelTimers,
    pub(crate) policy: AnyCircuitPolicy,
    pub(crate) circuits: CircIds,
    pub(crate) interest: Interest,
    pub(crate) client: Option<ClientKey>,
}

#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub(crate) read: TokenBucket,
    pub(crate) write: TokenBucket,
}

impl<C: cell::Cell> Channel<C> {
    pub(crate) fn push(&mut self, now: Instant, cell: C) {
        if let Some(delay) = &mut self.delay {
            delay.on_queued(now);
        }
        self.outbuf.push_back(cell);
    }

    /// Adds waiting DESTROYs to the output buffer while the buffer is smaller than `limit` [B]. Returns their number.
    #[cold]
    pub(crate) fn push_destroys(&mut self, now: Instant, limit: Bytes) -> u64 {
        let before = self.outbuf.len();
        while self.outbuf_len() < limit
            && let Some((id, reason)) = self.destroys.pop_front()
        {
            self.push(now, C::destroy(id, reason));
        }
        trim(&mut self.destroys);
        (self.outbuf.len() - before) as u64
    }

    /// The output buffer's size [B]. All cells of a channel have the same size.
    pub(crate) fn outbuf_len(&self) -> Bytes {
        let size = self.outbuf.front().map_or(0, cell::Cell::wire_size);
        Bytes::new(self.outbuf.len() as u64 * u64::from(size))
    }

    /// Bytes that wait to be written [B], in the output buffer and in pending datagram messages.
    pub(crate) fn to_write(&self) -> Bytes {
        self.outbuf_len() + self.transport.ready()
    }
}

#[derive(Debug)]
pub(crate) struct CircIds {
    by_id: BTreeMap<CircId, CircuitIndex>,
    /// The last found id. Consecutive cells often belong to the same circuit.
    recent: Cell<Option<(CircId, CircuitIndex)>>,
    initiator: bool,
    next: u32,
    /// This side allocates only ids below this value.
    end: u32,
    /// The number of ids in use that this side allocated.
    own: u32,
}

const INITIATOR: u32 = 1 << 31;
/// The end of each side's id space if datagrams carry the ids, which then have 16 bits.
const NARROW: u32 = 1 << 15;

impl CircIds {
    /// The id table of a new channel. `initiator`: this side opened the channel. `narrow`: datagrams may carry the ids.
    pub(crate) fn new(initiator: bool, narrow: bool) -> Self {
        let end = if narrow { NARROW } else { INITIATOR };
        CircIds { by_id: BTreeMap::new(), recent: Cell::new(None), initiator, next: 1, end, own: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.own + 1 >= self.end
    }

    /// Takes a free id from this side's half of the id space. At least one id must be free.
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

    pub(crate) fn is_peers(&self, id: CircId) -> bool {
        (id.0.get() & INITIATOR != 0) != self.initiator
    }

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
        if let Some((recent, circuit)) = self.recent.get()
            && recent == id
        {
            return Some(circuit);
        }
        let circuit = *self.by_id.get(&id)?;
        self.recent.set(Some((id, circuit)));
        Some(circuit)
    }

    pub(crate) fn remove(&mut self, id: CircId) {
        self.recent.take();
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
