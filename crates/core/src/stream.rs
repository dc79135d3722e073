//! A stream at the edge: an exit's connection to a server, or a client's to its application.

use crate::cell::{Cell, StreamId};
use crate::edge_control::AnyStreamControl;
use crate::kernel::Interest;
use crate::keys::CircuitIndex;
use penstock_units::Cells;
use std::collections::VecDeque;

/// One stream and what waits for its socket.
#[derive(Debug)]
pub(crate) struct Stream<C: Cell> {
    pub(crate) circuit: CircuitIndex,
    pub(crate) id: StreamId,
    pub(crate) control: AnyStreamControl,
    /// CONNECTED was sent or received.
    pub(crate) open: bool,
    /// What the application says need not wait for CONNECTED (proposal 174).
    pub(crate) optimistic: bool,
    /// The other end of the circuit sends no more.
    pub(crate) ended: bool,
    /// Payloads the socket has not taken yet.
    pub(crate) outbuf: VecDeque<C::Payload>,
    pub(crate) interest: Interest,
}

impl<C: Cell> Stream<C> {
    /// Whether what its socket has may travel now.
    pub(crate) fn may_package(&self) -> bool {
        (self.open || self.optimistic) && !self.ended
    }

    /// What the application has not taken yet.
    pub(crate) fn buffered(&self) -> Cells {
        Cells::new(self.outbuf.len() as u64)
    }
}
