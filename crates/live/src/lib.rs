//! A Tor relay on Linux sockets: the relay of [`penstock_core`] over the link protocol of [`penstock_link`].
//!
//! Layers, in order: [`clock`] (the real one), [`keys`] (key files), [`directory`] (publishing the relay's descriptor; fetching, checking and
//! serving the documents of the authorities), [`names`] (DNS), [`tls`], [`node`] (the event loop around the core),
//! [`torrc`] (the operator's settings), [`program`] (`penstock-relay`).
//!
//! Any input of a peer can cause an error. It never causes a panic or unbounded memory.

pub mod clock;
pub mod directory;
pub mod error;
pub mod keys;
pub mod names;
pub mod node;
pub mod program;
pub mod tls;
pub mod torrc;

pub use error::Error;
