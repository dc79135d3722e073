//! A stream at the edge: an exit's connection to a server, or a client's to its application.

use crate::cell::{Cell, StreamId};
use crate::circuit::Stamp;
use crate::edge_control::{AnyStreamControl, Backlog};
use crate::kernel::Interest;
use crate::keys::CircuitIndex;
use crate::token_bucket::TokenBucket;
use penstock_units::{Bytes, Cells};
use std::collections::VecDeque;

/// One stream and what waits for its socket.
#[derive(Debug)]
pub(crate) struct Stream<C: Cell> {
    pub(crate) circuit: CircuitIndex,
    pub(crate) id: StreamId,
    pub(crate) control: AnyStreamControl,
    /// What its socket may be read, if the control sets a rate (C tor `edge_connection_t.bucket`).
    pub(crate) bucket: Option<TokenBucket>,
    /// CONNECTED was sent or received.
    pub(crate) open: bool,
    /// What the application says need not wait for CONNECTED (proposal 174).
    pub(crate) optimistic: bool,
    /// The other end of the circuit sends no more.
    pub(crate) ended: bool,
    /// Payloads the socket has not taken yet.
    pub(crate) outbuf: VecDeque<C::Payload>,
    /// How much that is [B].
    pub(crate) outbuf_bytes: Bytes,
    /// Since when the socket has taken none of them.
    pub(crate) since: Stamp,
    pub(crate) interest: Interest,
}

impl<C: Cell> Stream<C> {
    /// Whether what its socket has may travel now.
    pub(crate) fn may_package(&self) -> bool {
        (self.open || self.optimistic) && !self.ended
    }

    /// What the application has not taken yet.
    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { cells: Cells::new(self.outbuf.len() as u64), bytes: self.outbuf_bytes }
    }
}
