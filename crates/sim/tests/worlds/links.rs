//! G-60, G-62: a path carries the rate of its slowest link and its buffers.

use crate::util::{Lab, assert_conserved, cells_at, node};
use penstock_record::Position;

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
