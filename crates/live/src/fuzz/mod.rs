//! What a fuzzer calls, and what is to hold whatever it says.
//!
//! Each function takes any bytes, panics if an invariant breaks, and says how far it came, so that a corpus can be shown
//! to reach what it is there for. The targets of libFuzzer in the folder `fuzz/` call them, and so do the tests of this
//! crate, over the corpus that is committed there.

mod cells;
mod choices;
mod directory;
mod forge;
mod handshake;
mod people;
mod relay;
#[cfg(test)]
mod tests;
mod torrc;

pub use cells::{Parsed, cells};
pub use directory::{Served, directory};
pub use handshake::{Shaken, handshake};
pub use relay::{Relayed, relay};
pub use torrc::torrc;
