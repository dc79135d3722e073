//! The network below Tor: hosts, links, TCP connections, datagrams, and the readiness of sockets.
//!
//! A segment leaves through its host's interface, which has one FIFO for all sockets. The network delays the segment by
//! a fixed time and may lose it. At the receiver the segment waits in the access link's drop-tail queue and then
//! reaches the kernel. Packets that arrive within a host's look-ahead join this queue in one step, because no other
//! packet can arrive between them.

mod channel_setup;
mod cpu;
mod datagrams;
mod event;
mod host;
mod kernel;
mod link;
mod mail;
mod packet;
mod plain;
mod socket;

pub(crate) use event::{Step, Timer};
pub(crate) use host::{App, Host, Ready, StreamSock};
pub(crate) use kernel::HostKernel;
pub(crate) use mail::{Mail, Outbox, remove_closed};
pub(crate) use packet::{Packet, Peer, SockRef};
pub(crate) use plain::PLAIN;
pub(crate) use socket::Owner;

use crate::awake::Awake;
use crate::cell::{RequestKind, SimCell};
use crate::host_queue::HostQueue;
use crate::plan::Plan;
use crate::queue::HostId;
use crate::script::Script;
use crate::tcp::{Endpoint, Info, TcpConfig, Train};
use crate::tracker::Tracker;
use cpu::Work;
use datagrams::Datagram;
use host::tcp_config;
use packet::{Arrival, Delivery};
use penstock_core::datagram::Message;
use penstock_scenario::markov::Observation;
use penstock_scenario::model::{self, Activity, Tcp, Tgen, Wire, Workload};
use penstock_units::{Bytes, Cells, Duration, Instant, Rng, fifo::take_first, time::nanos};
use slab::Slab;
use socket::{Item, Sock, TrainInFlight};
use std::collections::BTreeMap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// Sockets that wait for a full interface may send again after the interface has sent this many packets [packet].
const NIC_WAKE_PACKETS: u64 = 5;

#[derive(Debug)]
pub(crate) struct Net<'a> {
    /// The time of the host whose events are being handled.
    now: Instant,
    pub(crate) host_queue: HostQueue,
    /// How far a host may run ahead of the others: the shortest delay of a packet.
    pub(crate) lookahead: Duration,
    pub(crate) hosts: Awake<Host>,
    tcp: TcpConfigs<'a>,
    pub(crate) tracker: Tracker,
    datagrams: Slab<Datagram>,
    /// Unused buffers for the messages of datagrams.
    spare_buffers: Vec<Vec<Message<SimCell>>>,
    generations: u32,
    longest_train: u32,
    /// Messages to hosts of other shards.
    pub(crate) outbox: Outbox<'a>,
    /// Closed sockets. A barrier removes a connection after both ends have closed.
    closed: Vec<Peer>,
    topology: Topology<'a>,
    /// The Markov models of each workload that has them.
    models: Vec<Option<Tgen>>,
    lost: u64,
    pub(crate) delivered: u64,
    pub(crate) handled: u64,
    /// Whether the connection of a client without Tor has changed.
    pub(crate) plain_progress: bool,
    /// Channels and streams that opened or broke. The main loop informs the relays about them.
    pub(crate) events: Vec<(HostId, NetEvent)>,
}

/// An event about which the main loop informs a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetEvent {
    /// The channel that this host opened to this peer is established.
    Opened(penstock_core::ChannelKey, HostId),
    Accepted(SockRef, HostId),
    Connected(penstock_core::StreamKey),
    ChannelBroke(penstock_core::ChannelKey),
    StreamBroke(penstock_core::StreamKey),
}

/// Delay and loss between each pair of hosts, with the random streams for packet loss.
#[derive(Debug)]
struct Topology<'a> {
    plan: &'a Plan<'a>,
    /// A random stream for packet loss between each ordered pair of hosts. Duplication and reordering have separate
    /// streams.
    loss_rngs: BTreeMap<(HostId, HostId), Rng>,
    duplicate_rngs: BTreeMap<(HostId, HostId), Rng>,
    reorder_rngs: BTreeMap<(HostId, HostId), Rng>,
    jitter_rngs: BTreeMap<(HostId, HostId), Rng>,
}

/// The minimum delay of a packet, and the resolution of time.
pub(crate) const TICK: Duration = Duration::from_nanos(1);

impl Topology<'_> {
    /// The shortest one-way delay between any two hosts.
    fn shortest(&self) -> Duration {
        self.plan.scenario.network.shortest_delay().max(TICK)
    }

    fn loses(&mut self, from: HostId, to: HostId, loss: f64) -> bool {
        loss > 0.0 && draw(&mut self.loss_rngs, self.plan, (from, to), "loss").bernoulli(loss)
    }

    fn duplicates(&mut self, from: HostId, to: HostId, duplicate: f64) -> bool {
        let (duplicates, ends) = (&mut self.duplicate_rngs, (from, to));
        duplicate > 0.0 && draw(duplicates, self.plan, ends, "duplicate").bernoulli(duplicate)
    }

    /// The one-way delay of a packet, uniformly distributed around the mean.
    /// Source: Shadow 1.5.0 `link_computeDelay()`. Deviation: Shadow rounds the delay to whole milliseconds.
    fn delay(&mut self, from: HostId, to: HostId, wire: Wire) -> Duration {
        if wire.jitter.is_zero() {
            return wire.delay;
        }
        let rng = draw(&mut self.jitter_rngs, self.plan, (from, to), "jitter");
        wire.delay - wire.jitter + Duration::from_nanos(rng.between(0, 2 * nanos(wire.jitter)))
    }

    /// The extra delay of a datagram: up to one round trip if it is reordered, otherwise zero.
    fn reorder_delay(&mut self, from: HostId, to: HostId, wire: Wire) -> Duration {
        if wire.reorder == 0.0 {
            return Duration::ZERO;
        }
        let rng = draw(&mut self.reorder_rngs, self.plan, (from, to), "reorder");
        let late = rng.bernoulli(wire.reorder);
        if late { Duration::from_nanos(rng.below(nanos(wire.rtt).max(1))) } else { Duration::ZERO }
    }
}

/// The random stream for packets from one host to another.
fn draw<'a>(
    streams: &'a mut BTreeMap<(HostId, HostId), Rng>,
    plan: &Plan<'_>,
    (from, to): (HostId, HostId),
    purpose: &str,
) -> &'a mut Rng {
    streams.entry((from, to)).or_insert_with(|| {
        let (from, to) = (&plan.host(from).name, &plan.host(to).name);
        plan.seed.stream(&format!("{from}->{to}/{purpose}"))
    })
}

/// Runs a server's script until the send buffer is full or the script pauses. Returns the length of the pause. `left`
/// counts the bytes of the script that did not fit into the buffer [B].
fn run_server_script(
    script: &mut Script,
    endpoint: &mut Endpoint,
    tcp: &TcpConfig,
    now: Instant,
    left: &mut u64,
) -> Option<Duration> {
    let mut pause = None;
    loop {
        let bytes = (*left).min(endpoint.write_space(tcp));
        if bytes > 0 {
            endpoint.write(tcp, now, bytes);
            *left -= bytes;
        }
        if *left > 0 || script.ended || script.paused {
            return pause;
        }
        let burst = script.next_burst();
        *left += burst.bytes;
        pause = burst.pause;
    }
}

fn model_of(workload: &Workload) -> Option<Tgen> {
    match &workload.does {
        Activity::Tgen(tgen) => Some(tgen.clone()),
        _ => None,
    }
}

/// The TCP configurations of hosts. Hosts with equal buffer sizes share one.
#[derive(Debug)]
struct TcpConfigs<'a> {
    tcp: &'a Tcp,
    known: Vec<(&'a model::Host, Arc<TcpConfig>)>,
}

impl<'a> TcpConfigs<'a> {
    fn of(&mut self, host: &'a model::Host) -> Arc<TcpConfig> {
        let buffers = |host: &model::Host| (host.group.send_buffer, host.group.receive_buffer);
        if let Some((_, config)) = self.known.iter().find(|(like, _)| buffers(like) == buffers(host)) {
            return config.clone();
        }
        let config = Arc::new(tcp_config(host, self.tcp));
        self.known.push((host, config.clone()));
        config
    }
}

impl<'a> Net<'a> {
    /// The network of these hosts, which are all dormant.
    pub(crate) fn new(plan: &'a Plan<'a>, outbox: Outbox<'a>) -> Self {
        let (scenario, count) = (plan.scenario, plan.len());
        let topology = Topology {
            plan,
            loss_rngs: BTreeMap::new(),
            duplicate_rngs: BTreeMap::new(),
            reorder_rngs: BTreeMap::new(),
            jitter_rngs: BTreeMap::new(),
        };
        Net {
            now: Instant::ZERO,
            host_queue: HostQueue::new(count),
            lookahead: topology.shortest(),
            hosts: Awake::new(count),
            tcp: TcpConfigs { tcp: &scenario.tcp, known: Vec::new() },
            tracker: Tracker::new(0, 0, 1),
            datagrams: Slab::new(),
            spare_buffers: Vec::new(),
            generations: 0,
            longest_train: u32::MAX,
            outbox,
            closed: Vec::new(),
            topology,
            models: scenario.workloads.iter().map(model_of).collect(),
            lost: 0,
            delivered: 0,
            handled: 0,
            plain_progress: false,
            events: Vec::new(),
        }
    }

    pub(crate) fn wake(&mut self, id: HostId) {
        let host = self.topology.plan.host(id);
        self.hosts.insert(id, Host::new(host, self.tcp.of(host), self.tcp.tcp.profile));
        self.hosts[id as usize].lookahead = self.lookahead;
    }

    /// Promises that a host will receive packets only from these `peers`. The host may then run further ahead.
    pub(crate) fn limit_peers(&mut self, id: HostId, peers: impl Iterator<Item = HostId>) {
        if self.is_one_by_one() {
            return;
        }
        let delay = |peer| {
            let wire = self.wire(peer, id);
            wire.delay - wire.jitter
        };
        if let Some(shortest) = peers.map(delay).min() {
            self.hosts[id as usize].lookahead = shortest.max(self.lookahead);
        }
    }

    pub(crate) fn one_by_one(&mut self) {
        (self.lookahead, self.longest_train) = (TICK, 1);
    }

    fn is_one_by_one(&self) -> bool {
        self.longest_train == 1
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    pub(crate) fn set_timer(&mut self, id: HostId, at: Instant, due: Timer) {
        assert!(at >= self.now, "a timer at {at} comes after {}", self.now);
        self.hosts[id as usize].timers.push(at, due);
        self.host_queue.advance(id, at);
    }

    /// Adds all packets that reach a host's access link before `horizon` to the link's drop-tail queue.
    pub(crate) fn enqueue(&mut self, id: HostId, horizon: Instant) {
        let host = &mut self.hosts[id as usize];
        host.horizon = horizon;
        while let Some(Arrival { mut at, from, bytes, what, .. }) = host.inbox.peek().copied() {
            if at >= horizon {
                break;
            }
            let slot = match what {
                Packet::Segment(slot) => slot,
                Packet::Datagram(datagram) => {
                    host.inbox.pop();
                    let bytes = u64::from(bytes);
                    if host.down.has_room(at, bytes) {
                        host.deliveries.push_back(Delivery { at: host.down.send(at, bytes), what });
                    } else {
                        self.datagrams.remove(datagram as usize);
                    }
                    continue;
                }
            };
            // In a binary heap, the second-earliest entry is one of these two.
            let others = &host.inbox.as_slice()[1..];
            let second = others.iter().take(2).map(Arrival::key).min();
            let sock = &mut host.socks[slot as usize];
            let is_first = |at, count| second.is_none_or(|second| (at, from, count) < second);
            let next = loop {
                let bytes = sock.inbound[sock.enqueued].train.first.wire_bytes();
                if host.down.has_room(at, bytes) {
                    host.deliveries.push_back(Delivery { at: host.down.send(at, bytes), what });
                    sock.enqueue();
                } else {
                    sock.drop_next();
                }
                match sock.next_arrival() {
                    Some(next) if next.0 < horizon && is_first(next.0, next.1) => at = next.0,
                    next => break next,
                }
            };
            let mut first = host.inbox.peek_mut().expect("it was there before");
            match next {
                Some((at, count)) => {
                    let bytes = sock.inbound[sock.enqueued].train.first.wire_bytes() as u32;
                    *first = Arrival { at, count, bytes, ..*first };
                }
                None => drop(PeekMut::pop(first)),
            }
        }
    }

    /// The next event of a host before `horizon`. The host's time advances to this event. If a packet and a timer have
    /// the same time, the packet comes first.
    pub(crate) fn step(&mut self, id: HostId, horizon: Instant) -> Option<Step> {
        loop {
            let host = &mut self.hosts[id as usize];
            let delivery = host.deliveries.front().map_or(Instant::FAR_FUTURE, |delivery| delivery.at);
            let timer = host.timers.next();
            let at = delivery.min(timer);
            if at >= horizon {
                return None;
            }
            self.now = at;
            if delivery <= timer {
                self.handled += 1;
                return take_first(&mut host.deliveries).map(|delivery| Step::Delivered(delivery.what));
            }
            let what = host.timers.pop()?;
            if let Timer::Tcp(slot, generation) = what
                && !has_expired(host, slot, generation, at)
            {
                continue;
            }
            self.handled += 1;
            return Some(Step::Timer(what));
        }
    }

    /// Whether the host has ready sockets, or events for its relay.
    pub(crate) fn has_work(&self, id: HostId) -> bool {
        !self.hosts[id as usize].ready.is_empty() || !self.events.is_empty() || self.plain_progress
    }

    /// When the host's processor becomes free; `None` if it is free now.
    pub(crate) fn busy_until(&self, id: HostId) -> Option<Instant> {
        self.hosts[id as usize].cpu.as_ref()?.busy_until(self.now)
    }

    /// Whether ready sockets must wait for the processor. If so, sets a timer for the time at which the processor is
    /// free.
    pub(crate) fn awaits_cpu(&mut self, id: HostId) -> bool {
        let Some(free_at) = self.busy_until(id) else { return false };
        let host = &mut self.hosts[id as usize];
        let Some(cpu) = host.cpu.as_mut().filter(|_| !host.ready.is_empty()) else { return false };
        if !std::mem::replace(&mut cpu.awaited, true) {
            self.set_timer(id, free_at, Timer::Cpu);
        }
        true
    }

    /// Handles the processor's timer. The processor may still be busy, if more work was charged after the timer was
    /// set.
    pub(crate) fn on_cpu_free(&mut self, id: HostId) {
        if let Some(cpu) = &mut self.hosts[id as usize].cpu {
            cpu.awaited = false;
        }
    }

    /// Ends a turn of the processor, as `Cpu::end_turn` describes.
    pub(crate) fn end_turn(&mut self, id: HostId, scanned: u64) {
        if let Some(cpu) = &mut self.hosts[id as usize].cpu {
            cpu.end_turn(self.now, scanned);
        }
    }

    fn charge(&mut self, id: HostId, work: Work) {
        if let Some(cpu) = &mut self.hosts[id as usize].cpu {
            cpu.charge(work);
        }
    }

    /// Registers the time of a host's next event in the queue of hosts.
    pub(crate) fn schedule_next(&mut self, id: HostId) {
        let host = &self.hosts[id as usize];
        // A packet that has not yet arrived at the link is delivered after all packets in the link's queue.
        let packet = match host.deliveries.front() {
            Some(delivery) => delivery.at,
            None => host.inbox.peek().map_or(Instant::FAR_FUTURE, |first| host.earliest_delivery(first)),
        };
        self.host_queue.set(id, packet.min(host.timers.next()));
    }

    fn sock(&mut self, sock: SockRef) -> &mut Sock {
        &mut self.hosts[sock.host as usize].socks[sock.slot as usize]
    }

    /// Delay and loss on the way between two hosts.
    fn wire(&self, from: HostId, to: HostId) -> Wire {
        let plan = self.topology.plan;
        plan.scenario.network.between(plan.host(from), plan.host(to))
    }

    pub(crate) fn connect(&mut self, from: HostId, to: HostId, owner: Owner) -> SockRef {
        let wire = self.wire(from, to);
        self.generations += 1;
        let mut opening = Sock::new(self.generations, Peer::unknown(to), wire, owner);
        let now = self.now();
        let host = &mut self.hosts[from as usize];
        opening.tcp.connect(&host.tcp, now);
        let sock = SockRef { host: from, slot: host.socks.insert(opening) as u32 };
        self.pump(sock);
        sock
    }

    /// Sends the data of a socket until the interface is full, and sets the TCP timer.
    ///
    /// If the interface is full, or other sockets already wait for the interface, the socket waits as well.
    pub(crate) fn pump(&mut self, sock: SockRef) {
        let now = self.now();
        if self.sock(sock).tcp.is_settled() {
            return;
        }
        loop {
            let host = &mut self.hosts[sock.host as usize];
            let here = &mut host.socks[sock.slot as usize];
            if here.tcp.is_settled() {
                break;
            }
            let room = host.up.room(now, host.tcp.full_segment());
            if !host.nic_waiters.is_empty() || room == 0 {
                if !std::mem::replace(&mut here.awaits_nic, true) {
                    host.nic_waiters.push_back(sock.slot);
                    self.schedule_nic(sock.host);
                }
                break;
            }
            if !self.send_segments(sock, room) {
                break;
            }
        }
        self.arm_tcp_timer(sock);
    }

    /// Sends one segment, or a train of at most `most` segments. Returns false if TCP has nothing to send. If the path
    /// has loss or jitter, or a cell is tracked, segments are sent one at a time.
    fn send_segments(&mut self, sock: SockRef, most: u32) -> bool {
        let now = self.now();
        let id = sock.host;
        let host = &mut self.hosts[id as usize];
        let here = &mut host.socks[sock.slot as usize];
        let most =
            if here.random_wire.is_some() || here.has_leaving() { 1 } else { most.min(self.longest_train) };
        let Some(train) = here.tcp.poll_train(&host.tcp, now, most) else { return false };
        let Train { first: segment, count: segments } = train;
        let (left, gap) = host.up.send_train(now, segment.wire_bytes(), segments);
        here.tcp.on_departure(&host.tcp, left, segment.wire_bytes());
        here.take_leaving(&segment, |tag| self.tracker.nic_out(tag, id, left));
        let count = host.sent + 1;
        host.sent += u64::from(segments);
        let (to, owner) = (here.peer.sock, here.owner);
        let from = Peer { sock, generation: here.generation };
        let mut at = (left + here.delay).max(now + TICK);
        if let Some(wire) = here.random_wire.as_deref().copied() {
            let loss = if wire.spares_acks && segment.len == 0 { 0.0 } else { wire.loss };
            if self.topology.loses(id, to.host, loss) {
                return true;
            }
            at = (left + self.topology.delay(id, to.host, wire)).max(now + TICK);
            if !wire.jitter.is_zero() {
                // Segments keep their order.
                let last = &mut here.cold_mut().last_arrival;
                at = last.map_or(at, |last| at.max(last));
                *last = Some(at);
            }
        }
        let train = TrainInFlight { at, gap, count, train, enqueued: 0, delivered: 0 };
        self.post_train(to, from, owner, train);
        true
    }

    fn transmit(&mut self, far: HostId, arrival: Arrival) {
        let host = &mut self.hosts[far as usize];
        assert!(arrival.at >= host.horizon, "a packet arrives in the past of its host");
        let earliest = host.earliest_delivery(&arrival);
        host.inbox.push(arrival);
        if host.deliveries.is_empty() {
            self.host_queue.advance(far, earliest);
        }
    }

    fn arm_tcp_timer(&mut self, sock: SockRef) {
        self.update_unsent(sock);
        let now = self.now();
        let here = self.sock(sock);
        here.due = here.tcp.poll_timeout().map_or(Instant::FAR_FUTURE, |due| due.max(now));
        if here.due < here.timer {
            here.timer = here.due;
            let (due, what) = (here.due, Timer::Tcp(sock.slot, here.generation));
            self.set_timer(sock.host, due, what);
        }
    }

    /// Sets a timer that wakes waiting sockets after the interface has sent a few packets.
    fn schedule_nic(&mut self, id: HostId) {
        let now = self.now();
        let host = &mut self.hosts[id as usize];
        if !std::mem::replace(&mut host.drain_scheduled, true) {
            let at = host.up.after(now, NIC_WAKE_PACKETS * host.tcp.full_segment());
            self.set_timer(id, at, Timer::NicDrained);
        }
    }

    pub(crate) fn on_delivered(&mut self, id: HostId, what: Packet) {
        match what {
            Packet::Segment(slot) => self.on_segment(SockRef { host: id, slot }),
            Packet::Datagram(datagram) => self.on_datagram(datagram),
        }
    }

    fn on_segment(&mut self, to: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[to.host as usize];
        let here = &mut host.socks[to.slot as usize];
        let segment = here.deliver();
        self.delivered += 1;
        here.take_arriving(&segment, |tag| self.tracker.nic_in(tag, to.host, now));
        let before = here.tcp.received_end();
        here.tcp.on_segment(&host.tcp, now, &segment);
        let after = here.tcp.received_end();
        if after > before
            && let Some(traced) = here.cold().and_then(|cold| cold.traced.as_mut())
        {
            traced.arrivals.push_back((after, now));
        }
        self.pump(to);
        self.after_input(to);
    }

    pub(crate) fn on_tcp_timer(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        here.timer = Instant::FAR_FUTURE;
        here.tcp.on_timer(&host.tcp, now);
        self.pump(sock);
        self.after_input(sock);
    }

    /// Lets waiting sockets send one segment each, in turn, because the interface has space again.
    pub(crate) fn on_nic_drained(&mut self, id: HostId) {
        let now = self.now();
        self.hosts[id as usize].drain_scheduled = false;
        loop {
            let host = &mut self.hosts[id as usize];
            if !host.up.has_room(now, host.tcp.full_segment()) {
                break;
            }
            let Some(slot) = host.nic_waiters.pop_front() else { return };
            let sock = SockRef { host: id, slot };
            let is_only = host.nic_waiters.is_empty();
            let room = if is_only { host.up.room(now, host.tcp.full_segment()) } else { 1 };
            if self.send_segments(sock, room) {
                self.hosts[id as usize].nic_waiters.push_back(slot);
            } else {
                self.sock(sock).awaits_nic = false;
            }
            self.arm_tcp_timer(sock);
        }
        self.schedule_nic(id);
    }

    fn after_input(&mut self, sock: SockRef) {
        let here = self.sock(sock);
        let owner = here.owner;
        if here.tcp.is_reset() {
            self.on_reset(sock, owner);
            return;
        }
        match owner {
            Owner::Linking(_) => self.link_step(sock),
            Owner::Channel(_) => {
                if self.channel_ended(sock) {
                    self.on_reset(sock, owner);
                } else {
                    self.refresh(sock);
                }
            }
            Owner::Stream(stream) => {
                let here = self.sock(sock);
                if here.tcp.is_established() && !std::mem::replace(&mut here.announced, true) {
                    self.events.push((sock.host, NetEvent::Connected(stream)));
                }
                self.refresh(sock);
            }
            Owner::Server(_) => self.serve_requests(sock),
            Owner::Plain => self.on_plain_input(sock),
            Owner::Closed => self.discard(sock),
        }
    }

    /// Whether the peer has closed the channel, and the relay has read all received bytes.
    fn channel_ended(&mut self, sock: SockRef) -> bool {
        self.sock(sock).tcp.receive_closed()
    }

    fn on_reset(&mut self, sock: SockRef, owner: Owner) {
        let id = sock.host;
        match owner {
            Owner::Channel(channel) | Owner::Linking(Some(channel)) => {
                self.events.push((id, NetEvent::ChannelBroke(channel)));
            }
            Owner::Stream(stream) => self.events.push((id, NetEvent::StreamBroke(stream))),
            Owner::Plain => {
                self.plain_progress = true;
                self.take_plain(id);
            }
            Owner::Linking(None) | Owner::Server(_) | Owner::Closed => {}
        }
        self.abandon(sock);
    }

    fn serve_requests(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
        let Owner::Server(mut left) = here.owner else { return };
        let mut thinks_until = None;
        let readable = here.tcp.readable();
        if readable > 0 {
            here.tcp.read(tcp, now, readable);
        }
        let mut requested = false;
        while let Some((end, Item::Request(request))) = here.messages.front().copied()
            && end <= here.tcp.received_end()
        {
            take_first(&mut here.messages);
            requested = true;
            match request.kind() {
                RequestKind::Bytes(bytes) => {
                    left += bytes;
                    let think = host.think.as_mut();
                    let think_time = think.map_or(Duration::ZERO, |(span, rng)| span.draw(rng));
                    if !think_time.is_zero() {
                        here.cold_mut().thinks = true;
                        thinks_until = Some(now + think_time);
                    }
                }
                RequestKind::Script { workload, seed } => {
                    let model = self.models[workload]
                        .as_ref()
                        .expect("a request for a script names a workload with a model");
                    here.cold_mut().script = Some(Script::new(model, seed, Observation::ToOrigin));
                }
            }
        }
        let thinks = here.cold().is_some_and(|cold| cold.thinks);
        let mut paused_until = thinks_until;
        if here.tcp.receive_closed() && here.cold().is_some_and(|cold| cold.script.take().is_some()) {
            left = 0;
        } else if let Some(script) = here.cold.as_mut().and_then(|cold| cold.script.as_mut()) {
            if left == 0 || here.tcp.is_writable(tcp) {
                paused_until =
                    run_server_script(script, &mut here.tcp, tcp, now, &mut left).map(|pause| now + pause);
            }
        } else if !thinks && (requested || (left > 0 && here.tcp.is_writable(tcp))) {
            let bytes = left.min(here.tcp.write_space(tcp));
            here.tcp.write(tcp, now, bytes);
            left -= bytes;
            if left == 0 {
                // Without keep-alive, the server closes the connection at the end of the response.
                here.tcp.shutdown(tcp, now);
            }
        }
        here.owner = Owner::Server(left);
        let done = here.tcp.receive_closed() && left == 0;
        if done {
            here.tcp.shutdown(tcp, now);
            here.owner = Owner::Closed;
        }
        let generation = here.generation;
        self.pump(sock);
        if let Some(until) = paused_until {
            self.set_timer(sock.host, until, Timer::ServerScript(sock.slot, generation));
        }
        if done {
            self.mark_closed(sock);
        }
    }

    pub(crate) fn on_server_script_timer(&mut self, sock: SockRef, generation: u32) {
        let here = self.hosts[sock.host as usize].sock_of(sock.slot, generation);
        let Some(here) = here else { return };
        match here.script() {
            Some(script) => script.paused = false,
            None => here.cold_mut().thinks = false,
        }
        self.serve_requests(sock);
    }

    fn discard(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        while here.messages.front().is_some_and(|(end, _)| *end <= here.tcp.received_end()) {
            self.lost += u64::from(matches!(take_first(&mut here.messages), Some((_, Item::Cell(_)))));
        }
        let readable = here.tcp.readable();
        if readable > 0 {
            here.tcp.read(&host.tcp, now, readable);
            self.pump(sock);
        }
        self.mark_closed(sock);
    }

    /// Closes the owner's side. If the owner has read all data and the FIN of the peer, TCP still sends the written
    /// bytes. Otherwise it aborts the connection, as in Linux `tcp_close()`.
    pub(crate) fn close(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        here.owner = Owner::Closed;
        here.interest = Default::default();
        if here.tcp.receive_closed() {
            here.tcp.shutdown(&host.tcp, now);
        } else {
            here.tcp.reset(now);
        }
        self.pump(sock);
        self.discard(sock);
    }

    /// Removes the owner of a broken connection.
    fn abandon(&mut self, sock: SockRef) {
        let here = self.sock(sock);
        here.owner = Owner::Closed;
        here.interest = Default::default();
        self.update_unsent(sock);
        self.mark_closed(sock);
    }

    /// Marks a socket for removal if it is closed.
    fn mark_closed(&mut self, sock: SockRef) {
        let here = self.sock(sock);
        if here.is_done() && !std::mem::replace(&mut here.marked, true) {
            let generation = here.generation;
            self.closed.push(Peer { sock, generation });
        }
    }

    /// Adds a socket to the ready sockets if it is ready for an operation that its owner wants.
    pub(crate) fn refresh(&mut self, sock: SockRef) {
        let host = &mut self.hosts[sock.host as usize];
        let Some(here) = host.socks.get_mut(sock.slot as usize) else { return };
        if here.interest.readable && !here.ready.readable && has_input(here) {
            here.ready.readable = true;
            host.ready.push_back(Ready::Readable(sock));
        }
        if here.interest.writable && !here.ready.writable && here.tcp.is_writable(&host.tcp) {
            here.ready.writable = true;
            host.ready.push_back(Ready::Writable(sock));
        }
        let is_channel = matches!(here.owner, Owner::Channel(_));
        if is_channel && here.interest.readable && !here.ready.readable && here.tcp.readable() > 0 {
            here.take_partial(&host.tcp, self.now);
            self.pump(sock);
        }
    }

    /// Removes a socket from the ready sockets. Returns the owner if the operation is still wanted and possible.
    pub(crate) fn take_turn(&mut self, ready: Ready) -> Option<Owner> {
        let (sock, reading) = match ready {
            Ready::Readable(sock) => (sock, true),
            Ready::Writable(sock) => (sock, false),
            Ready::App(_) => return None,
        };
        let host = &mut self.hosts[sock.host as usize];
        let here = host.socks.get_mut(sock.slot as usize)?;
        let possible = if reading {
            here.ready.readable = false;
            here.interest.readable && has_input(here)
        } else {
            here.ready.writable = false;
            here.interest.writable && here.tcp.is_writable(&host.tcp)
        };
        possible.then_some(here.owner)
    }

    /// Whether more than one packet waits for the access link, in either direction.
    pub(crate) fn link_waits(&self, id: HostId) -> bool {
        let host = &self.hosts[id as usize];
        let packet = Bytes::new(host.tcp.full_segment());
        host.up.backlog(self.now) > packet || host.down.backlog(self.now) > packet
    }

    /// Whether a channel's socket holds bytes that TCP cannot send yet.
    pub(crate) fn tcp_waits(&self, id: HostId) -> bool {
        let host = &self.hosts[id as usize];
        let waits = host.holding > 0;
        debug_assert_eq!(waits, host.channels.iter().flatten().any(|sock| self.tcp_info(*sock).not_sent > 0));
        waits
    }

    pub(crate) fn cpu_waits(&self, id: HostId) -> bool {
        self.hosts[id as usize].cpu.as_ref().is_some_and(|cpu| cpu.awaited)
    }

    pub(super) fn update_unsent(&mut self, sock: SockRef) {
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        let is_channel = matches!(here.owner, Owner::Channel(_) | Owner::Linking(Some(_)));
        let holds = is_channel && here.tcp.not_sent() > 0;
        if std::mem::replace(&mut here.holds, holds) != holds {
            host.holding = if holds { host.holding + 1 } else { host.holding - 1 };
        }
    }

    /// Bytes that the access link has sent and received [B].
    pub(crate) fn carried(&mut self, id: HostId) -> [Bytes; 2] {
        let now = self.now;
        self.enqueue(id, now + TICK);
        let host = &self.hosts[id as usize];
        [host.up.carried(now), host.down.carried(now)]
    }

    /// Bytes in the send buffers of all channels [B].
    pub(crate) fn kernel_out(&self, id: HostId) -> u64 {
        let sockets = self.hosts[id as usize].channels.iter().flatten();
        sockets.map(|sock| self.tcp_info(*sock).queued).sum()
    }

    pub(crate) fn tcp_info(&self, sock: SockRef) -> Info {
        let host = &self.hosts[sock.host as usize];
        host.socks[sock.slot as usize].tcp.info(&host.tcp)
    }

    pub(crate) fn is_done(&self, sock: SockRef) -> bool {
        self.hosts[sock.host as usize].socks[sock.slot as usize].is_done()
    }

    /// Cells, connections and packets of the hosts of this shard. `is_done` is for the other end of a connection.
    pub(crate) fn report(&self, is_done: impl Fn(SockRef) -> bool) -> crate::NetworkReport {
        let socks = || self.hosts.values().flat_map(|host| host.socks.iter().map(|(_, sock)| sock));
        let is_open = |sock: &&Sock| {
            let peer = sock.peer.sock;
            sock.initiator && !(sock.is_done() && peer.is_known() && is_done(peer))
        };
        crate::NetworkReport {
            cells: Cells::new(socks().map(Sock::cells).sum()),
            lost: Cells::new(self.lost),
            connections: socks().filter(is_open).count(),
            packets: socks().flat_map(|sock| &sock.inbound).map(TrainInFlight::packets).sum::<usize>()
                + self.datagrams.len(),
        }
    }
}

/// Whether a TCP timer that left the queue at `now` has expired. A postponed timer returns to the queue.
fn has_expired(host: &mut Host, slot: u32, generation: u32, now: Instant) -> bool {
    // An earlier timer may have replaced this timer.
    let Some(sock) = host.sock_of(slot, generation).filter(|sock| sock.timer == now) else { return false };
    let due = sock.due;
    if due <= now {
        return true;
    }
    sock.timer = due;
    if due != Instant::FAR_FUTURE {
        host.timers.push(due, Timer::Tcp(slot, generation));
    }
    false
}

/// Whether the owner of a socket can read data or the end of the stream.
fn has_input(here: &Sock) -> bool {
    match here.owner {
        Owner::Channel(_) => {
            let read = here.messages.front().is_some_and(|(end, _)| *end <= here.tcp.received_end());
            read || here.has_datagrams()
        }
        Owner::Stream(_) => here.tcp.readable() > 0 || here.tcp.receive_closed(),
        Owner::Linking(_) | Owner::Server(_) | Owner::Plain | Owner::Closed => false,
    }
}
