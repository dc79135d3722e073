//! One side of a stream whose packets follow a Markov model.
//!
//! Client and server run the same model with the same random numbers, but at different times. Each side therefore knows
//! how many bytes the peer will send.
//!
//! Source: tgen 1.0, `tgen-stream.c`.

use penstock_scenario::markov::{Observation, Walk};
use penstock_scenario::model::Tgen;
use penstock_units::{Duration, Seed};

/// The maximum size of a burst [B]. Other streams can write between two bursts.
const MAX_BURST: u64 = 32 * 1024;
/// If the gap between two packets is at most this, they leave in one burst.
const BATCH_GAP: Duration = Duration::from_millis(10);
/// The maximum number of model steps before a pause [step]. In some models, only the peer sends.
const MAX_STEPS: u32 = 4096;

/// The state of the script on one side of a stream.
#[derive(Debug)]
pub(crate) struct Script {
    walk: Walk,
    own: Observation,
    packet: u64,
    /// The number of bytes that the peer must have sent at this step of the model [B].
    pub(crate) peer_bytes: u64,
    pub(crate) ended: bool,
    pub(crate) paused: bool,
}

/// The bytes that one side sends in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    /// The number of bytes [B]; may be zero.
    pub(crate) bytes: u64,
    pub(crate) pause: Option<Duration>,
}

impl Script {
    /// The script of one side. `own` selects the packets that this side sends. Both sides must have the same seed.
    pub(crate) fn new(model: &Tgen, seed: u64, own: Observation) -> Self {
        let walk = Walk::new(model.packets.clone(), Seed(seed).stream("packets"));
        Script { walk, own, packet: model.packet.get(), peer_bytes: 0, ended: false, paused: false }
    }

    /// Runs the model until the burst is full, a pause begins or the model ends.
    ///
    /// The delay after a packet of the peer is added to the gap before this side's next packet.
    pub(crate) fn next_burst(&mut self) -> Burst {
        let (mut bytes, mut gap) = (0, Duration::ZERO);
        for _ in 0..MAX_STEPS {
            if bytes >= MAX_BURST {
                return Burst { bytes, pause: None };
            }
            let Some((what, delay)) = self.walk.step() else {
                self.ended = true;
                return Burst { bytes, pause: None };
            };
            if what == self.own {
                bytes += self.packet;
                gap = delay;
            } else {
                self.peer_bytes += self.packet;
                gap += delay;
            }
            if gap > BATCH_GAP {
                self.paused = true;
                return Burst { bytes, pause: Some(gap) };
            }
        }
        self.paused = true;
        Burst { bytes, pause: Some(BATCH_GAP) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_scenario::Document;
    use penstock_scenario::model::Activity;

    fn model(emissions: &str) -> Tgen {
        let text = format!(
            r#"
            [scenario]
            title = "x"
            [run]
            duration = "1 s"
            [relays.r]
            [servers.s]
            [workloads.x.tgen.packets]
            transitions = ["start -> a: 1", "a -> a: 1"]
            emissions = [{emissions}]
            [clients.x]
            workload = "x"
            path = ["r"]
            "#
        );
        let document = Document::parse(&text, "x.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        match &document.scenario("default").unwrap().workloads[0].does {
            Activity::Tgen(tgen) => tgen.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn all(script: &mut Script) -> Vec<Burst> {
        let mut bursts = Vec::new();
        while !script.ended {
            script.paused = false;
            bursts.push(script.next_burst());
        }
        bursts
    }

    #[test]
    fn each_side_computes_the_bytes_of_its_peer() {
        let model = model(
            r#""a -> +: 1 after exponential(4 ms)", "a -> -: 3 after exponential(4 ms)", "a -> F: 0.05""#,
        );
        for seed in 0..100 {
            let side = |own| Script::new(&model, seed, own);
            let [mut client, mut server] = [Observation::ToServer, Observation::ToOrigin].map(side);
            let [up, down] = [all(&mut client), all(&mut server)];
            let sum = |bursts: &[Burst]| bursts.iter().map(|burst| burst.bytes).sum::<u64>();
            assert_eq!([sum(&up), sum(&down)], [server.peer_bytes, client.peer_bytes]);
            // All pauses are longer than the batch gap.
            let pauses = |bursts: &[Burst]| {
                bursts.iter().filter_map(|burst| burst.pause).all(|pause| pause > BATCH_GAP)
            };
            assert!(pauses(&up) && pauses(&down));
        }
    }

    #[test]
    fn packets_leave_together_up_to_32_kib_or_a_pause() {
        let mut dense = Script::new(&model(r#""a -> -: 1 after 0 s""#), 1, Observation::ToOrigin);
        let burst = dense.next_burst();
        assert_eq!(
            (burst.bytes, burst.pause, dense.paused),
            (23 * 1434, None, false),
            "the first above 32 KiB"
        );
        let mut sparse = Script::new(&model(r#""a -> -: 1 after 11 ms""#), 1, Observation::ToOrigin);
        assert_eq!(sparse.next_burst(), Burst { bytes: 1434, pause: Some(Duration::from_millis(11)) });
        assert!(sparse.paused && !sparse.ended);
        // The client only receives. Its own first packet would come after all these delays.
        let mut client = Script::new(&model(r#""a -> -: 1 after 4 ms""#), 1, Observation::ToServer);
        assert_eq!(client.next_burst(), Burst { bytes: 0, pause: Some(Duration::from_millis(12)) });
        assert_eq!(client.peer_bytes, 3 * 1434);
    }

    #[test]
    fn a_side_that_only_receives_pauses() {
        let mut client = Script::new(&model(r#""a -> -: 1 after 0 s""#), 1, Observation::ToServer);
        assert_eq!(client.next_burst(), Burst { bytes: 0, pause: Some(BATCH_GAP) });
        assert_eq!(client.peer_bytes, u64::from(MAX_STEPS) * 1434);
    }
}
