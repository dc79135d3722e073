//! The relay: channels, circuits and streams, and whom to ask about them.
//!
//! A client's onion proxy is the same machine; it opens circuits instead of answering for them.
//!
//! Rooms: [`flow`](self) moves cells from circuit queues to the kernel, `cells` takes what
//! arrives, `edge` packages and delivers streams, `build` makes circuits, `close` ends them,
//! `buckets` limits the rate, `clients` that of each client, `datagrams` is for channels without TCP,
//! `class` passes on whose traffic can wait, `hops` is where hop control meets its neighbours, `idle` closes channels
//! that nobody uses, `memory` closes circuits when too much waits, `parameters` is what the authorities ask of all
//! relays.

mod bounds;
mod buckets;
mod build;
mod cells;
mod class;
mod clients;
mod close;
mod datagrams;
mod edge;
mod flow;
mod hops;
mod idle;
mod memory;
mod parameters;

use crate::cell::{Cell, PeerId};
use crate::channel::{Buckets, Channel, CircIds};
use crate::channel_map::ChannelMap;
use crate::circuit::Circuit;
use crate::circuit_policy::{CircuitPolicy, CircuitPolicyConfig};
use crate::config::{Refill, RelayConfig};
use crate::datagram::{DatagramCounters, LinkEvent};
use crate::delay::Delay;
use crate::event::Event;
use crate::hop_control::{HopControl, HopOffer};
use crate::kernel::{Interest, Kernel};
use crate::keys::{ChannelKey, CircuitIndex, Direction, StreamKey};
use crate::scheduler::{AnyScheduler, Scheduler};
use crate::stream::Stream;
use crate::transport::Transport;
use buckets::Waiting;
use clients::Clients;
pub use parameters::Parameters;
use penstock_units::{Bytes, Cells, Duration, Instant, fifo::take_first};
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// One node of an onion-routing network.
///
/// See the crate's documentation for the contract of its driver.
#[derive(Debug)]
pub struct Relay<C: Cell> {
    scheduler: AnyScheduler,
    node: Node<C>,
    /// Cells just taken from the kernel; kept for its memory.
    inbuf: VecDeque<C>,
    /// What came beside them.
    events: Vec<LinkEvent>,
    /// Who waited for the last refill: empty, kept for its memory.
    woken: Waiting,
}

/// All of a relay but its scheduler, which works on it.
#[derive(Debug)]
struct Node<C: Cell> {
    /// What many nodes have in common is in memory once.
    config: Arc<RelayConfig>,
    /// `config.refill`, but for this node's own phase.
    refill: Refill,
    channels: Slab<Channel<C>>,
    /// Channels to each peer, oldest first.
    by_peer: BTreeMap<PeerId, Vec<ChannelKey>>,
    circuits: Slab<Circuit<C>>,
    streams: Slab<Stream<C>>,
    buckets: Option<Buckets>,
    /// Where clients are throttled.
    clients: Option<Box<Clients>>,
    channel_map: Box<dyn ChannelMap>,
    waiting: Waiting,
    /// Open channels without circuits, by when they close.
    idle: BTreeSet<(Instant, ChannelKey)>,
    /// When controls of hops are told next that time passed.
    hop_tick: Option<Instant>,
    /// When channels of datagrams are told next that time passed, if nothing is acknowledged meanwhile.
    datagram_timers: BTreeSet<(Instant, ChannelKey)>,
    /// When messages that wait for company go alone, the first one in front: all wait equally long. Some have gone.
    holds: VecDeque<(Instant, ChannelKey)>,
    /// Those whose time has come; kept for its memory.
    fired: Vec<(Instant, ChannelKey)>,
    /// Circuits whose peers did not answer, or left too much unacknowledged.
    failed: VecDeque<(ChannelKey, LinkEvent)>,
    /// What channels counted that are gone.
    closed_datagrams: DatagramCounters,
    /// Channels that must close: their peers do not read what they cause.
    to_close: Vec<ChannelKey>,
    /// Circuits whose edges may read their streams again.
    resume: VecDeque<CircuitIndex>,
    /// Streams of a circuit whose turn is yet to come while they are read; kept for its memory.
    turns: Vec<StreamKey>,
    /// Channels that have cells again and whose scheduler was not told yet.
    ready: VecDeque<ChannelKey>,
    events: VecDeque<Event<C>>,
    counters: Counters,
    /// In all circuit queues [cell].
    waiting_cells: u64,
    /// In all streams' buffers, until their applications take them [1].
    waiting_payloads: u64,
}

/// What a relay counted since its start.
///
/// `received + made = sent + consumed + dropped + held`, where `held` cells wait in circuit
/// queues and output buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Cells taken from channels.
    pub received: u64,
    /// Cells made here: DATA, SENDME, CREATE and their like.
    pub made: u64,
    /// Cells written to channels.
    pub sent: u64,
    /// Cells that ended here.
    pub consumed: u64,
    /// Cells of circuits that closed.
    pub dropped: u64,
    /// Bytes read from channels, TLS included, and from streams [B].
    pub read_bytes: Bytes,
    /// Bytes written to channels, TLS included, and to streams [B].
    pub written_bytes: Bytes,
    /// Circuit SENDMEs made here.
    pub sendmes: u64,
    /// Stream SENDMEs made here.
    pub stream_sendmes: u64,
    /// XOFFs made here.
    pub xoffs: u64,
    /// XONs made here.
    pub xons: u64,
    /// Feedback of hops made here: credits.
    pub credits: u64,
    /// Most cells that ever waited in one direction of one circuit [cell].
    pub longest_queue: u64,
    /// DATA cells delivered here.
    pub data_delivered: u64,
    /// DATA cells packaged here.
    pub data_packaged: u64,
    /// Circuits that policies looked at to choose ([`CircuitPolicy::scans`]).
    pub scans: u64,
    /// Circuits that were closed for the memory that they held ([`Limits::memory`](crate::config::Limits)).
    pub oom_closed: u64,
}

/// Who is at the ends of a new channel.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The peer is a client.
    to_client: bool,
    /// The peer is a client, or this node is.
    with_client: bool,
    /// This node opened it.
    initiator: bool,
}

impl<C: Cell> Relay<C> {
    /// A node without channels, started at `now`.
    pub fn new(config: RelayConfig, now: Instant) -> Self {
        let phase = config.refill.phase;
        Relay::of_many(Arc::new(config), phase, now)
    }

    /// One of many nodes with the same configuration, whose refills have a phase of their own.
    pub fn of_many(config: Arc<RelayConfig>, phase: Duration, now: Instant) -> Self {
        let buckets = config.bandwidth.map(|bandwidth| Buckets::new(bandwidth, now));
        let node = Node {
            channels: Slab::new(),
            by_peer: BTreeMap::new(),
            circuits: Slab::new(),
            streams: Slab::new(),
            buckets,
            clients: Clients::new(&config.throttle, config.client_buckets),
            channel_map: config.channel_map.build(),
            waiting: Waiting::default(),
            idle: BTreeSet::new(),
            hop_tick: None,
            datagram_timers: BTreeSet::new(),
            holds: VecDeque::new(),
            fired: Vec::new(),
            failed: VecDeque::new(),
            closed_datagrams: DatagramCounters::default(),
            to_close: Vec::new(),
            resume: VecDeque::new(),
            turns: Vec::new(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            waiting_cells: 0,
            waiting_payloads: 0,
            refill: Refill { phase, ..config.refill },
            config,
        };
        let scheduler = node.config.scheduler.build();
        let mut relay =
            Relay { scheduler, node, inbuf: VecDeque::new(), events: Vec::new(), woken: Waiting::default() };
        if relay.node.clients.is_some() {
            relay.node.await_refill(now);
        }
        relay
    }

    /// A peer connected to us. `to_client` says that it is no relay: then `peer` is its address, which several
    /// connections may have.
    ///
    /// Once the driver knows the connection by this key, it calls [`on_channel_open`](Self::on_channel_open).
    pub fn accept_channel(&mut self, _now: Instant, peer: PeerId, to_client: bool) -> ChannelKey {
        self.node.add_channel(peer, Ends { to_client, with_client: to_client, initiator: false })
    }

    /// At the other end of a channel that was to lead to another peer is this one, as it turned out. It is the youngest of this
    /// one's channels from now on. Before [`on_channel_open`](Self::on_channel_open).
    pub fn set_peer(&mut self, channel: ChannelKey, peer: PeerId) {
        let Some(state) = self.node.channels.get_mut(channel.0 as usize) else { return };
        let before = std::mem::replace(&mut state.peer, peer);
        if before != peer {
            self.node.forget_way(before, channel);
            self.node.by_peer.entry(peer).or_default().push(channel);
        }
    }

    /// The connection that [`Event::Connect`] asked for, or of an accepted channel, is ready. `offer` is what the
    /// peer said of the control of hops: its [`hop_offer`](Self::hop_offer).
    pub fn on_channel_open(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        offer: Option<HopOffer>,
        kernel: &mut impl Kernel<C>,
    ) {
        let Some(state) = self.node.channels.get_mut(channel.0 as usize) else { return };
        state.open = true;
        self.node.note_idle(now, channel);
        self.node.attach_channel(channel, offer);
        self.node.enter_client(now, channel);
        self.node.set_interest(channel, kernel, |interest| interest.readable = true);
        self.node.ready.push_back(channel);
        self.settle(now, kernel);
    }

    /// The kernel has cells of `channel`. Reads at most one I/O quantum.
    pub fn on_readable(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        if !self.node.channels.contains(channel.0 as usize) {
            return;
        }
        let limit = self.node.read_quantum(now, channel);
        if limit == Bytes::ZERO {
            self.node.wait_to_read(now, channel);
            self.node.set_interest(channel, kernel, |interest| interest.readable = false);
            return;
        }
        let mut inbuf = std::mem::take(&mut self.inbuf);
        let mut events = std::mem::take(&mut self.events);
        let transport = &mut self.node.channel(channel).transport;
        let bytes = transport.read(now, channel, limit, kernel, &mut inbuf, &mut events);
        self.node.charge_read(channel, bytes, inbuf.len() as u64);
        self.node.review_transport(channel);
        for cell in inbuf.drain(..) {
            self.on_cell(now, channel, cell, kernel);
        }
        for event in events.drain(..) {
            self.on_link_event(now, channel, event, kernel);
        }
        (self.inbuf, self.events) = (inbuf, events);
        self.settle(now, kernel);
    }

    /// The kernel takes cells of `channel` again. Writes at most one I/O quantum.
    pub fn on_writable(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        if self.node.channels.contains(channel.0 as usize) {
            self.scheduler.on_writable(now, channel, &mut self.node.context(now, kernel));
            self.settle(now, kernel);
        }
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) asked for came; early or repeated calls are harmless.
    pub fn on_timer(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        self.on_refill(now, kernel);
        self.on_hop_tick(now, kernel);
        self.on_datagram_timer(now);
        self.on_idle(now, kernel);
        if self.scheduler.poll_timeout().is_some_and(|due| due <= now) {
            self.scheduler.on_timer(now, &mut self.node.context(now, kernel));
        }
        self.settle(now, kernel);
    }

    /// The operator chose another circuit policy (EWMA §3.1 switches it by SIGHUP). All queues stay; the new policy
    /// knows nothing of what was sent before, so that all circuits begin alike, in the order of their keys; but the
    /// same one with another half-life keeps its counts.
    pub fn set_circuit_policy(&mut self, now: Instant, config: CircuitPolicyConfig) {
        if let Some(half_life) = self.node.config.circuit_policy.only_half_life(&config) {
            return self.set_half_life(now, half_life);
        }
        let node = &mut self.node;
        for (_, channel) in &mut node.channels {
            channel.policy = config.build();
        }
        Arc::make_mut(&mut node.config).circuit_policy = config;
        for (index, circuit) in &node.circuits {
            for direction in [Direction::Forward, Direction::Backward] {
                let half = circuit.half(direction);
                if let Some(leg) = half.to
                    && half.may_send()
                {
                    let key = CircuitIndex(index as u32).key(direction);
                    node.channels[leg.channel.0 as usize].policy.on_ready(now, key);
                }
            }
        }
    }

    /// What the driver must do next; poll until there is nothing.
    pub fn poll_event(&mut self) -> Option<Event<C>> {
        take_first(&mut self.node.events)
    }

    /// When to call [`on_timer`](Self::on_timer); nothing if nothing waits for time to pass.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let refill = self.node.waiting.due();
        let schedule = self.scheduler.poll_timeout();
        let idle = self.node.idle.first().map(|(at, _)| *at);
        [refill, schedule, idle, self.node.hop_tick, self.poll_datagrams()].into_iter().flatten().min()
    }

    /// Finishes what a call set in motion: streams that may be read again, channels that may write.
    fn settle(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        loop {
            self.handle_oom(now, kernel);
            if let Some(channel) = self.node.to_close.pop() {
                self.close_channel(now, channel, kernel);
            } else if let Some((channel, event)) = self.node.failed.pop_front() {
                self.on_failed(now, channel, event, kernel);
            } else if let Some(channel) = take_first(&mut self.node.ready) {
                if self.node.channels.get(channel.0 as usize).is_some_and(|state| state.open) {
                    self.scheduler.on_ready(now, channel, &mut self.node.context(now, kernel));
                }
            } else if let Some(circuit) = take_first(&mut self.node.resume) {
                self.node.resume_reading(now, circuit, kernel);
            } else {
                return;
            }
        }
    }
}

/// What instruments may see.
impl Counters {
    /// SENDMEs of circuits and streams made here.
    pub fn all_sendmes(&self) -> u64 {
        self.sendmes + self.stream_sendmes
    }
}

impl<C: Cell> Relay<C> {
    /// What it is set to now.
    pub fn config(&self) -> &RelayConfig {
        &self.node.config
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        self.node.counters
    }

    /// Cells in all circuit queues [cell].
    pub fn queued(&self) -> Cells {
        Cells::new(self.node.waiting_cells)
    }

    /// Bytes in all output buffers [B].
    pub fn outbuf_bytes(&self) -> Bytes {
        self.node.channels.iter().map(|(_, channel)| channel.outbuf_len()).sum()
    }

    /// Cells in all output buffers [cell].
    pub fn outbuf_cells(&self) -> Cells {
        Cells::new(self.node.channels.iter().map(|(_, channel)| channel.outbuf.len() as u64).sum())
    }

    /// Cells of `circuit` that wait to travel in `direction` [cell].
    pub fn circuit_queue(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        let circuit = self.node.circuits.get(circuit.0 as usize)?;
        Some(Cells::new(circuit.half(direction).queue.len() as u64))
    }

    /// How long the queue of `circuit` may get in `direction` if it is packaged here: N2 + N3 under credits. `None`
    /// if its next hop is not controlled.
    pub fn edge_queue_limit(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        self.node.circuits.get(circuit.0 as usize)?.half(direction).hop.edge_queue_limit()
    }

    /// How many cells of `circuit` may be outstanding on its next hop in `direction`, if a window says so.
    pub fn hop_window(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        self.node.circuits.get(circuit.0 as usize)?.half(direction).hop.window()
    }

    /// What the edge of `circuit` may have outstanding, if anything limits it, and the round-trip time it measured.
    pub fn circuit_window(&self, circuit: CircuitIndex) -> Option<(Cells, Option<Duration>)> {
        use crate::edge_control::EdgeControl as _;
        let edge = self.node.circuits.get(circuit.0 as usize)?.edge.as_deref()?;
        let window = edge.control.window();
        (window < Cells::new(u64::MAX)).then(|| (window, edge.control.rtt()))
    }

    /// Channels that wait for a token bucket.
    pub fn throttled_channels(&self) -> u32 {
        self.node.waiting.channels()
    }

    /// The circuit of a stream.
    pub fn circuit_of(&self, stream: StreamKey) -> Option<CircuitIndex> {
        self.node.streams.get(stream.0 as usize).map(|stream| stream.circuit)
    }

    /// The circuit that `id` names on `channel`.
    pub fn circuit_on(&self, channel: ChannelKey, id: crate::CircId) -> Option<CircuitIndex> {
        self.node.channels.get(channel.0 as usize)?.circuits.get(id)
    }

    /// The channel and id over which `circuit` continues in `direction`.
    pub fn leg(&self, circuit: CircuitIndex, direction: Direction) -> Option<(ChannelKey, crate::CircId)> {
        let leg = self.node.circuits.get(circuit.0 as usize)?.half(direction).to?;
        Some((leg.channel, leg.id))
    }

    /// Whether a channel leads to `peer`, or is to.
    pub fn has_channel(&self, peer: PeerId) -> bool {
        self.node.by_peer.contains_key(&peer)
    }

    /// Whether the next circuit that is extended to `peer` takes a channel that is there; otherwise one is opened for it.
    pub fn shares(&self, peer: PeerId) -> bool {
        self.node.shared_with(peer).is_some()
    }

    /// Open channels, circuits and streams.
    pub fn population(&self) -> [usize; 3] {
        [self.node.channels.len(), self.node.circuits.len(), self.node.streams.len()]
    }
}

impl<C: Cell> Node<C> {
    fn add_channel(&mut self, peer: PeerId, ends: Ends) -> ChannelKey {
        let Ends { to_client, with_client, initiator } = ends;
        let key = self.channels.insert(Channel {
            peer,
            to_client,
            with_client,
            open: false,
            hops: None,
            delay: self.config.hop_control.delay().map(|config| Box::new(Delay::new(config))),
            outbuf: VecDeque::new(),
            transport: Transport::Stream,
            closes_at: None,
            due: None,
            held: None,
            policy: self.config.circuit_policy.build(),
            circuits: CircIds::new(initiator, self.config.datagrams.is_some()),
            interest: Interest::default(),
            client: None,
        });
        let key = ChannelKey(key as u32);
        self.by_peer.entry(peer).or_default().push(key);
        key
    }

    /// The channel does not lead to `peer` any more.
    fn forget_way(&mut self, peer: PeerId, channel: ChannelKey) {
        if let Some(channels) = self.by_peer.get_mut(&peer) {
            channels.retain(|other| *other != channel);
            if channels.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
    }

    fn set_interest(
        &mut self,
        channel: ChannelKey,
        kernel: &mut impl Kernel<C>,
        change: impl FnOnce(&mut Interest),
    ) {
        let interest = &mut self.channel(channel).interest;
        let before = *interest;
        change(interest);
        if *interest != before {
            kernel.want(channel, *interest);
        }
    }

    /// The channel of a key that this relay holds.
    fn channel(&mut self, channel: ChannelKey) -> &mut Channel<C> {
        self.channels
            .get_mut(channel.0 as usize)
            .expect("circuits are closed before their channel is removed")
    }

    /// The circuit of a key that this relay holds.
    fn circuit(&mut self, circuit: CircuitIndex) -> &mut Circuit<C> {
        self.circuits
            .get_mut(circuit.0 as usize)
            .expect("a circuit leaves policies and lists before its slot")
    }
}
