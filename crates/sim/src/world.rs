//! The nodes of a shard, and their events.
//!
//! In each step a host handles one packet or timer. Then it serves its ready sockets one at a time, in the order in
//! which they became ready, until none is left. A host may run ahead of the others by the look-ahead. The relay core
//! makes every decision about cells.
//!
//! A client is dormant until its first session starts. Until then, only its start time is stored.

mod build_times;
mod open;

use crate::awake::Awake;
use crate::bound::{BOUND_CHECKS_PER_SAMPLE, Bound, BoundCounts, bound};
use crate::cell::{Request, SimCell, SimHandshake, SimLayer, TO_CLIENT, nonce};
use crate::client::{Circuit, Client, Download, Phase, Task};
use crate::control::Control;
use crate::error::Error;
use crate::net::{
    App, HostKernel, Mail, Net, NetEvent, Outbox, Owner, PLAIN, Peer, Ready, SockRef, Step, StreamSock, TICK,
    Timer,
};
use crate::observer::{Observer, RelaySample, TransferEnd};
use crate::plan::{Builder, Plan};
use crate::queue::HostId;
use crate::tcp::Info;
use crate::tracker::{Tracker, position};
use penstock_core::cell::PeerId;
use penstock_core::config::RelayConfig;
use penstock_core::edge_control::Negotiation;
use penstock_core::hop_control::{Backlog, HopOffer};
use penstock_core::reason::{DestroyReason, EndReason};
use penstock_core::{CircuitIndex, Counters, Event, Relay, StreamKey};
use penstock_record::tables::Name;
use penstock_record::{Outcome, Position};
use penstock_scenario::model::{Activity, BuildLimit, Phase as RefillPhase, Scenario, Switch};
use penstock_units::{Cells, Duration, Instant, fifo::take_first};
use std::collections::BTreeSet;
use std::sync::Arc;

use build_times::Learner;

const STEPS_PER_CHECK: u64 = 4096;

/// The hosts of one shard.
#[derive(Debug)]
pub(crate) struct World<'a> {
    plan: &'a Plan<'a>,
    scenario: &'a Scenario,
    pub(crate) net: Net<'a>,
    nodes: Awake<Node>,
    pub(crate) observer: Observer,
    /// The number of complete downloads of each workload.
    finished: Vec<u64>,
    pub(crate) trace_log: Vec<TraceEvent>,
    checked: u64,
    /// The buffer for the hosts of a window.
    window_hosts: Vec<HostId>,
}

/// The times between which the hosts of a shard act independently of the other shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// No host of any shard has an event before this time.
    pub(crate) start: Instant,
    /// The end of the window: all hosts handle their events before this time.
    end: Instant,
    /// No host handles an event at or after this time.
    limit: Instant,
}

impl Window {
    /// The window before the next `barrier` in which no host can receive a new packet.
    pub(crate) fn new(start: Instant, lookahead: Duration, barrier: Instant) -> Self {
        let limit = barrier + TICK;
        Window { start, end: (start + lookahead).min(limit), limit }
    }

    /// How far a host with its own look-ahead may go.
    fn horizon(self, lookahead: Duration) -> Instant {
        (self.start + lookahead).min(self.limit).max(self.end)
    }
}

/// An event of a traced circuit.
#[derive(Debug)]
pub(crate) enum TraceEvent {
    /// A client begins to build the circuit over `nodes`, from the client to the exit.
    Began { number: u32, client: Name, workload: Name, nodes: Vec<HostId> },
    /// The circuit has reached a host, where it has this index.
    Placed { number: u32, hop: usize, id: HostId, circuit: CircuitIndex },
    /// The circuit has closed at a host.
    Left { number: u32, id: HostId, circuit: CircuitIndex },
}

/// The state of a traced circuit at one hop.
pub(crate) struct CircuitState {
    pub(crate) queue: Cells,
    pub(crate) window: Option<(Cells, Option<Duration>)>,
    pub(crate) sendmes: Option<u64>,
    pub(crate) backlog: Option<Backlog>,
    pub(crate) tcp: Option<Info>,
}

#[derive(Debug)]
struct Node {
    name: Name,
    /// The parallel sessions of a client, or of all clients that are a part of this relay. In a replay, a client without
    /// recorded downloads has none.
    sessions: Vec<Client>,
    /// `None` if the client does not learn its build timeout.
    learner: Option<Box<Learner>>,
    /// The number of circuits that were over the build timeout [1].
    timed_out: u32,
    /// The node's relay or onion proxy; `None` for servers and clients without Tor.
    tor: Option<Relay<SimCell>>,
    /// When the node's relay timer expires next.
    timer: Option<Instant>,
    /// The times of all relay timers in the event queue. Some of these timers may be outdated.
    armed: Vec<Instant>,
    /// The number of each circuit in the run, and the node's hop on it. The index is the relay's circuit index.
    circuits: Vec<Option<SimHandshake>>,
    /// The number of circuits built through this relay as guard, as middle and as exit.
    served: [u32; 3],
    bound_counts: BoundCounts,
    sampled: Counters,
}

impl<'a> World<'a> {
    /// The hosts of one shard of a plan. Clients are dormant.
    pub(crate) fn new(plan: &'a Plan<'a>, shard: usize, control: &Control) -> Self {
        let (scenario, seed, record) = (plan.scenario, plan.seed, plan.record);
        let mut net = Net::new(plan, Outbox::new(&plan.shard_of, plan.shards));
        net.tracker = Tracker::new(scenario.trace.cells, shard, plan.shards);
        if control.is_one_by_one() {
            net.one_by_one();
        }
        let mut world = World {
            plan,
            scenario,
            net,
            nodes: Awake::new(plan.len()),
            observer: Observer::new(shard, plan.shards),
            finished: vec![0; scenario.workloads.len()],
            trace_log: Vec::new(),
            checked: 0,
            window_hosts: Vec::new(),
        };
        for id in (0..world.nodes.len() as HostId).filter(|id| plan.shard(*id) == shard) {
            match plan.builder(id) {
                Builder::Client(index, _) => {
                    let start = Client::first_start(index, scenario, seed, record);
                    world.net.host_queue.set(id, start);
                }
                Builder::Relay(..) => {
                    world.wake(id);
                    let check = Instant::ZERO + bound_interval(scenario);
                    world.net.hosts[id as usize].next_bound_check = check;
                }
                Builder::Server(server) => {
                    world.wake(id);
                    let rng = seed.stream(&format!("{}/think", server.host.name));
                    world.net.hosts[id as usize].think = Some((server.think_time.clone(), rng));
                }
            }
        }
        world
    }

    fn wake_if_dormant(&mut self, id: HostId) {
        if !self.nodes.contains(id) {
            self.wake(id);
        }
    }

    /// Creates the state of a host, with its first timers.
    #[cold]
    fn wake(&mut self, id: HostId) {
        let scenario = self.scenario;
        let mut node = self.plan.builder(id).build(self.plan);
        // Other hosts may already be later than this host's first timer.
        let now = self.net.now();
        self.net.set_now(Instant::ZERO);
        self.net.wake(id);
        if let Builder::Client(..) = self.plan.builder(id) {
            let first_hops: Option<Vec<&[usize]>> =
                node.sessions.iter().map(|client| client.first_hops(scenario)).collect();
            if let Some(first_hops) = first_hops {
                let relays = first_hops.into_iter().flatten().map(|relay| self.plan.relay_ids[*relay]);
                self.net.limit_peers(id, relays);
            }
        }
        let mut first = Instant::FAR_FUTURE;
        for (session, client) in (0..).zip(&mut node.sessions) {
            let at = client.draw_start(scenario);
            first = first.min(at);
            self.net.set_timer(id, at, Timer::Client(session, 0));
        }
        self.nodes.insert(id, node);
        self.begin_tests(id, first);
        self.arm_timer(id);
        self.net.set_now(now);
    }

    /// The time of the first event of the shard's hosts.
    pub(crate) fn next_event(&mut self) -> Option<Instant> {
        self.net.host_queue.next()
    }

    pub(crate) fn lookahead(&self) -> Duration {
        self.net.lookahead
    }

    /// Complete downloads of the workload that ends the run; zero if no workload does.
    pub(crate) fn downloads_for_stop(&self) -> u64 {
        self.scenario.run.stop.map_or(0, |stop| self.finished[stop.workload])
    }

    /// Handles all events before the end of the window. Calls `report` from time to time with the value of
    /// [`World::downloads_for_stop`].
    pub(crate) fn run_window(
        &mut self,
        window: Window,
        control: &Control,
        report: impl Fn(u64),
    ) -> Result<(), Error> {
        let mut hosts = std::mem::take(&mut self.window_hosts);
        self.net.host_queue.take(window.end, &mut hosts);
        for id in hosts.drain(..) {
            self.wake_if_dormant(id);
            self.run_host(id, window.horizon(self.net.hosts[id as usize].lookahead));
            if self.net.handled - self.checked >= STEPS_PER_CHECK {
                self.checked = self.net.handled;
                if control.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                report(self.downloads_for_stop());
            }
        }
        self.window_hosts = hosts;
        Ok(())
    }

    /// Delivers a message of another shard.
    pub(crate) fn deliver(&mut self, to: HostId, mail: Mail) {
        match mail {
            Mail::Served(place) => self.nodes[to as usize].served[place] += 1,
            mail => self.net.deliver(to, mail),
        }
    }

    /// Applies a change at a barrier.
    pub(crate) fn apply_change(&mut self, id: HostId, change: Switch) {
        let now = self.net.now();
        self.wake_if_dormant(id);
        // The relay's earlier bound checks see its old setting.
        self.run_host(id, now);
        self.net.set_now(now);
        let tor = self.nodes[id as usize].tor.as_mut().expect("only nodes with Tor have changes");
        match change {
            Switch::Bandwidth(bandwidth) => tor.set_bandwidth(now, bandwidth),
            Switch::CircuitPolicy(policy) => tor.set_circuit_policy(now, policy),
            Switch::Throttle(throttle, buckets) => tor.set_throttle(now, throttle, buckets),
        }
        if self.net.hosts[id as usize].next_bound_check == now {
            self.check_bound(id, now);
        }
        self.arm_timer(id);
    }

    /// Handles all packets and timers of a host before `horizon`, and makes the bound checks that are due between them.
    fn run_host(&mut self, id: HostId, horizon: Instant) {
        loop {
            let check = self.net.hosts[id as usize].next_bound_check;
            if check >= horizon {
                break;
            }
            self.handle_events(id, check + TICK);
            self.check_bound(id, check);
        }
        self.handle_events(id, horizon);
        self.net.schedule_next(id);
    }

    fn handle_events(&mut self, id: HostId, horizon: Instant) {
        self.net.enqueue(id, horizon);
        while let Some(step) = self.net.step(id, horizon) {
            match step {
                Step::Delivered(packet) => self.net.on_delivered(id, packet),
                Step::Timer(Timer::Tcp(slot, _)) => self.net.on_tcp_timer(SockRef { host: id, slot }),
                Step::Timer(Timer::NicDrained) => self.net.on_nic_drained(id),
                Step::Timer(Timer::Relay) => self.on_relay_timer(id),
                Step::Timer(Timer::Cpu) => self.net.on_cpu_free(id),
                Step::Timer(Timer::Client(session, generation)) => {
                    self.on_client_timer(id, session, generation)
                }
                Step::Timer(Timer::BuildTimes) => self.on_build_times_timer(id),
                Step::Timer(Timer::ClientScript(session, generation)) => {
                    self.on_client_script_timer(id, session, generation)
                }
                Step::Timer(Timer::ServerScript(slot, generation)) => {
                    self.net.on_server_script_timer(SockRef { host: id, slot }, generation)
                }
            }
            // Most packets are TCP segments that do not affect the relay.
            let acts = matches!(
                step,
                Step::Timer(Timer::Relay | Timer::Client(..) | Timer::BuildTimes | Timer::ClientScript(..))
            );
            if acts || (self.net.has_work(id) && !self.net.is_in_batch(id)) {
                self.process(id);
            }
        }
    }

    /// Serves a host until it has no more work at the current time.
    fn process(&mut self, id: HostId) {
        loop {
            self.handle_net_events();
            self.net.plain_progress = false;
            // When a download finishes, its circuit may close, and the relay gets new events.
            self.check_downloads(id);
            self.handle_relay_events(id);
            if self.net.awaits_cpu(id) {
                break;
            }
            let Some(ready) = take_first(&mut self.net.hosts[id as usize].ready) else { break };
            self.serve(id, ready);
            self.end_turn(id);
        }
        self.arm_timer(id);
    }

    fn end_turn(&mut self, id: HostId) {
        let scanned = self.nodes[id as usize].tor.as_ref().map_or(0, |tor| tor.counters().scans);
        self.net.end_turn(id, scanned);
    }

    fn serve(&mut self, id: HostId, ready: Ready) {
        let now = self.net.now();
        let owner = self.net.take_turn(ready);
        let Some(tor) = &mut self.nodes[id as usize].tor else { return };
        let mut kernel = HostKernel::new(&mut self.net, id);
        match (ready, owner) {
            (Ready::Readable(_), Some(Owner::Channel(channel))) => tor.on_readable(now, channel, &mut kernel),
            (Ready::Writable(_), Some(Owner::Channel(channel))) => tor.on_writable(now, channel, &mut kernel),
            (Ready::Readable(_), Some(Owner::Stream(stream))) => {
                tor.on_stream_readable(now, stream, &mut kernel);
            }
            (Ready::Writable(_), Some(Owner::Stream(stream))) => {
                tor.on_stream_writable(now, stream, &mut kernel);
            }
            (Ready::App(stream), _) if self.net.take_app_turn(id, stream) => {
                tor.on_stream_readable(now, stream, &mut HostKernel::new(&mut self.net, id));
                self.net.refresh_app(id, stream);
            }
            _ => {}
        }
        if let Ready::Readable(sock) | Ready::Writable(sock) = ready {
            self.net.refresh(sock);
        }
    }

    fn handle_relay_events(&mut self, id: HostId) {
        let now = self.net.now();
        while let Some(event) = self.nodes[id as usize].tor.as_mut().and_then(Relay::poll_event) {
            let node = &mut self.nodes[id as usize];
            let tor = node.tor.as_mut().expect("it just had an event");
            let mut kernel = HostKernel::new(&mut self.net, id);
            match event {
                Event::Connect { channel, peer } => self.net.connect_channel(id, peer.0, channel),
                Event::HandshakeRequested { circuit, handshake } => {
                    let answer = tor.agree(circuit)(handshake.congestion);
                    let reply = SimHandshake { congestion: answer, ..handshake };
                    tor.on_handshake(now, circuit, reply, SimLayer::default(), answer, &mut kernel);
                    self.place(id, circuit, handshake);
                }
                Event::ExtendRequested { circuit, to, handshake } => {
                    tor.extend(now, circuit, to, handshake, &mut kernel);
                }
                Event::HandshakeNeeded { circuit, hop, ask } => {
                    let own = node.circuits.get(circuit.index()).copied().flatten();
                    let own = own.expect("a client numbers its circuits at once");
                    let handshake = SimHandshake { hop: hop as u8 + 1, congestion: ask, ..own };
                    tor.start_handshake(now, circuit, handshake, &mut kernel);
                }
                Event::HandshakeAnswered { circuit, handshake } => {
                    let answer = handshake.congestion;
                    tor.finish_handshake(now, circuit, SimLayer::default(), answer, &mut kernel);
                }
                Event::CircuitBuilt { circuit } => self.on_circuit_built(id, circuit),
                Event::CircuitsLinked { circuit } => self.on_circuit_usable(id, circuit),
                Event::OnionService { message, .. } => match message {},
                Event::CircuitClosed { circuit, .. } => self.on_circuit_closed(id, circuit),
                Event::StreamRequested { stream, target } => {
                    let circuit = tor.circuit_of(stream).map(|circuit| circuit.index());
                    let known = circuit.and_then(|circuit| node.circuits.get(circuit).copied().flatten());
                    let traced = known.filter(|known| known.traced && self.net.tracker.is_active());
                    let traced = traced.map(|known| known.circuit);
                    self.net.connect_stream(id, target, stream, traced);
                }
                Event::StreamConnected { stream } => self.on_stream_connected(id, stream),
                Event::StreamClosed { stream } => self.on_stream_closed(id, stream),
                // Simulated clients do not need the reason.
                Event::StreamEnded { .. } => {}
                Event::Tracked { tag, station, at, .. } => self.net.tracker.station(tag, id, station, at),
            }
        }
    }

    fn handle_net_events(&mut self) {
        let now = self.net.now();
        for (id, event) in std::mem::take(&mut self.net.events) {
            let is_client = |id: HostId| matches!(self.plan.builder(id), Builder::Client(..));
            let (to_client, offer, datagrams) = match event {
                NetEvent::Opened(_, peer) | NetEvent::Accepted(_, peer) => {
                    let with_client = is_client(id) || is_client(peer);
                    let theirs = self.plan.builder(peer).config();
                    let datagrams = theirs.is_some_and(|config| config.datagrams.is_some());
                    let offer = theirs.and_then(|config| config.hop_control.offer(with_client));
                    (is_client(peer), offer, datagrams)
                }
                _ => (false, None, false),
            };
            let Some(tor) = &mut self.nodes[id as usize].tor else { continue };
            let mut kernel = HostKernel::new(&mut self.net, id);
            match event {
                NetEvent::Opened(channel, _) => {
                    if datagrams {
                        tor.use_datagrams(channel);
                    }
                    tor.on_channel_open(now, channel, offer, &mut kernel);
                    self.start_timing(id);
                }
                NetEvent::Accepted(sock, peer) => {
                    let channel = tor.accept_channel(now, PeerId(peer), to_client);
                    if datagrams {
                        tor.use_datagrams(channel);
                    }
                    self.net.adopt(sock, channel);
                    tor.on_channel_open(now, channel, offer, &mut HostKernel::new(&mut self.net, id));
                }
                NetEvent::Connected(stream) => tor.on_stream_connected(now, stream, (), &mut kernel),
                NetEvent::ChannelBroke(channel) => {
                    self.net.hosts[id as usize].set_channel(channel, None);
                    tor.on_channel_closed(now, channel, &mut HostKernel::new(&mut self.net, id));
                }
                NetEvent::StreamBroke(stream) => {
                    self.net.hosts[id as usize].set_stream(stream, None);
                    tor.close_stream(now, stream, EndReason::DONE, &mut HostKernel::new(&mut self.net, id));
                }
            }
        }
    }

    fn on_relay_timer(&mut self, id: HostId) {
        let now = self.net.now();
        let node = &mut self.nodes[id as usize];
        node.armed.retain(|at| *at != now);
        if node.timer != Some(now) {
            return;
        }
        node.timer = None;
        if self.net.busy_until(id).is_some() {
            // `arm_timer` sets the timer again for the time at which the processor is free.
            return;
        }
        if let Some(tor) = &mut node.tor {
            tor.on_timer(now, &mut HostKernel::new(&mut self.net, id));
            self.end_turn(id);
        }
    }

    fn arm_timer(&mut self, id: HostId) {
        let node = &mut self.nodes[id as usize];
        if let Some(due) = node.tor.as_ref().and_then(Relay::poll_timeout)
            && node.timer.is_none_or(|timer| due < timer)
        {
            let due = due.max(self.net.busy_until(id).unwrap_or(self.net.now()));
            node.timer = Some(due);
            if !node.armed.contains(&due) {
                node.armed.push(due);
                self.net.set_timer(id, due, Timer::Relay);
            }
        }
    }
}

impl World<'_> {
    fn client(&mut self, id: HostId, session: u32) -> Option<&mut Client> {
        self.nodes[id as usize].sessions.get_mut(session as usize)
    }

    /// The index of the client's first session that satisfies `is_it`.
    fn session(&self, id: HostId, is_it: impl Fn(&Client) -> bool) -> Option<u32> {
        self.nodes[id as usize].sessions.iter().position(is_it).map(|session| session as u32)
    }

    fn session_with(&self, id: HostId, circuit: CircuitIndex) -> Option<u32> {
        let uses = |client: &Client| client.circuit.as_ref().is_some_and(|own| own.has_leg(circuit));
        self.session(id, uses)
    }

    fn session_on(&self, id: HostId, stream: StreamKey) -> Option<u32> {
        let is_on =
            |client: &Client| matches!(&client.phase, Phase::Downloading(own) if own.stream == stream);
        self.session(id, is_on)
    }

    fn on_client_timer(&mut self, id: HostId, session: u32, generation: u32) {
        let Some(client) = self.client(id, session).filter(|client| client.generation == generation) else {
            return;
        };
        if let Task::Generator(_) = client.task {
            self.advance_generator(id, session);
            return;
        }
        match client.phase {
            Phase::Pausing => self.begin(id, session),
            Phase::Building => self.give_up_building(id, session),
            Phase::Downloading(_) => self.end_download(id, session, Outcome::Timeout),
            Phase::Holding => self.end_hold(id, session),
        }
    }

    /// After a pause, begins a download or holds a circuit. If necessary, builds the circuit first.
    fn begin(&mut self, id: HostId, session: u32) {
        let scenario = self.scenario;
        if let Some(Client { task: Task::Loop, workload, .. }) = self.client(id, session)
            && let Activity::Tgen(_) = scenario.workloads[*workload].does
        {
            self.begin_traffic(id, session);
            return;
        }
        let without_tor = self.nodes[id as usize].tor.is_none();
        let Some(owner) = self.client(id, session).map(|client| client.circuit_owner) else { return };
        self.retire(id, owner);
        let circuit = self.client(id, owner).and_then(|owner| owner.circuit.as_ref());
        let is_built = circuit.map(|circuit| circuit.is_built);
        if without_tor || is_built == Some(true) {
            self.download(id, session);
            return;
        }
        if is_built.is_none() {
            self.build(id, owner);
        }
        let now = self.net.now();
        let Some(client) = self.client(id, session) else { return };
        match &scenario.workloads[client.workload].does {
            Activity::Download(_) | Activity::Tgen(_) => self.wait_for_circuit(id, session),
            Activity::Hold(hold) => {
                client.enter(Phase::Holding);
                let (until, generation) = (now + client.draw_hold(hold), client.generation);
                self.net.set_timer(id, until, Timer::Client(session, generation));
            }
        }
    }

    /// Retires a circuit that is too old for new streams. The circuit closes when its last stream ends.
    /// Source: path-spec section 2.2; C tor `circuit_is_acceptable()`, `circuit_expire_old_circuits_clientside()`.
    fn retire(&mut self, id: HostId, owner: u32) {
        let now = self.net.now();
        let scenario = self.scenario;
        let Some(client) = self.client(id, owner) else { return };
        let lifetime = scenario.clients[client.index].group.circuit_lifetime;
        let is_old = |circuit: &mut Circuit| {
            circuit.dirty.zip(lifetime).is_some_and(|(dirty, lifetime)| now >= dirty + lifetime)
        };
        let Some(old) = client.circuit.take_if(is_old) else { return };
        let number = old.number;
        client.retired.push(old);
        self.close_unused(id, owner, number);
        // A new circuit may reuse the index immediately, so the events of the old circuit are handled first.
        self.handle_relay_events(id);
    }

    fn close_unused(&mut self, id: HostId, owner: u32, number: u32) {
        let Some(client) = self.client(id, owner) else { return };
        // Most clients have no retired circuit, so this avoids a scan of the sessions.
        let Some(place) = client.retired.iter().position(|circuit| circuit.number == number) else { return };
        let is_on = |client: &Client| {
            client.circuit_owner == owner
                && client.number == number
                && matches!(client.phase, Phase::Downloading(_))
        };
        if self.session(id, is_on).is_some() {
            return;
        }
        let Some(client) = self.client(id, owner) else { return };
        let circuit = client.retired.remove(place);
        self.close_legs(id, &circuit);
    }

    /// Closes a circuit and the one that is linked with it.
    fn close_legs(&mut self, id: HostId, circuit: &Circuit) {
        let now = self.net.now();
        if let Some(tor) = &mut self.nodes[id as usize].tor {
            let mut kernel = HostKernel::new(&mut self.net, id);
            for leg in circuit.legs() {
                tor.close_circuit(now, leg.index, DestroyReason::NONE, &mut kernel);
            }
        }
    }

    fn wait_for_circuit(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let scenario = self.scenario;
        let Some(client) = self.client(id, session) else { return };
        client.enter(Phase::Building);
        let (generation, owner) = (client.generation, client.circuit_owner);
        let due = match scenario.clients[client.index].group.build_timeout {
            None => None,
            Some(BuildLimit::Fixed(timeout)) => Some(now + timeout),
            Some(BuildLimit::Adaptive(_)) => self.build_due(id, owner),
        };
        if let Some(due) = due {
            self.net.set_timer(id, due.max(now), Timer::Client(session, generation));
        }
    }

    /// Builds another circuit over other relays, because the circuit takes too long to build.
    fn give_up_building(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let scenario = self.scenario;
        let Some(owner) = self.client(id, session).map(|client| client.circuit_owner) else { return };
        let Some(Client { circuit, index, .. }) = self.client(id, owner) else { return };
        let Some(BuildLimit::Fixed(timeout)) = scenario.clients[*index].group.build_timeout else {
            return self.expire_building(id, session);
        };
        // If several sessions wait for this circuit, the first session replaces the circuit.
        if circuit.as_ref().is_some_and(|circuit| now >= circuit.begun + timeout) {
            self.drop_circuit(id, owner);
            self.nodes[id as usize].timed_out += 1;
        }
        if self.client(id, owner).is_some_and(|owner| owner.circuit.is_none()) {
            self.build(id, owner);
        }
        self.wait_for_circuit(id, session);
    }

    fn drop_circuit(&mut self, id: HostId, owner: u32) {
        if let Some(circuit) = self.client(id, owner).and_then(|client| client.circuit.take()) {
            self.close_legs(id, &circuit);
        }
        // A new circuit may reuse the index immediately, so the events of the old circuit are handled first.
        self.handle_relay_events(id);
    }

    /// Begins to build the circuit of a session, or both legs of linked circuits. Other sessions may share the circuit.
    fn build(&mut self, id: HostId, session: u32) {
        let scenario = self.scenario;
        let Some(client) = self.client(id, session) else { return };
        let (workload, index) = (client.workload, client.index);
        let path = client.draw_path(scenario);
        let second = client.draw_second(scenario, &path);
        let mut circuit = self.open_circuit(id, (index, Some(workload)), &path);
        let set = circuit.number;
        circuit.second = second
            .map(|path| Circuit { set, ..self.open_circuit(id, (index, Some(workload)), &path) }.into());
        if let Some(client) = self.client(id, session) {
            client.circuit = Some(circuit);
        }
    }

    /// Begins to build one circuit of a client and its workload. A test circuit has none.
    fn open_circuit(
        &mut self,
        id: HostId,
        (index, workload): (usize, Option<usize>),
        path: &[usize],
    ) -> Circuit {
        let now = self.net.now();
        let scenario = self.scenario;
        let model = &scenario.clients[index];
        let plan = self.plan;
        let relays: Vec<HostId> = path.iter().map(|relay| plan.relay_ids[*relay]).collect();
        // A client at its entry is the first relay.
        let beyond = &relays[usize::from(model.group.at_entry)..];
        let names: Vec<Name> =
            path.iter().map(|relay| plan.scenario.relays[*relay].host.name.clone()).collect();
        let name = self.client_name(id, index);
        let number = self.observer.circuit_begun(now, id, name.clone(), &names);
        let traced = workload.filter(|workload| {
            let shared = model.group.workloads.iter().filter(|_| model.group.shares_circuit());
            let workloads = shared.chain([workload]).copied();
            scenario.trace.follows(&model.host.name, workloads, plan.seed)
        });
        if let Some(workload) = traced {
            // A shared circuit is recorded with its first workload.
            let workload = plan.workload_names[workload].clone();
            let nodes: Vec<HostId> = std::iter::once(id).chain(beyond.iter().copied()).collect();
            self.trace_log.push(TraceEvent::Began { number, client: name, workload, nodes });
        }
        // Clients learn from the consensus which relays support hop control.
        let relays_of_path = path.iter().map(|relay| &scenario.relays[*relay].config);
        let nodes = std::iter::once(&model.group.config).chain(relays_of_path);
        let controlled = HopOffer::all_along(nodes.map(|config| config.hop_control.offer(false)));
        let tor = self.nodes[id as usize].tor.as_mut().expect("every client has an onion proxy");
        let rest = beyond[1..].iter().map(|relay| PeerId(*relay));
        let index = tor.open_circuit(now, PeerId(beyond[0]), rest, controlled);
        let traced = traced.is_some();
        let own = SimHandshake { circuit: number, hop: 0, traced, congestion: Negotiation::Nothing };
        self.place(id, index, own);
        let timed = self.timed_from(id, index);
        let (built, is_built, dirty, streams, second) = (None, false, None, 0, None);
        let set = number;
        Circuit { index, number, relays, begun: now, timed, built, is_built, dirty, streams, set, second }
    }

    /// The name of a client, which may be a part of a relay.
    fn client_name(&self, id: HostId, client: usize) -> Name {
        match self.plan.builder(id) {
            Builder::Relay(..) => self.scenario.clients[client].host.name.clone(),
            _ => self.nodes[id as usize].name.clone(),
        }
    }

    fn waiting(&self, id: HostId, owner: u32) -> Vec<u32> {
        let sessions = &self.nodes[id as usize].sessions;
        let waits =
            |client: &Client| client.circuit_owner == owner && matches!(client.phase, Phase::Building);
        (0..).zip(sessions).filter(|(_, client)| waits(client)).map(|(session, _)| session).collect()
    }

    /// Ends the time for which a session holds a circuit: closes the circuit and its channel.
    fn end_hold(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        if let Some(circuit) = self.client(id, session).and_then(|client| client.circuit.take())
            && let Some(tor) = &mut self.nodes[id as usize].tor
        {
            let mut kernel = HostKernel::new(&mut self.net, id);
            let channels: Vec<_> =
                circuit.legs().filter_map(|leg| tor.leg(leg.index, TO_CLIENT.opposite())).collect();
            for leg in circuit.legs() {
                tor.close_circuit(now, leg.index, DestroyReason::NONE, &mut kernel);
            }
            for (channel, _) in channels {
                tor.close_channel(now, channel, &mut kernel);
            }
        }
        self.pause(id, session);
    }

    fn place(&mut self, id: HostId, circuit: CircuitIndex, handshake: SimHandshake) {
        let node = &mut self.nodes[id as usize];
        let slot = circuit.index();
        if node.circuits.len() <= slot {
            node.circuits.resize(slot + 1, None);
        }
        node.circuits[slot] = Some(handshake);
        if handshake.traced {
            let (number, hop) = (handshake.circuit, handshake.hop.into());
            self.trace_log.push(TraceEvent::Placed { number, hop, id, circuit });
        }
    }

    fn on_circuit_built(&mut self, id: HostId, built: CircuitIndex) {
        let now = self.net.now();
        if let Some(circuit) = self.measured(id, built).cloned() {
            self.record_built(&circuit);
            return self.on_measured(id, built);
        }
        let Some(session) = self.session_with(id, built) else { return };
        let Some(circuit) = self.client(id, session).and_then(|client| client.circuit.as_mut()) else {
            return;
        };
        let is_leg = circuit.second.is_some();
        let Some(leg) = circuit.leg_mut(built) else { return };
        leg.built = Some(now);
        let (circuit, set) = (leg.clone(), leg.set);
        self.record_built(&circuit);
        if !self.learn(id, session, built) {
            return;
        }
        if !is_leg {
            self.on_circuit_usable(id, built);
        } else if let Some(tor) = &mut self.nodes[id as usize].tor {
            let mut kernel = HostKernel::new(&mut self.net, id);
            // Without congestion control at the exit, the circuits cannot be linked. The client then uses only one.
            if !tor.link_circuit(now, built, nonce(set.into()), &mut kernel) {
                self.use_alone(id, session, built);
            }
        }
    }

    /// Records a complete circuit, and counts it at its relays.
    fn record_built(&mut self, circuit: &Circuit) {
        let now = self.net.now();
        for (hop, relay) in circuit.relays.iter().enumerate() {
            let position = position(hop + 1, circuit.relays.len() + 1);
            let place = POSITIONS.iter().position(|known| *known == position).expect("no relay is a client");
            if self.nodes.contains(*relay) {
                self.nodes[*relay as usize].served[place] += 1;
            } else {
                self.net.outbox.push(*relay, Mail::Served(place));
            }
        }
        self.observer.circuit_built(circuit, now);
    }

    /// Gives up the other leg of a circuit that cannot be linked.
    fn use_alone(&mut self, id: HostId, session: u32, built: CircuitIndex) {
        let now = self.net.now();
        let Some(circuit) = self.client(id, session).and_then(|client| client.circuit.as_mut()) else {
            return;
        };
        let Some(second) = circuit.second.take() else { return };
        let other =
            if circuit.index == built { second.index } else { std::mem::replace(&mut circuit.index, built) };
        if let Some(tor) = &mut self.nodes[id as usize].tor {
            tor.close_circuit(now, other, DestroyReason::NONE, &mut HostKernel::new(&mut self.net, id));
        }
        self.on_circuit_usable(id, built);
    }

    /// A circuit is built, or all legs of linked circuits are linked.
    fn on_circuit_usable(&mut self, id: HostId, circuit: CircuitIndex) {
        let Some(session) = self.session_with(id, circuit) else { return };
        if let Some(circuit) = self.client(id, session).and_then(|client| client.circuit.as_mut()) {
            circuit.is_built = true;
        }
        for session in self.waiting(id, session) {
            self.download(id, session);
        }
    }

    /// Begins a download. If the session only holds a circuit, this does nothing.
    fn download(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let scenario = self.scenario;
        let node = &mut self.nodes[id as usize];
        let sessions = &mut node.sessions;
        let (index, owner) = (sessions[session as usize].workload, sessions[session as usize].circuit_owner);
        let workload = &scenario.workloads[index];
        if let Activity::Hold(_) = workload.does {
            return;
        }
        let circuit = sessions[owner as usize].circuit.as_mut().map(|circuit| {
            circuit.streams += 1;
            circuit.dirty.get_or_insert(now);
            (circuit.index, circuit.number, circuit.streams)
        });
        let client = &mut sessions[session as usize];
        let model = &scenario.clients[client.index];
        let (size, request, server) = match (&client.task, &workload.does) {
            (Task::Stream(stream), _) => (stream.size, stream.request, stream.server),
            (_, Activity::Download(size)) => {
                let size = client.draw_size(size);
                (size, Request::of(size.get()), client.draw_server(model))
            }
            _ => unreachable!("only downloads and streams begin here"),
        };
        let server = self.plan.server_ids[server];
        let start = client.requested_at().unwrap_or(now);
        let mut app = App::new(size.get());
        let stream = match (&mut node.tor, circuit) {
            (Some(tor), Some((circuit, ..))) => {
                let mut kernel = HostKernel::new(&mut self.net, id);
                let opened = tor.open_stream(now, circuit, server, &mut kernel);
                let stream = opened.expect("a client downloads over a built circuit");
                // With optimistic data the application sends the request now; otherwise when the stream is open.
                let optimistic = model.group.config.optimistic_data;
                if optimistic {
                    app.send_request(workload.request.get(), request);
                }
                self.net.hosts[id as usize].set_stream(stream, Some(StreamSock::App(app)));
                if optimistic {
                    tor.on_stream_readable(now, stream, &mut HostKernel::new(&mut self.net, id));
                }
                stream
            }
            (Some(_), None) => return,
            (None, _) => {
                app.send_request(workload.request.get(), request);
                self.net.connect_plain(id, server, app);
                PLAIN
            }
        };
        let (circuit_number, number) = circuit.map_or((0, 0), |(_, circuit, stream)| (circuit, stream));
        client.number = circuit_number;
        client.enter(Phase::Downloading(Download {
            stream,
            number,
            size,
            request_size: workload.request,
            request,
            start,
            connected: None,
        }));
        if let Some(timeout) = workload.timeout {
            let generation = client.generation;
            self.net.set_timer(id, now + timeout, Timer::Client(session, generation));
        }
    }

    fn on_stream_connected(&mut self, id: HostId, stream: StreamKey) {
        let now = self.net.now();
        let scenario = self.scenario;
        let Some(session) = self.session_on(id, stream) else { return };
        let Some(client) = self.client(id, session) else { return };
        let index = client.index;
        let Some(download) = client.download_on(stream) else { return };
        download.connected = Some(now);
        // With optimistic data, the request was sent before CONNECTED.
        if scenario.clients[index].group.config.optimistic_data {
            return;
        }
        let (size, request) = (download.request_size.get(), download.request);
        if let Some(app) = self.net.hosts[id as usize].app(stream) {
            app.send_request(size, request);
        }
        self.net.refresh_app(id, stream);
    }

    fn on_stream_closed(&mut self, id: HostId, stream: StreamKey) {
        if let Some(session) = self.session_on(id, stream) {
            let complete = self.is_complete(id, session, 0);
            self.end_download(id, session, if complete { Outcome::Ok } else { Outcome::Failed });
        }
        self.net.hosts[id as usize].set_stream(stream, None);
    }

    fn on_circuit_closed(&mut self, id: HostId, circuit: CircuitIndex) {
        let node = &mut self.nodes[id as usize];
        let known = node.circuits.get_mut(circuit.index()).and_then(Option::take);
        if let Some(handshake) = known.filter(|known| known.traced) {
            self.trace_log.push(TraceEvent::Left { number: handshake.circuit, id, circuit });
        }
        let Node { sessions, tor, .. } = &mut self.nodes[id as usize];
        let continues =
            |leg: CircuitIndex| tor.as_ref().is_some_and(|tor| !tor.linked_circuits(leg).is_empty());
        for client in sessions {
            client.retired.retain_mut(|old| !old.has_leg(circuit) || old.lose_leg(circuit, continues));
        }
        self.forget_measured(id, circuit);
        let Some(session) = self.session_with(id, circuit) else { return };
        let Node { sessions, tor, .. } = &mut self.nodes[id as usize];
        let continues =
            |leg: CircuitIndex| tor.as_ref().is_some_and(|tor| !tor.linked_circuits(leg).is_empty());
        let own = &mut sessions[session as usize].circuit;
        if own.as_mut().is_some_and(|own| own.lose_leg(circuit, continues)) {
            return;
        }
        // A leg that was not linked yet is closed, too.
        if let Some(rest) = own.take() {
            self.close_legs(id, &rest);
        }
        for session in self.waiting(id, session) {
            self.pause(id, session);
        }
    }

    /// Ends downloads whose last byte has reached the application. A download of zero bytes ends when its stream
    /// closes.
    fn check_downloads(&mut self, id: HostId) {
        for session in 0..self.nodes[id as usize].sessions.len() as u32 {
            self.run_client_script(id, session);
            let Some(client) = self.client(id, session) else { return };
            if !matches!(client.phase, Phase::Downloading(_)) {
                continue;
            }
            if self.is_complete(id, session, 1) {
                self.end_download(id, session, Outcome::Ok);
            } else if self.nodes[id as usize].tor.is_none() && !self.net.has_plain(id) {
                self.end_download(id, session, Outcome::Failed);
            }
        }
    }

    /// Whether a download is complete and has at least `least` bytes [B]. If the stream follows a Markov model, the
    /// client must also have sent all bytes.
    fn is_complete(&mut self, id: HostId, session: u32, least: u64) -> bool {
        let Some(Client { task, phase: Phase::Downloading(download), .. }) = self.client(id, session) else {
            return false;
        };
        let (stream, size) = (download.stream, download.size.get());
        let script = if let Task::Stream(stream) = task { stream.script.as_ref() } else { None };
        let script = script.map(|script| script.ended);
        self.net.hosts[id as usize].app(stream).is_some_and(|app| match script {
            None => app.received >= size.max(least),
            Some(is_over) => is_over && app.to_send == 0 && app.received >= size,
        })
    }

    fn end_download(&mut self, id: HostId, session: u32, outcome: Outcome) {
        let now = self.net.now();
        let scenario = self.scenario;
        self.record_download(id, session, outcome);
        let node = &mut self.nodes[id as usize];
        let client = &mut node.sessions[session as usize];
        let (index, owner, number) = (client.workload, client.circuit_owner, client.number);
        let Phase::Downloading(download) = std::mem::replace(&mut client.phase, Phase::Pausing) else {
            return;
        };
        self.finished[index] += u64::from(outcome == Outcome::Ok);
        if let Some(tor) = &mut node.tor {
            let mut kernel = HostKernel::new(&mut self.net, id);
            // The client closes streams that follow a Markov model; servers close all other streams.
            if outcome == Outcome::Timeout || client.has_script() {
                tor.close_stream(now, download.stream, EndReason::DONE, &mut kernel);
            }
            if scenario.workloads[index].fresh_circuit
                && let Some(circuit) = client.circuit.take()
            {
                for leg in circuit.legs() {
                    tor.close_circuit(now, leg.index, DestroyReason::NONE, &mut kernel);
                }
            }
        } else {
            self.net.close_plain(id);
        }
        let is_stream = matches!(client.task, Task::Stream(_));
        self.close_unused(id, owner, number);
        if is_stream {
            self.stream_ended(id, session);
        } else {
            self.pause(id, session);
        }
    }

    fn pause(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let scenario = self.scenario;
        let Some(client) = self.client(id, session) else { return };
        let pause = match client.task {
            Task::Stream(_) => open::RETRY,
            _ => client.draw_pause(&scenario.workloads[client.workload]),
        };
        client.phase = Phase::Pausing;
        client.generation += 1;
        let generation = client.generation;
        self.net.set_timer(id, now + pause, Timer::Client(session, generation));
    }
}

impl World<'_> {
    fn record_download(&mut self, id: HostId, session: u32, outcome: Outcome) {
        let node = &self.nodes[id as usize];
        let client = &node.sessions[session as usize];
        let (download, circuit) = match (&client.phase, client.waiting_replay()) {
            (Phase::Downloading(download), _) => (download, Some(client.number)),
            (_, Some(download)) => (&download.clone(), None),
            _ => return,
        };
        let app = self.net.hosts[id as usize].app(download.stream).cloned();
        let app = app.unwrap_or_else(|| App::new(download.size.get()));
        let ending = TransferEnd {
            client: self.client_name(id, client.index),
            workload: self.plan.workload_names[client.workload].clone(),
            circuit: circuit.filter(|_| node.tor.is_some()),
            connected: app.connected,
            received: app.received,
            first_byte: app.first_byte,
            last_byte: app.last_byte,
            outcome,
            warmup: download.start < Instant::ZERO + self.scenario.run.warmup,
        };
        self.observer.transfer(self.net.now(), id, download, ending);
    }

    /// Checks the bound of a relay after all its events up to `now`.
    fn check_bound(&mut self, id: HostId, now: Instant) {
        self.net.set_now(now);
        self.net.hosts[id as usize].next_bound_check = now + bound_interval(self.scenario);
        let node = &mut self.nodes[id as usize];
        let (net, Some(tor)) = (&self.net, &node.tor) else { return };
        let waits = |at: &Bound| match at {
            Bound::Link => net.link_waits(id),
            Bound::Bucket => tor.lacks_tokens(),
            Bound::Tcp => net.tcp_waits(id),
            Bound::Cpu => net.cpu_waits(id),
            Bound::Credit => tor.lacks_credit(),
            Bound::Window => tor.lacks_window(),
        };
        if let Some(bound) = bound(waits) {
            node.bound_counts.count(bound);
        }
    }

    /// The clients that a relay of the shard throttles.
    pub(crate) fn throttled_clients(&self) -> impl Iterator<Item = HostId> {
        let relays = self.plan.relay_ids.iter().filter_map(|id| self.nodes.get(*id)?.tor.as_ref());
        relays.flat_map(|tor| tor.throttled_clients().map(|PeerId(client)| client))
    }

    /// Records the bytes that each client of the shard has received since the last sample.
    pub(crate) fn sample_clients(&mut self, throttled: &BTreeSet<HostId>) {
        let now = self.net.now();
        for id in &self.plan.client_ids {
            // A client has no state before it starts, or in another shard.
            if !self.net.hosts.contains(*id) {
                continue;
            }
            let received = std::mem::take(&mut self.net.hosts[*id as usize].received);
            if received > 0 {
                let name = self.nodes[*id as usize].name.clone();
                self.observer.client(now, name, received, throttled.contains(id));
            }
        }
    }

    /// Samples all relays of the shard at a barrier.
    pub(crate) fn sample_relays(&mut self) {
        let now = self.net.now();
        let plan = self.plan;
        for id in &plan.relay_ids {
            if self.nodes.contains(*id) {
                self.run_host(*id, now + TICK);
            }
        }
        self.net.set_now(now);
        for id in &plan.relay_ids {
            let Some(node) = self.nodes.get_mut(*id) else { continue };
            let Some(tor) = &node.tor else { continue };
            let counters = tor.counters();
            self.observer.relay(RelaySample {
                name: node.name.clone(),
                position: node.position(),
                at: now,
                before: std::mem::replace(&mut node.sampled, counters),
                after: counters,
                circuit_queue: tor.queued(),
                outbuf: tor.outbuf_bytes().get(),
                kernel_out: self.net.kernel_out(*id),
                throttled: tor.throttled_channels(),
                bound: std::mem::take(&mut node.bound_counts).most(),
            });
        }
    }

    /// The state of a circuit at one of this shard's hosts; `None` if the circuit has closed.
    pub(crate) fn circuit_state(&self, id: HostId, circuit: CircuitIndex) -> Option<CircuitState> {
        let tor = self.nodes.get(id)?.tor.as_ref()?;
        let queue = tor.circuit_queue(circuit, TO_CLIENT)?;
        let sends_on = tor.leg(circuit, TO_CLIENT);
        let sock = sends_on.and_then(|leg| self.net.hosts[id as usize].channel(leg.0));
        let window = tor.circuit_window(circuit);
        Some(CircuitState {
            queue,
            window: window.or(tor.hop_window(circuit, TO_CLIENT).map(|window| (window, None))),
            sendmes: tor.arrived_sendmes(circuit),
            backlog: tor.backlog(circuit, TO_CLIENT),
            tcp: sock.map(|sock| self.net.tcp_info(sock)),
        })
    }

    /// The name and the workload of a client without Tor, and both ends of its connection; `None` if it has none.
    pub(crate) fn plain_download(&mut self, id: HostId) -> Option<(Name, Name, (Peer, SockRef))> {
        let node = self.nodes.get(id)?;
        let workload = self.plan.workload_names[node.sessions.first()?.workload].clone();
        Some((node.name.clone(), workload, self.net.plain_ends(id)?))
    }

    /// Records the downloads that have not ended.
    pub(crate) fn record_unfinished(&mut self) {
        for id in 0..self.nodes.len() as HostId {
            let sessions = self.nodes.get(id).map_or(0, |node| node.sessions.len());
            (0..sessions as u32).for_each(|session| self.record_download(id, session, Outcome::Unfinished));
        }
    }

    /// The report of a node with Tor; `None` if it has not started.
    pub(crate) fn report(&mut self, id: HostId) -> Option<crate::NodeReport> {
        let node = self.nodes.get(id)?;
        let tor = node.tor.as_ref()?;
        Some(crate::NodeReport {
            name: node.name.to_string(),
            is_relay: matches!(self.plan.builder(id), Builder::Relay(..)),
            build_times: node.learner.as_deref().map(Learner::report),
            timed_out: node.timed_out,
            calls: self.net.hosts[id as usize].calls,
            queries: self.net.hosts[id as usize].queries,
            counters: tor.counters(),
            held: tor.queued() + tor.outbuf_cells(),
            population: tor.population(),
            link_bytes: self.net.carried(id),
            datagrams: tor.datagram_counters(),
            unacknowledged: Cells::new(tor.unacknowledged()),
        })
    }
}

fn bound_interval(scenario: &Scenario) -> Duration {
    scenario.run.sample / BOUND_CHECKS_PER_SAMPLE
}

const POSITIONS: [Position; 3] = [Position::Guard, Position::Middle, Position::Exit];

impl Node {
    /// The position that this relay has on most of its circuits; middle if it has no circuits.
    fn position(&self) -> Position {
        let most =
            (0..3).rev().max_by_key(|place| self.served[*place]).filter(|place| self.served[*place] > 0);
        most.map_or(Position::Middle, |place| POSITIONS[place])
    }
}

impl Builder<'_> {
    fn build(&self, plan: &Plan<'_>) -> Node {
        let Plan { scenario, seed, record, .. } = *plan;
        let name = &self.host().name;
        let tor = |config: &Arc<RelayConfig>, phase: RefillPhase| {
            let mut rng = seed.stream(&format!("{name}/refill"));
            let phase = phase.draw(config.refill.interval, &mut rng);
            Relay::of_many(config.clone(), phase, Instant::ZERO)
        };
        let sessions = |index: usize| match record {
            None => Client::all(index, scenario, seed),
            Some(record) => Client::replayed(index, scenario, seed, record),
        };
        let (sessions, learner, tor) = match self {
            Builder::Relay(index, relay) => {
                let mut all: Vec<Client> = Vec::new();
                for client in plan.clients_at.get(index).into_iter().flatten() {
                    let before = all.len() as u32;
                    all.extend(sessions(*client));
                    all[before as usize..].iter_mut().for_each(|session| session.circuit_owner += before);
                }
                (all, None, Some(tor(&relay.config, relay.refill_phase)))
            }
            Builder::Client(index, client) => {
                let tor = self.has_tor().then(|| tor(&client.group.config, client.group.refill_phase));
                let sessions = sessions(*index);
                let learner = Learner::new(*index, &sessions, scenario, seed);
                (sessions, learner, tor)
            }
            Builder::Server(_) => (Vec::new(), None, None),
        };
        Node {
            name: name.clone(),
            sessions,
            learner,
            timed_out: 0,
            tor,
            timer: None,
            armed: Vec::new(),
            circuits: Vec::new(),
            served: [0; 3],
            bound_counts: BoundCounts::default(),
            sampled: Counters::default(),
        }
    }
}
