//! A client: request, first byte, last byte, pause, again; a circuit that is held and closed, again and again; or streams
//! that begin when a model says.
//!
//! Source: DefenestraTor §5 and §5.1. The clock of a download starts when the application
//! opens its stream (BEGIN is sent), so that the time to the first byte is two circuit round trips.

use crate::cell::Request;
use crate::queue::HostId;
use crate::replay::{self, Replay};
use crate::script::Script;
use penstock_core::{CircuitIndex, StreamKey};
use penstock_scenario::markov::Walk;
use penstock_scenario::model;
use penstock_units::{Bytes, Duration, Instant, Rng, Seed};
use std::collections::VecDeque;
use std::sync::Arc;

/// One client of the run, or one session of a client that does several things at once.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its index in the scenario.
    pub(crate) index: usize,
    /// Index of what it does.
    pub(crate) workload: usize,
    /// The session of the same client whose circuit it uses: itself, or the first if all share one.
    pub(crate) circuit_owner: u32,
    /// Of an session that is its own owner.
    pub(crate) circuit: Option<Circuit>,
    /// Circuits that had it before and get no new stream, but still have some.
    pub(crate) retired: Vec<Circuit>,
    pub(crate) phase: Phase,
    /// Tells a timer from one of an earlier phase.
    pub(crate) generation: u32,
    pub(crate) rng: Rngs,
    /// The run's number of the circuit that the present or last download used.
    pub(crate) number: u32,
    /// The relays that it may begin its circuits at; none if any will do.
    pub(crate) guards: Arc<[usize]>,
    /// The relays of all of its circuits, if these are not to be drawn.
    pub(crate) path: Option<Vec<usize>>,
    pub(crate) task: Task,
}

/// What an session is there for.
#[derive(Debug)]
pub(crate) enum Task {
    /// A loop: download or hold, pause, again.
    Loop,
    /// It begins others, whatever becomes of them.
    Generator(Box<Generator>),
    /// One of the streams of a generator.
    Stream(Box<Stream>),
    /// Nothing any more: another may take its place.
    Free,
}

/// What begins streams or flows.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) plan: Plan,
    /// How many of those are not over.
    pub(crate) open: u32,
    /// Which generator began it, if one did.
    pub(crate) of: Option<u32>,
    /// When it begins, if that is not drawn.
    pub(crate) begins: Option<Instant>,
    /// Its circuit stays when all is over.
    pub(crate) keeps: bool,
}

/// When a generator begins what.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Flows, as a model says.
    Flows(Walk),
    /// Streams, as a model says.
    Streams(Walk),
    /// One stream at once.
    One,
    /// Its circuit, if it was not begun yet, and then downloads of an earlier run at their times.
    Replay { begun: bool, left: VecDeque<Replayed> },
    /// Nothing more.
    Over,
}

/// A download of an earlier run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    pub(crate) what: replay::Download,
    /// Index of its server in the scenario.
    pub(crate) server: usize,
}

/// A stream of a generator.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) of: u32,
    /// Index of its server in the scenario.
    pub(crate) server: usize,
    pub(crate) asks: Request,
    /// What it delivers, if that is known [B].
    pub(crate) size: Bytes,
    /// When it was asked for, if that may have been before there was a circuit.
    pub(crate) asked: Option<Instant>,
    /// The client's part in it, if a model says what that is.
    pub(crate) script: Option<Script>,
}

/// The circuit a client uses.
#[derive(Clone, Debug)]
pub(crate) struct Circuit {
    pub(crate) index: CircuitIndex,
    pub(crate) number: u32,
    /// Its relays, from the entry to the exit.
    pub(crate) relays: Vec<HostId>,
    pub(crate) begun: Instant,
    pub(crate) is_built: bool,
    /// When its first stream was opened.
    pub(crate) dirty: Option<Instant>,
    /// Streams opened on it so far.
    pub(crate) streams: u64,
}

/// What a client is about.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Waits for its next download.
    Pausing,
    /// Waits for its circuit.
    Building,
    /// Downloads.
    Downloading(Download),
    /// Keeps its circuit open.
    Holding,
}

/// A download under way.
#[derive(Clone, Debug)]
pub(crate) struct Download {
    pub(crate) stream: StreamKey,
    pub(crate) number: u64,
    pub(crate) size: Bytes,
    pub(crate) request: Bytes,
    pub(crate) asks: Request,
    pub(crate) start: Instant,
    pub(crate) connected: Option<Instant>,
}

/// A client's streams of rng, one for each purpose, so that none disturbs another.
#[derive(Debug)]
pub(crate) struct Rngs {
    pause: Rng,
    size: Rng,
    server: Rng,
    path: Rng,
}

impl Rngs {
    /// Of the `session`-th of client `name`: the first one draws as if there were no other.
    fn new(name: &str, session: u32, seed: Seed) -> Self {
        let stream = |purpose: &str| match session {
            0 => seed.stream(&format!("{name}/{purpose}")),
            _ => seed.stream(&format!("{name}/{session}/{purpose}")),
        };
        Rngs { pause: stream("pause"), size: stream("size"), server: stream("server"), path: stream("path") }
    }

    /// What an session that this one begins draws from.
    pub(crate) fn bits(&mut self) -> u64 {
        self.size.bits()
    }
}

impl Client {
    /// All that a client does at once, in the order of its workloads.
    pub(crate) fn all(index: usize, scenario: &model::Scenario, seed: Seed) -> Vec<Self> {
        let client = &scenario.clients[index];
        let circuits = |workload: &usize| scenario.workloads[*workload].circuits;
        let each = client.workloads.iter().flat_map(|workload| (0..circuits(workload)).map(|_| *workload));
        let shares = client.shares_circuit();
        let mut rng = seed.stream(&format!("{}/guards", client.host.name));
        let guards: Arc<[usize]> = client.path.draw_guards(scenario, &mut rng).into();
        (0..)
            .zip(each)
            .map(|(session, workload)| Client {
                workload,
                circuit_owner: if shares { 0 } else { session },
                ..Client::idle(index, Rngs::new(&client.host.name, session, seed), guards.clone(), Task::Loop)
            })
            .collect()
    }

    /// An session that has done nothing yet, of the first workload and with a circuit of the first session.
    fn idle(index: usize, rng: Rngs, guards: Arc<[usize]>, task: Task) -> Self {
        Client {
            index,
            workload: 0,
            circuit_owner: 0,
            circuit: None,
            retired: Vec::new(),
            phase: Phase::Pausing,
            generation: 0,
            rng,
            number: 0,
            guards,
            path: None,
            task,
        }
    }

    /// What a client does that asks again for what it asked in an earlier run, circuit by circuit; it holds circuits and
    /// follows models as ever.
    ///
    /// Circuits go over the relays that they went over then, where the client draws paths of up to three. Other paths, and
    /// servers, are drawn as by its first session, in the order in which circuits were begun and downloads asked for.
    pub(crate) fn replayed(
        index: usize,
        scenario: &model::Scenario,
        seed: Seed,
        record: &Replay,
    ) -> Vec<Self> {
        let model = &scenario.clients[index];
        let downloads = |client: &Client| {
            matches!(scenario.workloads[client.workload].does, model::Activity::Download(_))
        };
        let (mut loops, mut sessions): (Vec<_>, Vec<_>) =
            Client::all(index, scenario, seed).into_iter().partition(downloads);
        (0..).zip(&mut sessions).for_each(|(session, client)| client.circuit_owner = session);
        let Some(first) = loops.first_mut() else { return sessions };
        let circuits = record.of(index);
        let mut order: Vec<(Instant, usize, usize)> = Vec::new();
        for (circuit, recorded) in circuits.iter().enumerate() {
            order.extend(recorded.downloads.iter().enumerate().map(|(at, what)| (what.start, circuit, at)));
        }
        order.sort_unstable();
        let mut servers: Vec<Vec<usize>> =
            circuits.iter().map(|each| vec![0; each.downloads.len()]).collect();
        for (_, circuit, at) in order {
            servers[circuit][at] = first.draw_server(model);
        }
        for (place, (recorded, servers)) in circuits.iter().zip(servers).enumerate() {
            let mut session = first.child();
            session.circuit_owner = sessions.len() as u32;
            session.workload = recorded.downloads[0].workload;
            session.path = Some(recorded.path.clone().unwrap_or_else(|| first.draw_path(scenario)));
            let left =
                recorded.downloads.iter().zip(servers).map(|(what, server)| Replayed { what: *what, server });
            let plan = Plan::Replay { begun: false, left: left.collect() };
            // The client then went on with another one, or kept this to the end.
            let is_last = place + 1 == circuits.len();
            let keeps = is_last && !scenario.workloads[session.workload].fresh_circuit;
            session.task = Task::Generator(Box::new(Generator {
                plan,
                open: 0,
                of: None,
                begins: Some(recorded.begun),
                keeps,
            }));
            sessions.push(session);
        }
        sessions
    }

    /// An session of the same client that this one begins, with chances of its own; whose circuit it uses and what it is
    /// for is still to be said.
    pub(crate) fn child(&mut self) -> Self {
        let rng = Rngs::new("child", 0, Seed(self.rng.bits()));
        Client { workload: self.workload, ..Client::idle(self.index, rng, self.guards.clone(), Task::Free) }
    }

    /// The client is about something else: what its timers were set for is over.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation += 1;
    }

    /// When it begins.
    pub(crate) fn draw_start(&mut self, workload: &model::Workload) -> Instant {
        let begins = if let Task::Generator(generator) = &self.task { generator.begins } else { None };
        begins.unwrap_or_else(|| Instant::ZERO + workload.start.draw(&mut self.rng.pause))
    }

    pub(crate) fn draw_pause(&mut self, workload: &model::Workload) -> Duration {
        workload.pause.draw(&mut self.rng.pause)
    }

    pub(crate) fn draw_size(&mut self, size: &model::Amount) -> Bytes {
        size.draw(&mut self.rng.size)
    }

    pub(crate) fn draw_hold(&mut self, hold: &model::Span) -> Duration {
        hold.draw(&mut self.rng.size)
    }

    pub(crate) fn draw_server(&mut self, client: &model::Client) -> usize {
        let choice = self.rng.server.below(client.servers.len() as u64);
        client.servers[choice as usize]
    }

    pub(crate) fn draw_path(&mut self, scenario: &model::Scenario) -> Vec<usize> {
        if let Some(path) = &self.path {
            return path.clone();
        }
        scenario.clients[self.index].path.draw(scenario, &self.guards, &mut self.rng.path)
    }

    /// When it was asked for, of a stream of an earlier run.
    pub(crate) fn asked(&self) -> Option<Instant> {
        if let Task::Stream(stream) = &self.task { stream.asked } else { None }
    }

    /// Whether a model says what it says.
    pub(crate) fn has_script(&self) -> bool {
        matches!(&self.task, Task::Stream(stream) if stream.script.is_some())
    }

    /// The download of an earlier run that still waits for a circuit.
    pub(crate) fn waiting_replay(&self) -> Option<Download> {
        let Task::Stream(stream) = &self.task else { return None };
        Some(Download {
            // No stream has this key.
            stream: StreamKey(u32::MAX),
            number: 0,
            size: stream.size,
            request: Bytes::ZERO,
            asks: stream.asks,
            start: stream.asked?,
            connected: None,
        })
    }

    /// The download on this stream, if that is what the client is about.
    pub(crate) fn download_on(&mut self, stream: StreamKey) -> Option<&mut Download> {
        match &mut self.phase {
            Phase::Downloading(download) if download.stream == stream => Some(download),
            _ => None,
        }
    }
}
