//! Cells over datagrams: packed, numbered, acknowledged and sent again, at each hop.
//!
//! What a channel over TCP leaves to the kernel happens here. One `Association` for each channel of datagrams; for
//! each of its circuits a [`Sender`] and a [`Receiver`]. How many cells may be on their way is not decided here but by
//! the control of hops, which hears what was forwarded and how long that took.
//!
//! Layers, in order: [`Message`] and its bytes ([`encode`], [`decode`]), [`Sender`] and [`Receiver`], the packer of an
//! association.
//!
//! Source: BackTap as "Congestion Control in TOR" (2018) describes it: reliability and congestion control hop by hop in
//! the application, and FWD feedback only when a cell has left the relay; nstor, its simulator, for what that leaves
//! open. docs/reference/algorithms/backtap-marut.md has the readings.

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
pub(crate) use association::{Association, LinkEvent};
pub use association::{DatagramConfig, DatagramCounters};
pub use codec::{CellBody, DecodeError, decode, encode};
pub use message::{Downstream, Message};
pub use receiver::Receiver;
pub use sender::{Acknowledgement, Repair, RoundTrips, Sender};

/// The most bytes of messages in one datagram [B].
pub const MAX_DATAGRAM: usize = 1400;

/// How many cells of a circuit may be on their way over one hop, or wait there for one that is missing [cell].
///
/// Both ends know it, so that neither keeps more. No window comes near.
pub const MAX_IN_FLIGHT: u64 = 2048;
