//! The TCP of Shadow 1.9.0.

use super::*;

/// A connection over 100 Mbit/s and 100 ms, in which each write of a side makes small segments.
fn connection() -> World {
    let mut world = World::connected(TcpConfig::shadow_1_9(), Path::new(100, 100));
    world.trace = Some(Vec::new());
    world
}

fn cwnd(world: &World) -> u32 {
    world.ends[0].info(&world.cfg[0]).cwnd
}

/// Writes `count` cells of 500 B.
fn write_cells(world: &mut World, count: u32) {
    (0..count).for_each(|_| world.write(0, 500));
}

/// Writes `bursts` of `count` cells, one burst every 200 ms. All cells are then acknowledged.
fn write_bursts(world: &mut World, bursts: u32, count: u32) {
    for _ in 0..bursts {
        write_cells(world, count);
        world.run_for(Duration::from_millis(200));
    }
}

/// A connection after these bursts.
fn after(bursts: u32, count: u32) -> World {
    let mut world = connection();
    write_bursts(&mut world, bursts, count);
    world
}

/// Loses the next cell, and returns its segment.
fn lose_a_cell(world: &mut World) -> Segment {
    world.lose_once = Some(world.ends[1].received_end());
    write_cells(world, 1);
    world.trace.as_ref().and_then(|sent| sent.last()).expect("it was sent").2
}

#[test]
fn the_window_grows_without_being_used_and_survives_a_pause() {
    let mut world = after(30, 1);
    assert_eq!(cwnd(&world), 10 + 30, "one for each ACK, although one segment was in flight");
    world.run_for(Duration::from_secs(60));
    write_cells(&mut world, 1);
    assert_eq!(cwnd(&world), 40);
}

/// Linux would acknowledge these at once, too, but only the first sixteen.
#[test]
fn each_segment_is_acknowledged_at_once() {
    for (cfg, all) in [(TcpConfig::shadow_1_9(), true), (TcpConfig::shadow_1_9_sockets(), false)] {
        let mut world = World::connected(cfg, Path::new(100, 100));
        world.trace = Some(Vec::new());
        for _ in 0..60 {
            world.write(0, 500);
            world.run_for(Duration::from_millis(5));
        }
        world.run_out();
        let sent = world.trace.expect("it is traced");
        let acks = sent.iter().filter(|(_, side, _)| *side == 1).count();
        assert_eq!(acks == 60, all, "{acks}");
    }
}

/// The receive window has room for 174,760 B, which are 120 packets, however small they are.
#[test]
fn the_receive_window_counts_packets() {
    let mut world = after(40, 10);
    assert!(cwnd(&world) > 300);
    write_cells(&mut world, 240);
    assert_eq!(world.ends[0].info(&world.cfg[0]).in_flight, 120);
}

#[test]
fn a_timeout_multiplies_the_window_by_four_fifths() {
    let mut world = after(10, 4);
    assert_eq!(cwnd(&world), 50);
    world.censor = Some(|side, segment| side == 0 && segment.ts_val < Instant::from_millis(2900));
    write_cells(&mut world, 2);
    let start = world.now;
    while world.ends[0].info(&world.cfg[0]).retransmits == 0 {
        assert!(world.step(Instant::FAR_FUTURE));
    }
    assert!(world.now.since(start) >= Duration::from_millis(200));
    assert_eq!(cwnd(&world), 39, "0.8 of 50, rounded down");
}

/// A SACK of the fourth segment after a hole shows the loss. New data wait until the hole is filled, because segments
/// that have arrived fill the window.
#[test]
fn a_loss_reduces_the_window_once_and_stops_new_data() {
    let mut world = after(10, 4);
    let before = world.ends[1].received_end();
    world.lose_once = Some(before);
    write_cells(&mut world, 200);
    world.run_for(Duration::from_millis(140));
    assert_eq!(cwnd(&world), 39, "0.8 of 50, rounded down");
    let sent = world.ends[0].info(&world.cfg[0]);
    // The SACK of the last segment makes Shadow send the first one again.
    assert_eq!((sent.retransmits, sent.state), (2, CaState::Recovery));
    assert_eq!(world.data_sent[0], 40 + 50 + 2);
    world.run_out();
    assert_eq!(world.ends[1].received_end(), before + 200 * 500);
}

/// The network tells of a lost tail after two round trips, earlier than a timeout, and the window does not shrink.
#[test]
fn a_notice_repairs_a_lost_tail() {
    for told in [true, false] {
        let mut world = World::connected(TcpConfig::shadow_1_9(), Path::new(100, 50));
        world.trace = Some(Vec::new());
        write_cells(&mut world, 5);
        world.run_for(Duration::from_millis(400));
        let before = cwnd(&world);
        let lost = lose_a_cell(&mut world);
        let start = world.now;
        if told {
            world.ends[0].on_dropped(start, &lost);
        }
        while world.ends[0].info(&world.cfg[0]).retransmits == 0 {
            assert!(world.step(Instant::FAR_FUTURE));
        }
        let took = world.now.since(start).as_millis();
        assert!(if told { (90..=100).contains(&took) } else { took >= 200 }, "{took} ms");
        assert_eq!(cwnd(&world) == before, told);
    }
}

/// With growing windows, the send buffer grows although the application never waits for space.
#[test]
fn the_send_buffer_follows_the_window() {
    let world = after(20, 4);
    assert_eq!(cwnd(&world), 90);
    assert_eq!(world.ends[0].info(&world.cfg[0]).send_capacity, 2 * 90 * 2404);
}

#[test]
fn a_reset_forgets_the_notices() {
    let mut world = connection();
    write_cells(&mut world, 5);
    world.run_for(Duration::from_millis(400));
    let lost = lose_a_cell(&mut world);
    world.ends[0].on_dropped(world.now, &lost);
    assert!(world.ends[0].poll_timeout().is_some());
    world.ends[0].reset();
    assert_eq!(world.ends[0].poll_timeout(), None);
}

#[test]
fn the_first_unsent_write_has_its_number() {
    let cfg = TcpConfig { interface_order: InterfaceOrder::OldestWrite, ..TcpConfig::shadow_1_9() };
    let mut end = World::connected(cfg.clone(), Path::new(100, 100)).ends[0].clone();
    assert_eq!(end.unsent_write(), None);
    for number in 41..=60 {
        end.write(&cfg, number, 500);
    }
    for number in 41..=50 {
        assert_eq!(end.unsent_write(), Some(number));
        assert!(end.poll_transmit(&cfg, Instant::from_secs(1)).is_some());
    }
    assert_eq!(end.poll_transmit(&cfg, Instant::from_secs(1)), None, "the window of ten segments is full");
}

#[test]
fn data_that_wait_for_the_interface_count_twice() {
    let mut world = connection();
    let (cfg, end) = (&world.cfg[0], &mut world.ends[0]);
    end.write(cfg, 1, 10_000);
    let space = end.write_space();
    end.hold(1448);
    assert_eq!(end.write_space(), space - 1448);
    end.hold(space as u32);
    assert_eq!(end.write_space(), 0);
    assert!(!end.is_writable(cfg));
    end.release(1448);
    end.release(space as u32);
    assert_eq!(end.write_space(), space);
    assert!(end.is_writable(cfg));
}

#[test]
fn data_that_wait_during_a_reset_are_released_once() {
    let mut world = connection();
    let (cfg, end) = (&world.cfg[0], &mut world.ends[0]);
    end.write(cfg, 1, 3000);
    end.hold(1448);
    end.reset();
    end.release(1448);
    assert_eq!(end.write_space(), 0);
    let twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| end.release(1448)));
    assert!(twice.is_err(), "nothing is held any more");
}

/// Segments that wait for the interface leave after a reset, too. A notice about one of them must not set a timer.
#[test]
fn a_closed_endpoint_hears_of_no_drops() {
    let mut world = connection();
    write_cells(&mut world, 5);
    world.run_for(Duration::from_millis(400));
    let lost = lose_a_cell(&mut world);
    world.ends[0].reset();
    world.ends[0].on_dropped(world.now, &lost);
    assert_eq!(world.ends[0].poll_timeout(), None);
}

/// Round trips of 100.9 ms count as 100 ms. The variance of constant round trips falls to a few milliseconds, so the
/// minimum of 200 ms decides the timeout.
#[test]
fn round_trips_are_whole_milliseconds() {
    let mut rtt = crate::tcp::rtt::Rtt::default();
    let cfg = TcpConfig::shadow_1_9();
    for _ in 0..50 {
        rtt.on_sample(&cfg, Duration::from_micros(100_900), 0, 0);
    }
    assert_eq!(rtt.srtt(), Duration::from_millis(rtt.srtt().as_millis() as u64));
    assert!((93..=100).contains(&rtt.srtt().as_millis()), "{:?}", rtt.srtt());
    assert_eq!(rtt.base_rto(&cfg), Duration::from_millis(200));
}

/// After a recovery, the first ACK lets the window grow by one segment as in slow start.
#[test]
fn the_window_grows_by_a_segment_after_a_loss() {
    let mut world = after(10, 4);
    world.lose_once = Some(world.ends[1].received_end());
    write_cells(&mut world, 8);
    world.run_out();
    assert_eq!(cwnd(&world), 39);
    for _ in 0..2 {
        write_bursts(&mut world, 1, 1);
        assert_eq!(cwnd(&world), 40);
    }
}

/// A recovery ends when an ACK covers all data before the last segment. The first cell of twenty is lost once, and the
/// last one until 2180 ms, so that only its retransmission arrives.
#[test]
fn a_recovery_ends_before_the_last_segment() {
    let mut world = after(10, 4);
    let before = world.ends[1].received_end();
    world.lose_once = Some(before);
    world.censor = Some(|side, segment| {
        side == 0 && segment.seq == 40 * 500 + 19 * 500 && segment.ts_val < Instant::from_millis(2180)
    });
    write_cells(&mut world, 20);
    let is_over = |world: &World| world.ends[0].info(&world.cfg[0]).state != CaState::Recovery;
    world.run_for(Duration::from_millis(190));
    assert!(!is_over(&world), "the first lost cell is on its way again");
    world.run_for(Duration::from_millis(40));
    assert!(is_over(&world) && world.ends[1].received_end() == before + 19 * 500);
}

/// The counters of a sender that sends 100 MiB over a link with random loss.
#[derive(Debug, Default)]
struct Download {
    seconds: f64,
    retransmits: f64,
    reductions: f64,
    timeouts: f64,
    /// The mean over time of the congestion window [segments].
    cwnd: f64,
}

/// Sends 100 MiB over 10 MiB/s and 10 ms in segments of `mss` [B]. `loss` is the probability that a segment is lost.
fn download(loss: f64, mss: u32, seed: u64) -> Download {
    let cfg = TcpConfig { mss, ..TcpConfig::shadow_1_9() };
    let mut world = World::connected(cfg, Path::new(84, 10)).seed(seed);
    world.path.fate = Fate::Random(loss);
    let start = world.now;
    let mut found = Download::default();
    world.write(0, 100 << 20);
    while world.ends[1].received_end() < 100 << 20 {
        let (before, at) = (world.ends[0].info(&world.cfg[0]), world.now);
        assert!(world.step(Instant::FAR_FUTURE));
        let after = world.ends[0].info(&world.cfg[0]);
        found.cwnd += f64::from(before.cwnd) * world.now.since(at).as_secs_f64();
        found.reductions += f64::from(u8::from(after.cwnd < before.cwnd));
        found.timeouts += f64::from(u8::from(after.state == CaState::Loss && before.state != CaState::Loss));
    }
    found.retransmits = world.ends[0].info(&world.cfg[0]).retransmits as f64;
    found.seconds = world.now.since(start).as_secs_f64();
    found.cwnd /= found.seconds;
    found
}

/// The expected values are means of five downloads with the original files of Shadow 1.9.0, in a loop of two hosts.
/// Their file server writes smaller segments than ours, and with more loss still smaller ones. Therefore the test sets
/// the segment's size. The original counts each reduction and each timeout. This test counts steps that end with a
/// smaller window, and the first of several timeouts.
#[test]
fn downloads_with_loss_are_those_of_shadow() {
    #[rustfmt::skip]
    let originals = [
        // loss, segment [B], seconds, retransmits, reductions, timeouts, mean window
        (0.01,  1254,  40.6,  1728.0,  699.0,   0.2, 22.2),
        (0.025, 1262,  69.9,  4443.0, 1623.0,   1.2, 13.8),
        (0.05,  1203, 124.4,  9434.0, 3181.0,  19.0,  8.8),
        (0.1,   1053, 349.0, 20783.0, 6801.0, 429.6,  4.6),
    ];
    for (loss, mss, seconds, retransmits, reductions, timeouts, cwnd) in originals {
        let ours: Vec<Download> = (1..=3).map(|seed| download(loss, mss, seed)).collect();
        let mean = |of: fn(&Download) -> f64| ours.iter().map(of).sum::<f64>() / ours.len() as f64;
        let near = |of: fn(&Download) -> f64, original: f64, share: f64| {
            let ours = mean(of);
            assert!((ours / original - 1.0).abs() < share, "{loss}: {ours} instead of {original}");
        };
        near(|found| found.seconds, seconds, 0.15);
        near(|found| found.retransmits, retransmits, 0.1);
        near(|found| found.reductions, reductions, 0.1);
        near(|found| found.cwnd, cwnd, 0.1);
        assert!((mean(|found| found.timeouts) - timeouts).abs() < 5.0 + 0.1 * timeouts);
    }
}
