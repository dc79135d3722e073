//! Tor's link protocol without I/O: bytes in, bytes out, or an error.
//!
//! This crate reads no clock, opens no socket and has no random generator: `now` and the generator are arguments. Layers,
//! in order: [`wire`] (a reader that never reads past the end), [`cell`] (cells and relay messages), [`crypto`] (circuit
//! layers and circuit handshakes), [`keys`] (the keys of a relay), [`certs`] (how the two nodes of a link prove their
//! identities), [`handshake`] (the link handshake), [`descriptor`] (server descriptors and exit policies).
//!
//! Any input of a peer can cause an error. It never causes a panic or unbounded memory.

pub mod cell;
pub mod certs;
pub mod crypto;
pub mod descriptor;
pub mod handshake;
pub mod keys;
pub mod pem;
pub mod wire;
