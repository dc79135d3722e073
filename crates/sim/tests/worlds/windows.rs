//! G-10 to G-14: fixed windows in whole networks.

use crate::util::{Lab, assert_conserved, cells_at, node, queue_of};
use penstock_record::{CellRow, Position};
use penstock_sim::Outcome;

const END: u64 = 40_000_000_000;

fn longest_queue(outcome: &Outcome, workload: &str, hop: Position) -> i64 {
    let cells = cells_at(outcome, workload, hop);
    queue_of(cells.iter().filter_map(|row| Some((row.queued_ns?, row.outbuf_ns))), END).0
}

fn unacknowledged(outcome: &Outcome, workload: &str) -> i64 {
    let packaged = cells_at(outcome, workload, Position::Exit);
    let delivered = cells_at(outcome, workload, Position::Client);
    let delivered_at = |k: usize| delivered.get(k).and_then(|row: &CellRow| row.read_ns);
    let spans = packaged.iter().enumerate().filter_map(|(k, row)| Some((row.read_ns?, delivered_at(k))));
    queue_of(spans, END).0
}

#[test]
fn the_exit_stops_reading_at_its_watermark_or_window() {
    let lab = Lab::path().set("trace.interval", "1 ms").set("run.duration", "20 s");
    for (variant, window) in [("stock", 1000), ("50KiB", 100)] {
        let outcome = lab.run_variant(variant, 1);
        for workload in ["web", "bulk"] {
            let longest = longest_queue(&outcome, workload, Position::Exit);
            assert!(longest <= 257.min(window), "{variant} {workload}: {longest} cells");
            let at_exit = outcome.tables.circuits.iter().filter(|row| row.hop == Position::Exit);
            let sampled = at_exit.filter(|row| &*row.workload == workload).map(|row| row.queue_cells).max();
            // A CONNECTED or END cell of the stream may wait as well.
            assert!(sampled.is_some_and(|most| most <= 257.min(window as u64 + 1)), "{variant}: {sampled:?}");
            assert!(unacknowledged(&outcome, workload) <= window, "{variant} {workload}");
        }
    }
}

#[test]
fn the_bottleneck_fills_the_exits_queue_and_small_windows_keep_it_short() {
    let outcome = Lab::path().run(1);
    assert!(longest_queue(&outcome, "bulk", Position::Exit) >= 250);
    assert!(unacknowledged(&outcome, "bulk") >= 400);
    assert_eq!(unacknowledged(&Lab::path().run_variant("50KiB", 1), "bulk"), 100);
}

#[test]
fn the_queue_of_a_middle_is_never_longer_than_the_circuit_window() {
    let lab = Lab::path().set("relays.middle.link", "10 MiB/s").set("relays.entry.link", "64 KiB/s");
    // With several streams the circuit window applies; a single stream stops at its own window.
    for (variant, window) in [("stock", 500), ("50KiB", 100)] {
        for buffer in ["16 KiB", "auto"] {
            let outcome = lab.clone().set("relay.send_buffer", buffer).run_variant(variant, 1);
            let longest = longest_queue(&outcome, "bulk", Position::Middle);
            assert!(longest <= window, "{variant}: {longest} cells");
            assert!(variant == "50KiB" || longest > 100, "{variant}, {buffer}: {longest} cells");
        }
    }
}

/// G-12: between any two deliveries, a window limits the rate to one window per round trip.
#[test]
fn a_window_limits_the_rate_to_itself_per_round_trip() {
    for rtt_ms in [10u64, 40, 150] {
        for (window, stream) in [(100u64, 500u64), (1000, 200), (1000, 500)] {
            let outcome = Lab::only_bulk()
                // The circuit's window is the subject, so TCP's window must not be the limit.
                .set("tcp.hystart", "false")
                .set("tcp.nodelay", "true")
                .set("run.duration", "8 s")
                .set("network.rtt", &format!("{rtt_ms} ms"))
                .set("relays.middle.link", "2 MiB/s")
                .set("relay.edge_control.circuit_window", &window.to_string())
                .set("relay.edge_control.stream_window", &stream.to_string())
                .run(1);
            let window = window.min(stream);
            let delivered: Vec<u64> =
                cells_at(&outcome, "bulk", Position::Client).iter().filter_map(|row| row.read_ns).collect();
            assert!(delivered.len() > 500, "{} cells", delivered.len());
            // Windows apply between client and exit: three links.
            let rtt_ns = 3 * rtt_ms * 1_000_000;
            for (first, from) in delivered.iter().enumerate().step_by(13) {
                for (last, to) in delivered.iter().enumerate().skip(first).step_by(17) {
                    let most = window * (to - from) / rtt_ns + window;
                    assert!((last - first) as u64 <= most, "{window} cells, {rtt_ms} ms: {}", last - first);
                }
            }
            // The rate is near the limit, if each round trip also includes the wait for the cells of a SENDME.
            let span = (delivered[delivered.len() - 1] - delivered[0]) as f64 / 1e9;
            let rate = delivered.len() as f64 / span;
            let increment = if window == 100 { 100.0 } else { 50.0 };
            let of_link = 0.95 * 2_097_152.0 / 512.0;
            let expected = (window as f64 / (rtt_ns as f64 / 1e9 + increment / of_link)).min(of_link);
            println!("window {window}, rtt {rtt_ms} ms: {rate:.0} of about {expected:.0} cells/s");
            // A connection that idles for longer than its RTO shrinks its window and needs another round trip.
            assert!(rate >= expected * 0.6 && rate <= expected * 1.1, "{rate}, not {expected}");
        }
    }
}

/// G-11: a client sends one SENDME per hundred cells.
#[test]
fn a_client_sends_a_sendme_per_hundred_cells() {
    for loss in ["0.0", "0.02"] {
        let outcome = Lab::path().set("network.loss", loss).run(2);
        for client in ["web", "bulk"] {
            let counters = node(&outcome, client).counters;
            assert_eq!(counters.sendmes, counters.data_delivered / 100, "{client}");
        }
    }
    let outcome = Lab::path().set("client.edge_control.sendme_bug_101", "true").run(2);
    for client in ["web", "bulk"] {
        let counters = node(&outcome, client).counters;
        assert_eq!(counters.sendmes, (counters.data_delivered - 1) / 100, "{client}");
    }
}

/// The samples of a circuit count the SENDMEs that arrived at its two ends, and nothing at the relays between.
#[test]
fn samples_count_the_sendmes_that_arrive() {
    let lab = Lab::only_bulk().set("run.duration", "20 s").set("trace.interval", "100 ms");
    for kind in ["windows", "vegas"] {
        let both = lab.clone().set("relay.edge_control.kind", kind).set("client.edge_control.kind", kind);
        let outcome = both.run(1);
        let at = |hop| outcome.tables.circuits.iter().filter(move |row| row.hop == hop);
        assert!(at(Position::Guard).chain(at(Position::Middle)).all(|row| row.sendmes.is_none()));
        let counts: Vec<u64> = at(Position::Exit).filter_map(|row| row.sendmes).collect();
        assert!(counts.is_sorted(), "{kind}: {counts:?}");
        // Those that the client has sent are on their way for less than a second.
        let sent = node(&outcome, "bulk").counters.all_sendmes();
        let arrived = *counts.last().expect("the exit was sampled");
        assert!(arrived > 20 && arrived <= sent && sent - arrived < 10, "{kind}: {arrived} of {sent}");
    }
}

/// G-11: with the 101 bug, a window of 100 cells stalls and a window of 101 cells does not.
#[test]
fn a_window_of_100_stalls_with_the_101_bug_and_one_of_101_does_not() {
    let lab = Lab::only_bulk().set("client.edge_control.sendme_bug_101", "true").set("run.duration", "20 s");
    let stalled = lab.clone().set("relay.edge_control.circuit_window", "100").run(1);
    assert_eq!(node(&stalled, "exit").counters.data_packaged, 100);
    assert_conserved(&stalled);
    let flows = lab.set("relay.edge_control.circuit_window", "101").run(1);
    assert!(node(&flows, "exit").counters.data_packaged > 2000);
}

/// G-32: while both circuits have cells, round robin alternates.
#[test]
fn round_robin_serves_backlogged_circuits_equally() {
    let lab = Lab::path().set("workloads.web.size", "1 GiB").set("workloads.bulk.size", "1 GiB");
    let outcome = lab.set("run.duration", "20 s").run(1);
    // Changes of each circuit's queue: time, circuit, plus or minus one.
    let mut steps = Vec::new();
    for (circuit, workload) in ["web", "bulk"].iter().enumerate() {
        for row in cells_at(&outcome, workload, Position::Exit) {
            steps.extend(row.queued_ns.map(|at| (at, circuit, 1i64)));
            steps.extend(row.outbuf_ns.map(|at| (at, circuit, -1)));
        }
    }
    steps.sort_unstable();
    let (mut queues, mut ahead, mut least, mut most, mut served) = ([0i64; 2], 0i64, 0i64, 0i64, 0);
    for of_one_instant in steps.chunk_by(|one, other| one.0 == other.0) {
        let count =
            |circuit, step| of_one_instant.iter().filter(|it| (it.1, it.2) == (circuit, step)).count() as i64;
        let (joined, left) = ([count(0, 1), count(1, 1)], [count(0, -1), count(1, -1)]);
        if queues[0] > left[0] && queues[1] > left[1] {
            ahead += left[0] - left[1];
            served += left[0] + left[1];
        } else {
            (ahead, least, most) = (0, 0, 0);
        }
        (least, most) = (ahead.min(least), ahead.max(most));
        assert!(most - least <= 1, "{least} to {most} cells ahead");
        queues = [queues[0] + joined[0] - left[0], queues[1] + joined[1] - left[1]];
    }
    println!("{served} cells served while both circuits had some");
    assert!(served > 1000, "{served} cells");
}
