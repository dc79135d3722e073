//! What two nodes say to each other in datagrams.

/// One message. `B` is a cell: bytes, a simulator's descriptor, or a reference to one.
///
/// Source: sizes of BackTap's headers as in nstor: DATA of 19 B and a payload of 498 B, FEEDBACK of 12 B.
/// Deviation: of the header of DATA, 11 B are the relay header (stream, digest, length, command), which is under the
/// circuit's encryption and belongs to the cell's body here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<B> {
    /// A cell of a circuit, the `seq`th from the first, which is number zero.
    Data {
        /// The circuit, by its number in the association.
        circuit: u16,
        /// Modulo 2³².
        seq: u32,
        /// The cell.
        body: B,
    },
    /// What became of the peer's cells of a circuit. Every one has both counts.
    Feedback {
        /// The circuit.
        circuit: u16,
        /// All cells before this number have arrived, modulo 2³² (ACK).
        ack: u32,
        /// So many RELAY cells were forwarded or delivered, modulo 2³² (FWD) [cell].
        forwarded: u32,
        /// It answers a cell while an earlier one is missing: a duplicate ACK.
        hole: bool,
        /// What lies beyond, where anybody asks.
        downstream: Downstream,
    },
    /// Whoever sends this asks for FEEDBACK of the circuit: what it heard last may have been lost.
    Probe {
        /// The circuit.
        circuit: u16,
    },
    /// The circuit is unknown here; what comes of it is thrown away.
    Gone {
        /// The circuit.
        circuit: u16,
    },
}

/// What FEEDBACK says of the circuit beyond the node that sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Downstream {
    /// Cells too many on the worst hop from here on (`c_diff`) [1/64 cell].
    pub congestion: Option<u16>,
    /// How many of the cells that the peer sent were forwarded or delivered by the last node, modulo 2³² [cell].
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
    /// What it takes in a datagram [B].
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

    /// The circuit that it is about.
    pub fn circuit(&self) -> u16 {
        match self {
            Message::Data { circuit, .. }
            | Message::Feedback { circuit, .. }
            | Message::Probe { circuit }
            | Message::Gone { circuit } => *circuit,
        }
    }

    /// The same with another form of the cell.
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
