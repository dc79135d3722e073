//! Protocol violations of a peer, with C tor and with Penstock: both must react in the same way.

use super::common::{Client, Hop, Running};
use super::ctor::CTor;
use super::{hop, stream};
use penstock_core::{Cell, CircId, Command, DestroyReason};
use penstock_link::cell::{
    EndReason, Handshake, HandshakeKind, LinkSpec, LiveCell, LivePayload, RelayMessage, Target, read,
};
use penstock_link::crypto::ntor;
use penstock_link::crypto::tor1::Tag;
use rand::Rng;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::time::Duration;

/// The effect on a circuit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    Unaffected,
    Destroyed(DestroyReason),
    /// The peer receives this message first.
    Receives(Box<RelayMessage>),
    /// The relay closes the whole link.
    LinkCloses,
}

use Effect::{Destroyed, LinkCloses, Receives, Unaffected};

/// The actions of a peer on a circuit of one hop. Returns the id of the circuit whose reaction is
/// compared.
pub(super) type Action = fn(&mut Client, &Hop) -> CircId;

fn id(low: u32) -> CircId {
    CircId(NonZeroU32::new(1 << 31 | low).unwrap())
}

pub(super) fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    rand::rng().fill_bytes(&mut noise);
    noise
}

fn create(client: &mut Client, id: CircId, kind: HandshakeKind, data: Vec<u8>) -> CircId {
    client.write(&LiveCell::create(id, Handshake { kind, data }).to_bytes());
    id
}

fn extend(client: &mut Client, to: LinkSpec, onion: &Hop) -> RelayMessage {
    let start = ntor::Client::start(&mut rand::rng(), to.rsa, onion.1);
    let _ = client;
    RelayMessage::Extend(to, Handshake { kind: HandshakeKind::Ntor, data: start.message() })
}

/// Sends a message on the client's circuit and returns the circuit's id.
pub(super) fn send(client: &mut Client, on: u16, message: &RelayMessage) -> CircId {
    client.send_message(stream(on), message);
    client.id
}

/// A relay at an address where no program listens.
fn unreachable(relay: &Hop) -> LinkSpec {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    LinkSpec {
        addresses: vec![address],
        rsa: [7; 20],
        ed25519: Some(relay.0.ed25519.unwrap().map(|byte| !byte)),
    }
}

/// Each case: its name, the action, and the effect on Penstock if it differs on purpose.
const CASES: [(&str, Action, Option<Effect>); 18] = [
    (
        "CREATE2 with an unknown handshake",
        |client, _| create(client, id(99), HandshakeKind::Other(9), noise(84)),
        None,
    ),
    (
        "CREATE2 with random ntor data",
        |client, _| create(client, id(99), HandshakeKind::Ntor, noise(84)),
        None,
    ),
    (
        "CREATE2 with half of the ntor data",
        |client, _| create(client, id(99), HandshakeKind::Ntor, noise(40)),
        None,
    ),
    (
        "CREATE_FAST with an id of the wrong half",
        |client, _| create(client, CircId(NonZeroU32::new(99).unwrap()), HandshakeKind::Fast, noise(20)),
        None,
    ),
    (
        "CREATE_FAST with an id in use",
        |client, _| create(client, client.id, HandshakeKind::Fast, noise(20)),
        None,
    ),
    (
        "a relay cell that no hop recognizes",
        |client, _| {
            let mut cell = LiveCell::saying(client.id, None, &RelayMessage::Drop).to_bytes();
            rand::rng().fill_bytes(&mut cell[5..]);
            client.write(&cell);
            client.id
        },
        None,
    ),
    (
        "a link cell of an unknown command",
        |client, _| {
            let mut cell = LiveCell::saying(client.id, None, &RelayMessage::Drop).to_bytes();
            cell[4] = 77;
            client.write(&cell);
            client.id
        },
        None,
    ),
    (
        "EXTEND2 to an address without a listener",
        |client, relay| {
            let to = extend(client, unreachable(relay), relay);
            send(client, 0, &to)
        },
        None,
    ),
    (
        "EXTEND2 to the relay itself",
        |client, relay| {
            let to = extend(client, relay.0.clone(), relay);
            send(client, 0, &to)
        },
        None,
    ),
    ("a SENDME of nothing", |client, _| send(client, 0, &RelayMessage::Sendme(Some(Tag([7; 20])))), None),
    ("TRUNCATE", |client, _| send(client, 0, &RelayMessage::Truncate), None),
    (
        "BEGIN on a circuit of one hop",
        |client, _| {
            let target = Target::Host { host: "127.0.0.1".into(), port: 9, flags: Default::default() };
            send(client, 5, &RelayMessage::Begin(target))
        },
        None,
    ),
    (
        "DATA of an unknown stream",
        |client, _| send(client, 5, &RelayMessage::Data(LivePayload::new(b"x").unwrap())),
        None,
    ),
    (
        "END of an unknown stream",
        |client, _| send(client, 5, &RelayMessage::End(EndReason::MISC.into())),
        None,
    ),
    (
        "nine RELAY_EARLY cells",
        |client, _| {
            for _ in 0..9 {
                send_as(client, 9, &RelayMessage::Drop);
            }
            client.id
        },
        None,
    ),
    (
        "EXTEND2 in a RELAY cell",
        |client, relay| {
            let to = extend(client, unreachable(relay), relay);
            send_as(client, 3, &to)
        },
        None,
    ),
    (
        "EXTEND2 with a stream id",
        |client, relay| {
            let to = extend(client, unreachable(relay), relay);
            send(client, 1, &to)
        },
        None,
    ),
    (
        "a DESTROY of an unknown circuit",
        |client, _| {
            client.write(&LiveCell::destroy(id(1234), DestroyReason::NONE).to_bytes());
            client.id
        },
        None,
    ),
];

/// Sends the message in a cell with this command.
fn send_as(client: &mut Client, command: u8, message: &RelayMessage) -> CircId {
    let mut cell = LiveCell::saying(client.id, None, message);
    cell.seal(client.layers.last_mut().unwrap());
    let mut bytes = cell.to_bytes();
    bytes[4] = command;
    client.write(&bytes);
    client.id
}

/// The effect of an action on its circuit, while the link answers other requests. `build` builds the circuit.
pub(super) fn effect(relay: &Hop, build: impl Fn(&mut Client, &Hop), action: Action) -> Effect {
    let mut client = Client::connect(&relay.0);
    build(&mut client, relay);
    let circuit = action(&mut client, relay);
    for ping in 0..4 {
        std::thread::sleep(Duration::from_millis(200));
        let ping = create(&mut client, id(5000 + ping), HandshakeKind::Fast, noise(20));
        let Some(mut cell) = client.try_receive() else { return LinkCloses };
        if cell.circ_id() == ping {
            continue;
        }
        assert_eq!(cell.circ_id(), circuit, "{cell:?}");
        return match cell.command() {
            Command::Destroy => Destroyed(cell.destroy_reason()),
            Command::Relay => {
                cell.peel(client.layers.last_mut().unwrap())
                    .expect("a hop of the circuit encrypted the cell");
                Receives(Box::new(read(cell.to_bytes()[5..].try_into().unwrap()).unwrap().1))
            }
            other => panic!("{other:?} is no expected reaction"),
        };
    }
    Unaffected
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn protocol_violations_have_the_same_effect_in_c_tor_and_penstock() {
    let (ctor, ours) = (CTor::exit(), Running::start_configured(|config| config.single_hop = false));
    let mut differ = Vec::new();
    let build = |client: &mut Client, relay: &Hop| client.build(std::slice::from_ref(relay));
    for (name, action, expected) in CASES {
        let [theirs, mine] = [effect(&hop(&ctor), build, action), effect(&ours.hop(), build, action)];
        println!("{name}: C tor {theirs:?}, ours {mine:?}");
        if mine != expected.unwrap_or(theirs) {
            differ.push(name);
        }
    }
    assert_eq!(differ, [""; 0]);
}
