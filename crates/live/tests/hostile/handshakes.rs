//! Peers that stop, are silent or send noise at each stage of TLS and of a link handshake, and peers that send their
//! cells in pieces.

use super::common::{Client, connect_tls, noise, pattern, serve, test_identity, write};
use super::{node, unharmed};
use penstock_core::{Cell, CircId, Command, DestroyReason};
use penstock_link::cell::{
    Front, Handshake, HandshakeKind, IdLen, LinkSpec, LiveCell, RelayMessage, command, front, push_variable,
};
use penstock_link::crypto::ntor;
use penstock_link::handshake::{Established, Expected, Link};
use penstock_live::clock::Clock;
use penstock_live::tls::{TlsConfigs, certificate_sha256, export};
use rustls::Connection;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::thread;

/// The node closes the connection before the read timeout of the socket (20 s).
fn closes(socket: &mut TcpStream) {
    let mut rest = [0; 4096];
    loop {
        match socket.read(&mut rest) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the node does not close: {error}"),
        }
    }
}

#[test]
fn a_peer_without_valid_tls_is_disconnected() {
    let node = node();
    let address = node.spec.addresses[0];
    let client_hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3];
    let sayings =
        [Vec::new(), noise(1), noise(10_000), b"GET / HTTP/1.0\r\n\r\n".to_vec(), client_hello.to_vec()];
    let mut sockets: Vec<TcpStream> = sayings
        .iter()
        .cycle()
        .take(50)
        .map(|saying| {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            socket.write_all(saying).unwrap();
            socket
        })
        .collect();
    unharmed(&node);
    sockets.iter_mut().for_each(closes);
    unharmed(&node);
}

fn variable(command: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_variable(&mut bytes, IdLen::Four, command, body);
    bytes
}

#[test]
fn a_peer_without_a_valid_link_handshake_is_disconnected() {
    let node = node();
    let address = node.spec.addresses[0];
    let versions = [0, 0, command::VERSIONS, 0, 4, 0, 4, 0, 5].to_vec();
    let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let certs = variable(command::CERTS, &noise(600));
    let sayings = [
        Vec::new(),
        noise(5),
        noise(65_536),
        half(&versions),
        // No peer speaks this version.
        [0, 0, command::VERSIONS, 0, 2, 0, 99].to_vec(),
        versions.clone(),
        [versions.clone(), half(&certs)].concat(),
        [versions.clone(), certs].concat(),
        [versions.clone(), variable(command::VPADDING, &noise(65_535)).repeat(20)].concat(),
        // A cell of a circuit before the end of the handshake.
        [
            versions,
            LiveCell::create(
                CircId(NonZeroU32::MAX),
                Handshake { kind: HandshakeKind::Fast, data: vec![0; 20] },
            )
            .to_bytes()
            .to_vec(),
        ]
        .concat(),
    ];
    let mut links: Vec<(TcpStream, Connection)> = Vec::new();
    for saying in &sayings {
        let (mut socket, mut tls) = connect_tls(address, usize::MAX);
        for saying in saying.chunks(32_768) {
            tls.writer().write_all(saying).unwrap();
            // The node may close the connection before the last byte.
            while tls.wants_write() && tls.write_tls(&mut socket).is_ok() {}
            if tls.wants_write() {
                break;
            }
        }
        links.push((socket, tls));
    }
    unharmed(&node);
    links.iter_mut().for_each(|(socket, _)| closes(socket));
    unharmed(&node);
}

#[test]
fn a_client_may_send_in_small_pieces() {
    let node = node();
    for chunk in [1, 2, 3, 7] {
        let mut client = Client::connect_in_chunks(&node.spec, chunk);
        client.build(&[node.hop()]);
        assert!(client.download(serve(100_000), 1) == pattern(100_000), "{chunk}");
    }
}

/// The last action of a peer, after its messages.
#[derive(Clone, Copy, Debug)]
enum Then {
    Silence,
    Garbage,
    End,
}

const THEN: [Then; 3] = [Then::Silence, Then::Garbage, Then::End];

impl Then {
    /// Performs the action. Returns the connection unless it ends.
    fn follow(self, mut socket: TcpStream, mut tls: Connection) -> Option<TcpStream> {
        match self {
            Then::Silence => Some(socket),
            Then::Garbage => {
                let _ = write(&mut socket, &mut tls, &noise(2000));
                Some(socket)
            }
            Then::End => None,
        }
    }
}

/// The next decrypted bytes; none if the peer closed the connection.
fn read(socket: &mut TcpStream, tls: &mut Connection) -> std::io::Result<Vec<u8>> {
    let mut room = [0; 4096];
    loop {
        match tls.reader().read(&mut room) {
            Ok(len) => return Ok(room[..len].to_vec()),
            Err(_) if tls.read_tls(socket)? == 0 => return Ok(Vec::new()),
            Err(_) => {
                tls.process_new_packets().map_err(std::io::Error::other)?;
            }
        }
    }
}

/// The start, the middle and the end of each cell, as offsets [B]. The first cell has a circuit id of this length.
fn places(said: &[u8], mut ids: IdLen) -> Vec<usize> {
    let (mut places, mut at) = (vec![0], 0);
    while let Front::Cell(_, len) = front(&said[at..], ids) {
        places.extend([at + len / 2, at + len]);
        (at, ids) = (at + len, IdLen::Four);
    }
    assert_eq!(at, said.len(), "the bytes are whole cells");
    places
}

/// One step of our side of a handshake with a node.
fn step(link: &mut Link, tls: &Connection, bytes: &[u8]) -> Option<Established> {
    let secret = |context: &[u8; 32]| export(tls, context);
    let (_, credentials) = test_identity();
    link.on_bytes(Clock::start().date(), bytes, credentials, &secret, &mut rand::rng()).unwrap()
}

/// A relay's side of a link to the node, before its first message.
fn as_relay(to: &LinkSpec) -> (TcpStream, Connection, Link) {
    let address = to.addresses[0];
    let (socket, tls) = connect_tls(address, usize::MAX);
    let expected = Expected { rsa: Some(to.rsa), ed25519: to.ed25519 };
    let certificate = certificate_sha256(&tls).unwrap();
    let link = Link::connect(expected, certificate, address.ip(), vec![address.ip()]);
    (socket, tls, link)
}

/// Reads the node's side of the handshake. Returns our answer.
fn proof(socket: &mut TcpStream, tls: &mut Connection, link: &mut Link) -> Vec<u8> {
    loop {
        let bytes = read(socket, tls).unwrap();
        assert!(!bytes.is_empty(), "the node answers");
        if step(link, tls, &bytes).is_some() {
            return link.poll_output();
        }
    }
}

#[test]
fn a_peer_that_fails_at_any_stage_of_a_handshake_is_disconnected() {
    let node = node();
    let mut held = Vec::new();
    let mut stages = 0;
    for then in THEN {
        // VERSIONS; then CERTS, AUTHENTICATE and NETINFO, of which the last cell ends the handshake.
        for at in 0..3 {
            let (mut socket, mut tls, mut link) = as_relay(&node.spec);
            let hello = link.poll_output();
            write(&mut socket, &mut tls, &hello[..places(&hello, IdLen::Two)[at]]).unwrap();
            held.extend(then.follow(socket, tls));
            stages += 1;
        }
        let mut at = 1;
        loop {
            let (mut socket, mut tls, mut link) = as_relay(&node.spec);
            write(&mut socket, &mut tls, &link.poll_output()).unwrap();
            let said = proof(&mut socket, &mut tls, &mut link);
            let places = places(&said, IdLen::Four);
            // Noise in the second half of NETINFO is its padding, and the handshake is over.
            if at + 1 == places.len() || (at + 2 == places.len() && matches!(then, Then::Garbage)) {
                break;
            }
            write(&mut socket, &mut tls, &said[..places[at]]).unwrap();
            held.extend(then.follow(socket, tls));
            (at, stages) = (at + 1, stages + 1);
        }
    }
    println!("{stages} ways to begin a handshake");
    assert_eq!(stages, 3 * (3 + 5) - 1);
    unharmed(&node);
    held.iter_mut().for_each(closes);
    assert_eq!(node.observations.next_observation().opening, 0);
    unharmed(&node);
}

/// A relay that a node connects to. It sends its handshake up to one of its [`places`], and then performs an action.
/// With `at` = 0, it uses no TLS.
fn hostile(at: usize, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, from) = listener.accept().unwrap();
        let mut tls = TlsConfigs::new(&test_identity().1).accept();
        if at == 0 {
            match then {
                Then::Silence => {}
                Then::Garbage => socket.write_all(&noise(2000)).unwrap(),
                Then::End => return,
            }
        } else {
            while tls.is_handshaking() {
                tls.complete_io(&mut socket).unwrap();
            }
            let mut link = Link::respond(&mut rand::rng(), from.ip(), vec![address.ip()]);
            let mut said = Vec::new();
            while said.is_empty() {
                let bytes = read(&mut socket, &mut tls).unwrap();
                assert!(step(&mut link, &tls, &bytes).is_none());
                said = link.poll_output();
            }
            // The last cell would end the handshake.
            let places = places(&said, IdLen::Two);
            write(&mut socket, &mut tls, &said[..places[(at - 1).min(places.len() - 2)]]).unwrap();
            if then.follow(socket.try_clone().unwrap(), tls).is_none() {
                return;
            }
        }
        // The connection stays until the node closes it.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    address
}

#[test]
fn a_failing_peer_ends_only_circuits_to_it() {
    let node = node();
    let (keys, _) = test_identity();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    let good = client.new_circuit(9);
    let stages = (0..9).flat_map(|at| THEN.map(|then| (at, then)));
    // Noise in the second half of NETINFO is its padding, and the handshake is over.
    let stages = stages.filter(|(at, then)| *at < 8 || !matches!(then, Then::Garbage));
    for (number, (at, then)) in (10..).zip(stages) {
        client.new_circuit(number);
        client.build(&[node.hop()]);
        let (rsa, ed25519) = (keys.rsa_identity(), Some(keys.ed25519_identity()));
        let to = LinkSpec { addresses: vec![hostile(at, then)], rsa, ed25519 };
        let start = ntor::Client::start(&mut rand::rng(), to.rsa, keys.identities().onion[0].public);
        let handshake = Handshake { kind: HandshakeKind::Ntor, data: start.message() };
        client.send_message(None, &RelayMessage::Extend(to, handshake));
        let cell = client.receive();
        let heard = (cell.circ_id(), cell.command(), cell.destroy_reason());
        assert_eq!(heard, (client.id, Command::Destroy, DestroyReason::CHANNEL_CLOSED), "{at} {then:?}");
    }
    assert_eq!(node.observations.next_observation().opening, 0);
    client.switch_circuit(good);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
    unharmed(&node);
}

#[test]
fn cells_may_be_split_into_tls_records_anywhere() {
    let node = node();
    let at = |split: usize| {
        let (mut socket, mut tls, mut link) = as_relay(&node.spec);
        let hello = link.poll_output();
        let place = split.min(hello.len());
        write(&mut socket, &mut tls, &hello[..place]).unwrap();
        write(&mut socket, &mut tls, &hello[place..]).unwrap();
        let said = proof(&mut socket, &mut tls, &mut link);
        let place = split.min(said.len());
        write(&mut socket, &mut tls, &said[..place]).unwrap();
        write(&mut socket, &mut tls, &said[place..]).unwrap();
        // The node accepts the CREATE, because the peer has proven its identity.
        let (id, data) = (CircId(NonZeroU32::new(1 << 31 | 1).unwrap()), vec![7; 20]);
        let create = LiveCell::create(id, Handshake { kind: HandshakeKind::Fast, data });
        write(&mut socket, &mut tls, &create.to_bytes()).unwrap();
        let mut came = Vec::new();
        while came.len() < 514 {
            let bytes = read(&mut socket, &mut tls).unwrap();
            assert!(!bytes.is_empty(), "split at {split}: the node closes");
            came.extend(bytes);
        }
        assert_eq!(&came[..4], &id.0.get().to_be_bytes(), "split at {split}: its circuit is answered");
        said.len()
    };
    let len = at(0);
    for split in 1..len {
        at(split);
    }
    println!("{len} places to split a handshake");

    // Cells of an established link can be split at each byte, too.
    let mut client = Client::connect(&node.spec);
    for split in 1..514 {
        let id = CircId(NonZeroU32::new(1 << 31 | (split as u32 + 1000)).unwrap());
        let fast = Handshake { kind: HandshakeKind::Fast, data: vec![7; 20] };
        let cell = LiveCell::create(id, fast).to_bytes();
        client.write(&cell[..split]);
        client.write(&cell[split..]);
        let answer = client.receive();
        assert_eq!((answer.command(), answer.circ_id()), (Command::Created, id), "split at {split}");
    }
}
