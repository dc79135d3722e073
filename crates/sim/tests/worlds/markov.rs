//! Clients with Markov models of streams and packets.

use crate::util::{Lab, assert_conserved};
use penstock_record::{Outcome as Ending, Transfer};
use penstock_sim::{Control, Outcome};
use std::collections::BTreeSet;

/// Streams of five packets with gaps of 0.1 s, and one packet of the client before the last.
const FIVE: &str = r#"
transitions = ["start -> a: 1", "a -> b: 1", "b -> c: 1", "c -> d: 1", "d -> e: 1", "e -> f: 1", "f -> end: 1"]
emissions = ["a -> -: 1 after 100 ms", "b -> -: 1 after 100 ms", "c -> -: 1 after 100 ms", "d -> -: 1 after 100 ms",
    "e -> +: 1 after 0 s", "f -> -: 1 after 0 s", "end -> F: 1"]
"#;

/// A stream each second, without end.
const SECONDS: &str = r#"
transitions = ["start -> s: 1", "s -> s: 1"]
emissions = ["s -> +: 1 after 1 s"]
"#;

fn lab(packets: &str, streams: &str) -> Lab {
    let workload = format!(
        "[workloads.tgen]\nstart = \"500 ms\"\npause = \"2 s\"\n[workloads.tgen.tgen.packets]\n{packets}\n{streams}\n[clients.tgen]\nworkload = \"tgen\"\n"
    );
    Lab::path().with(&workload).set("run.duration", "20 s").set("workloads.web.start", "19 s")
}

fn streams(text: &str) -> String {
    format!("[workloads.tgen.tgen.streams]\n{text}")
}

fn own(outcome: &Outcome) -> Vec<&Transfer> {
    outcome.tables.transfers.iter().filter(|row| &*row.workload == "tgen").collect()
}

fn near(value: f64, expected: f64, within: f64) {
    assert!((value - expected).abs() < within, "{value} is not {expected} within {within}");
}

#[test]
fn packets_leave_at_the_times_of_the_model_and_end_the_stream() {
    let fast = lab(FIVE, &streams(SECONDS))
        .set("relays.middle.link", "10 MiB/s")
        .set("workloads.bulk.start", "19 s");
    let outcome = fast.run(1);
    assert_conserved(&outcome);
    let rows = own(&outcome);
    // The first at 0.5 s plus the circuit's build time of about three round trips, then one each second.
    assert_eq!(rows.len(), 20);
    for (index, row) in rows.iter().enumerate().skip(1).take(18) {
        near(row.start_s, 0.5 + index as f64, 1e-9);
        assert_eq!((row.outcome, row.bytes, row.bytes_received), (Ending::Ok, 5 * 1434, 5 * 1434));
        let [first, last] = [row.ttfb_s, row.ttlb_s].map(Option::unwrap);
        // Two round trips of 160 ms, then four pauses.
        near(first, 0.320, 0.01);
        assert!((last - first - 0.4).abs() < 0.005, "{index} {row:?}");
    }
    // All streams are on one circuit, because an endless flow has one circuit.
    let circuits: BTreeSet<_> = rows.iter().map(|row| row.circuit).collect();
    assert_eq!(circuits.len(), 1);
}

#[test]
fn streams_begin_independently_of_earlier_streams() {
    // A quarter of a megabyte per second is more than the middle carries next to a bulk client.
    let packets = r#"
transitions = ["start -> a: 1", "a -> a: 0.994536", "a -> end: 0.005464"]
emissions = ["a -> -: 1 after 0 s", "end -> F: 1"]
"#;
    let starts = |link: &str| {
        let outcome = lab(packets, &streams(SECONDS)).set("relays.middle.link", link).run(1);
        assert_conserved(&outcome);
        let mut rows = own(&outcome);
        rows.sort_by(|one, other| one.start_s.total_cmp(&other.start_s));
        let open = rows.iter().filter(|row| row.outcome == Ending::Unfinished).count();
        let starts: Vec<f64> = rows.iter().skip(1).map(|row| row.start_s).collect();
        let sizes: Vec<u64> =
            rows.iter().filter(|row| row.outcome == Ending::Ok).map(|row| row.bytes).collect();
        (starts, sizes, open)
    };
    let [fast, slow] = ["10 MiB/s", "128 KiB/s"].map(starts);
    assert_eq!(fast.0, slow.0);
    assert!(fast.2 <= 1 && slow.2 > 3, "{} {}", fast.2, slow.2);
    assert!(fast.1.iter().collect::<BTreeSet<_>>().len() > 10, "sizes differ: {:?}", fast.1);
}

#[test]
fn each_flow_has_its_own_circuit_and_closes_it() {
    let three = r#"
transitions = ["start -> x: 1", "x -> y: 1", "y -> end: 1"]
emissions = ["x -> +: 1 after 300 ms", "y -> -: 1 after 300 ms", "end -> F: 1"]
"#;
    // Flows of two streams: one after the other with a pause, or one every 700 ms.
    let outcome = lab(FIVE, &streams(three)).set("workloads.bulk.start", "19 s").run(1);
    assert_conserved(&outcome);
    let rows = own(&outcome);
    let circuits: BTreeSet<_> = rows.iter().map(|row| row.circuit).collect();
    assert_eq!(rows.len(), 2 * circuits.len());
    assert!(rows.iter().all(|row| row.outcome == Ending::Ok || row.start_s > 18.0), "{rows:?}");
    let begun = |circuit: u64| {
        let row = &outcome.tables.paths[circuit as usize];
        row.built_s.unwrap() - row.build_time_s.unwrap()
    };
    let mut times: Vec<f64> = circuits.iter().map(|circuit| begun(circuit.unwrap())).collect();
    times.sort_by(f64::total_cmp);
    // About a second per flow and a pause of two seconds.
    assert!(times.windows(2).all(|pair| (3.0..4.0).contains(&(pair[1] - pair[0]))), "{times:?}");

    let flows = r#"
[workloads.tgen.tgen.flows]
transitions = ["start -> s: 1", "s -> s: 1"]
emissions = ["s -> +: 1 after 700 ms"]
"#;
    let flowing = lab(FIVE, &format!("{}{flows}", streams(three))).set("workloads.bulk.start", "19 s").run(1);
    assert_conserved(&flowing);
    let own_paths = flowing.tables.paths.iter().filter(|row| &*row.client == "tgen");
    // 28 flows in 19.5 s.
    assert_eq!(own_paths.count(), 28);
    let client = flowing.nodes.iter().find(|node| node.name == "tgen").unwrap();
    assert!(client.population[1] <= 3, "clients close old circuits: {:?}", client.population);
}

#[test]
fn without_a_model_of_streams_a_flow_is_one_stream() {
    let outcome = lab(FIVE, "").set("workloads.bulk.start", "19 s").run(1);
    assert_conserved(&outcome);
    let rows = own(&outcome);
    let circuits: BTreeSet<_> = rows.iter().map(|row| row.circuit).collect();
    assert_eq!(rows.len(), circuits.len());
    // Circuit, stream, and the pause of 2 s.
    assert!((5..=7).contains(&rows.len()), "{}", rows.len());
}

/// A side sends at full speed without end.
fn nonstop(side: char) -> String {
    format!("transitions = [\"start -> a: 1\", \"a -> a: 1\"]\nemissions = [\"a -> {side}: 1 after 0 s\"]\n")
}

#[test]
fn an_endless_stream_is_limited_by_its_buffers() {
    for (side, fills) in [('-', [0, 220_000]), ('+', [220_000, 0])] {
        let outcome =
            lab(&nonstop(side), "").set("workloads.bulk.start", "19 s").set("run.duration", "10 s").run(1);
        assert_conserved(&outcome);
        let rows = own(&outcome);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.outcome, row.ttlb_s), (Ending::Unfinished, None));
        let client = outcome.nodes.iter().find(|node| node.name == "tgen").unwrap();
        for (bytes, rate) in client.link_bytes.iter().zip(fills) {
            // The middle carries 256 KiB/s. The other direction has few packets except for ACKs.
            let measured = bytes.get() as f64 / (10.0 - row.start_s);
            let range = if rate > 0 { rate as f64..280_000.0 } else { 0.0..20_000.0 };
            assert!(range.contains(&measured), "{side}: {measured}");
        }
        assert!(row.bytes >= row.bytes_received, "the client knows the size of its download");
    }
}

#[test]
fn markov_runs_do_not_depend_on_the_order_of_hosts() {
    let packets = r#"
transitions = ["start -> a: 1", "a -> a: 0.98", "a -> end: 0.02"]
emissions = ["a -> +: 0.2 after exponential(4 ms)", "a -> -: 0.8 after lognormal(3 ms, 2, 1 h)", "end -> F: 1"]
"#;
    let some = r#"
transitions = ["start -> s: 1", "s -> s: 1"]
emissions = ["s -> +: 0.7 after exponential(400 ms)", "s -> F: 0.3"]
"#;
    let flows = r#"
[workloads.tgen.tgen.flows]
transitions = ["start -> s: 1", "s -> s: 1"]
emissions = ["s -> +: 1 after pareto(300 ms, 1.5)"]
"#;
    for optimistic in ["false", "true"] {
        let lab = lab(packets, &format!("{}{flows}", streams(some)))
            .set("clients.tgen.count", "3")
            .set("relays.middle.link", "1 MiB/s")
            .set("client.optimistic_data", optimistic);
        let document = lab.document();
        let scenario = document.scenario("stock").unwrap();
        let slow = penstock_sim::run(scenario, 1, &Control::one_by_one()).unwrap();
        let outcome = lab.run(1);
        assert!(outcome.tables == slow.tables, "the tables differ");
        assert!(outcome.tables == lab.run(1).tables);
        assert_conserved(&outcome);
        let complete = own(&outcome).iter().filter(|row| row.outcome == Ending::Ok).count();
        assert!(complete > 50, "{complete} of {}", own(&outcome).len());
        assert_ne!(own(&outcome).len(), own(&lab.run(2)).len());
    }
}

#[test]
fn a_stream_times_out() {
    let outcome = lab(&nonstop('-'), &streams(SECONDS)).set("workloads.tgen.timeout", "3 s").run(1);
    assert_conserved(&outcome);
    let rows = own(&outcome);
    assert!(rows.iter().filter(|row| row.outcome == Ending::Timeout).count() >= 15, "{rows:?}");
    let client = outcome.nodes.iter().find(|node| node.name == "tgen").unwrap();
    assert!(client.population[2] <= 4, "{:?}", client.population);
}
