//! The load of a relay in the middle: cells of downloads from exits to guards, and the SENDMEs in the other direction.
//!
//! This process simulates both ends of all circuits. A counter limits the cells in flight. Only the first cells of
//! each circuit are decrypted. They show that the relay removes and adds its encryption layer.

use crate::subject::Subject;
use crate::wire::{Wire, random_identity, tls};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use penstock_core::{Cell, CircId};
use penstock_link::cell::{
    CELL_LEN, Extended, Front, Handshake, HandshakeKind, IdLen, Incoming, LinkSpec, LiveCell, RelayMessage,
    front,
};
use penstock_link::certs::Credentials;
use penstock_link::crypto::tor1::Layer;
use penstock_link::crypto::{answer, ntor};
use penstock_link::handshake::{Expected, Link};
use penstock_link::keys::Keys;
use penstock_live::clock::Clock;
use penstock_live::tls::{TlsConfigs, certificate_sha256, export};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::time::Duration;
use tor_llcrypto::pk::curve25519::PublicKey;

/// Number of links on each side of the relay.
pub(crate) const LINKS: usize = 4;
/// Number of circuits: one between each pair of links on different sides.
pub(crate) const CIRCUITS: usize = LINKS * LINKS;
/// Maximum cells of a circuit in flight [cell].
const WINDOW: u64 = 300;
/// Number of cells for which the guard sends one cell back, as in congestion control (`cc_sendme_inc`) [cell].
const SENDME: u64 = 31;
/// Cells in a TLS record, as on links of C tor; then TLS records in a write.
const RECORD: usize = 8;
const RECORDS: usize = 4;
/// Number of cells of each circuit that the load decrypts and checks [cell].
const CHECKED_CELLS: u64 = 20;

/// One link to the relay, at the end of the load.
struct Peer {
    wire: Wire,
    inbuf: Vec<u8>,
    waits: bool,
}

struct Circuit {
    /// The cells that the exit and the guard send repeatedly.
    down: [u8; CELL_LEN],
    up: [u8; CELL_LEN],
    /// The relay's encryption layer; `None` for the ceiling.
    layer: Option<Layer>,
    sent: u64,
    received: u64,
}

pub(crate) struct Load {
    guards: Vec<Peer>,
    exits: Vec<Peer>,
    /// Circuit `n` connects exit `n % LINKS` and guard `n / LINKS`.
    circuits: Vec<Circuit>,
    /// Cells that arrived at exits [cell].
    back: u64,
    turn: usize,
    clock: Clock,
}

struct Identity {
    keys: Keys,
    credentials: Credentials,
    tls: TlsConfigs,
}

impl Identity {
    fn new() -> Self {
        let (keys, credentials) = random_identity();
        Identity { tls: tls(&credentials), keys, credentials }
    }
}

impl Load {
    /// Opens links to a relay and builds circuits through it. The ceiling has no circuits.
    pub(crate) fn open(subject: &Subject, at: IpAddr) -> Self {
        match &subject.relay {
            Some((spec, onion)) => Load::through(spec, *onion, at),
            None => Load::over(subject.address),
        }
    }

    fn with(guards: Vec<Peer>, exits: Vec<Peer>, circuits: Vec<Circuit>) -> Self {
        for peer in guards.iter().chain(&exits) {
            peer.wire.socket.set_nonblocking(true).expect("the socket is open");
        }
        Load { guards, exits, circuits, back: 0, turn: 0, clock: Clock::start() }
    }

    fn over(address: SocketAddr) -> Self {
        let (_, credentials) = random_identity();
        let tls = tls(&credentials);
        let dial = || {
            let socket = TcpStream::connect(address).expect("the ceiling listens");
            Peer::new(Wire::drive_handshake(socket, tls.connect()).expect("the ceiling supports TLS"))
        };
        let side = || (0..LINKS).map(|_| dial()).collect();
        let (guards, exits) = (side(), side());
        let circuits = (0..CIRCUITS).map(|n| Circuit::new(number(n), number(n), None));
        Load::with(guards, exits, circuits.collect())
    }

    fn through(relay: &LinkSpec, onion: PublicKey, at: IpAddr) -> Self {
        let all = || (0..LINKS).map(|_| Identity::new()).collect::<Vec<_>>();
        let (guards, exits) = (all(), all());
        let listen = |_: &Identity| TcpListener::bind((at, 0)).expect("a port is free");
        let listeners: Vec<_> = exits.iter().map(listen).collect();
        let mut guards: Vec<_> = guards.iter().map(|guard| Peer::dial(guard, relay, at)).collect();
        let mut opened: Vec<Option<Peer>> = (0..LINKS).map(|_| None).collect();
        let circuit = |n: usize| {
            let (guard, exit) = (&mut guards[n / LINKS], n % LINKS);
            let (id, mut rng) = (number(n), rand::rng());
            let first = ntor::Client::start(&mut rng, relay.rsa, onion);
            let handshake = Handshake { kind: HandshakeKind::Ntor, data: first.message() };
            guard.send(&LiveCell::create(id, handshake));
            let reply = guard.receive().into_handshake().expect("the relay answers");
            let mut layer =
                Layer::client(&first.finish(&reply.data).expect("the reply has the relay's key"), &[1; 16]);

            let keys = &exits[exit].keys;
            let address = listeners[exit].local_addr().expect("the listener is bound");
            let (rsa, ed25519) = (keys.rsa_identity(), keys.ed25519_identity());
            let to = LinkSpec { addresses: vec![address], rsa, ed25519: Some(ed25519) };
            let second = ntor::Client::start(&mut rng, rsa, keys.identities().onion[0].public);
            let handshake = Handshake { kind: HandshakeKind::Ntor, data: second.message() };
            let mut extend = LiveCell::saying(id, None, &RelayMessage::Extend(to, handshake));
            extend.seal(&mut layer);
            guard.send(&extend);
            let open = || Peer::accept(&exits[exit], &listeners[exit], at);
            let peer = opened[exit].get_or_insert_with(open);
            let create = peer.receive();
            let onward = create.circ_id();
            let asked = create.into_handshake().expect("the relay extends");
            let answered = answer(&mut rng, &asked, &keys.identities(), |said| said)
                .expect("the reply is a valid ntor reply");
            peer.send(&LiveCell::created(onward, answered.reply));
            assert!(guard.receive().peel(&mut layer).is_some(), "the relay sends EXTENDED2");
            Circuit::new(id, onward, Some(layer))
        };
        let circuits = (0..CIRCUITS).map(circuit).collect();
        Load::with(guards, opened.into_iter().flatten().collect(), circuits)
    }

    pub(crate) fn ciphers(&self) -> Vec<String> {
        let said = |peer: &Peer| {
            let suite = peer.wire.tls.negotiated_cipher_suite().expect("TLS is up");
            format!("{:?}", suite.suite())
        };
        let mut all: Vec<_> = self.guards.iter().chain(&self.exits).map(said).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Cells that have arrived at guards and exits so far [cell].
    pub(crate) fn cells(&self) -> u64 {
        self.circuits.iter().map(|circuit| circuit.received).sum::<u64>() + self.back
    }

    /// Sends cells for the time `span`. Returns the measured time.
    pub(crate) fn run(&mut self, span: Duration) -> Duration {
        let begun = self.clock.now();
        loop {
            let now = self.clock.now();
            if now.since(begun) >= span {
                return now.since(begun);
            }
            for exit in 0..LINKS {
                self.send(exit);
            }
            self.wait();
            self.receive();
        }
    }

    /// An exit sends cells, as far as the windows allow.
    fn send(&mut self, exit: usize) {
        let peer = &mut self.exits[exit];
        if peer.waits {
            peer.flush();
        }
        let mut record = Vec::with_capacity(RECORD * CELL_LEN);
        for _ in 0..RECORDS {
            record.clear();
            let mut closed = 0;
            while record.len() < RECORD * CELL_LEN && closed < LINKS && !peer.waits {
                self.turn = (self.turn + 1) % LINKS;
                let circuit = &mut self.circuits[self.turn * LINKS + exit];
                if circuit.sent < circuit.received + WINDOW {
                    circuit.sent += 1;
                    record.extend_from_slice(&circuit.down);
                } else {
                    closed += 1;
                }
            }
            if !record.is_empty() {
                peer.wire.put(&record);
            }
        }
        peer.flush();
    }

    /// Waits until a link is readable, or writable with unsent bytes.
    fn wait(&self) {
        let events =
            |peer: &Peer| if peer.waits { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        let all = self.guards.iter().chain(&self.exits);
        let mut all: Vec<_> = all.map(|peer| PollFd::new(peer.wire.socket.as_fd(), events(peer))).collect();
        poll(&mut all, PollTimeout::from(10_u8)).expect("poll succeeds");
    }

    fn receive(&mut self) {
        let circuits = &mut self.circuits;
        for guard in &mut self.guards {
            let mut due = Vec::new();
            guard.take(|cell| {
                let circuit = &mut circuits[index(cell)];
                circuit.take(cell);
                if circuit.received.is_multiple_of(SENDME) {
                    due.push(index(cell));
                }
            });
            due.iter().for_each(|circuit| guard.wire.put(&circuits[*circuit].up));
            guard.flush();
        }
        for exit in &mut self.exits {
            exit.take(|_| self.back += 1);
        }
    }
}

impl Circuit {
    fn new(guard: CircId, exit: CircId, layer: Option<Layer>) -> Self {
        let cell = |id: CircId| {
            let mut cell: [u8; CELL_LEN] = std::array::from_fn(|at| (at * 7 + 3) as u8);
            cell[..4].copy_from_slice(&id.0.get().to_be_bytes());
            // The command RELAY.
            cell[4] = 3;
            cell
        };
        Circuit { down: cell(exit), up: cell(guard), layer, sent: 0, received: 0 }
    }

    fn take(&mut self, cell: &[u8; CELL_LEN]) {
        self.received += 1;
        if let Some(layer) = self.layer.as_mut().filter(|_| self.received <= CHECKED_CELLS) {
            let Front::Cell(frame, _) = front(cell, IdLen::Four) else {
                unreachable!("the cell is complete")
            };
            let Incoming::Cell(mut cell) = Incoming::of(&frame, Extended::NONE) else {
                panic!("a RELAY cell is expected")
            };
            assert_eq!(cell.peel(layer), None, "the relay originates no message");
            assert_eq!(cell.to_bytes()[5..], self.down[5..], "the relay only adds its layer");
        }
    }
}

impl Peer {
    fn new(wire: Wire) -> Self {
        Peer { wire, inbuf: Vec::new(), waits: false }
    }

    fn dial(own: &Identity, relay: &LinkSpec, at: IpAddr) -> Self {
        let socket = TcpStream::connect(relay.addresses[0]).expect("the relay listens");
        let mut peer =
            Peer::new(Wire::drive_handshake(socket, own.tls.connect()).expect("the relay supports TLS"));
        let expected = Expected { rsa: Some(relay.rsa), ed25519: relay.ed25519 };
        let certificate = certificate_sha256(&peer.wire.tls).expect("TLS is up");
        peer.link(own, Link::connect(expected, certificate, relay.addresses[0].ip(), vec![at]));
        peer
    }

    fn accept(own: &Identity, listener: &TcpListener, at: IpAddr) -> Self {
        let (socket, from) = listener.accept().expect("the relay connects");
        let mut peer =
            Peer::new(Wire::drive_handshake(socket, own.tls.accept()).expect("the relay supports TLS"));
        peer.link(own, Link::respond(&mut rand::rng(), from.ip(), vec![at]));
        peer
    }

    fn link(&mut self, own: &Identity, mut link: Link) {
        loop {
            self.write_all(&link.poll_output());
            let bytes = self.read_bytes();
            let connection = &self.wire.tls;
            let secret = |context: &[u8; 32]| export(connection, context);
            let now = Clock::start().date();
            let done = link.on_bytes(now, &bytes, &own.credentials, &secret, &mut rand::rng());
            if let Some(done) = done.expect("the relay follows the link protocol") {
                self.write_all(&link.poll_output());
                self.inbuf = done.rest;
                return;
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) {
        self.wire.tls.writer().write_all(bytes).expect("the buffer has space");
        assert!(
            self.wire.flush().expect("the relay is connected"),
            "sockets block until the circuits are built"
        );
    }

    /// Waits for bytes from the relay and returns them.
    fn read_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.is_empty() {
            self.wire.read(|record| bytes.extend_from_slice(record)).expect("the relay is connected");
        }
        bytes
    }

    fn send(&mut self, cell: &LiveCell) {
        self.write_all(&cell.to_bytes());
    }

    fn receive(&mut self) -> LiveCell {
        loop {
            while let Front::Cell(frame, len) = front(&self.inbuf, IdLen::Four) {
                let incoming = Incoming::of(&frame, Extended::NONE);
                self.inbuf.drain(..len);
                if let Incoming::Cell(cell) = incoming {
                    return cell;
                }
            }
            let bytes = self.read_bytes();
            self.inbuf.extend_from_slice(&bytes);
        }
    }

    /// Reads from the link, and calls `each` for every RELAY cell.
    fn take(&mut self, mut each: impl FnMut(&[u8; CELL_LEN])) {
        let inbuf = &mut self.inbuf;
        let read = self.wire.read(|record| inbuf.extend_from_slice(record));
        read.expect("the relay is connected");
        let mut at = 0;
        while let Front::Cell(frame, len) = front(&self.inbuf[at..], IdLen::Four) {
            // Padding cells have the circuit id zero.
            if frame.circ_id != 0 {
                assert_eq!(frame.command, 3, "circuit {} ended", frame.circ_id);
                each(self.inbuf[at..at + len].try_into().expect("RELAY cells have one length"));
            }
            at += len;
        }
        self.inbuf.drain(..at);
    }

    fn flush(&mut self) {
        self.waits = !self.wire.flush().expect("the relay is connected");
    }
}

/// The circuit id of circuit `n` on the guard's link. The load opened this link.
fn number(n: usize) -> CircId {
    CircId(NonZeroU32::new(1 << 31 | (n as u32 + 1)).expect("the number is positive"))
}

/// The index of a circuit, from a cell on the guard's link.
fn index(cell: &[u8; CELL_LEN]) -> usize {
    (u32::from_be_bytes([cell[0], cell[1], cell[2], cell[3]]) & !(1 << 31)) as usize - 1
}
