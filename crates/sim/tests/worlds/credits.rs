//! G-20 to G-25: N23 in whole networks.

use crate::util::{Lab, assert_conserved, cells_at, complete, node, queue_of};
use penstock_record::Position;
use penstock_sim::Outcome;

const END: u64 = 40_000_000_000;
const HOPS: [(Position, &str); 3] =
    [(Position::Exit, "exit"), (Position::Middle, "middle"), (Position::Guard, "entry")];

/// Credits at every hop, with the windows `ends`.
fn credits(n2: u32, n3: u32, ends: &str) -> Lab {
    credits_of(&["relay", "client"], n2, n3, ends)
}

fn credits_of(nodes: &[&str], n2: u32, n3: u32, ends: &str) -> Lab {
    let hop_control = format!("{{ kind = 'n23', n2 = {n2}, n3 = {n3} }}");
    let edge_control = format!("{{ kind = 'windows', ends = '{ends}' }}");
    nodes.iter().fold(Lab::path(), |lab, nodes| {
        lab.set(&format!("{nodes}.hop_control"), &hop_control)
            .set(&format!("{nodes}.edge_control"), &edge_control)
    })
}

fn longest_queue(outcome: &Outcome, workload: &str, hop: Position) -> i64 {
    let cells = cells_at(outcome, workload, hop);
    queue_of(cells.iter().filter_map(|row| Some((row.queued_ns?, row.outbuf_ns))), END).0
}

#[test]
fn no_queue_of_a_circuit_is_longer_than_n2_and_n3() {
    for (n2, n3) in [(20, 70), (10, 100), (10, 500), (1, 0)] {
        let outcome = credits(n2, n3, "ignored").run(1);
        assert_conserved(&outcome);
        let most = i64::from(n2 + n3);
        for (hop, name) in HOPS {
            for workload in ["web", "bulk"] {
                let longest = longest_queue(&outcome, workload, hop);
                assert!(longest <= most, "{n2}/{n3}: {longest} cells of {workload} at the {name}");
            }
            let longest = node(&outcome, name).counters.longest_queue;
            assert!(longest <= most as u64, "{n2}/{n3}: {longest} at the {name}");
        }
        if (n2, n3) == (20, 70) {
            assert!(
                longest_queue(&outcome, "bulk", Position::Exit) == most,
                "the bottleneck fills the queue"
            );
        }
        assert!(complete(&outcome, "web").len() > 5, "{n2}/{n3}");
        assert_eq!(complete(&outcome, "bulk").is_empty(), n2 == 1, "{n2}/{n3}");
    }
}

/// G-22: in a network, every N2 cells cause one credit. The overhead is 10 % and 5 %, as in the paper (section 5.1).
#[test]
fn every_n2_cells_cause_one_credit() {
    for (n2, path) in [(10, "link"), (20, "link"), (20, "circuit")] {
        let outcome = credits(n2, 100, "suppressed")
            .set("relay.hop_control.credit_path", path)
            .set("client.hop_control.credit_path", path)
            .run(1);
        assert_conserved(&outcome);
        // Only the slow middle grants credits to the exit, and the client to the entry.
        let delivered = node(&outcome, "bulk").counters.data_delivered;
        let expected = delivered as f64 / f64::from(n2);
        let credits = node(&outcome, "bulk").counters.credits as f64;
        assert!((credits / expected - 1.0).abs() < 0.02, "{credits} credits for {delivered} cells");
        assert_eq!(node(&outcome, "bulk").counters.sendmes, 0);
    }
}

#[test]
fn a_consensus_can_turn_credits_off() {
    let with = |lab: Lab| format!("{:?}", lab.run(1).tables.transfers);
    let off = with(credits(20, 70, "ignored").set("network.consensus_n23", "false"));
    assert_eq!(off, with(Lab::path()));
    assert_ne!(off, with(credits(20, 70, "ignored")));
}

/// DefenestraTor section 5.1: one SENDME for 100 cells of a circuit and one for 50 of a stream, 3 % in total.
#[test]
fn stock_tor_sends_three_sendmes_per_hundred_cells() {
    let outcome = Lab::only_bulk().run(1);
    let counters = node(&outcome, "bulk").counters;
    let share = counters.all_sendmes() as f64 / counters.data_delivered as f64;
    assert!((0.027..=0.03).contains(&share), "{share}");
    let ignored = credits(10, 500, "ignored").run(1);
    let counters = node(&ignored, "bulk").counters;
    let share = counters.all_sendmes() as f64 / counters.data_delivered as f64;
    assert!((0.027..=0.03).contains(&share), "ignored SENDMEs cost as much: {share}");
}

/// Circuits without credit get no turn. The bound holds and downloads continue under every policy.
#[test]
fn credits_work_with_every_policy_and_scheduler() {
    for policy in ["'round-robin'", "'ewma'", "{ kind = 'ewma', form = 'tick' }"] {
        for scheduler in ["'vanilla'", "'global'", "'kist'", "'kist-deployed'", "'kist-lite'"] {
            let outcome = credits(20, 70, "ignored")
                .set("relay.circuit_policy", policy)
                .set("relay.scheduler", scheduler)
                .set("run.duration", "20 s")
                .run(1);
            assert_conserved(&outcome);
            for (hop, name) in HOPS {
                let longest = longest_queue(&outcome, "bulk", hop);
                assert!(longest <= 90, "{policy}, {scheduler}: {longest} cells at the {name}");
            }
            assert!(complete(&outcome, "web").len() > 5 && !complete(&outcome, "bulk").is_empty());
        }
    }
}

/// Before a slow link, cells wait in output buffers, and N3 falls.
#[test]
fn an_adaptive_n3_shortens_the_queue_before_a_bottleneck() {
    let queue_at_exit = |adapt: &str| {
        let lab = credits(10, 500, "ignored").set("relay.hop_control.adapt", adapt);
        let outcome = lab.run(1);
        assert_conserved(&outcome);
        assert!(complete(&outcome, "bulk").len() > 3 && complete(&outcome, "web").len() > 5, "{adapt}");
        let here = outcome.tables.circuits.iter().filter(|row| row.hop == Position::Exit && row.t_s > 10.0);
        let queues: Vec<u64> =
            here.filter(|row| &*row.workload == "bulk").map(|row| row.queue_cells).collect();
        queues.iter().sum::<u64>() as f64 / queues.len() as f64
    };
    let constant = queue_at_exit("'none'");
    assert!(constant > 200.0, "{constant} cells");
    // A hundred cells may wait: half of 400, minus the waiting ones.
    for adapt in ["{ law = 'exponential' }", "{ law = 'kung94', pool = 400 }"] {
        let queue = queue_at_exit(adapt);
        assert!(queue < 120.0, "{adapt}: {queue} cells instead of {constant}");
    }
}

/// Old and new relays on one path: downloads are complete with either kind in the middle.
#[test]
fn partly_upgraded_networks_complete_downloads() {
    for old in ["relays.entry", "relays.middle", "relays.exit", "client"] {
        let everyone = ["relays.entry", "relays.middle", "relays.exit", "client"];
        let new: Vec<_> = everyone.into_iter().filter(|name| *name != old).collect();
        let outcome = credits_of(&new, 20, 70, "ignored").run(1);
        assert_conserved(&outcome);
        assert!(complete(&outcome, "web").len() > 5 && complete(&outcome, "bulk").len() > 3, "{old}");
        // Windows apply again: at most 1000 cells.
        let at_exit = outcome.tables.circuits.iter().filter(|row| row.hop == Position::Exit);
        let windows: Vec<_> = at_exit.filter_map(|row| row.window_cells).collect();
        assert!(!windows.is_empty() && windows.iter().all(|window| *window == 1000), "{old}");
    }
    let outcome = credits(20, 70, "ignored").run(1);
    assert!(
        outcome.tables.circuits.iter().all(|row| row.window_cells.is_none()),
        "no window limits the ends"
    );
}
