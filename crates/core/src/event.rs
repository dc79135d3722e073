//! Events of a relay for its driver.

use crate::cell::{Cell, PeerId, Tag};
use crate::edge_control::Negotiation;
use crate::error::Violation;
use crate::keys::{ChannelKey, CircuitIndex, Direction, StreamKey};
use penstock_units::Instant;

/// A request to the driver, or a report. The driver polls until there is none.
#[derive(Debug)]
#[expect(missing_docs, reason = "most fields need no words")]
pub enum Event<C: Cell> {
    /// Connect to `peer`, then call [`Relay::on_channel_open`](crate::Relay::on_channel_open).
    Connect { channel: ChannelKey, peer: PeerId },
    /// Answer a CREATE: call [`Relay::agree`](crate::Relay::agree) with the client's request about
    /// congestion control, then [`Relay::on_handshake`](crate::Relay::on_handshake).
    HandshakeRequested { circuit: CircuitIndex, handshake: C::Handshake },
    /// Find the relay to which a client extends: call [`Relay::extend`](crate::Relay::extend).
    ExtendRequested {
        circuit: CircuitIndex,
        /// The name of that relay.
        to: C::LinkSpec,
        /// The client's handshake for that relay.
        handshake: C::Handshake,
    },
    /// Start a handshake as a client: call [`Relay::start_handshake`](crate::Relay::start_handshake).
    HandshakeNeeded {
        circuit: CircuitIndex,
        hop: usize,
        /// The request about congestion control, which the handshake must contain.
        ask: Negotiation,
    },
    /// Finish a handshake as a client: call [`Relay::finish_handshake`](crate::Relay::finish_handshake).
    HandshakeAnswered { circuit: CircuitIndex, handshake: C::Handshake },
    /// The client's circuit has all its hops.
    CircuitBuilt { circuit: CircuitIndex },
    /// The circuit and its streams are closed.
    CircuitClosed {
        /// The circuit. Another circuit may reuse its index.
        circuit: CircuitIndex,
        /// The violation, if a peer's violation closed the circuit.
        violation: Option<Violation>,
    },
    /// As an exit: connect to `target`, then call [`Relay::on_stream_connected`](crate::Relay::on_stream_connected).
    StreamRequested { stream: StreamKey, target: C::Target },
    /// As a client: the stream is open.
    StreamConnected { stream: StreamKey },
    /// The stream is closed. The kernel has all its data.
    StreamClosed {
        /// The stream. Another stream may reuse its key.
        stream: StreamKey,
    },
    /// A tracked cell reached a station.
    Tracked {
        tag: Tag,
        circuit: CircuitIndex,
        direction: Direction,
        station: Station,
        /// When the cell reached the station.
        at: Instant,
    },
}

/// A station of a cell within a relay. The driver adds the stations of its kernel: NIC in, written, NIC out.
///
/// Source: DefenestraTor figure 1; KIST figure 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Station {
    /// Parsed and decrypted.
    Parsed,
    /// Waiting in the circuit's queue.
    Queued,
    /// Moved to the channel's output buffer.
    Outbuf,
}
