//! Target `cells`: framing and relay messages. A message must stay the same when it is written and parsed again.

use super::test_relays::{identities, seeded_rng};
use penstock_core::{Cell, Command};
use penstock_link::cell::{
    BODY_LEN, CELL_LEN, Extended, Front, Handshake, HandshakeKind, IdLen, Incoming, LiveCell, MAX_VARIABLE,
    RelayMessage, Target, front, read, write,
};
use penstock_link::certs::{LinkKey, Netinfo, method_is_offered, verify_certs};
use penstock_link::crypto::{answer, extensions};

/// Numbers of parsed cells, of valid relay messages, and of handshakes that the relay answered.
pub type Parsed = [u32; 3];

/// Parses any bytes as cells, as cell bodies and as relay messages. The first byte says whether the input is the start
/// of a link. The first cell of a link has a circuit id of two bytes.
///
/// # Panics
///
/// If a cell is longer than the buffer, or a message changes when it is written and parsed again.
pub fn cells(input: &[u8]) -> Parsed {
    let Some((first, mut rest)) = input.split_first() else { return [0; 3] };
    let mut ids = if first & 1 == 0 { IdLen::Four } else { IdLen::Two };
    let extended = if first & 2 != 0 { Extended::ALL } else { Extended::NONE };
    let mut parsed = [0; 3];
    parsed[1] += u32::from(message(rest));
    loop {
        match front(rest, ids) {
            Front::Cell(frame, len) => {
                assert!(frame.body.len() < len && len <= rest.len(), "a cell fits into its buffer");
                parsed[0] += 1;
                bodies(frame.body);
                if let Incoming::Cell(cell) = Incoming::of(&frame, extended) {
                    let same = ids == IdLen::Two || cell.to_bytes()[..] == rest[..CELL_LEN];
                    assert!(same, "a forwarded cell does not change");
                    let counts = circuit(cell);
                    parsed[1] += u32::from(counts[0]);
                    parsed[2] += u32::from(counts[1]);
                }
                (rest, ids) = (&rest[len..], IdLen::Four);
            }
            Front::Partial(whole) => {
                assert!(whole.is_none_or(|whole| whole > rest.len() && whole <= MAX_VARIABLE + 7));
                return parsed;
            }
        }
    }
}

/// Parses the body of a link cell as each kind, such as CERTS and NETINFO.
fn bodies(body: &[u8]) {
    let now = super::test_relays::now();
    if let Ok(netinfo) = Netinfo::read(body) {
        let again = Netinfo::read(&netinfo.write()).expect("a parsed NETINFO can be written");
        assert_eq!((again.time, again.yours), (netinfo.time, netinfo.yours));
        assert!(netinfo.mine.starts_with(&again.mine), "the longest fitting prefix of the addresses");
    }
    let _ = method_is_offered(body);
    let _ = verify_certs(body, LinkKey::Authentication, now);
    let _ = verify_certs(body, LinkKey::Tls([0; 32]), now);
    let _ = (extensions::asked(body), extensions::granted(body));
}

/// Parses a circuit cell. Returns whether it is a valid relay message, and whether a handshake was answered.
fn circuit(cell: LiveCell) -> [bool; 2] {
    let (id, command) = (cell.circ_id(), cell.command());
    let _ = (cell.as_feedback(), cell.as_class(), cell.destroy_reason());
    if command == Command::Relay {
        return [message(&cell.to_bytes()[5..]), false];
    }
    let Some(handshake) = cell.into_handshake() else { return [false; 2] };
    let answered = answer(&mut seeded_rng(7), &handshake, identities(), |asked| asked);
    let known = !matches!(handshake.kind, HandshakeKind::Malformed);
    if command == Command::Create && known {
        let again = LiveCell::create(id, handshake.clone()).into_handshake();
        assert_eq!(again, Some(handshake.clone()), "a forwarded handshake does not change");
        let _ = LiveCell::saying(id, None, &RelayMessage::Extended(short(handshake)));
    }
    [false, answered.is_ok()]
}

fn short(mut handshake: Handshake) -> Handshake {
    handshake.data.truncate(496);
    handshake
}

fn message(bytes: &[u8]) -> bool {
    let mut body = [0; BODY_LEN];
    let len = bytes.len().min(BODY_LEN);
    body[..len].copy_from_slice(&bytes[..len]);
    let Ok((stream, message)) = read(&body) else { return false };
    match &message {
        RelayMessage::Unknown(_) | RelayMessage::Begin(Target::Malformed) => {}
        RelayMessage::Extended(_) | RelayMessage::Resolved(_) => drop(write(stream, &message)),
        message => {
            let again = read(&write(stream, message)).expect("a parsed message can be written");
            assert_eq!((again.0, &again.1), (stream, message), "parsing returns the written message");
        }
    }
    true
}
