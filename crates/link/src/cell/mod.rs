//! Cells of the live network: 514 bytes on the wire.
//!
//! [`front`] separates the bytes of a link into cells. [`Incoming::of`] separates circuit cells from other cells.
//! [`LiveCell`] is a circuit cell for the relay core. [`RelayMessage`] is the decrypted content of a relay cell.
//! Forwarding a cell allocates no memory.

mod answers;
pub mod command;
mod frame;
mod handshake;
mod linkspec;
mod live;
mod message;
mod onion_service;
mod target;

#[cfg(all(test, feature = "oracles"))]
mod arti;
#[cfg(test)]
mod tests;

pub use answers::{Connected, End, Resolved, StreamEnd};
pub use frame::{BODY_LEN, CELL_LEN, Frame, Front, IdLen, MAX_VARIABLE, front, push_fixed, push_variable};
pub use handshake::{Handshake, HandshakeKind};
pub use linkspec::LinkSpec;
pub use live::{Extended, Incoming, LiveCell, MAX_EARLY};
pub use message::{LivePayload, RelayMessage, read, write};
pub use onion_service::{
    EstablishIntro, IntroLimit, IntroduceStatus, LimitRequest, OnionService, OnionServiceCommand,
    RendezvousCookie, introduced_key,
};
pub use penstock_core::{DestroyReason, EndReason};
pub use target::{BeginFlags, Target};
