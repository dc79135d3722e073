//! Clients that learn their build timeout.

use crate::replay::{record, replayed, requests};
use crate::threads::THREADS;
use crate::util::{Lab, assert_conserved};
use penstock_record::{Outcome as Ending, Transfer};
use penstock_sim::{Control, NodeReport, Outcome};
use std::collections::BTreeSet;

/// Every fifth circuit uses the relay `far` in New Zealand. All other nodes are in Germany. Each download has its own
/// circuit, and clients learn in the first seconds.
const NETWORK: &str = r#"
[scenario]
title = "a test"

[run]
duration = "60 s"

[network]
latency = "geographic"

[relay]
link = "10 MiB/s"

[relays.near]
count = 14
country = "DE"

[relays.far]
country = "NZ"

[client]
path = "weighted"
link = "10 MiB/s"
country = "DE"

[servers.server]
country = "DE"

[workloads.web]
size = "100 KiB"
pause = "uniform(500 ms, 1 s)"
start = "uniform(0 s, 1 s)"
fresh_circuit = true

[clients.web]
count = 10
workload = "web"
"#;

const ADAPTIVE: &str = "{ min_circuits = 50, test_interval = '100 ms' }";
/// From this time on, clients have learned [s].
const LEARNED_S: f64 = 15.0;

fn network(build_timeout: &str) -> Lab {
    Lab::of(NETWORK).set("client.build_timeout", build_timeout)
}

fn run(lab: &Lab, control: &Control) -> Outcome {
    let document = lab.document();
    let scenario = document.scenario("default").expect("there is one variant");
    penstock_sim::run(scenario, 1, control).expect("the run is not cancelled")
}

/// Complete downloads after the learning.
fn late_downloads(outcome: &Outcome) -> Vec<&Transfer> {
    let is_late = |row: &&Transfer| row.start_s >= LEARNED_S && row.outcome == Ending::Ok;
    outcome.tables.transfers.iter().filter(is_late).collect()
}

fn is_far(outcome: &Outcome, circuit: u64) -> bool {
    let path = &outcome.tables.paths[circuit as usize];
    [&path.guard, &path.middle, &path.exit].iter().any(|relay| &***relay == "far")
}

/// The share of downloads over the slow relay, and the 90th percentile of all download times [s].
fn far_and_tail(outcome: &Outcome) -> (f64, f64) {
    let rows = late_downloads(outcome);
    assert!(rows.len() > 200, "{} downloads", rows.len());
    let far = rows.iter().filter(|row| is_far(outcome, row.circuit.expect("it has a circuit"))).count();
    let mut times: Vec<f64> = rows.iter().filter_map(|row| row.ttlb_s).collect();
    times.sort_by(f64::total_cmp);
    (far as f64 / rows.len() as f64, times[times.len() * 9 / 10])
}

fn clients(outcome: &Outcome) -> impl Iterator<Item = &NodeReport> {
    outcome.nodes.iter().filter(|node| !node.is_relay)
}

#[test]
fn clients_learn_to_abandon_slow_circuits() {
    let fixed = run(&network("60 s"), &Control::new());
    let learned = run(&network(ADAPTIVE), &Control::new());
    assert_conserved(&learned);
    let [(far, tail), (far_learned, tail_learned)] = [&fixed, &learned].map(far_and_tail);
    assert!((0.12..0.28).contains(&far), "{far} of the downloads use the slow relay");
    assert!(far_learned * 3.0 < far, "{far} of the downloads use the slow relay, then {far_learned}");
    assert!(tail_learned * 2.0 < tail, "{tail} s with a fixed timeout, {tail_learned} s with a learned one");
    for node in clients(&learned) {
        let own = node.build_times.expect("the client learns");
        assert!(own.is_learned && own.tests >= 10 && node.timed_out > 5, "{node:?}");
    }
    let stats = learned.stats;
    let tests: u32 = clients(&learned).filter_map(|node| node.build_times).map(|own| own.tests).sum();
    assert_eq!(stats.test_circuits, u64::from(tests));
    let slowest = learned.tables.paths.iter().filter_map(|row| row.build_time_s).fold(0.0, f64::max);
    let timeout = stats.build_timeout_s.expect("clients have learned it");
    assert!(timeout * 2.0 < slowest && stats.timed_out_circuits > 50, "{timeout} s of {slowest} s");
    assert_eq!((fixed.stats.test_circuits, fixed.stats.build_timeout_s), (0, None));
}

#[test]
fn a_slow_circuit_is_measured_but_carries_no_stream() {
    let outcome = run(&network(ADAPTIVE), &Control::new());
    let used: BTreeSet<u64> = outcome.tables.transfers.iter().filter_map(|row| row.circuit).collect();
    let late = |row: &&penstock_record::PathRow| {
        row.built_s.zip(row.build_time_s).is_some_and(|(built, time)| built - time >= LEARNED_S)
            && is_far(&outcome, row.circuit)
            && !used.contains(&row.circuit)
    };
    let measured = outcome.tables.paths.iter().filter(late).count();
    assert!(measured > 50, "{measured} circuits over the slow relay were measured");
    // All circuits close: only the last ones of each client are open.
    assert!(clients(&outcome).all(|node| node.population[1] <= 4), "circuits stay open");
}

#[test]
fn without_enough_circuits_the_initial_timeout_applies() {
    let lab = network("{ test_interval = 'none' }").set("run.duration", "20 s");
    let outcome = run(&lab, &Control::new());
    assert_conserved(&outcome);
    let fixed = run(&lab.set("client.build_timeout", "60 s"), &Control::new());
    assert!(outcome.tables == fixed.tables, "the client only counts");
    assert!(
        clients(&outcome).all(|node| node.build_times.is_some_and(|own| !own.is_learned && own.tests == 0))
    );
}

#[test]
fn test_circuits_are_enough_to_learn() {
    let lab = network("adaptive").set("workloads.web.pause", "1 h").set("run.duration", "1100 s");
    let outcome = run(&lab.set("clients.web.count", "2"), &Control::new());
    for node in clients(&outcome) {
        let own = node.build_times.expect("the client learns");
        assert!(own.is_learned && (99..=101).contains(&own.tests), "{own:?}");
    }
}

#[test]
fn learning_gives_the_same_tables_with_any_number_of_threads() {
    let lab = network(ADAPTIVE).set("run.duration", "20 s");
    let one_by_one = run(&lab, &Control::one_by_one());
    for threads in THREADS {
        let outcome = run(&lab, &Control::new().with_threads(threads));
        assert!(outcome.tables == one_by_one.tables, "{threads} threads");
    }
}

/// With this quantile, the timeout is the most frequent build time, so many circuits are over it.
#[test]
fn clients_with_a_very_short_timeout_still_get_circuits() {
    let outcome =
        run(&network("{ min_circuits = 20, test_interval = '50 ms', quantile = 0.0 }"), &Control::new());
    assert_conserved(&outcome);
    assert!(late_downloads(&outcome).len() > 100);
    assert!(outcome.stats.timed_out_circuits > 100, "{:?}", outcome.stats);
}

#[test]
fn a_slow_leg_of_linked_circuits_is_replaced() {
    let linked = |build_timeout: &str| {
        let lab = network(build_timeout)
            .set("relay.preset", "tor-0.4.9")
            .set("client.preset", "tor-0.4.9")
            .set("relays.near.count", "18");
        run(&lab, &Control::new())
    };
    let [fixed, learned] = ["60 s", ADAPTIVE].map(linked);
    assert_conserved(&learned);
    // A download begins when both legs are linked, so a slow leg delays it.
    let [before, after] = [&fixed, &learned].map(|outcome| late_downloads(outcome).len());
    assert!(after * 10 > before * 11, "{before} downloads with a fixed timeout, {after} with a learned one");
    assert!(learned.stats.timed_out_circuits > 50, "{:?}", learned.stats);
    let switches = learned.nodes.iter().map(|node| node.counters.switches).sum::<u64>();
    assert!(switches > 100, "{switches} switches");
    assert!(clients(&learned).all(|node| node.population[1] <= 8), "circuits stay open");
}

#[test]
fn a_replay_keeps_recorded_circuits() {
    let lab = network(ADAPTIVE).set("run.duration", "30 s");
    let document = lab.document();
    let scenario = document.scenario("default").expect("there is one variant");
    let original = run(&lab, &Control::new());
    let again = replayed(scenario, record(&original), &Control::new());
    assert_conserved(&again);
    assert_eq!(requests(&again), requests(&original));
    assert!(again.tables.paths.len() < original.tables.paths.len(), "unused circuits are not repeated");
    assert_eq!((again.stats.timed_out_circuits, again.stats.test_circuits), (0, 0));
}

/// Streams of a Markov model start in an open loop, also while their circuit is replaced.
#[test]
fn open_loops_replace_slow_circuits() {
    let tgen = r#"
[workloads.tgen.tgen.flows]
transitions = ["start -> s: 1", "s -> s: 1"]
emissions = ["s -> +: 1 after 1 s"]
[workloads.tgen.tgen.packets]
transitions = ["start -> a: 1", "a -> end: 1"]
emissions = ["a -> -: 1 after 0 s", "end -> F: 1"]
[clients.tgen]
count = 3
country = "DE"
workload = "tgen"
"#;
    let lab = network(ADAPTIVE).with(tgen);
    let (outcome, slowly) = (run(&lab, &Control::new()), run(&lab, &Control::one_by_one()));
    assert_conserved(&outcome);
    assert!(outcome.tables == slowly.tables, "the tables differ");
    let own = late_downloads(&outcome).into_iter().filter(|row| &*row.workload == "tgen");
    let far: Vec<bool> = own.map(|row| is_far(&outcome, row.circuit.expect("it has a circuit"))).collect();
    assert!(far.len() > 100, "{} streams", far.len());
    assert!(far.iter().filter(|far| **far).count() * 10 < far.len(), "{far:?}");
}
