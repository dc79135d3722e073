//! Random choices of a client. They use the same random streams, in the same order, as in the simulator.

use penstock_scenario::model::{Activity, Client, Workload};
use penstock_units::{Bytes, Duration, Rng, Seed};

/// Random streams of a client.
#[derive(Debug)]
pub struct Draws {
    pause: Rng,
    size: Rng,
    server: Rng,
}

impl Draws {
    /// The random streams of the client `name`.
    pub fn new(name: &str, seed: Seed) -> Self {
        let stream = |purpose: &str| seed.stream(&format!("{name}/{purpose}"));
        Draws { pause: stream("pause"), size: stream("size"), server: stream("server") }
    }

    /// The client's start time. Call this before the first `pause`.
    pub fn start(&mut self, workload: &Workload) -> Duration {
        workload.start.draw(&mut self.pause)
    }

    /// The next pause.
    pub fn pause(&mut self, workload: &Workload) -> Duration {
        workload.pause.draw(&mut self.pause)
    }

    /// Size of the next download; zero for workloads without downloads.
    pub fn size(&mut self, workload: &Workload) -> Bytes {
        match &workload.does {
            Activity::Download(size) => size.draw(&mut self.size),
            _ => Bytes::ZERO,
        }
    }

    /// Index of the server for the next download.
    pub fn server(&mut self, client: &Client) -> usize {
        client.group.servers[self.server.below(client.group.servers.len() as u64) as usize]
    }
}
