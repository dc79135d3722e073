//! Small networks of an era, with clients like Tor's.

use crate::util::{Lab, assert_conserved, complete, queue_of};
use penstock_record::Position;
use penstock_sim::{Control, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// Sixty relays as in 2014 and thirty clients.
const NETWORK: &str = r#"
[scenario]
title = "a test"

[run]
duration = "60 s"

[trace]
workloads = ["web", "bulk"]
share = 0.5
interval = "1 s"
cells = 10

[network]
latency = "geographic"

[relay]
refill = "100 ms"
circuit_policy = { kind = "ewma", half_life = "30 s" }

[relays.relay]
count = 60
era = "2014"

[client]
path = "tor"
link = "10 Mbit/s"

[servers.server]
count = 5
country = "US"

[workloads.web]
size = "320 KiB"
pause = "uniform(1 ms, 10 s)"
start = "uniform(0 s, 5 s)"

[workloads.bulk]
size = "5 MiB"

[clients.web]
count = 25
workload = "web"

[clients.bulk]
count = 5
workload = "bulk"

[[variants]]
name = "stock"

[[variants]]
name = "kist"
set = { "relay.scheduler" = { kind = "kist" } }

[[variants]]
name = "half"
set = { deployments = [{ share = 0.5, set = { scheduler = "kist" } }] }
"#;

/// The scenario of `NETWORK`.
pub(crate) fn network() -> Lab {
    Lab::of(NETWORK)
}

fn in_network(lab: &Lab, network: u64, seed: u64) -> Outcome {
    let document = lab.document();
    let scenario = document.scenario("stock").expect("the variant is in the text");
    penstock_sim::run_in(scenario, network, seed, &Control::new()).expect("the run is not cancelled")
}

#[test]
fn cells_are_conserved_in_a_network_of_any_relays() {
    for variant in ["stock", "kist", "half"] {
        let outcome = network().run_variant(variant, 1);
        assert_conserved(&outcome);
        let done = outcome.tables.transfers.iter().filter(|row| row.ttlb_s.is_some()).count();
        assert!(done > 50, "{variant}: {done} downloads");
    }
}

/// If a client's only guard is incompatible with the exit, the circuit begins at another relay, which can be nearer.
#[test]
fn circuits_around_an_incompatible_guard_give_the_same_tables_one_event_at_a_time() {
    let lab = network().set("run.duration", "30 s").set("client.guards", "1");
    let document = lab.set("workloads.web.fresh_circuit", "true").document();
    let scenario = document.scenario("stock").expect("the variant is in the text");
    for seed in [1, 2] {
        let run = |control| penstock_sim::run(scenario, seed, &control).expect("the run is not cancelled");
        let (fast, slow) = (run(Control::new()), run(Control::one_by_one()));
        assert!(fast.tables == slow.tables, "the tables differ");
    }
}

#[test]
fn a_network_one_event_at_a_time_gives_the_same_tables() {
    for variant in ["stock", "half"] {
        let document = network().set("run.duration", "20 s").document();
        let scenario = document.scenario(variant).expect("the variant is in the text");
        let fast = penstock_sim::run(scenario, 2, &Control::new()).expect("the run is not cancelled");
        let slow = penstock_sim::run(scenario, 2, &Control::one_by_one()).expect("the run is not cancelled");
        assert!(fast.tables == slow.tables, "{variant}: the tables differ");
        assert!(fast.tables.cells.len() > 100, "{variant} has cells");
    }
}

/// The network and the clients have separate seeds.
#[test]
fn the_network_and_the_clients_have_separate_seeds() {
    let lab = network().set("run.duration", "20 s");
    let (one, seed, other) = (in_network(&lab, 1, 1), in_network(&lab, 1, 2), in_network(&lab, 2, 1));
    assert!(
        one.tables == lab.run(1).tables,
        "without a network of its own, a seed draws the one of its number"
    );
    assert!(one.tables.paths != seed.tables.paths);
    let starts = |outcome: &Outcome| -> BTreeSet<u64> {
        let web = outcome
            .tables
            .transfers
            .iter()
            .filter(|row| row.client.starts_with("web") && row.stream == Some(1));
        web.map(|row| row.bytes).collect()
    };
    assert_eq!(starts(&one), starts(&other), "files depend on the seed");
    let carried =
        |outcome: &Outcome| -> u64 { outcome.nodes.iter().map(|node| node.link_bytes[0].get()).sum() };
    assert_ne!(carried(&one), carried(&other));
}

#[test]
fn an_old_circuit_gets_no_new_stream() {
    let lab = network().set("client.circuit_lifetime", "15 s").set("client.guards", "1");
    let outcome = lab.run(3);
    assert_conserved(&outcome);
    let mut used = BTreeMap::new();
    for row in outcome.tables.transfers.iter().filter(|row| row.client.starts_with("web")) {
        let (first, last) =
            used.entry((row.client.clone(), row.circuit)).or_insert((row.start_s, row.start_s));
        (*first, *last) = (first.min(row.start_s), last.max(row.start_s));
    }
    assert!(used.len() > 50, "{} circuits of 25 clients in a minute", used.len());
    assert!(used.values().all(|(first, last)| last - first < 15.0));
    // A client with one guard begins all circuits there, unless the exit is incompatible.
    let of_client = |client: &str| -> Vec<_> {
        let own = outcome.tables.paths.iter().filter(|row| &*row.client == client);
        own.map(|row| row.guard.clone()).collect()
    };
    let usual = (1..=25).filter(|number| {
        let guards = of_client(&format!("web{number:04}"));
        guards.iter().filter(|guard| **guard == guards[0]).count() * 4 >= guards.len() * 3
    });
    assert!(usual.count() >= 20);
}

#[test]
fn without_a_lifetime_a_client_keeps_its_circuit() {
    let outcome = network().set("client.circuit_lifetime", "none").set("run.duration", "40 s").run(3);
    let clients: BTreeSet<_> = outcome.tables.paths.iter().map(|row| row.client.clone()).collect();
    assert_eq!((clients.len(), outcome.tables.paths.len()), (30, 30));
}

#[test]
fn a_circuit_that_builds_too_slowly_is_replaced() {
    // The links alone make all circuits slower than this.
    let lab = network().set("client.build_timeout", "30 ms").set("run.duration", "5 s");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    assert!(outcome.tables.transfers.is_empty() && outcome.tables.paths.len() > 1000);
    // With half a second some are slow: some guards are too far away. Nearly all clients still have a circuit at the
    // end.
    let lab = network().set("client.build_timeout", "500 ms");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    let given_up = outcome.tables.paths.iter().filter(|row| row.built_s.is_none()).count();
    assert!(given_up > 0, "{given_up} of {}", outcome.tables.paths.len());
    let slowest = outcome.tables.paths.iter().filter_map(|row| row.build_time_s).fold(0.0, f64::max);
    assert!(slowest <= 0.5, "{slowest} s");
    let served = (1..=25).filter(|number| !complete(&outcome, &format!("web{number:04}")).is_empty()).count();
    assert!(served >= 20, "{served} of 25");
}

#[test]
fn only_a_share_of_the_clients_is_traced() {
    let outcome = network().run(1);
    let traced: BTreeSet<_> = outcome.tables.cells.iter().map(|row| row.circuit).collect();
    let clients: BTreeSet<_> = outcome
        .tables
        .paths
        .iter()
        .filter(|row| traced.contains(&row.circuit))
        .map(|row| row.client.clone())
        .collect();
    assert!((8..=22).contains(&clients.len()), "{} of 30 clients", clients.len());
    let all_traced = network().set("trace.share", "all").run(1);
    assert!(all_traced.tables.transfers == outcome.tables.transfers, "tracing does not affect downloads");
}

/// G-04: at each relay the integral of the circuit queues is the sum of the cells' waits, to the nanosecond. Each
/// sampled queue length agrees with the recorded times of the cells.
#[test]
fn every_relay_of_a_network_obeys_littles_law() {
    // Cells without data have no stamps, and a few may wait as well.
    const OTHERS: u64 = 8;
    let end = 20_000_000_000;
    let lab = network()
        .set("trace.share", "all")
        .set("trace.cells", "1")
        .set("run.sample", "5 ms")
        .set("run.duration", "20 s");
    let outcome = lab.run(1);
    let paths: BTreeMap<u64, [&str; 3]> = outcome
        .tables
        .paths
        .iter()
        .map(|row| (row.circuit, [&*row.guard, &*row.middle, &*row.exit]))
        .collect();
    let mut spans: BTreeMap<&str, Vec<(u64, Option<u64>)>> = BTreeMap::new();
    for row in &outcome.tables.cells {
        let place = match row.hop {
            Position::Guard => 0,
            Position::Middle => 1,
            Position::Exit => 2,
            _ => continue,
        };
        let Some(queued) = row.queued_ns else { continue };
        spans.entry(paths[&row.circuit][place]).or_default().push((queued, row.outbuf_ns));
    }
    let mut samples: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for row in &outcome.tables.relays {
        let at = (row.t_s * 1e9).round() as u64;
        samples.entry(&*row.relay).or_default().push((at, row.circuit_queue_cells));
    }
    assert_eq!(samples.len(), 60);
    assert!(spans.len() > 15, "{} relays have cells", spans.len());
    for (relay, samples) in &samples {
        let spans = spans.get(relay).map_or(&[][..], Vec::as_slice);
        // Cells that still wait have waited until the end.
        let waits: u128 = spans.iter().map(|(from, to)| u128::from(to.unwrap_or(end) - from)).sum();
        let (_, integral) = queue_of(spans.iter().copied(), end);
        assert_eq!(waits, integral, "{relay}");
        for (at, sampled) in samples {
            let there = spans.iter().filter(|(from, to)| from <= at && to.is_none_or(|to| to > *at)).count();
            let unstamped = sampled.checked_sub(there as u64);
            let unstamped =
                unstamped.unwrap_or_else(|| panic!("{relay} at {at} ns: {sampled} of {there} cells"));
            assert!(unstamped <= OTHERS, "{relay} at {at} ns: {sampled} of {there} cells");
        }
    }
}

/// One relay with a full link. Three clients share one connection to this relay, and a fourth client has its own
/// connection.
///
/// The send buffer is a quarter of a circuit's window (500 cells, 250 KiB). Each connection therefore always has cells
/// in the relay's queues, and the relay chooses among circuits.
const SHARED: &str = r#"
[scenario]
title = "a test"
[run]
duration = "600 s"
warmup = "20 s"
[relay]
link = "100 MiB/s"
circuit_policy = "round-robin"
[relays.many]
[relays.one]
[relays.middle]
link_up = "256 KiB/s"
send_buffer = "64 KiB"
[relays.exit]
[servers.server]
[workloads.bulk]
size = "1 GiB"
[clients.a]
count = 3
workload = "bulk"
path = ["many", "middle", "exit"]
[clients.b]
workload = "bulk"
path = ["one", "middle", "exit"]
[[variants]]
name = "connections"
[[variants]]
name = "circuits"
set = { "relay.channel_map" = "per-circuit", "client.channel_map" = "per-circuit" }
[[variants]]
name = "tuned"
set = { "relays.middle.send_buffer" = "auto" }
"#;

/// The share of bytes of each client, and the mean number of cells in the full relay's circuit queues.
fn shared(variant: &str) -> ([f64; 4], f64) {
    let outcome = Lab::of(SHARED).run_variant(variant, 1);
    assert_conserved(&outcome);
    let received = ["a0001", "a0002", "a0003", "b"].map(|client| {
        let own = outcome.tables.transfers.iter().filter(|row| &*row.client == client);
        own.map(|row| row.bytes_received).sum::<u64>() as f64
    });
    let total: f64 = received.iter().sum();
    let samples = outcome.tables.relays.iter().filter(|row| &*row.relay == "middle" && row.t_s > 20.0);
    let queues: Vec<f64> = samples.map(|row| row.circuit_queue_cells as f64).collect();
    (received.map(|received| received / total), queues.iter().sum::<f64>() / queues.len() as f64)
}

/// G-46: connections share a full relay equally, regardless of their circuits. With one connection for each circuit,
/// circuits share the relay equally.
#[test]
fn a_full_relay_is_shared_by_circuits_or_by_connections() {
    for (variant, shares) in
        [("connections", [1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 0.5]), ("circuits", [0.25; 4])]
    {
        let (parts, queued) = shared(variant);
        assert!(queued > 100.0, "{variant}: {queued} cells wait in the relay");
        for (part, share) in parts.iter().zip(shares) {
            let off = part / share - 1.0;
            assert!(off.abs() < 0.03, "{variant}: {parts:?} is {off} off a share of {share}");
        }
    }
}

/// A tuned send buffer holds a whole window, so no cell waits in the relay's queues. Four circuits with equal windows
/// then get about the same rate, on any connection.
#[test]
fn without_a_full_socket_the_policy_has_no_effect() {
    let (parts, queued) = shared("tuned");
    assert!(queued < 1.0, "{queued} cells wait in the relay");
    assert!(parts.iter().all(|part| (0.2..0.3).contains(part)), "{parts:?}");
}
