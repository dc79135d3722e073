//! Measures the cost of a segment in TCP alone, with two endpoints and no network.
//!
//! `cargo run --release -p penstock-sim --example tcp_bench [-- SEGMENTS]` prints the speed of every profile [million
//! data segments/s]. The speed includes the work for ACKs, and is the median of five runs.

use penstock_sim::tcp::{Congestion, Endpoint, Segment, TcpConfig};
use penstock_units::{Duration, Instant};
/// One-way delay.
const DELAY: Duration = Duration::from_millis(10);

/// Sends at least `segments` data segments, one window in each round trip. Every `lost`-th segment is dropped.
fn send(cfg: &TcpConfig, segments: u64, lost: u64) -> u64 {
    let (mut sender, mut receiver) = (Endpoint::new(), Endpoint::new());
    let (mut forth, mut back): (Vec<Segment>, Vec<Segment>) = Default::default();
    let mut now = Instant::from_millis(1);
    receiver.listen();
    sender.connect(cfg, now);
    let mut sent = 0;
    while sent < segments {
        sender.on_timer(cfg, now);
        while let Some(segment) = sender.poll_transmit(cfg, now) {
            forth.push(segment);
        }
        for ack in back.drain(..) {
            sender.on_segment(cfg, now, &ack);
            let room = sender.write_space();
            sender.write(cfg, 0, room);
            while let Some(segment) = sender.poll_transmit(cfg, now) {
                forth.push(segment);
            }
        }
        now += DELAY;
        receiver.on_timer(cfg, now);
        for segment in forth.drain(..) {
            sent += u64::from(segment.has_data());
            if segment.has_data() && sent.is_multiple_of(lost) {
                continue;
            }
            receiver.on_segment(cfg, now, &segment);
            receiver.read(cfg, now, receiver.readable());
            while let Some(ack) = receiver.poll_transmit(cfg, now) {
                back.push(ack);
            }
        }
        now += DELAY;
    }
    sent
}

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn main() {
    let segments = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3_000_000);
    for profile in [TcpConfig::linux_3_2(), TcpConfig::linux_6(), TcpConfig::ns3()] {
        for congestion in [Congestion::Reno, Congestion::Cubic] {
            for lost in [u64::MAX, 1000] {
                let cfg = TcpConfig { congestion, ..profile.clone() };
                let mut speeds: Vec<f64> = (0..5)
                    .map(|_| {
                        let start = std::time::Instant::now();
                        let sent = send(&cfg, segments, lost);
                        sent as f64 / start.elapsed().as_secs_f64() / 1e6
                    })
                    .collect();
                speeds.sort_by(f64::total_cmp);
                let loss = if lost == u64::MAX { "none lost" } else { "0.1 % lost" };
                println!("{:?} {congestion:?}, {loss}: {:.1} M segments/s", cfg.kernel, speeds[2]);
            }
        }
    }
}
