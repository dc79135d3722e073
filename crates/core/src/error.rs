//! Violations of the protocol by peers.

use crate::reason::DestroyReason;
use thiserror::Error;

/// A peer's violation of the protocol. The circuit on which it occurs must close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// The peer sent more cells than the window allows.
    #[error("the peer sent more cells than its window allows")]
    WindowExceeded,
    /// The peer sent a SENDME for cells that this node never sent.
    #[error("the peer acknowledged cells that were never sent")]
    UnexpectedSendme,
    /// The peer sent a SENDME without the digest of the acknowledged cell, although digests are required.
    #[error("the peer acknowledged a cell without its digest")]
    ForgedSendme,
    /// The peer sent a SENDME that reports more congestion marks than acknowledged cells.
    #[error("the peer reports more congestion marks than it acknowledges cells")]
    ForgedMarks,
    /// The peer sent an XON, XOFF or stream SENDME that the state or the data of the stream does not allow.
    #[error("the peer sent flow control that the stream's state does not allow")]
    UnexpectedFlowControl,
    /// The peer agreed to a congestion control, or to a number of cells per SENDME, that this node did not request.
    #[error("the peer agreed to congestion control that this node did not request")]
    UnwantedAgreement,
    /// The peer gave credit for cells that were never sent, or more credit than the maximum that it announced.
    #[error("the peer gave credit for cells that were never sent, or more credit than it announced")]
    ForgedCredit,
    /// The peer sent more cells of a circuit than its credit allows.
    #[error("the peer sent more cells of a circuit than its credit allows")]
    CreditExceeded,
    /// The next hop acknowledged cells that were never sent.
    #[error("the next hop acknowledged cells that were never sent")]
    ForgedAcknowledgement,
    /// The next hop leaves too many cells of a circuit unacknowledged, or acknowledges nothing for too long.
    #[error("the next hop does not acknowledge the cells that it gets")]
    Unacknowledged,
    /// The peer sent a cell whose sequence number is too far beyond a missing cell.
    #[error("the peer sent a cell far beyond the cells that it may have in flight")]
    TooFarAhead,
    /// The peer sent so many cells that a circuit's queue exceeds [`Limits::max_circuit_queue`](crate::config::Limits).
    #[error("the peer sent more cells of a circuit than the circuit's queue may hold")]
    QueueExceeded,
    /// The peer sent so much data that a circuit's streams exceed [`Limits::edge_buffer`](crate::config::Limits).
    #[error("the peer sent more data than the buffers of a circuit's streams may hold")]
    BufferExceeded,
    /// The peer opened more streams on a circuit than [`Limits::streams_per_circuit`](crate::config::Limits).
    #[error("the peer opened more streams on a circuit than it may")]
    TooManyStreams,
    /// The peer sent a cell that the circuit's state does not allow.
    #[error("the peer sent a cell that the circuit's state does not allow")]
    UnexpectedCell,
    /// The peer linked a circuit, or answered a link, in a way that Conflux does not allow here.
    #[error("the peer linked circuits in a way that is not allowed")]
    UnexpectedLink,
    /// A cell on linked circuits has a number that was used already, or comes after a cell that is lost.
    #[error("the number of a cell on linked circuits is repeated, or comes after a lost cell")]
    BadSequence,
    /// No hop of the circuit recognised a relay cell.
    #[error("no hop of the circuit recognised a relay cell")]
    Unrecognised,
    /// The peer sent more RELAY_EARLY cells than a circuit may have, or sent one towards the client.
    #[error("the peer sent a RELAY_EARLY cell that is not allowed")]
    UnexpectedEarlyCell,
}

impl Violation {
    /// The reason in the DESTROY cells that this node sends to the circuit's neighbours.
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
