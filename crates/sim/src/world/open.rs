//! Open loops: streams that begin at their times whatever becomes of those before, and what the client says in them.
//!
//! A source is an errand that begins others: a flow begins streams on its own circuit, traffic begins flows.

use super::{Role, World};
use crate::cell::{Asks, Request};
use crate::client::{Again, Client, Download, Phase, Plan, Source, Stream, Task};
use crate::event::Due;
use crate::net::HostKernel;
use crate::queue::Rank;
use crate::script::Script;
use penstock_core::reason::DestroyReason;
use penstock_scenario::markov::{Markov, Observation, Walk};
use penstock_scenario::model::{Activity, Tgen};
use penstock_units::{Bytes, Duration, Seed};
use std::sync::Arc;

/// After how long a stream whose circuit broke before it was built asks for another one.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// What a source does next.
enum Next {
    /// It begins a flow, or a stream, and goes on after the delay if there is one.
    Begin {
        flow: bool,
        then: Option<Duration>,
    },
    Nothing,
}

impl World<'_> {
    /// An errand of Markov models begins: as a flow, or as what begins flows.
    pub(super) fn begin_traffic(&mut self, rank: Rank, errand: u32) {
        let scenario = self.scenario;
        let Some(client) = self.client(rank, errand) else { return };
        let Activity::Tgen(tgen) = &scenario.workloads[client.workload].does else { return };
        let plan = match &tgen.flows {
            Some(flows) => Plan::Flows(walk(client, flows)),
            None => streams(client, tgen),
        };
        client.task = source(plan, None);
        self.go_on(rank, errand);
    }

    /// A source begins what it is time for.
    pub(super) fn go_on(&mut self, rank: Rank, errand: u32) {
        let now = self.net.now();
        let Some(client) = self.client(rank, errand) else { return };
        client.episode += 1;
        let episode = client.episode;
        let Task::Source(source) = &mut client.task else { return };
        let next = match &mut source.plan {
            Plan::Flows(walk) => next(walk, true),
            Plan::Streams(walk) => next(walk, false),
            Plan::One => Next::Begin { flow: false, then: None },
            Plan::Again { .. } => return self.ask_again(rank, errand),
            Plan::Over => Next::Nothing,
        };
        let Next::Begin { flow, then } = next else {
            source.plan = Plan::Over;
            return self.check_over(rank, errand);
        };
        if then.is_none() {
            source.plan = Plan::Over;
        }
        source.open += 1;
        if flow {
            self.begin_flow(rank, errand);
        } else {
            self.begin_stream(rank, errand);
        }
        if let Some(delay) = then {
            self.net.set_timer(rank, now + delay, Due::Client(errand, episode));
        }
    }

    /// A flow: it has a circuit and chances of its own.
    fn begin_flow(&mut self, rank: Rank, of: u32) {
        let scenario = self.scenario;
        let Some(parent) = self.client(rank, of) else { return };
        let Activity::Tgen(tgen) = &scenario.workloads[parent.workload].does else { return };
        let mut child = parent.child();
        child.task = source(streams(&mut child, tgen), Some(of));
        let flow = self.add(rank, child, None);
        self.go_on(rank, flow);
    }

    /// A stream on the circuit of its flow.
    fn begin_stream(&mut self, rank: Rank, of: u32) {
        let scenario = self.scenario;
        let Some(parent) = self.client(rank, of) else { return };
        let Activity::Tgen(tgen) = &scenario.workloads[parent.workload].does else { return };
        let server = parent.draw_server(&scenario.clients[parent.index]);
        let asks = Request::part(parent.workload, parent.chance.bits());
        let Asks::Part { seed, .. } = asks.asks() else { unreachable!("it asks for a part") };
        let script = Some(Script::new(tgen, seed, Observation::ToServer));
        let mut child = parent.child();
        child.task =
            Task::Stream(Box::new(Stream { of, server, asks, size: Bytes::ZERO, asked: None, script }));
        let stream = self.add(rank, child, Some(of));
        self.begin(rank, stream);
    }

    /// A circuit of an earlier run is begun, or it is time for some of its downloads.
    fn ask_again(&mut self, rank: Rank, errand: u32) {
        let now = self.net.now();
        let Some(client) = self.client(rank, errand) else { return };
        let episode = client.episode;
        let Task::Source(source) = &mut client.task else { return };
        let Plan::Again { begun, left } = &mut source.plan else { return };
        let is_new = !std::mem::replace(begun, true);
        let due = left.iter().take_while(|again| again.what.start <= now).count();
        let due: Vec<Again> = left.drain(..due).collect();
        source.open += due.len() as u32;
        let next = left.front().map(|again| again.what.start);
        if next.is_none() {
            source.plan = Plan::Over;
        }
        if is_new {
            self.build(rank, errand);
        }
        for again in due {
            self.begin_again(rank, errand, again);
        }
        if let Some(next) = next {
            self.net.set_timer(rank, next, Due::Client(errand, episode));
        }
    }

    /// A download of an earlier run.
    fn begin_again(&mut self, rank: Rank, of: u32, Again { what, server }: Again) {
        let Some(parent) = self.client(rank, of) else { return };
        let mut child = parent.child();
        child.workload = what.workload;
        let (size, asked, asks) = (what.size, Some(what.start), Request::of(what.size.get()));
        child.task = Task::Stream(Box::new(Stream { of, server, asks, size, asked, script: None }));
        let stream = self.add(rank, child, Some(of));
        self.begin(rank, stream);
    }

    /// Another errand, in the place of one that is over if there is one.
    fn add(&mut self, rank: Rank, mut child: Client, home: Option<u32>) -> u32 {
        let Role::Client(errands) = &mut self.nodes[rank as usize].role else {
            unreachable!("only clients have errands")
        };
        let place = errands.iter().position(|errand| matches!(errand.task, Task::Spare));
        let place = place.unwrap_or(errands.len());
        child.home = home.unwrap_or(place as u32);
        match errands.get_mut(place) {
            // A timer of the one that was there is none of this one's.
            Some(spare) => *spare = Client { episode: spare.episode + 1, ..child },
            None => errands.push(child),
        }
        place as u32
    }

    /// A stream is over, whatever became of it.
    pub(super) fn stream_ended(&mut self, rank: Rank, errand: u32) {
        let Some(client) = self.client(rank, errand) else { return };
        client.enter(Phase::Pausing);
        if let Task::Stream(stream) = std::mem::replace(&mut client.task, Task::Spare) {
            self.one_less(rank, stream.of);
        }
    }

    /// Something that a source began is over.
    fn one_less(&mut self, rank: Rank, source: u32) {
        if let Some(Client { task: Task::Source(source), .. }) = self.client(rank, source) {
            source.open -= 1;
        }
        self.check_over(rank, source);
    }

    /// A source that begins nothing more, and of which all is over, closes its circuit.
    fn check_over(&mut self, rank: Rank, errand: u32) {
        let now = self.net.now();
        let Some(client) = self.client(rank, errand) else { return };
        let Task::Source(source) = &client.task else { return };
        if source.open > 0 || source.keeps || !matches!(source.plan, Plan::Over) {
            return;
        }
        let (of, is_again) = (source.of, source.begins.is_some());
        client.task = if of.is_some() || is_again { Task::Spare } else { Task::Loop };
        client.enter(Phase::Pausing);
        if let Some(circuit) = client.circuit.take()
            && let Some(tor) = &mut self.nodes[rank as usize].tor
        {
            tor.close_circuit(
                now,
                circuit.index,
                DestroyReason::NONE,
                &mut HostKernel::new(&mut self.net, rank),
            );
        }
        match of {
            Some(parent) => self.one_less(rank, parent),
            None if is_again => {}
            None => self.pause(rank, errand),
        }
    }

    /// The client's side of a stream says what it has to, once all that it said before was taken.
    pub(super) fn speak(&mut self, rank: Rank, errand: u32) {
        let now = self.net.now();
        let Role::Client(errands) = &mut self.nodes[rank as usize].role else { return };
        let Client { task: Task::Stream(stream), phase: Phase::Downloading(download), episode, .. } =
            &mut errands[errand as usize]
        else {
            return;
        };
        let (Some(script), episode) = (&mut stream.script, *episode) else { return };
        let Download { stream: key, connected, size, .. } = download;
        let key = *key;
        let Some(app) = self.net.hosts[rank as usize].app(key) else { return };
        if connected.is_none() || script.over || script.rests || app.request > 0 {
            return;
        }
        let train = script.train();
        app.request += train.bytes;
        *size = Bytes::new(script.theirs);
        if let Some(rest) = train.rest {
            self.net.set_timer(rank, now + rest, Due::Speak(errand, episode));
        }
        self.net.refresh_app(rank, key);
    }

    /// The client's side of a stream has rested.
    pub(super) fn on_speak_timer(&mut self, rank: Rank, errand: u32, episode: u32) {
        let Some(client) = self.client(rank, errand).filter(|client| client.episode == episode) else {
            return;
        };
        if let Task::Stream(stream) = &mut client.task {
            let script = stream.script.as_mut().expect("who rests has a part");
            script.rests = false;
        }
    }
}

/// What begins as `plan` says, and of which source it is.
fn source(plan: Plan, of: Option<u32>) -> Task {
    Task::Source(Box::new(Source { plan, open: 0, of, begins: None, keeps: false }))
}

/// The streams of a flow, as its model says; without one a single stream.
fn streams(client: &mut Client, tgen: &Tgen) -> Plan {
    tgen.streams.as_ref().map_or(Plan::One, |model| Plan::Streams(walk(client, model)))
}

/// A walk through a model, by the chances of who begins it.
fn walk(client: &mut Client, model: &Arc<Markov>) -> Walk {
    Walk::new(model.clone(), Seed(client.chance.bits()).stream("walk"))
}

fn next(walk: &mut Walk, flow: bool) -> Next {
    // A stream is one, whichever side the model says begins it.
    walk.step().map_or(Next::Nothing, |(_, delay)| Next::Begin { flow, then: Some(delay) })
}
