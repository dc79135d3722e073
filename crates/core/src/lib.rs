//! The relay core, without I/O.
//!
//! The crate has no sockets, clock, threads, global state or randomness of its own. The caller passes `now` as an
//! argument and the host as a [`Kernel`]. For slow work the relay emits an [`Event`], and the driver returns the result
//! with a call. The same code runs in tests, in a simulated network and on Linux sockets.
//!
//! Layers, in order: [`cell`] (cells and messages), [`kernel`] (the host), [`datagram`] (cells without TCP),
//! [`token_bucket`]. Then the algorithms: [`circuit_policy`], [`scheduler`], [`edge_control`], [`hop_control`],
//! [`throttle`], [`channel_map`]. [`relay`] owns channels, circuits and streams and calls the algorithms. Last,
//! [`build_times`] tells a client how long to wait for a circuit.
//!
//! # The contract of a driver
//!
//! ```text
//! relay.on_readable(now, channel, &mut kernel);    inputs
//! relay.on_writable(now, channel, &mut kernel);
//! relay.on_timer(now, &mut kernel);                early or repeated calls are harmless
//! while let Some(event) = relay.poll_event() {}    until empty, after every input
//! let wake = relay.poll_timeout();                 without side effects
//! ```
//!
//! Readiness is level-triggered. A driver keeps ready sockets in a FIFO queue. It makes one call for the first socket.
//! Then it moves the socket to the end of the queue, if the socket is still ready and the relay still wants this
//! readiness.

pub mod build_times;
pub mod cell;
pub mod channel_map;
pub mod circuit_policy;
pub mod config;
pub mod conflux;
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

mod arena;
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

pub use arena::SecondaryMap;
pub use cell::{Cell, CircId, Command, Message, Payload, PeerId, StreamId, Tag};
pub use config::RelayConfig;
pub use error::Violation;
pub use event::{Event, Station};
pub use factory::Factory;
pub use kernel::{Kernel, SocketInfo, StreamRead, Unfinished};
pub use keys::{ChannelKey, CircuitIndex, CircuitKey, ClientKey, Direction, StreamKey};
pub use reason::{DestroyReason, EndReason};
pub use relay::{Counters, Parameters, Relay};
