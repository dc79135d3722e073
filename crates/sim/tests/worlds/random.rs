//! Random scenarios: no panic, and every cell is accounted for.

use crate::util::{Lab, assert_conserved};
use penstock_record::Outcome as Ending;
use proptest::prelude::*;

/// The tested schedulers. Their parameters differ from the defaults.
pub(crate) const SCHEDULERS: [&str; 7] = [
    "vanilla",
    "global",
    "kist",
    "{ kind = 'kist', global_limit = 'rate', interval = '7 ms' }",
    "{ kind = 'kist', global_limit = 'measured', interval = '3 ms' }",
    "{ kind = 'kist-deployed', interval = '2 ms' }",
    "kist-lite",
];

/// The tested edge controls. All except the first need the same edge control at client and exit.
const EDGES: [&str; 4] = ["windows", "vegas", "dctcp", "timely"];

/// The tested throttles, with small buckets that limit the rate.
const THROTTLES: [&str; 5] = [
    "none",
    "{ kind = 'static', rate = '30 KiB/s', burst = '50 KiB' }",
    "{ kind = 'bit-splitting', burst = '50 KiB', aggregate = 'address' }",
    "{ kind = 'flagging', rate = '30 KiB/s', half_life = '1 s', burst = '50 KiB' }",
    "{ kind = 'threshold', fraction = 0.5, refresh = '2 s', half_life = '1 s', burst = '50 KiB' }",
];

#[derive(Clone, Debug)]
struct Plan {
    rtt_ms: u64,
    loss: f64,
    links: [u64; 3],
    bucket: Option<(u64, u64)>,
    throttle: usize,
    window: u32,
    /// Edge controls of clients and relays.
    edges: [usize; 2],
    /// Whether buckets are refilled only when they are used.
    lazy: bool,
    buffers: (Option<u64>, Option<u64>),
    queue: u64,
    timeout_ms: Option<u64>,
    fresh: bool,
    pause_ms: u64,
    web_bytes: u64,
    outbuf: (u64, u64),
    scheduler: usize,
    mss: u64,
    reno: bool,
    crowd: u32,
    seed: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let network = (
        1u64..200,
        prop_oneof![Just(0.0), 0.0..0.05],
        [20u64..4000, 20u64..4000, 20u64..4000],
        3000u64..100_000,
    );
    let buckets = (proptest::option::of((20u64..2000, 1u64..1500)), 0..THROTTLES.len());
    let buffer = || proptest::option::of(4096u64..300_000);
    let client = (proptest::option::of(50u64..8000), any::<bool>(), 0u64..2000, 1u64..200_000, 1u32..6);
    let edges = prop_oneof![[0..EDGES.len(), 0..EDGES.len()], (0..EDGES.len()).prop_map(|both| [both; 2])];
    let knows = (edges, any::<bool>());
    let tor = (100u32..=1000, (1u64..40_000, 0u64..40_000), 0..SCHEDULERS.len(), knows);
    (network, buckets, (buffer(), buffer()), client, tor, (88u64..9000, any::<bool>()), any::<u32>())
        .prop_map(|(network, buckets, buffers, client, tor, tcp, seed)| Plan {
            rtt_ms: network.0,
            loss: network.1,
            links: network.2,
            queue: network.3,
            bucket: buckets.0,
            // Two of them divide the relay's bandwidth, so they require one.
            throttle: if buckets.0.is_none() { buckets.1 % 2 } else { buckets.1 },
            buffers,
            timeout_ms: client.0,
            fresh: client.1,
            pause_ms: client.2,
            web_bytes: client.3,
            crowd: client.4,
            window: tor.0,
            outbuf: (tor.1.0, tor.1.0 + tor.1.1),
            scheduler: tor.2,
            edges: tor.3.0,
            lazy: tor.3.1,
            mss: tcp.0,
            reno: tcp.1,
            seed: seed.into(),
        })
}

impl Plan {
    fn lab(&self) -> Lab {
        let crowd =
            format!("[clients.crowd]\nworkload = \"web\"\npath = \"weighted\"\ncount = {}\n", self.crowd);
        let mut lab = Lab::path()
            .with(&crowd)
            .set("run.duration", "10 s")
            .set("trace.cells", "3")
            .set("network.rtt", &format!("{} ms", self.rtt_ms))
            .set("network.loss", &format!("{:?}", self.loss))
            .set("network.link_queue", &format!("{} B", self.queue.max(self.mss + 100)))
            .set("relay.edge_control.circuit_window", &self.window.to_string())
            .set("relay.scheduler", SCHEDULERS[self.scheduler])
            .set("relay.circuit_policy", "ewma")
            .set("relay.ecn_threshold", "20")
            .set("clients.web.priority_class", "worse")
            .set("tcp.mss", &format!("{} B", self.mss))
            .set("tcp.congestion", if self.reno { "reno" } else { "cubic" })
            .set("workloads.web.size", &format!("uniform(1 B, {} B)", self.web_bytes))
            .set("workloads.web.pause", &format!("uniform(0 s, {} ms)", self.pause_ms))
            .set("workloads.web.fresh_circuit", if self.fresh { "true" } else { "false" });
        if self.scheduler == 0 {
            lab = lab.set("relay.scheduler.outbuf_low", &format!("{} B", self.outbuf.0));
            lab = lab.set("relay.scheduler.outbuf_high", &format!("{} B", self.outbuf.1));
        }
        for (relay, rate) in ["entry", "middle", "exit"].iter().zip(self.links) {
            lab = lab.set(&format!("relays.{relay}.link"), &format!("{rate} KiB/s"));
        }
        for (node, edge) in ["client", "relay"].iter().zip(self.edges) {
            lab = lab.set(&format!("{node}.edge_control.kind"), EDGES[edge]);
        }
        if let Some((rate, refill)) = self.bucket {
            lab = lab.set("relay.bandwidth_rate", &format!("{rate} KiB/s"));
            lab = lab.set("relay.refill", &format!("{refill} ms"));
            if self.lazy {
                lab = lab.set("relay.refill_unblock", "100 ms");
            }
        }
        lab = lab.set("relay.throttle", THROTTLES[self.throttle]);
        for (key, size) in [("tcp.send_buffer", self.buffers.0), ("tcp.receive_buffer", self.buffers.1)] {
            lab = size.into_iter().fold(lab, |lab, size| lab.set(key, &format!("{size} B")));
        }
        if let Some(timeout) = self.timeout_ms {
            lab = lab.set("workloads.web.timeout", &format!("{timeout} ms"));
            lab = lab.set("workloads.bulk.timeout", &format!("{} ms", timeout * 2));
        }
        lab
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// G-01, G-02, G-03, G-10, G-70: random scenarios lose no cell, respect windows, and give the same result twice.
    #[test]
    fn random_scenarios_conserve_cells_and_repeat(plan in plan()) {
        let outcome = plan.lab().run(plan.seed);
        assert_conserved(&outcome);
        let longest = outcome.tables.circuits.iter().map(|row| row.queue_cells).max().unwrap_or(0);
        let most = if plan.edges == [1; 2] { 2500 } else { 1010 };
        prop_assert!(longest <= most, "{} cells in a queue", longest);
        for row in &outcome.tables.transfers {
            prop_assert!(row.bytes_received <= row.bytes, "{:?}", row);
            prop_assert!(row.outcome != Ending::Failed, "{:?}", row);
            let times = [Some(0.0), row.connect_s, row.ttfb_s, row.ttlb_s];
            let there: Vec<f64> = times.into_iter().map_while(|at| at).collect();
            prop_assert!(there.is_sorted(), "{:?}", row);
        }
        let document = plan.lab().document();
        let scenario = document.scenario("stock").expect("the variant is in the text");
        let control = penstock_sim::Control::new().with_threads(3);
        let again = penstock_sim::run(scenario, plan.seed, &control).expect("the run is not cancelled");
        prop_assert!(outcome.tables == again.tables);
    }
}
