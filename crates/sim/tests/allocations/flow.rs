//! A steady TCP flow allocates no memory.

use penstock_sim::tcp::{Congestion, Endpoint, Segment, TcpConfig};
use penstock_units::{Duration, Instant};
/// Two endpoints with a delay of half a round trip. Every `lost`-th data segment is dropped.
struct Flow {
    cfg: TcpConfig,
    ends: [Endpoint; 2],
    now: Instant,
    forth: Vec<Segment>,
    back: Vec<Segment>,
    lost: u64,
    segments: u64,
}

impl Flow {
    fn new(cfg: TcpConfig, lost: u64) -> Self {
        let mut ends = [Endpoint::new(), Endpoint::new()];
        let now = Instant::from_millis(1);
        ends[1].listen();
        ends[0].connect(&cfg, now);
        let (forth, back) = (Vec::with_capacity(10_000), Vec::with_capacity(10_000));
        Flow { cfg, ends, now, forth, back, lost, segments: 0 }
    }

    /// A round trip of 20 ms.
    fn round(&mut self) {
        let Flow { cfg, ends: [sender, receiver], now, forth, back, lost, segments } = self;
        *now += Duration::from_millis(10);
        sender.on_timer(cfg, *now);
        for segment in back.drain(..) {
            sender.on_segment(cfg, *now, &segment);
            let room = sender.write_space();
            sender.write(cfg, 0, room);
            while let Some(segment) = sender.poll_transmit(cfg, *now) {
                sender.on_departure(cfg, *now, segment.wire_bytes());
                forth.push(segment);
            }
        }
        while let Some(segment) = sender.poll_transmit(cfg, *now) {
            forth.push(segment);
        }
        *now += Duration::from_millis(10);
        receiver.on_timer(cfg, *now);
        for segment in forth.drain(..) {
            *segments += 1;
            if segments.is_multiple_of(*lost) {
                continue;
            }
            receiver.on_segment(cfg, *now, &segment);
            receiver.read(cfg, *now, receiver.readable());
            while let Some(segment) = receiver.poll_transmit(cfg, *now) {
                back.push(segment);
            }
        }
    }
}

#[test]
fn a_steady_flow_allocates_no_memory() {
    for cfg in [TcpConfig::linux_3_2(), TcpConfig::linux_6(), TcpConfig::ns3()] {
        for congestion in [Congestion::Reno, Congestion::Cubic] {
            for lost in [u64::MAX, 500] {
                let mut flow = Flow::new(TcpConfig { congestion, ..cfg.clone() }, lost);
                // Until buffers and queues have their final sizes.
                for _ in 0..1500 {
                    flow.round();
                }
                let (allocations, segments) = (crate::allocations(), flow.segments);
                for _ in 0..400 {
                    flow.round();
                }
                let allocations = crate::allocations() - allocations;
                assert!(flow.segments - segments > 5_000, "{} segments", flow.segments - segments);
                assert_eq!(allocations, 0, "{:?} {congestion:?}, one of {lost} lost", cfg.kernel);
            }
        }
    }
}
