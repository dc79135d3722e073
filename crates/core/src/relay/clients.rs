//! Clients of a relay that throttles them: their buckets, and what a throttle is told of them.

use super::{Node, Relay};
use crate::cell::{Cell, PeerId};
use crate::channel::Buckets;
use crate::config::{Bandwidth, Refill};
use crate::keys::{ChannelKey, ClientKey};
use crate::throttle::{
    Aggregate, AnyThrottle, ClientBuckets, ClientSignals, Throttle, ThrottleConfig, ThrottleSignals,
};
use penstock_units::{Bytes, Cells, DataRate, Instant};
use slab::Slab;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fills any bucket in one refill.
const FILLS: DataRate = DataRate::mib(1 << 30);

/// All clients of one relay, and who sets their rates.
#[derive(Debug)]
pub(super) struct Clients {
    throttle: AnyThrottle,
    config: ClientBuckets,
    slots: Slab<Client>,
    /// Who has which address, where connections of one count together.
    by_address: BTreeMap<PeerId, ClientKey>,
    /// What the throttle is told; kept for its memory.
    signals: Vec<ClientSignals>,
}

#[derive(Debug)]
struct Client {
    address: PeerId,
    /// Open connections; above zero [1].
    connections: u32,
    buckets: Buckets,
    /// Since the last refill.
    sent: Cells,
    written: Bytes,
    read: Bytes,
}

impl Clients {
    /// `None` where nobody is throttled.
    pub(super) fn new(throttle: &ThrottleConfig, config: ClientBuckets) -> Option<Box<Clients>> {
        let (slots, by_address) = (Slab::new(), BTreeMap::new());
        let throttle = throttle.build()?;
        Some(Box::new(Clients { throttle, config, slots, by_address, signals: Vec::new() }))
    }

    /// A connection of `address` is open. A client's buckets are full at first.
    fn enter(&mut self, now: Instant, address: PeerId) -> ClientKey {
        let known = match self.config.aggregate {
            Aggregate::Connection => None,
            Aggregate::Address => self.by_address.get(&address).copied(),
        };
        if let Some(client) = known {
            self.slots[client.0 as usize].connections += 1;
            return client;
        }
        // Nothing is refilled before the throttle said at what rate.
        let buckets = Buckets::new(Bandwidth { rate: FILLS, burst: self.config.burst }, now);
        let (sent, none) = (Cells::ZERO, Bytes::ZERO);
        let client = Client { address, connections: 1, buckets, sent, written: none, read: none };
        let client = ClientKey(self.slots.insert(client) as u32);
        if self.config.aggregate == Aggregate::Address {
            self.by_address.insert(address, client);
        }
        client
    }

    /// One of its connections is gone.
    fn leave(&mut self, client: ClientKey) {
        let state = &mut self.slots[client.0 as usize];
        state.connections -= 1;
        if state.connections == 0 {
            let Client { address, .. } = self.slots.remove(client.0 as usize);
            if self.config.aggregate == Aggregate::Address {
                self.by_address.remove(&address);
            }
            self.throttle.on_close(client);
        }
    }

    /// Sets every client's rate and adds the tokens.
    fn refill(&mut self, now: Instant, refill: Refill, relays: u32, bandwidth: Option<DataRate>) {
        self.signals.clear();
        self.signals.extend(self.slots.iter_mut().map(|(key, client)| ClientSignals {
            client: ClientKey(key as u32),
            sent: std::mem::take(&mut client.sent),
            written: std::mem::take(&mut client.written),
            read: std::mem::take(&mut client.read),
        }));
        let signals = ThrottleSignals { clients: &self.signals, relays, bandwidth };
        self.throttle.on_refill(now, &signals);
        for (key, client) in &mut self.slots {
            // Who is not throttled has the relay's own rate, as in C tor, where PerConnBWRate defaults to BandwidthRate.
            let rate = self.throttle.rate(ClientKey(key as u32)).or(bandwidth).unwrap_or(FILLS);
            client.buckets.read.set_rate(rate);
            client.buckets.write.set_rate(rate);
            client.buckets.refill(refill, now);
        }
    }
}

impl<C: Cell> Node<C> {
    /// The channel is open; if it leads to a client, it may count.
    pub(super) fn enter_client(&mut self, now: Instant, channel: ChannelKey) {
        let state = &mut self.channels[channel.0 as usize];
        if let Some(clients) = &mut self.clients
            && state.to_client
            && state.client.is_none()
        {
            state.client = Some(clients.enter(now, state.peer));
        }
    }

    /// The channel of this client is gone.
    pub(super) fn leave_client(&mut self, client: Option<ClientKey>) {
        if let (Some(clients), Some(client)) = (&mut self.clients, client) {
            clients.leave(client);
        }
    }

    /// The buckets that a channel has beside the relay's.
    pub(super) fn own_buckets(&self, channel: ChannelKey) -> Option<&Buckets> {
        let client = self.channels[channel.0 as usize].client?;
        self.clients.as_ref().map(|clients| &clients.slots[client.0 as usize].buckets)
    }

    /// A client sent so much.
    pub(super) fn charge_client_read(&mut self, channel: ChannelKey, bytes: Bytes) {
        if let Some(client) = self.client(channel) {
            client.buckets.read.consume(bytes);
            client.read += bytes;
        }
    }

    /// A client was sent so much.
    pub(super) fn charge_client_write(&mut self, channel: ChannelKey, bytes: Bytes, cells: u64) {
        if let Some(client) = self.client(channel) {
            client.buckets.write.consume(bytes);
            client.written += bytes;
            client.sent += Cells::new(cells);
        }
    }

    fn client(&mut self, channel: ChannelKey) -> Option<&mut Client> {
        let client = self.channels[channel.0 as usize].client?;
        self.clients.as_mut().map(|clients| &mut clients.slots[client.0 as usize])
    }

    /// Asks the throttle for every client's rate, before the tokens are added.
    pub(super) fn refill_clients(&mut self, now: Instant) {
        let Some(clients) = &mut self.clients else { return };
        let to_relay = |channel: &crate::channel::Channel<C>| channel.open && !channel.to_client;
        let relays = self.channels.iter().filter(|(_, channel)| to_relay(channel)).count();
        let bandwidth = self.config.bandwidth.map(|bandwidth| bandwidth.rate);
        clients.refill(now, self.refill, relays as u32, bandwidth);
    }
}

impl<C: Cell> Relay<C> {
    /// The peer of a channel turns out to be no relay, or to be one: it is throttled from now on, with full buckets, or no
    /// longer. Where addresses count, it is its own.
    ///
    /// The driver asks for [`poll_timeout`](Self::poll_timeout) afterwards, as after any call.
    pub fn set_to_client(&mut self, now: Instant, channel: ChannelKey, to_client: bool) {
        let node = &mut self.node;
        let Some(state) = node.channels.get_mut(channel.0 as usize) else { return };
        if std::mem::replace(&mut state.to_client, to_client) == to_client {
            return;
        }
        let (is_open, client) = (state.open, state.client.take());
        node.leave_client(client);
        if is_open {
            node.enter_client(now, channel);
        }
        if node.clients.is_some() {
            node.await_refill(now);
        }
    }

    /// The operator chose another throttle, or other buckets. All connections and queues stay. The new throttle knows
    /// nothing of what was sent before; clients' buckets are full, as they are when a client comes.
    ///
    /// The driver asks for [`poll_timeout`](Self::poll_timeout) afterwards, as after any call.
    pub fn set_throttle(&mut self, now: Instant, throttle: ThrottleConfig, buckets: ClientBuckets) {
        let node = &mut self.node;
        node.clients = Clients::new(&throttle, buckets);
        let config = Arc::make_mut(&mut node.config);
        (config.throttle, config.client_buckets) = (throttle, buckets);
        for (_, channel) in &mut node.channels {
            channel.client = None;
        }
        let open: Vec<_> =
            node.channels.iter().filter(|(_, channel)| channel.open).map(|(key, _)| key).collect();
        for channel in open {
            node.enter_client(now, ChannelKey(channel as u32));
        }
        if node.clients.is_some() {
            node.await_refill(now);
        }
    }
}
