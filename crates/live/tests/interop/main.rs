//! Penstock's protocol code against a C tor relay: links and circuits in both directions.
//!
//! Needs Debian's package `tor` (0.4.8 or later), or the path of a tor program in the variable TOR:
//! `cargo test -p penstock-live --test interop -- --ignored`.

#[path = "../common/mod.rs"]
mod common;
mod conflux;
mod ctor;
mod tls;
mod violations;

use common::{Client, Hop, Running, exchange};
use ctor::CTor;
use penstock_core::edge_control::{Congestion, Negotiation};
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::{Cell, CircId, Command, StreamId};
use penstock_link::cell::{
    DestroyReason, EndReason, Extended, Front, Handshake, HandshakeKind, IdLen, Incoming, LinkSpec, LiveCell,
    RelayMessage, Target, front,
};
use penstock_link::certs::{Credentials, Identity};
use penstock_link::crypto::tor1::Layer;
use penstock_link::crypto::{answer, extensions, fast, ntor, ntor_v3};
use penstock_link::handshake::{Expected, Link, Peer};
use penstock_link::keys::Keys;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};
use std::time::{Duration, SystemTime};
use tls::{Channel, Shown};

/// The real time. Certificates need it.
#[expect(clippy::disallowed_methods, reason = "C tor's certificates have the current date")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// A Penstock relay.
struct Node {
    keys: Keys,
    credentials: Credentials,
}

impl Node {
    fn new() -> Self {
        let keys = Keys::generate(&mut rand::rng(), now());
        let credentials = Credentials::new(&keys, &mut rand::rng(), now(), ["www.aaa.com", "www.bbb.net"]);
        Node { keys, credentials }
    }

    fn identity(&self) -> Identity {
        Identity { rsa: self.keys.rsa_identity(), ed25519: self.keys.ed25519_identity() }
    }
}

/// A link after its handshake.
struct Open {
    channel: Box<dyn Channel>,
    peer: Peer,
    version: u16,
    canonical: bool,
    inbuf: Vec<u8>,
}

impl Open {
    /// Runs the link handshake over `channel` to its end.
    fn new(mut channel: Box<dyn Channel>, mut link: Link, node: &Node, address: IpAddr) -> Self {
        let mut buffer = [0; 4096];
        loop {
            channel.write_all(&link.poll_output()).unwrap();
            channel.flush().unwrap();
            let len = channel.read(&mut buffer).unwrap();
            assert!(len > 0, "the peer closed the link during its handshake");
            let export = |context: &[u8; 32]| Some(channel.export(context));
            let done =
                link.on_bytes(now(), &buffer[..len], &node.credentials, &export, &mut rand::rng()).unwrap();
            if let Some(done) = done {
                channel.write_all(&link.poll_output()).unwrap();
                channel.flush().unwrap();
                let canonical = done.is_canonical(address);
                return Open { channel, peer: done.peer, version: done.version, canonical, inbuf: done.rest };
            }
        }
    }

    fn send(&mut self, cell: &LiveCell) {
        self.channel.write_all(&cell.to_bytes()).unwrap();
        self.channel.flush().unwrap();
    }

    /// Returns the next circuit cell.
    fn receive(&mut self) -> LiveCell {
        loop {
            while let Front::Cell(frame, len) = front(&self.inbuf, IdLen::Four) {
                let incoming = Incoming::of(&frame, Extended::NONE);
                self.inbuf.drain(..len);
                if let Incoming::Cell(cell) = incoming {
                    return cell;
                }
            }
            let mut buffer = [0; 4096];
            let len = self.channel.read(&mut buffer).unwrap();
            assert!(len > 0, "the peer closed the link");
            self.inbuf.extend_from_slice(&buffer[..len]);
        }
    }
}

fn expected(identity: Identity) -> Expected {
    Expected { rsa: Some(identity.rsa), ed25519: Some(identity.ed25519) }
}

/// Opens a link to the C tor relay.
fn connect(ctor: &CTor, node: &Node, as_relay: bool) -> Open {
    let channel = tls::connect(TcpStream::connect(ctor.address).unwrap());
    let (address, certificate) = (ctor.address.ip(), channel.certificate_sha256());
    let meant = expected(ctor.identity());
    let link = if as_relay {
        Link::connect(meant, certificate, address, vec![address])
    } else {
        Link::connect_as_client(meant, certificate, address)
    };
    let open = Open::new(Box::new(channel), link, node, address);
    assert_eq!((open.peer, open.version), (Peer::Relay(ctor.identity()), 5));
    assert!(open.canonical, "C tor's NETINFO has the address at which it listens");
    open
}

fn id(id: u32) -> CircId {
    CircId(NonZeroU32::new(1 << 31 | id).unwrap())
}

fn stream(id: u16) -> Option<StreamId> {
    NonZeroU16::new(id).map(StreamId)
}

const ASKED: Negotiation = Negotiation::Asked(Congestion::Vegas);

/// Creates a circuit of one hop.
fn create(open: &mut Open, id: CircId, ctor: &CTor, kind: HandshakeKind) -> Layer {
    let mut rng = rand::rng();
    let (identity, onion) = (ctor.identity(), ctor.onion_key());
    let (fast, ntor) = (fast::Client::start(&mut rng), ntor::Client::start(&mut rng, identity.rsa, onion));
    let v3 = ntor_v3::Client::start(&mut rng, identity.ed25519, onion, &extensions::write(ASKED));
    let data = match kind {
        HandshakeKind::Fast => fast.message().to_vec(),
        HandshakeKind::Ntor => ntor.message(),
        _ => v3.message().to_vec(),
    };
    open.send(&LiveCell::create(id, Handshake { kind, data }));
    let reply = open.receive().into_handshake().expect("C tor answers with CREATED");
    let keys = match kind {
        HandshakeKind::Fast => fast.finish(&reply.data).unwrap(),
        HandshakeKind::Ntor => ntor.finish(&reply.data).unwrap(),
        _ => {
            let (reply_extensions, keys) = v3.finish(&reply.data).unwrap();
            let granted = extensions::granted(&reply_extensions).unwrap();
            assert_eq!(granted, Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(31).unwrap()));
            keys
        }
    };
    Layer::client(&keys, &[7; 16])
}

/// Sends a relay message to the last hop of `layers`.
fn send_message(open: &mut Open, layers: &mut [&mut Layer], mut cell: LiveCell) {
    let (last, nearer) = layers.split_last_mut().unwrap();
    cell.seal(last);
    nearer.iter_mut().rev().for_each(|layer| cell.wrap(layer));
    open.send(&cell);
}

/// Receives a relay message from one of the hops of `layers`.
fn receive_message(open: &mut Open, layers: &mut [&mut Layer]) -> (Option<StreamId>, RelayMessage) {
    let mut cell = open.receive();
    assert!(
        layers.iter_mut().any(|layer| cell.peel(layer).is_some()),
        "no hop recognizes {cell:?}: {:?}",
        cell.destroy_reason()
    );
    penstock_link::cell::read(cell.to_bytes()[5..].try_into().unwrap()).unwrap()
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn c_tor_answers_each_handshake_and_reads_the_next_cell() {
    let (ctor, node) = (CTor::start(true), Node::new());
    for as_relay in [false, true] {
        let mut open = connect(&ctor, &node, as_relay);
        for (n, kind) in
            [HandshakeKind::Fast, HandshakeKind::Ntor, HandshakeKind::NtorV3].into_iter().enumerate()
        {
            // C tor does not answer CREATE_FAST on a relay's link.
            if as_relay && kind == HandshakeKind::Fast {
                continue;
            }
            let id = id(n as u32 + 1);
            let mut layer = create(&mut open, id, &ctor, kind);
            let target = Target::Host { host: "192.0.2.1".into(), port: 80, flags: Default::default() };
            send_message(
                &mut open,
                &mut [&mut layer],
                LiveCell::saying(id, stream(5), &RelayMessage::Begin(target)),
            );
            let (on, message) = receive_message(&mut open, &mut [&mut layer]);
            // The relay is no exit. The END reason depends on the handshake.
            assert!(
                matches!(message, RelayMessage::End(_)) && on == stream(5),
                "{kind:?}: {on:?} {message:?}"
            );
            open.send(&LiveCell::destroy(id, DestroyReason::NONE));
        }
    }
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn c_tor_extends_to_our_node_and_authenticates() {
    let (ctor, node) = (CTor::start(false), Node::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (identity, ctors) = (node.identity(), ctor.identity());
    let onion = node.keys.identities().onion[0].public;
    let exit = std::thread::spawn(move || serve(&listener, &node, ctors));

    let client = Node::new();
    let mut open = connect(&ctor, &client, false);
    let id = id(1);
    let mut first = create(&mut open, id, &ctor, HandshakeKind::Ntor);
    let v3 = ntor_v3::Client::start(&mut rand::rng(), identity.ed25519, onion, &extensions::write(ASKED));
    let to = LinkSpec { addresses: vec![address], rsa: identity.rsa, ed25519: Some(identity.ed25519) };
    let handshake = Handshake { kind: HandshakeKind::NtorV3, data: v3.message().to_vec() };
    send_message(
        &mut open,
        &mut [&mut first],
        LiveCell::saying(id, None, &RelayMessage::Extend(to, handshake)),
    );
    let (_, RelayMessage::Extended(reply)) = receive_message(&mut open, &mut [&mut first]) else {
        panic!("C tor sends EXTEND2 to this node")
    };
    let (reply_extensions, keys) = v3.finish(&reply.data).unwrap();
    assert_eq!(
        extensions::granted(&reply_extensions),
        Ok(Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(31).unwrap()))
    );
    let mut second = Layer::client(&keys, &[9; 16]);

    let resolve = RelayMessage::Begin(Target::Resolve("example.org".into()));
    for n in 1..=20 {
        send_message(&mut open, &mut [&mut first, &mut second], LiveCell::saying(id, stream(n), &resolve));
        let mut cell = open.receive();
        assert_eq!(cell.peel(&mut first), None, "the first hop only forwards the cell");
        assert!(cell.peel(&mut second).is_some());
        let heard = penstock_link::cell::read(cell.to_bytes()[5..].try_into().unwrap()).unwrap();
        assert_eq!(heard, (stream(n), RelayMessage::End(EndReason::RESOLVE_FAILED.into())));
    }
    open.send(&LiveCell::destroy(id, DestroyReason::NONE));
    exit.join().unwrap();
}

/// Answers the cells of one link, until its circuit is closed.
fn serve(listener: &TcpListener, node: &Node, ctor: Identity) {
    let (stream, from): (TcpStream, SocketAddr) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let channel = tls::accept(stream, &node.credentials);
    let link = Link::respond(&mut rand::rng(), from.ip(), vec![from.ip()]);
    let mut open = Open::new(Box::new(channel), link, node, from.ip());
    assert_eq!((open.peer, open.version, open.canonical), (Peer::Relay(ctor), 5, true));
    let create = open.receive();
    let id = create.circ_id();
    let handshake = create.into_handshake().unwrap();
    let agreed = Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(31).unwrap());
    let answered = answer(&mut rand::rng(), &handshake, &node.keys.identities(), |asked| {
        assert_eq!(asked, ASKED);
        agreed
    });
    let mut answered = answered.unwrap();
    open.send(&LiveCell::created(id, answered.reply));
    loop {
        let mut cell = open.receive();
        if cell.command() == Command::Destroy {
            return;
        }
        cell.peel(&mut answered.layer).expect("this node is the last hop");
        let (stream, message) = penstock_link::cell::read(cell.to_bytes()[5..].try_into().unwrap()).unwrap();
        assert_eq!(message, RelayMessage::Begin(Target::Resolve("example.org".into())));
        let mut end = LiveCell::saying(id, stream, &RelayMessage::End(EndReason::RESOLVE_FAILED.into()));
        end.seal(&mut answered.layer);
        open.send(&end);
    }
}

/// The link specifiers and onion key of a C tor relay.
fn hop(ctor: &CTor) -> Hop {
    let identity = ctor.identity();
    let spec = LinkSpec { addresses: vec![ctor.address], rsa: identity.rsa, ed25519: Some(identity.ed25519) };
    (spec, ctor.onion_key())
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn circuits_through_penstock_and_c_tor_work_in_any_order() {
    let (ctor, ours) = (CTor::exit(), [(); 2].map(|()| Running::start(SchedulerConfig::default())));
    let [c, a, b] = [hop(&ctor), ours[0].hop(), ours[1].hop()];
    let (server, _ends) = exchange::server();
    // C tor is the first hop, then the middle, then the exit.
    for path in [vec![c.clone(), a.clone()], vec![a.clone(), c.clone(), b.clone()], vec![a, b, c]] {
        let mut client = Client::connect(&path[0].0);
        client.build(&path);
        for (number, bytes) in (1..).zip([0, 1, 498, 10_000, 1_000_000]) {
            client.exchange(server, number, bytes, bytes);
        }
    }
}

/// A day [s].
const DAY: i64 = 86_400;

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn links_and_circuits_work_with_a_clock_that_is_wrong_by_a_day() {
    let ctor = CTor::exit();
    let (server, _ends) = exchange::server();
    for ahead in [DAY, -DAY] {
        let ours = Running::start_configured(|config| config.clock = config.clock.off_by(ahead));
        // Penstock opens a link to C tor, and C tor opens one to Penstock.
        for path in [[ours.hop(), hop(&ctor)], [hop(&ctor), ours.hop()]] {
            let mut client = Client::connect(&path[0].0);
            client.build(&path);
            client.exchange(server, 1, 1_000_000, 1_000_000);
        }
    }
}

/// Waits until the client's circuit is destroyed, and returns the reason.
fn destroyed(client: &mut Client) -> DestroyReason {
    loop {
        let cell = client.receive();
        if cell.circ_id() == client.id && cell.command() == Command::Destroy {
            return cell.destroy_reason();
        }
    }
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn an_extend_with_a_wrong_identity_fails() {
    let (ctor, ours) = (CTor::exit(), Running::start(SchedulerConfig::default()));
    let (server, _ends) = exchange::server();
    let other = Node::new().identity();
    let mut reasons = Vec::new();
    for [first, last] in [[hop(&ctor), ours.hop()], [ours.hop(), hop(&ctor)]] {
        let mut client = Client::connect(&first.0);
        let wrong = [
            LinkSpec { rsa: other.rsa, ..last.0.clone() },
            LinkSpec { ed25519: Some(other.ed25519), ..last.0.clone() },
            LinkSpec { rsa: other.rsa, ed25519: Some(other.ed25519), ..last.0.clone() },
        ];
        let mut heard = Vec::new();
        for (number, wrong) in (100..).zip(wrong) {
            client.new_circuit(number);
            client.build(std::slice::from_ref(&first));
            let start = ntor::Client::start(&mut rand::rng(), wrong.rsa, last.1);
            let handshake = Handshake { kind: HandshakeKind::Ntor, data: start.message() };
            client.send_message(None, &RelayMessage::Extend(wrong, handshake));
            heard.push(destroyed(&mut client));
        }
        reasons.push(heard);
        // Both relays then still accept a correct EXTEND.
        client.new_circuit(200);
        client.build(&[first, last]);
        client.exchange(server, 1, 100_000, 100_000);
    }
    println!("C tor, and Penstock: {reasons:?}");
    assert_eq!(reasons[0], reasons[1], "C tor and Penstock give the same reason");
}
