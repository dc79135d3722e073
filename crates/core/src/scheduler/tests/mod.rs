//! Tests schedulers on a relay that only counts cells. They cover known errors of the published algorithms, and compare
//! each scheduler with a reference implementation.

mod measured;
mod reference;
mod world;

use super::{
    GlobalConfig, GlobalLimitConfig, KistConfig, KistDeployedConfig, KistLiteConfig, Scheduler,
    SchedulerConfig, Unacked, socket_limit, socket_limit_by_flight, socket_limit_by_written,
};
use crate::kernel::SocketInfo;
use crate::keys::ChannelKey;
use penstock_units::{Bytes, DataRate, Duration, Instant};
use proptest::prelude::*;
use reference::Reference;
use std::collections::BTreeMap;
use world::{Action, CELL, RECORD, RECORD_CELLS, World};

const MS: Duration = Duration::from_millis(1);
const TG: Duration = Duration::from_millis(10);

fn global() -> SchedulerConfig {
    SchedulerConfig::Global(GlobalConfig::default())
}

fn kist(global_limit: GlobalLimitConfig) -> SchedulerConfig {
    SchedulerConfig::Kist(KistConfig { global_limit, ..KistConfig::default() })
}

fn deployed(millis: u32) -> SchedulerConfig {
    SchedulerConfig::KistDeployed(KistDeployedConfig {
        interval: MS * millis,
        ..KistDeployedConfig::default()
    })
}

fn lite() -> SchedulerConfig {
    SchedulerConfig::KistLite(KistLiteConfig::default())
}

fn rate(known: Option<DataRate>) -> GlobalLimitConfig {
    GlobalLimitConfig::Rate { fill: TG, known }
}

fn all() -> Vec<SchedulerConfig> {
    vec![
        global(),
        kist(GlobalLimitConfig::Off),
        kist(GlobalLimitConfig::Drained),
        kist(rate(None)),
        kist(rate(Some(DataRate::mib(1)))),
        kist(GlobalLimitConfig::Measured),
        deployed(10),
        deployed(2),
        lite(),
    ]
}

/// The channels of the chosen cells, in order.
fn moved(actions: &[Action]) -> Vec<u32> {
    let moved = |act: &Action| if let Action::Moved(channel, _) = act { Some(*channel) } else { None };
    actions.iter().filter_map(moved).collect()
}

/// The bytes written to each channel [B].
fn written(actions: &[Action]) -> BTreeMap<u32, u64> {
    let mut written = BTreeMap::new();
    for act in actions {
        if let Action::Wrote(channel, bytes) = act {
            *written.entry(*channel).or_default() += bytes;
        }
    }
    written
}

/// In rounds, cells of datagrams would wait, and BackTap would see a queue.
#[test]
fn a_channel_of_datagrams_does_not_wait_for_a_round() {
    for config in all() {
        let (mut world, mut now) = (World::with([1, 2]), Instant::from_secs(1));
        world.at(1).has_datagrams = true;
        let mut scheduler = config.build_with_datagrams();
        for (channel, expected) in [(1, vec![1; 3]), (2, vec![])] {
            world.arrive(now, &mut scheduler, (channel, 0), 3);
            assert_eq!(moved(&world.actions()), expected, "{config:?}");
        }
        world.wait(&mut now, &mut scheduler, TG * 2);
        assert_eq!(moved(&world.actions()), [2; 3], "{config:?}");
        world.close(&mut scheduler, 1);
        world.close(&mut scheduler, 2);
        assert_eq!(scheduler.poll_timeout(), None, "{config:?}");
    }
}

/// G-35: the limit is zero if the window is below the cells in flight, if more bytes are queued than the buffer holds,
/// or if the segment size is unknown.
#[test]
fn a_limit_is_never_negative() {
    let info = |capacity, queued, cwnd, unacked, mss| SocketInfo {
        capacity: Bytes::new(capacity),
        queued: Bytes::new(queued),
        cwnd,
        unacked,
        mss,
        ..SocketInfo::default()
    };
    let vectors = [
        (info(87_380, 0, 10, 0, 1448), 14_480),
        (info(87_380, 14_480, 10, 10, 1448), 0),
        (info(87_380, 10_000, 10, 12, 1448), 0),
        (info(16_384, 20_000, 10, 0, 1448), 0),
        (info(16_384, 10_000, 10, 2, 1448), 6_384),
        (info(87_380, 0, 10, 0, 0), 0),
        (info(u64::MAX, 0, u32::MAX, 0, u32::MAX), u64::from(u32::MAX) * u64::from(u32::MAX)),
    ];
    for (info, limit) in vectors {
        assert_eq!(socket_limit(&info).get(), limit, "{info:?}");
    }
    // K-79: two segments are in flight, and one and a half more were written.
    let unsent = info(87_380, 5_068, 10, 2, 1448);
    assert_eq!((socket_limit(&unsent).get(), socket_limit_by_written(&unsent).get()), (11_584, 8_688));
    let full = info(87_380, 14_481, 10, 10, 1448);
    assert_eq!(socket_limit_by_written(&full).get(), 0);
}

/// In recovery, one of ten segments is lost and the nine after it have arrived. TCP then sends up to its window.
#[test]
fn segments_that_were_lost_or_have_arrived_are_not_in_flight() {
    let info = SocketInfo { cwnd: 7, unacked: 10, in_flight: 1, mss: 1448, ..SocketInfo::default() };
    let info = SocketInfo { capacity: Bytes::new(87_380), queued: Bytes::new(14_480), ..info };
    assert_eq!((socket_limit(&info).get(), socket_limit_by_flight(&info).get()), (0, 6 * 1448));
}

/// K-79: the rounds use the limit of their configuration.
#[test]
fn kist_counts_the_bytes_of_its_configuration_as_unacknowledged() {
    let written_with = |unacked| {
        let config = KistConfig { unacked, global_limit: GlobalLimitConfig::Off, ..KistConfig::default() };
        let (mut scheduler, mut world) = (SchedulerConfig::Kist(config).build(), World::with([1]));
        let (queued, info) = (Bytes::new(90 * 1448), world.at(1).info);
        world.at(1).info =
            SocketInfo { capacity: Bytes::mib(4), cwnd: 100, queued, unacked: 50, in_flight: 20, ..info };
        let mut now = Instant::ZERO;
        world.arrive(now, &mut scheduler, (1, 0), 1000);
        world.wait(&mut now, &mut scheduler, TG);
        written(&world.actions())[&1]
    };
    let counted = [(Unacked::Written, 90), (Unacked::Sent, 50), (Unacked::InFlight, 20)];
    for (unacked, segments) in counted {
        let (written, limit) = (written_with(unacked), (100 - segments) * 1448);
        assert!((limit / 2..=limit + 8 * CELL + RECORD).contains(&written), "{unacked:?}: {written} B");
    }
}

#[test]
fn cells_of_all_channels_leave_in_order_of_priority() {
    for config in all() {
        let (mut world, mut scheduler, mut now) = (World::with([1, 2, 3]), config.build(), Instant::ZERO);
        for (channel, sent) in [(1, 4), (2, 0), (3, 2)] {
            world.at(channel).circuits[0].sent = sent;
        }
        // Channel 1 wakes the scheduler. The other channels become ready before it runs.
        for channel in [1, 2, 3] {
            world.arrive(now, &mut scheduler, (channel, 0), 4);
        }
        world.wait(&mut now, &mut scheduler, TG);
        assert_eq!(moved(&world.actions()), [2, 2, 3, 2, 3, 2, 1, 3, 1, 3, 1, 1], "{config:?}");
        assert!(world.channels.values().all(|channel| !channel.has_work()));
    }
}

/// A choice of a whole queue may exceed the limit of a channel once. Every cell is charged, so no second choice follows.
#[test]
fn every_cell_of_a_choice_counts_against_the_limit_of_its_channel() {
    for config in
        [kist(GlobalLimitConfig::Off), deployed(10), SchedulerConfig::KistLite(KistLiteConfig::default())]
    {
        let (mut world, mut scheduler, mut now) = (World::with([1]), config.build(), Instant::ZERO);
        world.whole_queues = true;
        for circuit in 0..3 {
            world.arrive(now, &mut scheduler, (1, circuit), 150);
        }
        world.wait(&mut now, &mut scheduler, Duration::ZERO);
        if moved(&world.actions()).is_empty() {
            let due = scheduler.poll_timeout().expect("the channel is pending");
            let span = due - now;
            world.wait(&mut now, &mut scheduler, span);
        }
        let left: u64 = world.channels[&1].circuits.iter().map(|circuit| circuit.cells).sum();
        assert_eq!(left, 300, "{config:?}");
    }
}

#[test]
fn channels_with_equal_priorities_take_turns() {
    for config in all() {
        let (mut world, mut scheduler, mut now) = (World::with([1, 2, 3]), config.build(), Instant::ZERO);
        world.alike = true;
        for channel in [3, 1, 2] {
            world.arrive(now, &mut scheduler, (channel, 0), 2);
        }
        world.wait(&mut now, &mut scheduler, TG);
        assert_eq!(moved(&world.actions()), [1, 2, 3, 1, 2, 3], "{config:?}");
    }
}

#[test]
fn the_timer_is_off_while_no_channel_is_pending() {
    for config in all() {
        let (mut world, mut scheduler, mut now) = (World::with([1]), config.build(), Instant::ZERO);
        assert_eq!(scheduler.poll_timeout(), None);
        scheduler.on_ready(now, ChannelKey::first(1), &mut world);
        assert_eq!(scheduler.poll_timeout(), None, "{config:?}: a new channel has no cells");
        world.arrive(now, &mut scheduler, (1, 0), 5);
        assert!(scheduler.poll_timeout().is_some());
        world.wait(&mut now, &mut scheduler, TG);
        assert_eq!(scheduler.poll_timeout(), None, "{config:?}");
    }
}

/// In the printed pseudocode, a channel with an empty output buffer and a limit of zero (line 8) gets no further
/// notification.
#[test]
fn a_channel_writes_when_its_full_window_opens() {
    for config in [kist(GlobalLimitConfig::Off), kist(GlobalLimitConfig::Drained), deployed(10)] {
        let (mut world, mut scheduler, mut now) = (World::with([1]), config.build(), Instant::ZERO);
        (world.at(1).info.unacked, world.at(1).info.not_sent) = (20, Bytes::mib(1));
        world.arrive(now, &mut scheduler, (1, 0), 5);
        let fired = world.wait(&mut now, &mut scheduler, TG * 20);
        assert!(
            (20..=21).contains(&fired.len()),
            "{config:?}: the scheduler checks the channel in every interval: {}",
            fired.len()
        );
        assert_eq!(moved(&world.actions()), []);
        (world.at(1).info.unacked, world.at(1).info.not_sent) = (0, Bytes::ZERO);
        world.wait(&mut now, &mut scheduler, TG);
        assert_eq!(moved(&world.actions()), [1; 5], "{config:?}");
    }
}

/// The last loop of the prototype writes only the channel that was chosen last, once for each
/// channel.
#[test]
fn the_last_writes_of_a_round_reach_each_channel() {
    for config in all() {
        let (mut world, mut scheduler, mut now) = (World::with([1, 2, 3]), config.build(), Instant::ZERO);
        for (channel, cells) in [(1, 1), (2, 2), (3, 3)] {
            world.arrive(now, &mut scheduler, (channel, 0), cells);
        }
        world.wait(&mut now, &mut scheduler, TG);
        let expected: BTreeMap<u32, u64> = (1..=3).map(|n| (n, u64::from(n) * CELL + RECORD)).collect();
        assert_eq!(written(&world.actions()), expected, "{config:?}");
    }
}

/// In the prototype a channel without active circuits has priority -1 and precedes all other
/// channels.
#[test]
fn a_channel_without_circuits_is_written_but_not_chosen() {
    for config in all() {
        let (mut world, mut scheduler, mut now) = (World::with([1, 2]), config.build(), Instant::ZERO);
        world.control(now, &mut scheduler, 1);
        world.arrive(now, &mut scheduler, (2, 0), 3);
        world.wait(&mut now, &mut scheduler, TG);
        let actions = world.actions();
        assert_eq!(moved(&actions), [2, 2, 2], "{config:?}");
        assert_eq!(written(&actions)[&1], CELL + RECORD, "{config:?}");
    }
}

/// With equation 2 alone, a relay that has written nothing could never write.
#[test]
fn the_global_limit_starts_at_32_kib() {
    for limit in [GlobalLimitConfig::Drained, rate(None), GlobalLimitConfig::Measured] {
        let (mut world, mut scheduler) = (World::with([1, 2]), kist(limit).build());
        let mut now = Instant::ZERO;
        for channel in [1, 2] {
            world.at(channel).info.cwnd = 1000;
            world.arrive(now, &mut scheduler, (channel, 0), 1000);
        }
        world.wait(&mut now, &mut scheduler, TG);
        let bytes: u64 = written(&world.actions()).values().sum();
        assert!((31 << 10..33 << 10).contains(&bytes), "{limit:?}: {bytes}");
    }
}

/// The drained bytes are the previously queued bytes plus the written bytes minus the queued bytes.
/// A socket whose queue grows can also have drained.
#[test]
fn the_global_limit_is_the_maximum_drained_between_two_rounds() {
    let (mut world, mut scheduler) = (World::with([1, 2]), kist(GlobalLimitConfig::Drained).build());
    let mut now = Instant::ZERO;
    world.at(1).info = SocketInfo { capacity: Bytes::mib(4), cwnd: 4000, ..world.at(1).info };
    world.arrive(now, &mut scheduler, (1, 0), 100_000);
    let mut written_in_round = |world: &mut World, drained: u64| {
        world.drain(now, &mut scheduler, 1, drained);
        world.wait(&mut now, &mut scheduler, TG);
        written(&world.actions())[&1]
    };
    let near = |bytes: u64, limit: u64| bytes + CELL > limit && bytes < limit + CELL + RECORD;
    assert!(near(written_in_round(&mut world, 0), 32 << 10));
    assert!(near(written_in_round(&mut world, 0), 32 << 10));
    let before = world.at(1).info.queued.get();
    let bytes = written_in_round(&mut world, 50_000);
    assert!(near(bytes, 50_000), "{bytes}");
    assert!(near(written_in_round(&mut world, 10_000), 50_000), "a smaller value does not change the limit");
    assert!(world.at(1).info.queued.get() > before, "the queue grew");
}

#[test]
fn bytes_of_a_closed_connection_do_not_count_as_drained() {
    let (mut world, mut scheduler) = (World::with([1, 2]), kist(GlobalLimitConfig::Drained).build());
    let mut now = Instant::ZERO;
    for channel in [1, 2] {
        world.at(channel).info = SocketInfo { capacity: Bytes::mib(4), cwnd: 4000, ..world.at(channel).info };
    }
    world.arrive(now, &mut scheduler, (1, 0), 1000);
    world.wait(&mut now, &mut scheduler, TG * 4);
    assert!(world.at(1).info.queued > Bytes::kib(100));
    world.close(&mut scheduler, 1);
    world.actions();
    world.arrive(now, &mut scheduler, (2, 0), 1000);
    world.wait(&mut now, &mut scheduler, TG);
    assert!(written(&world.actions())[&2] < 33 << 10);
}

/// In the prototype's bucket, the limit of a round follows the maximum rate so far, in steps of 16
/// KiB.
#[test]
fn the_recovered_limit_follows_the_maximum_rate() {
    let known = Some(DataRate::kib(400));
    let (mut world, mut scheduler) = (World::with([1]), kist(rate(known)).build());
    let mut now = Instant::ZERO;
    world.at(1).info = SocketInfo { capacity: Bytes::mib(64), cwnd: 40_000, ..world.at(1).info };
    world.arrive(now, &mut scheduler, (1, 0), 100_000);
    let fired = world.wait(&mut now, &mut scheduler, Duration::from_secs(2));
    assert_eq!(fired.len(), 200, "one round every 10 ms");
    let writes: Vec<u64> = {
        let actions = world.actions();
        let mut rounds = vec![0];
        for act in actions {
            match act {
                Action::ReadKernel(_) => rounds.push(0),
                Action::Wrote(_, bytes) => *rounds.last_mut().unwrap() += bytes,
                Action::Moved(..) => {}
            }
        }
        rounds.into_iter().filter(|bytes| *bytes > 0).collect()
    };
    let total: u64 = writes.iter().sum();
    let expected = (32 << 10) + 2 * 400 * 1024;
    assert!(total.abs_diff(expected) < expected / 20, "{total} of {expected}");
    assert!(
        writes.iter().skip(1).all(|bytes| *bytes > 15 << 10),
        "the writes are steps of 16 KiB: {writes:?}"
    );
}

/// If the kernel, the window and the buckets block the relay, the scheduler only checks the window once per interval.
#[test]
fn a_blocked_relay_does_not_spin_and_resumes() {
    for config in all() {
        let (mut world, mut scheduler, mut now) = (World::with([1, 2]), config.build(), Instant::ZERO);
        world.tokens = Some(0);
        world.arrive(now, &mut scheduler, (1, 0), 40);
        let fired = world.wait(&mut now, &mut scheduler, TG * 100);
        assert_eq!(fired.len(), 1, "{config:?}: an empty bucket needs no timer");
        assert_eq!(world.throttled, [1]);
        world.refill(now, &mut scheduler, Some(5000));
        world.wait(&mut now, &mut scheduler, TG * 100);
        assert!((5000..5000 + CELL + RECORD).contains(&written(&world.actions())[&1]), "{config:?}");
        world.refill(now, &mut scheduler, None);
        world.wait(&mut now, &mut scheduler, TG * 2);
        assert!(!world.at(1).has_work(), "{config:?}");

        // Now the kernel buffer is full, but the window is not.
        world.at(2).info.queued = world.at(2).info.capacity;
        world.arrive(now, &mut scheduler, (2, 0), 100);
        let fired = world.wait(&mut now, &mut scheduler, TG * 100);
        let polled = matches!(config, SchedulerConfig::Kist(_));
        assert!(if polled { fired.len() == 100 } else { fired.len() == 1 }, "{config:?}: {}", fired.len());
        for _ in 0..100 {
            world.drain(now, &mut scheduler, 2, 4000);
            world.wait(&mut now, &mut scheduler, TG);
        }
        assert!(!world.at(2).has_work(), "{config:?}");
        assert_eq!(scheduler.poll_timeout(), None);
    }
}

/// A global scheduler fills the kernel, then 16 KiB of the output buffer. KIST leaves both empty
/// for the next round.
#[test]
fn a_global_scheduler_fills_16_kib_of_output_buffer_behind_a_full_kernel() {
    let (mut world, mut scheduler, mut now) = (World::with([1]), global().build(), Instant::ZERO);
    world.arrive(now, &mut scheduler, (1, 0), 1000);
    world.wait(&mut now, &mut scheduler, TG);
    assert_eq!(world.at(1).outbuf * CELL, 16 << 10);
    assert!(world.at(1).info.queued >= Bytes::kib(64) && world.at(1).wants);
    let (mut world, mut scheduler) = (World::with([1]), kist(GlobalLimitConfig::Off).build());
    world.arrive(now, &mut scheduler, (1, 0), 1000);
    world.wait(&mut now, &mut scheduler, TG);
    assert_eq!(world.at(1).outbuf, 0);
    let limit = 20 * 1448;
    assert!((limit - 1500..limit + CELL + RECORD).contains(&world.at(1).info.queued.get()));
}

#[test]
fn a_channel_that_closes_while_pending_is_removed() {
    for config in all() {
        let (mut world, mut scheduler, mut now) = (World::with([1, 2]), config.build(), Instant::ZERO);
        world.arrive(now, &mut scheduler, (1, 0), 50);
        world.close(&mut scheduler, 1);
        assert_eq!(scheduler.poll_timeout(), None, "{config:?}");
        for channel in [2, 1] {
            world.open(channel);
            world.arrive(now, &mut scheduler, (channel, 0), 50);
        }
        world.wait(&mut now, &mut scheduler, MS);
        world.close(&mut scheduler, 1);
        world.wait(&mut now, &mut scheduler, TG * 9);
        assert!(!world.at(2).has_work(), "{config:?}");
        world.open(1);
        world.arrive(now, &mut scheduler, (1, 2), 5);
        world.wait(&mut now, &mut scheduler, TG);
        assert!(!world.at(1).has_work(), "{config:?}: the key is used again");
    }
}

/// K-36: a round first writes remaining bytes, in the order in which the previous round scheduled
/// the channels.
#[test]
fn remaining_bytes_are_written_in_the_order_of_the_last_round() {
    let (mut world, mut scheduler) = (World::with([1, 2, 3]), kist(GlobalLimitConfig::Off).build());
    let mut now = Instant::ZERO;
    for (channel, sent) in [(3, 20), (1, 10), (2, 0)] {
        world.at(channel).circuits[0].sent = sent;
        world.at(channel).info.cwnd = 1;
        world.arrive(now, &mut scheduler, (channel, 0), 100);
    }
    world.wait(&mut now, &mut scheduler, TG);
    assert_eq!(moved(&world.actions()), [2, 2, 2, 1, 1, 1, 3, 3, 3]);
    for channel in [3, 1, 2] {
        world.control(now, &mut scheduler, channel);
    }
    world.wait(&mut now, &mut scheduler, TG);
    let first: Vec<u32> = written_in_order(&world.actions()).into_iter().take(3).collect();
    assert_eq!(first, [2, 1, 3]);
}

fn written_in_order(actions: &[Action]) -> Vec<u32> {
    let wrote = |act: &Action| if let Action::Wrote(channel, _) = act { Some(*channel) } else { None };
    actions.iter().filter_map(wrote).collect()
}

/// C tor runs KIST immediately if the last run was at least one interval ago. Otherwise C tor waits for the rest of the
/// interval.
#[test]
fn deployed_kist_runs_immediately_after_a_pause() {
    let (mut world, mut scheduler, mut now) = (World::with([1]), deployed(10).build(), Instant::from_secs(1));
    world.arrive(now, &mut scheduler, (1, 0), 1);
    assert_eq!(scheduler.poll_timeout(), Some(now));
    world.wait(&mut now, &mut scheduler, MS * 3);
    world.arrive(now, &mut scheduler, (1, 0), 1);
    assert_eq!(scheduler.poll_timeout(), Some(Instant::from_millis(1010)));
    world.wait(&mut now, &mut scheduler, MS * 20);
    world.arrive(now, &mut scheduler, (1, 0), 1);
    assert_eq!(scheduler.poll_timeout(), Some(now));
}

/// When C tor changes to a better channel, it writes the previous channel if more than eight cells
/// wait there. It writes all other channels at the end.
#[test]
fn deployed_kist_writes_a_channel_with_more_than_eight_cells_when_it_changes_channel() {
    let (mut world, mut scheduler, mut now) = (World::with([1, 2]), deployed(10).build(), Instant::ZERO);
    world.at(2).circuits[0].sent = 9;
    world.arrive(now, &mut scheduler, (1, 0), 10);
    world.arrive(now, &mut scheduler, (2, 0), 1);
    world.wait(&mut now, &mut scheduler, TG);
    let actions = world.actions();
    let actions: Vec<_> = actions.into_iter().filter(|act| !matches!(act, Action::ReadKernel(_))).collect();
    let mut expected = vec![Action::Moved(1, 0); 10];
    // The ninth cell makes both circuits equal. The circuit that was served less recently goes
    // first.
    expected.insert(9, Action::Moved(2, 0));
    expected.insert(9, Action::Wrote(1, 9 * CELL + 2 * RECORD));
    expected.extend([Action::Wrote(1, CELL + RECORD), Action::Wrote(2, CELL + RECORD)]);
    assert_eq!(actions, expected);
}

/// The limit permits whole cells of 543 bytes: 20 segments in flight, and 20 segments in the queue behind them.
#[test]
fn deployed_limits_match_c_tor() {
    let cells_in_a_run = |config: SchedulerConfig, change: fn(&mut SocketInfo), outbuf: u64| {
        let (mut world, mut scheduler, mut now) = (World::with([1]), config.build(), Instant::ZERO);
        change(&mut world.at(1).info);
        world.at(1).outbuf = outbuf;
        world.arrive(now, &mut scheduler, (1, 0), 1000);
        world.wait(&mut now, &mut scheduler, MS);
        moved(&world.actions()).len() as u64
    };
    let window = 20 * 1448;
    assert_eq!(cells_in_a_run(deployed(10), |_| {}, 0), 2 * window / 543);
    assert_eq!(cells_in_a_run(deployed(10), |info| info.unacked = 20, 0), window / 543);
    assert_eq!(cells_in_a_run(deployed(10), |info| info.unacked = 25, 0), window / 543);
    // If the send buffer is full, the remaining cells stay in the output buffer.
    let stuck: fn(&mut SocketInfo) =
        |info| (info.queued, info.not_sent) = (info.capacity, Bytes::new(10_000));
    assert_eq!(cells_in_a_run(deployed(10), stuck, 4), (2 * window - 12_048) / 543);
    assert_eq!(cells_in_a_run(deployed(10), |info| info.not_sent = Bytes::new(1 << 20), 0), 0);
    assert_eq!(cells_in_a_run(deployed(10), |info| info.mss = 0, 0), 0);
    assert_eq!(cells_in_a_run(lite(), |info| info.cwnd = 0, 0), 64);
    assert_eq!(cells_in_a_run(lite(), stuck, 10), 54);
    assert_eq!(cells_in_a_run(lite(), stuck, 70), 0);
}

/// K-39: the scheduler reads each socket at most once per round, and only sockets that matter.
#[test]
fn the_kernel_is_read_once_per_round_and_only_for_sockets_that_matter() {
    let asked = |config: SchedulerConfig| {
        let (mut world, mut scheduler, mut now) = (World::with([1, 2, 3]), config.build(), Instant::ZERO);
        world.arrive(now, &mut scheduler, (1, 0), 30);
        world.arrive(now, &mut scheduler, (2, 0), 30);
        world.wait(&mut now, &mut scheduler, TG);
        world.actions();
        // Channel 1 has sent its cells to the kernel, which still queues them. Channel 2 has more
        // cells. Channel 3 was never used.
        world.arrive(now, &mut scheduler, (2, 1), 30);
        world.wait(&mut now, &mut scheduler, TG);
        let asked = |act: &Action| if let Action::ReadKernel(channel) = act { Some(*channel) } else { None };
        world.actions().iter().filter_map(asked).collect::<Vec<_>>()
    };
    assert_eq!(asked(global()), []);
    assert_eq!(asked(lite()), []);
    assert_eq!(asked(deployed(10)), [2]);
    assert_eq!(asked(kist(GlobalLimitConfig::Off)), [2]);
    assert_eq!(asked(kist(GlobalLimitConfig::Drained)), [2, 1], "equation 2 sums over all channels");
}

#[derive(Clone, Debug)]
enum Operation {
    Arrive { channel: u32, circuit: usize, cells: u64 },
    Control(u32),
    Drain { channel: u32, bytes: u64 },
    Window { channel: u32, cwnd: u32, unacked: u32, not_sent: u64, peer: u64 },
    Refill(Option<u64>),
    Reopen(u32),
    Wait(u32),
}

const CHANNELS: u32 = 6;

fn operation() -> impl Strategy<Value = Operation> {
    let channel = 0..CHANNELS;
    prop_oneof![
        6 => (channel.clone(), 0usize..3, 1u64..60)
            .prop_map(|(channel, circuit, cells)| Operation::Arrive { channel, circuit, cells }),
        1 => channel.clone().prop_map(Operation::Control),
        5 => (channel.clone(), 0u64..40_000).prop_map(|(channel, bytes)| Operation::Drain { channel, bytes }),
        4 => (channel.clone(), 0u32..40, 0u32..40, 0u64..20_000, 0u64..80_000).prop_map(
            |(channel, cwnd, unacked, not_sent, peer)| Operation::Window { channel, cwnd, unacked, not_sent, peer }
        ),
        1 => prop_oneof![Just(None), (0u64..30_000).prop_map(Some)].prop_map(Operation::Refill),
        1 => channel.prop_map(Operation::Reopen),
        8 => (1u32..25).prop_map(Operation::Wait),
    ]
}

/// Applies any operation except the passing of time, which the reference handles itself.
fn apply(operation: &Operation, now: Instant, scheduler: &mut dyn Scheduler, world: &mut World) {
    match *operation {
        Operation::Arrive { channel, circuit, cells } => {
            world.arrive(now, scheduler, (channel, circuit), cells)
        }
        Operation::Control(channel) => world.control(now, scheduler, channel),
        Operation::Drain { channel, bytes } => world.drain(now, scheduler, channel, bytes),
        Operation::Window { channel, cwnd, unacked, not_sent, peer } => {
            let info = &mut world.at(channel).info;
            (info.cwnd, info.unacked) = (cwnd, unacked);
            (info.not_sent, info.peer_window) = (Bytes::new(not_sent), Bytes::new(peer));
        }
        Operation::Refill(tokens) => world.refill(now, scheduler, tokens),
        Operation::Reopen(channel) => {
            world.close(scheduler, channel);
            world.open(channel);
        }
        Operation::Wait(_) => unreachable!("the caller handles time"),
    }
}

/// All actions except reads of the kernel's state.
fn done(world: &World) -> Vec<Action> {
    world.actions().into_iter().filter(|act| !matches!(act, Action::ReadKernel(_))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// G-34: every scheduler makes the same decisions as the reference, cell by cell and write by write.
    #[test]
    fn every_scheduler_decides_like_the_reference(
        which in 0usize..9,
        alike: bool,
        operations in proptest::collection::vec(operation(), 0..150),
    ) {
        let config = all()[which].clone();
        let (mut scheduler, mut reference) = (config.build(), Reference::new(config.clone()));
        let mut worlds = [(); 2].map(|()| World { alike, ..World::with(0..CHANNELS) });
        let mut now = Instant::ZERO;
        for operation in operations {
            let [world, other] = &mut worlds;
            if let Operation::Wait(millis) = operation {
                let end = now + MS * millis;
                while let Some(due) = scheduler.poll_timeout() && due <= end {
                    prop_assert_eq!(reference.poll_timeout(), Some(due), "{:?}", config);
                    scheduler.on_timer(due, world);
                    world.notify(due, &mut scheduler);
                    reference.fire(due, other);
                    other.notify(due, &mut reference);
                    prop_assert_eq!(done(world), done(other), "{:?}", config);
                }
                now = end;
            } else {
                apply(&operation, now, &mut scheduler, world);
                apply(&operation, now, &mut reference, other);
            }
            prop_assert_eq!(done(world), done(other), "{:?} {:?}", config, operation);
            prop_assert_eq!(scheduler.poll_timeout(), reference.poll_timeout(), "{:?}", config);
            prop_assert_eq!(&world.channels, &other.channels);
        }
    }

    /// VE-18: in a round no channel exceeds its own limit and the sum does not exceed the global
    /// limit, except for the last record. No channel is lost: without limits, all queues are empty
    /// within two intervals for each buffer (G-36), and then no timer is set.
    #[test]
    fn limits_hold_and_no_channel_is_lost(
        which in 0usize..9,
        operations in proptest::collection::vec(operation(), 0..150),
    ) {
        let config = all()[which].clone();
        let (mut scheduler, mut world) = (config.build(), World::with(0..CHANNELS));
        let mut now = Instant::ZERO;
        let record = RECORD_CELLS * CELL + RECORD;
        let (mut most, mut queued) = (32 << 10, BTreeMap::<u32, u64>::new());
        for operation in operations {
            let Operation::Wait(millis) = operation else {
                if let Operation::Reopen(channel) = operation {
                    queued.remove(&channel);
                }
                apply(&operation, now, &mut scheduler, &mut world);
                world.actions();
                continue;
            };
            let end = now + MS * millis;
            while let Some(due) = scheduler.poll_timeout() && due <= end {
                let limits: BTreeMap<u32, u64> =
                    world.channels.iter().map(|(key, channel)| (*key, socket_limit(&channel.info).get())).collect();
                let in_kernel = |world: &World| -> BTreeMap<u32, u64> {
                    world.channels.iter().map(|(key, channel)| (*key, channel.info.queued.get())).collect()
                };
                let now_queued = in_kernel(&world);
                let drained = queued.iter().map(|(key, before)| before.saturating_sub(now_queued[key])).sum();
                most = u64::max(most, drained);
                scheduler.on_timer(due, &mut world);
                queued = in_kernel(&world);
                let actions = world.actions();
                world.notify(due, &mut scheduler);
                let written = written(&actions);
                if let SchedulerConfig::Kist(kist) = &config {
                    for (channel, bytes) in &written {
                        let limit = limits[channel];
                        prop_assert!(*bytes < limit + record && (limit > 0 || *bytes == 0), "{} of {}", bytes, limit);
                    }
                    if kist.global_limit == GlobalLimitConfig::Drained {
                        prop_assert!(written.values().sum::<u64>() < most + record, "{:?} of {}", written, most);
                    }
                }
                let mut asked: Vec<_> = actions.iter().filter(|act| matches!(act, Action::ReadKernel(_))).collect();
                let questions = asked.len();
                asked.dedup();
                prop_assert_eq!(asked.len(), questions, "each socket is read once");
            }
            now = end;
        }
        world.refill(now, &mut scheduler, None);
        for _ in 0..400 {
            for channel in 0..CHANNELS {
                world.at(channel).info.cwnd = 1000;
                (world.at(channel).info.unacked, world.at(channel).info.not_sent) = (0, Bytes::ZERO);
                world.drain(now, &mut scheduler, channel, u64::MAX);
            }
            world.wait(&mut now, &mut scheduler, TG * 2);
        }
        prop_assert!(world.channels.values().all(|channel| !channel.has_work()), "{:?} {:?}", config, world.channels);
        prop_assert_eq!(scheduler.poll_timeout(), None);
    }
}
