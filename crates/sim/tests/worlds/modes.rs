//! G-03: runs in several threads, and runs one event at a time, give the same tables as runs in one thread.

use crate::random::SCHEDULERS;
use crate::replay::record;
use crate::threads::{THREADS, busy, run, scenario_of};
use crate::util::Lab;
use penstock_sim::replay::Replay;
use penstock_sim::{Control, Outcome};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Hosts at several places. Some delays vary, and some packets are lost.
fn placed() -> Lab {
    let edges = "[network.edges]\norder = [\"here\", \"there\"]\nlatency = [\"30 45 ms\", \"60 80 ms\"]\n\
                 jitter = [\"2 11 ms\", \"7 0 ms\"]\n\n";
    busy()
        .with(&format!("[network.places.here]\n\n[network.places.there]\nloss = 0.01\n\n{edges}"))
        .set("network.latency", "places")
        .set("relay.place", "here")
        .set("server.place", "here")
        .set("client.place", "there")
        .set("relays.middle.place", "there")
}

/// Each kind of change: between samples, at a sample, and for clients before and after their start.
fn changing() -> Lab {
    let change = |at: &str, set: &str| format!("[[changes]]\nat = \"{at}\"\nset = {{ {set} }}\n\n");
    let changes = [
        change("1 us", "\"clients.crowd.bandwidth_rate\" = \"300 KiB/s\""),
        change("2500 ms", "\"relays.more.circuit_policy\" = { kind = \"ewma\", half_life = \"5 s\" }"),
        change("3123456 us", "\"relays.entry.bandwidth_rate\" = \"200 KiB/s\""),
        change(
            "4 s",
            "\"relays.exit.throttle\" = { kind = \"static\", rate = \"30 KiB/s\", burst = \"50 KiB\" }",
        ),
        change("7777777 us", "\"relays.more.circuit_policy.half_life\" = \"100 ms\""),
    ];
    busy().with(&changes.concat()).set("trace.clients", "700 ms")
}

fn over_datagrams(hop_control: &str) -> Lab {
    ["relay", "client"]
        .iter()
        .fold(busy(), |lab, nodes| {
            lab.set(&format!("{nodes}.transport"), "datagram")
                .set(&format!("{nodes}.hop_control"), hop_control)
                .set(&format!("{nodes}.edge_control"), "{ kind = 'windows', ends = 'suppressed' }")
        })
        .set("network.loss", "0.02")
        .set("network.reorder", "0.05")
        .set("network.duplicate", "0.02")
        .set("trace.cells", "3")
}

fn assert_same(one: &Outcome, other: &Outcome, mode: &str) {
    assert!(one.tables == other.tables, "{mode}: the tables differ");
    assert_eq!((one.stats, one.network), (other.stats, other.network), "{mode}");
    assert_eq!(one.nodes, other.nodes, "{mode}");
}

/// Runs a scenario in each mode. Returns the run in one thread, and the largest balance.
fn in_each_mode(name: &str, run: impl Fn(&Control) -> Outcome) -> (Outcome, f64) {
    let one = run(&Control::new());
    let mut balance = one.balance;
    for threads in THREADS {
        let several = run(&Control::new().with_threads(threads));
        balance = balance.max(several.balance);
        assert_same(&one, &several, &format!("{name}, {threads} threads"));
    }
    assert_same(&one, &run(&Control::one_by_one()), &format!("{name}, one by one"));
    (one, balance)
}

#[test]
fn runs_in_threads_and_one_by_one_give_the_same_bytes() {
    let labs = [
        ("jitter", placed()),
        ("changes", changing()),
        (
            "stop",
            busy().set("run.stop", "{ workload = \"web\", downloads = 60 }").set("run.sample", "313 ms"),
        ),
        ("backtap", over_datagrams("{ kind = 'backtap' }")),
        ("marut", over_datagrams("{ kind = 'marut' }")),
        ("end to end", over_datagrams("{ kind = 'marut', mode = 'e2e' }")),
        ("loss", busy().set("network.loss", "0.03").set("trace.cells", "1")),
    ];
    for (name, lab) in labs {
        let scenario = scenario_of(&lab);
        let (outcome, balance) = in_each_mode(name, |control| {
            penstock_sim::run(&scenario, 3, control).expect("the run is not cancelled")
        });
        assert!(outcome.tables.transfers.len() > 30, "{name}: {} downloads", outcome.tables.transfers.len());
        assert!(balance > 1.5, "{name}: threads share most windows, {balance}");
        let is_short = outcome.stats.sim_seconds < 9.0;
        assert_eq!(is_short, name == "stop", "{name}: {} s", outcome.stats.sim_seconds);
    }
}

#[test]
fn replays_in_threads_and_one_by_one_give_the_same_bytes() {
    let scenario = scenario_of(&busy());
    let original = run(&scenario, Control::new());
    let downloads = original.tables.transfers.iter().filter(|row| row.circuit.is_some()).count();
    let slower = scenario_of(&busy().set("relays.middle.link", "200 KiB/s").set("trace.cells", "1"));
    let record = Replay::new(&slower, record(&original)).unwrap_or_else(|why| panic!("{why}"));
    let (again, balance) = in_each_mode("replay", |control| {
        penstock_sim::replay(&slower, 3, 3, &record, control).expect("the run is not cancelled")
    });
    assert_eq!(again.tables.transfers.len(), downloads);
    assert!(balance > 1.5, "threads share most windows, {balance}");
}

/// A random network of a few relays and clients, with all features that involve several hosts.
#[derive(Clone, Debug)]
struct Network {
    relays: (u32, u64),
    clients: [u32; 2],
    rtt_ms: u64,
    delays: usize,
    faults: [f64; 3],
    transport: usize,
    scheduler: usize,
    /// The time of each change [us].
    changes: BTreeMap<usize, u64>,
    stop: Option<u64>,
    sample_ms: u64,
    cells: usize,
    samples_clients: bool,
    has_cpu: bool,
    fresh: bool,
    timeout_ms: Option<u64>,
    is_replay: bool,
    seed: u64,
}

/// The hop controls of nodes with datagrams. With the first, nodes use TCP; with the last, the middle uses TCP.
const TRANSPORTS: [&str; 6] = [
    "",
    "{ kind = 'backtap' }",
    "{ kind = 'marut' }",
    "{ kind = 'marut', mode = 'e2e' }",
    "{ kind = 'n23' }",
    "{ kind = 'backtap' }",
];

/// Changes of relays and clients, some before the clients start.
const CHANGES: [&str; 4] = [
    "\"relays.more.circuit_policy\" = { kind = \"ewma\", half_life = \"2 s\" }",
    "\"relays.middle.bandwidth_rate\" = \"150 KiB/s\"",
    "\"clients.web.bandwidth_rate\" = \"60 KiB/s\"",
    "\"relays.entry.throttle\" = { kind = \"static\", rate = \"30 KiB/s\", burst = \"50 KiB\" }",
];

fn network() -> impl Strategy<Value = Network> {
    let hosts = ((1u32..6, 30u64..3000), [1u32..25, 0u32..4]);
    let share = || prop_oneof![Just(0.0), 0.0..0.06];
    let delays = (2u64..300, 0usize..4, [share(), share(), share()]);
    let tor = (0..TRANSPORTS.len(), 0..SCHEDULERS.len(), any::<bool>());
    let changes = prop::collection::btree_map(0..CHANGES.len(), 1u64..3_000_000, 0..4);
    let ends = (prop::option::of(1u64..40), 20u64..900);
    let traces = (prop::sample::select(vec![0, 1, 7]), any::<bool>());
    let clients = (any::<bool>(), prop::option::of(200u64..3000), any::<bool>(), any::<u32>());
    (hosts, delays, tor, changes, ends, traces, clients).prop_map(
        |(hosts, delays, tor, changes, ends, traces, clients)| Network {
            relays: hosts.0,
            clients: hosts.1,
            rtt_ms: delays.0,
            delays: delays.1,
            faults: delays.2,
            transport: tor.0,
            scheduler: tor.1,
            has_cpu: tor.2,
            changes,
            stop: ends.0,
            sample_ms: ends.1,
            cells: traces.0,
            samples_clients: traces.1,
            fresh: clients.0,
            timeout_ms: clients.1,
            is_replay: clients.2,
            seed: clients.3.into(),
        },
    )
}

impl Network {
    fn lab(&self) -> Lab {
        let groups = format!(
            "[relays.more]\ncount = {}\nlink = \"{} KiB/s\"\n\n[clients.crowd]\ncount = {}\nworkload = \"web\"\n\n",
            self.relays.0, self.relays.1, self.clients[0]
        );
        let plain = match self.clients[1] {
            0 => String::new(),
            count => format!("[clients.plain]\ncount = {count}\nworkload = \"web\"\npath = []\n\n"),
        };
        let change = |(at, kind): (u64, usize)| {
            format!("[[changes]]\nat = \"{at} us\"\nset = {{ {} }}\n\n", CHANGES[kind])
        };
        let by_time: BTreeSet<_> = self.changes.iter().map(|(kind, at)| (*at, *kind)).collect();
        let changes: String = by_time.into_iter().map(change).collect();
        let mut lab = Lab::path()
            .with(&format!("{groups}{plain}{changes}"))
            .set("run.duration", "3 s")
            .set("run.sample", &format!("{} ms", self.sample_ms))
            .set("client.path", "weighted")
            .set("trace.cells", &self.cells.to_string())
            .set("relay.scheduler", SCHEDULERS[self.scheduler])
            .set("workloads.web.start", "uniform(0 s, 2 s)")
            .set("workloads.web.fresh_circuit", &self.fresh.to_string());
        lab = self.with_delays(lab);
        if self.transport > 0 {
            lab = ["relay", "client"].iter().fold(lab, |lab, nodes| {
                lab.set(&format!("{nodes}.transport"), "datagram")
                    .set(&format!("{nodes}.hop_control"), TRANSPORTS[self.transport])
                    .set(&format!("{nodes}.edge_control"), "{ kind = 'windows', ends = 'suppressed' }")
            });
        }
        if self.transport == TRANSPORTS.len() - 1 {
            lab = lab
                .set("relays.middle.transport", "tcp")
                .set("relays.middle.hop_control", "{ kind = 'none' }");
        }
        if self.has_cpu {
            lab = lab.set("relays.middle.cpu", "{ cell = \"50 us\", call = \"200 us\" }");
        }
        if self.samples_clients {
            lab = lab.set("trace.clients", "450 ms");
        }
        if let Some(downloads) = self.stop {
            lab = lab.set("run.stop", &format!("{{ workload = \"web\", downloads = {downloads} }}"));
        }
        match self.timeout_ms {
            Some(timeout) => lab.set("workloads.web.timeout", &format!("{timeout} ms")),
            None => lab,
        }
    }

    fn with_delays(&self, lab: Lab) -> Lab {
        let [loss, reorder, duplicate] = self.faults;
        let faulty = |lab: Lab| {
            lab.set("network.loss", &format!("{loss:?}"))
                .set("network.reorder", &format!("{reorder:?}"))
                .set("network.duplicate", &format!("{duplicate:?}"))
        };
        let rtt = self.rtt_ms;
        let lab = lab.set("network.rtt", &format!("{rtt} ms"));
        match self.delays {
            0 => faulty(lab),
            1 => faulty(lab).set(
                "network.pairs",
                "[{ between = ['entry', 'middle'], rtt = '1 ms' }, { between = ['crowd', 'entry'], rtt = '333 ms' }]",
            ),
            2 => faulty(lab).set(
                "network.latency",
                "{ near = 'quantiles(8 ms, 40 ms)', far_share = 0.5, across = 'quantiles(60 ms, 120 ms)' }",
            ),
            _ => {
                let edges = format!(
                    "[network.edges]\norder = ['here', 'there']\nlatency = ['{rtt} {} ms', '{} {rtt} ms']\n\
                     jitter = ['0 {} ms', '{} 0 ms']\n\n",
                    rtt + 40,
                    rtt + 9,
                    rtt / 2,
                    rtt / 3
                );
                lab.with(&format!(
                    "[network.places.here]\n\n[network.places.there]\nloss = {loss:?}\n\n{edges}"
                ))
                .set("network.latency", "places")
                .set("relay.place", "here")
                .set("server.place", "there")
                .set("client.place", "there")
                .set("relays.middle.place", "there")
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_networks_give_the_same_bytes_in_each_mode(network in network()) {
        let scenario = scenario_of(&network.lab());
        let seed = network.seed;
        let run = |control: &Control| {
            penstock_sim::run_in(&scenario, seed, seed, control).expect("the run is not cancelled")
        };
        let (outcome, _) = in_each_mode("a random network", run);
        if network.is_replay {
            let record = Replay::new(&scenario, record(&outcome)).expect("the record is of the same scenario");
            in_each_mode("its replay", |control| {
                penstock_sim::replay(&scenario, seed, seed, &record, control).expect("the run is not cancelled")
            });
        }
    }
}
