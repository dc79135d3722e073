//! The memory of DTLS sessions. Other tests in this process would change its memory, so there is one test.

use dimpl::{Dtls, Output};
use penstock_core::datagram::MAX_DATAGRAM;
use penstock_live::clock::Clock;
use penstock_live::dtls::{DtlsIdentity, FINISHED_MEMORY, SESSION_MEMORY, answers};
use std::time::Instant;

const SESSIONS: usize = 400;
const FINISHED: usize = 200;

/// The memory of this process [B].
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A packet with one fragment of a handshake message, without encryption.
fn fragment(record: u64, kind: u8, message: u16, at: u32, whole: u32, len: u16) -> Vec<u8> {
    let mut packet = vec![22, 254, 253, 0, 0];
    packet.extend(&record.to_be_bytes()[2..]);
    packet.extend((12 + len).to_be_bytes());
    packet.push(kind);
    packet.extend(&whole.to_be_bytes()[1..]);
    packet.extend(message.to_be_bytes());
    packet.extend(&at.to_be_bytes()[1..]);
    packet.extend(&u32::from(len).to_be_bytes()[1..]);
    packet.resize(packet.len() + usize::from(len), 7);
    packet
}

/// Passes packets between two sessions until none is left. Returns the number of datagrams that arrived.
fn exchange(pair: &mut [Dtls; 2]) -> usize {
    let (mut room, mut arrived) = ([0; 2048], 0);
    loop {
        let mut packets = [Vec::new(), Vec::new()];
        for (session, packets) in pair.iter_mut().zip(&mut packets) {
            loop {
                match session.poll_output(&mut room) {
                    Output::Packet(packet) => packets.push(packet.to_vec()),
                    Output::ApplicationData(_) => arrived += 1,
                    Output::Timeout(_) => break,
                    _ => {}
                }
            }
        }
        if packets.iter().all(Vec::is_empty) {
            return arrived;
        }
        for (session, packets) in pair.iter_mut().rev().zip(packets) {
            packets.iter().for_each(|packet| session.handle_packet(packet).unwrap());
        }
    }
}

#[test]
fn sessions_use_no_more_memory_than_they_count() {
    let (identity, clock) = (DtlsIdentity::new(), Clock::start());
    let now = clock.at(clock.now());
    finished_sessions(&identity, now);
    unfinished_sessions(&identity, now);
}

/// 200 sessions at both ends of 100 paths: after the handshake, after data both ways, and after packets of an attacker.
fn finished_sessions(identity: &DtlsIdentity, now: Instant) {
    let before = resident();
    let mut pairs: Vec<_> =
        (0..FINISHED / 2).map(|_| [true, false].map(|it| identity.session(it, now))).collect();
    let each = |what: &str| {
        let each = (resident() - before) / FINISHED as u64;
        println!("{what}: {each} B for each session");
        assert!(each > 1000, "the sessions hold something");
        assert!(each <= FINISHED_MEMORY, "{what}: {each} B for each session");
    };
    for pair in &mut pairs {
        pair.iter_mut().for_each(|session| session.handle_timeout(now).unwrap());
        assert_eq!(exchange(pair), 0);
    }
    each("after the handshake");
    for pair in &mut pairs {
        for _ in 0..50 {
            for session in pair.iter_mut() {
                session.send_application_data(&[7; MAX_DATAGRAM]).unwrap();
            }
            assert_eq!(exchange(pair), 2);
        }
    }
    each("after data");
    for session in pairs.iter_mut().flatten() {
        for record in 0..100 {
            let _ = session.handle_packet(&fragment(record + 9, 11, record as u16 % 5, 1, 200_000, 1100));
            answers(session, &mut [0; 2048]);
        }
    }
    each("after packets of an attacker");
}

fn unfinished_sessions(identity: &DtlsIdentity, now: Instant) {
    let mut room = [0; 2048];
    // The first packets of a valid initiator.
    let mut initiator = identity.session(true, now);
    initiator.handle_timeout(now).unwrap();
    let mut hellos = Vec::new();
    while let dimpl::Output::Packet(packet) = initiator.poll_output(&mut room) {
        hellos.push(packet.to_vec());
    }
    assert!(!hellos.is_empty());
    let mut kept = Vec::new();
    for (initiates, has_hello, pieces) in
        [(false, true, 0), (false, false, 100), (false, true, 100), (true, true, 100)]
    {
        let (before, mut sessions) = (resident(), Vec::new());
        for _ in 0..SESSIONS {
            let mut session = identity.session(initiates, now);
            session.handle_timeout(now).unwrap();
            answers(&mut session, &mut room);
            for hello in hellos.iter().filter(|_| has_hello) {
                let _ = session.handle_packet(hello);
                answers(&mut session, &mut room);
            }
            for record in 0..pieces {
                // Pieces of long messages, out of order.
                let (at, kind) = ((record as u32 * 37 % 100) * 1000 + 1, [1, 2, 11][record as usize % 3]);
                let packet = fragment(record + 9, kind, record as u16 % 5, at, 200_000, 1100);
                if session.handle_packet(&packet).is_err() {
                    break;
                }
                answers(&mut session, &mut room);
            }
            sessions.push(session);
        }
        let each = (resident() - before) / SESSIONS as u64;
        assert!(each <= SESSION_MEMORY, "{each} B for each session");
        assert!(each > 1000, "{each} B: the sessions hold something");
        kept.push(sessions);
    }
}
