//! Peers that break the protocol or say nothing: what must close closes, memory stays bounded, and others are unharmed.

mod common;

use common::{Client, Running, pattern, serve, tls_to};
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::{Cell, CircId, Command, DestroyReason, EndReason, StreamId};
use penstock_live::cell::{
    Handshake, HandshakeKind, IdLen, LiveCell, LivePayload, RelayMessage, command, push_variable,
};
use penstock_units::Duration;
use rand::Rng;
use rustls::Connection;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::{NonZeroU16, NonZeroU32};

const PATIENCE: Duration = Duration::from_secs(2);

fn node() -> Running {
    Running::start_with(SchedulerConfig::default(), PATIENCE)
}

fn stream(id: u16) -> Option<StreamId> {
    NonZeroU16::new(id).map(StreamId)
}

/// Another client of the node gets what it asks for.
fn unharmed(node: &Running) {
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    assert!(client.download(serve(200_000), 1) == pattern(200_000));
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    rand::rng().fill_bytes(&mut noise);
    noise
}

/// The node closes the connection before the socket's patience of 20 s ends.
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
fn who_says_nothing_or_nonsense_instead_of_tls_is_left() {
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
fn who_says_nothing_or_nonsense_instead_of_a_handshake_is_left() {
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
        // A version that nobody speaks.
        [0, 0, command::VERSIONS, 0, 2, 0, 99].to_vec(),
        versions.clone(),
        [versions.clone(), half(&certs)].concat(),
        [versions.clone(), certs].concat(),
        [versions.clone(), variable(command::VPADDING, &noise(65_535)).repeat(20)].concat(),
        // A cell of a circuit before the handshake is over.
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
        let (mut socket, mut tls, _) = tls_to(address, usize::MAX);
        for saying in saying.chunks(32_768) {
            tls.writer().write_all(saying).unwrap();
            // The node may close it before all is said.
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
fn bytes_one_by_one_are_as_good_as_all_at_once() {
    let node = node();
    for chunk in [1, 2, 3, 7] {
        let mut client = Client::connect_slowly(&node.spec, chunk);
        client.build(&[node.hop()]);
        assert!(client.download(serve(100_000), 1) == pattern(100_000), "{chunk}");
    }
}

#[test]
fn a_flood_of_handshakes_is_refused_one_by_one() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    let kinds = [
        HandshakeKind::Ntor,
        HandshakeKind::NtorV3,
        HandshakeKind::Fast,
        HandshakeKind::Other(0),
        HandshakeKind::Other(9),
    ];
    let count = 5000;
    let floods: Vec<u8> = (0..count)
        .flat_map(|n| {
            let kind = kinds[n as usize % kinds.len()];
            let data = noise(if kind == HandshakeKind::Fast { 20 } else { 84 });
            let id = CircId(NonZeroU32::new(1 << 31 | (n + 1000)).unwrap());
            LiveCell::create(id, Handshake { kind, data }).to_bytes()
        })
        .collect();
    client.write(&floods);
    unharmed(&node);
    let mut fast = 0;
    for _ in 0..count {
        let cell = client.receive();
        match cell.command() {
            // 20 bytes of noise are a good CREATE_FAST.
            Command::Created => fast += 1,
            Command::Destroy => {
                let reasons = [DestroyReason::PROTOCOL, DestroyReason::RESOURCE_LIMIT];
                assert!(reasons.contains(&cell.destroy_reason()), "{:?}", cell.destroy_reason());
            }
            other => panic!("{other:?} is no answer to a CREATE"),
        }
    }
    assert!(fast > 0 && fast <= count / 5, "{fast}");
    // The link is as good as before.
    client.build(&[node.hop()]);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
}

/// The circuit of the client ends with this reason.
fn destroyed(client: &mut Client, expected: DestroyReason) {
    loop {
        let cell = client.receive();
        if cell.circ_id() == client.id && cell.command() == Command::Destroy {
            assert_eq!(cell.destroy_reason(), expected);
            return;
        }
    }
}

#[test]
fn a_forged_sendme_costs_its_circuit_and_no_other() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    let first = client.another(8);
    client.build(&[node.hop()]);
    client.begin(serve(1_000_000), stream(1));
    let mut cells = 0;
    while cells < 100 {
        cells += u32::from(matches!(client.hear().1, RelayMessage::Data(_)));
    }
    client.say(None, &RelayMessage::Sendme(Some([7; 20])));
    destroyed(&mut client, DestroyReason::PROTOCOL);
    client.switch(first);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
    unharmed(&node);
}

/// A server that takes connections and reads nothing.
fn deaf() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let _held: Vec<_> = listener.incoming().collect();
    });
    address
}

#[test]
fn who_sends_more_than_its_window_loses_its_circuit() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    client.begin(deaf(), stream(1));
    assert!(matches!(client.hear().1, RelayMessage::Connected(_)));
    // The two sockets hold some megabytes; then 500 cells fill the stream's window.
    let payload = LivePayload::new(&[0; 498]).unwrap();
    for _ in 0..40_000 {
        client.say(stream(1), &RelayMessage::Data(payload.clone()));
    }
    destroyed(&mut client, DestroyReason::PROTOCOL);
    unharmed(&node);
}

/// What this process has in memory [B].
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A server that sends as long as somebody takes it.
fn endless() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || while socket.write_all(&[0; 65_536]).is_ok() {});
        }
    });
    address
}

#[test]
fn who_never_reads_fills_windows_and_no_more() {
    let node = node();
    let server = endless();
    let mut client = Client::connect(&node.spec);
    let before = resident();
    let build = |n| {
        client.another(n + 10);
        client.build(&[node.hop()]);
        client.switch((CircId(NonZeroU32::MAX), Vec::new(), 0))
    };
    let circuits: Vec<_> = (0..20_u32).map(build).collect();
    for circuit in circuits {
        client.switch(circuit);
        client.begin(server, stream(1));
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    unharmed(&node);
    // 20 windows of 500 cells are 5 MB; the other client, its keys and its download are the rest.
    let grown = resident().saturating_sub(before);
    assert!(grown < 50_000_000, "{grown} B");
}

#[test]
fn a_server_that_refuses_or_is_nowhere_is_told_apart() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    client.begin(nobody, stream(1));
    let (_, said, _) = client.hear();
    assert_eq!(said, RelayMessage::End(EndReason::CONNECT_REFUSED.into()));
    client.say(stream(2), &RelayMessage::Begin(penstock_live::cell::Target::Directory));
    let (_, said, _) = client.hear();
    assert_eq!(said, RelayMessage::End(EndReason::NOT_DIRECTORY.into()));
}
