//! The out-of-memory handler closes the circuits with the oldest queues. Other circuits continue.

use super::cell::TestCell;
use super::host::Side;
use super::util::{Link, Net};
use crate::cell::{CircId, Command};
use crate::config::Limits;
use crate::{CircuitIndex, Direction, Kernel, PeerId, RelayConfig};
use penstock_units::{Bytes, DataRate, Duration, Instant};
use std::num::NonZeroU32;

/// A configuration whose memory limit allows `cells` queued cells.
fn limit(cells: u64) -> RelayConfig {
    let limits = Limits { memory: Some(Bytes::new(cells * 514)), ..Limits::default() };
    RelayConfig { limits, ..RelayConfig::default() }
}

/// A client, and one relay with this limit.
fn net(cells: u64) -> Net {
    let mut net = Net::path(1, &RelayConfig::default());
    net.configure(1, limit(cells));
    net
}

/// The client's closed circuits.
fn closed(net: &Net) -> Vec<CircuitIndex> {
    net.nodes[0].closed.iter().map(|(circuit, _)| *circuit).collect()
}

#[test]
fn the_circuits_with_the_oldest_unread_data_close_first() {
    // Each of six servers leaves a stream window of 500 cells unread. Five windows fit into memory.
    // The handler keeps nine tenths of the limit.
    let mut net = net(2600);
    let circuits: Vec<_> = (0..6).map(|_| net.build(0, &[1])).collect();
    let good = net.build(0, &[1]);
    for circuit in &circuits[..5] {
        let upload = net.transfer(0, *circuit, 0, 1_000_000);
        net.stall(upload, Side::Server, true);
        net.drive_for(Duration::from_secs(2));
    }
    assert_eq!((closed(&net), net.nodes[1].relay.counters().oom_closed), (vec![], 0));
    let upload = net.transfer(0, circuits[5], 0, 1_000_000);
    net.stall(upload, Side::Server, true);
    net.drive_for(Duration::from_secs(2));
    assert_eq!(closed(&net), [circuits[0]]);
    // A large transfer that the server reads immediately does not age.
    let transfer = net.transfer(0, good, 2_000_000, 2_000_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
    let oom_closed = net.nodes[1].relay.counters().oom_closed as usize;
    assert_eq!(closed(&net), circuits[..oom_closed]);
    assert!((1..3).contains(&oom_closed), "{oom_closed}");
}

#[test]
fn the_queue_of_a_slow_client_closes_before_younger_queues() {
    let mut net = net(380);
    let slow = net.add(true, RelayConfig::default());
    net.set_link(1, slow, Link { rate: DataRate::kib(4), send_buffer: 4 << 10, ..Link::default() });
    let (slow_circuit, circuit) = (net.build(slow, &[1]), net.build(0, &[1]));
    // A window of 500 cells waits. The exit's edge queue holds at most 256 of them.
    let download = net.transfer(slow, slow_circuit, 1_000_000, 0);
    net.drive_for(Duration::from_secs(3));
    assert!(net.nodes[1].relay.queued().get() > 200);
    let upload = net.transfer(0, circuit, 0, 100_000);
    net.stall(upload, Side::Server, true);
    net.drive_for(Duration::from_secs(5));
    assert_eq!((net.nodes[1].relay.counters().oom_closed, net.nodes[1].relay.queued().get()), (1, 0));
    net.stall(upload, Side::Server, false);
    net.drive();
    assert!(!net.at(download).is_complete() && net.at(upload).is_complete());
    assert_eq!((net.nodes[slow].closed.len(), closed(&net)), (1, vec![]), "its cells are the oldest");
}

#[test]
fn a_circuit_that_fills_all_memory_closes_itself() {
    let mut net = net(100);
    let circuit = net.build(0, &[1]);
    let upload = net.transfer(0, circuit, 0, 1_000_000);
    net.stall(upload, Side::Server, true);
    net.drive();
    assert_eq!(closed(&net), [circuit]);
    assert_eq!(net.nodes[1].relay.population()[1], 0);
    let circuit = net.build(0, &[1]);
    let upload = net.transfer(0, circuit, 0, 1_000_000);
    net.drive();
    assert!(net.at(upload).is_complete());
}

#[test]
fn the_older_queue_of_a_slow_reader_closes_before_a_younger_unread_queue() {
    // Two windows of 500 cells and one of 300 cells fit. A second one of 300 cells does not.
    let mut net = net(1400);
    let circuits: Vec<_> = (0..4).map(|_| net.build(0, &[1])).collect();
    let start = |net: &mut Net, circuit: usize, cells: u64| {
        let upload = net.transfer(0, circuits[circuit], 0, cells * 498);
        net.stall(upload, Side::Server, true);
        upload
    };
    let slow_uploads = [start(&mut net, 0, 2000), start(&mut net, 1, 2000)];
    net.drive_for(Duration::from_secs(10));
    slow_uploads.iter().for_each(|upload| net.stall(*upload, Side::Server, false));
    let unread = start(&mut net, 2, 300);
    for _ in 0..20 {
        slow_uploads.iter().for_each(|upload| net.allow_read(*upload, Side::Server, 498));
        net.drive_for(Duration::from_millis(100));
    }
    assert_eq!(closed(&net), []);
    start(&mut net, 3, 300);
    net.drive_for(Duration::from_secs(1));
    assert_eq!(closed(&net), circuits[..1]);
    net.stall(unread, Side::Server, false);
    net.drive_for(Duration::from_secs(1));
    assert!(net.at(unread).is_complete());
}

/// The size of a circuit in these tests [B].
const CIRCUIT: u64 = 8192;

/// A path with one relay, which has memory for 40 circuits.
fn limited() -> Net {
    let limits =
        Limits { memory: Some(Bytes::new(40 * CIRCUIT)), circuit: Bytes::new(CIRCUIT), ..Limits::default() };
    let mut net = Net::path(1, &RelayConfig::default());
    net.configure(1, RelayConfig { limits, ..RelayConfig::default() });
    net
}

#[test]
fn idle_circuits_use_memory_and_the_peer_with_most_memory_loses_circuits() {
    let mut net = limited();
    let flood = net.add(true, RelayConfig::default());
    net.set_link(1, flood, Link::default());
    let good: Vec<_> = (0..10).map(|_| net.build(0, &[1])).collect();
    for _ in 0..100 {
        net.build(flood, &[1]);
    }
    assert_eq!((closed(&net), net.nodes[1].relay.population()[1] <= 40), (vec![], true));
    assert!(net.nodes[1].relay.counters().oom_closed >= 70);
    let transfer = net.transfer(0, good[9], 100_000, 100_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
}

#[test]
fn many_hosts_of_one_network_lose_circuits_like_one_host() {
    let mut net = limited();
    for _ in 0..10 {
        net.build(0, &[1]);
    }
    let honest = net.nodes[1].relay.channels();
    for _ in 0..5 {
        let flood = net.add(true, RelayConfig::default());
        net.set_link(1, flood, Link::default());
        net.build(flood, &[1]);
        let node = &mut net.nodes[1];
        for channel in node.relay.channels().into_iter().filter(|channel| !honest.contains(channel)) {
            node.host.networks.insert(channel, 1 << 64);
        }
        // Each host has fewer circuits than the honest peer, but together they have more.
        for _ in 0..8 {
            net.build(flood, &[1]);
        }
    }
    assert!(net.nodes[1].relay.counters().oom_closed > 0);
    assert_eq!(closed(&net), vec![], "the honest peer keeps all circuits");
}

#[test]
fn a_peer_that_uses_memory_without_circuits_loses_its_channel() {
    let mut net = net(1000);
    let circuit = net.build(0, &[1]);
    let relay = &mut net.nodes[1].relay;
    assert!(relay.memory() < Bytes::new(1000 * 514));
    relay.set_driver_memory(Bytes::mib(1));
    net.transfer(0, circuit, 0, 1000);
    net.drive();
    let counters = net.nodes[1].relay.counters();
    assert!(counters.oom_closed > 0 && counters.oom_channels == 1, "{counters:?}");
}

#[test]
fn a_full_output_buffer_without_circuits_costs_other_peers_nothing() {
    let mut net = net(1000);
    // The link to this peer is so slow that the answers to its cells wait in the output buffer.
    let flood = net.add(true, RelayConfig::default());
    net.set_link(1, flood, Link { rate: DataRate::kib(1), send_buffer: 4 << 10, ..Link::default() });
    let honest: Vec<_> = (0..10).map(|_| net.build(0, &[1])).collect();
    net.build(flood, &[1]);
    for number in 0..1200 {
        // The relay refuses the circuit with DESTROY.
        let id = CircId(NonZeroU32::new((1 << 31) + 1000 + number).expect("the number is not zero"));
        net.inject(flood, 1, TestCell::malformed(id, Command::Create));
        net.drive_for(Duration::from_millis(1));
        if net.channel(1, flood).is_none() {
            break;
        }
    }
    let counters = net.nodes[1].relay.counters();
    assert_eq!((counters.oom_closed, counters.oom_channels), (1, 1), "only the flooding peer loses");
    assert!(net.channel(1, flood).is_none() && net.nodes[1].relay.memory() < Bytes::new(100 * 514));
    let transfer = net.transfer(0, honest[0], 100_000, 100_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
    assert_eq!(closed(&net), vec![]);
}

#[test]
fn a_stream_with_much_driver_memory_costs_other_peers_no_circuit() {
    let mut net = net(1000);
    let flood = net.add(true, RelayConfig::default());
    net.set_link(1, flood, Link::default());
    let honest: Vec<_> = (0..10).map(|_| net.build(0, &[1])).collect();
    let flooded = net.build(flood, &[1]);
    let download = net.transfer(flood, flooded, 1_000_000, 0);
    net.stall(download, Side::Client, true);
    net.drive_for(Duration::from_secs(1));
    let node = &mut net.nodes[1];
    let stream = *node.host.sockets.keys().next().expect("the download has a stream");
    // For example, a directory answer that the client does not read.
    let answer = Bytes::mib(2);
    node.host.stream_memory.insert(stream, answer);
    node.relay.set_driver_memory(answer);
    let transfer = net.transfer(0, honest[0], 100_000, 100_000);
    net.drive_for(Duration::from_secs(10));
    assert!(net.at(transfer).is_complete());
    assert_eq!((closed(&net), net.nodes[1].relay.counters().oom_closed), (vec![], 1));
}

#[test]
fn connections_without_a_channel_cost_only_their_own_network() {
    let mut net = limited();
    let honest: Vec<_> = (0..10).map(|_| net.build(0, &[1])).collect();
    // Eight hosts of a network use more memory than the honest host, but each of them uses less.
    let network = 1 << 64;
    let sizes: Vec<_> = (0..40).map(|n| ([network, network + n % 8], Bytes::new(CIRCUIT))).collect();
    let node = &mut net.nodes[1];
    node.relay.set_driver_memory(sizes.iter().map(|(_, size)| *size).sum());
    node.host.unfinished = sizes;
    let transfer = net.transfer(0, honest[0], 1000, 1000);
    net.drive();
    assert!(net.at(transfer).is_complete());
    let node = &net.nodes[1];
    assert_eq!((closed(&net), node.relay.counters().oom_closed), (vec![], 0));
    assert!((1..=26).contains(&node.host.unfinished.len()), "{:?}", node.host.unfinished.len());
    assert!(node.relay.memory() <= Bytes::new(40 * CIRCUIT));
}

#[test]
fn a_connection_that_another_holder_needs_costs_its_first_holder_no_circuit() {
    let mut net = limited();
    let honest: Vec<_> = (0..10).map(|_| net.build(0, &[1])).collect();
    let node = &mut net.nodes[1];
    let circuit = node.relay.circuits()[0];
    let (channel, _) = node.relay.leg(circuit, Direction::Backward).expect("they came on a channel");
    let (first, other) = (node.host.holder(channel), [1 << 64; 2]);
    let size = Bytes::new(31 * CIRCUIT);
    node.host.unfinished = vec![(first, size)];
    node.host.needed = Some((first, other));
    node.relay.set_driver_memory(size);
    let transfer = net.transfer(0, honest[0], 1000, 1000);
    net.drive();
    assert!(net.at(transfer).is_complete());
    let node = &net.nodes[1];
    assert_eq!((closed(&net), node.relay.counters().oom_closed), (vec![], 0));
    assert!(node.host.unfinished.is_empty(), "the connection ended as one of the other holder");
}

#[test]
fn a_channel_closes_with_the_connection_that_it_waits_for() {
    let mut net = limited();
    let node = &mut net.nodes[1];
    let channel = node.relay.accept_channel(Instant::ZERO, PeerId(99), false);
    node.host.unfinished = vec![([1 << 64; 2], Bytes::new(41 * CIRCUIT))];
    node.host.waiting = Some(channel);
    node.relay.set_driver_memory(Bytes::new(41 * CIRCUIT));
    assert!(net.nodes[1].relay.is_channel(channel));
    net.build(0, &[1]);
    assert!(!net.nodes[1].relay.is_channel(channel) && net.nodes[1].host.unfinished.is_empty());
}

#[test]
fn a_connected_channel_that_is_not_open_costs_other_peers_nothing() {
    let mut net = limited();
    let honest: Vec<_> = (0..10).map(|_| net.build(0, &[1])).collect();
    let node = &mut net.nodes[1];
    // For example, a link whose peer does not choose between datagrams and TLS.
    let channel = node.relay.accept_channel(Instant::ZERO, PeerId(99), false);
    let size = Bytes::new(39 * CIRCUIT);
    node.host.channel_memory.insert(channel, size);
    node.relay.set_driver_memory(size);
    let transfer = net.transfer(0, honest[0], 1000, 1000);
    net.drive();
    assert!(net.at(transfer).is_complete());
    let node = &net.nodes[1];
    let counters = node.relay.counters();
    assert_eq!((closed(&net), counters.oom_closed, counters.oom_channels), (vec![], 0, 1));
    assert!(!node.relay.is_channel(channel));
}
