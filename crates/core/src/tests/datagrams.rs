//! Tests paths over datagrams (G-50 to G-54). Each cell arrives once and in order, for any losses.

use super::host::Side;
use super::util::{Impairments, Link, Net};
use crate::cell::{CircId, Command};
use crate::circuit_policy::CircuitPolicyConfig;
use crate::config::{Bandwidth, Limits};
use crate::datagram::{Association, DatagramConfig, Downstream, MAX_EARLY, Message};
use crate::edge_control::{EdgeControlConfig, Ends, WindowsConfig};
use crate::hop_control::{
    BackTapConfig, ControlInterval, Counts, HopControlConfig, Judged, MarutConfig, MiddleWindow, N23Config,
    Occupancy, WindowConfig,
};
use crate::reason::DestroyReason;
use crate::scheduler::{GlobalConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig};
use crate::tests::cell::TestCell;
use crate::{CircuitIndex, Direction, RelayConfig, Violation};
use penstock_units::{Bytes, DataRate, Duration, Instant, Seed};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Datagrams without end-to-end windows.
fn over_datagrams(hop_control: HopControlConfig) -> RelayConfig {
    RelayConfig {
        hop_control,
        datagrams: Some(DatagramConfig::default()),
        circuit_policy: CircuitPolicyConfig::RoundRobin,
        edge_control: EdgeControlConfig::Windows(WindowsConfig {
            ends: Ends::Suppressed,
            ..WindowsConfig::default()
        }),
        ..RelayConfig::default()
    }
}

fn backtap() -> HopControlConfig {
    HopControlConfig::BackTap(BackTapConfig::default())
}

fn marut() -> MarutConfig {
    MarutConfig::default()
}

fn controls() -> Vec<HopControlConfig> {
    let marut_with = |change: fn(&mut MarutConfig)| {
        let mut config = marut();
        change(&mut config);
        HopControlConfig::Marut(config)
    };
    vec![
        backtap(),
        HopControlConfig::BackTap(BackTapConfig {
            window: WindowConfig { slow_start: Some(2), ..WindowConfig::default() },
            ..BackTapConfig::default()
        }),
        HopControlConfig::BackTap(BackTapConfig { judged: Judged::Report, ..BackTapConfig::default() }),
        marut_with(|_| {}),
        marut_with(|config| config.counts = Counts::Path),
        marut_with(|config| {
            config.counts = Counts::Path;
            config.window.slow_start = Some(2);
            config.interval = ControlInterval::Hop;
        }),
        marut_with(|config| config.middle = MiddleWindow::Own),
        marut_with(|config| {
            (config.occupancy, config.quantum, config.memory) = (Occupancy::Window, 64, None)
        }),
        marut_with(|config| config.queue_cap = Some(5)),
        HopControlConfig::N23(N23Config::default()),
        HopControlConfig::None,
    ]
}

fn retransmitted(net: &Net) -> u64 {
    net.nodes.iter().map(|node| node.relay.datagram_counters().again).sum()
}

fn assert_at_rest(net: &Net) {
    for node in &net.nodes {
        assert_eq!(node.relay.unacknowledged(), 0);
        assert!(node.closed.is_empty(), "no circuit is closed: {:?}", node.closed);
    }
    // All channels use datagrams, so each cell that left a node arrived at the next node (G-01).
    let counters = net.nodes.iter().map(|node| node.relay.counters());
    let (sent, received) = counters.fold((0, 0), |sum, of| (sum.0 + of.sent, sum.1 + of.received));
    assert_eq!(sent, received);
}

#[test]
fn every_hop_control_carries_bulk_and_web_both_ways_without_retransmission() {
    for control in controls() {
        let mut net = Net::path(3, &over_datagrams(control.clone()));
        net.link.send_buffer = 4 << 20;
        let circuit = net.build(0, &[1, 2, 3]);
        let bulk = net.transfer(0, circuit, 300_000, 150_000);
        for _ in 0..2 {
            let page = net.transfer(0, circuit, 10_000, 500);
            assert!(net.drive_until(|net| net.at(page).is_complete()), "{control:?}");
        }
        net.drive();
        assert!(net.at(bulk).is_complete(), "{control:?}");
        assert_at_rest(&net);
        assert_eq!(retransmitted(&net), 0, "{control:?}");
    }
}

/// Every scheduler writes datagrams, also KIST, although a datagram channel has no TCP state that KIST could read.
#[test]
fn every_scheduler_writes_datagrams() {
    let schedulers = [
        SchedulerConfig::Global(GlobalConfig::default()),
        SchedulerConfig::Kist(KistConfig::default()),
        SchedulerConfig::KistDeployed(KistDeployedConfig::default()),
        SchedulerConfig::KistLite(KistLiteConfig::default()),
    ];
    for scheduler in schedulers {
        let bandwidth = Bandwidth { rate: DataRate::kib(200), burst: Bytes::kib(200) };
        let config = RelayConfig { scheduler, bandwidth: Some(bandwidth), ..over_datagrams(backtap()) };
        let mut net = Net::path(3, &config);
        let circuit = net.build(0, &[1, 2, 3]);
        net.transfer(0, circuit, 300_000, 150_000);
        net.drive();
        assert!(net.at(0).is_complete());
        assert_at_rest(&net);
    }
}

/// A peer cannot leave KIST's rounds by an offer of datagrams that do not travel over UDP.
#[test]
fn a_channel_whose_datagrams_travel_over_tcp_waits_for_rounds() {
    let interval = Duration::from_millis(100);
    let scheduler =
        SchedulerConfig::KistDeployed(KistDeployedConfig { interval, ..KistDeployedConfig::default() });
    let datagrams = Some(DatagramConfig { coalesce_delay: Duration::ZERO, ..DatagramConfig::default() });
    let shortest_pause = |tunnels: bool| {
        let config = over_datagrams(HopControlConfig::None);
        let mut net = Net::path(2, &RelayConfig { datagrams, ..config.clone() });
        net.configure(1, RelayConfig { datagrams, scheduler: scheduler.clone(), ..config });
        net.link.send_buffer = 4 << 20;
        net.nodes[1].host.tunnels = tunnels;
        let circuit = net.build(0, &[1, 2]);
        let begin = net.now;
        let transfer = net.transfer(0, circuit, 0, 400_000);
        net.drive();
        assert!(net.at(transfer).is_complete());
        let next = net.channel(1, 2);
        let writes = net.nodes[1].host.writes.iter();
        let mut times: Vec<_> = writes
            .filter(|write| write.at > begin && Some(write.channel) == next && !write.ids.is_empty())
            .map(|write| write.at)
            .collect();
        times.dedup();
        times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap()
    };
    assert!(shortest_pause(false) < interval / 10);
    assert!(shortest_pause(true) >= interval);
}

#[test]
fn every_node_frees_a_closed_circuit_despite_losses() {
    for seed in 0..20 {
        let mut net = Net::path(3, &over_datagrams(backtap()));
        net.impairments =
            Impairments { loss: 0.3, delayed: 0.2, duplicated: 0.1, rng: Seed(seed).stream("weather") };
        let circuit = net.build(0, &[1, 2, 3]);
        let bulk = net.transfer(0, circuit, 1_000_000, 100_000);
        assert!(net.drive_until(|net| net.at(bulk).download.received > 20_000));
        net.call(0, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::NONE, host));
        net.drive();
        for node in &net.nodes {
            assert_eq!(node.relay.population()[1..], [0, 0]);
            assert_eq!(node.relay.unacknowledged(), 0, "seed {seed}");
        }
        // The next circuit works on the same channels.
        let circuit = net.build(0, &[1, 2, 3]);
        let page = net.transfer(0, circuit, 20_000, 500);
        assert!(net.drive_until(|net| net.at(page).is_complete()));
    }
}

/// If a node has no datagrams, its channels use TCP. The other channels use datagrams.
#[test]
fn every_partly_upgraded_path_carries_all_data() {
    for subset in 0u32..16 {
        let mut net = Net::path(3, &RelayConfig::default());
        for node in (0..4).filter(|node| subset >> node & 1 == 1) {
            let config = over_datagrams(backtap());
            net.configure(node, RelayConfig { edge_control: EdgeControlConfig::default(), ..config });
        }
        let circuit = net.build(0, &[1, 2, 3]);
        let bulk = net.transfer(0, circuit, 300_000, 150_000);
        net.drive();
        assert!(net.at(bulk).is_complete(), "{subset:04b}");
        let uses = (0..4).map(|node| net.nodes[node].relay.datagram_counters().sent > 0);
        let both = |one: usize, other: usize| subset >> one & subset >> other & 1 == 1;
        let expected =
            (0..4).map(|node| (node > 0 && both(node - 1, node)) || (node < 3 && both(node, node + 1)));
        assert!(uses.eq(expected), "{subset:04b}");
    }
}

/// G-54: each queue stays below the window of the sender before it.
#[test]
fn a_reader_that_stops_stops_the_sender_and_queues_stay_below_their_windows() {
    for control in [backtap(), HopControlConfig::Marut(MarutConfig { counts: Counts::Path, ..marut() })] {
        let mut net = Net::path(3, &over_datagrams(control));
        net.link.send_buffer = 4 << 20;
        let circuit = net.build(0, &[1, 2, 3]);
        let upload = net.transfer(0, circuit, 0, 20_000_000);
        net.drive_for(Duration::from_secs(20));
        // Behind the exit only the server's buffer holds data.
        net.stall(upload, Side::Server, true);
        net.drive_for(Duration::from_secs(3));
        let sent = net.at(upload).upload.sent;
        net.drive_for(Duration::from_secs(20));
        assert_eq!(net.at(upload).upload.sent, sent, "the client reads no more data");
        for node in 0..3 {
            let here = net.circuit_at(0, circuit, node).unwrap();
            let window = net.nodes[node].relay.hop_window(here, Direction::Forward).unwrap();
            assert!(window.get() > 2, "{window:?}");
            let there = net.circuit_at(0, circuit, node + 1).unwrap();
            let queue = net.nodes[node + 1].relay.circuit_queue(there, Direction::Forward).unwrap();
            assert!(queue <= window, "{queue:?} wait behind a window of {window:?}");
        }
        net.stall(upload, Side::Server, false);
        net.drive();
        assert!(net.at(upload).is_complete());
        assert_at_rest(&net);
    }
}

/// Delivers a forged datagram from `from` at `node`.
fn inject_forged(net: &mut Net, from: usize, node: usize, forge: impl Fn(u16) -> Message<TestCell>) {
    let channel = net.channel(node, from).expect("the nodes are connected");
    let end = net.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
    // The client opened the channel, so this is the id of its first circuit.
    end.received_datagrams.push_back(vec![forge(0x8001)]);
    net.call(node, |relay, now, host| relay.on_readable(now, channel, host));
}

#[test]
fn a_peer_that_forges_feedback_loses_only_its_circuit() {
    let feedback = |ack, forwarded| {
        move |circuit| Message::Feedback {
            circuit,
            ack,
            forwarded,
            hole: false,
            downstream: Downstream::default(),
        }
    };
    let id = CircId(NonZeroU32::new(1 << 31 | 1).unwrap());
    let far =
        move |circuit| Message::Data { circuit, seq: 5000, body: TestCell::malformed(id, Command::Relay) };
    type Forgery = Box<dyn Fn(u16) -> Message<TestCell>>;
    let forgeries: [(Forgery, Option<Violation>); 4] = [
        (Box::new(feedback(900, 0)), Some(Violation::ForgedAcknowledgement)),
        (Box::new(feedback(1, 900)), Some(Violation::ForgedAcknowledgement)),
        (Box::new(far), Some(Violation::TooFarAhead)),
        (Box::new(|circuit| Message::Gone { circuit }), None),
    ];
    for (forge, violation) in forgeries {
        let mut net = Net::path(2, &over_datagrams(backtap()));
        let circuit = net.build(0, &[1, 2]);
        let other = net.build(0, &[1, 2]);
        net.transfer(0, circuit, 500_000, 0);
        net.drive_for(Duration::from_millis(500));
        inject_forged(&mut net, 0, 1, &forge);
        assert_eq!(net.nodes[1].closed.last().map(|(_, violation)| *violation), Some(violation));
        let page = net.transfer(0, other, 20_000, 500);
        net.drive();
        assert!(net.at(page).is_complete(), "the other circuit continues");
        assert_eq!(net.nodes.iter().map(|node| node.relay.unacknowledged()).sum::<u64>(), 0);
    }
}

#[test]
fn datagrams_about_unknown_circuits_fill_no_memory() {
    let mut net = Net::path(2, &over_datagrams(backtap()));
    net.build(0, &[1, 2]);
    let channel = net.channel(1, 0).unwrap();
    let id = CircId(NonZeroU32::new(77).unwrap());
    for round in 0..200u16 {
        let end = net.nodes[1].host.ends.get_mut(&channel).unwrap();
        let data = |circuit| Message::Data { circuit, seq: 3, body: TestCell::malformed(id, Command::Relay) };
        let probe = |circuit| Message::Probe { circuit };
        end.received_datagrams.push_back(vec![
            data(round),
            probe(round.wrapping_mul(31)),
            Message::Gone { circuit: round },
        ]);
        end.received_datagrams.push_back(vec![Message::Feedback {
            circuit: 500 + round,
            ack: 7,
            forwarded: 7,
            hole: true,
            downstream: Downstream::default(),
        }]);
    }
    let before = net.nodes[1].relay.datagram_counters().sent;
    net.call(1, |relay, now, host| relay.on_readable(now, channel, host));
    net.drive();
    let sent = net.nodes[1].relay.datagram_counters().sent - before;
    assert!((1..100).contains(&sent), "{sent} datagrams for 400");
    assert_eq!(net.nodes[1].relay.population()[1], 1, "the honest circuit stays");
}

/// A peer closes a circuit while its cells wait for the kernel. These cells must not start a new
/// circuit with the same number.
#[test]
fn cells_of_a_circuit_that_the_peer_closed_are_not_sent() {
    let mut association: Association<TestCell> = Association::new(DatagramConfig::default());
    let id = CircId(NonZeroU32::new(1).unwrap());
    let cell = |command| TestCell::malformed(id, command);
    let mut outbuf = VecDeque::from([cell(Command::Create), cell(Command::Relay)]);
    let mut sent = 0;
    let mut flush = |association: &mut Association<TestCell>, outbuf: &mut VecDeque<TestCell>| {
        association.flush(Instant::ZERO, outbuf, Bytes::mib(1), |messages| {
            sent += messages.count();
            Bytes::new(1000)
        });
        std::mem::take(&mut sent)
    };
    assert_eq!(flush(&mut association, &mut outbuf), 2);
    association.remove_circuit(id);
    outbuf.extend([cell(Command::Relay), cell(Command::Relay), cell(Command::Destroy)]);
    assert_eq!(flush(&mut association, &mut outbuf), 0);
    assert_eq!((outbuf.len(), association.unacknowledged(), association.early()), (0, 0, 0));
    outbuf.extend([cell(Command::Create), cell(Command::Relay)]);
    assert_eq!(flush(&mut association, &mut outbuf), 2, "the number is free again");
}

/// Each circuit and each channel limits the cells that wait for missing cells. A closed circuit frees its waiting
/// cells.
#[test]
fn cells_received_out_of_order_fill_no_memory() {
    let mut association: Association<TestCell> = Association::new(DatagramConfig::default());
    let (mut cells, mut notes) = (VecDeque::new(), Vec::new());
    let id = |circuit: u32| CircId(NonZeroU32::new(circuit).unwrap());
    for circuit in 1..=10u16 {
        let body = || TestCell::malformed(id(circuit.into()), Command::Relay);
        let create = TestCell::malformed(id(circuit.into()), Command::Create);
        let first = Message::Data { circuit, seq: 0, body: create };
        let early = (2..=2000).map(|seq| Message::Data { circuit, seq, body: body() });
        let messages = std::iter::once(first).chain(early);
        association.on_datagram(Instant::ZERO, messages, &mut cells, &mut notes);
    }
    assert_eq!((association.early(), cells.len(), notes.len()), (MAX_EARLY, 10, 0));
    // The relay still accepts the missing cell, and then all cells after it.
    let missing = Message::Data { circuit: 1, seq: 1, body: TestCell::malformed(id(1), Command::Relay) };
    association.on_datagram(Instant::ZERO, [missing], &mut cells, &mut notes);
    assert_eq!((association.early(), cells.len()), (MAX_EARLY - 1999, 10 + 2000));
    (1..=10).for_each(|circuit| association.remove_circuit(id(circuit)));
    assert_eq!(association.early(), 0);
}

/// A relay over datagrams with memory for this number of cells, its client, and another client.
fn with_memory(cells: u64) -> (Net, usize) {
    let limits = Limits { memory: Some(Bytes::new(cells * 514)), ..Limits::default() };
    let mut net = Net::path(1, &over_datagrams(backtap()));
    net.configure(1, RelayConfig { limits, ..over_datagrams(backtap()) });
    let flood = net.add(true, over_datagrams(backtap()));
    net.set_link(1, flood, Link::default());
    (net, flood)
}

/// Whether the first client can still use this circuit, and has lost none.
fn works(net: &mut Net, circuit: CircuitIndex) -> bool {
    let transfer = net.transfer(0, circuit, 20_000, 20_000);
    net.drive_for(Duration::from_secs(30));
    net.at(transfer).is_complete() && net.nodes[0].closed.is_empty()
}

#[test]
fn early_cells_of_a_peer_cost_only_this_peer_circuits() {
    let (mut net, flood) = with_memory(4000);
    let honest: Vec<_> = (0..5).map(|_| net.build(0, &[1])).collect();
    let floods: Vec<_> = (0..4u16).map(|_| net.build(flood, &[1])).collect();
    let before = net.nodes[1].relay.memory();
    for circuit in 0x8001..=0x8004u16 {
        let id = CircId(NonZeroU32::new(1 << 31 | u32::from(circuit & 0x7fff)).unwrap());
        // CREATE has number 0. Number 1 never arrives.
        for seq in 2..1900 {
            let body = TestCell::malformed(id, Command::Relay);
            net.deliver(flood, 1, vec![Message::Data { circuit, seq, body }]);
            net.drive_for(Duration::from_micros(10));
            let memory = net.nodes[1].relay.memory();
            assert!(memory <= Bytes::new(4000 * 514), "{memory:?}");
        }
        assert!(circuit > 0x8001 || net.nodes[1].relay.memory() > before + Bytes::new(1800 * 514));
    }
    net.drive_for(Duration::from_secs(10));
    assert!((1..=4).contains(&net.nodes[1].relay.counters().oom_closed));
    assert_eq!(net.nodes[flood].closed.len() as u64, net.nodes[1].relay.counters().oom_closed);
    assert!(floods.iter().any(|circuit| net.nodes[flood].closed.iter().any(|(other, _)| other == circuit)));
    assert!(works(&mut net, honest[4]));
}

#[test]
fn unacknowledged_cells_of_a_peer_cost_only_this_peer_circuits() {
    let (mut net, flood) = with_memory(400);
    let honest = net.build(0, &[1]);
    // The relay refuses each circuit, and the peer acknowledges no DESTROY.
    let channel = {
        net.build(flood, &[1]);
        net.channel(1, flood).unwrap()
    };
    for circuit in 0x8100..0x8400u16 {
        let id = CircId(NonZeroU32::new(1 << 31 | u32::from(circuit & 0x7fff)).unwrap());
        let body = TestCell::malformed(id, Command::Create);
        let Some(end) = net.nodes[1].host.ends.get_mut(&channel) else { break };
        end.received_datagrams.push_back(vec![Message::Data { circuit, seq: 0, body }]);
        net.call(1, |relay, now, host| relay.on_readable(now, channel, host));
        let memory = net.nodes[1].relay.memory();
        assert!(memory <= Bytes::new(400 * 514), "{memory:?}");
    }
    assert!(net.nodes[1].relay.counters().oom_channels > 0, "the flooding peer loses its channel");
    assert!(works(&mut net, honest));
    assert_eq!(net.nodes[1].relay.unacknowledged(), 0);
}

#[test]
fn the_memory_of_cells_in_flight_is_free_after_their_acknowledgement() {
    let (mut net, _) = with_memory(4000);
    let circuit = net.build(0, &[1]);
    net.drive();
    let before = net.nodes[1].relay.memory();
    let bulk = net.transfer(0, circuit, 1_000_000, 100_000);
    let mut most = before;
    while !net.at(bulk).is_complete() {
        net.drive_for(Duration::from_millis(50));
        most = most.max(net.nodes[1].relay.memory());
    }
    assert!(most > before + Bytes::new(5 * 514), "{most:?}");
    net.drive();
    let stream = net.nodes[1].relay.config().limits.stream;
    assert!(net.nodes[1].relay.memory() <= before + stream);
    net.call(0, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::NONE, host));
    net.drive();
    assert_eq!(net.nodes[1].relay.memory(), Bytes::ZERO);
}

#[test]
fn small_datagrams_carry_all_cells() {
    let mut net = Net::path(2, &over_datagrams(backtap()));
    let circuit = net.build(0, &[1, 2]);
    let bulk = net.transfer(0, circuit, 300_000, 100_000);
    net.drive_for(Duration::from_secs(1));
    for channel in net.nodes[1].relay.channels() {
        net.nodes[1].relay.set_max_datagram(channel, Bytes::new(1040));
    }
    net.drive();
    assert!(net.at(bulk).is_complete());
    assert_at_rest(&net);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// G-50: on whole paths, all data arrives over a lossy network. The layers of the cells detect losses, repetitions
    /// and reordering.
    #[test]
    fn all_data_arrives_over_a_lossy_network(
        control in proptest::sample::select(controls()),
        loss in 0.0..0.3f64,
        delayed in 0.0..0.4f64,
        duplicated in 0.0..0.2f64,
        slow in 20u64..400,
        stall in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut net = Net::path(3, &over_datagrams(control));
        net.impairments = Impairments { loss, delayed, duplicated, rng: Seed(seed).stream("weather") };
        net.set_link(1, 2, Link { rate: DataRate::kib(slow), ..Link::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        let bulk = net.transfer(0, circuit, 100_000, 50_000);
        let page = net.transfer(0, circuit, 5_000, 500);
        if stall {
            net.stall(bulk, Side::Client, true);
            net.drive_for(Duration::from_secs(30));
            net.stall(bulk, Side::Client, false);
        }
        net.drive();
        prop_assert!(net.at(bulk).is_complete() && net.at(page).is_complete());
        assert_at_rest(&net);
    }
}
