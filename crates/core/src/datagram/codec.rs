//! The byte encoding of messages. A datagram is a sequence of messages and nothing else. Numbers are big-endian.
//!
//! ```text
//! every message   circuit u16, type u8, flags u8
//! type 0          FEEDBACK: ack u32, forwarded u32; flag 2 adds c_diff u16, flag 4 adds ended u32;
//!                 flag 1: the answer to a cell beyond a missing cell
//! type 1, 2       PROBE, GONE: no fields, no flags
//! type 128 to 255 DATA: seq u32, a cell's body of 509 B; the lower seven bits of the type are the cell's command;
//!                 flag 1: the cell met congestion
//! ```

use super::MAX_DATAGRAM;
use super::message::{BODY, Downstream, Message};
use thiserror::Error;

/// The bytes of a cell, without its circuit id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellBody<'a> {
    /// The cell's command, below 128.
    pub command: u8,
    /// Whether the cell was marked ([`Cell::mark`](crate::Cell::mark)).
    pub marked: bool,
    /// The cell's payload.
    pub payload: &'a [u8; BODY],
}

/// Why a datagram is malformed. The receiver drops the whole datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The datagram is longer than [`MAX_DATAGRAM`].
    #[error("the datagram is longer than {MAX_DATAGRAM} B")]
    TooLong,
    /// The datagram ends within a message.
    #[error("the datagram ends within a message")]
    Truncated,
    /// A message has an unknown type.
    #[error("the datagram has a message of type {0}")]
    UnknownType(u8),
    /// A message has flags that its type does not allow.
    #[error("the datagram has a message with flags {0:#x}")]
    UnknownFlags(u8),
}

const FEEDBACK: u8 = 0;
const PROBE: u8 = 1;
const GONE: u8 = 2;
const DATA: u8 = 128;

const HOLE: u8 = 1;
const WITH_CONGESTION: u8 = 2;
const WITH_ENDED: u8 = 4;
const MARKED: u8 = 1;

/// Appends a message to a datagram.
pub fn encode(message: &Message<CellBody<'_>>, into: &mut Vec<u8>) {
    into.extend(message.circuit().to_be_bytes());
    match message {
        Message::Data { seq, body, .. } => {
            debug_assert!(body.command < DATA, "a command has seven bits");
            into.extend([DATA | body.command, if body.marked { MARKED } else { 0 }]);
            into.extend(seq.to_be_bytes());
            into.extend(body.payload);
        }
        Message::Feedback { ack, forwarded, hole, downstream, .. } => {
            let hole = if *hole { HOLE } else { 0 };
            let congestion = downstream.congestion.map_or(0, |_| WITH_CONGESTION);
            let ended = downstream.ended.map_or(0, |_| WITH_ENDED);
            into.extend([FEEDBACK, hole | congestion | ended]);
            into.extend(ack.to_be_bytes());
            into.extend(forwarded.to_be_bytes());
            into.extend(downstream.congestion.map(u16::to_be_bytes).into_iter().flatten());
            into.extend(downstream.ended.map(u32::to_be_bytes).into_iter().flatten());
        }
        Message::Probe { .. } => into.extend([PROBE, 0]),
        Message::Gone { .. } => into.extend([GONE, 0]),
    }
}

/// Decodes the messages of a datagram. One malformed message makes the whole datagram invalid.
pub fn decode(datagram: &[u8]) -> Result<Vec<Message<CellBody<'_>>>, DecodeError> {
    if datagram.len() > MAX_DATAGRAM {
        return Err(DecodeError::TooLong);
    }
    let mut rest = Rest(datagram);
    let mut messages = Vec::new();
    while !rest.0.is_empty() {
        messages.push(rest.message()?);
    }
    Ok(messages)
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.take().copied().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().copied().map(u32::from_be_bytes)
    }

    fn message(&mut self) -> Result<Message<CellBody<'a>>, DecodeError> {
        let circuit = self.u16()?;
        let [kind, flags] = *self.take()?;
        let known = match kind {
            FEEDBACK => HOLE | WITH_CONGESTION | WITH_ENDED,
            DATA.. => MARKED,
            _ => 0,
        };
        if flags & !known != 0 {
            return Err(DecodeError::UnknownFlags(flags));
        }
        Ok(match kind {
            FEEDBACK => {
                let (ack, forwarded) = (self.u32()?, self.u32()?);
                let congestion = if flags & WITH_CONGESTION != 0 { Some(self.u16()?) } else { None };
                let ended = if flags & WITH_ENDED != 0 { Some(self.u32()?) } else { None };
                let downstream = Downstream { congestion, ended };
                Message::Feedback { circuit, ack, forwarded, hole: flags & HOLE != 0, downstream }
            }
            PROBE => Message::Probe { circuit },
            GONE => Message::Gone { circuit },
            DATA.. => {
                let seq = self.u32()?;
                let payload = self.take()?;
                let marked = flags & MARKED != 0;
                Message::Data { circuit, seq, body: CellBody { command: kind & !DATA, marked, payload } }
            }
            _ => return Err(DecodeError::UnknownType(kind)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(messages: &[Message<CellBody<'_>>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            let before = bytes.len();
            encode(message, &mut bytes);
            assert_eq!(bytes.len() - before, message.wire_size());
        }
        bytes
    }

    /// Payloads that repeat one byte.
    static PAYLOADS: [[u8; BODY]; 256] = {
        let mut all = [[0; BODY]; 256];
        let mut byte = 0;
        while byte < 256 {
            all[byte] = [byte as u8; BODY];
            byte += 1;
        }
        all
    };

    fn body(command: u8, byte: u8) -> CellBody<'static> {
        CellBody { command, marked: byte > 127, payload: &PAYLOADS[usize::from(byte)] }
    }

    fn message() -> impl Strategy<Value = Message<CellBody<'static>>> {
        let downstream = (any::<Option<u16>>(), any::<Option<u32>>())
            .prop_map(|(congestion, ended)| Downstream { congestion, ended });
        prop_oneof![
            (any::<u16>(), any::<u32>(), 0u8..128, any::<u8>()).prop_map(|(circuit, seq, command, byte)| {
                Message::Data { circuit, seq, body: body(command, byte) }
            }),
            (any::<u16>(), any::<u32>(), any::<u32>(), any::<bool>(), downstream).prop_map(
                |(circuit, ack, forwarded, hole, downstream)| Message::Feedback {
                    circuit,
                    ack,
                    forwarded,
                    hole,
                    downstream
                }
            ),
            any::<u16>().prop_map(|circuit| Message::Probe { circuit }),
            any::<u16>().prop_map(|circuit| Message::Gone { circuit }),
        ]
    }

    fn feedback(downstream: Downstream) -> Message<CellBody<'static>> {
        Message::Feedback { circuit: 1, ack: 2, forwarded: 3, hole: false, downstream }
    }

    /// G-56: a datagram has space for two cells and thirty FEEDBACK messages.
    #[test]
    fn two_cells_and_thirty_feedbacks_share_a_datagram() {
        let data = || Message::Data { circuit: 1, seq: 0, body: body(3, 0) };
        let full = |each: Downstream, count| {
            let mut messages = vec![data(), data()];
            messages.extend(std::iter::repeat_with(|| feedback(each)).take(count));
            bytes(&messages).len()
        };
        let marut = Downstream { congestion: Some(64), ended: None };
        assert_eq!([full(Downstream::default(), 0), full(Downstream::default(), 30)], [1034, 1394]);
        assert_eq!(full(marut, 26), 1398);
        assert!(full(Downstream::default(), 31) > MAX_DATAGRAM && full(marut, 27) > MAX_DATAGRAM);
    }

    #[test]
    fn malformed_datagrams_are_rejected_with_their_error() {
        assert_eq!(decode(&[]), Ok(Vec::new()));
        assert_eq!(decode(&[0, 1, 1]), Err(DecodeError::Truncated));
        assert_eq!(decode(&[0, 1, FEEDBACK, 0, 0, 0, 0, 1]), Err(DecodeError::Truncated));
        assert_eq!(decode(&[0, 1, 3, 0]), Err(DecodeError::UnknownType(3)));
        assert_eq!(decode(&[0, 1, PROBE, HOLE]), Err(DecodeError::UnknownFlags(HOLE)));
        assert_eq!(decode(&[0, 1, FEEDBACK, 8, 0, 0, 0, 0]), Err(DecodeError::UnknownFlags(8)));
        assert_eq!(decode(&[0, 1, DATA | 3, 2]), Err(DecodeError::UnknownFlags(2)));
        assert_eq!(decode(&vec![0; MAX_DATAGRAM + 1]), Err(DecodeError::TooLong));
    }

    proptest! {
        #[test]
        fn encoding_and_decoding_preserves_messages(messages in proptest::collection::vec(message(), 0..6)) {
            let wire = bytes(&messages);
            prop_assume!(wire.len() <= MAX_DATAGRAM);
            prop_assert_eq!(decode(&wire), Ok(messages));
        }

        #[test]
        fn any_bytes_are_rejected_or_decode_to_their_only_encoding(wire in proptest::collection::vec(any::<u8>(), 0..1500)) {
            if let Ok(messages) = decode(&wire) {
                prop_assert_eq!(bytes(&messages), wire);
            }
        }

        /// Valid messages with a few bytes changed or cut off.
        #[test]
        fn changed_bytes_are_rejected_or_decode_to_their_only_encoding(
            messages in proptest::collection::vec(message(), 1..6),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut wire = bytes(&messages);
            for (place, byte) in changes {
                let place = place.index(wire.len());
                wire[place] = byte;
            }
            wire.truncate(cut.index(wire.len()) + 1);
            if let Ok(messages) = decode(&wire) {
                prop_assert_eq!(bytes(&messages), wire);
            }
        }
    }
}
