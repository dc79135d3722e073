//! Cells over datagrams: each hop packs, numbers, acknowledges and retransmits cells.
//!
//! Datagrams replace the kernel's TCP on a channel. Each channel of datagrams has an `Association`, with a [`Sender`]
//! and a [`Receiver`] for each circuit. Hop control limits the cells in flight. For this it gets the counts of
//! forwarded cells and their round-trip times.
//!
//! Layers, in order: [`Message`] with [`encode`] and [`decode`], [`Sender`] and [`Receiver`], the packer of an
//! association.
//!
//! Source: BackTap as in "Congestion Control in TOR" (2018): the application provides reliability and congestion
//! control hop by hop, and a relay sends FWD feedback only when a cell has left the relay. Where the source is silent,
//! BackTap's simulator nstor decides; docs/reference/algorithms/backtap-marut.md explains these points.

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
pub use association::{DatagramConfig, DatagramCounters, circuit_id};
pub use codec::{CellBody, DecodeError, decode, encode};
pub use message::{Downstream, Message};
pub use receiver::Receiver;
pub use sender::{Acknowledgement, Repair, RoundTrips, Sender};

/// The maximum total size of the messages in one datagram [B].
pub const MAX_DATAGRAM: usize = 1400;

/// The maximum number of a circuit's cells in flight over one hop [cell]. Sender and receiver use the same number, so
/// the receiver never buffers more early cells than this. The windows of hop control are smaller.
pub const MAX_IN_FLIGHT: u64 = 2048;
