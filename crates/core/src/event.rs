//! Events of a relay for its driver.

use crate::cell::{Cell, PeerId, Tag};
use crate::edge_control::Negotiation;
use crate::error::Violation;
use crate::keys::{ChannelKey, CircuitIndex, Direction, StreamKey};
use penstock_units::Instant;

/// A request or report from a relay to the driver. The driver polls events until none is left.
#[derive(Debug)]
#[expect(missing_docs, reason = "most fields need no words")]
pub enum Event<C: Cell> {
    /// Connect to `peer`, then call [`Relay::on_channel_open`](crate::Relay::on_channel_open).
    Connect { channel: ChannelKey, peer: PeerId },
    /// Answer a CREATE: call [`Relay::agree`](crate::Relay::agree) with the client's congestion control request, then
    /// [`Relay::on_handshake`](crate::Relay::on_handshake).
    HandshakeRequested { circuit: CircuitIndex, handshake: C::Handshake },
    /// Find the relay that a client's EXTEND identifies, then call [`Relay::extend`](crate::Relay::extend).
    ExtendRequested {
        circuit: CircuitIndex,
        /// The relay to which the client extends the circuit.
        to: C::LinkSpec,
        /// The client's handshake for the new relay.
        handshake: C::Handshake,
    },
    /// A message of an onion service's protocol arrived on a circuit that ends here. Clients may ignore it. A relay answers
    /// with [`Relay::send_onion_service`](crate::Relay::send_onion_service),
    /// [`Relay::join_circuits`](crate::Relay::join_circuits) or
    /// [`Relay::close_circuit`](crate::Relay::close_circuit).
    OnionService { circuit: CircuitIndex, message: C::OnionService },
    /// Start a handshake as a client: call [`Relay::start_handshake`](crate::Relay::start_handshake).
    HandshakeNeeded {
        circuit: CircuitIndex,
        hop: usize,
        /// The congestion control request that the handshake must contain.
        ask: Negotiation,
    },
    /// Finish a handshake as a client: call [`Relay::finish_handshake`](crate::Relay::finish_handshake).
    HandshakeAnswered { circuit: CircuitIndex, handshake: C::Handshake },
    /// All hops of this client's circuit are built.
    CircuitBuilt { circuit: CircuitIndex },
    /// Clients only: all legs of a set are linked. The client may open streams on this circuit or on another leg.
    CircuitsLinked { circuit: CircuitIndex },
    /// The circuit and its streams are closed. If it was a leg of a set, the set's other legs may carry on.
    CircuitClosed {
        /// The circuit. Another circuit may reuse its index.
        circuit: CircuitIndex,
        /// The protocol violation that closed the circuit; `None` if the circuit closed for another reason.
        violation: Option<Violation>,
    },
    /// Exits only: connect to `target`, then call [`Relay::on_stream_connected`](crate::Relay::on_stream_connected).
    StreamRequested { stream: StreamKey, target: C::Target },
    /// Clients only: the stream is open.
    StreamConnected { stream: StreamKey },
    /// Clients only: the exit has ended the stream. [`StreamClosed`](Event::StreamClosed) follows.
    StreamEnded {
        /// The stream. Another stream may reuse its key.
        stream: StreamKey,
        /// The content of the exit's message.
        end: C::End,
    },
    /// The kernel has accepted all data of the stream, and the stream is closed.
    StreamClosed {
        /// The stream. Another stream may reuse its key.
        stream: StreamKey,
    },
    /// A cell with a tag reached a station of this relay.
    Tracked {
        tag: Tag,
        circuit: CircuitIndex,
        direction: Direction,
        station: Station,
        /// When the cell reached the station.
        at: Instant,
    },
}

/// A place in a relay that a cell passes. The driver adds the stations of the kernel: NIC in, written, NIC out.
///
/// Source: DefenestraTor figure 1; KIST figure 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Station {
    /// The relay has parsed and decrypted the cell.
    Parsed,
    /// The cell has joined the circuit's queue.
    Queued,
    /// The cell has moved to the channel's output buffer.
    Outbuf,
}
