//! Linked circuits (proposal 329).

use super::cell::TestCell;
use super::host::Side;
use super::util::{Link, Net};
use crate::cell::{Cell, Message};
use crate::config::Limits;
use crate::conflux::{ConfluxConfig, DesiredUx, MAX_LEGS, Nonce};
use crate::edge_control::{EdgeControlConfig, VegasConfig};
use crate::reason::DestroyReason;
use crate::{CircuitIndex, Parameters, RelayConfig, Violation};
use penstock_units::{DataRate, Duration};

const EXIT: usize = 5;
/// The relays of the two legs.
const PATHS: [[usize; 3]; 2] = [[1, 3, EXIT], [2, 4, EXIT]];
const NONCE: Nonce = Nonce([9; 32]);

fn config() -> RelayConfig {
    RelayConfig {
        edge_control: EdgeControlConfig::Vegas(VegasConfig::default()),
        conflux: Some(ConfluxConfig::TOR_0_4_9),
        optimistic_data: true,
        ..RelayConfig::default()
    }
}

fn wishing(client_ux: DesiredUx) -> RelayConfig {
    RelayConfig { conflux: Some(ConfluxConfig { client_ux, ..ConfluxConfig::TOR_0_4_9 }), ..config() }
}

/// Links that limit each leg between guard and middle.
fn net_of(config: &RelayConfig, rates: [u64; 2], latencies: [u64; 2]) -> Net {
    let mut net = Net::path(5, config);
    for leg in 0..2 {
        let link = Link {
            rate: DataRate::kib(rates[leg]),
            latency: Duration::from_millis(latencies[leg]),
            ..Link::default()
        };
        net.set_link(PATHS[leg][0], PATHS[leg][1], link);
    }
    net
}

fn link(net: &mut Net, circuit: CircuitIndex, nonce: Nonce) -> bool {
    net.call(0, |relay, now, host| relay.link_circuit(now, circuit, nonce, host))
}

/// Builds and links both legs. Returns their circuits at the client.
fn linked(net: &mut Net) -> [CircuitIndex; 2] {
    let legs = PATHS.map(|path| net.build(0, &path));
    assert!(legs.iter().all(|leg| link(net, *leg, NONCE)));
    assert!(net.drive_until(|net| !net.nodes[0].linked.is_empty()), "the circuits are linked");
    assert_eq!(net.nodes[0].relay.linked_circuits(legs[1]), legs);
    legs
}

/// The mean goodput of a download [kB/s].
fn goodput(net: &mut Net, circuit: CircuitIndex, bytes: u64) -> u64 {
    let begin = net.now;
    let transfer = net.transfer(0, circuit, bytes, 0);
    assert!(net.drive_until(|net| net.at(transfer).download.received == bytes));
    let micros = (net.now - begin).as_micros() as u64;
    bytes * 1000 / micros.max(1)
}

#[test]
fn streams_use_both_legs_and_arrive_complete_and_in_order() {
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    let legs = linked(&mut net);
    let transfers: Vec<_> = [(900_000, 0), (0, 300_000), (400_000, 100_000)]
        .into_iter()
        .map(|(down, up)| net.transfer(0, legs[down as usize % 2], down, up))
        .collect();
    net.drive();
    for transfer in transfers {
        assert!(net.at(transfer).is_complete());
    }
    let exit = net.nodes[EXIT].relay.counters();
    assert!(exit.switches > 10, "{exit:?}");
    assert!(net.nodes[0].relay.counters().longest_reordering > 0);
    assert_eq!(net.nodes[0].relay.reordering() + net.nodes[EXIT].relay.reordering(), 0);
}

#[test]
fn one_call_handles_a_bounded_number_of_waiting_messages() {
    // The slow leg delays its first cells, and the fast leg brings more than a thousand cells meanwhile.
    let mut net = net_of(&config(), [10_000, 10_000], [2, 400]);
    let legs = linked(&mut net);
    let transfer = net.transfer(0, legs[0], 6_000_000, 0);
    let (mut waiting, mut most) = (0_usize, 0);
    while net.step() {
        let now = net.nodes[0].relay.reordering();
        most = most.max(waiting.saturating_sub(now));
        waiting = now;
    }
    let longest = net.nodes[0].relay.counters().longest_reordering;
    assert!(longest > 1000, "{longest} messages waited");
    assert!(most <= 256, "one call handled {most} messages");
    assert!(net.at(transfer).is_complete());
    assert_eq!((waiting, net.nodes[0].relay.memory().get()), (0, 0));
}

#[test]
fn two_legs_are_faster_than_the_better_one() {
    let bytes = 4_000_000;
    let alone = PATHS.map(|path| {
        let mut net = net_of(&config(), [300, 200], [20, 35]);
        let circuit = net.build(0, &path);
        goodput(&mut net, circuit, bytes)
    });
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    let legs = linked(&mut net);
    let both = goodput(&mut net, legs[0], bytes);
    assert!(alone[0] > alone[1] && both * 10 > alone[0] * 13, "{both} kB/s, {alone:?} kB/s");
}

#[test]
fn a_client_that_wishes_low_delay_gets_one_leg_at_a_time() {
    let mut net = net_of(&wishing(DesiredUx::MinLatency), [10_000, 10_000], [20, 200]);
    let legs = linked(&mut net);
    goodput(&mut net, legs[1], 300_000);
    // The exit begins on the faster leg and stays there.
    assert_eq!(net.nodes[EXIT].relay.counters().switches, 0);
    assert_eq!(net.nodes[0].relay.counters().longest_reordering, 0);
}

#[test]
fn circuits_that_are_not_linked_yet_carry_no_streams() {
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    let leg = net.build(0, &PATHS[0]);
    assert!(link(&mut net, leg, NONCE) && !link(&mut net, leg, NONCE));
    net.drive();
    assert!(net.nodes[0].linked.is_empty());
    let stream = net.call(0, |relay, now, host| relay.open_stream(now, leg, 0, host));
    assert_eq!(stream, None);
    // Another circuit may replace a leg that closes before the set is complete.
    let second = net.build(0, &PATHS[1]);
    assert!(link(&mut net, second, NONCE));
    net.call(0, |relay, now, host| relay.close_circuit(now, second, DestroyReason::NONE, host));
    let third = net.build(0, &PATHS[1]);
    assert!(link(&mut net, third, NONCE));
    net.drive();
    assert_eq!(net.nodes[0].linked, [leg]);
    assert_eq!(net.nodes[0].relay.linked_circuits(leg), [leg, third]);
    let fourth = net.build(0, &PATHS[1]);
    assert!(!link(&mut net, fourth, NONCE), "the set is complete");
    assert!(link(&mut net, fourth, Nonce([1; 32])));
}

#[test]
fn a_circuit_without_congestion_control_is_not_linked() {
    let mut net = Net::path(5, &RelayConfig { conflux: config().conflux, ..RelayConfig::default() });
    let leg = net.build(0, &PATHS[0]);
    assert!(!link(&mut net, leg, NONCE));
    let mut net = Net::path(5, &RelayConfig { conflux: None, ..config() });
    let leg = net.build(0, &PATHS[0]);
    assert!(!link(&mut net, leg, NONCE), "the client has no Conflux");
}

fn closed(net: &Net, node: usize) -> Vec<Option<Violation>> {
    net.nodes[node].closed.iter().map(|(_, violation)| *violation).collect()
}

#[test]
fn an_exit_without_conflux_closes_the_circuit() {
    let mut net = Net::path(5, &config());
    net.configure(EXIT, RelayConfig { conflux: None, ..config() });
    let leg = net.build(0, &PATHS[0]);
    assert!(link(&mut net, leg, NONCE));
    net.drive();
    assert_eq!(closed(&net, EXIT), [Some(Violation::UnexpectedLink)]);
    assert_eq!(closed(&net, 0), [None]);
    assert_eq!(net.nodes[0].relay.population()[1], 0);
}

#[test]
fn the_consensus_turns_conflux_off_for_further_circuits() {
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    let legs = linked(&mut net);
    let off = Parameters { conflux: Some(false), conflux_legs: Some(200), ..Parameters::default() };
    let (now, [client, exit]) = (net.now, [0, EXIT]);
    net.nodes[exit].relay.apply_parameters(now, off);
    let third = net.build(0, &PATHS[0]);
    assert!(link(&mut net, third, Nonce([8; 32])));
    net.drive();
    assert_eq!(closed(&net, exit), [Some(Violation::UnexpectedLink)]);
    let relay = &net.nodes[exit].relay;
    assert_eq!((relay.counters().linked, relay.config().conflux.unwrap().legs), (2, MAX_LEGS as u8));
    let transfer = net.transfer(0, legs[0], 100_000, 1000);
    net.drive();
    assert!(net.at(transfer).is_complete(), "the linked circuits stay");
    net.nodes[client].relay.apply_parameters(now, off);
    let fourth = net.build(0, &PATHS[0]);
    assert!(!link(&mut net, fourth, Nonce([8; 32])));
}

#[test]
fn a_leg_awaits_the_answer_of_the_exit() {
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    let leg = net.build(0, &PATHS[0]);
    assert!(!net.nodes[0].relay.awaits_link(leg));
    assert!(link(&mut net, leg, NONCE) && net.nodes[0].relay.awaits_link(leg));
    net.drive();
    assert!(!net.nodes[0].relay.awaits_link(leg), "LINKED has arrived");
}

#[test]
fn a_leg_above_the_limit_closes_alone() {
    let legs = MAX_LEGS as u8 + 1;
    let many = RelayConfig { conflux: Some(ConfluxConfig { legs, ..ConfluxConfig::TOR_0_4_9 }), ..config() };
    // Node 6 acts as a second client, which has seen the nonce.
    let mut net = Net::path(6, &many);
    for number in 0..MAX_LEGS {
        let leg = net.build(0, &PATHS[number % 2]);
        assert!(link(&mut net, leg, NONCE));
    }
    let last = net.build(6, &PATHS[0]);
    assert!(net.call(6, |relay, now, host| relay.link_circuit(now, last, NONCE, host)));
    net.drive();
    assert_eq!(closed(&net, EXIT), [Some(Violation::UnexpectedLink)]);
    assert_eq!(net.nodes[0].relay.population()[1], MAX_LEGS);
}

#[test]
fn a_used_leg_takes_the_whole_set_with_it() {
    for [guard, middle, _] in PATHS {
        let mut net = net_of(&config(), [300, 200], [20, 35]);
        let legs = linked(&mut net);
        let transfer = net.transfer(0, legs[0], 900_000, 0);
        assert!(net.drive_until(|net| net.at(transfer).download.received > 400_000));
        net.disconnect(guard, middle);
        net.drive();
        assert_eq!(net.nodes[0].relay.population(), [2, 0, 0]);
        assert_eq!(net.nodes[EXIT].relay.population(), [2, 0, 0]);
        assert_eq!(closed(&net, 0), [None, None]);
        assert!(!net.at(transfer).is_complete());
    }
}

#[test]
fn streams_continue_if_an_unused_leg_closes() {
    for unused in 0..2 {
        // The exit and the client use only the leg with the lower delay.
        let latencies = if unused == 0 { [300, 20] } else { [20, 300] };
        let mut net = net_of(&wishing(DesiredUx::MinLatency), [10_000, 10_000], latencies);
        let legs = linked(&mut net);
        let transfer = net.transfer(0, legs[0], 900_000, 50_000);
        assert!(net.drive_until(|net| net.at(transfer).download.received > 400_000));
        net.disconnect(PATHS[unused][0], PATHS[unused][1]);
        net.drive();
        assert_eq!(net.nodes[0].relay.linked_circuits(legs[1 - unused]), [legs[1 - unused]]);
        assert!(net.at(transfer).is_complete());
        let again = net.transfer(0, legs[1 - unused], 100_000, 0);
        net.drive();
        assert!(net.at(again).is_complete(), "new streams use the other leg");
    }
}

#[test]
fn a_client_closes_all_legs_at_once() {
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    let legs = linked(&mut net);
    net.call(0, |relay, now, host| relay.close_circuit(now, legs[1], DestroyReason::NONE, host));
    net.drive();
    for node in 0..=EXIT {
        assert_eq!(net.nodes[node].relay.population()[1], 0, "node {node}");
    }
}

/// Replaces the first message on its way from one node to the other for which `other` returns a new message.
fn forge(
    net: &mut Net,
    [to, from]: [usize; 2],
    other: impl Fn(&Message<TestCell>) -> Option<Message<TestCell>>,
) -> bool {
    net.in_transit(from, to).any(|cell| {
        let Some((stream, forged)) = cell.message().and_then(|(stream, said)| Some((stream, other(said)?)))
        else {
            return false;
        };
        cell.replace(stream, Some(forged));
        true
    })
}

fn drive_and_forge(
    net: &mut Net,
    wire: [usize; 2],
    other: impl Fn(&Message<TestCell>) -> Option<Message<TestCell>>,
) {
    while !forge(net, wire, &other) {
        assert!(net.step(), "the message is sent");
    }
    net.drive();
}

#[test]
fn a_wrong_message_of_the_handshake_closes_only_its_circuit() {
    type Forge = fn(&Message<TestCell>) -> Option<Message<TestCell>>;
    let cases: [(bool, Forge); 5] = [
        // The exit answers with another set.
        (true, |said| {
            let Message::Linked(link) = said else { return None };
            Some(Message::Linked(Box::new(crate::conflux::Link { nonce: Nonce([3; 32]), ..**link })))
        }),
        // The exit claims to have sent cells.
        (true, |said| {
            let Message::Linked(link) = said else { return None };
            Some(Message::Linked(Box::new(crate::conflux::Link { last_sent: 1, ..**link })))
        }),
        // The exit links.
        (true, |said| {
            let Message::Linked(link) = said else { return None };
            Some(Message::Link(link.clone()))
        }),
        // The client confirms before LINKED, or switches on a circuit that is not linked.
        (false, |said| matches!(said, Message::Link(_)).then_some(Message::LinkedAck)),
        (false, |said| matches!(said, Message::Link(_)).then_some(Message::Switch(1))),
    ];
    for (is_exit, forged) in cases {
        let mut net = net_of(&config(), [300, 200], [20, 35]);
        let legs = PATHS.map(|path| net.build(0, &path));
        assert!(legs.iter().all(|leg| link(&mut net, *leg, NONCE)));
        drive_and_forge(&mut net, if is_exit { [0, 1] } else { [1, 0] }, forged);
        let victim = if is_exit { 0 } else { EXIT };
        let violations: Vec<_> = closed(&net, victim).into_iter().flatten().collect();
        assert!(
            matches!(violations[..], [Violation::UnexpectedLink | Violation::UnexpectedCell]),
            "{violations:?}"
        );
        assert!(net.nodes[0].linked.is_empty());
        assert_eq!(net.nodes[0].relay.population()[1], 1, "the other circuit waits for a second leg");
    }
}

/// Makes the exit's next SWITCH skip 1000 numbers that no cell has.
fn skip_numbers(net: &mut Net) {
    let skip = |said: &Message<TestCell>| {
        let Message::Switch(relative) = said else { return None };
        Some(Message::Switch(relative + 1000))
    };
    while !(forge(net, [0, 1], skip) || forge(net, [0, 2], skip)) {
        assert!(net.step(), "the exit switches");
    }
}

#[test]
fn a_number_that_is_never_sent_fills_only_a_bounded_queue() {
    let limits = Limits { edge_buffer: 60, ..Limits::default() };
    let mut net = net_of(&RelayConfig { limits, ..config() }, [300, 200], [20, 35]);
    let legs = linked(&mut net);
    let transfer = net.transfer(0, legs[0], 3_000_000, 0);
    skip_numbers(&mut net);
    net.drive();
    assert!(!net.at(transfer).is_complete());
    let violations: Vec<_> = closed(&net, 0).into_iter().flatten().collect();
    assert_eq!(violations, [Violation::BufferExceeded]);
    assert_eq!(net.nodes[0].relay.counters().longest_reordering, 60);
    assert_eq!(net.nodes[0].relay.population(), [2, 0, 0]);
    assert_eq!(net.nodes[EXIT].relay.population(), [2, 0, 0]);
    assert_eq!(net.nodes[0].relay.memory().get(), 0, "the queue is freed");
}

#[test]
fn a_number_that_no_leg_can_bring_closes_the_set() {
    let one =
        RelayConfig { conflux: Some(ConfluxConfig { legs: 1, ..ConfluxConfig::TOR_0_4_9 }), ..config() };
    let mut net = net_of(&one, [300, 200], [20, 35]);
    let leg = net.build(0, &PATHS[0]);
    assert!(link(&mut net, leg, NONCE));
    // The client skips a number on its only leg, in place of its LINKED_ACK.
    let skip = |said: &Message<TestCell>| matches!(said, Message::LinkedAck).then_some(Message::Switch(1));
    while !forge(&mut net, [1, 0], skip) {
        assert!(net.step(), "the client confirms");
    }
    net.transfer(0, leg, 1000, 1000);
    net.drive();
    let violations: Vec<_> = closed(&net, EXIT).into_iter().flatten().collect();
    assert_eq!(violations, [Violation::BadSequence]);
    assert_eq!(net.nodes[EXIT].relay.population()[1], 0);
    assert_eq!(net.nodes[EXIT].relay.memory().get(), 0, "the exit counts no cell of the set");
}

#[test]
fn the_memory_limit_counts_the_reorder_queue() {
    let limits = Limits { memory: Some(penstock_units::Bytes::kib(30)), ..Limits::default() };
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    net.configure(0, RelayConfig { limits, ..config() });
    let legs = linked(&mut net);
    net.transfer(0, legs[0], 3_000_000, 0);
    skip_numbers(&mut net);
    net.drive();
    let counters = net.nodes[0].relay.counters();
    assert!(counters.oom_closed > 0 && counters.longest_reordering <= 62, "{counters:?}");
    assert_eq!(net.nodes[0].relay.memory().get(), 0);
}

/// The streams of a set stay if only one leg closes. The handler must not count their memory as free.
#[test]
fn the_memory_limit_closes_all_legs_of_a_set() {
    let limits = Limits { memory: Some(penstock_units::Bytes::new(100 * 498)), ..Limits::default() };
    // The client uses only the second leg. At the exit, the first leg has the streams.
    let mut net = net_of(&config(), [10_000, 10_000], [300, 20]);
    net.configure(EXIT, RelayConfig { limits, ..config() });
    let other = net.add(false, config());
    let innocent = net.build(0, &[other, EXIT]);
    let kept = net.transfer(0, innocent, 0, 30 * 498);
    net.stall(kept, Side::Server, true);
    net.drive();
    let legs = PATHS.map(|path| net.build(0, &path));
    for leg in legs {
        assert!(link(&mut net, leg, NONCE));
        net.drive();
    }
    let greedy = net.transfer(0, legs[0], 0, 500 * 498);
    net.stall(greedy, Side::Server, true);
    net.drive();
    net.stall(kept, Side::Server, false);
    net.drive();
    let exit = &net.nodes[EXIT].relay;
    let is_complete = [kept, greedy].map(|transfer| net.at(transfer).is_complete());
    assert_eq!((is_complete, exit.population()[1], exit.counters().oom_closed), ([true, false], 1, 2));
}

#[test]
fn the_second_end_of_a_handshake_may_not_be_repeated() {
    let mut net = net_of(&config(), [300, 200], [20, 35]);
    let legs = linked(&mut net);
    net.transfer(0, legs[0], 200_000, 0);
    // The exit's SENDMEs and data continue; the client repeats LINKED_ACK instead of a SENDME.
    let repeat =
        |said: &Message<TestCell>| matches!(said, Message::Sendme { .. }).then_some(Message::LinkedAck);
    while !(forge(&mut net, [1, 0], repeat) || forge(&mut net, [2, 0], repeat)) {
        assert!(net.step(), "the client sends a SENDME");
    }
    net.drive();
    let violations: Vec<_> = closed(&net, EXIT).into_iter().flatten().collect();
    assert_eq!(violations, [Violation::UnexpectedLink]);
    assert_eq!(net.nodes[EXIT].relay.population()[1], 0, "the set has closed");
}

#[test]
fn every_begin_is_numbered_by_default() {
    // Live cells override the default of `Cell::is_multiplexed`.
    assert!(TestCell::is_multiplexed(&0) && Message::<TestCell>::Begin(0).is_multiplexed());
    assert!(!Message::<TestCell>::Switch(1).is_multiplexed());
}
