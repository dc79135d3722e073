//! Cells over datagrams: packed, numbered, acknowledged and retransmitted at each hop.
//!
//! This replaces the kernel's TCP. Each channel of datagrams has an `Association`, with a [`Sender`] and
//! a [`Receiver`] for each circuit. Hop control decides how many cells may be in flight; it gets the
//! counts of forwarded cells and their round trips.
//!
//! Layers, in order: [`Message`] and its bytes ([`encode`], [`decode`]), [`Sender`] and [`Receiver`],
//! the packer of an association.
//!
//! Source: BackTap as in "Congestion Control in TOR" (2018): reliability and congestion control hop by
//! hop in the application, and FWD feedback only when a cell has left the relay; its simulator nstor for
//! all open points. docs/reference/algorithms/backtap-marut.md explains them.

mod association;
mod codec;
mod message;
mod packer;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod timeout;

#[cfg(test)]
pub(crate) use association::MAX_EARLY;
pub(crate) use association::{Association, LinkEvent, LinkFailure};
pub use association::{DatagramConfig, DatagramCounters};
pub use codec::{CellBody, DecodeError, decode, encode};
pub use message::{Downstream, Message};
pub use receiver::Receiver;
pub use sender::{Acknowledgement, Repair, RoundTrips, Sender};

/// The maximum size of the messages in one datagram [B].
pub const MAX_DATAGRAM: usize = 1400;

/// The maximum number of a circuit's cells in flight over one hop, and of early cells of a circuit [cell].
///
/// Both ends use it, so neither must keep more. Windows are far below.
pub const MAX_IN_FLIGHT: u64 = 2048;
