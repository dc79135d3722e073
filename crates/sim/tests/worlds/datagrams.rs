//! G-01, G-02, G-50, G-54: cells over datagrams in whole networks.

use crate::util::{Lab, assert_conserved, cells_at, complete, node};
use penstock_record::Position;
use penstock_sim::{Control, Outcome};

/// All nodes use datagrams with this hop control, without end-to-end windows.
fn over_datagrams(hop_control: &str) -> Lab {
    ["relay", "client"].iter().fold(Lab::path(), |lab, nodes| {
        lab.set(&format!("{nodes}.transport"), "datagram")
            .set(&format!("{nodes}.hop_control"), hop_control)
            .set(&format!("{nodes}.edge_control"), "{ kind = 'windows', ends = 'suppressed' }")
            .set(
                &format!("{nodes}.scheduler"),
                "{ kind = 'vanilla', outbuf_low = '1 KiB', outbuf_high = '1 KiB' }",
            )
    })
}

const CONTROLS: [&str; 5] = [
    "{ kind = 'backtap' }",
    "{ kind = 'backtap', alpha = 2, beta = 4, slow_start = 2 }",
    "{ kind = 'marut' }",
    "{ kind = 'marut', mode = 'e2e' }",
    "{ kind = 'n23' }",
];

/// A network that loses, reorders and duplicates packets.
fn bad(lab: Lab, loss: &str) -> Lab {
    lab.set("network.loss", loss).set("network.reorder", "0.05").set("network.duplicate", "0.02")
}

fn counted(outcome: &Outcome, count: fn(&penstock_sim::DatagramCounters) -> u64) -> u64 {
    outcome.nodes.iter().map(|node| count(&node.datagrams)).sum()
}

#[test]
fn every_cell_is_accounted_for_over_any_network() {
    for control in CONTROLS {
        for loss in ["0.0", "0.02", "0.1"] {
            let outcome = bad(over_datagrams(control), loss).set("run.duration", "80 s").run(1);
            assert_conserved(&outcome);
            assert!(complete(&outcome, "web").len() >= 3, "{control} {loss}");
            assert!(counted(&outcome, |of| of.again) > 0, "{control} {loss}");
            assert!(
                outcome.tables.transfers.iter().all(|row| row.outcome != penstock_record::Outcome::Failed)
            );
        }
    }
}

#[test]
fn every_packaged_cell_is_delivered_once_and_in_order() {
    for control in CONTROLS {
        for loss in ["0.0", "0.05"] {
            let lab = bad(over_datagrams(control), loss)
                .set("workloads.web.start", "10 min")
                .set("run.duration", "9 min")
                .set("run.stop", "{ workload = 'bulk', downloads = 1 }");
            let outcome = lab.run(1);
            assert_eq!(complete(&outcome, "bulk").len(), 1, "{control} {loss}");
            let packaged = node(&outcome, "exit").counters.data_packaged;
            assert_eq!(packaged, node(&outcome, "bulk").counters.data_delivered);
            for hop in [Position::Exit, Position::Middle, Position::Guard, Position::Client] {
                let cells = cells_at(&outcome, "bulk", hop);
                assert_eq!(cells.len() as u64, packaged, "{control} {hop:?}");
                assert!(cells.iter().enumerate().all(|(number, row)| row.cell == number as u64));
                if hop != Position::Client {
                    assert!(
                        cells.is_sorted_by_key(|row| row.outbuf_ns.expect("the cell left the output buffer")),
                        "{hop:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn without_loss_there_are_no_retransmissions_and_queues_stay_short() {
    for control in &CONTROLS[..4] {
        let outcome = over_datagrams(control).set("network.link_queue", "1 MB").run(1);
        assert_conserved(&outcome);
        assert_eq!(counted(&outcome, |of| of.again), 0, "{control}");
        assert!(complete(&outcome, "bulk").len() >= 2, "{control}: {}", complete(&outcome, "bulk").len());
        // Stock windows allow 500 cells before the slow middle.
        for relay in ["entry", "middle", "exit"] {
            let longest = node(&outcome, relay).counters.longest_queue;
            assert!(longest < 150, "{control}: {longest} cells at the {relay}");
        }
    }
}

#[test]
fn closed_circuits_leave_no_state() {
    let lab = bad(over_datagrams("{ kind = 'backtap' }"), "0.05")
        .set("workloads.web.fresh_circuit", "true")
        .set("workloads.bulk.fresh_circuit", "true")
        .set("workloads.bulk.timeout", "3 s");
    let outcome = lab.run(2);
    assert_conserved(&outcome);
    for node in &outcome.nodes {
        // Two clients and the next relay; the circuits of both, and closing circuits.
        assert!(node.population[0] <= 3 && node.population[1] <= 4, "{node:?}");
    }
    assert!(complete(&outcome, "web").len() > 5);
}

/// Look-ahead and trains are optimisations: they change no time of datagrams.
#[test]
fn look_ahead_does_not_change_datagram_runs() {
    let lab = bad(over_datagrams("{ kind = 'marut' }"), "0.02").set("run.duration", "10 s");
    let document = lab.document();
    let scenario = document.scenario("stock").expect("the variant is in the text");
    let one = penstock_sim::run(scenario, 1, &Control::one_by_one()).expect("the run is not cancelled");
    let ahead = lab.run(1);
    assert_eq!(format!("{:?}", one.tables), format!("{:?}", ahead.tables));
    assert_eq!(one.nodes, ahead.nodes);
}

/// A node without datagrams gets a stream, and a mixed path works in both directions.
#[test]
fn a_relay_without_datagrams_is_reached_by_tcp() {
    let lab = over_datagrams("{ kind = 'backtap' }")
        .set("relays.middle.transport", "tcp")
        .set("relays.middle.hop_control", "{ kind = 'none' }");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    let sent = |name: &str| node(&outcome, name).datagrams.sent;
    assert!(sent("entry") > 0 && sent("bulk") > 0);
    assert_eq!((sent("middle"), sent("exit")), (0, 0));
    assert!(complete(&outcome, "bulk").len() >= 2);
}

/// The bytes per second of an endless download, for each round trip between the client and its guard.
fn rates_over(client_links: &[&str], lab: &Lab) -> Vec<f64> {
    let rate = |rtt: &&str| {
        let pair = format!("[{{ between = ['bulk', 'entry'], rtt = '{rtt}' }}]");
        let outcome = lab.clone().set("network.pairs", &pair).run(1);
        assert_conserved(&outcome);
        outcome.tables.transfers[0].bytes_received as f64 / 10.0
    };
    client_links.iter().map(rate).collect()
}

/// A message that waits for a second one must not look like a queue: the hold exceeds a short round trip.
#[test]
fn a_short_client_link_does_not_slow_a_download() {
    let rtts = ["2 ms", "0.1 ms", "0.5 ms", "1 ms", "5 ms", "20 ms"];
    for control in ["{ kind = 'backtap' }", "{ kind = 'marut' }"] {
        // With a bandwidth rate, `cap` limits the windows.
        for (bandwidth, middle) in [("none", "1 MiB/s"), ("2 MiB/s", "3 MiB/s")] {
            let lab = ["relay", "client"].iter().fold(Lab::only_bulk(), |lab, nodes| {
                lab.set(&format!("{nodes}.transport"), "datagram")
                    .set(&format!("{nodes}.hop_control"), control)
                    .set(&format!("{nodes}.refill"), "10 ms")
                    .set(&format!("{nodes}.bandwidth_rate"), bandwidth)
                    .set(&format!("{nodes}.edge_control"), "{ kind = 'windows', ends = 'suppressed' }")
                    .set(
                        &format!("{nodes}.scheduler"),
                        "{ kind = 'vanilla', outbuf_low = '1 KiB', outbuf_high = '1 KiB' }",
                    )
            });
            let lab = lab
                .set("relays.middle.link", middle)
                .set("network.rtt", "20 ms")
                .set("network.link_queue", "1 MB")
                .set("run.duration", "10 s")
                .set("trace.cells", "0");
            let rates = rates_over(&rtts, &lab);
            for (rtt, rate) in rtts.iter().zip(&rates) {
                let ratio = rate / rates[0];
                assert!(
                    (0.9..1.1).contains(&ratio),
                    "{control}, {bandwidth}, {rtt}: {ratio:.2} of {}",
                    rates[0]
                );
            }
        }
    }
}

/// On a hop of 2 ms, a message waits for an eighth of the round trip, not for the `coalesce_delay` of 20 ms.
#[test]
fn the_cap_counts_the_hold_of_a_short_hop() {
    let lab = ["relay", "client"].iter().fold(Lab::only_bulk(), |lab, nodes| {
        lab.set(&format!("{nodes}.transport"), "datagram")
            .set(&format!("{nodes}.hop_control"), "{ kind = 'backtap' }")
            .set(&format!("{nodes}.coalesce_delay"), "20 ms")
            .set(&format!("{nodes}.bandwidth_rate"), "4 MiB/s")
            .set(&format!("{nodes}.edge_control"), "{ kind = 'windows', ends = 'suppressed' }")
    });
    let lab = lab
        .set("network.pairs", "[{ between = ['bulk', 'entry'], rtt = '2 ms' }]")
        .set("relays.middle.link", "1 MiB/s")
        .set("run.duration", "10 s")
        .set("trace.cells", "0");
    let outcome = lab.run(1);
    let guard = outcome.tables.circuits.iter().filter(|row| row.hop == Position::Guard);
    let most = guard.filter_map(|row| row.window_cells).max().expect("BackTap has a window");
    // 4 MiB/s carry 18 cells in 2.25 ms. The round trip includes the transmission of a datagram on two links.
    assert!((18..30).contains(&most), "{most} cells");
}

/// nstor's relays take every datagram at once and only limit writes, so no cell waits in a socket.
#[test]
fn ungated_reads_leave_no_cell_in_the_socket() {
    let run = |gated: &str| {
        let lab = over_datagrams("{ kind = 'backtap' }")
            .set("relays.middle.link", "10 MiB/s")
            .set("relays.middle.bandwidth_rate", "100 KiB/s")
            .set("relays.middle.bandwidth_burst", "100 KiB")
            .set("relays.middle.datagram_read_limit", gated);
        let outcome = lab.run(1);
        assert_conserved(&outcome);
        let cells = cells_at(&outcome, "bulk", Position::Middle);
        let waits: Vec<u64> = cells.iter().filter_map(|row| Some(row.read_ns? - row.nic_in_ns?)).collect();
        assert!(waits.len() > 1000, "{} cells", waits.len());
        (waits.iter().max().copied().unwrap_or(0), node(&outcome, "middle").counters.written_bytes.get())
    };
    let (gated, written) = run("true");
    let (free, written_freely) = run("false");
    assert!(gated > 100_000_000, "{gated} ns");
    assert_eq!(free, 0);
    // The write bucket still limits the relay.
    assert!(written_freely.abs_diff(written) * 5 < written, "{written_freely} and {written} B");
}
