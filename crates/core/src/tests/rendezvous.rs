//! Circuits that a rendezvous point joins.

use super::cell::{Layer, TestHandshake};
use super::util::{Link, Net};
use crate::cell::{Message, PeerId, StreamId};
use crate::config::Limits;
use crate::conflux::{DesiredUx, Link as Link329, Nonce};
use crate::hop_control::{HopControlConfig, N23Config};
use crate::reason::DestroyReason;
use crate::{CircuitIndex, RelayConfig, Violation};
use penstock_units::{Bytes, DataRate};
use std::collections::BTreeSet;
use std::num::NonZeroU16;

const CLIENT: usize = 0;
const RENDEZVOUS: usize = 3;
const SERVICE: usize = 6;
/// The key that only the client and the service know.
const SHARED: u32 = 999;

/// A client and a service, each with a circuit of three hops to the same relay. Returns both circuits at their origins,
/// and then at the relay.
fn net(config: &RelayConfig) -> (Net, [CircuitIndex; 2], [CircuitIndex; 2]) {
    let mut net = empty_net(config);
    let (ends, here) = build(&mut net);
    (net, ends, here)
}

fn empty_net(config: &RelayConfig) -> Net {
    let mut net = Net::path(5, config);
    assert_eq!(net.add(true, config.clone()), SERVICE);
    net
}

fn build(net: &mut Net) -> ([CircuitIndex; 2], [CircuitIndex; 2]) {
    let ends = [net.build(CLIENT, &[1, 2, RENDEZVOUS]), net.build(SERVICE, &[5, 4, RENDEZVOUS])];
    let here = [(CLIENT, ends[0]), (SERVICE, ends[1])]
        .map(|(origin, circuit)| net.circuit_at(origin, circuit, RENDEZVOUS).unwrap());
    (ends, here)
}

fn join(net: &mut Net, [one, other]: [CircuitIndex; 2]) -> bool {
    net.call(RENDEZVOUS, |relay, _, _| relay.join_circuits(one, other))
}

fn say(net: &mut Net, node: usize, circuit: CircuitIndex, message: u32) {
    assert!(net.call(node, |relay, now, host| relay.send_onion_service(now, circuit, message, host)));
}

/// Joins the circuits. Client and service add the layer that they agreed on.
fn joined(config: &RelayConfig) -> (Net, [CircuitIndex; 2], [CircuitIndex; 2]) {
    let (mut net, ends, here) = net(config);
    join_with_layers(&mut net, ends, here);
    (net, ends, here)
}

fn join_with_layers(net: &mut Net, ends: [CircuitIndex; 2], here: [CircuitIndex; 2]) {
    assert!(join(net, here));
    for (node, circuit) in [(CLIENT, ends[0]), (SERVICE, ends[1])] {
        net.nodes[node].relay.add_layer(circuit, Layer::new(SHARED));
    }
}

fn messages_at(net: &Net, node: usize) -> Vec<u32> {
    net.nodes[node].onion_messages.iter().map(|(_, message)| *message).collect()
}

#[test]
fn a_relay_receives_messages_and_answers_on_the_same_circuit() {
    let (mut net, ends, here) = net(&RelayConfig::default());
    say(&mut net, CLIENT, ends[0], 7);
    say(&mut net, SERVICE, ends[1], 8);
    net.drive();
    let mut received = net.nodes[RENDEZVOUS].onion_messages.clone();
    received.sort_by_key(|(_, message)| *message);
    assert_eq!(received, [(here[0], 7), (here[1], 8)]);
    say(&mut net, RENDEZVOUS, here[1], 9);
    net.drive();
    assert_eq!(net.nodes[SERVICE].onion_messages, [(ends[1], 9)]);
    assert_eq!(net.nodes[CLIENT].onion_messages, []);
}

#[test]
fn cells_cross_the_rendezvous_point_in_both_directions_and_in_order() {
    let (mut net, ends, _) = joined(&RelayConfig::default());
    for number in 0..200 {
        say(&mut net, CLIENT, ends[0], number);
        say(&mut net, SERVICE, ends[1], 1000 + number);
    }
    net.drive();
    assert_eq!(messages_at(&net, SERVICE), (0..200).collect::<Vec<_>>());
    assert_eq!(messages_at(&net, CLIENT), (1000..1200).collect::<Vec<_>>());
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    assert_eq!(net.nodes[RENDEZVOUS].onion_messages, [], "the rendezvous point cannot read them");
}

#[test]
fn hop_control_ends_at_the_rendezvous_point() {
    let config =
        RelayConfig { hop_control: HopControlConfig::N23(N23Config::default()), ..RelayConfig::default() };
    let (mut net, ends, _) = joined(&config);
    for number in 0..2000 {
        say(&mut net, CLIENT, ends[0], number);
    }
    net.drive();
    assert_eq!(messages_at(&net, SERVICE), (0..2000).collect::<Vec<_>>());
}

#[test]
fn if_one_circuit_closes_both_close() {
    for by in [CLIENT, RENDEZVOUS, SERVICE] {
        let (mut net, ends, here) = joined(&RelayConfig::default());
        let circuit = match by {
            CLIENT => ends[0],
            SERVICE => ends[1],
            _ => here[1],
        };
        net.call(by, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::FINISHED, host));
        net.drive();
        for node in [CLIENT, RENDEZVOUS, SERVICE] {
            let expected = if node == RENDEZVOUS { 2 } else { 1 };
            assert_eq!(net.nodes[node].closed.len(), expected, "closed by {by}: node {node}");
        }
    }
}

#[test]
fn an_unrecognised_cell_without_a_joined_circuit_is_a_violation() {
    let (mut net, ends, here) = net(&RelayConfig::default());
    net.nodes[CLIENT].relay.add_layer(ends[0], Layer::new(SHARED));
    say(&mut net, CLIENT, ends[0], 1);
    net.drive();
    assert_eq!(net.nodes[RENDEZVOUS].closed, [(here[0], Some(Violation::Unrecognised))]);
}

#[test]
fn only_free_circuits_are_joined() {
    let (mut net, ends, [one, other]) = net(&RelayConfig::default());
    assert!(!join(&mut net, [one, one]), "with itself");
    let passing = net.circuit_at(CLIENT, ends[0], 2).unwrap();
    let at_middle = net.call(2, |relay, _, _| relay.is_free(passing));
    assert!(!at_middle, "it goes on");
    let transfer = net.transfer(CLIENT, ends[0], 1_000_000, 0);
    assert!(net.drive_until(|net| net.at(transfer).connected));
    assert!(!join(&mut net, [one, other]), "it has a stream");
    net.drive();
    assert!(join(&mut net, [one, other]));
    assert!(!join(&mut net, [one, other]), "again");
}

#[test]
fn a_joined_circuit_is_not_extended() {
    let (mut net, ends, here) = net(&RelayConfig::default());
    assert!(join(&mut net, here));
    let handshake = TestHandshake::new(1);
    let extend = Message::Extend(PeerId(4), handshake);
    say(&mut net, CLIENT, ends[0], 1);
    while net.in_transit(CLIENT, 1).next().is_none() {
        assert!(net.step(), "the message leaves");
    }
    net.in_transit(CLIENT, 1).next().unwrap().replace(None, Some(extend));
    net.drive();
    assert_eq!(net.nodes[RENDEZVOUS].closed[0], (here[0], Some(Violation::UnexpectedCell)));
    assert_eq!(net.nodes[RENDEZVOUS].closed[1], (here[1], None));
}

#[test]
fn a_client_that_floods_the_other_circuit_loses_both() {
    let limits = Limits { max_circuit_queue: 50, ..Limits::default() };
    let mut net = empty_net(&RelayConfig::default());
    net.configure(RENDEZVOUS, RelayConfig { limits, ..RelayConfig::default() });
    net.set_link(RENDEZVOUS, 4, Link { rate: DataRate::kib(10), ..Link::default() });
    let (ends, here) = build(&mut net);
    join_with_layers(&mut net, ends, here);
    for number in 0..1000 {
        say(&mut net, CLIENT, ends[0], number);
    }
    net.drive();
    assert_eq!(net.nodes[RENDEZVOUS].closed[0], (here[0], Some(Violation::QueueExceeded)));
    assert_eq!(net.nodes[RENDEZVOUS].closed.len(), 2);
}

#[test]
fn the_memory_limit_closes_both_circuits() {
    let limits = Limits { memory: Some(Bytes::new(200 * 514)), ..Limits::default() };
    let mut net = empty_net(&RelayConfig::default());
    net.configure(RENDEZVOUS, RelayConfig { limits, ..RelayConfig::default() });
    net.set_link(RENDEZVOUS, 4, Link { rate: DataRate::kib(10), ..Link::default() });
    let (ends, here) = build(&mut net);
    join_with_layers(&mut net, ends, here);
    let innocent = net.build(CLIENT, &[1, RENDEZVOUS]);
    for number in 0..1000 {
        say(&mut net, CLIENT, ends[0], number);
    }
    net.drive();
    let relay = &net.nodes[RENDEZVOUS];
    assert_eq!(relay.relay.counters().oom_closed, 2);
    assert_eq!(
        relay.closed.iter().map(|(circuit, _)| *circuit).collect::<BTreeSet<_>>(),
        BTreeSet::from(here)
    );
    // The circuits' places are free for others.
    let again = net.build(SERVICE, &[5, RENDEZVOUS]);
    for circuit in [(CLIENT, innocent), (SERVICE, again)] {
        say(&mut net, circuit.0, circuit.1, 7);
    }
    net.drive();
    assert_eq!(messages_at(&net, RENDEZVOUS), [7, 7]);
}

#[test]
fn an_extend_that_comes_with_the_rendezvous_closes_both_circuits() {
    let (mut net, _, here) = net(&RelayConfig::default());
    assert!(join(&mut net, here));
    // The driver handles the EXTEND after the join.
    net.call(RENDEZVOUS, |relay, now, host| {
        relay.extend(now, here[0], PeerId(4), TestHandshake::new(1), host)
    });
    net.drive();
    assert_eq!(net.nodes[RENDEZVOUS].closed, [(here[0], Some(Violation::UnexpectedCell)), (here[1], None)]);
}

#[test]
fn truncate_begin_and_link_on_a_joined_circuit_hurt_no_other_circuit() {
    for message in [
        Message::Truncate,
        Message::Begin(0),
        Message::Link(Box::new(Link329 {
            nonce: Nonce([1; 32]),
            last_sent: 0,
            last_received: 0,
            desired_ux: DesiredUx::default(),
        })),
    ] {
        let (mut net, ends, here) = net(&RelayConfig::default());
        let innocent = net.build(CLIENT, &[1, RENDEZVOUS]);
        assert!(join(&mut net, here));
        let stream = matches!(message, Message::Begin(_)).then(|| StreamId(NonZeroU16::MIN));
        net.script(100, 0);
        say(&mut net, CLIENT, ends[0], 1);
        while net.in_transit(CLIENT, 1).next().is_none() {
            assert!(net.step(), "the message leaves");
        }
        net.in_transit(CLIENT, 1).next().unwrap().replace(stream, Some(message));
        net.drive();
        say(&mut net, CLIENT, innocent, 7);
        net.drive();
        assert_eq!(messages_at(&net, RENDEZVOUS), [7]);
    }
}
