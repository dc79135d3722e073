//! Networks of relays, and how clients choose their paths through them.
//!
//! Layers, in order: [`relay`] (what path selection knows of a relay), [`weights`] (how much each
//! class of relay counts at each position), [`select`] (circuits as C tor draws them), [`pairs`]
//! (what two such circuits have in common), [`consensus`] (relays and weights from a document of
//! the directory authorities), [`error`] (what is wrong with one), [`geo`] (countries, and how far
//! they are apart), [`era`] (networks as they were in some year).

#![forbid(unsafe_code)]

pub mod consensus;
pub mod era;
mod eras;
pub mod error;
pub mod geo;
pub mod pairs;
pub mod relay;
pub mod select;
pub mod weights;

pub use consensus::Consensus;
pub use era::Era;
pub use error::Error;
pub use geo::Country;
pub use pairs::{Pairs, Sampler};
pub use relay::{Class, Flags, Position, Relay};
pub use select::Selector;
pub use weights::PositionWeights;
