//! Circuits share a channel, and token buckets limit a relay (G-32, G-40, G-42).

use super::host::Moved;
use super::util::{Link, Net};
use crate::circuit_policy::{CircuitPolicyConfig, ConnectionConfig, EwmaConfig, Flush};
use crate::config::{Bandwidth, Refill};
use crate::edge_control::{EdgeControlConfig, WindowsConfig};
use crate::{CircId, RelayConfig};
use penstock_units::{Bytes, DataRate, Duration, Instant};

/// Three nodes in a chain. The channel between the first two is slow.
fn slow_path(config: &RelayConfig) -> Net {
    let mut net = Net::path(3, config);
    net.set_link(1, 2, Link { rate: DataRate::kib(100), send_buffer: 8 << 10, ..Link::default() });
    net
}

/// Three clients download over the slow channel for 20 s, after 5 s to fill the queues. Returns the circuit ids of the
/// channel's cells in order.
fn backlogged(config: &RelayConfig) -> (Net, Vec<CircId>) {
    let mut net = slow_path(config);
    let clients = [0, net.add(true, config.clone()), net.add(true, config.clone())];
    for client in clients {
        let circuit = net.build(client, &[1, 2, 3]);
        net.transfer(client, circuit, 3_000_000, 0);
    }
    net.drive_for(Duration::from_secs(5));
    let channel = net.channel(2, 1).expect("the channel is open");
    let from = net.nodes[2].host.writes.len();
    net.drive_for(Duration::from_secs(20));
    let writes = net.nodes[2].host.writes[from..].iter().filter(|moved| moved.channel == channel);
    let order = writes.flat_map(|moved| moved.ids.clone()).collect();
    (net, order)
}

/// G-32: the channel is the bottleneck and serves its backlogged circuits in turn.
#[test]
fn backlogged_circuits_take_turns_on_a_channel() {
    let (_, order) = backlogged(&RelayConfig::default());
    assert!(order.len() > 3000);
    for turn in order.windows(4) {
        assert_eq!(turn[0], turn[3], "the channel serves three circuits in turn");
        assert!(turn[0] != turn[1] && turn[1] != turn[2] && turn[2] != turn[0]);
    }
}

/// VC-12: a policy decides the order of cells, but not the throughput. A channel that always has cells carries the same
/// number of cells with every policy.
#[test]
fn the_throughput_of_a_backlogged_channel_is_the_same_with_every_policy() {
    let ewma = EwmaConfig { half_life: Duration::from_secs(5), ..EwmaConfig::default() };
    let carried = [
        CircuitPolicyConfig::RoundRobin,
        CircuitPolicyConfig::EwmaList(ewma),
        CircuitPolicyConfig::EwmaHeap(ewma),
        CircuitPolicyConfig::EwmaTick(ewma),
        CircuitPolicyConfig::EwmaHeap(EwmaConfig { flush: Flush::Queue, ..ewma }),
        CircuitPolicyConfig::EwmaConnection(ConnectionConfig::default()),
    ]
    .map(|circuit_policy| {
        let (net, order) = backlogged(&RelayConfig { circuit_policy, ..RelayConfig::default() });
        assert!(net.nodes[2].relay.queued().get() > 0, "the relay is still backlogged");
        order.len()
    });
    let (least, most) = (carried.iter().min().unwrap(), carried.iter().max().unwrap());
    assert!(*least > 3000 && most - least <= 1, "{carried:?} cells");
}

/// E-48: with whole queues, a choice moves all cells of a circuit, so cells of a circuit leave in long rows. All data
/// arrives.
#[test]
fn a_choice_moves_one_cell_or_the_whole_queue() {
    let row = |flush| {
        let circuit_policy = CircuitPolicyConfig::EwmaHeap(EwmaConfig { flush, ..EwmaConfig::default() });
        let (mut net, order) = backlogged(&RelayConfig { circuit_policy, ..RelayConfig::default() });
        let rows = order.chunk_by(|a, b| a == b).count();
        net.drive();
        assert!((0..net.transfers()).all(|transfer| net.at(transfer).is_complete()), "{flush:?}");
        order.len() / rows
    };
    assert_eq!(row(Flush::Cell), 1, "backlogged circuits take turns");
    let cells = row(Flush::Queue);
    assert!(cells > 20, "{cells} cells in a row");
}

/// EWMA §3.1: an operator changes the policy of a running relay. All queues stay and all data
/// arrives. The new policy takes effect: a web page shares the channel in turn with bulk circuits,
/// or overtakes them.
#[test]
fn a_policy_changed_at_run_time_keeps_queues_and_applies_to_later_cells() {
    let ewma = CircuitPolicyConfig::EwmaHeap(EwmaConfig {
        half_life: Duration::from_secs(30),
        ..EwmaConfig::default()
    });
    let page_takes = |policies: [CircuitPolicyConfig; 2]| {
        let [first, second] = policies;
        let config = RelayConfig { circuit_policy: first, ..RelayConfig::default() };
        let mut net = slow_path(&config);
        let clients = [(); 5].map(|()| net.add(true, RelayConfig::default()));
        for client in clients {
            let circuit = net.build(client, &[1, 2, 3]);
            net.transfer(client, circuit, 400_000, 0);
        }
        let light = net.build(0, &[1, 2, 3]);
        net.drive_for(Duration::from_secs(5));
        let (now, relay) = (net.now, &mut net.nodes[2].relay);
        let queued = relay.queued();
        relay.set_circuit_policy(now, second);
        assert!(queued.get() > 100 && relay.queued() == queued, "{queued:?}");
        // From here on, EWMA has counted only the cells of bulk circuits.
        net.drive_for(Duration::from_secs(3));
        let page = net.transfer(0, light, 20_000, 0);
        let begun = net.now;
        assert!(net.drive_until(|net| net.at(page).is_complete()));
        let took = net.now - begun;
        net.drive();
        assert!((0..net.transfers()).all(|transfer| net.at(transfer).is_complete()));
        took
    };
    let round_robin = CircuitPolicyConfig::RoundRobin;
    let stayed = page_takes([round_robin.clone(), round_robin.clone()]);
    let switched_on = page_takes([round_robin.clone(), ewma.clone()]);
    let switched_off = page_takes([ewma, round_robin]);
    assert!(switched_on * 3 < stayed * 2, "on {switched_on:?}, never on {stayed:?}");
    assert!(switched_on * 3 < switched_off * 2, "on {switched_on:?}, off {switched_off:?}");
}

#[test]
fn a_changed_half_life_does_not_replace_the_policy() {
    let config = |secs| EwmaConfig { half_life: Duration::from_secs(secs), ..EwmaConfig::default() };
    let heap = |secs| CircuitPolicyConfig::EwmaHeap(config(secs));
    assert_eq!(heap(30).only_half_life(&heap(5)), Some(Duration::from_secs(5)));
    assert_eq!(heap(30).only_half_life(&CircuitPolicyConfig::EwmaList(config(5))), None);
    assert_eq!(heap(30).only_half_life(&CircuitPolicyConfig::RoundRobin), None);
    let queue = CircuitPolicyConfig::EwmaHeap(EwmaConfig { flush: Flush::Queue, ..config(5) });
    assert_eq!(heap(30).only_half_life(&queue), None);
    let connection = |secs| {
        let half_life = Duration::from_secs(secs);
        CircuitPolicyConfig::EwmaConnection(ConnectionConfig { half_life, ..ConnectionConfig::default() })
    };
    assert_eq!(connection(30).only_half_life(&connection(5)), Some(Duration::from_secs(5)));
    assert_eq!(connection(30).only_half_life(&heap(5)), None);
    assert_eq!(CircuitPolicyConfig::RoundRobin.only_half_life(&heap(5)), None);
}

fn limited(rate_kib: u64, burst_kib: u64, refill: Refill) -> RelayConfig {
    let bandwidth = Some(Bandwidth { rate: DataRate::kib(rate_kib), burst: Bytes::kib(burst_kib) });
    let windows = WindowsConfig { circuit_window: 1000, ..WindowsConfig::default() };
    RelayConfig {
        bandwidth,
        refill,
        edge_control: EdgeControlConfig::Windows(windows),
        ..RelayConfig::default()
    }
}

fn assert_within(moved: &[Moved], rate: u64, burst: u64, interval: Duration, what: &str) {
    let sizes: Vec<(Instant, u64)> = moved
        .iter()
        .map(|moved| (moved.at, moved.ids.len() as u64 * 512))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let largest = sizes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    assert!(largest <= 16 << 10, "{what}: one call moved {largest} bytes, more than a quantum");
    for (first, (start, _)) in sizes.iter().enumerate() {
        let mut bytes = 0;
        for (at, size) in &sizes[first..] {
            bytes += size;
            let span = (*at - *start + interval).as_secs_f64();
            let allowed = burst as f64 + rate as f64 * span + f64::from(16 << 10);
            assert!(bytes as f64 <= allowed, "{what}: {bytes} bytes in {span} s, {allowed} allowed");
        }
    }
}

/// G-40: in every interval, reads and writes of a middle relay each stay below the rate. Over a long time, both reach
/// the rate.
#[test]
fn a_middle_relay_keeps_its_rate() {
    for (millis, phase) in [(1000, 0), (100, 33), (10, 0), (7, 3)] {
        let refill = Refill {
            interval: Duration::from_millis(millis),
            phase: Duration::from_millis(phase),
            unblock: None,
        };
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(2, limited(80, 80, refill));
        let circuit = net.build(0, &[1, 2, 3]);
        for _ in 0..3 {
            net.transfer(0, circuit, 10_000_000, 0);
        }
        net.drive_for(Duration::from_secs(30));
        let Net { nodes, .. } = &net;
        let host = &nodes[2].host;
        assert_within(&host.writes, 80 << 10, 80 << 10, refill.interval, "writes");
        assert_within(&host.reads, 80 << 10, 80 << 10, refill.interval, "reads");
        let counters = nodes[2].relay.counters();
        let written = counters.written_bytes.get() as f64 / 30.0;
        assert!(written >= 0.98 * f64::from(80 << 10), "{millis} ms: {written} B/s");
    }
}

#[test]
fn an_exit_charges_its_streams_to_the_same_buckets() {
    let refill = Refill { interval: Duration::from_millis(100), phase: Duration::ZERO, unblock: None };
    for (download, upload) in [(10_000_000, 0), (0, 10_000_000)] {
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(3, limited(50, 50, refill));
        let circuit = net.build(0, &[1, 2, 3]);
        let transfers = [0; 2].map(|_| net.transfer(0, circuit, download, upload));
        net.drive_for(Duration::from_secs(40));
        let received: u64 = transfers
            .iter()
            .map(|transfer| net.at(*transfer))
            .map(|at| at.download.received + at.upload.received)
            .sum();
        let rate = received as f64 / 40.0 / 1024.0;
        assert!((45.0..52.0).contains(&rate), "{rate} KiB/s");
    }
}

/// A relay whose bucket is smaller than a cell still moves cells, because a bucket may become negative.
#[test]
fn a_bucket_smaller_than_a_cell_still_moves_cells() {
    let mut net = Net::path(3, &RelayConfig::default());
    let bandwidth =
        Bandwidth { rate: DataRate::new(2000).expect("the rate is not zero"), burst: Bytes::new(100) };
    net.configure(2, RelayConfig { bandwidth: Some(bandwidth), ..RelayConfig::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 2000, 2000);
    net.drive();
    assert!(net.at(transfer).is_complete());
}
