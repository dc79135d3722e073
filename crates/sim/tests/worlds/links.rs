//! G-60, G-62: a path carries the rate of its slowest link and its buffers.

use crate::util::{Lab, assert_conserved, cells_at, complete, node, quantile};
use penstock_record::Position;
use penstock_sim::{Control, Outcome};
use std::collections::BTreeMap;

/// The rate at which the client reads cells after the first 10 s [B/s].
fn steady_rate(lab: &Lab) -> f64 {
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    let arrived = cells_at(&outcome, "bulk", Position::Client);
    let steady = arrived.iter().filter(|row| row.read_ns.is_some_and(|at| at >= 10_000_000_000));
    steady.count() as f64 * 512.0 / 30.0
}

/// Bytes that a relay's link sent and received, and bytes of the client's cells, between two times [B].
fn carried(lab: &Lab, relay: &str, [from, to]: [u32; 2]) -> [f64; 3] {
    let at = |seconds: u32| {
        let outcome = lab.clone().set("run.duration", &format!("{seconds} s")).set("trace.cells", "0").run(1);
        let [up, down] = node(&outcome, relay).link_bytes;
        [up, down, node(&outcome, "bulk").counters.read_bytes].map(|bytes| bytes.get())
    };
    let (before, after) = (at(from), at(to));
    [0, 1, 2].map(|k| (after[k] - before[k]) as f64 / f64::from(to - from))
}

#[test]
fn one_flow_fills_the_bottleneck() {
    for congestion in ["cubic", "reno"] {
        for (rtt, link, rate, span) in [
            ("10 ms", "128 KiB/s", 131_072.0, [10, 40]),
            ("40 ms", "512 KiB/s", 524_288.0, [10, 20]),
            ("20 ms", "2 MiB/s", 2_097_152.0, [4, 8]),
        ] {
            for (relay, side) in [("entry", 1), ("middle", 1), ("middle", 0), ("exit", 0)] {
                let key = format!("relays.{relay}.{}", ["link_up", "link_down"][side]);
                let lab = Lab::only_bulk()
                    .set("tcp.congestion", congestion)
                    .set("network.rtt", rtt)
                    .set("relays.middle.link", "10 MiB/s")
                    .set(&key, link);
                let rates = carried(&lab, relay, span);
                let (used, cells) = (rates[side] / rate, rates[2] / rate);
                println!(
                    "{congestion}, {rtt}, {key} {link}: {:.1} % used, {:.1} % cells",
                    used * 100.0,
                    cells * 100.0
                );
                assert!((0.90..1.001).contains(&used), "{congestion}, {rtt}, {key} {link}: {used}");
                // The rest are headers of segments and records, with a larger share for small segments.
                assert!((0.78..0.97).contains(&cells), "{congestion}, {rtt}, {key} {link}: {cells}");
            }
        }
    }
}

#[test]
fn a_receive_buffer_limits_the_rate_to_its_size_per_round_trip() {
    for (buffer, bytes) in [("8 KiB", 8192.0), ("32 KiB", 32768.0)] {
        let lab =
            Lab::only_bulk().set("relays.middle.link", "10 MiB/s").set("relays.entry.receive_buffer", buffer);
        let rate = steady_rate(&lab);
        let bound = bytes / 0.04;
        println!("{buffer}: {:.1} % of buffer / rtt", rate / bound * 100.0);
        assert!(rate <= bound, "{rate} > {bound}");
        assert!(rate >= bound * 0.4, "{rate} << {bound}");
    }
}

#[test]
fn a_send_buffer_limits_the_rate_to_its_size_per_round_trip() {
    let lab =
        Lab::only_bulk().set("relays.middle.link", "10 MiB/s").set("relays.middle.send_buffer", "16 KiB");
    let (rate, bound) = (steady_rate(&lab), 16384.0 / 0.04);
    println!("16 KiB: {:.1} % of buffer / rtt", rate / bound * 100.0);
    // One record may exceed the limit.
    assert!(rate <= bound * 1.27 && rate >= bound * 0.5, "{rate} and {bound}");
}

#[test]
fn loss_slows_downloads_and_fails_none() {
    let lab = Lab::path().set("workloads.web.start", "1 h").set("relays.middle.link", "1 MiB/s");
    let cells = |loss: &str| {
        let outcome = lab.clone().set("network.loss", loss).run(1);
        assert_conserved(&outcome);
        assert!(outcome.tables.transfers.iter().all(|row| row.outcome != penstock_record::Outcome::Failed));
        node(&outcome, "bulk").counters.data_delivered
    };
    let counts = ["0.0", "0.01", "0.05"].map(cells);
    println!("cells delivered with 0, 1 and 5 % loss: {counts:?}");
    assert!(counts[0] > counts[1] && counts[1] > counts[2] && counts[2] > 500, "{counts:?}");
}

/// C tor and rustls read incomplete records, so TCP acknowledges their segments immediately.
#[test]
fn every_second_segment_of_a_channel_is_acknowledged() {
    let lab = Lab::only_bulk().set("relays.middle.link", "10 MiB/s").set("relays.entry.link_up", "256 KiB/s");
    let outcome = lab.set("run.duration", "60 s").run(1);
    let client = node(&outcome, "bulk");
    let [up, down] = client.link_bytes.map(|bytes| bytes.get() as f64);
    // A SENDME takes a record and a segment.
    let sendmes = client.counters.all_sendmes() as f64;
    let acks = (up - sendmes * (514.0 + 29.0 + 66.0)) / 66.0;
    let segments = down / 1514.0;
    // More than half, because records end with small segments. With whole records it would be 0.38.
    assert!((0.5..0.7).contains(&(acks / segments)), "{acks} ACKs of {segments} segments");
}

/// Two clients over TCP of a profile.
fn with_profile(profile: &str, congestion: &str) -> Lab {
    Lab::path()
        .set("tcp.profile", profile)
        .set("tcp.congestion", congestion)
        .set("tcp.nodelay", "'auto'")
        .set("network.loss", "0.01")
        .set("relay.scheduler", "{ kind = 'kist', unacked = 'written' }")
}

#[test]
fn every_profile_carries_downloads() {
    for (profile, congestion, order) in [
        ("linux-3.2", "newreno", "arrival"),
        ("linux-6", "newreno", "arrival"),
        ("ns3", "newreno", "arrival"),
        ("shadow-1.9-sockets", "cubic", "arrival"),
        ("shadow-1.9", "cubic", "arrival"),
        ("shadow-1.9", "cubic", "oldest-write"),
        ("shadow-3.3", "reno", "arrival"),
    ] {
        let outcome = with_profile(profile, congestion).set("tcp.interface_order", order).run(1);
        assert_conserved(&outcome);
        for client in ["web", "bulk"] {
            assert!(complete(&outcome, client).len() >= 2, "{profile}, {order}, {client}");
        }
    }
}

/// Batches of an interface, and queues that count packets, are exact with the look-ahead, too.
#[test]
fn look_ahead_does_not_change_other_simulators_links() {
    for (profile, order) in [
        ("ns3", "arrival"),
        ("shadow-1.9-sockets", "arrival"),
        ("shadow-1.9", "arrival"),
        ("shadow-1.9", "oldest-write"),
    ] {
        let lab =
            with_profile(profile, "newreno").set("tcp.interface_order", order).set("run.duration", "15 s");
        let document = lab.document();
        let scenario = document.scenario("stock").expect("the variant is in the text");
        let one = penstock_sim::run(scenario, 1, &Control::one_by_one()).expect("the run is not cancelled");
        let ahead = lab.run(1);
        assert_eq!(format!("{:?}", one.tables), format!("{:?}", ahead.tables), "{profile}");
        assert_eq!(one.nodes, ahead.nodes);
    }
}

/// A run in which the entry's interface is slow and sends in this order.
fn behind_a_slow_entry(lab: Lab, order: &str, link_up: &str) -> Outcome {
    let outcome = with_slow_entry(lab, order, link_up).run(1);
    assert_conserved(&outcome);
    outcome
}

fn with_slow_entry(lab: Lab, order: &str, link_up: &str) -> Lab {
    let lab = lab.set("tcp.interface_order", order).set("relay.scheduler", "{ kind = 'vanilla' }");
    lab.set("relays.entry.link_up", link_up)
}

/// The entry's interface holds data for both clients. Their sockets differ.
#[test]
fn shadows_interface_sends_the_oldest_write_first() {
    let overtaken = |profile: &str, order: &str| {
        let lab = with_profile(profile, "reno").set("network.loss", "0");
        let outcome = behind_a_slow_entry(lab, order, "64 KiB/s");
        let mut cells: Vec<_> = ["web", "bulk"]
            .iter()
            .flat_map(|client| cells_at(&outcome, client, Position::Guard))
            .filter_map(|row| Some((row.kernel_ns?, row.nic_out_ns?)))
            // Windows have grown by then.
            .filter(|(written, _)| *written >= 10_000_000_000)
            .collect();
        cells.sort_unstable();
        assert!(cells.len() > 1000, "{profile}: {}", cells.len());
        cells.windows(2).filter(|pair| pair[1].1 < pair[0].1).count()
    };
    assert_eq!(overtaken("shadow-1.9", "oldest-write"), 0);
    let turns = overtaken("shadow-3.3", "arrival");
    assert!(turns > 3, "{turns}: there, sockets take turns");
}

/// In Shadow, data that wait for the interface use the send buffer twice, so a full buffer holds half as much.
#[test]
fn data_at_shadows_interface_fill_the_send_buffer_twice() {
    let waiting = |order: &str| {
        let lab = Lab::only_bulk().set("tcp.profile", "shadow-1.9").set("tcp.send_buffer", "64 KiB");
        let outcome = behind_a_slow_entry(lab, order, "64 KiB/s");
        let times: Vec<_> = cells_at(&outcome, "bulk", Position::Guard)
            .iter()
            .filter_map(|row| Some((row.kernel_ns?, row.nic_out_ns?)))
            .collect();
        let held_at = |at: u64| times.iter().filter(|(written, left)| *written <= at && at < *left).count();
        let mut held: Vec<_> = (10..40).map(|second| held_at(second * 1_000_000_000)).collect();
        held.sort_unstable();
        held[held.len() / 2]
    };
    // A record of one cell has 543 B, and one of eight cells has 516 B for each of them. A record that has entered or left
    // in part counts with all its cells.
    let [once, twice] = ["arrival", "oldest-write"].map(waiting);
    assert!((108..=132).contains(&once), "{once} cells instead of 120");
    assert!((57..=79).contains(&twice), "{twice} cells instead of 63, and up to 16 in parts of records");
}

/// A departure frees less than a record of 8 cells, and Shadow takes a part of the record.
#[test]
fn a_record_enters_a_full_buffer_of_shadow_in_parts() {
    let lab = Lab::only_bulk().set("tcp.profile", "shadow-1.9").set("tcp.send_buffer", "64 KiB");
    let outcome = behind_a_slow_entry(lab.clone(), "oldest-write", "64 KiB/s");
    let cells = cells_at(&outcome, "bulk", Position::Guard);
    // A record leaves with its last segment, so its cells have one time.
    let mut records = BTreeMap::<u64, usize>::new();
    for at in cells.iter().filter_map(|row| row.nic_out_ns).filter(|at| *at >= 10_000_000_000) {
        *records.entry(at).or_default() += 1;
    }
    let whole = records.values().filter(|count| **count == 8).count();
    assert!(records.len() > 100, "{} records", records.len());
    assert!(10 * whole > 9 * records.len(), "{whole} of {} records are whole", records.len());
    let [up, _, cells] = carried(&with_slow_entry(lab, "oldest-write", "64 KiB/s"), "entry", [10, 40]);
    println!("{:.3} bytes on the link for each byte of cells", up / cells);
    // It is less than 1.2 if whole records enter, in three segments for 8 cells. ACKs of received data are included.
    assert!(up / cells > 1.25, "{}", up / cells);
}

/// Until the first ACK comes after a second, only departures free space in the entry's send buffer.
#[test]
fn a_departure_from_shadows_interface_lets_a_relay_write_again() {
    let lab = Lab::only_bulk()
        .set("tcp.profile", "shadow-1.9")
        .set("tcp.initial_window", "60")
        .set("tcp.send_buffer", "20 KiB")
        .set("network.rtt", "1 s")
        .set("relays.middle.link", "10 MiB/s")
        .set("run.duration", "60 s");
    let outcome = behind_a_slow_entry(lab, "oldest-write", "40 KiB/s");
    let cells = cells_at(&outcome, "bulk", Position::Guard);
    let mut departures: Vec<_> = cells.iter().filter_map(|row| row.nic_out_ns).collect();
    departures.sort_unstable();
    let early = departures.iter().filter(|at| **at < departures[0] + 900_000_000).count();
    // The buffer has 37 cells. Half of them fill it while they wait.
    assert!((30..=40).contains(&early), "{early} cells");
}

/// Shadow's interface sends all waiting packets together and then pauses, so cells of a burst have the same time.
#[test]
fn shadows_interface_receives_in_batches_of_ten_milliseconds() {
    let lab = Lab::only_bulk().set("tcp.profile", "shadow-1.9-sockets").set("run.duration", "12 s");
    let arrivals: Vec<u64> = cells_at(&lab.run(1), "bulk", Position::Client)
        .iter()
        .filter_map(|row| row.nic_in_ns)
        .filter(|at| *at >= 6_000_000_000)
        .collect();
    // The middle sends at 256 KiB/s, five cells in 10 ms, so most cells arrive together with another one.
    let together = arrivals.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(2 * together > arrivals.len(), "{together} of {} cells", arrivals.len());
    let mut times = arrivals.clone();
    times.dedup();
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000);
    // The client's link is fast, so its own batches are short.
    let pauses: Vec<u64> = gaps.filter(|gap| *gap >= 3).collect();
    let batches = pauses.iter().filter(|pause| (9..=26).contains(*pause)).count();
    assert!(pauses.len() > 50 && 10 * batches > 9 * pauses.len(), "{pauses:?}");
}

/// The time that most cells need from the guard's link to the client, if the client's link is the bottleneck [s].
fn wait_before_the_client(queue: &str, mss: &str) -> f64 {
    let lab =
        Lab::only_bulk().set("network.link_queue", queue).set("tcp.mss", mss).set("run.duration", "10 s");
    let outcome = lab.set("relays.middle.link", "10 MiB/s").set("clients.bulk.link", "256 KiB/s").run(1);
    assert_conserved(&outcome);
    let [guard, client] = [Position::Guard, Position::Client].map(|hop| cells_at(&outcome, "bulk", hop));
    let left: BTreeMap<_, _> = guard.iter().map(|row| ((row.circuit, row.cell), row.nic_out_ns)).collect();
    let waits = client.iter().filter_map(|row| {
        let left = left.get(&(row.circuit, row.cell)).copied().flatten()?;
        Some((row.nic_in_ns? - left) as f64 / 1e9)
    });
    quantile(waits, 0.9)
}

/// A queue of 20 packets holds 20 full segments, and also 20 small ones.
#[test]
fn a_queue_that_counts_packets_ignores_their_size() {
    let [packets, small_packets] = ["1448 B", "300 B"].map(|mss| wait_before_the_client("'20 packets'", mss));
    let [bytes, small_bytes] = ["1448 B", "300 B"].map(|mss| wait_before_the_client("'30280 B'", mss));
    println!(
        "full segments: {packets:.3} and {bytes:.3} s, small ones: {small_packets:.3} and {small_bytes:.3} s"
    );
    assert!((packets / bytes - 1.0).abs() < 0.2, "{packets} and {bytes} s");
    // 20 packets of 366 B need 28 ms. 30,280 B need 115 ms in packets of any size.
    assert!(small_packets < 0.5 * small_bytes, "{small_packets} and {small_bytes} s");
    assert!(small_packets < 0.5 * packets, "{small_packets} and {packets} s");
}
