//! Too much waits: the circuits close of which something has waited longest, and others go on.

use super::host::Side;
use super::util::{Link, Net};
use crate::config::Limits;
use crate::{CircuitIndex, RelayConfig};
use penstock_units::{Bytes, DataRate, Duration};

/// Room for so many cells.
fn room(cells: u64) -> RelayConfig {
    let limits = Limits { memory: Some(Bytes::new(cells * 514)), ..Limits::default() };
    RelayConfig { limits, ..RelayConfig::default() }
}

/// A path of one relay with so much room, and a client.
fn net(cells: u64) -> Net {
    let mut net = Net::path(1, &RelayConfig::default());
    net.configure(1, room(cells));
    net
}

/// The client's circuits that are gone.
fn gone(net: &Net) -> Vec<CircuitIndex> {
    net.nodes[0].closed.iter().map(|(circuit, _)| *circuit).collect()
}

#[test]
fn the_oldest_unread_circuits_close_first() {
    // A stream's window of 500 cells waits for each of six servers: five fit, and nine tenths are left when one more comes.
    let mut net = net(2600);
    let circuits: Vec<_> = (0..6).map(|_| net.build(0, &[1])).collect();
    let good = net.build(0, &[1]);
    for circuit in &circuits[..5] {
        let upload = net.transfer(0, *circuit, 0, 1_000_000);
        net.stall(upload, Side::Server, true);
        net.drive_for(Duration::from_secs(2));
    }
    assert_eq!((gone(&net), net.nodes[1].relay.counters().oom_closed), (vec![], 0));
    let upload = net.transfer(0, circuits[5], 0, 1_000_000);
    net.stall(upload, Side::Server, true);
    net.drive_for(Duration::from_secs(2));
    assert_eq!(gone(&net), [circuits[0]]);
    // A large transfer that is read at once does not age.
    let transfer = net.transfer(0, good, 2_000_000, 2_000_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
    let oom_closed = net.nodes[1].relay.counters().oom_closed as usize;
    assert_eq!(gone(&net), circuits[..oom_closed]);
    assert!((1..3).contains(&oom_closed), "{oom_closed}");
}

#[test]
fn cells_that_a_slow_client_leaves_in_their_queue_go_before_others() {
    let mut net = net(380);
    let slow = net.add(true, RelayConfig::default());
    net.set_link(1, slow, Link { rate: DataRate::kib(4), send_buffer: 4 << 10, ..Link::default() });
    let (slow_circuit, circuit) = (net.build(slow, &[1]), net.build(0, &[1]));
    // A window of 500 cells, of which the exit's edge queue holds 256 at most.
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
    assert_eq!((net.nodes[slow].closed.len(), gone(&net)), (1, vec![]), "its cells waited longest");
}

#[test]
fn a_circuit_that_fills_all_memory_closes_itself() {
    let mut net = net(100);
    let circuit = net.build(0, &[1]);
    let upload = net.transfer(0, circuit, 0, 1_000_000);
    net.stall(upload, Side::Server, true);
    net.drive();
    assert_eq!(gone(&net), [circuit]);
    assert_eq!(net.nodes[1].relay.population()[1], 0);
    let circuit = net.build(0, &[1]);
    let upload = net.transfer(0, circuit, 0, 1_000_000);
    net.drive();
    assert!(net.at(upload).is_complete());
}

#[test]
fn a_slow_reader_with_an_older_queue_closes_before_a_younger_one_that_reads_nothing() {
    // Two windows of 500 cells fit, and one of 300; another does not.
    let mut net = net(1400);
    let circuits: Vec<_> = (0..4).map(|_| net.build(0, &[1])).collect();
    let start = |net: &mut Net, circuit: usize, cells: u64| {
        let upload = net.transfer(0, circuits[circuit], 0, cells * 498);
        net.stall(upload, Side::Server, true);
        upload
    };
    let drips = [start(&mut net, 0, 2000), start(&mut net, 1, 2000)];
    net.drive_for(Duration::from_secs(10));
    drips.iter().for_each(|upload| net.stall(*upload, Side::Server, false));
    let waits = start(&mut net, 2, 300);
    for _ in 0..20 {
        drips.iter().for_each(|upload| net.feed(*upload, Side::Server, 498));
        net.drive_for(Duration::from_millis(100));
    }
    assert_eq!(gone(&net), []);
    start(&mut net, 3, 300);
    net.drive_for(Duration::from_secs(1));
    assert_eq!(gone(&net), circuits[..1]);
    net.stall(waits, Side::Server, false);
    net.drive_for(Duration::from_secs(1));
    assert!(net.at(waits).is_complete());
}

/// The size of a circuit in these tests [B].
const CIRCUIT: u64 = 8192;

#[test]
fn idle_circuits_count_and_the_holder_of_the_most_loses_its_own() {
    let limits =
        Limits { memory: Some(Bytes::new(40 * CIRCUIT)), circuit: Bytes::new(CIRCUIT), ..Limits::default() };
    let mut net = Net::path(1, &RelayConfig::default());
    net.configure(1, RelayConfig { limits, ..RelayConfig::default() });
    let flood = net.add(true, RelayConfig::default());
    net.set_link(1, flood, Link::default());
    let good: Vec<_> = (0..10).map(|_| net.build(0, &[1])).collect();
    for _ in 0..100 {
        net.build(flood, &[1]);
    }
    assert_eq!((gone(&net), net.nodes[1].relay.population()[1] <= 40), (vec![], true));
    assert!(net.nodes[1].relay.counters().oom_closed >= 70);
    let transfer = net.transfer(0, good[9], 100_000, 100_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
}

#[test]
fn a_holder_without_circuits_loses_its_channel() {
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
