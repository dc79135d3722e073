//! Tests of cells with messages that C tor sent, and with malformed messages.

use super::*;
use crate::crypto::tor1::{KEY_MATERIAL, KeyMaterial, Layer, Tag};
use penstock_core::conflux::{DesiredUx, Link, Nonce};
use penstock_core::{Cell, CircId, Command, Direction, Message, StreamId, Violation};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use zeroize::Zeroizing;

fn circ_id(id: u32) -> CircId {
    CircId(NonZeroU32::new(id).unwrap())
}

fn stream(id: u16) -> Option<StreamId> {
    NonZeroU16::new(id).map(StreamId)
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// An unencrypted body.
fn body(command: u8, id: u16, data: &[u8]) -> [u8; BODY_LEN] {
    let mut body = [0; BODY_LEN];
    body[0] = command;
    body[3..5].copy_from_slice(&id.to_be_bytes());
    body[9..11].copy_from_slice(&(data.len() as u16).to_be_bytes());
    body[11..11 + data.len()].copy_from_slice(data);
    body
}

/// Version 1, the nonce, two numbers, and the desired UX, high throughput.
const LINK: &str = "01 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
    0000000000000007 0000000000000100 03";

fn link() -> Link {
    let nonce = Nonce(std::array::from_fn(|n| n as u8));
    Link { nonce, last_sent: 7, last_received: 256, desired_ux: DesiredUx::HighThroughput }
}

#[test]
fn a_link_with_an_unknown_version_or_wish_is_rejected() {
    let link = unhex(LINK);
    for (place, wrong) in [(0, 0), (0, 2), (49, 5), (49, 255)] {
        let mut link = link.clone();
        link[place] = wrong;
        assert!(read(&body(19, 0, &link)).is_err(), "byte {place} is {wrong}");
    }
    assert!(read(&body(20, 0, &link[..49])).is_err());
    assert!(read(&body(22, 0, &[0; 3])).is_err());
    // C tor fills SWITCH with zeros.
    assert_eq!(read(&body(22, 0, &[0, 0, 0, 9, 0, 0])), Ok((None, RelayMessage::Switch(9))));
}

#[test]
fn only_streams_to_a_directory_are_not_numbered() {
    assert!(!Message::<LiveCell>::Begin(Target::Directory).is_multiplexed());
    let target = Target::read_begin(b"127.0.0.1:80\0");
    assert!(Message::<LiveCell>::Begin(target).is_multiplexed());
}

#[test]
fn messages_of_c_tor_are_parsed_and_written_again() {
    let extend = "02 00067F0000011388 021403479E93EBF3FF2C58C1C9DBF2DE9DE9C2801B3E 0002 0054
        03479E93EBF3FF2C58C1C9DBF2DE9DE9C2801B3E36A3E0BDB1F1A10579820243DD2E228B902940EB49EF842646E3926768C28410
        074BEE50A535116D657C6BFB7E5114119DC69F05DF907EF62002EA782B0A357F";
    let rsa: [u8; 20] = unhex("03479E93EBF3FF2C58C1C9DBF2DE9DE9C2801B3E").try_into().unwrap();
    let address: SocketAddr = "127.0.0.1:5000".parse().unwrap();
    let to = LinkSpec { addresses: vec![address], rsa, ed25519: None };
    let handshake = Handshake { kind: HandshakeKind::Ntor, data: unhex(extend)[35..].to_vec() };
    let v4 = "127.0.0.1".parse().unwrap();
    let v6 = "2001:db8::1122".parse().unwrap();
    let said = [
        (4, "7F00000100000E10", RelayMessage::Connected(Connected(Some((v4, 3600))))),
        (
            4,
            "000000000620010db800000000000000000000112200000E10",
            RelayMessage::Connected(Connected(Some((v6, 3600)))),
        ),
        (4, "", RelayMessage::Connected(Connected(None))),
        (3, "06", RelayMessage::End(EndReason::DONE.into())),
        (
            3,
            "047f00000100000100",
            RelayMessage::End(End { reason: EndReason::EXIT_POLICY, address: Some((v4, 256)) }),
        ),
        (9, "08", RelayMessage::Truncated(DestroyReason::CHANNEL_CLOSED)),
        (10, "", RelayMessage::Drop),
        (13, "", RelayMessage::Begin(Target::Directory)),
        (14, extend, RelayMessage::Extend(to, handshake)),
        (12, "04047f00000100000100", RelayMessage::Resolved(vec![(Resolved::Address(v4), 256)])),
        (19, LINK, RelayMessage::Link(Box::new(link()))),
        (20, LINK, RelayMessage::Linked(Box::new(link()))),
        (21, "", RelayMessage::LinkedAck),
        (22, "00000102", RelayMessage::Switch(258)),
        (43, "00", RelayMessage::Xoff),
        (44, "000000007b", RelayMessage::Xon(NonZeroU32::new(123))),
    ];
    for (command, hex, message) in said {
        let received = body(command, 3, &unhex(hex));
        assert_eq!(read(&received), Ok((stream(3), message.clone())));
        assert_eq!(write(stream(3), &message), received);
    }
    let sendme = body(5, 0, &unhex("01 0014 000102030405060708090a0b0c0d0e0f10111213"));
    let message = RelayMessage::Sendme(Some(Tag(std::array::from_fn(|n| n as u8))));
    assert_eq!(read(&sendme), Ok((None, message.clone())));
    assert_eq!(write(None, &message), sendme);
    for version_zero in ["", "00", "000014aa"] {
        assert_eq!(read(&body(5, 0, &unhex(version_zero))), Ok((None, RelayMessage::Sendme(None))));
    }
}

#[test]
fn an_end_is_valid_whatever_its_reason_is() {
    for data in ["", "01", "04aa", "04aabbccddee"] {
        let (_, message) = read(&body(3, 1, &unhex(data))).unwrap();
        assert!(matches!(message, RelayMessage::End(End { address: None, .. })), "{data}");
    }
}

#[test]
fn malformed_messages_are_rejected() {
    for (command, data) in [
        (5, "02"),
        (5, "01 0014 00"),
        (5, "01 0013 00112233445566778899aabbccddeeff001122"),
        (43, ""),
        (43, "01"),
        (44, "00000000"),
        (14, "00"),
        (14, "01 0006 7F0000011388 0002 0001 aa"),
        (14, "01 0214 03479E93EBF3FF2C58C1C9DBF2DE9DE9C2801B3E 0002 0001 aa"),
        (14, "02 0007 7F000001138800 0214 03479E93EBF3FF2C58C1C9DBF2DE9DE9C2801B3E 0002 0001 aa"),
        (15, "0002 aa"),
        (6, "7F000001138C"),
        // An IPv6 address follows an IPv4 address of zero. Here it is missing.
        (4, "00000000"),
        (4, "00000000 07 20010db8000000000000000000001122 00000E10"),
    ] {
        let read = read(&body(command, 0, &unhex(data)));
        assert!(read.is_err(), "{command} {data}: {read:?}");
    }
    let mut too_long = body(2, 1, &[]);
    too_long[9..11].copy_from_slice(&499u16.to_be_bytes());
    assert!(read(&too_long).is_err());
}

#[test]
fn unknown_relay_commands_are_recognised_and_ignored() {
    for command in [0, 16, 23, 31, 41, 99, 255] {
        assert_eq!(read(&body(command, 1, b"x")), Ok((stream(1), RelayMessage::Unknown(command))));
        let cell = frame(command::RELAY, 1, &body(command, 1, b"x"));
        assert!(matches!(cell.into_message(), Some((_, Message::Drop))));
    }
}

fn frame(command: u8, id: u32, body: &[u8; BODY_LEN]) -> LiveCell {
    match Incoming::of(&Frame { circ_id: id, command, body }, Extended::NONE) {
        Incoming::Cell(cell) => cell,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_extend_is_valid_only_in_relay_early() {
    let to = LinkSpec { addresses: vec!["[::1]:9".parse().unwrap()], rsa: [1; 20], ed25519: Some([2; 32]) };
    let handshake = Handshake { kind: HandshakeKind::NtorV3, data: vec![7; 300] };
    let cell = LiveCell::relay(circ_id(1), None, Message::Extend(to.clone(), handshake.clone()));
    assert_eq!(cell.wire_command(), command::RELAY_EARLY);
    let late = frame(command::RELAY, 1, cell.to_bytes()[5..].try_into().unwrap());
    assert!(matches!(late.into_message(), Some((None, Message::Drop))), "C tor ignores it, too");
    let Some((None, Message::Extend(read_to, read_handshake))) = cell.into_message() else {
        panic!("the message is EXTEND2")
    };
    assert_eq!((read_to, read_handshake), (to, handshake));
}

#[test]
fn a_circuit_has_at_most_eight_relay_early_cells_and_none_towards_the_client() {
    let keys: KeyMaterial = Zeroizing::new([1; KEY_MATERIAL]);
    let mut layer = Layer::relay(&keys, &[0; 16]);
    let (early, late) = (frame(command::RELAY_EARLY, 1, &[0; 509]), frame(command::RELAY, 1, &[0; 509]));
    for _ in 0..8 {
        assert_eq!(late.admit(&mut layer, Direction::Forward), Ok(()));
        assert_eq!(early.admit(&mut layer, Direction::Forward), Ok(()));
    }
    assert_eq!(early.admit(&mut layer, Direction::Forward), Err(Violation::UnexpectedEarlyCell));
    assert_eq!(late.admit(&mut layer, Direction::Forward), Ok(()));
    let mut fresh = Layer::relay(&keys, &[0; 16]);
    assert_eq!(early.admit(&mut fresh, Direction::Backward), Err(Violation::UnexpectedEarlyCell));
}

#[test]
fn a_forwarded_cell_keeps_its_command() {
    let mut cell = frame(command::RELAY_EARLY, 7, &[3; 509]);
    cell.set_circ_id(circ_id(0x8000_0001));
    let bytes = cell.to_bytes();
    assert_eq!(bytes[..6], [0x80, 0, 0, 1, command::RELAY_EARLY, 3]);
    assert_eq!((bytes.len() as u32, cell.command()), (cell.wire_size(), Command::Relay));
}

#[test]
fn handshakes_are_read_and_written_in_the_cells_of_their_kind() {
    for (kind, len, create, created) in [
        (HandshakeKind::Fast, 20, command::CREATE_FAST, command::CREATED_FAST),
        (HandshakeKind::Ntor, 84, command::CREATE2, command::CREATED2),
        (HandshakeKind::NtorV3, 200, command::CREATE2, command::CREATED2),
        (HandshakeKind::Other(77), 505, command::CREATE2, command::CREATED2),
    ] {
        let handshake = Handshake { kind, data: vec![9; len] };
        let cell = LiveCell::create(circ_id(5), handshake.clone());
        assert_eq!((cell.wire_command(), cell.command()), (create, Command::Create));
        assert_eq!(cell.into_handshake(), Some(handshake));
        let len = if kind == HandshakeKind::Fast { 40 } else { len.min(496) };
        let answer = Handshake { kind, data: vec![9; len] };
        let cell = LiveCell::created(circ_id(5), answer.clone());
        assert_eq!((cell.wire_command(), cell.command()), (created, Command::Created));
        assert_eq!(cell.into_handshake().map(|handshake| handshake.data), Some(answer.data));
    }
}

#[test]
fn a_malformed_create_is_rejected_and_closes_no_channel() {
    let mut body = [0; BODY_LEN];
    body[..4].copy_from_slice(&[0, 2, 2, 0]);
    let handshake = frame(command::CREATE2, 1, &body).into_handshake();
    assert_eq!(handshake.map(|handshake| handshake.kind), Some(HandshakeKind::Malformed));
    let handshake = frame(command::CREATE, 1, &body).into_handshake();
    assert_eq!(handshake.map(|handshake| handshake.kind), Some(HandshakeKind::Other(0)));
    body[..2].copy_from_slice(&[2, 0]);
    assert_eq!(frame(command::CREATED2, 1, &body).into_handshake(), None);
}

#[test]
fn a_destroy_has_a_reason() {
    let cell = LiveCell::destroy(circ_id(1), DestroyReason::CONNECT_FAILED);
    assert_eq!(cell.to_bytes()[4..7], [command::DESTROY, 6, 0]);
    assert_eq!(cell.destroy_reason(), DestroyReason::CONNECT_FAILED);
}

#[test]
fn link_cells_and_unknown_cells_are_no_circuit_cells() {
    let of =
        |command, id| Incoming::of(&Frame { circ_id: id, command, body: &[0; BODY_LEN] }, Extended::NONE);
    assert!(matches!(of(command::PADDING, 0), Incoming::Padding));
    assert!(matches!(of(command::VPADDING, 0), Incoming::Padding));
    assert!(matches!(of(command::PADDING_NEGOTIATE, 0), Incoming::PaddingNegotiate));
    for unknown in [2, 7, 8, 13, 99, 100, 101, 127, 129, 255] {
        assert!(matches!(of(unknown, 1), Incoming::Ignored(command) if command == unknown));
    }
    let only = |feedback, class, command| {
        Incoming::of(&Frame { circ_id: 1, command, body: &[0; BODY_LEN] }, Extended { feedback, class })
    };
    assert!(matches!(
        (only(true, false, 100), only(true, false, 101)),
        (Incoming::Cell(_), Incoming::Ignored(101))
    ));
    assert!(matches!(
        (only(false, true, 100), only(false, true, 101)),
        (Incoming::Ignored(100), Incoming::Cell(_))
    ));
    assert!(matches!(of(command::RELAY, 0), Incoming::Ignored(command::RELAY)), "no circuit has the id zero");
}

#[test]
fn feedback_and_class_cells_are_valid_between_nodes_that_agreed() {
    use penstock_core::circuit_policy::PriorityClass;
    use penstock_core::hop_control::Feedback;
    let feedback = Feedback { direction: Direction::Backward, forwarded: u32::MAX, allowance: 7 };
    let again = |cell: LiveCell| {
        let bytes = cell.to_bytes();
        let Front::Cell(frame, _) = front(&bytes, IdLen::Four) else { panic!("the cell is complete") };
        let Incoming::Cell(cell) = Incoming::of(&frame, Extended::ALL) else {
            panic!("both nodes agreed on the extension")
        };
        cell
    };
    assert_eq!(again(LiveCell::feedback(circ_id(3), feedback)).as_feedback(), Some(feedback));
    for class in [PriorityClass::Better, PriorityClass::Worse] {
        assert_eq!(again(LiveCell::class(circ_id(3), class)).as_class(), Some(class));
    }
    assert_eq!(frame(command::RELAY, 1, &[0; 509]).as_class(), None);
}

#[test]
fn a_cell_is_little_larger_than_its_bytes() {
    assert!(size_of::<LiveCell>() <= CELL_LEN + 8, "{}", size_of::<LiveCell>());
}

proptest! {
    #[test]
    fn no_cell_causes_a_panic(command: u8, id: u32, feedback: bool, class: bool, bytes in proptest::collection::vec(any::<u8>(), BODY_LEN)) {
        let body: &[u8; BODY_LEN] = bytes[..].try_into().unwrap();
        if let Incoming::Cell(cell) = Incoming::of(&Frame { circ_id: id, command, body }, Extended { feedback, class }) {
            prop_assert_eq!(&cell.to_bytes()[5..], &bytes[..]);
            let _ = (cell.command(), cell.as_class(), cell.as_feedback(), cell.destroy_reason());
            cell.clone().into_handshake();
            cell.into_message();
        }
    }

    /// Any data of each command causes no panic. A parsed message can be written and parsed again
    /// without a change.
    #[test]
    fn a_parsed_message_can_be_written_again(
        command in 0u8..60, id: u16, bytes in proptest::collection::vec(any::<u8>(), 0..=498)
    ) {
        if let Ok((stream, message)) = read(&body(command, id, &bytes)) {
            match &message {
                RelayMessage::Unknown(_) | RelayMessage::Begin(Target::Malformed) => {}
                _ => {
                    prop_assert_eq!(read(&write(stream, &message)), Ok((stream, message)));
                }
            }
        }
    }
}

#[test]
fn an_answer_that_is_too_long_for_extended2_is_none() {
    for (len, fits) in [(496_u16, true), (497, false), (507, false)] {
        let mut body = [0; BODY_LEN];
        body[..2].copy_from_slice(&len.to_be_bytes());
        let answer = frame(command::CREATED2, 1, &body).into_handshake();
        assert_eq!(answer.is_some(), fits, "{len}");
        if let Some(answer) = answer {
            write(None, &RelayMessage::Extended(answer));
        }
    }
}
