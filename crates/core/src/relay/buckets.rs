use super::clients::Clients;
use super::{Parts, Relay};
use crate::arena::{Key, SecondaryMap};
use crate::cell::{Cell, MAX_PAYLOAD};
use crate::channel::Buckets;
use crate::config::{Bandwidth, Refill, RelayConfig};
use crate::edge_control::StreamControl;
use crate::hop_control::HopControl;
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, ClientKey, Direction, StreamKey};
use crate::scheduler::Scheduler;
use crate::token_bucket::{TokenBucket, quantum};
use penstock_units::{Bytes, DataRate, Duration, Instant};
use std::sync::Arc;

/// The unit of a channel's I/O quantum [B] (C tor: `get_cell_network_size()`).
const CELL_BASE: u64 = 512;

#[derive(Debug)]
pub(super) struct TokenBuckets {
    refill: Refill,
    /// The relay's own buckets. A refill is computed only when the tokens are needed.
    global: Option<Buckets>,
    pub(super) clients: Option<Box<Clients>>,
    pub(super) waiting: Waiting,
    spare: Waiting,
}

/// Channels and streams that wait for a refill, longest wait first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    reads: OrderedSet<ChannelKey>,
    writes: OrderedSet<ChannelKey>,
    stream_reads: OrderedSet<StreamKey>,
    stream_writes: OrderedSet<StreamKey>,
}

/// A set of keys in the order in which they were added. The cost of an operation does not depend on the number of keys.
#[derive(Debug)]
struct OrderedSet<K> {
    /// The keys in order. Removed keys stay in this list until all keys are taken.
    list: Vec<K>,
    members: SecondaryMap<K, ()>,
}

impl<K> Default for OrderedSet<K> {
    fn default() -> Self {
        OrderedSet { list: Vec::new(), members: SecondaryMap::default() }
    }
}

impl<K: Key> OrderedSet<K> {
    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn contains(&self, key: K) -> bool {
        self.members.contains(key)
    }

    fn add(&mut self, key: K) {
        if !self.contains(key) {
            self.members.insert(key, ());
            self.list.push(key);
        }
    }

    fn remove(&mut self, key: K) {
        self.members.remove(key);
    }

    fn iter(&self) -> impl Iterator<Item = K> {
        self.list.iter().copied().filter(|key| self.contains(*key))
    }

    fn drain(&mut self) -> impl Iterator<Item = K> {
        let OrderedSet { list, members } = self;
        list.drain(..).filter(|key| members.remove(*key).is_some())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Blocked {
    Read(ChannelKey),
    Write(ChannelKey),
    ReadStream(StreamKey),
    WriteStream(StreamKey),
}

impl Waiting {
    pub(super) fn any(&self) -> bool {
        let channels = !self.reads.is_empty() || !self.writes.is_empty();
        channels || !self.stream_reads.is_empty() || !self.stream_writes.is_empty()
    }

    pub(super) fn channels(&self) -> u32 {
        let readers_only = self.reads.iter().filter(|channel| !self.writes.contains(*channel)).count();
        (readers_only + self.writes.members.len()) as u32
    }

    fn add(&mut self, blocked: Blocked) {
        match blocked {
            Blocked::Read(channel) => self.reads.add(channel),
            Blocked::Write(channel) => self.writes.add(channel),
            Blocked::ReadStream(stream) => self.stream_reads.add(stream),
            Blocked::WriteStream(stream) => self.stream_writes.add(stream),
        }
    }

    pub(super) fn reads_stream(&self, stream: StreamKey) -> bool {
        self.stream_reads.contains(stream)
    }

    pub(super) fn writes_stream(&self, stream: StreamKey) -> bool {
        self.stream_writes.contains(stream)
    }

    pub(super) fn remove_channel(&mut self, channel: ChannelKey) {
        self.reads.remove(channel);
        self.writes.remove(channel);
    }

    pub(super) fn remove_stream(&mut self, stream: StreamKey) {
        self.stream_reads.remove(stream);
        self.stream_writes.remove(stream);
    }
}

impl Buckets {
    pub(super) fn new(bandwidth: Bandwidth, now: Instant) -> Self {
        let bucket = TokenBucket::new(bandwidth, now);
        Buckets { read: bucket.clone(), write: bucket }
    }

    pub(super) fn refill(&mut self, refill: Refill, now: Instant) {
        self.read.refill(refill, now);
        self.write.refill(refill, now);
    }
}

impl TokenBuckets {
    pub(super) fn new(config: &RelayConfig, phase: Duration, now: Instant) -> Self {
        TokenBuckets {
            refill: Refill { phase, ..config.refill },
            global: config.bandwidth.map(|bandwidth| Buckets::new(bandwidth, now)),
            clients: Clients::new(&config.throttle, config.client_buckets),
            waiting: Waiting::default(),
            spare: Waiting::default(),
        }
    }

    fn refill(&mut self, now: Instant) {
        if let Some(global) = &mut self.global {
            global.refill(self.refill, now);
        }
    }

    fn next_refill(&self, now: Instant) -> Instant {
        self.refill.unblocks_after(now)
    }

    fn of_client(&self, client: Option<ClientKey>) -> Option<&Buckets> {
        self.clients.as_ref()?.buckets(client?)
    }

    /// How many bytes one read from a channel may take. If `client` is given, the client's buckets also limit the read.
    /// If the read is not `gated`, no bucket limits it.
    pub(super) fn read_quantum(&mut self, now: Instant, client: Option<ClientKey>, gated: bool) -> Bytes {
        if !gated {
            return quantum(None, None, CELL_BASE);
        }
        self.refill(now);
        let own = self.of_client(client).map(|own| &own.read);
        quantum(self.global.as_ref().map(|all| &all.read), own, CELL_BASE)
    }

    pub(super) fn write_quantum(&mut self, now: Instant, client: Option<ClientKey>) -> Bytes {
        self.refill(now);
        let own = self.of_client(client).map(|own| &own.write);
        quantum(self.global.as_ref().map(|all| &all.write), own, CELL_BASE)
    }

    /// How many bytes one read from an edge stream may take. `own` is the stream's bucket.
    /// Source: C tor 0.4.9 `connection_bucket_read_limit()`.
    /// Deviation: at a client, a stream has the same limit as at an exit.
    pub(super) fn stream_read_quantum(&mut self, now: Instant, own: Option<&mut TokenBucket>) -> Bytes {
        self.refill(now);
        let refill = self.refill;
        let own = own.map(|own| {
            own.refill(refill, now);
            &*own
        });
        quantum(self.global.as_ref().map(|all| &all.read), own, MAX_PAYLOAD.into())
    }

    pub(super) fn stream_write_quantum(&mut self, now: Instant) -> Bytes {
        self.refill(now);
        quantum(self.global.as_ref().map(|all| &all.write), None, MAX_PAYLOAD.into())
    }

    pub(super) fn charge_read(&mut self, bytes: Bytes) {
        if let Some(global) = &mut self.global {
            global.read.consume(bytes);
        }
    }

    pub(super) fn charge_write(&mut self, bytes: Bytes) {
        if let Some(global) = &mut self.global {
            global.write.consume(bytes);
        }
    }

    /// Gets every client's rate from the throttle, then refills the clients' buckets. `relays` is the number of open
    /// channels to relays.
    pub(super) fn refill_clients(&mut self, now: Instant, relays: u32, bandwidth: Option<DataRate>) {
        if let Some(clients) = &mut self.clients {
            clients.refill(now, self.refill, relays, bandwidth);
        }
    }

    fn set_bandwidth(&mut self, now: Instant, bandwidth: Option<Bandwidth>) {
        self.refill(now);
        match (bandwidth, &mut self.global) {
            (Some(bandwidth), Some(Buckets { read, write })) => {
                read.adjust(bandwidth);
                write.adjust(bandwidth);
            }
            (bandwidth, global) => *global = bandwidth.map(|bandwidth| Buckets::new(bandwidth, now)),
        }
    }
}

impl<C: Cell> Parts<C> {
    pub(super) fn wait_for_refill(&mut self, now: Instant, blocked: Blocked) {
        self.timers.set_refill(self.buckets.next_refill(now));
        self.buckets.waiting.add(blocked);
    }

    pub(super) fn set_throttle_timer(&mut self, now: Instant) {
        if self.buckets.clients.is_some() {
            self.timers.set_refill(self.buckets.next_refill(now));
        }
    }

    pub(super) fn charge_channel_read(&mut self, channel: ChannelKey, bytes: Bytes, cells: u64) {
        self.counters.received += cells;
        self.charge_stream_read(bytes);
        if let (Some(clients), Some(client)) = (&mut self.buckets.clients, self.channels[channel].client) {
            clients.charge_read(client, bytes);
        }
    }

    pub(super) fn charge_channel_write(&mut self, channel: ChannelKey, bytes: Bytes, cells: u64) {
        self.counters.sent += cells;
        self.charge_stream_write(bytes);
        if let (Some(clients), Some(client)) = (&mut self.buckets.clients, self.channels[channel].client) {
            clients.charge_write(client, bytes, cells);
        }
    }

    pub(super) fn charge_stream_read(&mut self, bytes: Bytes) {
        self.counters.read_bytes += bytes;
        self.buckets.charge_read(bytes);
    }

    pub(super) fn charge_stream_write(&mut self, bytes: Bytes) {
        self.counters.written_bytes += bytes;
        self.buckets.charge_write(bytes);
    }

    /// Gives a stream a bucket with the rate that the stream control sets. The depth is one second of this rate; a new
    /// bucket starts full.
    /// Source: C tor `circuit_process_stream_xon()`.
    pub(super) fn adjust_stream_bucket(&mut self, now: Instant, stream: StreamKey) {
        let state = &mut self.edges.streams[stream];
        match (state.control.rate(), &mut state.bucket) {
            (None, bucket) => *bucket = None,
            (Some(rate), bucket) => {
                let bandwidth = Bandwidth { rate, burst: rate.bytes_in(Duration::from_secs(1)) };
                match bucket {
                    Some(bucket) => bucket.adjust(bandwidth),
                    None => *bucket = Some(TokenBucket::new(bandwidth, now)),
                }
            }
        }
    }
}

impl<C: Cell> Relay<C> {
    /// Changes or removes the relay's own rate, for the operator. Tokens above the new depth are lost; a new bucket
    /// starts full. Operations that wait for tokens continue to wait until the next refill.
    ///
    /// The driver must call [`poll_timeout`](Self::poll_timeout) afterwards.
    ///
    /// Source: C tor `options_act()` and `token_bucket_rw_adjust()`.
    pub fn set_bandwidth(&mut self, now: Instant, bandwidth: Option<Bandwidth>) {
        let parts = &mut self.parts;
        parts.buckets.set_bandwidth(now, bandwidth);
        Arc::make_mut(&mut parts.config).bandwidth = bandwidth;
        let rate = bandwidth.map(|bandwidth| bandwidth.rate);
        for circuit in parts.circuits.values_mut() {
            for direction in Direction::BOTH {
                circuit.half_mut(direction).hop.set_rate(rate);
            }
        }
    }

    pub(super) fn on_refill(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        if !self.parts.timers.take_refill(now) {
            return;
        }
        self.parts.refill_clients(now);
        // If an operation finds an empty bucket again, it joins the new list.
        let buckets = &mut self.parts.buckets;
        let mut waiting = std::mem::replace(&mut buckets.waiting, std::mem::take(&mut buckets.spare));
        self.parts.set_throttle_timer(now);
        for channel in waiting.reads.drain() {
            self.parts.channels.set_interest(channel, kernel, |interest| interest.readable = true);
        }
        for channel in waiting.writes.drain() {
            self.scheduler.on_refill(now, channel, &mut self.parts.context(now, kernel));
        }
        for stream in waiting.stream_reads.drain() {
            self.parts.refresh_stream(stream, kernel);
        }
        for stream in waiting.stream_writes.drain() {
            self.parts.flush_stream(now, stream, kernel);
        }
        self.parts.buckets.spare = waiting;
    }
}
