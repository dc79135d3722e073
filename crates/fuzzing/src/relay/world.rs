//! A relay, its kernel and its peers, and the invariants that must hold after each step.

use super::client::{Circuit, body};
use super::host::{Host, Pipe, Server};
use super::settings;
use crate::choices::Choices;
use crate::test_relays::{identities, seeded_rng};
use penstock_core::edge_control::{Congestion, Negotiation};
use penstock_core::hop_control::HopOffer;
use penstock_core::{
    Cell, ChannelKey, CircId, CircuitIndex, DestroyReason, Direction, EndReason, Event, PeerId, Relay,
    RelayConfig, StreamKey,
};
use penstock_link::cell::{
    CELL_LEN, Connected, End, Extended, Handshake, LinkSpec, LiveCell, OnionService, OnionServiceCommand,
    Resolved, StreamEnd, Target, command,
};
use penstock_link::crypto::answer;
use penstock_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;

/// Size of each honest client's download [B]. It is larger than 100 cells, so the client must send a SENDME.
const DOWNLOAD: u64 = 105 * 498;
/// Maximum number of loop iterations until the relay is idle [1].
const MAX_TURNS: u32 = 50_000;
/// Time limit of the honest downloads. Each of 200 steps can queue 520 other cells, and a throttle can slow the relay.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// A time that is longer than the interval of any scheduler.
const LONG_INTERVAL: Duration = Duration::from_millis(200);
/// Number of cells of the edge and of streams that a circuit queue may hold above its limit [cell].
const SLACK: u64 = 400;

/// The states that an input reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Circuits that were built by clients, except honest ones [1].
    pub circuits: u32,
    /// Circuits that were extended [1].
    pub extended: u32,
    /// Cells that were forwarded to another relay, and cells from that relay [cell].
    pub forwarded: [u32; 2],
    /// Streams that were opened [1].
    pub streams: u32,
    /// Circuit SENDMEs that the relay accepted [1].
    pub sendmes: u32,
    /// Protocol violations for which the relay closed circuits.
    pub violations: BTreeSet<String>,
    /// XOFF and XON messages that the relay sent [1].
    pub flow: [u64; 2],
    /// DATA cells that the relay packaged, and DATA cells that it delivered [cell].
    pub data: [u64; 2],
    /// Channels that the relay closed [1].
    pub channels_closed: u32,
    /// Circuits that the out-of-memory handler closed [1].
    pub oom_closed: u64,
    /// Circuits that were linked [1].
    pub linked: u64,
    /// The longest queue of messages that waited for earlier ones [1].
    pub reordering: u64,
    /// Pairs of circuits that were joined at a rendezvous point [1].
    pub joined: u32,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) key: ChannelKey,
    pub(super) ours: bool,
    pub(super) reads: bool,
    /// Whether the peer has ever stopped reading.
    pub(super) stopped_reading: bool,
    /// Ids of the circuits that the relay extended over this link.
    pub(super) ids: Vec<CircId>,
    /// Whether a throttle slows the relay. The relay may then close the channel of a peer that reads.
    slow: bool,
    /// Bytes that the peer sent in the last interval [B], and the start of the interval. The answers may overflow an
    /// output buffer if the scheduler writes rarely.
    burst: (usize, Instant),
}

pub(super) struct World {
    pub(super) relay: Relay<LiveCell>,
    pub(super) host: Host,
    pub(super) now: Instant,
    limits: penstock_core::config::Limits,
    offer: bool,
    slow: bool,
    pub(super) links: Vec<Link>,
    pub(super) circuits: Vec<Circuit>,
    honest: BTreeSet<CircuitIndex>,
    pub(super) handshakes: VecDeque<(CircuitIndex, Handshake)>,
    pub(super) connecting: VecDeque<ChannelKey>,
    pub(super) streams: Vec<StreamKey>,
    /// A circuit that waits at a rendezvous point.
    waiting_client: Option<CircuitIndex>,
    /// Whether the input decides when handshakes, links and streams continue.
    pub(super) lazy: bool,
    pub(super) reached: Reached,
}

/// A circuit id. The highest bit is set if the initiator of the link chose the id.
pub(super) fn id(number: u32, by_initiator: bool) -> CircId {
    let number = number & 0x7FFF_FFFF | u32::from(by_initiator) << 31;
    CircId(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX))
}

/// The circuit id of both honest clients, on the first two links.
pub(super) const HONEST: u32 = 77;

impl World {
    pub(super) fn new(config: RelayConfig, extended: bool) -> Self {
        let limits = config.limits;
        let slow = config.bandwidth.is_some()
            || !matches!(config.throttle, penstock_core::throttle::ThrottleConfig::None);
        let relay = Relay::new(config, Instant::ZERO);
        let mut world = World {
            relay,
            host: Host {
                extended: if extended { Extended::ALL } else { Extended::NONE },
                most_waiting: limits.edge_buffer as usize,
                ..Host::default()
            },
            now: Instant::ZERO,
            limits,
            offer: extended,
            slow,
            links: Vec::new(),
            circuits: Vec::new(),
            honest: BTreeSet::new(),
            handshakes: VecDeque::new(),
            connecting: VecDeque::new(),
            streams: Vec::new(),
            waiting_client: None,
            lazy: false,
            reached: Reached::default(),
        };
        for client in 0..2 {
            let channel = world.accept(PeerId(client), true, None);
            let (mut circuit, create) = Circuit::begin(channel, id(HONEST, true), 0, false);
            circuit.honest = true;
            world.circuits.push(circuit);
            world.give(channel, &create);
        }
        world.pass_until(|world| world.circuits.iter().all(Circuit::is_built));
        for client in 0..2 {
            let circuit = &mut world.circuits[client];
            assert!(circuit.is_built(), "an honest client has its circuit");
            let (channel, id) = (circuit.channel, circuit.id);
            let begin = circuit.send(false, &body(1, 1, b"192.0.2.1:80\0"));
            world.give(channel, &begin);
            world.honest.extend(world.relay.circuit_on(channel, id));
        }
        world.pass_until(|world| world.streams.len() == 2);
        assert_eq!(world.streams.len(), 2, "an honest client has its stream");
        world.streams.clear();
        for server in world.host.servers.values_mut() {
            (server.left, server.closes) = (DOWNLOAD, false);
        }
        // The setup of the honest clients does not count.
        world.reached = Reached::default();
        world.check();
        world
    }

    pub(super) fn accept(&mut self, peer: PeerId, is_client: bool, offer: Option<HopOffer>) -> ChannelKey {
        let key = self.relay.accept_channel(self.now, peer, is_client);
        self.attach(key, false, offer);
        key
    }

    pub(super) fn attach(&mut self, key: ChannelKey, ours: bool, offer: Option<HopOffer>) {
        self.host.pipes.insert(key, Pipe::new());
        let link = Link {
            key,
            ours,
            reads: true,
            stopped_reading: false,
            ids: Vec::new(),
            slow: self.slow,
            burst: (0, self.now),
        };
        self.links.push(link);
        self.relay.on_channel_open(self.now, key, offer, &mut self.host);
    }

    pub(super) fn offer(&self, choices: &mut Choices<'_>) -> Option<HopOffer> {
        let start = choices.byte();
        (self.offer && start & 1 == 1)
            .then(|| HopOffer::Credits { start: u32::from(start), most: u32::from(start) + 50 })
    }

    pub(super) fn give(&mut self, channel: ChannelKey, bytes: &[u8]) {
        if let Some(link) = self.links.iter_mut().find(|link| link.key == channel) {
            if self.now.since(link.burst.1) > LONG_INTERVAL {
                link.burst = (0, self.now);
            }
            link.burst.0 += bytes.len();
        }
        if let Some(pipe) = self.host.pipes.get_mut(&channel) {
            pipe.inbox.extend_from_slice(bytes);
        }
    }

    pub(super) fn lose(&mut self, channel: ChannelKey) {
        self.host.pipes.remove(&channel);
        self.forget(channel);
        self.relay.on_channel_closed(self.now, channel, &mut self.host);
    }

    fn forget(&mut self, channel: ChannelKey) {
        self.links.retain(|link| link.key != channel);
        for circuit in self.circuits.iter_mut().filter(|circuit| circuit.channel == channel) {
            circuit.over = true;
            if let Some(index) = self.relay.circuit_on(channel, circuit.id) {
                self.honest.remove(&index);
            }
        }
    }

    /// Lets the relay finish all pending work.
    pub(super) fn settle(&mut self) {
        for turn in 0.. {
            assert!(turn < MAX_TURNS, "the relay becomes idle");
            let mut busy = self.process_events();
            if self.relay.poll_timeout().is_some_and(|due| due <= self.now) {
                self.relay.on_timer(self.now, &mut self.host);
                busy = true;
            }
            busy |= self.ready_links();
            busy |= self.ready_streams();
            busy |= self.read_links();
            busy |= !self.lazy && self.work();
            if !busy {
                return;
            }
        }
    }

    fn ready_links(&mut self) -> bool {
        let mut busy = false;
        for key in self.links.iter().map(|link| link.key).collect::<Vec<_>>() {
            let pipe = |host: &Host| {
                let pipe = host.pipes.get(&key)?;
                let readable = pipe.interest.readable && pipe.has_cell();
                Some((readable, pipe.interest.writable && pipe.has_room()))
            };
            if pipe(&self.host).is_some_and(|(readable, _)| readable) {
                self.relay.on_readable(self.now, key, &mut self.host);
                busy = true;
            }
            if pipe(&self.host).is_some_and(|(_, writable)| writable) {
                self.relay.on_writable(self.now, key, &mut self.host);
                busy = true;
            }
        }
        self.note_closed();
        busy
    }

    fn ready_streams(&mut self) -> bool {
        let mut busy = false;
        for key in self.host.servers.keys().copied().collect::<Vec<_>>() {
            let server = |host: &Host| {
                let server = host.servers.get(&key)?;
                let readable = server.interest.readable && (server.left > 0 || server.closes);
                Some((readable, server.interest.writable && server.appetite > 0))
            };
            if server(&self.host).is_some_and(|(readable, _)| readable) {
                self.relay.on_stream_readable(self.now, key, &mut self.host);
                busy = true;
            }
            if server(&self.host).is_some_and(|(_, writable)| writable) {
                self.relay.on_stream_writable(self.now, key, &mut self.host);
                busy = true;
            }
        }
        self.note_closed();
        busy
    }

    fn read_links(&mut self) -> bool {
        let mut received = Vec::new();
        for link in self.links.iter_mut().filter(|link| link.reads) {
            let Some(pipe) = self.host.pipes.get_mut(&link.key) else { continue };
            for cell in pipe.sent.drain(..) {
                received.push((link.key, cell));
            }
        }
        let busy = !received.is_empty();
        for (channel, cell) in received {
            self.receive(channel, cell);
        }
        busy
    }

    fn receive(&mut self, channel: ChannelKey, cell: LiveCell) {
        let id = cell.circ_id();
        // The newest circuit with this id.
        let mut circuits = self.circuits.iter_mut().rev();
        if let Some(circuit) = circuits.find(|circuit| (circuit.channel, circuit.id) == (channel, id)) {
            let (had, number) = (circuit.is_built(), cell.wire_command());
            let answer = circuit.receive(cell);
            self.reached.circuits += u32::from(!had && circuit.is_built() && !circuit.honest);
            self.reached.forwarded[1] += u32::from(number == command::RELAY);
            self.give(channel, &answer);
        } else if let Some(link) = self.links.iter_mut().find(|link| link.key == channel) {
            match cell.wire_command() {
                command::CREATE2 => link.ids.push(id),
                command::DESTROY => link.ids.retain(|other| *other != id),
                _ => self.reached.forwarded[0] += 1,
            }
        }
    }

    fn note_closed(&mut self) {
        for key in std::mem::take(&mut self.host.closed) {
            self.reached.channels_closed += 1;
            if let Some(link) = self.links.iter().find(|link| link.key == key) {
                // A channel without circuits is closed after some time, and the core may reuse its key.
                let mut circuits = self.circuits.iter();
                let honest =
                    circuits.any(|circuit| circuit.honest && !circuit.over && circuit.channel == key);
                let flooded = link.burst.0 as u64 > self.limits.outbuf.get() / 2;
                let may = link.stopped_reading || link.slow || flooded;
                assert!(!honest || may, "the relay closed a channel whose peer reads: {link:?}");
            }
            self.forget(key);
        }
    }

    /// Joins the circuits of ESTABLISH_RENDEZVOUS and RENDEZVOUS1, and returns all other messages.
    fn on_onion_service(&mut self, circuit: CircuitIndex, message: OnionService) {
        match message.command {
            OnionServiceCommand::EstablishRendezvous => self.waiting_client = Some(circuit),
            OnionServiceCommand::Rendezvous1 => {
                if let Some(client) = self.waiting_client.take() {
                    self.reached.joined += u32::from(self.relay.join_circuits(circuit, client));
                }
            }
            _ => {
                self.relay.send_onion_service(self.now, circuit, message, &mut self.host);
            }
        }
    }

    fn process_events(&mut self) -> bool {
        let mut busy = false;
        while let Some(event) = self.relay.poll_event() {
            busy = true;
            match event {
                Event::Connect { channel, .. } => self.connecting.push_back(channel),
                Event::HandshakeRequested { circuit, handshake } => {
                    self.handshakes.push_back((circuit, handshake));
                }
                Event::ExtendRequested { circuit, to, handshake } => self.extend(circuit, &to, handshake),
                Event::StreamRequested { stream, target } => self.begin(stream, target),
                Event::CircuitClosed { circuit, violation } => self.note_over(circuit, violation),
                Event::OnionService { circuit, message } => self.on_onion_service(circuit, message),
                Event::StreamClosed { stream } => self.streams.retain(|other| *other != stream),
                _ => {}
            }
        }
        busy
    }

    fn note_over(&mut self, circuit: CircuitIndex, violation: Option<penstock_core::Violation>) {
        self.handshakes.retain(|(other, _)| *other != circuit);
        self.reached.violations.extend(violation.map(|violation| format!("{violation:?}")));
        if self.honest.remove(&circuit) {
            let honest = self.circuits.iter().filter(|circuit| circuit.honest);
            let lost = honest.filter(|circuit| circuit.over).count();
            let left = self.honest.len();
            let may = self.limits.memory.is_some();
            assert!(may || lost + left >= 2, "the relay closed an undisturbed circuit: {violation:?}");
        }
    }

    /// Extends a circuit, as a live node does.
    fn extend(&mut self, circuit: CircuitIndex, to: &LinkSpec, handshake: Handshake) {
        if to.rsa[0] == 0 {
            let reason = DestroyReason::PROTOCOL;
            return self.relay.close_circuit(self.now, circuit, reason, &mut self.host);
        }
        self.reached.extended += 1;
        let peer = PeerId(100 + u32::from(to.rsa[0] % 3));
        self.relay.extend(self.now, circuit, peer, handshake, &mut self.host);
    }

    fn begin(&mut self, stream: StreamKey, target: Target) {
        let end = match target {
            Target::Host { .. } | Target::Directory => {
                self.host.servers.insert(stream, Server::default());
                return self.streams.push(stream);
            }
            Target::Resolve(name) => {
                StreamEnd::Resolved(vec![(Resolved::Name(name.into_bytes()), 300), (Resolved::Nothing, 1)])
            }
            Target::Malformed => StreamEnd::End(End::from(EndReason::PROTOCOL)),
        };
        self.relay.close_stream(self.now, stream, end, &mut self.host);
    }

    /// Does the work of threads and of the network: handshakes, links and streams. Returns whether there was any.
    fn work(&mut self) -> bool {
        let mut busy = self.answer_one(false) | self.connect_one(None);
        let waiting: Vec<_> =
            self.streams.iter().copied().filter(|stream| !self.is_connected(*stream)).collect();
        for stream in waiting {
            self.connect_stream(stream);
            busy = true;
        }
        busy
    }

    pub(super) fn is_connected(&self, stream: StreamKey) -> bool {
        self.host.servers.get(&stream).is_none_or(|server| server.connected)
    }

    pub(super) fn answer_one(&mut self, newest: bool) -> bool {
        let next = if newest { self.handshakes.pop_back() } else { self.handshakes.pop_front() };
        let Some((index, handshake)) = next else { return false };
        let leg = self.relay.leg(index, Direction::Backward);
        let mut client = self.circuits.iter_mut().rev();
        let client = leg.and_then(|leg| client.find(|circuit| (circuit.channel, circuit.id) == leg));
        let mut rng = seeded_rng(self.now.as_nanos() ^ index.index() as u64);
        match answer(&mut rng, &handshake, identities(), self.relay.agree(index)) {
            Ok(mut answered) => {
                // The result is set directly, so that congestion control needs no public keys.
                if let Some(client) = client
                    && client.asks
                    && answered.negotiation == Negotiation::Nothing
                {
                    let asked = [Congestion::Vegas, Congestion::Timely].map(Negotiation::Asked);
                    let answers = asked.map(|asked| self.relay.agree(index)(asked));
                    let agreed = answers.into_iter().find(|answer| *answer != Negotiation::Nothing);
                    answered.negotiation = agreed.unwrap_or_default();
                    match answered.negotiation {
                        Negotiation::Agreed(_, increment) => client.increment = increment.get().into(),
                        _ => client.asks = false,
                    }
                }
                let (reply, layer, said) = (answered.reply, answered.layer, answered.negotiation);
                self.relay.on_handshake(self.now, index, reply, layer, said, &mut self.host);
            }
            Err(_) => {
                self.relay.close_circuit(self.now, index, DestroyReason::PROTOCOL, &mut self.host);
            }
        }
        true
    }

    pub(super) fn connect_one(&mut self, mut choices: Option<&mut Choices<'_>>) -> bool {
        let Some(channel) = self.connecting.pop_front() else { return false };
        let fails = choices.as_mut().is_some_and(|choices| choices.flag());
        if fails {
            self.relay.on_channel_closed(self.now, channel, &mut self.host);
        } else {
            let offer = choices.and_then(|choices| self.offer(choices));
            self.attach(channel, true, offer);
        }
        true
    }

    pub(super) fn connect_stream(&mut self, stream: StreamKey) {
        let Some(server) = self.host.servers.get_mut(&stream) else { return };
        if !std::mem::replace(&mut server.connected, true) {
            self.reached.streams += 1;
            let said = Connected(Some(([192, 0, 2, 1].into(), 300)));
            self.relay.on_stream_connected(self.now, stream, said, &mut self.host);
        }
    }

    pub(super) fn check(&self) {
        let counted = self.relay.counters();
        let held = self.relay.queued().get() + self.relay.outbuf_cells().get();
        let [came, went] =
            [counted.received + counted.made, counted.sent + counted.consumed + counted.dropped + held];
        assert_eq!(came, went, "cells are conserved: {counted:?}, {held} wait");
        let [channels, circuits, streams] = self.relay.population().map(|count| count as u64);
        let limits = &self.limits;
        let most = 2 * circuits * (u64::from(limits.max_circuit_queue) + SLACK);
        assert!(self.relay.queued().get() <= most, "queues are bounded");
        let memory = limits.memory.map_or(u64::MAX, |limit| limit.get());
        assert!(self.relay.queued().get() * CELL_LEN as u64 <= memory, "all queues together are bounded");
        assert!(
            self.relay.outbuf_bytes().get() <= channels * (limits.outbuf.get() + 64 * 1024),
            "output buffers are bounded"
        );
        let waiting = self.relay.reordering() as u64;
        assert!(waiting <= circuits * u64::from(limits.edge_buffer), "reorder queues are bounded");
        assert!(streams <= circuits * u64::from(limits.streams_per_circuit), "streams are bounded");
        let known = self.links.len() + self.connecting.len();
        assert_eq!(channels as usize, known, "a channel has a connection, or waits for one");
        assert!(
            circuits <= channels.pow(2).max(1) * u64::from(limits.circuits_per_channel),
            "circuits are bounded"
        );
        for stream in self.host.servers.keys() {
            assert!(self.relay.circuit_of(*stream).is_some(), "a socket has its stream");
        }
    }

    /// Makes all parties follow the protocol. Undisturbed clients then complete their downloads.
    pub(super) fn finish(&mut self) {
        self.lazy = false;
        self.links.iter_mut().for_each(|link| link.reads = true);
        self.host.pipes.values_mut().for_each(|pipe| pipe.send_capacity = 64);
        self.pass_until(World::are_served);
        for circuit in self.circuits.iter().filter(|circuit| circuit.honest && !circuit.over) {
            assert_eq!(
                circuit.came,
                DOWNLOAD,
                "an undisturbed client receives its download: {:?}",
                self.relay.counters()
            );
        }
        let may = self.limits.memory.is_some();
        assert!(may || !self.circuits[1].over, "the second link is undisturbed");
        let counted = self.relay.counters();
        self.reached.oom_closed = counted.oom_closed;
        (self.reached.linked, self.reached.reordering) = (counted.linked, counted.longest_reordering);
        self.reached.flow = [counted.xoffs, counted.xons];
        self.reached.data = [counted.data_packaged, counted.data_delivered];
    }

    /// Lets time pass until `is_enough` returns true, at most for [`TIMEOUT`].
    fn pass_until(&mut self, is_enough: impl Fn(&World) -> bool) {
        let end = self.now + TIMEOUT;
        self.settle();
        while self.now < end && !is_enough(self) {
            let soon = self.now + Duration::from_millis(100);
            self.now = self.relay.poll_timeout().unwrap_or(soon).clamp(self.now, soon);
            self.settle();
            self.check();
        }
    }

    fn are_served(&self) -> bool {
        let honest = self.circuits.iter().filter(|circuit| circuit.honest && !circuit.over);
        honest.clone().all(|circuit| circuit.came == DOWNLOAD)
    }

    /// Closes all channels, and checks that the relay has no state left.
    pub(super) fn close(mut self) -> Reached {
        for key in self.links.iter().map(|link| link.key).collect::<Vec<_>>() {
            self.lose(key);
        }
        while let Some(channel) = self.connecting.pop_front() {
            self.relay.on_channel_closed(self.now, channel, &mut self.host);
        }
        self.process_events();
        assert_eq!(self.relay.population(), [0; 3], "closed channels leave no state");
        assert_eq!((self.relay.queued().get(), self.host.servers.len()), (0, 0));
        self.check();
        self.reached
    }

    pub(super) fn throttle(&mut self, number: u8) {
        self.slow |= number != 0;
        self.links.iter_mut().for_each(|link| link.slow |= number != 0);
        self.relay.set_throttle(self.now, settings::throttle(number), settings::buckets());
    }

    /// Indices of the circuits that an input may disturb.
    pub(super) fn others(&self) -> Vec<usize> {
        (0..self.circuits.len()).filter(|place| !self.circuits[*place].honest).collect()
    }

    /// The circuit ids on a link, each with whether its client is honest.
    pub(super) fn ids_on(&self, channel: ChannelKey) -> BTreeMap<CircId, bool> {
        let own = self.circuits.iter().filter(|circuit| circuit.channel == channel);
        own.map(|circuit| (circuit.id, circuit.honest)).collect()
    }
}
