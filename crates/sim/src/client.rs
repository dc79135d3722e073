//! The sessions of a client. A session repeats downloads and pauses, repeatedly builds and closes a circuit, or runs
//! the streams of a Markov model.
//!
//! Source: DefenestraTor §5 and §5.1. A download's time starts when the application opens the stream (BEGIN is sent).
//! The time to the first byte is therefore two round trips of the circuit.

use crate::cell::Request;
use crate::queue::HostId;
use crate::replay::{self, Replay};
use crate::script::Script;
use penstock_core::{CircuitIndex, StreamKey};
use penstock_scenario::markov::Walk;
use penstock_scenario::model;
use penstock_units::{Bytes, Duration, Instant, Rng, Seed};
use std::collections::VecDeque;
use std::slice;
use std::sync::Arc;

/// One session of a client. A client may have several sessions at the same time.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) index: usize,
    pub(crate) workload: usize,
    /// The session that owns this session's circuit. If all sessions share one circuit, this is the first session.
    pub(crate) circuit_owner: u32,
    pub(crate) circuit: Option<Circuit>,
    /// Older circuits of this session that still have streams but get no new ones.
    pub(crate) retired: Vec<Circuit>,
    pub(crate) phase: Phase,
    /// The number of phase changes. A timer from an earlier phase has a different number and is ignored.
    pub(crate) generation: u32,
    pub(crate) rng: Rngs,
    /// The number of the circuit that the current or last download uses.
    pub(crate) number: u32,
    /// The relays that may be the first hop of the session's circuits; empty allows all relays.
    pub(crate) guards: Arc<[usize]>,
    /// The fixed relays of the session's circuits; `None` if they are sampled.
    pub(crate) path: Option<Vec<usize>>,
    pub(crate) task: Task,
}

#[derive(Debug)]
pub(crate) enum Task {
    /// Repeatedly downloads, or holds a circuit open, and then pauses.
    Loop,
    /// Starts other sessions.
    Generator(Box<Generator>),
    /// Runs one stream of a generator.
    Stream(Box<Stream>),
    /// Does nothing. Another session may use this slot.
    Free,
}

/// A session that starts streams or flows of a Markov model, or replays recorded downloads.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) plan: Plan,
    pub(crate) open: u32,
    /// The generator that started this one.
    pub(crate) of: Option<u32>,
    /// The time of the first action, if the time is fixed.
    pub(crate) begins: Option<Instant>,
    /// Whether the circuit stays open after the last stream.
    pub(crate) keeps: bool,
}

/// The streams or flows that a generator still starts, and their times.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Flows of a Markov model.
    Flows(Walk),
    /// Streams of a Markov model.
    Streams(Walk),
    /// A single stream, which starts immediately.
    One,
    /// Downloads of an earlier run at their recorded times. The circuit is built first, unless it was `begun` already.
    Replay { begun: bool, left: VecDeque<Replayed> },
    /// No further streams or flows.
    Over,
}

/// A recorded download of an earlier run. This run requests it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    pub(crate) what: replay::Download,
    pub(crate) server: usize,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) of: u32,
    pub(crate) server: usize,
    pub(crate) request: Request,
    /// The size of the download [B], if it is known.
    pub(crate) size: Bytes,
    /// The recorded time of the request. The circuit may not be built yet at that time.
    pub(crate) requested_at: Option<Instant>,
    /// The client's script, if the stream follows a Markov model.
    pub(crate) script: Option<Script>,
}

#[derive(Clone, Debug)]
pub(crate) struct Circuit {
    pub(crate) index: CircuitIndex,
    pub(crate) number: u32,
    /// The circuit's relays, from the entry to the exit.
    pub(crate) relays: Vec<HostId>,
    pub(crate) begun: Instant,
    /// The start of the time that counts against an adaptive build timeout; `None` until the channel to the entry is
    /// open.
    pub(crate) timed: Option<Instant>,
    /// When the last hop answered.
    pub(crate) built: Option<Instant>,
    /// Whether downloads may use the circuit: it is built, and linked if it has a second leg.
    pub(crate) is_built: bool,
    pub(crate) dirty: Option<Instant>,
    pub(crate) streams: u64,
    /// The number that linked circuits share.
    pub(crate) set: u32,
    /// The second leg of linked circuits. The streams belong to the first leg.
    pub(crate) second: Option<Box<Circuit>>,
}

impl Circuit {
    /// The circuit, and the one that is linked with it.
    pub(crate) fn legs(&self) -> impl Iterator<Item = &Circuit> {
        std::iter::once(self).chain(self.second.as_deref())
    }

    pub(crate) fn leg_mut(&mut self, index: CircuitIndex) -> Option<&mut Circuit> {
        if self.index == index {
            return Some(self);
        }
        self.second.as_deref_mut().filter(|leg| leg.index == index)
    }

    pub(crate) fn has_leg(&self, index: CircuitIndex) -> bool {
        self.legs().any(|leg| leg.index == index)
    }

    /// Removes a leg that has closed. Returns whether the other leg continues, which `is_open` says.
    pub(crate) fn lose_leg(&mut self, closed: CircuitIndex, is_open: impl Fn(CircuitIndex) -> bool) -> bool {
        let Some(second) = self.second.take() else { return false };
        if self.index == closed {
            self.index = second.index;
        }
        self.is_built && is_open(self.index)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Pausing,
    Building,
    Downloading(Download),
    Holding,
}

#[derive(Clone, Debug)]
pub(crate) struct Download {
    pub(crate) stream: StreamKey,
    pub(crate) number: u64,
    pub(crate) size: Bytes,
    pub(crate) request_size: Bytes,
    pub(crate) request: Request,
    pub(crate) start: Instant,
    pub(crate) connected: Option<Instant>,
}

/// The random streams of a session. Each purpose has its own stream, so purposes do not affect each other.
#[derive(Debug)]
pub(crate) struct Rngs {
    pause: Rng,
    size: Rng,
    server: Rng,
    path: Rng,
}

fn stream(name: &str, session: u32, seed: Seed, purpose: &str) -> Rng {
    match session {
        0 => seed.stream(&format!("{name}/{purpose}")),
        _ => seed.stream(&format!("{name}/{session}/{purpose}")),
    }
}

impl Rngs {
    /// The random streams of session `session` of the client `name`. The streams of the first session do not depend on
    /// the number of sessions.
    fn new(name: &str, session: u32, seed: Seed) -> Self {
        let stream = |purpose: &str| stream(name, session, seed, purpose);
        Rngs { pause: stream("pause"), size: stream("size"), server: stream("server"), path: stream("path") }
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.size.bits()
    }
}

impl Client {
    pub(crate) fn all(index: usize, scenario: &model::Scenario, seed: Seed) -> Vec<Self> {
        let client = &scenario.clients[index];
        let each = Client::workloads(client, scenario);
        let shares = client.group.shares_circuit();
        let mut rng = seed.stream(&format!("{}/guards", client.host.name));
        let guards: Arc<[usize]> = client.group.path.draw_guards(scenario, &mut rng).into();
        (0..)
            .zip(each)
            .map(|(session, workload)| Client {
                workload,
                circuit_owner: if shares { 0 } else { session },
                ..Client::idle(index, Rngs::new(&client.host.name, session, seed), guards.clone(), Task::Loop)
            })
            .collect()
    }

    /// A new session that has the client's first workload and uses the first session's circuit.
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

    /// The sessions of a client in a replay. Recorded downloads are requested again, circuit by circuit. Workloads that
    /// hold circuits or follow Markov models run as usual.
    ///
    /// If the client samples paths of up to three relays, circuits use the recorded relays. Other paths, and all
    /// servers, are sampled with the random streams of the client's first session.
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
            // Whether the client kept this circuit to the end depends on its workload.
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

    /// A new session of the same client with its own random streams. The caller sets the circuit owner and the task.
    pub(crate) fn child(&mut self) -> Self {
        let rng = Rngs::new("child", 0, Seed(self.rng.bits()));
        Client { workload: self.workload, ..Client::idle(self.index, rng, self.guards.clone(), Task::Free) }
    }

    /// Changes the phase, which makes earlier timers invalid.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation += 1;
    }

    /// When the client's first session starts; FAR_FUTURE if it has none. Before this time the client does nothing,
    /// because an idle onion proxy without a throttle has no timers.
    pub(crate) fn first_start(
        index: usize,
        scenario: &model::Scenario,
        seed: Seed,
        record: Option<&Replay>,
    ) -> Instant {
        let client = &scenario.clients[index];
        if let Some(record) = record {
            let mut sessions = Client::replayed(index, scenario, seed, record);
            let starts = sessions.iter_mut().map(|client| client.draw_start(scenario));
            return starts.min().unwrap_or(Instant::FAR_FUTURE);
        }
        let sessions = Client::workloads(client, scenario);
        let starts = (0..).zip(sessions).map(|(session, workload)| {
            let mut pause = stream(&client.host.name, session, seed, "pause");
            let start = client.start.as_deref().unwrap_or(&scenario.workloads[workload].start);
            Instant::ZERO + start.draw(&mut pause)
        });
        starts.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The workload of each session of a client.
    fn workloads(client: &model::Client, scenario: &model::Scenario) -> impl Iterator<Item = usize> {
        let circuits = |workload: &usize| scenario.workloads[*workload].circuits;
        client.group.workloads.iter().flat_map(move |workload| (0..circuits(workload)).map(|_| *workload))
    }

    /// The time of the session's first action.
    pub(crate) fn draw_start(&mut self, scenario: &model::Scenario) -> Instant {
        let workload = &scenario.workloads[self.workload];
        let start = scenario.clients[self.index].start.as_deref().unwrap_or(&workload.start);
        let begins = if let Task::Generator(generator) = &self.task { generator.begins } else { None };
        begins.unwrap_or_else(|| Instant::ZERO + start.draw(&mut self.rng.pause))
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
        let choice = self.rng.server.below(client.group.servers.len() as u64);
        client.group.servers[choice as usize]
    }

    /// The relays that may be the first hop of the session's circuits; `None` if others may be, and without Tor.
    pub(crate) fn first_hops<'a>(&'a self, scenario: &'a model::Scenario) -> Option<&'a [usize]> {
        let group = &scenario.clients[self.index].group;
        // The test circuits of a replay may begin at relays that the record does not have.
        let has_others = self.path.is_some() && group.build_times().is_some();
        if group.links_circuits() || has_others {
            return None;
        }
        match (&self.path, &group.path) {
            (Some(path), _) | (None, model::Path::Fixed(path)) => path.first().map(slice::from_ref),
            // If no guard is compatible with the exit, the client uses another relay.
            _ => {
                scenario.selector.as_ref().filter(|known| known.keeps_to(&self.guards)).map(|_| &*self.guards)
            }
        }
    }

    /// Samples the second leg of linked circuits. A replay builds only the recorded circuits, which are not linked.
    pub(crate) fn draw_second(&mut self, scenario: &model::Scenario, first: &[usize]) -> Option<Vec<usize>> {
        let group = &scenario.clients[self.index].group;
        let is_fresh = self.path.is_none();
        is_fresh.then(|| group.draw_second(scenario, &self.guards, first, &mut self.rng.path)).flatten()
    }

    pub(crate) fn draw_path(&mut self, scenario: &model::Scenario) -> Vec<usize> {
        if let Some(path) = &self.path {
            return path.clone();
        }
        scenario.clients[self.index].group.path.draw(scenario, &self.guards, &mut self.rng.path)
    }

    /// In a replay, the recorded time of the request.
    pub(crate) fn requested_at(&self) -> Option<Instant> {
        if let Task::Stream(stream) = &self.task { stream.requested_at } else { None }
    }

    /// Whether a Markov model decides which bytes the client sends.
    pub(crate) fn has_script(&self) -> bool {
        matches!(&self.task, Task::Stream(stream) if stream.script.is_some())
    }

    /// In a replay, the download of a session that still waits until its circuit is built.
    pub(crate) fn waiting_replay(&self) -> Option<Download> {
        let Task::Stream(stream) = &self.task else { return None };
        Some(Download {
            // No real stream has this key.
            stream: StreamKey::first(u32::MAX),
            number: 0,
            size: stream.size,
            request_size: Bytes::ZERO,
            request: stream.request,
            start: stream.requested_at?,
            connected: None,
        })
    }

    pub(crate) fn download_on(&mut self, stream: StreamKey) -> Option<&mut Download> {
        match &mut self.phase {
            Phase::Downloading(download) if download.stream == stream => Some(download),
            _ => None,
        }
    }
}
