//! Cells and relay messages.
//!
//! The relay sees the size, circuit, command and tag of a cell, but not its content. The simulator's
//! cell is a descriptor of a few bytes; the live cell is an encrypted body.

use crate::circuit_policy::PriorityClass;
use crate::error::Violation;
use crate::hop_control::Feedback;
use crate::keys::Direction;
use crate::reason::{DestroyReason, EndReason};
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

/// A circuit's id on one channel. The side that opened the channel sets the top bit of the ids that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircId(pub NonZeroU32);

/// A stream's id within its circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub NonZeroU16);

/// The driver's number of a node of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// The tag of a cell whose times at the six stations are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub NonZeroU32);

/// Commands of cells.
///
/// Source: tor-spec §3. RELAY_EARLY counts as RELAY here; a live cell limits it ([`Cell::admit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a circuit, or adds a hop on behalf of an EXTEND.
    Create,
    /// Answers a CREATE.
    Created,
    /// A relay message under its layers of encryption.
    Relay,
    /// Closes the circuit.
    Destroy,
    /// Carries feedback of hop control, such as an N23 credit; unknown to C tor.
    Feedback,
    /// Carries the circuit's priority class from the client to every relay; unknown to C tor.
    Class,
}

/// A decrypted relay message.
///
/// Source: tor-spec §6.1, §5.3, §7.4; proposal 324 §4.
#[derive(Debug)]
pub enum Message<C: Cell> {
    /// Opens a stream to this target.
    Begin(C::Target),
    /// The stream is open.
    Connected(C::Connected),
    /// Carries bytes of the stream.
    Data(C::Payload),
    /// Closes the stream.
    End(C::End),
    /// Acknowledges 50 cells of a stream, or 100 cells of the circuit.
    Sendme {
        /// For a circuit: the digest of the acknowledged cell (proposal 289); `None` as before Tor 0.4.1.
        proof: Option<C::Digest>,
        /// For a circuit: how many of the acknowledged cells were [marked](Cell::mark) [cell]; unknown to C tor.
        marked: u8,
    },
    /// Stops the stream until an XON (proposal 324 §4).
    Xoff,
    /// Resumes the stream, at this rate [kB/s, of 1000 B] or at any rate.
    Xon(Option<NonZeroU32>),
    /// Extends the circuit to this relay.
    Extend(C::LinkSpec, C::Handshake),
    /// Answers an EXTEND.
    Extended(C::Handshake),
    /// Cuts off the hops behind this relay.
    Truncate,
    /// Reports that the hops behind the sender are gone.
    Truncated(DestroyReason),
    /// Has no effect: padding of the circuit, or a command that this version does not know.
    Drop,
}

/// Bytes of a stream.
pub trait Payload: fmt::Debug {
    /// The number of bytes [B]; at most [`MAX_PAYLOAD`].
    fn len(&self) -> u16;
    /// Whether the payload is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The maximum payload of one DATA cell [B].
///
/// Source: tor-spec §6.1 (`RELAY_PAYLOAD_SIZE` 498).
pub const MAX_PAYLOAD: u16 = 498;

/// One cell.
///
/// The sender [seals](Cell::seal) a relay message with the layer of the last hop and [wraps](Cell::wrap)
/// it once for each hop nearer to the client. Each hop [peels](Cell::peel) one layer off.
pub trait Cell: Sized + fmt::Debug {
    /// Bytes of a stream.
    type Payload: Payload;
    /// The target of a stream.
    type Target: fmt::Debug;
    /// The content of an exit's CONNECTED.
    type Connected: fmt::Debug;
    /// The content of an END: the reason, or the answer to a request such as a name's addresses.
    type End: fmt::Debug + From<EndReason>;
    /// The name of a relay in an EXTEND.
    type LinkSpec: fmt::Debug;
    /// The content of CREATE, CREATED, EXTEND and EXTENDED.
    type Handshake: fmt::Debug;
    /// The keys of one hop for one circuit.
    type Layer: fmt::Debug;
    /// A digest of one message. Only the two ends of the message can know it.
    type Digest: fmt::Debug + Copy + Eq;

    /// The cell's size on its channel, without TLS [B].
    fn wire_size(&self) -> u32;
    /// The cell's circuit on its present channel.
    fn circ_id(&self) -> CircId;
    /// Changes the circuit id for the next channel.
    fn set_circ_id(&mut self, id: CircId);
    /// The cell's command.
    fn command(&self) -> Command;
    /// The tag, if the cell's times are recorded.
    fn tag(&self) -> Option<Tag>;
    /// Marks a RELAY cell that met congestion. The mark is a bit beside the circuit id, outside of all
    /// layers. Any node may set it; no node clears it. Unknown to C tor.
    ///
    /// Source: RFC 3168 section 5 (Congestion Experienced).
    fn mark(&mut self);
    /// Whether a node has marked the cell.
    fn is_marked(&self) -> bool;

    /// Makes a CREATE.
    fn create(id: CircId, handshake: Self::Handshake) -> Self;
    /// Makes a CREATED.
    fn created(id: CircId, handshake: Self::Handshake) -> Self;
    /// The handshake of a CREATE or CREATED; `None` if the cell has none.
    fn into_handshake(self) -> Option<Self::Handshake>;
    /// Makes a DESTROY.
    fn destroy(id: CircId, reason: DestroyReason) -> Self;
    /// Makes a cell with feedback of hop control.
    fn feedback(id: CircId, feedback: Feedback) -> Self;
    /// The feedback in this cell; `None` if it has none.
    fn as_feedback(&self) -> Option<Feedback>;
    /// Makes a cell that announces the circuit's priority class.
    fn class(id: CircId, class: PriorityClass) -> Self;
    /// The priority class in this cell; `None` if it has none.
    fn as_class(&self) -> Option<PriorityClass>;
    /// Makes an unencrypted RELAY cell.
    fn relay(id: CircId, stream: Option<StreamId>, message: Message<Self>) -> Self;
    /// The relay message of an unencrypted cell; `None` if it is malformed.
    fn into_message(self) -> Option<(Option<StreamId>, Message<Self>)>;

    /// Whether this node accepts a RELAY cell that travels in `direction`. `layer` is the node's layer
    /// of the circuit, or the nearest one. The relay calls this once, before it peels or wraps the cell.
    /// On a [`Violation`] the circuit must close. By default every cell is accepted.
    ///
    /// Source: tor-spec, "Handling RELAY_EARLY".
    fn admit(&self, _layer: &mut Self::Layer, _direction: Direction) -> Result<(), Violation> {
        Ok(())
    }
    /// Encrypts an unencrypted message with the layer of its hop; returns its digest.
    fn seal(&mut self, layer: &mut Self::Layer) -> Self::Digest;
    /// Adds a hop's layer.
    fn wrap(&mut self, layer: &mut Self::Layer);
    /// Removes a hop's layer; returns the digest if the message is unencrypted now.
    fn peel(&mut self, layer: &mut Self::Layer) -> Option<Self::Digest>;
}
