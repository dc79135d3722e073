//! Violations of the protocol by peers.

use crate::reason::DestroyReason;
use thiserror::Error;

/// A violation of the protocol by a peer. The circuit of the violating cell closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// More cells than the window allows.
    #[error("the peer sent more cells than its window allows")]
    WindowExceeded,
    /// A SENDME for cells that were never sent.
    #[error("the peer acknowledged cells that were never sent")]
    UnexpectedSendme,
    /// A SENDME without the digest of the acknowledged cell, although digests are required.
    #[error("the peer acknowledged a cell without its digest")]
    ForgedSendme,
    /// A SENDME with more congestion marks than acknowledged cells.
    #[error("the peer reports more congestion marks than it acknowledges cells")]
    ForgedMarks,
    /// An XON, XOFF or stream SENDME that the stream's state or data does not allow.
    #[error("the peer sent flow control that the stream's state does not allow")]
    UnexpectedFlowControl,
    /// Congestion control that this node did not request, or with a very different SENDME increment.
    #[error("the peer agreed to congestion control that this node did not request")]
    UnwantedAgreement,
    /// A credit for cells that were never sent, or above the maximum that the peer announced.
    #[error("the peer gave credit for cells that were never sent, or more credit than it announced")]
    ForgedCredit,
    /// More cells of a circuit than its credit allows.
    #[error("the peer sent more cells of a circuit than its credit allows")]
    CreditExceeded,
    /// An acknowledgement, at a hop, of cells that were never sent.
    #[error("the next hop acknowledged cells that were never sent")]
    ForgedAcknowledgement,
    /// Too many unacknowledged cells of a circuit over a hop, or no acknowledgement for too long.
    #[error("the next hop does not acknowledge the cells that it gets")]
    Unacknowledged,
    /// A cell too far beyond the last one that arrived.
    #[error("the peer sent a cell far beyond the cells that it may have in flight")]
    TooFarAhead,
    /// A circuit's queue above [`Limits::max_circuit_queue`](crate::config::Limits).
    #[error("the peer sent more cells of a circuit than the circuit's queue may hold")]
    QueueExceeded,
    /// Payloads for a circuit's streams above [`Limits::edge_buffer`](crate::config::Limits).
    #[error("the peer sent more data than the buffers of a circuit's streams may hold")]
    BufferExceeded,
    /// More streams on a circuit than [`Limits::streams_per_circuit`](crate::config::Limits).
    #[error("the peer opened more streams on a circuit than it may")]
    TooManyStreams,
    /// A cell that the circuit's state does not allow.
    #[error("the peer sent a cell that the circuit's state does not allow")]
    UnexpectedCell,
    /// A relay cell that no hop recognised.
    #[error("no hop of the circuit recognised a relay cell")]
    Unrecognised,
    /// More RELAY_EARLY cells than a circuit may have, or one towards the client.
    #[error("the peer sent a RELAY_EARLY cell that is not allowed")]
    UnexpectedEarlyCell,
}

impl Violation {
    /// The reason in the DESTROY to the circuit's neighbours.
    ///
    /// Source: tor-spec, "Tearing down circuits"; C tor `circuits_handle_oom()`.
    pub fn reason(self) -> DestroyReason {
        match self {
            Violation::QueueExceeded | Violation::BufferExceeded | Violation::TooManyStreams => {
                DestroyReason::RESOURCE_LIMIT
            }
            Violation::Unacknowledged => DestroyReason::TIMEOUT,
            _ => DestroyReason::PROTOCOL,
        }
    }
}
