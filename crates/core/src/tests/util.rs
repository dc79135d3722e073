//! A small deterministic network with one thread and one clock.
//!
//! A link is a reliable pipe with a send buffer, a rate, a latency and a receive buffer. The sender
//! always knows the free space of the receive buffer. After every call the called node must
//! conserve its cells (G-02).

use super::cell::{Layer, TestCell, TestHandshake};
use super::host::{Datagram, End, Flow, Host, Side, Transfer, datagram_size, size};
use crate::cell::PeerId;
use crate::config::IdleTimeouts;
use crate::edge_control::Negotiation;
use crate::hop_control::HopOffer;
use crate::{
    ChannelKey, CircuitIndex, Direction, EndReason, Event, Relay, RelayConfig, StreamKey, Violation,
};
use penstock_units::{Bytes, DataRate, Duration, Instant, Rng, Seed};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) latency: Duration,
    pub(super) rate: DataRate,
    pub(super) send_buffer: u64,
    pub(super) receive_buffer: u64,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            latency: Duration::from_millis(10),
            rate: DataRate::mib(10),
            send_buffer: 64 << 10,
            receive_buffer: 256 << 10,
        }
    }
}

/// The losses, delays and duplicates of datagrams on every link.
#[derive(Debug)]
pub(super) struct Impairments {
    pub(super) loss: f64,
    /// Probability that a datagram takes up to five times as long.
    pub(super) delayed: f64,
    /// Probability that a datagram arrives twice.
    pub(super) duplicated: f64,
    pub(super) rng: Rng,
}

impl Default for Impairments {
    fn default() -> Self {
        Impairments { loss: 0.0, delayed: 0.0, duplicated: 0.0, rng: Seed(1).stream("weather") }
    }
}

/// A connection with both its ends.
#[derive(Debug)]
struct Wire {
    ends: [(usize, ChannelKey); 2],
    link: Link,
    busy_until: [Instant; 2],
    in_flight: [VecDeque<TestCell>; 2],
    open: bool,
}

/// One node and the events that it reported.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) relay: Relay<TestCell>,
    pub(super) host: Host,
    is_client: bool,
    timer: Option<Instant>,
    /// Built circuits of a client.
    pub(super) built: Vec<CircuitIndex>,
    /// The first legs of a client's sets of linked circuits.
    pub(super) linked: Vec<CircuitIndex>,
    /// Messages of onion services, with their circuits.
    pub(super) onion_messages: Vec<(CircuitIndex, u32)>,
    pub(super) closed: Vec<(CircuitIndex, Option<Violation>)>,
    /// The reasons for which exits ended the streams of this client.
    pub(super) ended: Vec<EndReason>,
    /// The maximum length of any circuit queue, forward and backward [cell].
    pub(super) peak_queue: [u64; 2],
}

/// A notification that waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ready {
    Readable(usize, ChannelKey),
    Writable(usize, ChannelKey),
    StreamReadable(usize, StreamKey),
    StreamWritable(usize, StreamKey),
}

/// An event with a time.
#[derive(Clone, Copy, Debug)]
enum TimedEvent {
    Connected(usize, ChannelKey, usize),
    Free(usize, usize),
    Arrives(usize, usize),
    Datagram(usize, usize, u64),
    PeerClosed(usize, ChannelKey, usize),
    StreamConnected(usize, StreamKey, usize),
    Timer(usize),
}

/// Clients, relays, servers and their links. Node 0 is the first client.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) nodes: Vec<Node>,
    pub(super) link: Link,
    links: BTreeMap<(usize, usize), Link>,
    wires: Vec<Wire>,
    ready: VecDeque<Ready>,
    in_ready: BTreeSet<Ready>,
    events: BTreeMap<(Instant, u64), TimedEvent>,
    count: u64,
    keys: u32,
    transfers: Rc<RefCell<Vec<Transfer>>>,
    /// If set, every relay answers each request for congestion control with this.
    pub(super) answer: Option<Negotiation>,
    /// Serves ready sockets in random order instead of in turn.
    pub(super) shuffle: Option<Rng>,
    /// Losses, delays and duplicates of datagrams.
    pub(super) impairments: Impairments,
    datagrams_in_flight: BTreeMap<u64, Datagram>,
}

/// Removes idle timeouts unless a test sets them, so that a path without traffic causes no more events.
fn without_idle_timeouts(mut config: RelayConfig) -> RelayConfig {
    if config.idle_timeouts == IdleTimeouts::default() {
        config.idle_timeouts = IdleTimeouts::NEVER;
    }
    config
}

/// Set up the network.
impl Net {
    /// A client (node 0) and `relays` relays (1, 2, ...) with the same configuration.
    pub(super) fn path(relays: usize, config: &RelayConfig) -> Net {
        let mut net = Net {
            now: Instant::ZERO,
            nodes: Vec::new(),
            link: Link::default(),
            links: BTreeMap::new(),
            wires: Vec::new(),
            ready: VecDeque::new(),
            in_ready: BTreeSet::new(),
            events: BTreeMap::new(),
            count: 0,
            keys: 0,
            transfers: Rc::default(),
            answer: None,
            shuffle: None,
            impairments: Impairments::default(),
            datagrams_in_flight: BTreeMap::new(),
        };
        net.add(true, config.clone());
        (0..relays).for_each(|_| {
            net.add(false, config.clone());
        });
        net
    }

    pub(super) fn add(&mut self, is_client: bool, config: RelayConfig) -> usize {
        let host = Host {
            now: self.now,
            ends: BTreeMap::new(),
            interests: BTreeMap::new(),
            sockets: BTreeMap::new(),
            stream_interests: BTreeMap::new(),
            stream_memory: BTreeMap::new(),
            channel_memory: BTreeMap::new(),
            unfinished: Vec::new(),
            needed: None,
            waiting: None,
            networks: BTreeMap::new(),
            closed: Vec::new(),
            tunnels: false,
            transfers: Rc::clone(&self.transfers),
            writes: Vec::new(),
            reads: Vec::new(),
        };
        let relay = Relay::new(without_idle_timeouts(config), self.now);
        self.nodes.push(Node {
            relay,
            host,
            is_client,
            timer: None,
            built: Vec::new(),
            linked: Vec::new(),
            onion_messages: Vec::new(),
            closed: Vec::new(),
            ended: Vec::new(),
            peak_queue: [0; 2],
        });
        self.schedule_timer(self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Gives `node` another configuration, before the first event.
    pub(super) fn configure(&mut self, node: usize, config: RelayConfig) {
        assert_eq!(self.now, Instant::ZERO);
        self.nodes[node].relay = Relay::new(without_idle_timeouts(config), self.now);
        self.schedule_timer(node);
    }

    /// Sets the link between two nodes, before they connect.
    pub(super) fn set_link(&mut self, a: usize, b: usize, link: Link) {
        self.links.insert((a.min(b), a.max(b)), link);
    }
}

/// Actions of users, operators and peers.
impl Net {
    /// Opens a circuit.
    pub(super) fn open_circuit(&mut self, client: usize, relays: &[usize]) -> CircuitIndex {
        let peers: Vec<_> = relays.iter().map(|node| PeerId(*node as u32)).collect();
        // A node with hop control announces it to the network.
        let path = std::iter::once(&client).chain(relays);
        let controlled = HopOffer::all_along(path.map(|node| self.nodes[*node].relay.hop_offer(false)));
        self.call(client, |relay, now, _| {
            relay.open_circuit(now, peers[0], peers[1..].iter().copied(), controlled)
        })
    }

    /// Opens a circuit and drives the network until the circuit is built.
    pub(super) fn build(&mut self, client: usize, relays: &[usize]) -> CircuitIndex {
        let circuit = self.open_circuit(client, relays);
        assert!(self.drive_until(|net| net.nodes[client].built.contains(&circuit)), "the circuit is built");
        circuit
    }

    /// Opens a stream on which the server sends `download` bytes and the client `upload`.
    pub(super) fn transfer(
        &mut self,
        client: usize,
        circuit: CircuitIndex,
        download: u64,
        upload: u64,
    ) -> usize {
        let index = self.script(download, upload);
        let stream = self
            .call(client, |relay, now, host| relay.open_stream(now, circuit, index, host))
            .expect("the circuit is built");
        self.transfers.borrow_mut()[index].stream = Some(stream);
        self.nodes[client].host.sockets.insert(stream, (index, Side::Client));
        index
    }

    /// Registers a transfer whose stream is not open yet, and returns its index.
    pub(super) fn script(&mut self, download: u64, upload: u64) -> usize {
        let (download, upload) = (Flow::new(download), Flow::new(upload));
        let transfer = Transfer { stream: None, download, upload, connected: false, closed: [false; 2] };
        self.transfers.borrow_mut().push(transfer);
        self.transfers() - 1
    }

    pub(super) fn stall(&mut self, transfer: usize, side: Side, stalled: bool) {
        self.transfers.borrow_mut()[transfer].sink(side).stalled = stalled;
        (0..self.nodes.len()).for_each(|node| self.notify(node));
    }

    /// Lets the reader take `bytes` more and then stop.
    pub(super) fn allow_read(&mut self, transfer: usize, side: Side, read_quota: u64) {
        self.transfers.borrow_mut()[transfer].sink(side).read_quota = read_quota;
        (0..self.nodes.len()).for_each(|node| self.notify(node));
    }

    pub(super) fn at(&self, transfer: usize) -> Transfer {
        self.transfers.borrow()[transfer].clone()
    }

    pub(super) fn transfers(&self) -> usize {
        self.transfers.borrow().len()
    }

    /// The channel of `node` to `peer`.
    pub(super) fn channel(&self, node: usize, peer: usize) -> Option<ChannelKey> {
        self.nodes[node].host.ends.iter().find_map(|(channel, end)| {
            (self.wires[end.wire].ends[1 - end.side].0 == peer).then_some(*channel)
        })
    }

    /// Delivers a cell at `node` as if `from` had sent it.
    pub(super) fn inject(&mut self, from: usize, node: usize, cell: TestCell) {
        let channel = self.channel(node, from).expect("the nodes are connected");
        let end = self.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
        end.arrived.push_back(cell);
        self.notify(node);
    }

    /// Delivers a datagram at `node` as if `from` had sent it, if the two nodes are connected.
    pub(super) fn deliver(&mut self, from: usize, node: usize, datagram: Datagram) {
        let Some(channel) = self.channel(node, from) else { return };
        let end = self.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
        end.received_datagrams.push_back(datagram);
        self.notify(node);
    }

    /// Delivers several cells in one call.
    pub(super) fn inject_all(&mut self, from: usize, node: usize, cells: impl IntoIterator<Item = TestCell>) {
        cells.into_iter().for_each(|cell| self.inject(from, node, cell));
    }

    /// The cells in transit from `node` to `peer`, which a test may change.
    pub(super) fn in_transit(&mut self, node: usize, peer: usize) -> impl Iterator<Item = &mut TestCell> {
        let channel = self.channel(node, peer).expect("the nodes are connected");
        let end = self.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
        self.wires[end.wire].in_flight[end.side].iter_mut().chain(&mut end.sending)
    }

    /// Breaks the connection between two nodes.
    pub(super) fn disconnect(&mut self, node: usize, peer: usize) {
        if let Some(channel) = self.channel(node, peer) {
            self.close_channel(node, channel);
            self.call(node, |relay, now, host| relay.on_channel_closed(now, channel, host));
        }
    }

    /// The index of a client's circuit at `node`, which is at most three relays away.
    pub(super) fn circuit_at(
        &self,
        client: usize,
        circuit: CircuitIndex,
        node: usize,
    ) -> Option<CircuitIndex> {
        let (mut place, mut index) = (client, circuit);
        while place != node {
            let (channel, id) = self.nodes[place].relay.leg(index, Direction::Forward)?;
            let end = self.nodes[place].host.ends.get(&channel)?;
            let (next, key) = self.wires[end.wire].ends[1 - end.side];
            index = self.nodes[next].relay.circuit_on(key, id)?;
            place = next;
        }
        Some(index)
    }
}

/// Run the network.
impl Net {
    /// Runs until no event is left.
    pub(super) fn drive(&mut self) {
        assert!(!self.drive_until(|_| false));
    }

    /// Runs until `done` returns true. Returns false if no event is left before.
    pub(super) fn drive_until(&mut self, done: impl Fn(&Net) -> bool) -> bool {
        for _ in 0..5_000_000 {
            if done(self) {
                return true;
            }
            if !self.step() {
                return false;
            }
        }
        panic!("the path never comes to rest")
    }

    pub(super) fn drive_for(&mut self, span: Duration) {
        let end = self.now + span;
        while !self.ready.is_empty() || self.events.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Runs two long downloads over three relays. Returns the circuit, the downloaded bytes in ten seconds of the
    /// steady state [B], and the median of the circuit queue at the middle [cell].
    pub(super) fn two_downloads(&mut self) -> (CircuitIndex, u64, u64) {
        let circuit = self.build(0, &[1, 2, 3]);
        let transfers = [0; 2].map(|_| self.transfer(0, circuit, 20_000_000, 0));
        let received = |net: &Net| transfers.iter().map(|at| net.at(*at).download.received).sum::<u64>();
        self.drive_for(Duration::from_secs(10));
        let middle = self.circuit_at(0, circuit, 2).expect("the circuit is there");
        let (before, mut queues) = (received(self), Vec::new());
        for _ in 0..100 {
            self.drive_for(Duration::from_millis(100));
            let queue = self.nodes[2].relay.circuit_queue(middle, Direction::Backward).unwrap().get();
            queues.push(queue);
        }
        queues.sort_unstable();
        (circuit, received(self) - before, queues[50])
    }

    /// Handles one notification, or the next event if there is none.
    pub(super) fn step(&mut self) -> bool {
        if let Some(ready) = self.next_ready() {
            self.serve(ready);
        } else if let Some(((at, _), event)) = self.events.pop_first() {
            self.now = self.now.max(at);
            self.handle_event(event);
        } else {
            return false;
        }
        true
    }

    fn next_ready(&mut self) -> Option<Ready> {
        if let Some(rng) = &mut self.shuffle
            && !self.ready.is_empty()
        {
            let place = rng.below(self.ready.len() as u64) as usize;
            self.ready.swap(0, place);
        }
        let ready = self.ready.pop_front()?;
        self.in_ready.remove(&ready);
        Some(ready)
    }

    fn serve(&mut self, ready: Ready) {
        let (node, host) = match ready {
            Ready::Readable(node, _) | Ready::Writable(node, _) => (node, &self.nodes[node].host),
            Ready::StreamReadable(node, _) | Ready::StreamWritable(node, _) => (node, &self.nodes[node].host),
        };
        // The socket may no longer be ready.
        match ready {
            Ready::Readable(_, channel) if host.is_readable(channel) => {
                self.call(node, |relay, now, host| relay.on_readable(now, channel, host));
            }
            Ready::Writable(_, channel) if host.is_writable(channel) => {
                self.call(node, |relay, now, host| relay.on_writable(now, channel, host));
            }
            Ready::StreamReadable(_, stream) if host.stream_is_readable(stream) => {
                self.call(node, |relay, now, host| relay.on_stream_readable(now, stream, host));
            }
            Ready::StreamWritable(_, stream) if host.stream_is_writable(stream) => {
                self.call(node, |relay, now, host| relay.on_stream_writable(now, stream, host));
            }
            _ => {}
        }
    }

    fn handle_event(&mut self, event: TimedEvent) {
        match event {
            TimedEvent::Connected(node, channel, peer) => self.connected(node, channel, peer),
            TimedEvent::Free(wire, side) => self.transmit_cell(wire, side),
            TimedEvent::Arrives(wire, side) => {
                let Some(cell) = self.wires[wire].in_flight[side].pop_front() else { return };
                let (node, channel) = self.wires[wire].ends[1 - side];
                if let Some(end) = self.nodes[node].host.ends.get_mut(&channel) {
                    end.arrived.push_back(cell);
                }
                self.notify(node);
            }
            TimedEvent::Datagram(wire, side, datagram) => {
                let datagram =
                    self.datagrams_in_flight.remove(&datagram).expect("each datagram arrives once");
                let room = self.wires[wire].link.receive_buffer;
                let (node, channel) = self.wires[wire].ends[1 - side];
                if let Some(end) = self.nodes[node].host.ends.get_mut(&channel)
                    && end.wire == wire
                    && end.received_datagrams.iter().map(datagram_size).sum::<u64>() < room
                {
                    end.received_datagrams.push_back(datagram);
                }
                self.notify(node);
            }
            TimedEvent::PeerClosed(node, channel, wire) => {
                if self.nodes[node].host.ends.get(&channel).is_none_or(|end| end.wire != wire) {
                    return;
                }
                self.nodes[node].host.ends.remove(&channel);
                self.call(node, |relay, now, host| relay.on_channel_closed(now, channel, host));
            }
            TimedEvent::StreamConnected(node, stream, transfer) => {
                if self.nodes[node].host.sockets.get(&stream) == Some(&(transfer, Side::Server)) {
                    self.call(node, |relay, now, host| relay.on_stream_connected(now, stream, (), host));
                }
            }
            TimedEvent::Timer(node) => {
                self.nodes[node].timer = None;
                self.call(node, |relay, now, host| relay.on_timer(now, host));
            }
        }
    }

    fn connected(&mut self, node: usize, channel: ChannelKey, peer: usize) {
        let link = self.links.get(&(node.min(peer), node.max(peer))).copied().unwrap_or(self.link);
        let wire = self.wires.len();
        let to_client = self.nodes[node].is_client;
        let accepted =
            self.call(peer, |relay, now, _| relay.accept_channel(now, PeerId(node as u32), to_client));
        self.wires.push(Wire {
            ends: [(node, channel), (peer, accepted)],
            link,
            busy_until: [self.now; 2],
            in_flight: Default::default(),
            open: true,
        });
        for (side, (node, channel)) in [(node, channel), (peer, accepted)].into_iter().enumerate() {
            let (sending, arrived) = (VecDeque::new(), VecDeque::new());
            let (outgoing_datagrams, received_datagrams) = (Vec::new(), VecDeque::new());
            let end = End {
                wire,
                side,
                send_buffer: link.send_buffer,
                sending,
                arrived,
                outgoing_datagrams,
                received_datagrams,
            };
            self.nodes[node].host.ends.insert(channel, end);
        }
        if [node, peer].iter().all(|end| self.nodes[*end].relay.speaks_datagrams()) {
            self.nodes[node].relay.use_datagrams(channel);
            self.nodes[peer].relay.use_datagrams(accepted);
        }
        let with_client = [node, peer].iter().any(|end| self.nodes[*end].is_client);
        let [ours, theirs] = [node, peer].map(|end| self.nodes[end].relay.hop_offer(with_client));
        self.call(node, |relay, now, host| relay.on_channel_open(now, channel, theirs, host));
        self.call(peer, |relay, now, host| relay.on_channel_open(now, accepted, ours, host));
    }
}

/// Call relays and handle their events.
impl Net {
    /// Calls a node's relay, then handles its events.
    pub(super) fn call<T>(
        &mut self,
        node: usize,
        call: impl FnOnce(&mut Relay<TestCell>, Instant, &mut Host) -> T,
    ) -> T {
        let now = self.now;
        let Node { relay, host, .. } = &mut self.nodes[node];
        host.now = now;
        let result = call(relay, now, host);
        while let Some(event) = self.nodes[node].relay.poll_event() {
            self.on_event(node, event);
        }
        for channel in std::mem::take(&mut self.nodes[node].host.closed) {
            self.close_channel(node, channel);
        }
        let ends = &self.nodes[node].host.ends;
        for (wire, side) in ends.values().map(|end| (end.wire, end.side)).collect::<Vec<_>>() {
            self.transmit_cell(wire, side);
            self.transmit_cell(wire, 1 - side);
            self.transmit_datagrams(wire, side);
        }
        self.schedule_timer(node);
        self.notify(node);
        self.check_conservation(node);
        result
    }

    fn on_event(&mut self, node: usize, event: Event<TestCell>) {
        let now = self.now;
        let Node { relay, host, built, linked, onion_messages, closed, ended, .. } = &mut self.nodes[node];
        match event {
            Event::Connect { channel, peer } => {
                let peer = peer.0 as usize;
                let latency = self.links.get(&(node.min(peer), node.max(peer))).unwrap_or(&self.link).latency;
                self.schedule(now + latency + latency, TimedEvent::Connected(node, channel, peer));
            }
            Event::HandshakeNeeded { circuit, ask, .. } => {
                self.keys += 1;
                relay.start_handshake(now, circuit, TestHandshake { key: self.keys, congestion: ask }, host);
            }
            Event::HandshakeRequested { circuit, handshake: TestHandshake { key, congestion } } => {
                let answer = self.answer.unwrap_or_else(|| relay.agree(circuit)(congestion));
                let reply = TestHandshake { key, congestion: answer };
                relay.on_handshake(now, circuit, reply, Layer::new(key), answer, host);
            }
            Event::ExtendRequested { circuit, to, handshake } => {
                relay.extend(now, circuit, to, handshake, host)
            }
            Event::HandshakeAnswered { circuit, handshake: TestHandshake { key, congestion } } => {
                relay.finish_handshake(now, circuit, Layer::new(key), congestion, host);
            }
            Event::CircuitBuilt { circuit } => built.push(circuit),
            Event::CircuitsLinked { circuit } => linked.push(circuit),
            Event::OnionService { circuit, message } => onion_messages.push((circuit, message)),
            Event::CircuitClosed { circuit, violation } => {
                built.retain(|other| *other != circuit);
                closed.push((circuit, violation));
            }
            Event::StreamRequested { stream, target } => {
                host.sockets.insert(stream, (target, Side::Server));
                self.schedule(
                    now + Duration::from_millis(1),
                    TimedEvent::StreamConnected(node, stream, target),
                );
            }
            Event::StreamConnected { stream } => {
                let (transfer, _) = host.sockets[&stream];
                let before = std::mem::replace(&mut self.transfers.borrow_mut()[transfer].connected, true);
                assert!(!before, "a stream connects once");
            }
            Event::StreamEnded { end, .. } => ended.push(end),
            Event::StreamClosed { .. } | Event::Tracked { .. } => {}
        }
    }

    fn schedule(&mut self, at: Instant, event: TimedEvent) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    fn schedule_timer(&mut self, node: usize) {
        let wanted = self.nodes[node].relay.poll_timeout();
        if let Some(at) = wanted
            && self.nodes[node].timer.is_none_or(|timer| at < timer)
        {
            self.nodes[node].timer = Some(at);
            self.schedule(at, TimedEvent::Timer(node));
        }
    }

    /// Sends one cell if the connection has space for it.
    fn transmit_cell(&mut self, wire: usize, side: usize) {
        let state = &mut self.wires[wire];
        let (node, channel) = state.ends[side];
        let (peer, peer_channel) = state.ends[1 - side];
        let Some(other) = self.nodes[peer].host.ends.get(&peer_channel) else { return };
        let unread = size(&other.arrived) + size(&state.in_flight[side]);
        if !state.open || state.busy_until[side] > self.now || unread + 512 > state.link.receive_buffer {
            return;
        }
        let Some(end) = self.nodes[node].host.ends.get_mut(&channel) else { return };
        let Some(cell) = end.sending.pop_front() else { return };
        let free = self.now + Bytes::new(512) / state.link.rate;
        let arrives = free + state.link.latency;
        state.busy_until[side] = free;
        state.in_flight[side].push_back(cell);
        self.schedule(free, TimedEvent::Free(wire, side));
        self.schedule(arrives, TimedEvent::Arrives(wire, side));
        self.notify(node);
    }

    /// Sends datagrams one after the other at the link's rate. If the send buffer is full, the
    /// datagram is lost.
    fn transmit_datagrams(&mut self, wire: usize, side: usize) {
        let state = &mut self.wires[wire];
        let (node, channel) = state.ends[side];
        let Some(end) = self.nodes[node].host.ends.get_mut(&channel) else { return };
        for datagram in std::mem::take(&mut end.outgoing_datagrams) {
            let Impairments { loss, delayed, duplicated, .. } = self.impairments;
            let rng = &mut self.impairments.rng;
            let state = &mut self.wires[wire];
            let start = state.busy_until[side].max(self.now);
            if state.link.rate.bytes_in(start.since(self.now)).get() > state.link.send_buffer
                || rng.bernoulli(loss)
            {
                continue;
            }
            let free = start + Bytes::new(datagram_size(&datagram)) / state.link.rate;
            state.busy_until[side] = free;
            let latency = state.link.latency;
            let mut times = Vec::new();
            let copies = if rng.bernoulli(duplicated) { 2 } else { 1 };
            for _ in 0..copies {
                let slow = if rng.bernoulli(delayed) { rng.below(4 * latency.as_nanos() as u64) } else { 0 };
                times.push(free + latency + Duration::from_nanos(slow));
            }
            for at in times {
                self.count += 1;
                self.datagrams_in_flight.insert(self.count, datagram.clone());
                self.schedule(at, TimedEvent::Datagram(wire, side, self.count));
            }
        }
    }

    fn close_channel(&mut self, node: usize, channel: ChannelKey) {
        let host = &mut self.nodes[node].host;
        host.interests.remove(&channel);
        let Some(end) = host.ends.remove(&channel) else { return };
        let wire = &mut self.wires[end.wire];
        wire.open = false;
        wire.in_flight = Default::default();
        let (peer, peer_channel) = wire.ends[1 - end.side];
        let at = self.now + wire.link.latency;
        self.schedule(at, TimedEvent::PeerClosed(peer, peer_channel, end.wire));
    }

    /// Adds ready sockets to the end of the queue if the relay waits for them.
    fn notify(&mut self, node: usize) {
        let host = &self.nodes[node].host;
        let channels = host.ends.keys().flat_map(|channel| {
            let readable = host.is_readable(*channel).then_some(Ready::Readable(node, *channel));
            let writable = host.is_writable(*channel).then_some(Ready::Writable(node, *channel));
            [readable, writable]
        });
        let streams = host.sockets.keys().flat_map(|stream| {
            let readable = host.stream_is_readable(*stream).then_some(Ready::StreamReadable(node, *stream));
            let writable = host.stream_is_writable(*stream).then_some(Ready::StreamWritable(node, *stream));
            [readable, writable]
        });
        for ready in channels.chain(streams).flatten() {
            if self.in_ready.insert(ready) {
                self.ready.push_back(ready);
            }
        }
    }

    /// G-02: each cell that entered a relay has left it, is stored there, or was consumed there.
    fn check_conservation(&mut self, node: usize) {
        let Node { relay, peak_queue, .. } = &mut self.nodes[node];
        let counters = relay.counters();
        let held = relay.queued() + relay.outbuf_cells();
        assert_eq!(
            counters.received + counters.made,
            counters.sent + counters.consumed + counters.dropped + held.get(),
            "node {node} conserves its cells: {counters:?}, {held:?} held",
        );
        assert_eq!(relay.outbuf_bytes().get(), relay.outbuf_cells().get() * 512);
        for circuit in relay.circuits() {
            for (direction, peak) in
                [Direction::Forward, Direction::Backward].into_iter().zip(&mut *peak_queue)
            {
                *peak = (*peak).max(relay.circuit_queue(circuit, direction).map_or(0, |cells| cells.get()));
            }
        }
    }
}
