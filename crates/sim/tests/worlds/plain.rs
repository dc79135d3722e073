//! Clients without Tor.

use crate::util::{Lab, assert_conserved, complete};
use penstock_record::{CircuitRow, Outcome as Ending, Position};

/// Two nodes, 10 MiB/s, 10 ms.
const PLAIN: &str = r#"
[scenario]
title = "plain TCP"

[run]
duration = "60 s"

[trace]
workloads = ["file"]
interval = "10 ms"
cells = 1

[network]
rtt = "10 ms"
link_queue = "105 kB"

[servers.server]
link = "10 MiB/s"

[workloads.file]
size = "10 MiB"
pause = "200 ms"

[clients.client]
link = "10 MiB/s"
path = []
workload = "file"

[[variants]]
name = "stock"
"#;

#[test]
fn a_client_without_tor_downloads_in_a_closed_loop() {
    let outcome = Lab::of(PLAIN).run(1);
    assert_conserved(&outcome);
    let rows = complete(&outcome, "client");
    // 10 MiB of payload take 1.04 s on the wire; then 200 ms of pause.
    assert!((40..=50).contains(&rows.len()), "{}", rows.len());
    for row in &rows {
        assert_eq!((row.circuit, row.stream), (None, None), "{row:?}");
        let (connect, first, last) = (row.connect_s.unwrap(), row.ttfb_s.unwrap(), row.ttlb_s.unwrap());
        // SYN and SYN-ACK take one round trip, request and response another.
        assert!((0.010..0.0105).contains(&connect), "{row:?}");
        assert!((0.020..0.0215).contains(&first), "{row:?}");
        assert!((1.0..1.4).contains(&last), "{row:?}");
    }
    for pair in rows.windows(2) {
        assert!((pair[1].start_s - pair[0].start_s - pair[0].ttlb_s.unwrap() - 0.2).abs() < 1e-6, "{pair:?}");
    }
    let tables = &outcome.tables;
    assert!(tables.paths.is_empty() && tables.cells.is_empty() && tables.relays.is_empty());
    assert!(outcome.network.connections <= 1, "{:?}", outcome.network);
}

/// Every byte arrives at any loss, and more loss never increases the rate.
#[test]
fn loss_slows_a_plain_download_down() {
    let time = |loss: &str| {
        let lab = Lab::of(PLAIN).set("network.loss", loss).set("run.duration", "1 h");
        let outcome = lab.set("run.stop", "{ workload = 'file', downloads = 4 }").run(1);
        assert_conserved(&outcome);
        complete(&outcome, "client").iter().map(|row| row.ttlb_s.unwrap()).sum::<f64>()
    };
    let times = ["0.0", "0.01", "0.03", "0.1"].map(time);
    assert!(times.is_sorted_by(|less, more| more > less), "{times:?}");
}

#[test]
fn a_plain_client_gives_up_after_its_timeout_and_continues() {
    let lab = Lab::of(PLAIN).set("workloads.file.timeout", "500 ms").set("run.duration", "20 s");
    let outcome = lab.run(1);
    let rows = &outcome.tables.transfers;
    assert!(
        rows.len() > 20 && rows.iter().rev().skip(1).all(|row| row.outcome == Ending::Timeout),
        "{rows:?}"
    );
    assert!(rows.iter().rev().skip(1).all(|row| 0 < row.bytes_received && row.bytes_received < row.bytes));
    assert!(outcome.network.connections <= 2, "{:?}", outcome.network);
}

/// All packets are lost: the connection breaks, the download fails, and the next one begins.
#[test]
fn a_broken_plain_connection_is_a_failed_download() {
    let lab = Lab::of(PLAIN).set("network.loss", "0.999999").set("run.duration", "200 s");
    let rows = lab.run(1).tables.transfers;
    assert!(rows.len() >= 3, "{rows:?}");
    assert!(rows[..rows.len() - 1].iter().all(|row| row.outcome == Ending::Failed), "{rows:?}");
    assert!(rows.iter().all(|row| row.connect_s.is_none() && row.ttfb_s.is_none()));
}

fn windows(rows: &[CircuitRow]) -> Vec<u64> {
    rows.iter().filter_map(|row| row.cwnd_segments).collect()
}

/// KIST, figure 2b: slow start, then drops to 0.7 (CUBIC) or half (Reno), with growth between them.
#[test]
fn the_servers_congestion_window_is_a_sawtooth() {
    for (congestion, factor) in [("cubic", 0.7), ("reno", 0.5)] {
        // The server's link is faster, so packets wait and are dropped before the client's link.
        let lab = Lab::of(PLAIN).set("tcp.congestion", congestion).set("servers.server.link", "100 MiB/s");
        let lab = lab.set("clients.client.link", "2 MiB/s").set("network.link_queue", "42 kB");
        let lab = lab.set("workloads.file.size", "20 MiB");
        let rows = lab.set("run.stop", "{ workload = 'file', downloads = 1 }").run(1).tables.circuits;
        assert!(rows.iter().all(|row| row.hop == Position::Server && row.circuit.is_none()));
        assert!(rows.iter().all(|row| &*row.client == "client" && &*row.workload == "file"));
        // Before the first loss the threshold is infinite.
        let slow_start =
            rows.iter().position(|row| row.ssthresh_segments.is_some()).expect("the run has a loss");
        assert!(slow_start > 0 && windows(&rows[..slow_start]).is_sorted(), "{congestion}");
        let srtt = |row: &CircuitRow| row.srtt_s.is_none_or(|srtt| (0.01..0.04).contains(&srtt));
        assert!(rows.iter().all(srtt));
        // Afterwards it rises until the queue is full, and drops to that fraction.
        let steady = &rows[slow_start + 200..];
        // The next download begins on its own connection before the run ends.
        let whole = steady.iter().take_while(|row| row.ssthresh_segments.is_some()).count();
        let steady = &steady[..whole];
        let most = *windows(steady).iter().max().unwrap() as f64;
        let (mut falls, mut high) = (0, false);
        for row in steady {
            let [window, threshold] =
                [row.cwnd_segments, row.ssthresh_segments].map(|segments| segments.unwrap() as f64);
            assert!((threshold / most - factor).abs() < 0.06, "{congestion}: {threshold} of {most}");
            falls += u32::from(high && window <= 1.1 * threshold);
            high = window >= 0.9 * most || (high && window > 1.1 * threshold);
        }
        assert!(falls >= 3, "{congestion}: {falls} falls");
    }
}

/// A plain client has its own rows in the table and does not affect Tor clients.
#[test]
fn plain_clients_and_tor_clients_share_a_network() {
    let lab = Lab::path().with("[clients.plain]\nworkload = \"web\"\npath = []\n");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    assert!(complete(&outcome, "plain").len() > 10 && complete(&outcome, "web").len() > 3);
    let of_plain = |row: &&CircuitRow| &*row.client == "plain";
    assert!(outcome.tables.circuits.iter().filter(of_plain).all(|row| row.hop == Position::Server));
    // The hops of a Tor client: each relay sends over a channel, the client over none.
    for row in outcome.tables.circuits.iter().filter(|row| row.circuit.is_some()) {
        assert_eq!(row.cwnd_segments.is_some(), row.hop != Position::Client, "{row:?}");
    }
}
