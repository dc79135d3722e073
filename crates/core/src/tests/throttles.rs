//! Tests throttles in a guard (VD-14, VD-15). A throttle changes only the buckets of clients.

use super::host::Moved;
use super::util::Net;
use crate::channel_map::ChannelMapConfig;
use crate::config::{Bandwidth, Refill};
use crate::throttle::{
    Aggregate, BitSplittingConfig, ClientBuckets, Count, FlaggingConfig, StaticRateConfig, ThresholdConfig,
    ThrottleConfig,
};
use crate::{ChannelKey, RelayConfig};
use penstock_units::{Bytes, DataRate, Duration, time::nanos};

/// A burst that is larger than any rate of these tests permits in a second.
const BURST: Bytes = Bytes::kib(250);
const SLOW: ThrottleConfig = ThrottleConfig::Static(StaticRateConfig { rate: DataRate::kib(20) });

fn guard(throttle: ThrottleConfig, aggregate: Aggregate) -> RelayConfig {
    let client_buckets = ClientBuckets { burst: BURST, aggregate };
    let bandwidth = Some(Bandwidth { rate: DataRate::kib(400), burst: Bytes::kib(400) });
    RelayConfig { throttle, client_buckets, bandwidth, ..RelayConfig::default() }
}

/// A client, a guard that throttles, and two more relays.
fn path(config: RelayConfig) -> Net {
    let mut net = Net::path(3, &RelayConfig::default());
    net.configure(1, config);
    net
}

/// Checks the bytes of one channel in every interval: at most the burst, the rate times the
/// interval, one refill and one quantum.
fn assert_within(
    moved: &[Moved],
    channel: ChannelKey,
    rate: DataRate,
    interval: Duration,
    what: &str,
) -> u64 {
    let of_channel = moved.iter().filter(|moved| moved.channel == channel);
    let sizes: Vec<_> = of_channel.map(|moved| (moved.at, moved.ids.len() as u64 * 512)).collect();
    for (first, (start, _)) in sizes.iter().enumerate() {
        let mut sum = 0;
        for (at, bytes) in &sizes[first..] {
            sum += bytes;
            let refilled = rate.bytes_per_sec() * nanos(*at - *start + interval) / 1_000_000_000;
            assert!(sum <= BURST.get() + refilled + (16 << 10), "{what}: {sum} B in {:?}", *at - *start);
        }
    }
    sizes.iter().map(|(_, bytes)| bytes).sum()
}

/// VD-14: in each direction, a client gets at most its burst and its rate, for a fixed rate and for a rate that all
/// clients share.
#[test]
fn a_client_gets_its_burst_and_its_rate_and_no_more() {
    for millis in [1000, 100, 7] {
        let interval = Duration::from_millis(millis);
        let refill = Refill { interval, phase: interval / 3, unblock: None };
        let split = ThrottleConfig::BitSplitting(BitSplittingConfig { count: Count::All });
        // Two clients and one relay share 400 KiB/s.
        for (throttle, rate) in [(SLOW, DataRate::kib(20)), (split, DataRate::kib(134))] {
            for (download, upload) in [(50_000_000, 0), (0, 50_000_000)] {
                let mut net = path(RelayConfig { refill, ..guard(throttle.clone(), Aggregate::Connection) });
                let other = net.add(true, RelayConfig::default());
                net.build(other, &[1, 2, 3]);
                let circuit = net.build(0, &[1, 2, 3]);
                (0..3).for_each(|_| _ = net.transfer(0, circuit, download, upload));
                net.drive_for(Duration::from_secs(60));
                let channel = net.channel(1, 0).expect("the client is connected");
                let host = &net.nodes[1].host;
                let written = assert_within(&host.writes, channel, rate, interval, "written");
                let read = assert_within(&host.reads, channel, rate, interval, "read");
                let most = written.max(read) as f64 / 60.0;
                let floor = rate.bytes_per_sec() as f64 * 0.95;
                assert!(most > floor, "the client uses its rate: {most} B/s of {rate}, every {millis} ms");
            }
        }
    }
}

/// VD-15: a middle relay with a throttle does not throttle its channels, because their peers are relays.
#[test]
fn relays_are_never_throttled() {
    let rate = |node: usize| {
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(node, guard(SLOW, Aggregate::Connection));
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 50_000_000, 0);
        net.drive_for(Duration::from_secs(30));
        net.at(transfer).download.received / 30 / 1024
    };
    let [at_guard, at_middle, at_exit] = [1, 2, 3].map(rate);
    // 250 KiB of burst in 30 s add 8 KiB/s.
    assert!((24..29).contains(&at_guard), "{at_guard} KiB/s");
    assert!(at_middle > 300 && at_exit > 150, "{at_middle} and {at_exit} KiB/s");
}

/// A relay that is guard of some circuits and middle of others throttles only its clients.
#[test]
fn a_relay_throttles_its_clients_and_not_those_of_others() {
    let mut net = Net::path(3, &RelayConfig::default());
    net.configure(2, guard(SLOW, Aggregate::Connection));
    let second = net.add(true, RelayConfig::default());
    let circuits = [net.build(0, &[1, 2, 3]), net.build(second, &[2, 3])];
    let through = net.transfer(0, circuits[0], 50_000_000, 0);
    let own = net.transfer(second, circuits[1], 50_000_000, 0);
    net.drive_for(Duration::from_secs(30));
    let rate = |transfer: usize| net.at(transfer).download.received / 30 / 1024;
    assert!((24..29).contains(&rate(own)) && rate(through) > 250, "{} and {}", rate(own), rate(through));
}

/// The relay throttles a peer while the peer counts as a client, and stops when the peer counts as a relay.
#[test]
fn a_peer_is_throttled_while_it_counts_as_a_client() {
    for aggregate in [Aggregate::Connection, Aggregate::Address] {
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(2, guard(SLOW, aggregate));
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 500_000_000, 0);
        net.drive_for(Duration::from_secs(5));
        let channel = net.channel(2, 1).expect("the nodes are connected");
        let mut rate = |to_client: bool| {
            // A repeated call changes nothing.
            (0..2).for_each(|_| net.call(2, |relay, now, _| relay.set_to_client(now, channel, to_client)));
            let before = net.at(transfer).download.received;
            net.drive_for(Duration::from_secs(30));
            (net.at(transfer).download.received - before) / 30 / 1024
        };
        let [relay, client, again] = [false, true, false].map(&mut rate);
        assert!((24..29).contains(&client), "{client} KiB/s");
        assert!(relay > 250 && again > 250, "{relay} and {again} KiB/s");
    }
}

/// Four connections avoid a limit per connection, but not a limit per address.
#[test]
fn several_connections_of_one_address_share_a_limit() {
    let rate = |aggregate: Aggregate| {
        let mut net = path(guard(SLOW, aggregate));
        net.configure(0, RelayConfig { channel_map: ChannelMapConfig::PerCircuit, ..RelayConfig::default() });
        let circuits = [0; 4].map(|_| net.build(0, &[1, 2, 3]));
        assert_eq!(net.nodes[0].relay.population()[0], 4, "the client has four connections");
        let transfers = circuits.map(|circuit| net.transfer(0, circuit, 50_000_000, 0));
        net.drive_for(Duration::from_secs(60));
        transfers.map(|transfer| net.at(transfer).download.received).iter().sum::<u64>() / 60 / 1024
    };
    let [each, together] = [Aggregate::Connection, Aggregate::Address].map(rate);
    assert!((90..98).contains(&each), "{each} KiB/s");
    assert!((22..25).contains(&together), "{together} KiB/s");
}

/// When its last connection closes, the relay forgets an address. The next connection has a full
/// bucket.
#[test]
fn an_address_is_forgotten_with_its_last_connection() {
    let mut net = path(guard(SLOW, Aggregate::Address));
    for round in 0..3 {
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 50_000_000, 0);
        net.drive_for(Duration::from_secs(2));
        let received = net.at(transfer).download.received;
        assert!(received > 230_000, "round {round}: {received} B");
        net.disconnect(0, 1);
        net.drive_for(Duration::from_secs(1));
    }
}

/// An operator turns throttling on, changes it and turns it off. All connections and circuits stay.
#[test]
fn a_throttle_changed_at_run_time_keeps_connections_and_applies_from_then_on() {
    let mut net = path(guard(ThrottleConfig::None, Aggregate::Connection));
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 500_000_000, 0);
    let buckets = ClientBuckets { burst: BURST, aggregate: Aggregate::Connection };
    let mut phase = |throttle: ThrottleConfig| {
        net.call(1, |relay, now, _| relay.set_throttle(now, throttle, buckets));
        // The download first uses up the burst.
        net.drive_for(Duration::from_secs(10));
        let before = net.at(transfer).download.received;
        net.drive_for(Duration::from_secs(20));
        (net.at(transfer).download.received - before) / 20 / 1024
    };
    let free = phase(ThrottleConfig::None);
    let slow = phase(SLOW);
    let split = phase(ThrottleConfig::BitSplitting(BitSplittingConfig::default()));
    let again = phase(ThrottleConfig::None);
    assert!(free > 300 && again > 300, "{free} and {again} KiB/s");
    assert!((18..=20).contains(&slow), "{slow} KiB/s");
    // Headers and SENDMEs use a part of 200 KiB/s. A client and a relay share 400 KiB/s.
    assert!((180..=200).contains(&split), "{split} KiB/s");
    assert_eq!(net.nodes[1].relay.population()[..2], [2, 1]);
}

/// With each adaptive throttle, a guard throttles the bulk client and not the web client.
#[test]
fn a_bulk_client_is_throttled_and_a_web_client_is_not() {
    let half_life = Duration::from_secs(5);
    let flagging = FlaggingConfig { half_life, rate: DataRate::kib(10), ..FlaggingConfig::default() };
    let threshold = ThresholdConfig {
        fraction: 0.34,
        refresh: Duration::from_secs(10),
        floor: DataRate::kib(10),
        half_life,
        ..ThresholdConfig::default()
    };
    for throttle in [ThrottleConfig::Flagging(flagging), ThrottleConfig::Threshold(threshold)] {
        let mut net = path(guard(throttle, Aggregate::Connection));
        let others = [0; 2].map(|_| net.add(true, RelayConfig::default()));
        let bulk_client = net.build(0, &[1, 2, 3]);
        let web_client = others.map(|other| (other, net.build(other, &[1, 2, 3])));
        let bulk = net.transfer(0, bulk_client, 500_000_000, 0);
        net.drive_for(Duration::from_secs(40));
        let before = net.at(bulk).download.received;
        let mut pages = Vec::new();
        for _ in 0..10 {
            pages.extend(web_client.map(|(other, circuit)| net.transfer(other, circuit, 100_000, 0)));
            net.drive_for(Duration::from_secs(6));
        }
        assert!(pages.iter().all(|page| net.at(*page).is_complete()));
        let rate = (net.at(bulk).download.received - before) / 60 / 1024;
        assert!(rate < 100, "{rate} KiB/s, while 350 are free");
    }
}

/// A flag ends with its client: the next client with the same key has no flag.
#[test]
fn a_flag_ends_with_its_client() {
    let flagging = FlaggingConfig {
        half_life: Duration::from_secs(5),
        rate: DataRate::kib(10),
        penalty: 0.0,
        ..FlaggingConfig::default()
    };
    let mut net = path(guard(ThrottleConfig::Flagging(flagging), Aggregate::Connection));
    let other = net.add(true, RelayConfig::default());
    let circuit = net.build(0, &[1, 2, 3]);
    let bulk = net.transfer(0, circuit, 500_000_000, 0);
    net.drive_for(Duration::from_secs(50));
    let before = net.at(bulk).download.received;
    net.drive_for(Duration::from_secs(10));
    let rate = (net.at(bulk).download.received - before) / 10 / 1024;
    assert!(rate <= 10, "the flagged client has {rate} KiB/s");
    net.disconnect(0, 1);
    net.drive_for(Duration::from_secs(1));
    let circuit = net.build(other, &[1, 2, 3]);
    let page = net.transfer(other, circuit, 400_000, 0);
    net.drive_for(Duration::from_secs(8));
    assert!(net.at(page).is_complete(), "the page is larger than the burst and below the bulk threshold");
}

/// The threshold counts a client's uploads as throughput. An upload therefore continues at half of its rate.
#[test]
fn the_threshold_counts_uploads() {
    let threshold = ThresholdConfig {
        fraction: 0.6,
        refresh: Duration::from_secs(10),
        floor: DataRate::kib(10),
        ..ThresholdConfig::default()
    };
    let mut net = path(guard(ThrottleConfig::Threshold(threshold), Aggregate::Connection));
    let idle = net.add(true, RelayConfig::default());
    net.build(idle, &[1, 2, 3]);
    let circuit = net.build(0, &[1, 2, 3]);
    let upload = net.transfer(0, circuit, 0, 500_000_000);
    net.drive_for(Duration::from_secs(12));
    let before = net.at(upload).upload.received;
    net.drive_for(Duration::from_secs(7));
    let rate = (net.at(upload).upload.received - before) / 7 / 1024;
    assert!((100..250).contains(&rate), "{rate} KiB/s");
}

/// An operator changes the rate, turns it off and sets it again. All connections and circuits stay.
#[test]
fn a_rate_changed_at_run_time_keeps_connections_and_applies_from_then_on() {
    let slow = Bandwidth { rate: DataRate::kib(50), burst: Bytes::kib(50) };
    let fast = Bandwidth { rate: DataRate::kib(200), burst: Bytes::kib(200) };
    let mut net = path(RelayConfig { bandwidth: Some(slow), ..RelayConfig::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 500_000_000, 0);
    let mut phase = |bandwidth: Option<Bandwidth>| {
        net.call(1, |relay, now, _| relay.set_bandwidth(now, bandwidth));
        // A cell waits for the old rate no longer than until the next refill.
        net.drive_for(Duration::from_secs(5));
        let before = net.at(transfer).download.received;
        net.drive_for(Duration::from_secs(20));
        (net.at(transfer).download.received - before) / 20 / 1024
    };
    let rates = [Some(slow), Some(fast), None, Some(slow)].map(&mut phase);
    let [first, second, free, back] = rates;
    assert!((45..50).contains(&first) && (45..50).contains(&back), "{rates:?} KiB/s");
    assert!((180..200).contains(&second), "{rates:?} KiB/s");
    assert!(free > 1000, "{rates:?} KiB/s");
    assert_eq!(net.nodes[1].relay.population(), [2, 1, 0]);
}
