//! Messages in datagrams.

/// One message. `B` is a cell: bytes, a simulator's descriptor, or a reference to one.
///
/// Source: sizes of BackTap's headers as in nstor: DATA of 19 B and a payload of 498 B, FEEDBACK of 12 B.
/// Deviation: 11 B of the header of DATA are the relay header (stream, digest, length, command). The circuit's
/// encryption covers them, so they belong to the cell's body here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<B> {
    /// A cell of a circuit. The first cell has the number zero.
    Data {
        /// The circuit's number in the association.
        circuit: u16,
        /// Modulo 2³².
        seq: u32,
        /// The cell.
        body: B,
    },
    /// The counts of a circuit's cells from the peer. Every FEEDBACK has both counts.
    Feedback {
        /// The circuit.
        circuit: u16,
        /// All cells before this number have arrived, modulo 2³² (ACK).
        ack: u32,
        /// RELAY cells forwarded or delivered, modulo 2³² (FWD) [cell].
        forwarded: u32,
        /// This answers a cell beyond a missing one, so its ACK is a duplicate.
        hole: bool,
        /// The state downstream, if hop control reports it.
        downstream: Downstream,
    },
    /// A request for FEEDBACK of the circuit, because the last one may be lost.
    Probe {
        /// The circuit.
        circuit: u16,
    },
    /// The circuit is unknown to the sender, which drops its cells.
    Gone {
        /// The circuit.
        circuit: u16,
    },
}

/// The state of a circuit downstream of the node that sends FEEDBACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Downstream {
    /// The excess cells of the worst hop downstream (`c_diff`) [1/64 cell].
    pub congestion: Option<u16>,
    /// How many of the peer's cells the last node has forwarded or delivered, modulo 2³² [cell].
    pub ended: Option<u32>,
}

/// Circuit, type and flags [B].
pub(super) const HEADER: usize = 4;
/// The number of a DATA [B].
const SEQ: usize = 4;
/// A cell without circuit id and command [B].
pub(super) const BODY: usize = 509;
/// A DATA [B].
pub(super) const DATA: usize = HEADER + SEQ + BODY;
/// ACK and FWD of a FEEDBACK [B].
pub(super) const COUNTS: usize = 8;
/// c_diff [B].
pub(super) const CONGESTION: usize = 2;
/// The last node's count [B].
pub(super) const ENDED: usize = 4;

impl<B> Message<B> {
    /// The message's size in a datagram [B].
    pub fn wire_size(&self) -> usize {
        match self {
            Message::Data { .. } => DATA,
            Message::Feedback { downstream, .. } => {
                let congestion = if downstream.congestion.is_some() { CONGESTION } else { 0 };
                let ended = if downstream.ended.is_some() { ENDED } else { 0 };
                HEADER + COUNTS + congestion + ended
            }
            Message::Probe { .. } | Message::Gone { .. } => HEADER,
        }
    }

    /// The message's circuit.
    pub fn circuit(&self) -> u16 {
        match self {
            Message::Data { circuit, .. }
            | Message::Feedback { circuit, .. }
            | Message::Probe { circuit }
            | Message::Gone { circuit } => *circuit,
        }
    }

    /// The same message with another form of the cell.
    pub fn map<T>(self, with: impl FnOnce(B) -> T) -> Message<T> {
        match self {
            Message::Data { circuit, seq, body } => Message::Data { circuit, seq, body: with(body) },
            Message::Feedback { circuit, ack, forwarded, hole, downstream } => {
                Message::Feedback { circuit, ack, forwarded, hole, downstream }
            }
            Message::Probe { circuit } => Message::Probe { circuit },
            Message::Gone { circuit } => Message::Gone { circuit },
        }
    }
}
