//! Tor's link protocol without I/O: it takes bytes, and returns bytes or an error.
//!
//! This crate reads no clock, opens no socket and has no random generator. The time `now` and the generator are
//! arguments. The layers are, in order:
//!
//! - [`wire`]: a reader that never reads past the end
//! - [`cell`]: cells and relay messages
//! - [`crypto`]: encryption layers and handshakes of circuits
//! - [`keys`]: the keys of a relay
//! - [`certs`]: how two nodes of a link prove their identities
//! - [`handshake`]: the link handshake
//! - [`datagram`]: circuit cells in datagrams
//! - [`descriptor`]: server descriptors and exit policies
//!
//! Input of a peer can cause an error, but never a panic or unlimited memory use.

pub mod cell;
pub mod certs;
pub mod crypto;
pub mod datagram;
pub mod descriptor;
pub mod handshake;
pub mod keys;
pub mod pem;
pub mod wire;
