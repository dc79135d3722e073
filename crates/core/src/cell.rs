//! What travels.
//!
//! The relay sees a cell's size, circuit, command and tag; what is inside it is the world's
//! affair. The simulator's cell is a descriptor of a few bytes, the live one an encrypted body.

use crate::circuit_policy::PriorityClass;
use crate::error::Violation;
use crate::hop_control::Feedback;
use crate::keys::Direction;
use crate::reason::{DestroyReason, EndReason};
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

/// A circuit's id on one channel. The initiator of the channel sets the top bit of those it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircId(pub NonZeroU32);

/// A stream's id within its circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub NonZeroU16);

/// A node of the network, as the world numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// Names a cell whose way through the six stations is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub NonZeroU32);

/// Commands of cells.
///
/// Source: tor-spec §3. RELAY_EARLY counts as RELAY here; a live cell limits it ([`Cell::admit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The first hop of a circuit, or the next one on behalf of an EXTEND.
    Create,
    /// The answer.
    Created,
    /// A relay message under its layers of encryption.
    Relay,
    /// The circuit is gone.
    Destroy,
    /// A hop's feedback (N23 credit and its like); unknown to C tor.
    Feedback,
    /// The circuit's priority class, said by the client and read by every relay on the way; unknown to C tor.
    Class,
}

/// A relay message, readable at the end it is meant for.
///
/// Source: tor-spec §6.1, §5.3, §7.4; proposal 324 §4.
#[derive(Debug)]
pub enum Message<C: Cell> {
    /// Open a stream to this target.
    Begin(C::Target),
    /// The stream is open.
    Connected(C::Connected),
    /// Bytes of the stream.
    Data(C::Payload),
    /// The stream is closed.
    End(C::End),
    /// On a stream: 50 more cells of it may come. Without a stream: 100 more of the circuit.
    Sendme {
        /// Of the circuit: the digest of the cell that it acknowledges (proposal 289), or none as before Tor 0.4.1.
        proof: Option<C::Digest>,
        /// Of the circuit: how many of the cells that it acknowledges were [marked](Cell::mark) [cell]; unknown to
        /// C tor.
        marked: u8,
    },
    /// On a stream: no more of it may come until an XON (proposal 324 §4).
    Xoff,
    /// On a stream: more may come, at this rate [kB/s, of 1000 B] or at any.
    Xon(Option<NonZeroU32>),
    /// Extend the circuit to this relay.
    Extend(C::LinkSpec, C::Handshake),
    /// It was extended.
    Extended(C::Handshake),
    /// Cut off what is behind this relay.
    Truncate,
    /// It is cut off.
    Truncated(DestroyReason),
    /// Nothing: padding for the circuit, or a command that this version does not know.
    Drop,
}

/// Bytes of a stream.
pub trait Payload: fmt::Debug {
    /// How many [B]; at most [`MAX_PAYLOAD`].
    fn len(&self) -> u16;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The most bytes of a stream that one DATA cell carries [B].
///
/// Source: tor-spec §6.1 (`RELAY_PAYLOAD_SIZE` 498).
pub const MAX_PAYLOAD: u16 = 498;

/// One cell.
///
/// A relay message is [sealed](Cell::seal) for the hop it is meant for (or by the hop it comes
/// from), [wrapped](Cell::wrap) once for each hop nearer to the client, and
/// [peeled](Cell::peel) on the way.
pub trait Cell: Sized + fmt::Debug {
    /// Bytes of a stream.
    type Payload: Payload;
    /// Where a stream goes to.
    type Target: fmt::Debug;
    /// What an exit says of a connection that is there.
    type Connected: fmt::Debug;
    /// The last word of a stream: why it ends, or all that was asked for, as the addresses of a name.
    type End: fmt::Debug + From<EndReason>;
    /// How a relay is named in an EXTEND.
    type LinkSpec: fmt::Debug;
    /// What CREATE, CREATED, EXTEND and EXTENDED carry.
    type Handshake: fmt::Debug;
    /// One hop's keys for one circuit.
    type Layer: fmt::Debug;
    /// What both ends know of one message between them, and who did not get it cannot know.
    type Digest: fmt::Debug + Copy + Eq;

    /// What the cell takes on its channel, without TLS [B].
    fn wire_size(&self) -> u32;
    /// The circuit it belongs to, on the channel it is on.
    fn circ_id(&self) -> CircId;
    /// Moves it to the circuit's id on the next channel.
    fn set_circ_id(&mut self, id: CircId);
    /// What it is.
    fn command(&self) -> Command;
    /// Whether its way is recorded.
    fn tag(&self) -> Option<Tag>;
    /// Notes on a RELAY cell that it met congestion: a bit beside the circuit's id, outside of all layers, which any
    /// node may set and none clears. Unknown to C tor.
    ///
    /// Source: RFC 3168 section 5 (Congestion Experienced).
    fn mark(&mut self);
    /// Whether any node noted so.
    fn is_marked(&self) -> bool;

    /// A CREATE.
    fn create(id: CircId, handshake: Self::Handshake) -> Self;
    /// A CREATED.
    fn created(id: CircId, handshake: Self::Handshake) -> Self;
    /// The handshake of a CREATE or CREATED; `None` if there is none.
    fn into_handshake(self) -> Option<Self::Handshake>;
    /// A DESTROY.
    fn destroy(id: CircId, reason: DestroyReason) -> Self;
    /// A hop's feedback.
    fn feedback(id: CircId, feedback: Feedback) -> Self;
    /// The feedback in it; `None` if there is none.
    fn as_feedback(&self) -> Option<Feedback>;
    /// A cell that announces the circuit's priority class.
    fn class(id: CircId, class: PriorityClass) -> Self;
    /// The class in it; `None` if there is none.
    fn as_class(&self) -> Option<PriorityClass>;
    /// A RELAY cell in the clear.
    fn relay(id: CircId, stream: Option<StreamId>, message: Message<Self>) -> Self;
    /// The relay message in it; `None` if it is malformed.
    fn into_message(self) -> Option<(Option<StreamId>, Message<Self>)>;

    /// Whether a node whose (nearest) layer of the circuit is `layer` takes this RELAY cell, which travels in `direction`;
    /// asked once, before it is peeled or wrapped. On a [`Violation`] the circuit must close. A cell without limits of
    /// its own is always taken.
    ///
    /// Source: tor-spec, "Handling RELAY_EARLY".
    fn admit(&self, _layer: &mut Self::Layer, _direction: Direction) -> Result<(), Violation> {
        Ok(())
    }
    /// Seals a message in the clear with the layer of the hop it is for or from; returns its digest.
    fn seal(&mut self, layer: &mut Self::Layer) -> Self::Digest;
    /// Adds a hop's layer.
    fn wrap(&mut self, layer: &mut Self::Layer);
    /// Removes a hop's layer; returns the message's digest if it is in the clear now.
    fn peel(&mut self, layer: &mut Self::Layer) -> Option<Self::Digest>;
}
