//! H-07: KIST with a measured bandwidth, behind a link whose rate the relay does not know.

use super::world::{CELL, RECORD, World};
use super::{MS, TG, kist};
use crate::keys::ChannelKey;
use crate::scheduler::global_limit::GlobalLimit;
use crate::scheduler::{AnyScheduler, GlobalLimitConfig, Scheduler};
use penstock_units::{Bytes, Duration, Instant};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// A link without sockets: bytes wait, leave at the link's rate, and are acknowledged one round-trip time later.
struct Fluid {
    rate: u64,
    rtt: Duration,
    unsent: u64,
    /// Sent bytes, and when their ACK arrives [B].
    acks: VecDeque<(Instant, u64)>,
    sent: u64,
}

impl Fluid {
    fn new(rate: u64, rtt: Duration) -> Self {
        Fluid { rate, rtt, unsent: 0, acks: VecDeque::new(), sent: 0 }
    }

    /// Sends for one interval. Returns the bytes that are acknowledged in this time [B].
    fn pass(&mut self, now: Instant) -> u64 {
        for _ in 0..10 {
            let bytes = self.unsent.min(self.rate / 1000);
            (self.unsent, self.sent) = (self.unsent - bytes, self.sent + bytes);
            self.acks.push_back((now + self.rtt, bytes));
        }
        let mut acked = 0;
        while let Some((at, bytes)) = self.acks.front()
            && *at <= now
        {
            acked += bytes;
            self.acks.pop_front();
        }
        acked
    }
}

/// Rounds of a relay that always has cells, on a fluid link.
struct Relay {
    limit: GlobalLimit,
    now: Instant,
    link: Fluid,
    /// The estimate of the last round [B/s], once bytes have waited.
    estimate: u64,
}

impl Relay {
    fn new(link: Fluid) -> Self {
        let (limit, now) = (GlobalLimit::new(GlobalLimitConfig::Measured, TG), Instant::ZERO);
        Relay { limit, now, link, estimate: 0 }
    }

    /// Runs for a time. In each round, the relay has this many bytes. Returns the most bytes that waited after a round [B].
    fn run(&mut self, span: Duration, bytes: u64) -> u64 {
        let (end, mut most) = (self.now + span, 0);
        while self.now < end {
            self.now += TG;
            let acked = self.link.pass(self.now);
            self.limit.begin(self.now, Bytes::new(acked), Bytes::new(self.link.unsent));
            let left = self.limit.left().get();
            if left > 0 {
                self.estimate = (left + self.link.unsent) * 80;
            }
            let bytes = left.min(bytes);
            self.limit.charge(Bytes::new(bytes));
            self.link.unsent += bytes;
            most = most.max(self.link.unsent);
        }
        most
    }

    /// The link's bytes of one interval [B].
    fn interval(&self) -> u64 {
        self.link.rate / 100
    }
}

fn near(measured: u64, expected: u64, percent: u64) -> bool {
    measured.abs_diff(expected) * 100 <= expected * percent
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// From below, the first estimate rises. From above, the estimate of a faster link falls.
    #[test]
    fn the_estimate_converges_to_the_rate_of_the_link(
        faster in 0u64..20,
        // From 100 kB/s to 1 GB/s, at equal distances of the logarithm.
        exponent in 5.0f64..9.0,
        rtt_ms in 0u32..400,
    ) {
        let rate = penstock_units::math::pow(10.0, exponent) as u64;
        let mut relay = Relay::new(Fluid::new(rate * (1 + faster), MS * rtt_ms));
        if faster > 0 {
            relay.run(Duration::from_secs(20), u64::MAX);
            prop_assert!(relay.estimate * 10 > rate * (1 + faster) * 9, "{} is low", relay.estimate);
            relay.link.rate = rate;
        }
        relay.run(Duration::from_secs(20), u64::MAX);
        let sent = relay.link.sent;
        let most = relay.run(Duration::from_secs(5), u64::MAX);
        prop_assert!(near(relay.estimate, rate, 10), "{} of {rate}", relay.estimate);
        prop_assert!(near(relay.link.sent - sent, 5 * rate, 1), "the link is fully used");
        // The first of five quarters is what the link sends until the next round.
        prop_assert!(most <= relay.interval() * 14 / 10, "{most} B wait; an interval is {}", relay.interval());
    }
}

/// A limit that equals the largest output so far would never rise.
#[test]
fn a_too_low_estimate_reaches_a_fast_link_within_seconds() {
    let link = |rtt_ms| Fluid::new(125_000_000, MS * rtt_ms);
    for (rtt_ms, most) in [(0, 1), (100, 4), (200, 6)] {
        let mut relay = Relay::new(link(rtt_ms));
        while !near(relay.estimate, relay.link.rate, 10) {
            relay.run(TG, u64::MAX);
        }
        println!("round trip of {rtt_ms} ms: {:.2} s", relay.now.as_secs_f64());
        assert!(relay.now < Instant::from_secs(most), "{rtt_ms} ms: {:?}", relay.now);
        let most = relay.run(Duration::from_secs(20), u64::MAX);
        assert!(most <= relay.interval() * 14 / 10, "{most} B wait; an interval is {}", relay.interval());
    }
}

/// After bytes have waited once, the estimate rises with the factor 5/4, in one step for each window and round trip.
#[test]
fn the_least_estimate_reaches_a_fast_link_after_bytes_have_waited() {
    let fast = 125_000_000;
    for (rtt_ms, most) in [(0, 5), (100, 9), (200, 13)] {
        // The estimate of a link of 10 kB/s is the least one, 75 KiB/s.
        let mut relay = Relay::new(Fluid::new(10_000, MS * rtt_ms));
        relay.run(Duration::from_secs(60), u64::MAX);
        assert!(relay.estimate < 100_000, "{rtt_ms} ms: {}", relay.estimate);
        let changed = relay.now;
        relay.link.rate = fast;
        while !near(relay.estimate, fast, 10) {
            relay.run(TG, u64::MAX);
            assert!(relay.now.since(changed) < Duration::from_secs(most), "{rtt_ms} ms: {}", relay.estimate);
        }
        println!("after a slow link, {rtt_ms} ms: {:.2} s", relay.now.since(changed).as_secs_f64());
    }
}

#[test]
fn the_estimate_follows_a_link_that_changes_its_rate() {
    let mut relay = Relay::new(Fluid::new(10_000_000, MS * 50));
    relay.run(Duration::from_secs(10), u64::MAX);
    for rate in [1_000_000, 20_000_000] {
        relay.link.rate = rate;
        relay.run(Duration::from_secs(4), u64::MAX);
        assert!(near(relay.estimate, rate, 10), "{} of {rate}", relay.estimate);
    }
}

#[test]
fn the_estimate_stays_while_the_relay_has_little_to_send() {
    let mut relay = Relay::new(Fluid::new(10_000_000, MS * 50));
    relay.run(Duration::from_secs(10), u64::MAX);
    let before = relay.estimate;
    relay.run(Duration::from_secs(600), 1000);
    assert_eq!(relay.estimate, before);
    // Bytes that drained during a pause are no high rate.
    relay.link.unsent = 1_000_000;
    relay.now += Duration::from_secs(60);
    relay.run(Duration::from_secs(1), 0);
    assert!(near(relay.estimate, before, 1), "{} instead of {before}", relay.estimate);
}

/// A link that several sockets with large windows share in turn.
struct Link {
    rate: u64,
    rtt: Duration,
    /// Bytes that the link may send now [B].
    budget: u64,
    acks: VecDeque<(Instant, u32, u64)>,
    sent: BTreeMap<u32, u64>,
    in_flight: BTreeMap<u32, u64>,
    /// The socket whose turn it is.
    turn: u32,
    readers: BTreeMap<u32, Reader>,
}

/// A peer with a receive buffer that reads at a limited rate.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Bytes that the peer reads per second [B/s].
    rate: u64,
    buffer: u64,
    /// Bytes that arrived and are not read yet [B].
    unread: u64,
}

impl Reader {
    /// A peer with a receive buffer of 256 KiB.
    fn with(rate: u64) -> Self {
        Reader { rate, buffer: 256 << 10, unread: 0 }
    }
}

const MSS: u64 = 1448;

impl Link {
    fn new(rate: u64, rtt: Duration) -> Self {
        Link {
            rate,
            rtt,
            budget: 0,
            acks: VecDeque::new(),
            sent: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            turn: 0,
            readers: BTreeMap::new(),
        }
    }

    fn unsent(&self, world: &World, channel: u32) -> u64 {
        let in_flight = self.in_flight.get(&channel).copied().unwrap_or(0);
        world.channels[&channel].info.queued.get() - in_flight
    }

    /// The next segment of a socket [B], zero if none is permitted. A segment is sent whole.
    fn segment(&self, world: &World, channel: u32) -> u64 {
        let bytes = self.unsent(world, channel).min(MSS);
        let in_flight = self.in_flight.get(&channel).copied().unwrap_or(0);
        let room = world.channels[&channel].info.peer_window.get().saturating_sub(in_flight);
        if bytes <= room { bytes } else { 0 }
    }

    /// Peers read for one millisecond. The ACK that reports the new window needs no time.
    fn read(&mut self, world: &mut World) {
        for (channel, reader) in &mut self.readers {
            reader.unread = reader.unread.saturating_sub(reader.rate / 1000);
            world.at(*channel).info.peer_window = Bytes::new(reader.buffer - reader.unread);
        }
    }

    /// Sends for one millisecond, and acknowledges what was sent a round trip ago.
    fn pass(&mut self, now: Instant, world: &mut World) {
        while let Some((at, channel, bytes)) = self.acks.front().copied()
            && at <= now
        {
            self.acks.pop_front();
            *self.in_flight.entry(channel).or_default() -= bytes;
            world.at(channel).info.queued -= Bytes::new(bytes);
            if let Some(reader) = self.readers.get_mut(&channel) {
                reader.unread += bytes;
            }
        }
        self.read(world);
        self.budget += self.rate / 1000;
        let channels: Vec<u32> = world.channels.keys().copied().collect();
        let mut idle = 0;
        while idle < channels.len() {
            let channel = channels[self.turn as usize % channels.len()];
            let bytes = self.segment(world, channel);
            if bytes == 0 {
                idle += 1;
            } else if bytes <= self.budget {
                (idle, self.budget) = (0, self.budget - bytes);
                *self.sent.entry(channel).or_default() += bytes;
                *self.in_flight.entry(channel).or_default() += bytes;
                self.acks.push_back((now + self.rtt, channel, bytes));
            } else {
                break;
            }
            self.turn = (self.turn + 1) % channels.len() as u32;
        }
        if idle == channels.len() {
            self.budget = 0;
        }
        for channel in channels {
            let (not_sent, in_flight) =
                (self.unsent(world, channel), self.in_flight.get(&channel).copied().unwrap_or(0));
            let info = &mut world.at(channel).info;
            info.not_sent = Bytes::new(not_sent);
            info.unacked = in_flight.div_ceil(MSS) as u32;
            info.in_flight = info.unacked;
        }
    }
}

/// Runs a relay with endless cells on each channel. Returns the bytes that left per second [B/s], and the most unsent bytes
/// after a millisecond, without those of slow readers [B].
fn drive(
    scheduler: &mut AnyScheduler,
    world: &mut World,
    now: &mut Instant,
    link: &mut Link,
    seconds: u32,
) -> (u64, u64) {
    let sent = |link: &Link| link.sent.values().sum::<u64>();
    let (before, mut most) = (sent(link), 0);
    for _ in 0..seconds * 1000 {
        world.wait(now, scheduler, MS);
        link.pass(*now, world);
        let open = world.channels.keys().filter(|channel| !link.readers.contains_key(channel));
        most = most.max(open.map(|channel| link.unsent(world, *channel)).sum());
    }
    world.actions();
    ((sent(link) - before) / u64::from(seconds), most)
}

/// A relay whose sockets could take 40 MB at once.
fn relay_with(channels: u32) -> (AnyScheduler, World) {
    let (mut scheduler, mut world) = (kist(GlobalLimitConfig::Measured).build(), World::with(0..channels));
    for channel in 0..channels {
        let info = &mut world.at(channel).info;
        (info.capacity, info.cwnd) = (Bytes::mib(40), 30_000);
        world.arrive(Instant::ZERO, &mut scheduler, (channel, 0), 100_000_000);
    }
    (scheduler, world)
}

#[test]
fn sockets_share_a_link_of_unknown_rate_without_a_queue_in_the_kernel() {
    for (rate, rtt_ms) in [(500_000, 60), (2_000_000, 300), (12_000_000, 60)] {
        let (mut scheduler, mut world) = relay_with(5);
        let (mut now, mut link) = (Instant::ZERO, Link::new(rate, MS * rtt_ms));
        drive(&mut scheduler, &mut world, &mut now, &mut link, 8);
        let (measured, most) = drive(&mut scheduler, &mut world, &mut now, &mut link, 3);
        println!("{rate} B/s, {rtt_ms} ms: {measured} B/s, at most {most} B unsent");
        assert!(near(measured, rate, 2), "{rate} B/s, {rtt_ms} ms: {measured} B/s");
        // A segment of each socket and the last record come on top.
        let limit = rate / 100 * 3 / 2 + 5 * MSS + 8 * CELL + RECORD;
        assert!(most <= limit, "{rate} B/s, {rtt_ms} ms: {most} B instead of {limit} B");
    }
    // Without a limit, the kernel gets all that its buffers and windows permit.
    let (_, mut world) = relay_with(5);
    let mut scheduler = kist(GlobalLimitConfig::Off).build();
    for channel in 0..5 {
        scheduler.on_ready(Instant::ZERO, ChannelKey::first(channel), &mut world);
    }
    let (mut now, mut link) = (Instant::ZERO, Link::new(500_000, MS * 60));
    let (_, most) = drive(&mut scheduler, &mut world, &mut now, &mut link, 1);
    assert!(most > 100_000_000, "{most} B");
}

/// The kernel holds megabytes for peers that read slowly or not at all. They do not count against the other peers, whose
/// estimate and share do not change.
#[test]
fn slow_readers_do_not_stop_the_others() {
    let rate = 2_000_000;
    for percent in [0, 3, 10, 30] {
        let (mut scheduler, mut world) = relay_with(4);
        let (mut now, mut link) = (Instant::ZERO, Link::new(rate, MS * 60));
        drive(&mut scheduler, &mut world, &mut now, &mut link, 6);
        let slow = rate * percent / 100;
        // The second one of the four shares what the first one reads, so both together read `percent`.
        for channel in [0, 1] {
            link.readers.insert(channel, Reader::with(slow / 2));
            world.at(channel).info.capacity = Bytes::mib(1);
        }
        drive(&mut scheduler, &mut world, &mut now, &mut link, 10);
        let before = link.sent.clone();
        let (measured, most) = drive(&mut scheduler, &mut world, &mut now, &mut link, 20);
        let held = link.unsent(&world, 0) + link.unsent(&world, 1);
        let of = |channel: u32| (link.sent[&channel] - before[&channel]) / 20;
        println!(
            "{percent} %: {measured} B/s, others {} and {}; {most} B wait, {held} B are held",
            of(2),
            of(3)
        );
        assert!(near(measured, rate, 2), "{percent} %: {measured} B/s, {held} B held");
        assert!(near(of(0) + of(1), slow, 2), "{percent} %: {} B/s", of(0) + of(1));
        for channel in [2, 3] {
            assert!(near(of(channel), (rate - slow) / 2, 3), "{percent} %: {} B/s", of(channel));
        }
        assert!(held > 1_000_000, "{percent} %: {held} B held");
        assert!(most < rate / 100 * 2 + 4 * MSS + 8 * CELL + RECORD, "{percent} %: {most} B wait");
    }
}

/// A peer reads nothing for ten minutes, and the relay has nothing for others. Then the others get the same rate as before.
#[test]
fn a_stuck_peer_does_not_change_the_estimate() {
    let rate = 2_000_000;
    let (mut scheduler, mut world) = relay_with(2);
    let (mut now, mut link) = (Instant::ZERO, Link::new(rate, MS * 60));
    drive(&mut scheduler, &mut world, &mut now, &mut link, 6);
    link.readers.insert(0, Reader::with(0));
    world.at(0).info.capacity = Bytes::mib(1);
    world.at(1).circuits[0].cells = 0;
    drive(&mut scheduler, &mut world, &mut now, &mut link, 600);
    assert!(link.unsent(&world, 0) > 500_000);
    world.arrive(now, &mut scheduler, (1, 0), 100_000_000);
    let sent = link.sent[&1];
    drive(&mut scheduler, &mut world, &mut now, &mut link, 1);
    // After 600 s, the first round trip needs no new search for the rate.
    assert!(near(link.sent[&1] - sent, rate, 3), "{} B in the first second", link.sent[&1] - sent);
}
