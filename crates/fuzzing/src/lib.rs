//! The functions that fuzzers call.
//!
//! Each function takes any bytes, panics if an invariant does not hold, and returns how far the input came. The targets of
//! libFuzzer in the folder `fuzz/` call these functions. The tests of this crate call them with the committed corpus, and
//! check that the corpus still reaches each state that it is there for.
//!
//! Layers, in order: [`samples`] (directory documents of a C tor network), `choices` (an input read as choices), `people`
//! and `forge` (relays with fixed keys, and forged certificates), then one module for each target.

mod cells;
mod choices;
mod consensus;
mod directory;
mod forge;
mod handshake;
mod people;
mod relay;
pub mod samples;
mod torrc;

pub use cells::{Parsed, cells};
pub use consensus::consensus;
pub use directory::{Served, directory};
pub use handshake::{Shaken, handshake};
pub use relay::{Relayed, relay};
pub use torrc::torrc;
