//! Networks of relays, and how clients choose their paths through a network.
//!
//! Layers, in order: [`relay`] (a relay as path selection sees it), [`weights`] (the share of each class of relays at
//! each position), [`select`] (samples circuits as C tor does), [`pairs`] (relays and sockets that two circuits share),
//! [`document`] (the line format of directory documents), [`consensus`] (relays and weights from a consensus document),
//! `families` (relays that declare each other), [`descriptors`] (server descriptors and microdescriptors), [`guards`]
//! (the guards of a client over several consensuses), [`history`] (circuits of clients over several consensuses), [`imported`] (the relays of a simulation, from a consensus and descriptors),
//! [`sample`] (a smaller network), [`error`], [`geo`] (countries and distances), [`era`] (networks that resemble Tor's
//! of a given year), [`places`] (places with loss, and the delays between them), [`environment`] (generated places that
//! resemble those of a published experiment).

#![forbid(unsafe_code)]

pub mod consensus;
pub mod descriptors;
pub mod document;
pub mod environment;
pub mod era;
pub mod error;
mod families;
pub mod geo;
pub mod guards;
pub mod history;
pub mod imported;
pub mod pairs;
pub mod places;
pub mod relay;
pub mod sample;
pub mod select;
pub mod weights;

pub use consensus::Consensus;
pub use descriptors::Descriptors;
pub use environment::Environment;
pub use era::Era;
pub use error::Error;
pub use geo::Country;
pub use history::History;
pub use imported::Imported;
pub use pairs::{Pairs, Sampler};
pub use places::{Place, Places};
pub use relay::{Class, Flags, MAX_FAMILY, Position, Relay};
pub use select::Selector;
pub use weights::PositionWeights;
