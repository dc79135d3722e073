//! The world of these tests: one thread, one clock, everything in order.
//!
//! A link is a reliable pipe with a send buffer, a rate, a latency and a receive buffer whose free
//! room is known to the sender at once. After every call the node that was called must conserve its cells (G-02).

use super::cell::{Hello, Layer, TestCell};
use super::host::{End, Flow, Host, Letter, Side, Transfer, letter_size, size};
use crate::cell::PeerId;
use crate::config::IdleTimeouts;
use crate::edge_control::Negotiation;
use crate::hop_control::HopOffer;
use crate::{ChannelKey, CircuitIndex, Direction, Event, Relay, RelayConfig, StreamKey, Violation};
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

/// The fate of datagrams on every link.
#[derive(Debug)]
pub(super) struct Weather {
    pub(super) loss: f64,
    /// How likely one takes up to five times as long.
    pub(super) late: f64,
    /// How likely one comes twice.
    pub(super) twice: f64,
    pub(super) chance: Rng,
}

impl Default for Weather {
    fn default() -> Self {
        Weather { loss: 0.0, late: 0.0, twice: 0.0, chance: Seed(1).stream("weather") }
    }
}

/// A connection, seen from neither end.
#[derive(Debug)]
struct Wire {
    ends: [(usize, ChannelKey); 2],
    link: Link,
    busy_until: [Instant; 2],
    flying: [VecDeque<TestCell>; 2],
    open: bool,
}

/// One node and its events so far.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) relay: Relay<TestCell>,
    pub(super) host: Host,
    is_client: bool,
    timer: Option<Instant>,
    /// Built circuits of a client.
    pub(super) built: Vec<CircuitIndex>,
    pub(super) closed: Vec<(CircuitIndex, Option<Violation>)>,
    /// The longest that any circuit's queue was, forward and backward [cell].
    pub(super) peak_queue: [u64; 2],
}

/// A notification that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ready {
    Readable(usize, ChannelKey),
    Writable(usize, ChannelKey),
    StreamReadable(usize, StreamKey),
    StreamWritable(usize, StreamKey),
}

/// Something that happens at its time.
#[derive(Clone, Copy, Debug)]
enum Due {
    Connected(usize, ChannelKey, usize),
    Free(usize, usize),
    Arrives(usize, usize),
    Letter(usize, usize, u64),
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
    agenda: BTreeMap<(Instant, u64), Due>,
    count: u64,
    keys: u32,
    transfers: Rc<RefCell<Vec<Transfer>>>,
    /// The relays' answer about congestion control to any request.
    pub(super) answer: Option<Negotiation>,
    /// Serves ready sockets in random order instead of in turn.
    pub(super) shuffle: Option<Rng>,
    /// The fate of datagrams.
    pub(super) weather: Weather,
    letters: BTreeMap<u64, Letter>,
}

/// Channels stay open unless a test asks for something else: a path comes to rest when its circuits do, not minutes later.
fn restful(mut config: RelayConfig) -> RelayConfig {
    if config.idle_timeouts == IdleTimeouts::default() {
        config.idle_timeouts = IdleTimeouts::NEVER;
    }
    config
}

/// Making a world.
impl Net {
    /// A client (node 0) and `relays` relays (1, 2, ..), all set up alike.
    pub(super) fn path(relays: usize, config: &RelayConfig) -> Net {
        let mut net = Net {
            now: Instant::ZERO,
            nodes: Vec::new(),
            link: Link::default(),
            links: BTreeMap::new(),
            wires: Vec::new(),
            ready: VecDeque::new(),
            in_ready: BTreeSet::new(),
            agenda: BTreeMap::new(),
            count: 0,
            keys: 0,
            transfers: Rc::default(),
            answer: None,
            shuffle: None,
            weather: Weather::default(),
            letters: BTreeMap::new(),
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
            closed: Vec::new(),
            transfers: Rc::clone(&self.transfers),
            writes: Vec::new(),
            reads: Vec::new(),
        };
        let relay = Relay::new(restful(config), self.now);
        self.nodes.push(Node {
            relay,
            host,
            is_client,
            timer: None,
            built: Vec::new(),
            closed: Vec::new(),
            peak_queue: [0; 2],
        });
        self.schedule_timer(self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Gives `node` another configuration; before anything happened.
    pub(super) fn configure(&mut self, node: usize, config: RelayConfig) {
        assert_eq!(self.now, Instant::ZERO);
        self.nodes[node].relay = Relay::new(restful(config), self.now);
        self.schedule_timer(node);
    }

    /// The link between two nodes; before they connect.
    pub(super) fn set_link(&mut self, a: usize, b: usize, link: Link) {
        self.links.insert((a.min(b), a.max(b)), link);
    }
}

/// The users and operators.
impl Net {
    /// Begins a circuit.
    pub(super) fn open_circuit(&mut self, client: usize, relays: &[usize]) -> CircuitIndex {
        let peers: Vec<_> = relays.iter().map(|node| PeerId(*node as u32)).collect();
        // A node that controls its hops announces it to the network.
        let path = std::iter::once(&client).chain(relays);
        let controlled = HopOffer::all_along(path.map(|node| self.nodes[*node].relay.hop_offer(false)));
        self.call(client, |relay, now, _| {
            relay.open_circuit(now, peers[0], peers[1..].iter().copied(), controlled)
        })
    }

    /// Begins a circuit and drives until it is built.
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

    /// A server's part of a stream that is still to be opened.
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

    /// The reader takes so much more and then nothing [B].
    pub(super) fn feed(&mut self, transfer: usize, side: Side, appetite: u64) {
        self.transfers.borrow_mut()[transfer].sink(side).appetite = appetite;
        (0..self.nodes.len()).for_each(|node| self.notify(node));
    }

    pub(super) fn at(&self, transfer: usize) -> Transfer {
        self.transfers.borrow()[transfer].clone()
    }

    pub(super) fn transfers(&self) -> usize {
        self.transfers.borrow().len()
    }

    /// The channel that `node` has to `peer`.
    pub(super) fn channel(&self, node: usize, peer: usize) -> Option<ChannelKey> {
        self.nodes[node].host.ends.iter().find_map(|(channel, end)| {
            (self.wires[end.wire].ends[1 - end.side].0 == peer).then_some(*channel)
        })
    }

    /// A cell arrives at `node` as if `from` had sent it.
    pub(super) fn inject(&mut self, from: usize, node: usize, cell: TestCell) {
        let channel = self.channel(node, from).expect("the nodes are connected");
        let end = self.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
        end.arrived.push_back(cell);
        self.notify(node);
    }

    /// A datagram arrives at `node` as if `from` had sent it, if they are connected.
    pub(super) fn deliver(&mut self, from: usize, node: usize, letter: Letter) {
        let Some(channel) = self.channel(node, from) else { return };
        let end = self.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
        end.mail.push_back(letter);
        self.notify(node);
    }

    /// Several cells arrive at once.
    pub(super) fn inject_all(&mut self, from: usize, node: usize, cells: impl IntoIterator<Item = TestCell>) {
        cells.into_iter().for_each(|cell| self.inject(from, node, cell));
    }

    /// Cells on their way from `node` to `peer`, which a test can forge.
    pub(super) fn under_way(&mut self, node: usize, peer: usize) -> impl Iterator<Item = &mut TestCell> {
        let channel = self.channel(node, peer).expect("the nodes are connected");
        let end = self.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
        self.wires[end.wire].flying[end.side].iter_mut().chain(&mut end.sending)
    }

    /// The connection between two nodes breaks.
    pub(super) fn disconnect(&mut self, node: usize, peer: usize) {
        if let Some(channel) = self.channel(node, peer) {
            self.hang_up(node, channel);
            self.call(node, |relay, now, host| relay.on_channel_closed(now, channel, host));
        }
    }

    /// The circuit of `client` as `node` knows it, at most three relays on.
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

/// Time passes.
impl Net {
    /// Until nothing happens any more.
    pub(super) fn drive(&mut self) {
        assert!(!self.drive_until(|_| false));
    }

    /// Until `done`, or nothing happens any more: then false.
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
        while !self.ready.is_empty() || self.agenda.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Two endless downloads over a path of three relays: the circuit, their bytes in ten seconds in
    /// steady state [B], and the median of the circuit's queue at the middle [cell].
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

    /// One notification, or the next event if there is none.
    pub(super) fn step(&mut self) -> bool {
        if let Some(ready) = self.next_ready() {
            self.serve(ready);
        } else if let Some(((at, _), due)) = self.agenda.pop_first() {
            self.now = self.now.max(at);
            self.happen(due);
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
        // The socket may not be ready any more.
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

    fn happen(&mut self, due: Due) {
        match due {
            Due::Connected(node, channel, peer) => self.connected(node, channel, peer),
            Due::Free(wire, side) => self.pump(wire, side),
            Due::Arrives(wire, side) => {
                let Some(cell) = self.wires[wire].flying[side].pop_front() else { return };
                let (node, channel) = self.wires[wire].ends[1 - side];
                if let Some(end) = self.nodes[node].host.ends.get_mut(&channel) {
                    end.arrived.push_back(cell);
                }
                self.notify(node);
            }
            Due::Letter(wire, side, letter) => {
                let letter = self.letters.remove(&letter).expect("each arrives once");
                let room = self.wires[wire].link.receive_buffer;
                let (node, channel) = self.wires[wire].ends[1 - side];
                if let Some(end) = self.nodes[node].host.ends.get_mut(&channel)
                    && end.wire == wire
                    && end.mail.iter().map(letter_size).sum::<u64>() < room
                {
                    end.mail.push_back(letter);
                }
                self.notify(node);
            }
            Due::PeerClosed(node, channel, wire) => {
                if self.nodes[node].host.ends.get(&channel).is_none_or(|end| end.wire != wire) {
                    return;
                }
                self.nodes[node].host.ends.remove(&channel);
                self.call(node, |relay, now, host| relay.on_channel_closed(now, channel, host));
            }
            Due::StreamConnected(node, stream, transfer) => {
                if self.nodes[node].host.sockets.get(&stream) == Some(&(transfer, Side::Server)) {
                    self.call(node, |relay, now, host| relay.on_stream_connected(now, stream, (), host));
                }
            }
            Due::Timer(node) => {
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
            flying: Default::default(),
            open: true,
        });
        for (side, (node, channel)) in [(node, channel), (peer, accepted)].into_iter().enumerate() {
            let (sending, arrived) = (VecDeque::new(), VecDeque::new());
            let (letters, mail) = (Vec::new(), VecDeque::new());
            let end = End { wire, side, send_buffer: link.send_buffer, sending, arrived, letters, mail };
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

/// After every call.
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
            self.hang_up(node, channel);
        }
        let ends = &self.nodes[node].host.ends;
        for (wire, side) in ends.values().map(|end| (end.wire, end.side)).collect::<Vec<_>>() {
            self.pump(wire, side);
            self.pump(wire, 1 - side);
            self.post(wire, side);
        }
        self.schedule_timer(node);
        self.notify(node);
        self.check(node);
        result
    }

    fn on_event(&mut self, node: usize, event: Event<TestCell>) {
        let now = self.now;
        let Node { relay, host, built, closed, .. } = &mut self.nodes[node];
        match event {
            Event::Connect { channel, peer } => {
                let peer = peer.0 as usize;
                let latency = self.links.get(&(node.min(peer), node.max(peer))).unwrap_or(&self.link).latency;
                self.plan(now + latency + latency, Due::Connected(node, channel, peer));
            }
            Event::HandshakeNeeded { circuit, ask, .. } => {
                self.keys += 1;
                relay.start_handshake(now, circuit, Hello { key: self.keys, congestion: ask }, host);
            }
            Event::HandshakeRequested { circuit, handshake: Hello { key, congestion } } => {
                let answer = self.answer.unwrap_or_else(|| relay.agree(circuit)(congestion));
                let reply = Hello { key, congestion: answer };
                relay.on_handshake(now, circuit, reply, Layer::new(key), answer, host);
            }
            Event::ExtendRequested { circuit, to, handshake } => {
                relay.extend(now, circuit, to, handshake, host)
            }
            Event::HandshakeAnswered { circuit, handshake: Hello { key, congestion } } => {
                relay.finish_handshake(now, circuit, Layer::new(key), congestion, host);
            }
            Event::CircuitBuilt { circuit } => built.push(circuit),
            Event::CircuitClosed { circuit, violation } => {
                built.retain(|other| *other != circuit);
                closed.push((circuit, violation));
            }
            Event::StreamRequested { stream, target } => {
                host.sockets.insert(stream, (target, Side::Server));
                self.plan(now + Duration::from_millis(1), Due::StreamConnected(node, stream, target));
            }
            Event::StreamConnected { stream } => {
                let (transfer, _) = host.sockets[&stream];
                let before = std::mem::replace(&mut self.transfers.borrow_mut()[transfer].connected, true);
                assert!(!before, "a stream is connected once");
            }
            Event::StreamClosed { .. } | Event::Tracked { .. } => {}
        }
    }

    fn plan(&mut self, at: Instant, due: Due) {
        self.count += 1;
        self.agenda.insert((at, self.count), due);
    }

    fn schedule_timer(&mut self, node: usize) {
        let wanted = self.nodes[node].relay.poll_timeout();
        if let Some(at) = wanted
            && self.nodes[node].timer.is_none_or(|timer| at < timer)
        {
            self.nodes[node].timer = Some(at);
            self.plan(at, Due::Timer(node));
        }
    }

    /// Sends as much as the wire takes now.
    fn pump(&mut self, wire: usize, side: usize) {
        let state = &mut self.wires[wire];
        let (node, channel) = state.ends[side];
        let (peer, peer_channel) = state.ends[1 - side];
        let Some(other) = self.nodes[peer].host.ends.get(&peer_channel) else { return };
        let unread = size(&other.arrived) + size(&state.flying[side]);
        if !state.open || state.busy_until[side] > self.now || unread + 512 > state.link.receive_buffer {
            return;
        }
        let Some(end) = self.nodes[node].host.ends.get_mut(&channel) else { return };
        let Some(cell) = end.sending.pop_front() else { return };
        let free = self.now + Bytes::new(512) / state.link.rate;
        let arrives = free + state.link.latency;
        state.busy_until[side] = free;
        state.flying[side].push_back(cell);
        self.plan(free, Due::Free(wire, side));
        self.plan(arrives, Due::Arrives(wire, side));
        self.notify(node);
    }

    /// Sends datagrams one after the other at the link's rate. A datagram that finds its buffer full is
    /// lost.
    fn post(&mut self, wire: usize, side: usize) {
        let state = &mut self.wires[wire];
        let (node, channel) = state.ends[side];
        let Some(end) = self.nodes[node].host.ends.get_mut(&channel) else { return };
        for letter in std::mem::take(&mut end.letters) {
            let Weather { loss, late, twice, .. } = self.weather;
            let chance = &mut self.weather.chance;
            let state = &mut self.wires[wire];
            let start = state.busy_until[side].max(self.now);
            if state.link.rate.bytes_in(start.since(self.now)).get() > state.link.send_buffer
                || chance.bernoulli(loss)
            {
                continue;
            }
            let free = start + Bytes::new(letter_size(&letter)) / state.link.rate;
            state.busy_until[side] = free;
            let latency = state.link.latency;
            let mut times = Vec::new();
            let copies = if chance.bernoulli(twice) { 2 } else { 1 };
            for _ in 0..copies {
                let slow =
                    if chance.bernoulli(late) { chance.below(4 * latency.as_nanos() as u64) } else { 0 };
                times.push(free + latency + Duration::from_nanos(slow));
            }
            for at in times {
                self.count += 1;
                self.letters.insert(self.count, letter.clone());
                self.plan(at, Due::Letter(wire, side, self.count));
            }
        }
    }

    fn hang_up(&mut self, node: usize, channel: ChannelKey) {
        let host = &mut self.nodes[node].host;
        host.interests.remove(&channel);
        let Some(end) = host.ends.remove(&channel) else { return };
        let wire = &mut self.wires[end.wire];
        wire.open = false;
        wire.flying = Default::default();
        let (peer, peer_channel) = wire.ends[1 - end.side];
        let at = self.now + wire.link.latency;
        self.plan(at, Due::PeerClosed(peer, peer_channel, end.wire));
    }

    /// Adds ready and wanted sockets to the end of the queue.
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

    /// G-02: per relay, cells in = cells out + stored + consumed.
    fn check(&mut self, node: usize) {
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
