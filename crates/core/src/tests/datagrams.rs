//! Paths over datagrams (G-50 to G-54): everything arrives once and in order on any network.

use super::host::Side;
use super::util::{Link, Net, Weather};
use crate::cell::{CircId, Command};
use crate::circuit_policy::CircuitPolicyConfig;
use crate::config::Bandwidth;
use crate::datagram::{Association, DatagramConfig, Downstream, MAX_EARLY, Message};
use crate::edge_control::{EdgeControlConfig, Ends, WindowsConfig};
use crate::hop_control::{
    ControlInterval, Counts, HopControlConfig, MarutConfig, MiddleWindow, N23Config, Occupancy, WindowConfig,
};
use crate::reason::DestroyReason;
use crate::scheduler::{GlobalConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig};
use crate::tests::cell::TestCell;
use crate::{Direction, RelayConfig, Violation};
use penstock_units::{Bytes, DataRate, Duration, Instant, Seed};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Over datagrams, without windows between the ends.
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
    HopControlConfig::BackTap(WindowConfig::default())
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
        HopControlConfig::BackTap(WindowConfig { slow_start: Some(2), ..WindowConfig::default() }),
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

fn again(net: &Net) -> u64 {
    net.nodes.iter().map(|node| node.relay.datagram_counters().again).sum()
}

fn assert_at_rest(net: &Net) {
    for node in &net.nodes {
        assert_eq!(node.relay.unacknowledged(), 0);
        assert!(node.closed.is_empty(), "no circuit is closed: {:?}", node.closed);
    }
    // All channels are of datagrams, so cells that left for the next node arrived there (G-01).
    let counters = net.nodes.iter().map(|node| node.relay.counters());
    let (sent, received) = counters.fold((0, 0), |sum, of| (sum.0 + of.sent, sum.1 + of.received));
    assert_eq!(sent, received);
}

#[test]
fn every_control_carries_bulk_and_web_both_ways_and_nothing_goes_again() {
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
        assert_eq!(again(&net), 0, "{control:?}");
    }
}

/// KIST asks sockets, and there is none to ask.
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

#[test]
fn every_node_forgets_a_closed_circuit_despite_losses() {
    for seed in 0..20 {
        let mut net = Net::path(3, &over_datagrams(backtap()));
        net.weather = Weather { loss: 0.3, late: 0.2, twice: 0.1, chance: Seed(seed).stream("weather") };
        let circuit = net.build(0, &[1, 2, 3]);
        let bulk = net.transfer(0, circuit, 1_000_000, 100_000);
        assert!(net.drive_until(|net| net.at(bulk).download.received > 20_000));
        net.call(0, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::NONE, host));
        net.drive();
        for node in &net.nodes {
            assert_eq!(node.relay.population()[1..], [0, 0]);
            assert_eq!(node.relay.unacknowledged(), 0, "seed {seed}");
        }
        // And the next one finds the channels as they were.
        let circuit = net.build(0, &[1, 2, 3]);
        let page = net.transfer(0, circuit, 20_000, 500);
        assert!(net.drive_until(|net| net.at(page).is_complete()));
    }
}

/// As in D-12: a node without datagrams gets a stream, and the others do not notice.
#[test]
fn every_half_upgraded_path_carries_everything() {
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

/// G-54.
#[test]
fn a_reader_that_stops_stops_the_source_and_queues_stay_below_the_window_before_them() {
    for control in [backtap(), HopControlConfig::Marut(MarutConfig { counts: Counts::Path, ..marut() })] {
        let mut net = Net::path(3, &over_datagrams(control));
        net.link.send_buffer = 4 << 20;
        let circuit = net.build(0, &[1, 2, 3]);
        let upload = net.transfer(0, circuit, 0, 20_000_000);
        net.drive_for(Duration::from_secs(20));
        // The server's buffer is all there is behind the exit.
        net.stall(upload, Side::Server, true);
        net.drive_for(Duration::from_secs(3));
        let sent = net.at(upload).upload.sent;
        net.drive_for(Duration::from_secs(20));
        assert_eq!(net.at(upload).upload.sent, sent, "nothing more is read");
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

/// A forged datagram from `from` to `node`.
fn lie(net: &mut Net, from: usize, node: usize, tell: impl Fn(u16) -> Message<TestCell>) {
    let channel = net.channel(node, from).expect("the nodes are connected");
    let end = net.nodes[node].host.ends.get_mut(&channel).expect("the channel was just found");
    // The client opened the channel: its first circuit.
    end.mail.push_back(vec![tell(0x8001)]);
    net.call(node, |relay, now, host| relay.on_readable(now, channel, host));
}

#[test]
fn a_peer_that_lies_loses_the_circuit_and_no_more() {
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
    type Lie = Box<dyn Fn(u16) -> Message<TestCell>>;
    let lies: [(Lie, Option<Violation>); 4] = [
        (Box::new(feedback(900, 0)), Some(Violation::ForgedAcknowledgement)),
        (Box::new(feedback(1, 900)), Some(Violation::ForgedAcknowledgement)),
        (Box::new(far), Some(Violation::TooFarAhead)),
        (Box::new(|circuit| Message::Gone { circuit }), None),
    ];
    for (lie_about, violation) in lies {
        let mut net = Net::path(2, &over_datagrams(backtap()));
        let circuit = net.build(0, &[1, 2]);
        let other = net.build(0, &[1, 2]);
        net.transfer(0, circuit, 500_000, 0);
        net.drive_for(Duration::from_millis(500));
        lie(&mut net, 0, 1, &lie_about);
        assert_eq!(net.nodes[1].closed.last().map(|(_, violation)| *violation), Some(violation));
        let page = net.transfer(0, other, 20_000, 500);
        net.drive();
        assert!(net.at(page).is_complete(), "the other circuit goes on");
        assert_eq!(net.nodes.iter().map(|node| node.relay.unacknowledged()).sum::<u64>(), 0);
    }
}

#[test]
fn nonsense_about_circuits_that_are_not_there_fills_no_memory() {
    let mut net = Net::path(2, &over_datagrams(backtap()));
    net.build(0, &[1, 2]);
    let channel = net.channel(1, 0).unwrap();
    let id = CircId(NonZeroU32::new(77).unwrap());
    for round in 0..200u16 {
        let end = net.nodes[1].host.ends.get_mut(&channel).unwrap();
        let data = |circuit| Message::Data { circuit, seq: 3, body: TestCell::malformed(id, Command::Relay) };
        let probe = |circuit| Message::Probe { circuit };
        end.mail.push_back(vec![
            data(round),
            probe(round.wrapping_mul(31)),
            Message::Gone { circuit: round },
        ]);
        end.mail.push_back(vec![Message::Feedback {
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
    let said = net.nodes[1].relay.datagram_counters().sent - before;
    assert!((1..100).contains(&said), "{said} datagrams for 400");
    assert_eq!(net.nodes[1].relay.population()[1], 1, "the honest circuit stays");
}

/// Cells that wait for the kernel when the peer closes their circuit make no new one of its number.
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

/// Cells that wait for missing ones are limited for a circuit and for a channel, and are freed with
/// their circuit.
#[test]
fn cells_that_come_early_fill_no_memory() {
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
    // The one that is missing is taken all the same, and all behind it.
    let missing = Message::Data { circuit: 1, seq: 1, body: TestCell::malformed(id(1), Command::Relay) };
    association.on_datagram(Instant::ZERO, [missing], &mut cells, &mut notes);
    assert_eq!((association.early(), cells.len()), (MAX_EARLY - 1999, 10 + 2000));
    (1..=10).for_each(|circuit| association.remove_circuit(id(circuit)));
    assert_eq!(association.early(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// G-50 on whole paths. The cells' layers detect losses, repetitions and wrong order.
    #[test]
    fn a_bad_network_changes_nothing_but_time(
        control in proptest::sample::select(controls()),
        loss in 0.0..0.3f64,
        late in 0.0..0.4f64,
        twice in 0.0..0.2f64,
        slow in 20u64..400,
        stall in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut net = Net::path(3, &over_datagrams(control));
        net.weather = Weather { loss, late, twice, chance: Seed(seed).stream("weather") };
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
