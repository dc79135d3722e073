//! VF-09, VF-10: the last hop of a download becomes the bottleneck during the download; measures when each hop reacts.

use crate::util::Lab;
use penstock_record::{CircuitRow, Position};
use penstock_sim::Outcome;

/// The time at which the client's rate changes [s].
const ONSET: f64 = 45.0;
/// Interval of samples [s].
const SAMPLE: f64 = 0.002;

/// An endless download through an exit of 800 KiB/s. At the change, the client's rate falls to 200 KiB/s. With relays
/// of 2 MiB/s, windows grow far beyond the size that the exit needs. With 800 KiB/s they do not.
fn step(hop_control: &str, others: &str, seed: u64) -> Outcome {
    let lab = ["relay", "client"].iter().fold(Lab::only_bulk(), |lab, nodes| {
        lab.set(&format!("{nodes}.transport"), "datagram")
            .set(&format!("{nodes}.hop_control"), hop_control)
            .set(&format!("{nodes}.edge_control"), "{ kind = 'windows', ends = 'suppressed' }")
            .set(&format!("{nodes}.refill"), "10 ms")
            .set(&format!("{nodes}.bandwidth_rate"), others)
            .set(&format!("{nodes}.bandwidth_burst"), "64 KiB")
    });
    let set =
        "{ \"clients.bulk.bandwidth_rate\" = \"200 KiB/s\", \"clients.bulk.bandwidth_burst\" = \"4 KiB\" }";
    let lab = lab.with(&format!("[[changes]]\nat = \"{ONSET} s\"\nset = {set}\n"));
    lab.set("relays.exit.bandwidth_rate", "800 KiB/s")
        .set("relays.exit.bandwidth_burst", "16 KiB")
        .set("relays.middle.link", "10 MiB/s")
        .set("network.rtt", "60 ms")
        .set("relay.scheduler", "{ kind = 'vanilla', outbuf_low = '1 KiB', outbuf_high = '1 KiB' }")
        .set("trace.interval", "2 ms")
        .set("trace.cells", "0")
        .set("run.duration", "60 s")
        .run(seed)
}

fn rows(outcome: &Outcome, hop: Position) -> Vec<&CircuitRow> {
    let of_hop = |row: &&CircuitRow| row.hop == hop && row.window_cells.is_some() && row.t_s >= ONSET;
    outcome.tables.circuits.iter().filter(of_hop).collect()
}

/// Time from the change to the first decrease of the window at a hop [s].
fn first_decrease(outcome: &Outcome, hop: Position) -> f64 {
    let there = rows(outcome, hop);
    let shrinks = there.windows(2).find(|pair| pair[1].window_cells < pair[0].window_cells);
    shrinks.expect("the window shrinks after the change")[1].t_s - ONSET
}

fn peak(outcome: &Outcome, hop: Position) -> u64 {
    rows(outcome, hop).iter().map(|row| row.queue_cells).max().unwrap()
}

const WIDE: &str = "2 MiB/s";
const TIGHT: &str = "800 KiB/s";

/// VF-10: a queue is never longer than the window before it.
fn assert_below_windows(outcome: &Outcome) {
    for (before, after) in [(Position::Exit, Position::Middle), (Position::Middle, Position::Guard)] {
        let (before, after) = (rows(outcome, before), rows(outcome, after));
        assert!(before.len() > 5000 && before.len() == after.len());
        for (window, queue) in before.into_iter().zip(after) {
            assert_eq!(window.t_s, queue.t_s);
            assert!(queue.queue_cells as i64 <= window.window_cells.unwrap(), "{queue:?} behind {window:?}");
        }
    }
}

/// VF-09, first half: feedback of the measuring node reaches the first node within one round trip of the circuit and
/// one round of the hop. In this round, the 99 cells of the window are forwarded at 200 KiB/s.
#[test]
fn marut_feedback_reaches_the_first_node_immediately() {
    for seed in 1..=3 {
        let outcome = step("{ kind = 'marut', middle = 'own', interval = 'hop' }", WIDE, seed);
        let [guard, exit] = [Position::Guard, Position::Exit].map(|hop| first_decrease(&outcome, hop));
        assert!(exit <= guard + 0.18 + 0.25 + SAMPLE, "seed {seed}: {guard} and {exit} s");
    }
}

/// With windows of the needed size, BackTap reacts sooner. Larger windows must fill before any node reacts, which is
/// the slides' first criticism.
#[test]
fn backtap_reacts_sooner_with_windows_of_the_needed_size() {
    for seed in 1..=3 {
        let [wide, tight] = [WIDE, TIGHT].map(|others| step("{ kind = 'backtap' }", others, seed));
        assert_below_windows(&wide);
        assert_below_windows(&tight);
        let [wide, tight] = [&wide, &tight].map(|outcome| first_decrease(outcome, Position::Exit));
        assert!(tight < wide, "seed {seed}: {tight} and {wide} s");
    }
}

/// VF-10. In mode `hop` only Marut's feedback limits the cells in flight beyond the first hop.
#[test]
fn end_to_end_feedback_waits_in_no_queue() {
    let [backtap, hop, path] = ["backtap' }", "marut' }", "marut', mode = 'e2e' }"]
        .map(|kind| step(&format!("{{ kind = '{kind}"), WIDE, 1));
    let peaks = |outcome: &Outcome| [Position::Middle, Position::Guard].map(|hop| peak(outcome, hop));
    let [backtap, hop, path] = [&backtap, &hop, &path].map(peaks);
    let sum = backtap.iter().sum::<u64>();
    assert!(path.iter().sum::<u64>() * 2 < sum, "{path:?} {backtap:?}");
    assert!(hop.iter().max() < Some(&sum), "{hop:?} {backtap:?}");
    // Both react only after the allowed cells have filled the queues.
    assert!(hop.iter().sum::<u64>() * 2 > sum, "{hop:?} {backtap:?}");
}
