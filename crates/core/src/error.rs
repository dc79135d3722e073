//! What a peer may do wrong, for which its circuit closes.

use crate::reason::DestroyReason;
use std::fmt;

/// A peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// More cells than the window allows.
    WindowExceeded,
    /// A SENDME that acknowledges cells that were never sent.
    UnexpectedSendme,
    /// A SENDME without the digest of the cell that it acknowledges, where one must have it.
    ForgedSendme,
    /// A SENDME that says that more cells met congestion than it acknowledges.
    ForgedMarks,
    /// An XON or XOFF, or a stream's SENDME, where none can be or oftener than what was sent allows.
    UnexpectedFlowControl,
    /// Congestion control that was not asked for, or with far more or fewer cells for a SENDME than here.
    UnwantedAgreement,
    /// A credit for cells that were never sent, or for more than the peer said that it would ever give.
    ForgedCredit,
    /// More cells of a circuit than its credits allow.
    CreditExceeded,
    /// An acknowledgement, at a hop, of cells that were never sent.
    ForgedAcknowledgement,
    /// More cells of a circuit without acknowledgement than may be under way over a hop, or none of them acknowledged
    /// for too long.
    Unacknowledged,
    /// A cell so far beyond the last that arrived that it cannot be under way.
    TooFarAhead,
    /// More cells of a circuit wait than may ([`Limits::max_circuit_queue`](crate::config::Limits)).
    QueueExceeded,
    /// More of its streams waits for applications than may ([`Limits::edge_buffer`](crate::config::Limits)).
    BufferExceeded,
    /// More streams on a circuit than may be ([`Limits::streams_per_circuit`](crate::config::Limits)).
    TooManyStreams,
    /// A cell that makes no sense in the circuit's state.
    UnexpectedCell,
    /// A relay cell that no hop recognised.
    Unrecognised,
    /// More RELAY_EARLY cells than a circuit may have, or one towards the client.
    UnexpectedEarlyCell,
}

impl Violation {
    /// What the circuit's neighbours are told.
    ///
    /// Source: tor-spec, "Tearing down circuits"; C tor `circuits_handle_oom()`.
    pub fn reason(self) -> DestroyReason {
        match self {
            Violation::QueueExceeded | Violation::BufferExceeded | Violation::TooManyStreams => {
                DestroyReason::RESOURCE_LIMIT
            }
            Violation::Unacknowledged => DestroyReason::TIMEOUT,
            Violation::WindowExceeded
            | Violation::UnexpectedSendme
            | Violation::ForgedSendme
            | Violation::ForgedMarks
            | Violation::UnexpectedFlowControl
            | Violation::UnwantedAgreement
            | Violation::ForgedCredit
            | Violation::CreditExceeded
            | Violation::ForgedAcknowledgement
            | Violation::TooFarAhead
            | Violation::UnexpectedCell
            | Violation::Unrecognised
            | Violation::UnexpectedEarlyCell => DestroyReason::PROTOCOL,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::WindowExceeded => "the peer sent more cells than its window allows",
            Violation::UnexpectedSendme => "the peer acknowledged cells that were never sent",
            Violation::ForgedSendme => "the peer acknowledged a cell without proof that it had arrived",
            Violation::ForgedMarks => "the peer says that more cells met congestion than it acknowledges",
            Violation::UnexpectedFlowControl => "the peer's flow control of a stream makes no sense",
            Violation::UnwantedAgreement => "the peer agreed on congestion control as nobody asked for it",
            Violation::ForgedCredit => {
                "the peer gave credit for cells that were never sent, or too much of it"
            }
            Violation::CreditExceeded => "the peer sent more cells of a circuit than its credit allows",
            Violation::ForgedAcknowledgement => "the next hop acknowledged cells that were never sent",
            Violation::Unacknowledged => "the next hop does not acknowledge what is sent to it",
            Violation::TooFarAhead => "the peer sent a cell far beyond what it may have under way",
            Violation::BufferExceeded => {
                "the peer sent more than may wait for the applications of its streams"
            }
            Violation::QueueExceeded => "the peer sent more cells of a circuit than may wait here",
            Violation::TooManyStreams => "the peer opened more streams on a circuit than it may",
            Violation::UnexpectedCell => "the peer sent a cell that makes no sense in this state",
            Violation::Unrecognised => "a relay cell reached the end of its circuit unrecognised",
            Violation::UnexpectedEarlyCell => "the peer sent a RELAY_EARLY cell where none may be",
        })
    }
}

impl std::error::Error for Violation {}
