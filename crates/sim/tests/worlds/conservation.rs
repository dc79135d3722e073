//! G-01, G-02: no cell is lost, duplicated or reordered over a network with faults, and closed circuits leave no state.

use crate::util::{Lab, assert_conserved, cells_at, complete, node};
use penstock_record::{Outcome as Ending, Position};

#[test]
fn every_cell_is_accounted_for_at_any_time_and_loss() {
    for loss in ["0.0", "0.005", "0.02", "0.05"] {
        for duration in ["1300 ms", "7777 ms", "20 s"] {
            let lab = Lab::path().set("network.loss", loss).set("run.duration", duration);
            for variant in ["stock", "50KiB"] {
                assert_conserved(&lab.run_variant(variant, 1));
            }
        }
    }
}

#[test]
fn cells_remain_in_queues_when_a_run_is_cut_off() {
    // Small send buffers, or buffers that hold a whole window.
    let lab = Lab::path().set("workloads.bulk.size", "1 GiB").set("relay.send_buffer", "16 KiB");
    let outcome = lab.set("run.duration", "15 s").run(1);
    assert_conserved(&outcome);
    let held: u64 = outcome.nodes.iter().map(|node| node.held.get()).sum();
    assert!(held > 50 && outcome.network.cells.get() > 20, "{held} held, {:?}", outcome.network);
}

#[test]
fn every_packaged_cell_is_delivered_once_and_in_order() {
    for loss in ["0.0", "0.05"] {
        let lab = Lab::path()
            .set("network.loss", loss)
            .set("workloads.web.start", "10 min")
            .set("run.duration", "5 min")
            .set("run.stop", "{ workload = 'bulk', downloads = 2 }");
        let outcome = lab.run(1);
        assert_eq!(complete(&outcome, "bulk").len(), 2);
        let packaged = node(&outcome, "exit").counters.data_packaged;
        assert_eq!(packaged, node(&outcome, "bulk").counters.data_delivered);
        // At least the cells for these bytes. The exit packages all available bytes, not only whole cells.
        assert!(packaged >= 2 * (1u64 << 20).div_ceil(498), "{packaged}");
        for hop in [Position::Exit, Position::Middle, Position::Guard, Position::Client] {
            let cells = cells_at(&outcome, "bulk", hop);
            assert_eq!(cells.len() as u64, packaged, "{hop:?}");
            assert!(cells.iter().enumerate().all(|(number, row)| row.cell == number as u64));
            assert!(cells.is_sorted_by_key(|row| row.read_ns.expect("the cell was read")), "{hop:?}");
            if hop != Position::Client {
                assert!(
                    cells.is_sorted_by_key(|row| row.outbuf_ns.expect("the cell left the output buffer")),
                    "{hop:?}"
                );
            }
        }
    }
}

#[test]
fn a_timed_out_download_counts_its_dropped_cells() {
    let lab = Lab::path().set("workloads.bulk.timeout", "2 s");
    let fresh = lab.clone().set("workloads.bulk.fresh_circuit", "true");
    for (lab, loss) in [(&lab, "0.0"), (&fresh, "0.0"), (&lab, "0.03"), (&fresh, "0.03")] {
        let outcome = lab.clone().set("network.loss", loss).run(4);
        assert_conserved(&outcome);
        let timeouts = outcome.tables.transfers.iter().filter(|row| row.outcome == Ending::Timeout);
        assert!(timeouts.count() > 5);
    }
}

/// The numbers of circuits, streams, connections and packets that remain after this number of downloads.
fn left_after(lab: &Lab, downloads: u32) -> ([usize; 3], usize, usize) {
    let stop = format!("{{ workload = 'web', downloads = {downloads} }}");
    let outcome = lab.clone().set("run.duration", "10 h").set("run.stop", &stop).run(1);
    assert_conserved(&outcome);
    let mut most = [0; 3];
    for node in &outcome.nodes {
        for (most, here) in most.iter_mut().zip(node.population) {
            *most = here.max(*most);
        }
    }
    (most, outcome.network.connections, outcome.network.packets)
}

#[test]
fn state_does_not_grow_over_many_downloads() {
    let lab = Lab::path()
        .set("workloads.bulk.start", "20 h")
        .set("workloads.web.pause", "1 s")
        .set("trace.cells", "0");
    let fresh = lab.clone().set("workloads.web.fresh_circuit", "true");
    let impatient = fresh
        .clone()
        .set("workloads.web.timeout", "700 ms")
        .set("workloads.web.size", "uniform(1 KiB, 200 KiB)");
    for lab in [lab, fresh, impatient] {
        let (few, many) = (left_after(&lab, 10), left_after(&lab, 300));
        for (most, connections, _) in [few, many] {
            assert!(most[0] <= 2 && most[1] <= 2 && most[2] <= 2, "{most:?}");
            assert!(connections <= 6, "{connections}");
        }
        assert!(many.2 <= few.2 + 60, "{few:?} {many:?}");
    }
}
