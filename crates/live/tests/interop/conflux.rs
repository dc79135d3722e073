//! The messages that link circuits (Conflux), with C tor and with Penstock: both must react in the same way.

use super::common::{Client, Hop, Running};
use super::ctor::CTor;
use super::hop;
use super::violations::{Action, Effect, effect, noise, send};
use penstock_core::conflux::{ConfluxConfig, DesiredUx, Link, Nonce};
use penstock_core::edge_control::{Congestion, EdgeControlConfig, Negotiation, VegasConfig};
use penstock_core::{Cell, CircId, DestroyReason};
use penstock_link::cell::{BODY_LEN, Extended, Frame, Incoming, RelayMessage, Target, command};

/// The content of LINK of a new set.
fn fresh() -> Link {
    let nonce = Nonce(noise(32).try_into().expect("a nonce has 32 bytes"));
    Link { nonce, last_sent: 0, last_received: 0, desired_ux: DesiredUx::HighThroughput }
}

fn link(client: &mut Client, link: Link) -> CircId {
    send(client, 0, &RelayMessage::Link(Box::new(link)))
}

/// Links the client's circuit up to LINKED.
fn linked(client: &mut Client, set: Link) -> CircId {
    let circuit = link(client, set);
    let expected = Link { desired_ux: DesiredUx::MinLatency, ..set };
    let (stream, message, _) = client.receive_message();
    assert_eq!((stream, message), (None, RelayMessage::Linked(Box::new(expected))));
    circuit
}

/// Sends a message of any command with any content.
fn send_raw(client: &mut Client, number: u8, data: &[u8]) -> CircId {
    let mut body = [0; BODY_LEN];
    body[0] = number;
    body[9..11].copy_from_slice(&(data.len() as u16).to_be_bytes());
    body[11..11 + data.len()].copy_from_slice(data);
    let frame = Frame { circ_id: client.id.0.get(), command: command::RELAY, body: &body };
    let Incoming::Cell(mut cell) = Incoming::of(&frame, Extended::NONE) else { panic!("a RELAY cell") };
    cell.seal(client.layers.last_mut().expect("the circuit is built"));
    client.write(&cell.to_bytes());
    client.id
}

/// A LINK with this version and this desired UX.
fn strange_link(client: &mut Client, version: u8, ux: u8) -> CircId {
    send_raw(client, 19, &[&[version][..], &noise(32), &[0; 16], &[ux]].concat())
}

/// Builds a circuit with congestion control.
fn build(client: &mut Client, relay: &Hop) {
    let answers = client.build_asking(&[(relay.clone(), Negotiation::Asked(Congestion::Vegas))]);
    assert!(matches!(answers[..], [Negotiation::Agreed(Congestion::Vegas, _)]), "{answers:?}");
}

const CLOSES: Option<Effect> = Some(Effect::Destroyed(DestroyReason::PROTOCOL));

/// Each case: its name, the action, and the effect on Penstock if it differs on purpose.
const CASES: [(&str, Action, Option<Effect>); 14] = [
    ("LINK with an unknown version", |client, _| strange_link(client, 2, 3), None),
    ("LINK with an unknown UX", |client, _| strange_link(client, 1, 5), None),
    ("LINK without its last byte", |client, _| send_raw(client, 19, &[&[1][..], &[0; 48]].concat()), None),
    (
        "LINK twice",
        |client, _| {
            let set = fresh();
            linked(client, set);
            link(client, set)
        },
        None,
    ),
    // C tor gives the reason INTERNAL.
    (
        "LINK with cells that did not arrive",
        |client, _| link(client, Link { last_sent: 1, ..fresh() }),
        CLOSES,
    ),
    (
        "LINK that acknowledges cells that no leg sent",
        |client, _| link(client, Link { last_received: 1, ..fresh() }),
        CLOSES,
    ),
    ("LINKED at an exit", |client, _| send(client, 0, &RelayMessage::Linked(Box::new(fresh()))), None),
    ("LINKED_ACK without LINK", |client, _| send(client, 0, &RelayMessage::LinkedAck), None),
    (
        "LINKED_ACK twice",
        |client, _| {
            linked(client, fresh());
            send(client, 0, &RelayMessage::LinkedAck);
            send(client, 0, &RelayMessage::LinkedAck)
        },
        CLOSES,
    ),
    ("SWITCH without LINK", |client, _| send(client, 0, &RelayMessage::Switch(1)), None),
    (
        "SWITCH on a linked circuit",
        |client, _| {
            linked(client, fresh());
            send(client, 0, &RelayMessage::LinkedAck);
            send(client, 0, &RelayMessage::Switch(7))
        },
        None,
    ),
    (
        "BEGIN after cells that no leg can bring any more",
        |client, _| {
            linked(client, fresh());
            send(client, 0, &RelayMessage::LinkedAck);
            send(client, 0, &RelayMessage::Switch(7));
            let target = Target::Host { host: "127.0.0.1".into(), port: 1, flags: Default::default() };
            send(client, 1, &RelayMessage::Begin(target))
        },
        CLOSES,
    ),
    (
        "the eighth leg",
        |client, relay| {
            let set = fresh();
            legs(client, relay, set, 7);
            linked(client, set)
        },
        None,
    ),
    (
        "the ninth leg",
        |client, relay| {
            let set = fresh();
            legs(client, relay, set, 8);
            link(client, set)
        },
        None,
    ),
];

/// Links so many circuits, and then builds another one.
fn legs(client: &mut Client, relay: &Hop, set: Link, count: u32) {
    for number in 0..count {
        linked(client, set);
        client.new_circuit(100 + number);
        build(client, relay);
    }
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn messages_that_link_circuits_have_the_same_effect_in_c_tor_and_penstock() {
    let ctor = CTor::exit();
    let ours = Running::start_configured(|config| {
        config.single_hop = false;
        config.relay.edge_control = EdgeControlConfig::Vegas(VegasConfig::default());
        config.relay.conflux = Some(ConfluxConfig::TOR_0_4_9);
    });
    let mut differ = Vec::new();
    for (name, action, expected) in CASES {
        let [theirs, mine] = [hop(&ctor), ours.hop()].map(|relay| effect(&relay, build, action));
        println!("{name}: C tor {theirs:?}, ours {mine:?}");
        if mine != expected.unwrap_or(theirs) {
            differ.push(name);
        }
    }
    let plain = |client: &mut Client, relay: &Hop| client.build(std::slice::from_ref(relay));
    let alone: Action = |client, _| link(client, fresh());
    let [theirs, mine] = [hop(&ctor), ours.hop()].map(|relay| effect(&relay, plain, alone));
    println!("LINK without congestion control: C tor {theirs:?}, ours {mine:?}");
    assert_eq!((differ, mine), (vec![""; 0], theirs));
}
