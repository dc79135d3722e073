//! Open-loop replay: the downloads of one run are requested again in another run.

use crate::util::{Lab, assert_conserved};
use penstock_record::{Outcome as Ending, Transfer};
use penstock_scenario::Scenario;
use penstock_sim::replay::{RecordedDownload, Replay};
use penstock_sim::{Control, Outcome};
use penstock_units::{Bytes, Instant};

fn instant(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9).round() as u64)
}

/// The recorded downloads of a run over Tor.
pub(crate) fn record(outcome: &Outcome) -> Vec<RecordedDownload> {
    let downloads = |row: &Transfer| {
        let circuit = row.circuit.expect("the download has a circuit");
        let path = &outcome.tables.paths[circuit as usize];
        let begun =
            path.built_s.expect("the circuit was built") - path.build_time_s.expect("the circuit was built");
        RecordedDownload {
            client: row.client.to_string(),
            workload: row.workload.to_string(),
            circuit,
            begun: instant(begun),
            relays: [&path.guard, &path.middle, &path.exit].map(|relay| relay.to_string()),
            start: instant(row.start_s),
            size: Bytes::new(row.bytes),
        }
    };
    outcome.tables.transfers.iter().filter(|row| row.circuit.is_some()).map(downloads).collect()
}

pub(crate) fn replayed(scenario: &Scenario, downloads: Vec<RecordedDownload>, control: &Control) -> Outcome {
    let replay = Replay::new(scenario, downloads).unwrap_or_else(|why| panic!("{why}"));
    penstock_sim::replay(scenario, 1, 1, &replay, control).expect("the run is not cancelled")
}

/// Client, workload, time and size of each request, in one order.
pub(crate) fn requests(outcome: &Outcome) -> Vec<(String, String, u64, u64)> {
    let request = |row: &Transfer| {
        (row.client.to_string(), row.workload.to_string(), instant(row.start_s).as_nanos(), row.bytes)
    };
    let mut all: Vec<_> = outcome.tables.transfers.iter().map(request).collect();
    all.sort();
    all
}

#[test]
fn a_replay_in_the_same_variant_is_the_same_run() {
    for set in [
        ("workloads.bulk.fresh_circuit", "false"),
        ("workloads.bulk.fresh_circuit", "true"),
        ("workloads.web.timeout", "900 ms"),
        ("client.optimistic_data", "true"),
    ] {
        let lab = Lab::path().set(set.0, set.1);
        let (document, original) = (lab.document(), lab.run(1));
        let scenario = document.scenario("stock").expect("the file has the variant");
        let again = replayed(scenario, record(&original), &Control::new());
        assert_conserved(&again);
        assert_eq!(requests(&again), requests(&original), "{set:?}");
        // With one download at a time the closed loop is the same.
        assert!(again.tables.transfers == original.tables.transfers, "{set:?}: the downloads differ");
        assert!(again.tables.relays == original.tables.relays, "{set:?}: the relays differ");
    }
}

#[test]
fn a_replay_in_another_variant_requests_at_the_recorded_times() {
    let lab = Lab::path().set("workloads.bulk.circuits", "2").set("workloads.bulk.fresh_circuit", "true");
    let original = lab.run(1);
    let slower = lab.set("relays.middle.link", "128 KiB/s").document();
    let scenario = slower.scenario("50KiB").expect("the file has the variant");
    let again = replayed(scenario, record(&original), &Control::new());
    assert_conserved(&again);
    assert_eq!(requests(&again), requests(&original));
    let open = |outcome: &Outcome| {
        outcome.tables.transfers.iter().filter(|row| row.outcome == Ending::Unfinished).count()
    };
    assert!(open(&again) > open(&original) + 3, "{} {}", open(&again), open(&original));
    let one_by_one = replayed(scenario, record(&original), &Control::one_by_one());
    assert!(again.tables == one_by_one.tables, "the tables differ");
    // A closed loop requests less.
    let closed = penstock_sim::run(scenario, 1, &Control::new()).expect("the run is not cancelled");
    assert!(closed.tables.transfers.len() < again.tables.transfers.len());
}

/// Client, time and relays of each request, in one order.
fn routes(outcome: &Outcome) -> Vec<(String, u64, [String; 3])> {
    let route = |row: &Transfer| {
        let path = &outcome.tables.paths[row.circuit.expect("the download has a circuit") as usize];
        let relays = [&path.guard, &path.middle, &path.exit].map(|relay| relay.to_string());
        (row.client.to_string(), instant(row.start_s).as_nanos(), relays)
    };
    let mut all: Vec<_> = outcome.tables.transfers.iter().map(route).collect();
    all.sort();
    all
}

/// The record has no circuits that were replaced or unused; the others keep their relays.
#[test]
fn replayed_requests_use_the_recorded_relays() {
    let sampled = |path: &str| {
        Lab::path()
            .with("[relays.more]\ncount = 12\nlink = \"200 KiB/s\"\nflags = [\"guard\", \"exit\"]\n")
            .set("client.path", path)
            .set("workloads.web.fresh_circuit", "true")
            .set("workloads.bulk.circuits", "2")
            .set("client.build_timeout", "600 ms")
            .set("run.duration", "60 s")
    };
    for (path, hops) in [("tor", 3), ("weighted", 3), ("weighted", 2), ("weighted", 1)] {
        let lab = sampled(path);
        let lab = if hops == 3 { lab } else { lab.set("client.hops", &hops.to_string()) };
        let (document, original) = (lab.document(), lab.run(1));
        let given_up = original.tables.paths.iter().filter(|row| row.built_s.is_none()).count();
        assert!(given_up > 3 || hops < 3, "{path}: {given_up} circuits given up");
        let scenario = document.scenario("stock").expect("the file has the variant");
        let again = replayed(scenario, record(&original), &Control::new());
        assert_conserved(&again);
        let [then, now] = [&original, &again].map(routes);
        assert_eq!(then, now, "{path} {hops}");
        assert!(now.len() > 30, "{path} {hops}: {} downloads", now.len());
    }
}

#[test]
fn clients_without_a_record_stay_idle() {
    let lab = Lab::path();
    let (document, original) = (lab.document(), lab.run(1));
    let scenario = document.scenario("stock").expect("the file has the variant");
    let web: Vec<RecordedDownload> =
        record(&original).into_iter().filter(|downloads| downloads.client == "web").collect();
    let again = replayed(scenario, web, &Control::new());
    assert_conserved(&again);
    assert!(again.tables.paths.iter().all(|row| &*row.client == "web"));
    let nothing = replayed(scenario, Vec::new(), &Control::new());
    assert!(nothing.tables.transfers.is_empty() && nothing.tables.paths.is_empty());
}

#[test]
fn a_record_of_another_scenario_is_rejected() {
    let document = Lab::path().set("client.path", "weighted").document();
    let scenario = document.scenario("stock").expect("the file has the variant");
    let refused = |client: &str, workload: &str, guard: &str| {
        let downloads = RecordedDownload {
            client: client.to_owned(),
            workload: workload.to_owned(),
            circuit: 0,
            begun: Instant::ZERO,
            relays: [guard, "middle", "exit"].map(str::to_owned),
            start: Instant::ZERO,
            size: Bytes::kib(1),
        };
        Replay::new(scenario, [downloads]).map(|_| ()).unwrap_err()
    };
    for (said, right) in [
        (
            refused("x", "web", "entry"),
            "it has downloads of the client \"x\", which the scenario does not have",
        ),
        (
            refused("web", "x", "entry"),
            "it has downloads of the workload \"x\", which the client \"web\" does not have",
        ),
        (
            refused("web", "bulk", "entry"),
            "it has downloads of the workload \"bulk\", which the client \"web\" does not have",
        ),
        (
            refused("web", "web", "x"),
            "it has a circuit of the client \"web\" through the relay \"x\", which the scenario does not have",
        ),
    ] {
        assert_eq!(said.to_string(), right);
    }
}
