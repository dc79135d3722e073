//! G-40: a relay with a token bucket never exceeds it, and reaches its rate.

use crate::util::{Lab, assert_conserved, complete, node};
use penstock_record::RelayRow;

const RATE: u64 = 128 << 10;
/// Maximum overdraft of a connection in one turn: an I/O quantum [B].
const QUANTUM: u64 = 32 * 512;

fn lab(refill: &str) -> Lab {
    Lab::only_bulk()
        .set("relays.middle.link", "10 MiB/s")
        .set("relays.middle.bandwidth_rate", "128 KiB/s")
        .set("relays.middle.refill", refill)
        .set("run.sample", "10 ms")
        .set("trace.cells", "0")
}

#[test]
fn a_relay_never_exceeds_its_bucket_and_reaches_its_rate() {
    for (refill, refill_ms) in [("1 s", 1000), ("100 ms", 100), ("10 ms", 10)] {
        for burst in [RATE, 2 * RATE] {
            let outcome = lab(refill).set("relays.middle.bandwidth_burst", &format!("{burst} B")).run(1);
            let rows: Vec<_> = outcome.tables.relays.iter().filter(|row| &*row.relay == "middle").collect();
            for bytes in [|row: &RelayRow| row.read_bytes, |row: &RelayRow| row.written_bytes] {
                let series: Vec<u64> = rows.iter().map(|row| bytes(row)).collect();
                for first in 0..series.len() {
                    let mut sum = 0;
                    for (length, bytes) in series[first..].iter().enumerate() {
                        sum += bytes;
                        let span_ms = (length as u64 + 1) * 10 + refill_ms;
                        let most = burst + RATE * span_ms / 1000 + QUANTUM;
                        assert!(sum <= most, "{refill}: {sum} B in {length} samples from {first}");
                    }
                }
                // From 10 s to 40 s: a whole number of refills, after the burst.
                let steady: u64 = series[1000..].iter().sum();
                let rate = steady as f64 / ((series.len() - 1000) as f64 * 0.01);
                println!("refill {refill}, burst {burst}: {:.2} % of the rate", rate / RATE as f64 * 100.0);
                assert!((rate / RATE as f64 - 1.0).abs() < 0.01, "{refill}: {rate} B/s");
            }
            assert_conserved(&outcome);
        }
    }
}

#[test]
fn a_throttle_limits_only_clients_at_their_entry() {
    let throttle = r#"{ kind = "static", rate = "64 KiB/s", burst = "64 KiB" }"#;
    for relay in ["entry", "middle", "exit"] {
        let outcome = Lab::only_bulk()
            .set("relays.middle.link", "10 MiB/s")
            .set(&format!("relays.{relay}.throttle"), throttle)
            .set("relay.refill", "100 ms")
            .run(1);
        let read = node(&outcome, "bulk").counters.read_bytes.get() as f64;
        let rate = read / 40.0 / 65536.0;
        if relay == "entry" {
            assert!((0.93..1.06).contains(&rate), "{rate} of the rate");
        } else {
            assert!(rate > 4.0, "{relay}: {rate} of the rate");
        }
    }
}

#[test]
fn a_bucket_is_a_bottleneck_like_a_link() {
    for place in ["entry", "middle", "exit"] {
        let lab = Lab::path()
            .set("relays.middle.link", "10 MiB/s")
            .set("run.duration", "60 s")
            .set(&format!("relays.{place}.bandwidth_rate"), "128 KiB/s");
        for refill in ["1 s", "100 ms"] {
            let outcome = lab.clone().set("relay.refill", refill).run(1);
            assert_conserved(&outcome);
            assert!(!complete(&outcome, "bulk").is_empty(), "{place}");
            let written = node(&outcome, "middle").counters.written_bytes.get() as f64;
            let share = written / 60.0 / 131_072.0;
            println!("bucket at the {place}, {refill}: {:.1} % of the rate", share * 100.0);
            // The exit's bucket also pays for reading from the server and writing to it.
            assert!((0.80..1.03).contains(&share), "{place}, {refill}: {share}");
        }
    }
}
