//! Functions that fuzzers call.
//!
//! Each function takes any bytes, and panics if an invariant is violated. It returns counters of the states that the
//! input reached. The libFuzzer targets in `fuzz/` call these functions. The tests of this crate call them with the
//! committed corpus, and check that each input still reaches the same states.
//!
//! The layers are, in order: [`samples`] (directory documents of a C tor network), `choices` (an input as a sequence of
//! choices), `test_relays` and `forge` (relays with fixed keys, and forged certificates), then one module for each target.

mod cells;
mod choices;
mod consensus;
mod credits;
mod datagrams;
mod directory;
mod forge;
mod handshake;
mod onion_service;
mod relay;
pub mod samples;
mod socks;
mod test_relays;
mod torrc;

pub use cells::{Parsed, cells};
pub use consensus::consensus;
pub use credits::{Credited, credits};
pub use datagrams::{Datagram, datagrams};
pub use directory::{Served, directory};
pub use handshake::{HandshakeResult, handshake};
pub use onion_service::{Meeting, onion_service};
pub use relay::{Reached, relay};
pub use socks::socks;
pub use torrc::torrc;
