//! G-72, G-04, G-70: the stations of cells, and their times.

use crate::util::{Lab, assert_conserved, complete, queue_of};
use penstock_record::{CellRow, Position};
use std::collections::BTreeMap;

/// The stations that a hop has, in order.
fn stations(row: &CellRow) -> Vec<Option<u64>> {
    match row.hop {
        Position::Exit => {
            vec![row.nic_in_ns, row.read_ns, row.queued_ns, row.outbuf_ns, row.kernel_ns, row.nic_out_ns]
        }
        Position::Client => vec![row.nic_in_ns, row.read_ns, row.parsed_ns],
        Position::Server => panic!("cells do not reach servers: {row:?}"),
        Position::Guard | Position::Middle => vec![
            row.nic_in_ns,
            row.read_ns,
            row.parsed_ns,
            row.queued_ns,
            row.outbuf_ns,
            row.kernel_ns,
            row.nic_out_ns,
        ],
    }
}

#[test]
fn station_times_add_up_to_the_nanosecond() {
    for (loss, bucket) in [("0.0", "none"), ("0.03", "none"), ("0.0", "100 KiB/s")] {
        let lab = Lab::path()
            .set("network.loss", loss)
            .set("relays.entry.bandwidth_rate", bucket)
            .set("run.duration", "25 s");
        let outcome = lab.run(1);
        let mut cells: BTreeMap<(u64, u64), Vec<&CellRow>> = BTreeMap::new();
        for row in &outcome.tables.cells {
            cells.entry((row.circuit, row.cell)).or_default().push(row);
        }
        let mut complete = 0;
        for rows in cells.values() {
            let hops: Vec<_> = rows.iter().map(|row| row.hop).collect();
            let path = [Position::Exit, Position::Middle, Position::Guard, Position::Client];
            assert!(path.starts_with(&hops), "{hops:?}");
            let times: Vec<Vec<Option<u64>>> = rows.iter().map(|row| stations(row)).collect();
            let all: Vec<Option<u64>> = times.concat();
            // Missing stations are at the end.
            let there: Vec<u64> = all.iter().map_while(|at| *at).collect();
            assert_eq!(there.len(), all.iter().flatten().count(), "{rows:?}");
            assert!(there.is_sorted(), "{rows:?}");
            let mut wire = 0;
            for (hop, next) in times.iter().zip(times.iter().skip(1)) {
                let (out, into) = (hop[hop.len() - 1].unwrap(), next[0].unwrap());
                assert!(into >= out + 20_000_000, "a wire takes 20 ms at least: {rows:?}");
                wire += into - out;
            }
            if hops.len() < 4 || all.iter().any(Option::is_none) {
                continue;
            }
            complete += 1;
            let within: u64 = times.iter().map(|hop| hop[hop.len() - 1].unwrap() - hop[0].unwrap()).sum();
            assert_eq!(within + wire, there[there.len() - 1] - there[0]);
            let waits = |row: &CellRow| {
                let named = [row.kernel_in_s(), row.circuit_queue_s(), row.outbuf_s(), row.kernel_out_s()];
                named.into_iter().flatten().sum::<f64>()
            };
            // Parsing takes no time without a CPU model, so these waits are complete.
            let named: f64 = rows.iter().map(|row| waits(row)).sum();
            assert!((named - within as f64 / 1e9).abs() < 1e-6, "{named} of {within} ns: {rows:?}");
        }
        assert!(complete > 1000, "{complete} cells arrived");
    }
}

/// G-04: the time integral of each queue's length is the sum of its cells' waits, for sampled lengths and for recorded
/// times.
#[test]
fn queues_obey_littles_law() {
    let outcome = Lab::path().set("trace.interval", "1 ms").set("run.duration", "20 s").run(1);
    let end = 20_000_000_000;
    for workload in ["web", "bulk"] {
        let stamped =
            outcome.tables.cells.iter().filter(|row| &*row.workload == workload && row.hop == Position::Exit);
        let spans: Vec<_> = stamped.filter_map(|row| Some((row.queued_ns?, row.outbuf_ns))).collect();
        let waits: u128 = spans.iter().map(|(from, to)| u128::from(to.unwrap_or(end) - from)).sum();
        let (_, integral) = queue_of(spans.iter().copied(), end);
        assert_eq!(waits, integral);
        let sampled = outcome
            .tables
            .circuits
            .iter()
            .filter(|row| &*row.workload == workload && row.hop == Position::Exit);
        let sampled = sampled.map(|row| row.queue_cells).sum::<u64>() as f64 * 1e6;
        let ratio = sampled / waits as f64;
        println!(
            "{workload}: {:.1} cells on average; sampled / stamped {ratio:.4}",
            waits as f64 / end as f64
        );
        // Samples also count a few CONNECTED and END cells, which matter in a short queue.
        assert!((0.99..1.05).contains(&ratio), "{workload}: {ratio}");
    }
}

/// G-70: the first byte takes at least two round trips, and comes before the last byte.
#[test]
fn the_first_byte_takes_two_round_trips_and_comes_before_the_last() {
    for rtt_ms in [10.0, 40.0, 80.0] {
        for link in ["256 KiB/s", "10 MiB/s"] {
            let outcome = Lab::path()
                .set("network.rtt", &format!("{rtt_ms} ms"))
                .set("relays.middle.link", link)
                .set("run.duration", "20 s")
                .set("trace.cells", "0")
                .run(1);
            let circuit_rtt = 4.0 * rtt_ms / 1e3;
            for row in complete(&outcome, "web").into_iter().chain(complete(&outcome, "bulk")) {
                let [connect, first, last] = [row.connect_s, row.ttfb_s, row.ttlb_s].map(|at| at.unwrap());
                assert!(connect >= circuit_rtt, "{row:?}");
                assert!(first >= connect + circuit_rtt && first <= last, "{row:?}");
            }
            for row in &outcome.tables.paths {
                // Each of three hops is added in turn; the first one needs a channel with three round trips.
                let least = (1.0 + 2.0 + 3.0) * rtt_ms / 1e3;
                assert!(row.build_time_s.is_some_and(|time| time >= least), "{row:?}");
            }
        }
    }
}

/// G-70: with optimistic data, the request follows BEGIN immediately. Only the handshake with the server comes between
/// them.
#[test]
fn optimistic_data_saves_a_round_trip_of_the_circuit() {
    for request in ["200 B", "5000 B"] {
        let lab = Lab::path()
            .set("network.rtt", "80 ms")
            .set("relays.middle.link", "10 MiB/s")
            .set("workloads.bulk.start", "1 h")
            .set("workloads.web.request", request);
        let [slow, fast] = ["false", "true"].map(|optimistic| {
            let outcome = lab.clone().set("client.optimistic_data", optimistic).run(1);
            assert_conserved(&outcome);
            let rows: Vec<_> = complete(&outcome, "web").into_iter().cloned().collect();
            assert!(rows.len() > 10, "{}", rows.len());
            rows
        });
        let circuit_rtt = 4.0 * 0.08;
        for (slow, fast) in slow.iter().zip(&fast) {
            assert_eq!(slow.bytes, fast.bytes);
            // CONNECTED takes the same time.
            assert!((slow.connect_s.unwrap() - fast.connect_s.unwrap()).abs() < 0.01, "{slow:?} {fast:?}");
            assert!(slow.ttfb_s.unwrap() >= 2.0 * circuit_rtt, "{slow:?}");
            // One round trip of the circuit, and one to the server for its handshake.
            let least = circuit_rtt + 0.08;
            assert!((least..least + 0.02).contains(&fast.ttfb_s.unwrap()), "{fast:?}");
        }
    }
}

#[test]
fn an_unloaded_path_answers_shortly_after_two_round_trips() {
    let outcome = Lab::path()
        .set("network.rtt", "80 ms")
        .set("relays.middle.link", "10 MiB/s")
        .set("workloads.bulk.start", "1 h")
        .run(1);
    for row in complete(&outcome, "web") {
        assert!((0.64..0.66).contains(&row.ttfb_s.unwrap()), "{row:?}");
    }
}
