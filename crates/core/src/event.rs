//! What a relay tells its driver.

use crate::cell::{Cell, PeerId, Tag};
use crate::edge_control::Negotiation;
use crate::error::Violation;
use crate::keys::{ChannelKey, CircuitIndex, Direction, StreamKey};
use penstock_units::Instant;

/// Something the driver must do or may want to know. Poll until there is none.
#[derive(Debug)]
pub enum Event<C: Cell> {
    /// Connect to `peer`, then call [`Relay::on_channel_open`](crate::Relay::on_channel_open).
    Connect {
        /// The channel that waits for it.
        channel: ChannelKey,
        /// Whom to connect to.
        peer: PeerId,
    },
    /// Answer a CREATE: call [`Relay::agree`](crate::Relay::agree) with what the client says of congestion control,
    /// then [`Relay::on_handshake`](crate::Relay::on_handshake).
    HandshakeRequested {
        /// The new circuit.
        circuit: CircuitIndex,
        /// What the client sent.
        handshake: C::Handshake,
    },
    /// Find the relay that a client extends to: call [`Relay::extend`](crate::Relay::extend).
    ExtendRequested {
        /// The circuit.
        circuit: CircuitIndex,
        /// Whom to extend to.
        to: C::LinkSpec,
        /// What the client sent for it.
        handshake: C::Handshake,
    },
    /// Start a handshake as a client: call [`Relay::start_handshake`](crate::Relay::start_handshake).
    HandshakeNeeded {
        /// The circuit.
        circuit: CircuitIndex,
        /// How many hops it has so far.
        hop: usize,
        /// What the handshake is to say of congestion control.
        ask: Negotiation,
    },
    /// Finish a handshake as a client: call [`Relay::finish_handshake`](crate::Relay::finish_handshake).
    HandshakeAnswered {
        /// The circuit.
        circuit: CircuitIndex,
        /// What the relay sent.
        handshake: C::Handshake,
    },
    /// The client's circuit has all its hops.
    CircuitBuilt {
        /// The circuit.
        circuit: CircuitIndex,
    },
    /// The circuit is gone, and its streams with it.
    CircuitClosed {
        /// The circuit; its index may be used again.
        circuit: CircuitIndex,
        /// What a peer did wrong, if that is why.
        violation: Option<Violation>,
    },
    /// As an exit: connect to `target`, then call [`Relay::on_stream_connected`](crate::Relay::on_stream_connected).
    StreamRequested {
        /// The new stream.
        stream: StreamKey,
        /// Where it goes to.
        target: C::Target,
    },
    /// As a client: the stream is open.
    StreamConnected {
        /// The stream.
        stream: StreamKey,
    },
    /// The stream is closed; all it brought was handed to the kernel.
    StreamClosed {
        /// The stream; its key may be used again.
        stream: StreamKey,
    },
    /// A tracked cell reached a station.
    Tracked {
        /// Which cell.
        tag: Tag,
        /// The circuit it belongs to.
        circuit: CircuitIndex,
        /// Which way it travels.
        direction: Direction,
        /// Where it is.
        station: Station,
        /// Since when.
        at: Instant,
    },
}

/// Where in a relay a cell is. The world adds those of its kernel: NIC in, written, NIC out.
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
