//! A Tor relay on Linux sockets. It connects the relay core of [`penstock_core`] to the link protocol of
//! [`penstock_link`].
//!
//! The layers are, in order:
//!
//! - [`clock`]: the real clock
//! - `atomic`: files that are whole at any moment
//! - [`keys`]: key files
//! - [`directory`]: publishes the relay's descriptor; fetches, verifies and serves documents of the authorities
//! - [`names`]: resolves host names by DNS
//! - [`tls`], [`dtls`]: settings of TLS and DTLS
//! - [`proxy`]: the decisions of a client: paths, guards, circuits, SOCKS
//! - [`node`]: the event loop around the core
//! - [`torrc`]: the operator's settings
//! - [`program`]: the command `penstock-relay`
//!
//! Input of a peer can cause an error, but never a panic or unlimited memory use.

mod atomic;
pub mod clock;
pub mod directory;
pub mod dtls;
pub mod error;
pub mod keys;
pub mod names;
pub mod node;
pub mod program;
pub mod proxy;
pub mod tls;
pub mod torrc;

pub use error::Error;
