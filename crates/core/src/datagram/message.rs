/// One message in a datagram. `B` is the type of a cell: bytes, the simulator's descriptor, or a reference to either.
///
/// Source: header sizes of BackTap as in nstor: DATA has 19 B and a payload of 498 B, FEEDBACK has 12 B. Deviation: 11
/// B of the DATA header are the relay header (stream, digest, length, command). These bytes are part of the cell's
/// body, because the circuit's encryption covers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<B> {
    /// A cell of a circuit. The first cell has sequence number 0.
    Data {
        /// The circuit's 16-bit number on this channel.
        circuit: u16,
        /// The cell's sequence number modulo 2³².
        seq: u32,
        /// The cell.
        body: B,
    },
    /// Reports how many cells of a circuit have arrived (ACK) and how many were forwarded (FWD).
    Feedback {
        /// The circuit's 16-bit number on this channel.
        circuit: u16,
        /// All cells with a sequence number below this have arrived, modulo 2³² (ACK).
        ack: u32,
        /// RELAY cells that the sender of this FEEDBACK has forwarded or delivered, modulo 2³² (FWD) [cell].
        forwarded: u32,
        /// Whether this FEEDBACK answers a cell that arrived beyond a missing cell. The ACK is then a duplicate.
        hole: bool,
        /// The congestion beyond the sender of this FEEDBACK, if hop control reports it.
        downstream: Downstream,
    },
    /// Requests a FEEDBACK for the circuit, because the last FEEDBACK may be lost.
    Probe {
        /// The circuit's 16-bit number on this channel.
        circuit: u16,
    },
    /// The sender of this message does not know the circuit and drops its cells.
    Gone {
        /// The circuit's 16-bit number on this channel.
        circuit: u16,
    },
}

/// The congestion of a circuit further along the path than the node that sends a FEEDBACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Downstream {
    /// Estimated cells that wait at the most congested hop downstream (`c_diff`) [1/64 cell].
    pub congestion: Option<u16>,
    /// How many cells the circuit's last node has forwarded or delivered, modulo 2³² [cell]. The number
    /// includes only cells that the receiver of this FEEDBACK has sent.
    pub ended: Option<u32>,
}

/// Size of circuit number, type and flags [B].
pub(super) const HEADER: usize = 4;
/// Size of a DATA message's sequence number [B].
const SEQ: usize = 4;
/// Size of a cell's body, without circuit id and command [B].
pub(super) const BODY: usize = 509;
pub(super) const DATA: usize = HEADER + SEQ + BODY;
/// Size of the ACK and FWD counts in a FEEDBACK [B].
pub(super) const COUNTS: usize = 8;
pub(super) const CONGESTION: usize = 2;
/// Size of the last node's count in a FEEDBACK [B].
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

    /// Converts the message's cell to another representation.
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
