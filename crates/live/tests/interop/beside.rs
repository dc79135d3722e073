//! What peers that break the protocol hear of C tor, and of ours beside it.

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

/// What becomes of a circuit.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    GoesOn,
    Destroyed(DestroyReason),
    /// It hears this first.
    Hears(Box<RelayMessage>),
    /// The whole link closes.
    LinkCloses,
}

use Fate::{Destroyed, GoesOn, Hears, LinkCloses};

/// What a peer does with a circuit of one hop; which circuit's fate is looked at.
type Act = fn(&mut Client, &Hop) -> CircId;

fn id(low: u32) -> CircId {
    CircId(NonZeroU32::new(1 << 31 | low).unwrap())
}

fn noise(bytes: usize) -> Vec<u8> {
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

/// Says it, and the circuit is looked at.
fn say(client: &mut Client, on: u16, message: &RelayMessage) -> CircId {
    client.say(stream(on), message);
    client.id
}

/// Where nobody listens.
fn nowhere(relay: &Hop) -> LinkSpec {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    LinkSpec {
        addresses: vec![address],
        rsa: [7; 20],
        ed25519: Some(relay.0.ed25519.unwrap().map(|byte| !byte)),
    }
}

/// All that is tried: what it is, and whether ours does otherwise than C tor on purpose.
const ACTS: [(&str, Act, Option<Fate>); 18] = [
    (
        "CREATE2 of a handshake that nobody knows",
        |client, _| create(client, id(99), HandshakeKind::Other(9), noise(84)),
        None,
    ),
    ("CREATE2 with noise for ntor", |client, _| create(client, id(99), HandshakeKind::Ntor, noise(84)), None),
    ("CREATE2 with half of ntor", |client, _| create(client, id(99), HandshakeKind::Ntor, noise(40)), None),
    (
        "CREATE_FAST with an id of the other half",
        |client, _| create(client, CircId(NonZeroU32::new(99).unwrap()), HandshakeKind::Fast, noise(20)),
        None,
    ),
    (
        "CREATE_FAST with an id in use",
        |client, _| create(client, client.id, HandshakeKind::Fast, noise(20)),
        None,
    ),
    (
        "a relay cell that no hop knows",
        |client, _| {
            let mut cell = LiveCell::saying(client.id, None, &RelayMessage::Drop).to_bytes();
            rand::rng().fill_bytes(&mut cell[5..]);
            client.write(&cell);
            client.id
        },
        None,
    ),
    (
        "a link's cell of an unknown kind",
        |client, _| {
            let mut cell = LiveCell::saying(client.id, None, &RelayMessage::Drop).to_bytes();
            cell[4] = 77;
            client.write(&cell);
            client.id
        },
        None,
    ),
    (
        "EXTEND2 to where nobody listens",
        |client, relay| {
            let to = extend(client, nowhere(relay), relay);
            say(client, 0, &to)
        },
        None,
    ),
    (
        "EXTEND2 to the relay itself",
        |client, relay| {
            let to = extend(client, relay.0.clone(), relay);
            say(client, 0, &to)
        },
        None,
    ),
    ("a SENDME of nothing", |client, _| say(client, 0, &RelayMessage::Sendme(Some(Tag([7; 20])))), None),
    ("TRUNCATE", |client, _| say(client, 0, &RelayMessage::Truncate), None),
    (
        "BEGIN on a circuit of one hop",
        |client, _| {
            let target = Target::Host { host: "127.0.0.1".into(), port: 9, flags: Default::default() };
            say(client, 5, &RelayMessage::Begin(target))
        },
        None,
    ),
    (
        "DATA of a stream that is not there",
        |client, _| say(client, 5, &RelayMessage::Data(LivePayload::new(b"x").unwrap())),
        None,
    ),
    (
        "END of a stream that is not there",
        |client, _| say(client, 5, &RelayMessage::End(EndReason::MISC.into())),
        None,
    ),
    (
        "nine RELAY_EARLY cells",
        |client, _| {
            for _ in 0..9 {
                say_as(client, 9, &RelayMessage::Drop);
            }
            client.id
        },
        None,
    ),
    (
        "EXTEND2 in a RELAY cell",
        |client, relay| {
            let to = extend(client, nowhere(relay), relay);
            say_as(client, 3, &to)
        },
        None,
    ),
    (
        "EXTEND2 of a stream",
        |client, relay| {
            let to = extend(client, nowhere(relay), relay);
            say(client, 1, &to)
        },
        None,
    ),
    (
        "a DESTROY of a circuit that is not there",
        |client, _| {
            client.write(&LiveCell::destroy(id(1234), DestroyReason::NONE).to_bytes());
            client.id
        },
        None,
    ),
];

/// Says it in a cell of this kind.
fn say_as(client: &mut Client, command: u8, message: &RelayMessage) -> CircId {
    let mut cell = LiveCell::saying(client.id, None, message);
    cell.seal(client.layers.last_mut().unwrap());
    let mut bytes = cell.to_bytes();
    bytes[4] = command;
    client.write(&bytes);
    client.id
}

/// What becomes of what an act is about, while the link answers others.
fn fate(relay: &Hop, act: Act) -> Fate {
    let mut client = Client::connect(&relay.0);
    client.build(std::slice::from_ref(relay));
    let about = act(&mut client, relay);
    for ping in 0..4 {
        std::thread::sleep(Duration::from_millis(200));
        let ping = create(&mut client, id(5000 + ping), HandshakeKind::Fast, noise(20));
        let Some(mut cell) = client.try_receive() else { return LinkCloses };
        if cell.circ_id() == ping {
            continue;
        }
        assert_eq!(cell.circ_id(), about, "{cell:?}");
        return match cell.command() {
            Command::Destroy => Destroyed(cell.destroy_reason()),
            Command::Relay => {
                cell.peel(client.layers.last_mut().unwrap()).expect("the hop said it");
                Hears(Box::new(read(cell.to_bytes()[5..].try_into().unwrap()).unwrap().1))
            }
            other => panic!("{other:?} is no answer"),
        };
    }
    GoesOn
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn protocol_violations_have_the_same_effect_in_c_tor_and_penstock() {
    let (ctor, ours) = (CTor::exit(), Running::start_as(|config| config.single_hop = false));
    let mut differ = Vec::new();
    for (name, act, otherwise) in ACTS {
        let [theirs, mine] = [fate(&hop(&ctor), act), fate(&ours.hop(), act)];
        println!("{name}: C tor {theirs:?}, ours {mine:?}");
        if mine != otherwise.unwrap_or(theirs) {
            differ.push(name);
        }
    }
    assert_eq!(differ, [""; 0]);
}
