//! Target `datagrams`: the cells about datagrams over TLS, the content of datagrams, and DTLS packets.

use penstock_core::datagram::{MAX_DATAGRAM, Message};
use penstock_link::cell::{Extended, Front, IdLen, front};
use penstock_link::datagram::{Control, Hello, read_messages, write_messages};
use penstock_live::clock::Clock;
use penstock_live::dtls::DtlsIdentity;
use std::sync::LazyLock;

/// What the target found in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// A valid control cell.
    Control,
    /// A valid HELLO.
    Hello,
    /// A datagram with this number of messages, none of them a cell.
    Feedback(usize),
    /// A datagram with at least one cell.
    Cells,
    /// Packets for a DTLS session. Whether the session answered.
    Packets(bool),
    /// Malformed.
    Malformed,
}

/// Parses any bytes. The first byte selects the parser.
///
/// # Panics
///
/// If parsed bytes change when they are written again.
pub fn datagrams(input: &[u8]) -> Datagram {
    let Some((first, rest)) = input.split_first() else { return Datagram::Malformed };
    match first % 3 {
        0 => control(rest),
        1 => content(rest),
        _ => packets(rest),
    }
}

fn control(body: &[u8]) -> Datagram {
    let Ok(control) = Control::read(body) else { return Datagram::Malformed };
    let mut cell = Vec::new();
    control.write(&mut cell);
    let Front::Cell(frame, _) = front(&cell, IdLen::Four) else { panic!("a written cell is complete") };
    assert_eq!(frame.body, body, "a control cell has one encoding");
    Datagram::Control
}

fn content(datagram: &[u8]) -> Datagram {
    match Hello::read(datagram) {
        Some(Ok(hello)) => {
            assert_eq!(hello.write(), datagram, "a HELLO has one encoding");
            return Datagram::Hello;
        }
        Some(Err(_)) => {
            assert!(
                read_messages(datagram, Extended::ALL, &mut Vec::new()).is_err(),
                "no circuit has number 0"
            );
            return Datagram::Malformed;
        }
        None => {}
    }
    let mut messages = Vec::new();
    if read_messages(datagram, Extended::ALL, &mut messages).is_err() {
        assert!(messages.is_empty(), "a malformed datagram adds no message");
        return Datagram::Malformed;
    }
    assert!(datagram.len() <= MAX_DATAGRAM);
    let (count, cells) =
        (messages.len(), messages.iter().filter(|message| message.wire_size() > 100).count());
    let mut again = Vec::new();
    let messages = messages.iter().map(|message| match message {
        Message::Data { circuit, seq, body } => Message::Data { circuit: *circuit, seq: *seq, body },
        other => other.clone().map(|_| unreachable!("only DATA has a cell")),
    });
    write_messages(messages, &mut again);
    assert_eq!(again, datagram, "a datagram has one encoding");
    if cells > 0 { Datagram::Cells } else { Datagram::Feedback(count) }
}

/// Gives packets to the responder of a DTLS session. Each packet begins with its length.
fn packets(mut rest: &[u8]) -> Datagram {
    static IDENTITY: LazyLock<DtlsIdentity> = LazyLock::new(DtlsIdentity::new);
    let now = Clock::start();
    let now = now.at(now.now());
    let mut session = IDENTITY.session(false, now);
    let (mut room, mut answers) = ([0; 2048], false);
    while let Some((length, tail)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(tail.len());
        let (packet, tail) = tail.split_at(length);
        rest = tail;
        if session.handle_timeout(now).and_then(|()| session.handle_packet(packet)).is_err() {
            break;
        }
        answers |= penstock_live::dtls::answers(&mut session, &mut room);
    }
    Datagram::Packets(answers)
}
