//! The relay, without I/O.
//!
//! No sockets, clock, threads, global state or randomness of its own: `now` is an argument,
//! the host is a [`Kernel`], slow work leaves as an [`Event`] and comes back as a call.
//! The same code runs under a test, under a simulated network and on Linux sockets.
//!
//! Layers, in order: [`cell`] (what travels), [`kernel`] (what the host says and does),
//! [`datagram`] (cells without TCP),
//! [`token_bucket`], the algorithms, one question each ([`circuit_policy`], [`scheduler`],
//! [`edge_control`], [`hop_control`], [`throttle`], [`channel_map`]), and [`relay`], which owns
//! channels, circuits and streams and asks them.
//!
//! # The contract of a driver
//!
//! ```text
//! relay.on_readable(now, channel, &mut kernel);    the world speaks
//! relay.on_writable(now, channel, &mut kernel);
//! relay.on_timer(now, &mut kernel);                early or repeated calls are harmless
//! while let Some(event) = relay.poll_event() {}    until empty, after every input
//! let wake = relay.poll_timeout();                 pure
//! ```
//!
//! Readiness is level-triggered and taken in turn: a driver keeps ready sockets in a FIFO, calls
//! once for the first, and puts it at the end if it is still ready and still wanted.

pub mod cell;
pub mod channel_map;
pub mod circuit_policy;
pub mod config;
pub mod datagram;
pub mod edge_control;
pub mod error;
pub mod event;
pub mod hop_control;
pub mod kernel;
pub mod keys;
pub mod reason;
pub mod relay;
pub mod scheduler;
pub mod throttle;
pub mod token_bucket;

mod channel;
mod circuit;
mod delay;
mod factory;
mod serial;
mod stream;
mod transport;
mod windowed_min;

#[cfg(test)]
mod tests;

pub use cell::{Cell, CircId, Command, Message, Payload, PeerId, StreamId, Tag};
pub use config::RelayConfig;
pub use error::Violation;
pub use event::{Event, Station};
pub use factory::Factory;
pub use kernel::{Kernel, SocketInfo, StreamRead};
pub use keys::{ChannelKey, CircuitIndex, CircuitKey, ClientKey, Direction, StreamKey};
pub use reason::{DestroyReason, EndReason};
pub use relay::{Counters, Parameters, Relay};
