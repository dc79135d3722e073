//! The datagrams of a link between two Penstock nodes: the cells over TLS that set them up, and their content.
//!
//! Both nodes announced datagrams in the link handshake ([`Extensions`](crate::handshake::Extensions)). Then they
//! exchange [`Control`] cells over TLS, which binds the DTLS session to the identities of the link:
//!
//! ```text
//! initiator                         responder
//! over TLS    PATH              ->
//!                               <-  PATH               DTLS certificate and token of each side
//! over UDP    DTLS handshake   <->                     each side must have the certificate that it named
//!             HELLO             ->                     the responder's token, padded to the size of a datagram
//!                               <-  HELLO_BACK         the initiator's token, padded to the same size
//! over TLS    SELECT            ->                     datagrams, or TLS if they do not work; then cells follow
//! ```
//!
//! Later, each side sends a HELLO from time to time, because the path MTU may shrink. A datagram that cannot arrive over
//! UDP travels in a TUNNEL cell over TLS.

use crate::cell::{Extended, IdLen, LiveCell, command, push_variable};
use crate::wire::{Malformed, Reader};
use penstock_core::datagram::{DecodeError, MAX_DATAGRAM, Message, decode, encode};

/// A random number that shows that both ends of a datagram path are the ends of the link.
pub type Token = [u8; 16];

/// One side's announcement of a datagram path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOffer {
    /// SHA-256 of the side's DTLS certificate.
    pub certificate: [u8; 32],
    /// The token that the peer must send back in a datagram.
    pub token: Token,
    /// The side's UDP port; zero is the port of the link's TCP connection.
    pub port: u16,
}

/// A cell over TLS that concerns datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// The side's announcement.
    Path(PathOffer),
    /// The initiator's choice: whether circuit cells travel in datagrams.
    Select(bool),
    /// A datagram.
    Tunnel(&'a [u8]),
}

const PATH: u8 = 1;
const SELECT: u8 = 2;
const TUNNEL: u8 = 3;

impl<'a> Control<'a> {
    /// Appends the cell to `out`.
    ///
    /// # Panics
    ///
    /// If a datagram is longer than a cell. The core makes no such datagram.
    pub fn write(&self, out: &mut Vec<u8>) {
        let body = match self {
            Control::Path(PathOffer { certificate, token, port }) => {
                [&[PATH][..], certificate, token, &port.to_be_bytes()].concat()
            }
            Control::Select(datagrams) => vec![SELECT, u8::from(*datagrams)],
            Control::Tunnel(datagram) => [&[TUNNEL][..], datagram].concat(),
        };
        push_variable(out, IdLen::Four, command::DATAGRAMS, &body);
    }

    /// Parses the body of a [`command::DATAGRAMS`] cell.
    ///
    /// # Errors
    ///
    /// If the body is malformed, or a datagram is too long.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let control = match reader.u8()? {
            PATH => Control::Path(PathOffer {
                certificate: reader.array()?,
                token: reader.array()?,
                port: reader.u16()?,
            }),
            SELECT => match reader.u8()? {
                0 => Control::Select(false),
                1 => Control::Select(true),
                _ => return Err(Malformed),
            },
            TUNNEL if reader.len() <= MAX_DATAGRAM => Control::Tunnel(reader.rest()),
            _ => return Err(Malformed),
        };
        if reader.is_empty() { Ok(control) } else { Err(Malformed) }
    }
}

/// The first bytes of a [`Hello`]. No circuit has number 0, so no message of a circuit begins like this.
const NO_CIRCUIT: [u8; 2] = [0; 2];

/// The sizes of the largest datagram of a path [B]. A path that does not carry the first one uses the second one: with
/// the headers of DTLS, UDP and IPv6, it has 1280 B, and IPv6 networks carry such packets (RFC 8200 section 5).
pub const SIZES: [usize; 2] = [MAX_DATAGRAM, 1280 - 40 - 8 - 22];

/// A datagram that tests a path in both directions, with the size of the largest datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Whether this answers a hello.
    pub back: bool,
    /// The size, one of [`SIZES`] [B].
    pub size: usize,
    /// The receiver's token.
    pub token: Token,
}

impl Hello {
    /// The datagram.
    pub fn write(&self) -> Vec<u8> {
        let mut datagram = vec![0; self.size];
        datagram[2] = u8::from(self.back);
        datagram[3..19].copy_from_slice(&self.token);
        datagram
    }

    /// Parses a datagram; `None` if it has messages of circuits.
    ///
    /// # Errors
    ///
    /// If the datagram is malformed.
    pub fn read(datagram: &[u8]) -> Option<Result<Self, Malformed>> {
        let rest = datagram.strip_prefix(&NO_CIRCUIT)?;
        let (head, padding) = match rest.split_first_chunk::<17>() {
            Some(parts) if SIZES.contains(&datagram.len()) => parts,
            _ => return Some(Err(Malformed)),
        };
        let [back @ (0 | 1), token @ ..] = *head else { return Some(Err(Malformed)) };
        let is_clean = padding.iter().all(|byte| *byte == 0);
        let hello = Hello { back: back == 1, size: datagram.len(), token };
        Some(if is_clean { Ok(hello) } else { Err(Malformed) })
    }
}

/// Appends the messages to a datagram.
pub fn write_messages<'a>(messages: impl Iterator<Item = Message<&'a LiveCell>>, out: &mut Vec<u8>) {
    for message in messages {
        encode(&message.map(LiveCell::in_datagram), out);
    }
}

/// Parses the messages of a datagram, and adds them to `into`. A malformed datagram adds nothing.
///
/// # Errors
///
/// If the datagram is malformed, or a message carries no circuit cell.
pub fn read_messages(
    datagram: &[u8],
    extended: Extended,
    into: &mut Vec<Message<LiveCell>>,
) -> Result<(), Malformed> {
    let before = into.len();
    for message in decode(datagram).map_err(|_: DecodeError| Malformed)? {
        let circuit = message.circuit();
        let message = match message {
            Message::Data { seq, body, .. } => LiveCell::from_datagram(circuit, &body, extended)
                .map(|body| Message::Data { circuit, seq, body }),
            other => (circuit != 0).then(|| other.map(|_| unreachable!("only DATA has a cell"))),
        };
        let Some(message) = message else {
            into.truncate(before);
            return Err(Malformed);
        };
        into.push(message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Front, front};
    use penstock_core::datagram::Downstream;
    use penstock_core::{Cell as _, DestroyReason};
    use proptest::prelude::*;

    fn control(kind: u8, offer: PathOffer, datagram: &[u8]) -> Control<'_> {
        match kind {
            0 => Control::Path(offer),
            1 => Control::Select(true),
            2 => Control::Select(false),
            _ => Control::Tunnel(datagram),
        }
    }

    #[test]
    fn a_hello_is_no_message_and_has_one_of_two_sizes() {
        let mut bytes = Vec::new();
        for size in SIZES {
            let hello = Hello { back: true, size, token: [7; 16] };
            bytes = hello.write();
            assert_eq!(Hello::read(&bytes), Some(Ok(hello)));
            assert_eq!(Hello::read(&bytes[..size - 1]), Some(Err(Malformed)));
        }
        assert_eq!(Hello::read(&[&[0, 0, 2][..], &[0; MAX_DATAGRAM - 3]].concat()), Some(Err(Malformed)));
        assert_eq!(Hello::read(&[0, 1, 1, 0]), None);
        assert!(read_messages(&bytes, Extended::ALL, &mut Vec::new()).is_err());
    }

    #[test]
    fn cells_survive_a_datagram_and_other_commands_are_refused() {
        let cell = LiveCell::destroy(penstock_core::datagram::circuit_id(0x8001).unwrap(), DestroyReason(5));
        let data = Message::Data { circuit: 0x8001, seq: 9, body: &cell };
        let downstream = Downstream { congestion: Some(3), ended: None };
        let feedback = Message::Feedback { circuit: 2, ack: 1, forwarded: 1, hole: false, downstream };
        let mut datagram = Vec::new();
        write_messages([data, feedback, Message::Probe { circuit: 3 }].into_iter(), &mut datagram);
        let mut read = Vec::new();
        read_messages(&datagram, Extended::NONE, &mut read).unwrap();
        let [Message::Data { circuit: 0x8001, seq: 9, body }, Message::Feedback { circuit: 2, .. }, _] =
            &read[..]
        else {
            panic!("{read:?}")
        };
        assert_eq!(body.to_bytes(), cell.to_bytes());
        // NETINFO is no circuit cell.
        datagram[2] = 128 | command::NETINFO;
        assert_eq!(read_messages(&datagram, Extended::NONE, &mut read), Err(Malformed));
        assert_eq!(
            read_messages(&[0, 1, 1, 0, 0, 0, 1, 0], Extended::NONE, &mut read),
            Err(Malformed),
            "circuit 0"
        );
        assert_eq!(read.len(), 3, "a malformed datagram adds nothing");
    }

    proptest! {
        #[test]
        fn a_written_control_cell_is_read_back(
            kind in 0u8..4, certificate: [u8; 32], token: Token, port: u16,
            datagram in proptest::collection::vec(any::<u8>(), 0..=MAX_DATAGRAM)
        ) {
            let control = control(kind, PathOffer { certificate, token, port }, &datagram);
            let mut cell = Vec::new();
            control.write(&mut cell);
            let Front::Cell(frame, len) = front(&cell, IdLen::Four) else { panic!("the cell is complete") };
            prop_assert_eq!((frame.command, len), (command::DATAGRAMS, cell.len()));
            prop_assert_eq!(Control::read(frame.body), Ok(control));
        }

        #[test]
        fn no_bytes_cause_a_panic(body in proptest::collection::vec(any::<u8>(), 0..1500)) {
            let _ = (Control::read(&body), Hello::read(&body), read_messages(&body, Extended::ALL, &mut Vec::new()));
        }
    }
}
