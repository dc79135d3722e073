//! The relay, which owns channels, circuits, streams, buckets and timers.
//!
//! A client's onion proxy uses the same code. It opens circuits instead of answering CREATEs.
//!
//! Objects, each in its own file: `channels`, `edges` (all streams), `buckets` and `clients` (rate limits), `timers`
//! (one table for all timers), `datagram_links`, `conflux` (linked circuits), `memory`, `events`, `counters`. The state of a single circuit is in
//! `crate::circuit`.
//!
//! Steps that need several objects are methods of `Parts`: `flow` moves cells from circuit queues to the kernel,
//! `cells` handles arriving cells, `packaging` and `delivery` are the two directions of streams, `build` and `close`
//! begin and end circuits, `hops` runs hop control, `class` announces priority classes, `rendezvous`
//! joins circuits. Drivers call methods of
//! [`Relay`], which are next to these steps or in `streams`, `inspect`, `bounds`, `idle` and `parameters`.

mod bounds;
mod buckets;
mod build;
mod cells;
mod channels;
mod class;
mod clients;
mod close;
mod conflux;
mod counters;
mod datagram_links;
mod delivery;
mod edges;
mod events;
mod flow;
mod hops;
mod idle;
mod inspect;
mod memory;
mod packaging;
mod parameters;
mod rendezvous;
mod streams;
pub(crate) mod timers;

use crate::arena::Arena;
use crate::cell::{Cell, PeerId};
use crate::circuit::Circuit;
use crate::circuit_policy::{CircuitPolicy, CircuitPolicyConfig};
use crate::config::RelayConfig;
use crate::datagram::{Association, LinkEvent};
use crate::event::Event;
use crate::hop_control::HopOffer;
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use crate::scheduler::{AnyScheduler, Scheduler};
use buckets::{Blocked, TokenBuckets};
use channels::{ChannelEnds, Channels};
use conflux::LinkedCircuits;
pub use counters::Counters;
use datagram_links::DatagramLinks;
use edges::Edges;
use events::Events;
use memory::MemoryUse;
pub use parameters::Parameters;
use penstock_units::{Bytes, Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;
use timers::Timers;

/// One node of an onion-routing network.
///
/// The crate's documentation has the contract of a driver.
#[derive(Debug)]
pub struct Relay<C: Cell> {
    scheduler: AnyScheduler,
    parts: Parts<C>,
    inbuf: VecDeque<C>,
    link_events: Vec<LinkEvent>,
}

/// All parts of a relay except the scheduler, which borrows them.
#[derive(Debug)]
struct Parts<C: Cell> {
    /// The configuration, shared by all nodes that have the same one.
    config: Arc<RelayConfig>,
    channels: Channels<C>,
    circuits: Arena<CircuitIndex, Circuit<C>>,
    edges: Edges<C>,
    buckets: TokenBuckets,
    datagrams: DatagramLinks,
    linked: LinkedCircuits<C>,
    timers: Timers,
    memory: MemoryUse,
    events: Events<C>,
    counters: Counters,
}

impl<C: Cell> Parts<C> {
    /// Whether the circuit or stream of an event has closed, so that the event is outdated.
    fn is_void(&self, event: &Event<C>) -> bool {
        match event {
            Event::HandshakeRequested { circuit, .. }
            | Event::ExtendRequested { circuit, .. }
            | Event::OnionService { circuit, .. }
            | Event::HandshakeNeeded { circuit, .. }
            | Event::HandshakeAnswered { circuit, .. }
            | Event::CircuitBuilt { circuit }
            | Event::CircuitsLinked { circuit } => !self.circuits.contains(*circuit),
            Event::StreamRequested { stream, .. } | Event::StreamConnected { stream } => {
                !self.edges.streams.contains(*stream)
            }
            Event::Connect { .. }
            | Event::CircuitClosed { .. }
            | Event::StreamEnded { .. }
            | Event::StreamClosed { .. }
            | Event::Tracked { .. } => false,
        }
    }
}

impl<C: Cell> Relay<C> {
    /// A node without channels that starts at `now`.
    pub fn new(config: RelayConfig, now: Instant) -> Self {
        let phase = config.refill.phase;
        Relay::of_many(Arc::new(config), phase, now)
    }

    /// One of many nodes that share a configuration. Each node has its own refill phase `phase`.
    pub fn of_many(config: Arc<RelayConfig>, phase: Duration, now: Instant) -> Self {
        let scheduler = match config.datagrams {
            Some(_) => config.scheduler.build_with_datagrams(),
            None => config.scheduler.build(),
        };
        let mut parts = Parts {
            channels: Channels::new(&config),
            circuits: Arena::new(),
            edges: Edges::new(),
            buckets: TokenBuckets::new(&config, phase, now),
            datagrams: DatagramLinks::default(),
            linked: LinkedCircuits::new(),
            timers: Timers::default(),
            memory: MemoryUse::default(),
            events: Events::new(),
            counters: Counters::default(),
            config,
        };
        parts.set_throttle_timer(now);
        Relay { scheduler, parts, inbuf: VecDeque::new(), link_events: Vec::new() }
    }

    /// Adds a channel that a peer opened. `to_client`: the peer is a client, and `peer` is the client's address.
    /// Several connections may have the same address.
    ///
    /// The driver calls [`on_channel_open`](Self::on_channel_open) as soon as it has stored the returned key.
    pub fn accept_channel(&mut self, _now: Instant, peer: PeerId, to_client: bool) -> ChannelKey {
        let ends = ChannelEnds { to_client, with_client: to_client, initiator: false };
        self.parts.channels.insert(peer, ends, &self.parts.config)
    }

    /// Corrects the peer of a channel after an unexpected node has answered. The channel becomes the newest channel to
    /// the new peer. The driver calls this before [`on_channel_open`](Self::on_channel_open).
    pub fn set_peer(&mut self, channel: ChannelKey, peer: PeerId) {
        self.parts.channels.set_peer(channel, peer);
    }

    /// Corrects whether one end of a channel is a client. A relay opens a channel for its own circuit as a client, but
    /// may authenticate itself as a relay. The driver calls this before [`on_channel_open`](Self::on_channel_open).
    pub fn set_with_client(&mut self, channel: ChannelKey, with_client: bool) {
        if let Some(state) = self.parts.channels.get_mut(channel) {
            state.with_client = with_client;
        }
    }

    /// The connection of an accepted channel, or of [`Event::Connect`], is ready. `offer` is the peer's
    /// [`hop_offer`](Self::hop_offer).
    pub fn on_channel_open(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        offer: Option<HopOffer>,
        kernel: &mut impl Kernel<C>,
    ) {
        let parts = &mut self.parts;
        let Some(state) = parts.channels.get_mut(channel) else { return };
        state.open = true;
        parts.start_idle_timeout(now, channel);
        parts.attach_channel(channel, offer);
        parts.enter_client(now, channel);
        parts.channels.set_interest(channel, kernel, |interest| interest.readable = true);
        parts.channels.set_ready(channel);
        self.settle(now, kernel);
    }

    /// The kernel has cells to read on `channel`. Reads at most one I/O quantum.
    pub fn on_readable(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        let parts = &mut self.parts;
        let Some(state) = parts.channels.get_mut(channel) else { return };
        let gated = state.transport.association().is_none_or(Association::gates_reads);
        let limit = parts.buckets.read_quantum(now, state.client, gated);
        if limit == Bytes::ZERO {
            parts.wait_for_refill(now, Blocked::Read(channel));
            parts.channels.set_interest(channel, kernel, |interest| interest.readable = false);
            return;
        }
        let mut inbuf = std::mem::take(&mut self.inbuf);
        let mut events = std::mem::take(&mut self.link_events);
        let bytes = state.transport.read(now, channel, limit, kernel, &mut inbuf, &mut events);
        parts.charge_channel_read(channel, bytes, inbuf.len() as u64);
        parts.review_transport(channel);
        for cell in inbuf.drain(..) {
            self.on_cell(now, channel, cell, kernel);
        }
        for event in events.drain(..) {
            self.on_link_event(now, channel, event, kernel);
        }
        (self.inbuf, self.link_events) = (inbuf, events);
        self.settle(now, kernel);
    }

    /// The kernel accepts cells on `channel` again. Writes at most one I/O quantum.
    pub fn on_writable(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        if self.parts.channels.contains(channel) {
            self.scheduler.on_writable(now, channel, &mut self.parts.context(now, kernel));
            self.settle(now, kernel);
        }
    }

    /// Handles expired timers. The driver calls this at the time that [`poll_timeout`](Self::poll_timeout) returned.
    /// Early or repeated calls are harmless.
    pub fn on_timer(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        self.on_refill(now, kernel);
        self.on_release(now, kernel);
        self.on_hop_tick(now, kernel);
        self.on_datagram_timer(now);
        self.on_idle(now, kernel);
        if self.scheduler.poll_timeout().is_some_and(|due| due <= now) {
            self.scheduler.on_timer(now, &mut self.parts.context(now, kernel));
        }
        self.settle(now, kernel);
    }

    /// Replaces the circuit policy, for the operator (EWMA §3.1 switches the policy by SIGHUP). All queues stay. A new
    /// policy has no history, so at first the order of keys decides among circuits. If only the half-life changes, the
    /// policy keeps its counts.
    pub fn set_circuit_policy(&mut self, now: Instant, config: CircuitPolicyConfig) {
        if let Some(half_life) = self.parts.config.circuit_policy.only_half_life(&config) {
            return self.set_half_life(now, half_life);
        }
        let parts = &mut self.parts;
        for channel in parts.channels.values_mut() {
            channel.policy = config.build();
        }
        Arc::make_mut(&mut parts.config).circuit_policy = config;
        for (key, circuit) in parts.circuits.iter() {
            for direction in Direction::BOTH {
                let half = circuit.half(direction);
                if let Some(leg) = half.to
                    && half.may_send()
                {
                    parts.channels[leg.channel].policy.on_ready(now, key.key(direction));
                }
            }
        }
    }

    /// The next event for the driver. The driver polls events until none is left.
    pub fn poll_event(&mut self) -> Option<Event<C>> {
        loop {
            let event = self.parts.events.poll()?;
            if !self.parts.is_void(&event) {
                return Some(event);
            }
        }
    }

    /// When to call [`on_timer`](Self::on_timer); `None` if no timer is set.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.parts.timers.next(), self.scheduler.poll_timeout()].into_iter().flatten().min()
    }

    /// Finishes the work of a call: closes channels and circuits, serves channels that can write, and lets edges resume
    /// reading. Channels that must close free their memory before the out-of-memory handler selects circuits.
    fn settle(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        self.parts.linked.renew_share();
        loop {
            if let Some(channel) = self.parts.channels.take_to_close() {
                if self.parts.channels.contains(channel) {
                    kernel.close(channel);
                    self.remove_channel(now, channel, kernel);
                }
                continue;
            }
            if self.handle_oom(now, kernel) {
                continue;
            }
            let parts = &mut self.parts;
            if let Some((channel, failure)) = parts.datagrams.take_failed() {
                self.on_failed(now, channel, failure, kernel);
            } else if let Some(channel) = parts.channels.take_ready() {
                if parts.channels.get(channel).is_some_and(|state| state.open) {
                    self.scheduler.on_ready(now, channel, &mut parts.context(now, kernel));
                }
            } else if let Some(circuit) = parts.edges.take_resuming() {
                parts.resume_reading(now, circuit, kernel);
            } else {
                return;
            }
        }
    }
}
