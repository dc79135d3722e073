//! The cell of the real network: 514 bytes, as they travel.
//!
//! [`front`] finds cells in what a link brought, [`Incoming::of`] tells those of circuits from the link's own,
//! [`LiveCell`] is what the core's relay works on, and [`RelayMessage`] is what a relay cell says in the clear. A cell that
//! only passes through is copied and never allocated.

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
