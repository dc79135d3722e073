//! Clients that use several circuits at once, and clients that hold a circuit and close it again.

use crate::util::{Lab, assert_conserved, complete};
use penstock_sim::Control;

/// Beside a bulk client, one that only holds circuits through the entry.
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
fn a_holder_opens_and_closes_at_its_times_and_leaves_nothing_behind() {
    let outcome = Lab::path().with(HOLDER).set("run.duration", "20 s").run(1);
    assert_conserved(&outcome);
    let held: Vec<_> = outcome.tables.paths.iter().filter(|row| row.client.starts_with("holder")).collect();
    // At 1, 6, 11 and 16 s.
    assert_eq!(held.len(), 12);
    for row in &held {
        let begun = row.built_s.expect("it is built") - row.build_time_s.expect("it is built");
        assert!((begun - 1.0).rem_euclid(5.0) < 1e-6, "{begun} s");
    }
    let entry = outcome.nodes.iter().find(|node| node.name == "entry").expect("it is there");
    // To the middle and to two downloaders; the last hold ended at 18 s.
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
fn several_circuits_download_at_once_and_share_a_channel_or_not() {
    for (map, channels) in [("shared", 1), ("per-circuit", 4)] {
        let lab = Lab::path()
            .set("workloads.bulk.circuits", "4")
            .set("workloads.bulk.size", "300 KiB")
            .set("clients.bulk.channel_map", map)
            .set("run.duration", "60 s");
        let document = lab.document();
        let scenario = document.scenario("stock").expect("the variant is in the text");
        let slow = penstock_sim::run(scenario, 1, &Control::one_by_one()).expect("nobody cancels");
        let outcome = lab.run(1);
        assert!(outcome.tables == slow.tables, "{map}: the tables differ");
        assert_conserved(&outcome);
        let bulk = outcome.nodes.iter().find(|node| node.name == "bulk").expect("it is there");
        assert_eq!(bulk.population[..2], [channels, 4], "{map}");
        let done = complete(&outcome, "bulk");
        let mut circuits: Vec<_> = done.iter().map(|row| row.circuit).collect();
        circuits.sort_unstable();
        circuits.dedup();
        assert_eq!(circuits.len(), 4, "{map}: each has downloads of its own");
    }
}
