//! H-07: KIST at a relay that measures the rate of its link.

use crate::util::{Lab, assert_conserved, node};
use penstock_record::{Position, RelayRow};

/// The link of the middle relay [B/s].
const LINK: f64 = 625_000.0;

/// Two clients download over separate sockets of a relay with a slow link. One of them can wait.
const SOCKETS: &str = include_str!("../../../../scenarios/kist/socket-sharing.toml");

/// The middle relay, after 15 s.
#[derive(Debug)]
struct Middle {
    /// The rate at which it writes, as a part of its link's rate.
    load: f64,
    /// The mean wait of a cell from the write until it leaves the network interface [ms].
    wait_ms: f64,
    /// The mean of the bytes in its send buffers, unacknowledged bytes included [KiB].
    queue_kib: f64,
    /// The bytes of the better client for each byte of the worse one, in the whole run.
    ratio: f64,
}

fn of_middle(limit: &str) -> Middle {
    let lab = Lab::of(SOCKETS)
        .set("run.duration", "60 s")
        .set("run.sample", "100 ms")
        // With the scenario's round trip of 110 ms, the better client's windows would limit it.
        .set("network.rtt", "80 ms")
        .set("relay.priority_factor", "10")
        // TCP small queues leave bytes in their sockets while the interface is full.
        .set("tcp.profile", "linux-6")
        .set("relays.middle.scheduler", &format!("{{ kind = 'kist', {limit} }}"));
    let outcome = lab.run_variant("link-kist", 1);
    assert_conserved(&outcome);
    let late = |row: &&RelayRow| &*row.relay == "middle" && row.t_s > 15.0;
    let rows: Vec<_> = outcome.tables.relays.iter().filter(late).collect();
    let mean =
        |of: fn(&RelayRow) -> u64| rows.iter().map(|row| of(row) as f64).sum::<f64>() / rows.len() as f64;
    let cells = outcome.tables.cells.iter();
    let waits: Vec<f64> = cells
        .filter(|cell| cell.hop == Position::Middle && cell.kernel_ns.is_some_and(|at| at > 15_000_000_000))
        .filter_map(|cell| cell.kernel_out_s())
        .collect();
    let [better, worse] =
        ["better", "worse"].map(|name| node(&outcome, name).counters.read_bytes.get() as f64);
    let middle = Middle {
        load: mean(|row| row.written_bytes) * 10.0 / LINK,
        wait_ms: waits.iter().sum::<f64>() / waits.len() as f64 * 1e3,
        queue_kib: mean(|row| row.kernel_out_bytes) / 1024.0,
        ratio: better / worse,
    };
    println!("{limit}: {middle:.2?}");
    middle
}

#[test]
fn a_relay_that_measures_its_link_writes_like_one_that_knows_it() {
    let off = of_middle("global_limit = 'off'");
    of_middle("global_limit = 'drained'");
    let known = of_middle("global_limit = 'rate', rate = '550 kB/s'");
    let measured = of_middle("global_limit = 'measured'");
    assert!(measured.load > 0.97 * off.load, "the link is fully used");
    assert!(measured.wait_ms < known.wait_ms + 12.5, "a quarter of an interval waits after each round");
    assert!(measured.queue_kib < off.queue_kib);
    // Only a limit on all sockets together gives the better circuit its priority.
    assert!(off.ratio < 1.3 && measured.ratio > 2.0);
}
