//! What chance decides of a client: from the same streams, in the same order, as in the simulator.

use penstock_scenario::model::{Activity, Client, Workload};
use penstock_units::{Bytes, Duration, Rng, Seed};

/// A client's streams of chance.
#[derive(Debug)]
pub struct Draws {
    pause: Rng,
    size: Rng,
    server: Rng,
}

impl Draws {
    /// Of the client `name`.
    pub fn new(name: &str, seed: Seed) -> Self {
        let stream = |purpose: &str| seed.stream(&format!("{name}/{purpose}"));
        Draws { pause: stream("pause"), size: stream("size"), server: stream("server") }
    }

    /// When it begins; to be drawn before the first pause.
    pub fn start(&mut self, workload: &Workload) -> Duration {
        workload.start.draw(&mut self.pause)
    }

    /// How long it pauses.
    pub fn pause(&mut self, workload: &Workload) -> Duration {
        workload.pause.draw(&mut self.pause)
    }

    /// What it downloads; nothing if it does something else.
    pub fn size(&mut self, workload: &Workload) -> Bytes {
        match &workload.does {
            Activity::Download(size) => size.draw(&mut self.size),
            _ => Bytes::ZERO,
        }
    }

    /// From which of the scenario's servers.
    pub fn server(&mut self, client: &Client) -> usize {
        client.servers[self.server.below(client.servers.len() as u64) as usize]
    }
}
