//! Linked circuits in whole networks.

use crate::util::{Lab, assert_conserved, complete, node};
use penstock_sim::Outcome;

/// The path of [`Lab::path`] as the first leg, and a second leg to the same exit.
fn linked() -> Lab {
    Lab::path()
        .with("[relays.entry2]\n[relays.middle2]\nlink = \"200 KiB/s\"\n")
        .set("relay.preset", "tor-0.4.9")
        .set("client.preset", "tor-0.4.9")
        .set("client.conflux_path", "['entry2', 'middle2', 'exit']")
}

fn median(outcome: &Outcome, client: &str) -> f64 {
    let mut times: Vec<f64> = complete(outcome, client).iter().filter_map(|row| row.ttlb_s).collect();
    assert!(times.len() > 3, "{times:?}");
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
fn linked_circuits_lose_no_cell_and_are_deterministic() {
    for loss in ["0.0", "0.01"] {
        let lab = linked().set("network.loss", loss);
        let outcome = lab.run(1);
        assert_conserved(&outcome);
        assert!(complete(&outcome, "bulk").len() > 2 && complete(&outcome, "web").len() > 2);
        assert!(outcome.tables == lab.run(1).tables);
        assert!(node(&outcome, "exit").counters.switches > 10);
        assert!(
            node(&outcome, "middle").counters.sent > 1000 && node(&outcome, "middle2").counters.sent > 1000
        );
    }
}

#[test]
fn a_download_over_both_legs_is_faster_than_over_the_better_one() {
    let lab = linked().set("workloads.web.start", "1 h");
    let both = median(&lab.run(1), "bulk");
    let alone =
        median(&lab.clone().set("client.conflux", "false").set("client.conflux_path", "[]").run(1), "bulk");
    assert!(both * 1.3 < alone, "{both} s linked, {alone} s alone");
}

#[test]
fn an_exit_without_conflux_gets_single_circuits() {
    let outcome = linked().set("relays.exit.conflux", "false").run(1);
    assert_conserved(&outcome);
    assert!(complete(&outcome, "bulk").len() > 2);
    assert_eq!(node(&outcome, "middle2").counters.received, 0, "no client builds a second leg");
}

#[test]
fn an_exit_without_congestion_control_gets_one_circuit_of_two() {
    // The congestion control of the exit is another one, so the ends agree on none.
    let outcome = linked().set("relays.exit.edge_control", "{ kind = 'timely' }").run(1);
    assert_conserved(&outcome);
    assert!(complete(&outcome, "bulk").len() > 2);
    assert_eq!(node(&outcome, "exit").counters.switches, 0);
}

#[test]
fn fresh_and_drawn_circuits_are_linked() {
    let relays = "[relays.a]\n[relays.b]\n[relays.c]\n[relays.d]\n";
    let lab = Lab::path()
        .with(relays)
        .set("relay.preset", "tor-0.4.9")
        .set("client.preset", "tor-0.4.9")
        .set("client.path", "'weighted'")
        .set("workloads.web.fresh_circuit", "true")
        .set("client.circuit_lifetime", "'5 s'");
    let outcome = lab.run(2);
    assert_conserved(&outcome);
    assert!(complete(&outcome, "web").len() > 5 && complete(&outcome, "bulk").len() > 5);
    assert!(outcome.nodes.iter().map(|node| node.counters.switches).sum::<u64>() > 10);
    // Two legs of a set begin one after the other and share only the exit.
    let paths = &outcome.tables.paths;
    assert!(paths.len() > 20 && paths.len().is_multiple_of(2), "{}", paths.len());
    for client in ["web", "bulk"] {
        let own: Vec<_> = paths.iter().filter(|row| &*row.client == client).collect();
        for pair in own.chunks(2) {
            let [first, second] = pair else { panic!("{pair:?}") };
            assert_eq!(first.exit, second.exit);
            assert!(first.guard != second.guard && first.middle != second.middle, "{pair:?}");
        }
    }
}
