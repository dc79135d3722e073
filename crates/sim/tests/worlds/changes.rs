//! Tests changes of the configuration during a run.

use crate::util::{Lab, assert_conserved};
use penstock_record::Tables;
use penstock_sim::{Control, Outcome};

/// Many clients share the middle's channel to the entry, so the order of circuits matters.
fn lab(changes: &str) -> Lab {
    Lab::path()
        .with("[clients.crowd]\ncount = 3\nworkload = \"web\"\n")
        .with(changes)
        .set("run.duration", "20 s")
        .set("trace.cells", "0")
}

const EWMA: &str = r#"
[[changes]]
at = "10 s"
set = { "relays.middle.circuit_policy" = { kind = "ewma", half_life = "5 s" } }
"#;

/// The samples up to time `t` [s], or the samples after it.
fn sampled(tables: &Tables, t: f64, before: bool) -> Vec<String> {
    let relays = tables.relays.iter().filter(|row| (row.t_s <= t) == before).map(|row| format!("{row:?}"));
    let circuits = tables.circuits.iter().filter(|row| (row.t_s <= t) == before);
    relays.chain(circuits.map(|row| format!("{row:?}"))).collect()
}

#[test]
fn a_change_affects_a_run_only_after_its_time() {
    let (without, with) = (lab("").run(3), lab(EWMA).run(3));
    for outcome in [&without, &with] {
        assert_conserved(outcome);
    }
    let [before, after] = [true, false].map(|before| {
        let [one, other] = [&without, &with].map(|outcome| sampled(&outcome.tables, 10.0, before));
        assert!(one.len() > 1000, "{} rows", one.len());
        one == other
    });
    assert_eq!([before, after], [true, false]);
}

#[test]
fn a_change_between_samples_is_the_same_one_event_at_a_time() {
    let more = "[[changes]]\nat = \"12345678 us\"\nset = { \"relays.middle.circuit_policy.half_life\" = \"100 ms\" }\n";
    let lab = lab(&format!("{EWMA}{more}"));
    let document = lab.document();
    let scenario = document.scenario("stock").expect("the variant is in the text");
    let slow: Outcome =
        penstock_sim::run(scenario, 3, &Control::one_by_one()).expect("the run is not cancelled");
    let fast = lab.run(3);
    assert!(fast.tables == slow.tables, "the tables differ");
    assert_eq!((fast.stats, &fast.nodes), (slow.stats, &slow.nodes));
    assert!(fast.tables != self::lab(EWMA).run(3).tables, "another half-life changes the run");
}

#[test]
fn a_change_to_the_same_policy_in_another_form_keeps_downloads() {
    let text = "[[changes]]\nat = \"10 s\"\nset = { \"relay.circuit_policy\" = { kind = \"ewma\", form = \"list\" } }\n";
    let outcome = lab(text).run(3);
    assert_conserved(&outcome);
    let late = outcome
        .tables
        .transfers
        .iter()
        .filter(|row| row.start_s < 10.0 && row.start_s + row.ttlb_s.unwrap_or(0.0) > 10.0);
    assert!(late.count() > 0, "a download continues during the change");
}

/// The throttle of the bulk client begins at 10 s.
#[test]
fn a_throttle_can_be_turned_on_during_downloads() {
    let text = "[[changes]]\nat = \"10 s\"\nset = { \"relays.entry.throttle\" = { kind = \"static\", rate = \"5 KiB/s\", burst = \"20 KiB\" } }\n";
    let outcome = Lab::only_bulk().with(text).set("run.duration", "30 s").run(3);
    assert_conserved(&outcome);
    let written = |from: f64, to: f64| -> u64 {
        let entry = outcome.tables.relays.iter().filter(|row| &*row.relay == "entry");
        entry.filter(|row| row.t_s > from && row.t_s <= to).map(|row| row.written_bytes).sum()
    };
    let (before, after) = (written(0.0, 10.0), written(12.0, 30.0));
    assert!(before > 2_000_000, "{before} B");
    // Writes to the client, and a few to the middle.
    assert!((after as f64 / 18.0 / 5120.0 - 1.0).abs() < 0.12, "{after} B");
    let path = outcome.tables.paths.len();
    assert_eq!(path, 1, "the circuit stays");
}
