//! Networks of relays, and how clients choose their paths through them.
//!
//! Layers, in order: [`relay`] (what path selection knows of a relay), [`weights`] (how much each
//! class of relay counts at each position), [`select`] (circuits as C tor draws them), [`pairs`]
//! (what two such circuits have in common), [`consensus`] (relays and weights from a document of
//! the directory authorities), [`descriptors`] (what relays say of themselves), [`given`] (the relays that
//! simulations need of both), [`sample`] (fewer of them), [`error`] (what is wrong with a document),
//! [`geo`] (countries, and how far they are apart), [`era`] (networks as they were in some year).

#![forbid(unsafe_code)]

pub mod consensus;
pub mod descriptors;
pub mod era;
mod eras;
pub mod error;
pub mod geo;
pub mod given;
pub mod pairs;
pub mod relay;
pub mod sample;
pub mod select;
pub mod weights;

pub use consensus::Consensus;
pub use descriptors::Descriptors;
pub use era::Era;
pub use error::Error;
pub use geo::Country;
pub use given::Given;
pub use pairs::{Pairs, Sampler};
pub use relay::{Class, Flags, Position, Relay};
pub use select::Selector;
pub use weights::PositionWeights;
