use super::{Parts, Relay};
use crate::arena::Arena;
use crate::cell::{Cell, PeerId};
use crate::channel::Buckets;
use crate::config::{Bandwidth, Refill};
use crate::keys::{ChannelKey, ClientKey};
use crate::throttle::{
    Aggregate, AnyThrottle, ClientBuckets, ClientSignals, Throttle, ThrottleConfig, ThrottleSignals,
};
use penstock_units::{Bytes, Cells, DataRate, Instant};
use std::collections::BTreeMap;
use std::sync::Arc;

const UNLIMITED: DataRate = DataRate::mib(1 << 30);

#[derive(Debug)]
pub(super) struct Clients {
    throttle: AnyThrottle,
    config: ClientBuckets,
    all: Arena<ClientKey, Client>,
    by_address: BTreeMap<PeerId, ClientKey>,
    signals: Vec<ClientSignals>,
}

#[derive(Debug)]
struct Client {
    address: PeerId,
    connections: u32,
    buckets: Buckets,
    sent: Cells,
    written: Bytes,
    read: Bytes,
}

impl Clients {
    pub(super) fn new(throttle: &ThrottleConfig, config: ClientBuckets) -> Option<Box<Clients>> {
        let (all, by_address) = (Arena::new(), BTreeMap::new());
        let throttle = throttle.build()?;
        Some(Box::new(Clients { throttle, config, all, by_address, signals: Vec::new() }))
    }

    fn add_connection(&mut self, now: Instant, address: PeerId) -> ClientKey {
        let known = match self.config.aggregate {
            Aggregate::Connection => None,
            Aggregate::Address => self.by_address.get(&address).copied(),
        };
        if let Some(client) = known {
            self.all[client].connections += 1;
            return client;
        }
        // The throttle replaces this rate before the first refill.
        let buckets = Buckets::new(Bandwidth { rate: UNLIMITED, burst: self.config.burst }, now);
        let (sent, none) = (Cells::ZERO, Bytes::ZERO);
        let client = Client { address, connections: 1, buckets, sent, written: none, read: none };
        let client = self.all.insert(client);
        if self.config.aggregate == Aggregate::Address {
            self.by_address.insert(address, client);
        }
        client
    }

    fn remove_connection(&mut self, client: ClientKey) {
        let state = &mut self.all[client];
        state.connections -= 1;
        if state.connections == 0 {
            let Client { address, .. } = self.all.remove(client);
            if self.config.aggregate == Aggregate::Address {
                self.by_address.remove(&address);
            }
            self.throttle.on_close(client);
        }
    }

    pub(super) fn buckets(&self, client: ClientKey) -> Option<&Buckets> {
        self.all.get(client).map(|client| &client.buckets)
    }

    pub(super) fn charge_read(&mut self, client: ClientKey, bytes: Bytes) {
        let client = &mut self.all[client];
        client.buckets.read.consume(bytes);
        client.read += bytes;
    }

    pub(super) fn charge_write(&mut self, client: ClientKey, bytes: Bytes, cells: u64) {
        let client = &mut self.all[client];
        client.buckets.write.consume(bytes);
        client.written += bytes;
        client.sent += Cells::new(cells);
    }

    /// Whether the throttle limits a client.
    pub(super) fn is_throttled(&self, client: ClientKey) -> bool {
        self.throttle.rate(client).is_some()
    }

    pub(super) fn refill(&mut self, now: Instant, refill: Refill, relays: u32, bandwidth: Option<DataRate>) {
        self.signals.clear();
        self.signals.extend(self.all.iter_mut().map(|(client, state)| ClientSignals {
            client,
            sent: std::mem::take(&mut state.sent),
            written: std::mem::take(&mut state.written),
            read: std::mem::take(&mut state.read),
        }));
        let signals = ThrottleSignals { clients: &self.signals, relays, bandwidth };
        self.throttle.on_refill(now, &signals);
        for (key, client) in self.all.iter_mut() {
            // An unthrottled client has the relay's own rate. C tor does the same, because PerConnBWRate defaults to
            // BandwidthRate.
            let rate = self.throttle.rate(key).or(bandwidth).unwrap_or(UNLIMITED);
            client.buckets.read.set_rate(rate);
            client.buckets.write.set_rate(rate);
            client.buckets.refill(refill, now);
        }
    }
}

impl<C: Cell> Parts<C> {
    pub(super) fn enter_client(&mut self, now: Instant, channel: ChannelKey) {
        let state = &mut self.channels[channel];
        if let Some(clients) = &mut self.buckets.clients
            && state.to_client
            && state.client.is_none()
        {
            state.client = Some(clients.add_connection(now, state.peer));
        }
    }

    pub(super) fn leave_client(&mut self, client: Option<ClientKey>) {
        if let (Some(clients), Some(client)) = (&mut self.buckets.clients, client) {
            clients.remove_connection(client);
        }
    }

    pub(super) fn refill_clients(&mut self, now: Instant) {
        let bandwidth = self.config.bandwidth.map(|bandwidth| bandwidth.rate);
        if self.buckets.clients.is_some() {
            let relays = self.channels.values().filter(|channel| channel.open && !channel.to_client).count();
            self.buckets.refill_clients(now, relays as u32, bandwidth);
        }
    }
}

impl<C: Cell> Relay<C> {
    /// Corrects whether the peer of a channel is a client. If the peer is a client, it is throttled from now on, and
    /// its buckets start full. If not, it is no longer throttled. The channel's peer id counts as the client's address.
    ///
    /// The driver must call [`poll_timeout`](Self::poll_timeout) afterwards.
    pub fn set_to_client(&mut self, now: Instant, channel: ChannelKey, to_client: bool) {
        let parts = &mut self.parts;
        let Some(state) = parts.channels.get_mut(channel) else { return };
        if std::mem::replace(&mut state.to_client, to_client) == to_client {
            return;
        }
        let (is_open, client) = (state.open, state.client.take());
        parts.leave_client(client);
        if is_open {
            parts.enter_client(now, channel);
        }
        parts.set_throttle_timer(now);
    }

    /// Replaces the throttle or the clients' buckets, for the operator. All connections and queues stay. The new
    /// throttle has no history, and all clients' buckets are full.
    ///
    /// The driver must call [`poll_timeout`](Self::poll_timeout) afterwards.
    pub fn set_throttle(&mut self, now: Instant, throttle: ThrottleConfig, buckets: ClientBuckets) {
        let parts = &mut self.parts;
        parts.buckets.clients = Clients::new(&throttle, buckets);
        let config = Arc::make_mut(&mut parts.config);
        (config.throttle, config.client_buckets) = (throttle, buckets);
        for channel in parts.channels.values_mut() {
            channel.client = None;
        }
        for channel in parts.channels.open() {
            parts.enter_client(now, channel);
        }
        parts.set_throttle_timer(now);
    }
}
