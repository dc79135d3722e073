//! Vegas in whole networks.

use crate::util::{Lab, assert_conserved, complete, node};
use penstock_record::Position;
use penstock_sim::Outcome;

fn with(lab: Lab, nodes: &[&str]) -> Lab {
    nodes.iter().fold(lab, |lab, node| lab.set(&format!("{node}.edge_control.kind"), "vegas"))
}

#[test]
fn vegas_loses_no_cell_and_is_deterministic() {
    for loss in ["0.0", "0.02"] {
        let lab = with(Lab::path(), &["client", "relay"]).set("network.loss", loss);
        let outcome = lab.run(1);
        assert_conserved(&outcome);
        assert!(complete(&outcome, "bulk").len() > 2);
        assert!(outcome.tables == lab.run(1).tables);
        let client = node(&outcome, "bulk").counters;
        let (acknowledged, delivered) = (client.sendmes * 31, client.data_delivered);
        assert!(
            acknowledged <= delivered && acknowledged * 10 > delivered * 9,
            "{acknowledged} of {delivered}"
        );
    }
}

#[test]
fn a_network_with_vegas_at_one_end_behaves_like_one_without() {
    let stock = Lab::path().run(1);
    for nodes in [&["client"][..], &["relay"], &["client", "relays.entry", "relays.middle"]] {
        assert!(with(Lab::path(), nodes).run(1).tables == stock.tables, "{nodes:?}");
    }
}

/// The middle carries 512 cells per second. The exit's minimum round trip is between 120 ms (the empty path) and 362 ms
/// (the first 124 cells). The bandwidth-delay product is therefore 61 to 185 cells. Another alpha to beta (186 to 248)
/// cells are in queues.
#[test]
fn the_window_converges_where_alpha_to_beta_cells_are_queued() {
    let lab = Lab::only_bulk().set("relay.send_buffer", "64 KiB");
    let stock = lab.run(1);
    let vegas = with(lab, &["client", "relay"]).run(1);
    let at_exit = vegas.tables.circuits.iter().filter(|row| row.hop == Position::Exit && row.t_s > 20.0);
    let windows: Vec<i64> = at_exit.filter_map(|row| row.window_cells).collect();
    let (least, most) = (windows.iter().min(), windows.iter().max());
    assert!(windows.len() > 900 && least >= Some(&247) && most <= Some(&433), "{least:?} to {most:?}");
    let delivered = |outcome: &Outcome| node(outcome, "bulk").counters.data_delivered;
    assert!(delivered(&vegas) * 100 > delivered(&stock) * 95, "{} {}", delivered(&vegas), delivered(&stock));
}
