//! A client: request, first byte, last byte, pause, again; or a circuit that is held and closed, again and again.
//!
//! Source: DefenestraTor §5 and §5.1. The clock of a download starts when the application
//! opens its stream (BEGIN is sent), so that the time to the first byte is two circuit round trips.

use crate::queue::Rank;
use penstock_core::{CircuitIndex, StreamKey};
use penstock_scenario::model;
use penstock_units::{Bytes, Duration, Instant, Rng, Seed};

/// One client of the run, or one errand of a client that uses several circuits at once.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its index in the scenario.
    pub(crate) index: usize,
    pub(crate) circuit: Option<Circuit>,
    pub(crate) phase: Phase,
    /// Tells a timer from one of an earlier phase.
    pub(crate) episode: u32,
    pub(crate) chance: Chance,
    /// Streams opened so far on the present circuit.
    pub(crate) streams: u64,
    /// The run's number of the last circuit.
    number: u32,
}

/// The circuit a client uses.
#[derive(Clone, Debug)]
pub(crate) struct Circuit {
    pub(crate) index: CircuitIndex,
    pub(crate) number: u32,
    /// Its relays, from the entry to the exit.
    pub(crate) relays: Vec<Rank>,
    pub(crate) begun: Instant,
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
    pub(crate) start: Instant,
    pub(crate) connected: Option<Instant>,
}

/// A client's streams of chance, one for each purpose, so that none disturbs another.
#[derive(Debug)]
pub(crate) struct Chance {
    pause: Rng,
    size: Rng,
    server: Rng,
    path: Rng,
}

impl Client {
    /// The `errand`-th of client `name`: the first one draws as if there were no other.
    pub(crate) fn new(index: usize, name: &str, errand: u32, seed: Seed) -> Self {
        let stream = |purpose: &str| match errand {
            0 => seed.stream(&format!("{name}/{purpose}")),
            _ => seed.stream(&format!("{name}/{errand}/{purpose}")),
        };
        Client {
            index,
            circuit: None,
            phase: Phase::Pausing,
            episode: 0,
            chance: Chance {
                pause: stream("pause"),
                size: stream("size"),
                server: stream("server"),
                path: stream("path"),
            },
            streams: 0,
            number: 0,
        }
    }

    /// The client begins a circuit.
    pub(crate) fn use_circuit(&mut self, circuit: Circuit, phase: Phase) {
        self.number = circuit.number;
        self.circuit = Some(circuit);
        self.streams = 0;
        self.phase = phase;
        self.episode += 1;
    }

    /// When the first download starts, counted from the start of the run.
    pub(crate) fn draw_start(&mut self, workload: &model::Workload) -> Duration {
        workload.start.draw(&mut self.chance.pause)
    }

    pub(crate) fn draw_pause(&mut self, workload: &model::Workload) -> Duration {
        workload.pause.draw(&mut self.chance.pause)
    }

    pub(crate) fn draw_size(&mut self, size: model::Amount) -> Bytes {
        size.draw(&mut self.chance.size)
    }

    pub(crate) fn draw_hold(&mut self, hold: model::Span) -> Duration {
        hold.draw(&mut self.chance.size)
    }

    pub(crate) fn draw_server(&mut self, client: &model::Client) -> usize {
        let choice = self.chance.server.below(client.servers.len() as u64);
        client.servers[choice as usize]
    }

    pub(crate) fn draw_path(&mut self, client: &model::Client, relays: &[model::Relay]) -> Vec<usize> {
        client.path.draw(relays, &mut self.chance.path)
    }

    /// The run's number of the circuit that the present or last download used.
    pub(crate) fn circuit_number(&self) -> u32 {
        self.number
    }

    /// The download on this stream, if that is what the client is about.
    pub(crate) fn download_on(&mut self, stream: StreamKey) -> Option<&mut Download> {
        match &mut self.phase {
            Phase::Downloading(download) if download.stream == stream => Some(download),
            _ => None,
        }
    }
}
