//! Clients with several circuits, and clients that hold a circuit and close it.

use crate::util::{Lab, assert_conserved, complete, node};
use penstock_record::Outcome as Ending;
use penstock_sim::Control;
use std::collections::BTreeMap;

/// A bulk client, and clients that only hold circuits through the entry.
const HOLDER: &str = r#"
[workloads.hold]
hold = "2 s"
pause = "3 s"
start = "1 s"
[clients.holder]
count = 3
workload = "hold"
path = ["entry"]
"#;

#[test]
fn a_client_that_holds_circuits_opens_and_closes_them_on_time() {
    let outcome = Lab::path().with(HOLDER).set("run.duration", "20 s").run(1);
    assert_conserved(&outcome);
    let held: Vec<_> = outcome.tables.paths.iter().filter(|row| row.client.starts_with("holder")).collect();
    // At 1, 6, 11 and 16 s.
    assert_eq!(held.len(), 12);
    for row in &held {
        let begun =
            row.built_s.expect("the circuit is built") - row.build_time_s.expect("the circuit is built");
        assert!((begun - 1.0).rem_euclid(5.0) < 1e-6, "{begun} s");
    }
    let entry = outcome.nodes.iter().find(|node| node.name == "entry").expect("the path has an entry");
    // Channels to the middle and to two downloading clients; the last hold ended at 18 s.
    assert_eq!(entry.population[0], 3, "{:?}", entry.population);
    assert!(outcome.tables.transfers.iter().all(|row| !row.client.starts_with("holder")));
}

#[test]
fn a_hold_shorter_than_its_circuit_takes_to_build_is_harmless() {
    for hold in ["1 ms", "45 ms", "90 ms", "130 ms"] {
        let lab = Lab::path().with(HOLDER).set("run.duration", "10 s").set("workloads.hold.hold", hold);
        let outcome = lab.set("workloads.hold.pause", "10 ms").run(1);
        assert_conserved(&outcome);
        assert!(!complete(&outcome, "bulk").is_empty(), "{hold}");
    }
}

#[test]
fn several_circuits_download_at_the_same_time_with_and_without_a_shared_channel() {
    for (map, channels) in [("shared", 1), ("per-circuit", 4)] {
        let lab = Lab::path()
            .set("workloads.bulk.circuits", "4")
            .set("workloads.bulk.size", "300 KiB")
            .set("clients.bulk.channel_map", map)
            .set("run.duration", "60 s");
        let document = lab.document();
        let scenario = document.scenario("stock").expect("the variant is in the text");
        let slow = penstock_sim::run(scenario, 1, &Control::one_by_one()).expect("the run is not cancelled");
        let outcome = lab.run(1);
        assert!(outcome.tables == slow.tables, "{map}: the tables differ");
        assert_conserved(&outcome);
        let bulk =
            outcome.nodes.iter().find(|node| node.name == "bulk").expect("the client is in the scenario");
        assert_eq!(bulk.population[..2], [channels, 4], "{map}");
        let done = complete(&outcome, "bulk");
        let mut circuits: Vec<_> = done.iter().map(|row| row.circuit).collect();
        circuits.sort_unstable();
        circuits.dedup();
        assert_eq!(circuits.len(), 4, "{map}: each circuit has its own downloads");
    }
}

/// One client with web and bulk downloads.
fn both(isolate: bool) -> Lab {
    Lab::path()
        .with("[clients.both]\nworkload = [\"web\", \"bulk\"]\n")
        .set("clients.both.isolate_workloads", if isolate { "true" } else { "false" })
        .set("clients.web.workload", "rest")
        .set("clients.bulk.workload", "rest")
        .with("[workloads.rest]\nsize = \"1 B\"\nstart = \"1 h\"\n")
}

#[test]
fn several_workloads_share_a_circuit_or_have_one_each() {
    let started = |isolate: bool| {
        let outcome = both(isolate).run(1);
        assert_conserved(&outcome);
        let circuits = outcome.tables.paths.len();
        let [web, bulk] = ["web", "bulk"].map(|workload| {
            let rows = complete(&outcome, "both").into_iter().filter(|row| &*row.workload == workload);
            rows.map(|row| (row.circuit, row.stream, row.bytes, row.start_s)).collect::<Vec<_>>()
        });
        assert!(web.len() > 5 && bulk.len() > 3, "{} and {}", web.len(), bulk.len());
        let mut streams: Vec<_> = web.iter().chain(&bulk).map(|row| (row.0, row.1)).collect();
        streams.sort_unstable();
        let of_first = streams.iter().filter(|stream| stream.0 == streams[0].0).count();
        // Streams of a circuit have different numbers.
        streams.dedup();
        assert_eq!(streams.len(), web.len() + bulk.len());
        assert_eq!(of_first == streams.len(), !isolate, "{streams:?}");
        (circuits, [web[0].3, bulk[0].3], web[0].2)
    };
    let (together, apart) = (started(false), started(true));
    assert_eq!([together.0, apart.0], [1, 2]);
    assert_eq!(together.2, apart.2, "both runs sample the same sizes");
    // The second session finds a circuit that the first one has built.
    assert!(
        together.1.iter().zip(apart.1).filter(|(one, other)| **one < *other).count() == 1,
        "{together:?} {apart:?}"
    );
}

/// Two workloads of a client share a circuit. Both sessions wait for its construction.
#[test]
fn a_shared_circuit_is_built_once_for_two_workloads() {
    let lab = both(false).set("workloads.web.start", "1 s").set("workloads.bulk.start", "1 s");
    let outcome = lab.set("client.bandwidth_rate", "20 KiB/s").run(1);
    assert_conserved(&outcome);
    let first: Vec<_> = outcome.tables.transfers.iter().filter(|row| row.stream <= Some(2)).collect();
    assert_eq!(first.len(), 2);
    assert_eq!(first[0].start_s, first[1].start_s, "both start immediately when the circuit is built");
    assert_eq!(outcome.tables.paths.len(), 1);
}

/// The old circuit lives until its stream ends. New streams share a new circuit.
#[test]
fn an_old_shared_circuit_gets_no_new_stream_while_one_is_open() {
    // The file takes about 20 s, so pages begin during it.
    let lab = both(false)
        .set("client.circuit_lifetime", "5 s")
        .set("workloads.bulk.size", "4 MiB")
        .set("run.duration", "60 s");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    let rows: Vec<_> = outcome.tables.transfers.iter().filter(|row| &*row.client == "both").collect();
    let mut first = BTreeMap::new();
    for row in &rows {
        let start = first.entry(row.circuit).or_insert(row.start_s);
        *start = row.start_s.min(*start);
    }
    assert!(rows.iter().all(|row| row.start_s < first[&row.circuit] + 5.0));
    assert!(first.len() >= 8, "{} circuits in a minute", first.len());
    // Streams in progress continue to their end.
    let outlived = rows
        .iter()
        .filter(|row| row.ttlb_s.is_some_and(|ttlb| row.start_s + ttlb > first[&row.circuit] + 5.0));
    assert!(outlived.filter(|row| &*row.workload == "bulk").count() >= 2);
    assert!(rows.iter().all(|row| [Ending::Ok, Ending::Unfinished].contains(&row.outcome)));
    let client = node(&outcome, "both");
    // The present circuit, and that of an unfinished file.
    assert!((1..=2).contains(&client.population[1]), "{:?}", client.population);
    let slow = penstock_sim::run(
        lab.document().scenario("stock").expect("the file has the variant"),
        1,
        &Control::one_by_one(),
    );
    assert!(slow.expect("the run is not cancelled").tables == outcome.tables, "the tables differ");
}
