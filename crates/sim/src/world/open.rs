//! Open loops, in which the start of a stream does not depend on earlier streams. This module also has the client's
//! side of streams that follow a Markov model.
//!
//! A generator is a session that starts other sessions. A traffic generator starts flows, and each flow starts streams
//! on its own circuit.

use super::World;
use crate::cell::{Request, RequestKind};
use crate::client::{Client, Download, Generator, Phase, Plan, Replayed, Stream, Task};
use crate::net::Timer;
use crate::queue::HostId;
use crate::script::Script;
use penstock_scenario::markov::{Markov, Observation, Walk};
use penstock_scenario::model::{Activity, Tgen};
use penstock_units::{Bytes, Duration, Seed};
use std::sync::Arc;

/// If the circuit of a stream breaks during building, the stream retries after this time.
pub(super) const RETRY: Duration = Duration::from_secs(1);

enum Next {
    /// Starts a flow or a stream. If a delay is given, the generator continues after it.
    Begin {
        flow: bool,
        then: Option<Duration>,
    },
    Nothing,
}

impl World<'_> {
    /// Starts a session with Markov models, either as a flow or as a generator of flows.
    pub(super) fn begin_traffic(&mut self, id: HostId, session: u32) {
        let scenario = self.scenario;
        let Some(client) = self.client(id, session) else { return };
        let Activity::Tgen(tgen) = &scenario.workloads[client.workload].does else { return };
        let plan = match &tgen.flows {
            Some(flows) => Plan::Flows(walk(client, flows)),
            None => streams(client, tgen),
        };
        client.task = generator(plan, None);
        self.advance_generator(id, session);
    }

    /// Lets a generator start its next flows or streams.
    pub(super) fn advance_generator(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let Some(client) = self.client(id, session) else { return };
        client.generation += 1;
        let generation = client.generation;
        let Task::Generator(generator) = &mut client.task else { return };
        let next = match &mut generator.plan {
            Plan::Flows(walk) => next(walk, true),
            Plan::Streams(walk) => next(walk, false),
            Plan::One => Next::Begin { flow: false, then: None },
            Plan::Replay { .. } => return self.replay_downloads(id, session),
            Plan::Over => Next::Nothing,
        };
        let Next::Begin { flow, then } = next else {
            generator.plan = Plan::Over;
            return self.check_generator_end(id, session);
        };
        if then.is_none() {
            generator.plan = Plan::Over;
        }
        generator.open += 1;
        if flow {
            self.begin_flow(id, session);
        } else {
            self.begin_stream(id, session);
        }
        if let Some(delay) = then {
            self.net.set_timer(id, now + delay, Timer::Client(session, generation));
        }
    }

    /// Starts a flow, which has its own circuit and random streams.
    fn begin_flow(&mut self, id: HostId, of: u32) {
        let scenario = self.scenario;
        let Some(parent) = self.client(id, of) else { return };
        let Activity::Tgen(tgen) = &scenario.workloads[parent.workload].does else { return };
        let mut child = parent.child();
        child.task = generator(streams(&mut child, tgen), Some(of));
        let flow = self.add(id, child, None);
        self.advance_generator(id, flow);
    }

    fn begin_stream(&mut self, id: HostId, of: u32) {
        let scenario = self.scenario;
        let Some(parent) = self.client(id, of) else { return };
        let Activity::Tgen(tgen) = &scenario.workloads[parent.workload].does else { return };
        let server = parent.draw_server(&scenario.clients[parent.index]);
        let request = Request::script(parent.workload, parent.rng.bits());
        let RequestKind::Script { seed, .. } = request.kind() else {
            unreachable!("it is a request for a script")
        };
        let script = Some(Script::new(tgen, seed, Observation::ToServer));
        let mut child = parent.child();
        child.task = Task::Stream(Box::new(Stream {
            of,
            server,
            request,
            size: Bytes::ZERO,
            requested_at: None,
            script,
        }));
        let stream = self.add(id, child, Some(of));
        self.begin(id, stream);
    }

    /// In a replay, builds a recorded circuit. If the circuit was already begun, starts the downloads that are due.
    fn replay_downloads(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let Some(client) = self.client(id, session) else { return };
        let generation = client.generation;
        let Task::Generator(generator) = &mut client.task else { return };
        let Plan::Replay { begun, left } = &mut generator.plan else { return };
        let is_new = !std::mem::replace(begun, true);
        let due = left.iter().take_while(|again| again.what.start <= now).count();
        let due: Vec<Replayed> = left.drain(..due).collect();
        generator.open += due.len() as u32;
        let next = left.front().map(|again| again.what.start);
        if next.is_none() {
            generator.plan = Plan::Over;
        }
        if is_new {
            self.build(id, session);
        }
        for again in due {
            self.begin_replayed(id, session, again);
        }
        if let Some(next) = next {
            self.net.set_timer(id, next, Timer::Client(session, generation));
        }
    }

    fn begin_replayed(&mut self, id: HostId, of: u32, Replayed { what, server }: Replayed) {
        let Some(parent) = self.client(id, of) else { return };
        let mut child = parent.child();
        child.workload = what.workload;
        let (size, requested_at, request) = (what.size, Some(what.start), Request::of(what.size.get()));
        child.task = Task::Stream(Box::new(Stream { of, server, request, size, requested_at, script: None }));
        let stream = self.add(id, child, Some(of));
        self.begin(id, stream);
    }

    /// Adds a session, in a free slot if there is one.
    fn add(&mut self, id: HostId, mut child: Client, owner: Option<u32>) -> u32 {
        let sessions = &mut self.nodes[id as usize].sessions;
        let place = sessions.iter().position(|session| matches!(session.task, Task::Free));
        let place = place.unwrap_or(sessions.len());
        child.circuit_owner = owner.unwrap_or(place as u32);
        match sessions.get_mut(place) {
            // Timers of the earlier session in this slot must not affect the new session.
            Some(spare) => *spare = Client { generation: spare.generation + 1, ..child },
            None => sessions.push(child),
        }
        place as u32
    }

    /// Handles the end of a stream with any result.
    pub(super) fn stream_ended(&mut self, id: HostId, session: u32) {
        let Some(client) = self.client(id, session) else { return };
        client.enter(Phase::Pausing);
        if let Task::Stream(stream) = std::mem::replace(&mut client.task, Task::Free) {
            self.child_ended(id, stream.of);
        }
    }

    /// Handles the end of a flow or stream of this generator.
    fn child_ended(&mut self, id: HostId, generator: u32) {
        if let Some(Client { task: Task::Generator(generator), .. }) = self.client(id, generator) {
            generator.open -= 1;
        }
        self.check_generator_end(id, generator);
    }

    /// Closes a generator's circuit after all streams have ended and no further stream will start.
    fn check_generator_end(&mut self, id: HostId, session: u32) {
        let Some(client) = self.client(id, session) else { return };
        let Task::Generator(generator) = &client.task else { return };
        if generator.open > 0 || generator.keeps || !matches!(generator.plan, Plan::Over) {
            return;
        }
        let (of, is_replayed) = (generator.of, generator.begins.is_some());
        client.task = if of.is_some() || is_replayed { Task::Free } else { Task::Loop };
        client.enter(Phase::Pausing);
        if let Some(circuit) = client.circuit.take() {
            self.close_legs(id, &circuit);
        }
        match of {
            Some(parent) => self.child_ended(id, parent),
            None if is_replayed => {}
            None => self.pause(id, session),
        }
    }

    /// Lets the client's script send its next bytes, after the relay has read all earlier bytes.
    pub(super) fn run_client_script(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let sessions = &mut self.nodes[id as usize].sessions;
        let Client { task: Task::Stream(stream), phase: Phase::Downloading(download), generation, .. } =
            &mut sessions[session as usize]
        else {
            return;
        };
        let (Some(script), generation) = (&mut stream.script, *generation) else { return };
        let Download { stream: key, connected, size, .. } = download;
        let key = *key;
        let Some(app) = self.net.hosts[id as usize].app(key) else { return };
        if connected.is_none() || script.ended || script.paused || app.to_send > 0 {
            return;
        }
        let burst = script.next_burst();
        app.to_send += burst.bytes;
        *size = Bytes::new(script.peer_bytes);
        if let Some(pause) = burst.pause {
            self.net.set_timer(id, now + pause, Timer::ClientScript(session, generation));
        }
        self.net.refresh_app(id, key);
    }

    pub(super) fn on_client_script_timer(&mut self, id: HostId, session: u32, generation: u32) {
        let Some(client) = self.client(id, session).filter(|client| client.generation == generation) else {
            return;
        };
        if let Task::Stream(stream) = &mut client.task {
            let script = stream.script.as_mut().expect("a session with this timer has a script");
            script.paused = false;
        }
    }
}

/// A generator with this plan. `of` is the generator that started it.
fn generator(plan: Plan, of: Option<u32>) -> Task {
    Task::Generator(Box::new(Generator { plan, open: 0, of, begins: None, keeps: false }))
}

/// Which streams a flow starts: the model's streams, or a single stream if there is no model.
fn streams(client: &mut Client, tgen: &Tgen) -> Plan {
    tgen.streams.as_ref().map_or(Plan::One, |model| Plan::Streams(walk(client, model)))
}

fn walk(client: &mut Client, model: &Arc<Markov>) -> Walk {
    Walk::new(model.clone(), Seed(client.rng.bits()).stream("walk"))
}

fn next(walk: &mut Walk, flow: bool) -> Next {
    // Each observation of the model starts a stream, whatever its kind.
    walk.step().map_or(Next::Nothing, |(_, delay)| Next::Begin { flow, then: Some(delay) })
}
