//! Peers that break the protocol or send nothing. The relay closes their links or circuits. Its memory stays bounded,
//! and other clients are unharmed.

mod attacks;
#[path = "../common/mod.rs"]
mod common;
mod conflux;
#[path = "../interop/ctor.rs"]
mod ctor;
mod defences;
mod handshakes;
mod pressure;

use common::{Client, Running, endless, noise, pattern, serve, silent_server, stream};
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::{Cell, CircId, Command, DestroyReason, EndReason};
use penstock_link::cell::{Handshake, HandshakeKind, LiveCell, LivePayload, RelayMessage};
use penstock_link::crypto::tor1::Tag;
use penstock_units::Duration;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// The time, for the certificates of C tor's keys.
fn now() -> std::time::SystemTime {
    penstock_live::clock::Clock::start().date()
}

fn node() -> Running {
    Running::start_with_timeout(SchedulerConfig::default(), HANDSHAKE_TIMEOUT)
}

/// Another client of the node downloads a file.
fn unharmed(node: &Running) {
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    assert!(client.download(serve(200_000), 1) == pattern(200_000));
}

#[test]
fn a_flood_of_handshakes_is_refused_one_by_one() {
    let _guard = one_at_a_time();
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
fn a_forged_sendme_closes_only_its_circuit() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    let first = client.new_circuit(8);
    client.build(&[node.hop()]);
    client.begin(serve(1_000_000), stream(1));
    let mut cells = 0;
    while cells < 100 {
        cells += u32::from(matches!(client.receive_message().1, RelayMessage::Data(_)));
    }
    client.send_message(None, &RelayMessage::Sendme(Some(Tag([7; 20]))));
    destroyed(&mut client, DestroyReason::PROTOCOL);
    client.switch_circuit(first);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
    unharmed(&node);
}

#[test]
fn a_client_that_exceeds_its_window_loses_its_circuit() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    client.begin(silent_server(), stream(1));
    assert!(matches!(client.receive_message().1, RelayMessage::Connected(_)));
    // The two sockets hold some megabytes; then 500 cells fill the stream's window.
    let payload = LivePayload::new(&[0; 498]).unwrap();
    for _ in 0..40_000 {
        client.send_message(stream(1), &RelayMessage::Data(payload.clone()));
    }
    destroyed(&mut client, DestroyReason::PROTOCOL);
    unharmed(&node);
}

/// Tests that measure the process's memory, or take much of it, run one after the other.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static FLOODS: Mutex<()> = Mutex::new(());
    FLOODS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resident memory of this process [B].
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_client_that_never_reads_fills_only_its_windows() {
    let _guard = one_at_a_time();
    let node = node();
    let server = endless();
    let mut client = Client::connect(&node.spec);
    let before = resident();
    let build = |n| {
        client.new_circuit(n + 10);
        client.build(&[node.hop()]);
        client.switch_circuit((CircId(NonZeroU32::MAX), Vec::new(), 0))
    };
    let circuits: Vec<_> = (0..20_u32).map(build).collect();
    for circuit in circuits {
        client.switch_circuit(circuit);
        client.begin(server, stream(1));
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    unharmed(&node);
    // 20 windows of 500 cells are 5 MB; the other client, its keys and its download are the rest.
    let grown = resident().saturating_sub(before);
    assert!(grown < 50_000_000, "{grown} B");
}

#[test]
fn a_refused_connection_and_a_missing_directory_have_their_end_reasons() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    client.begin(unused, stream(1));
    let (_, said, _) = client.receive_message();
    assert_eq!(said, RelayMessage::End(EndReason::CONNECT_REFUSED.into()));
    client.send_message(stream(2), &RelayMessage::Begin(penstock_link::cell::Target::Directory));
    let (_, said, _) = client.receive_message();
    assert_eq!(said, RelayMessage::End(EndReason::NOT_DIRECTORY.into()));
}
