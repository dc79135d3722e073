//! Cells of the real network: 514 bytes on the wire.
//!
//! [`front`] finds cells in the bytes of a link. [`Incoming::of`] separates circuit cells from cells of the link.
//! [`LiveCell`] is the cell of the core's relay, and [`RelayMessage`] the decrypted content of a relay cell. A
//! forwarded cell is copied and never allocated.

mod answers;
pub mod command;
mod frame;
mod handshake;
mod linkspec;
mod live;
mod message;
mod target;

#[cfg(all(test, feature = "oracles"))]
mod arti;
#[cfg(test)]
mod tests;

pub use answers::{Connected, End, Resolved, StreamEnd};
pub use frame::{BODY_LEN, CELL_LEN, Frame, Front, IdLen, MAX_VARIABLE, front, push_fixed, push_variable};
pub use handshake::{Handshake, HandshakeKind};
pub use linkspec::LinkSpec;
pub use live::{Incoming, LiveCell, MAX_EARLY};
pub use message::{LivePayload, RelayMessage, read, write};
pub use penstock_core::{DestroyReason, EndReason};
pub use target::{BeginFlags, Target};
