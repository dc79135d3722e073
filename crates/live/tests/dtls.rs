//! The memory of DTLS sessions. Other tests in this process would change its memory, so there is one test.

use penstock_live::clock::Clock;
use penstock_live::dtls::{DtlsIdentity, SESSION_MEMORY, answers};

const SESSIONS: usize = 400;

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

#[test]
fn unfinished_sessions_use_no_more_memory_than_they_count() {
    let (identity, clock) = (DtlsIdentity::new(), Clock::start());
    let now = clock.at(clock.now());
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
