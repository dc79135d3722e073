//! A Tor relay on Linux sockets, and its parts.
//!
//! A relay of the real network is the relay of [`penstock_core`] over real cells. Here is what it says and what it
//! understands; the first layers have no sockets, clock or randomness of their own: bytes in, bytes out, or a reason why not;
//! `now` and the generator are arguments. Layers, in order: [`wire`] (reading what somebody else wrote), [`cell`] (what travels),
//! [`crypto`] (circuits' layers and handshakes), [`keys`] (a relay's keys, on its disk), [`certs`] (how the two nodes of a
//! link prove who they are), [`handshake`] (the link's handshake), [`descriptor`] (what directories are told), [`directory`]
//! (telling them, and keeping what they say), [`tls`], [`clock`] (the real one), [`node`] (all of these on sockets, around
//! the core), [`torrc`] (what an operator says), [`program`] (`penstock-relay`).
//!
//! Whatever a peer sends can cause an error, never a panic, and never memory without bound.

pub mod cell;
pub mod certs;
pub mod clock;
pub mod crypto;
pub mod descriptor;
pub mod directory;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod handshake;
pub mod keys;
pub mod names;
pub mod node;
pub mod program;
pub mod tls;
pub mod torrc;
pub mod wire;

mod pem;
