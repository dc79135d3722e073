//! VF-09, VF-10: the last hop of a download becomes the bottleneck while it runs; who hears of it when.

use crate::util::Lab;
use penstock_record::{CircuitRow, Position};
use penstock_sim::Outcome;

/// The change happens then [s].
const ONSET: f64 = 45.0;
/// Samples are so far from each other [s].
const SAMPLE: f64 = 0.002;

/// A download without end through an exit of 800 KiB/s, until its client takes no more than 200 KiB/s. Relays of
/// 4 MiB/s let windows grow far beyond what the exit needs, those of 800 KiB/s do not.
fn step(hop_control: &str, others: &str) -> Outcome {
    let lab = ["relay", "client"].iter().fold(Lab::bulk_alone(), |lab, nodes| {
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
        .set("trace.cells", "20")
        .set("run.duration", "60 s")
        .run(1)
}

fn rows(outcome: &Outcome, hop: Position) -> Vec<&CircuitRow> {
    let of_hop = |row: &&CircuitRow| row.hop == hop && row.window_cells.is_some() && row.t_s >= ONSET;
    outcome.tables.circuits.iter().filter(of_hop).collect()
}

/// How long after the change the exit's window shrinks first [s].
fn first_decrease(outcome: &Outcome) -> f64 {
    let exit = rows(outcome, Position::Exit);
    let shrinks = exit.windows(2).find(|pair| pair[1].window_cells < pair[0].window_cells);
    shrinks.expect("the exit hears of it").as_ref()[1].t_s - ONSET
}

/// The round trip of the first cell that is made after the change: what it waits, and the way back without waits [s].
fn round_trip(outcome: &Outcome) -> f64 {
    let at = |hop: Position| outcome.tables.cells.iter().filter(move |row| row.hop == hop);
    let made = at(Position::Exit).find(|row| row.queued_ns.is_some_and(|at| at as f64 / 1e9 > ONSET));
    let made = made.expect("the download goes on");
    let arrived = at(Position::Client).find(|row| row.cell == made.cell).expect("it arrives");
    (arrived.parsed_ns.unwrap() - made.queued_ns.unwrap()) as f64 / 1e9 + 0.09
}

fn peak(outcome: &Outcome, hop: Position) -> u64 {
    rows(outcome, hop).iter().map(|row| row.queue_cells).max().unwrap()
}

const WIDE: &str = "4 MiB/s";
const TIGHT: &str = "800 KiB/s";

/// VF-10: a queue is never longer than the window before it, at any time.
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

#[test]
fn windows_beyond_what_is_used_keep_the_news_from_the_first_node() {
    let marut = step("{ kind = 'marut' }", WIDE);
    let [wide, tight] = [WIDE, TIGHT].map(|others| step("{ kind = 'backtap' }", others));
    for outcome in [&wide, &tight] {
        assert_below_windows(outcome);
    }
    // VF-09, in round trips as they are then: one for the word, and one in which the window may change once.
    assert!(first_decrease(&marut) <= 2.0 * round_trip(&marut) + SAMPLE);
    // Three hops' rounds later, of 60 ms at least.
    assert!(first_decrease(&wide) - first_decrease(&marut) >= 3.0 * 0.06);
    assert!(first_decrease(&tight) < first_decrease(&wide), "this is of windows, not of hops");
}

/// VF-10. In mode `hop` nothing but Marut's word bounds what is under way beyond the first hop.
#[test]
fn what_is_counted_to_the_end_waits_in_no_queue() {
    let [backtap, hop, path] = ["backtap' }", "marut' }", "marut', mode = 'e2e' }"]
        .map(|kind| step(&format!("{{ kind = '{kind}"), WIDE));
    let peaks = |outcome: &Outcome| [Position::Middle, Position::Guard].map(|hop| peak(outcome, hop));
    let [backtap, hop, path] = [&backtap, &hop, &path].map(peaks);
    assert!(path.iter().max() < Some(&backtap.iter().sum::<u64>()), "{path:?} {backtap:?}");
    assert!(hop.iter().sum::<u64>() > backtap.iter().sum(), "{hop:?} {backtap:?}");
}
