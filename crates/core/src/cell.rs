//! Cells and relay messages.
//!
//! The relay core sees a cell's size, circuit id, command and tag, but not the content. A simulated cell is a
//! descriptor of a few bytes; a live cell has an encrypted body.

use crate::circuit_policy::PriorityClass;
use crate::conflux::Link;
use crate::error::Violation;
use crate::hop_control::Feedback;
use crate::keys::Direction;
use crate::reason::{DestroyReason, EndReason};
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

/// A circuit's id on one channel. The side that opened the channel sets the top bit of the ids that it allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircId(pub NonZeroU32);

/// The id of a stream within a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub NonZeroU16);

/// The number that the driver gives to a node of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// The number of a cell whose times are recorded on its way through relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub NonZeroU32);

/// Cell commands.
///
/// Source: tor-spec §3. RELAY_EARLY is represented as RELAY. [`Cell::admit`] of a live cell limits RELAY_EARLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Creates the first hop of a circuit, or a further hop after an EXTEND.
    Create,
    /// Answers a CREATE.
    Created,
    /// Carries an encrypted relay message.
    Relay,
    /// Closes the circuit.
    Destroy,
    /// Carries hop-control feedback, for example an N23 credit. C tor does not know this command.
    Feedback,
    /// Carries the circuit's priority class from the client to every relay. C tor does not know this command.
    Class,
}

/// A decrypted relay message. Source: tor-spec §6.1, §5.3, §7.4; proposal 324 §4.
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
    /// A stream SENDME acknowledges 50 cells of its stream; a circuit SENDME acknowledges 100 cells of its circuit.
    Sendme {
        /// Circuit SENDMEs only: the digest of the acknowledged cell (proposal 289); `None` as in C tor before 0.4.1.
        proof: Option<C::Digest>,
        /// Circuit SENDMEs only: the number of [marked](Cell::mark) cells among the acknowledged cells [cell].
        marked: u8,
    },
    /// Stops the stream until an XON (proposal 324 §4).
    Xoff,
    /// Resumes the stream. The sender may send at this rate [kB/s, 1 kB = 1000 B]; `None` sets no limit.
    Xon(Option<NonZeroU32>),
    /// Extends the circuit to this relay.
    Extend(C::LinkSpec, C::Handshake),
    /// Answers an EXTEND.
    Extended(C::Handshake),
    /// Removes the hops behind the receiving relay from the circuit.
    Truncate,
    /// Reports that the circuit has lost the hops behind the sender.
    Truncated(DestroyReason),
    /// Asks the exit to link this circuit (proposal 329).
    Link(Box<Link>),
    /// Answers a LINK.
    Linked(Box<Link>),
    /// Confirms a LINKED.
    LinkedAck,
    /// The next cell of the linked streams on this circuit skips this many numbers [cell].
    Switch(u32),
    /// A message of an onion service's protocol, between a relay and a client or service whose circuit ends there.
    OnionService(C::OnionService),
    /// Circuit padding, or a command that this version does not know. The receiver ignores both.
    Drop,
}

impl<C: Cell> Message<C> {
    /// Whether the messages of linked circuits are numbered, so that they arrive in order on any leg.
    ///
    /// Source: C tor `conflux_should_multiplex()`.
    pub fn is_multiplexed(&self) -> bool {
        match self {
            Message::Begin(target) => C::is_multiplexed(target),
            Message::Connected(_) | Message::Data(_) | Message::End(_) | Message::Xoff | Message::Xon(_) => {
                true
            }
            Message::Sendme { .. }
            | Message::Extend(..)
            | Message::Extended(_)
            | Message::Truncate
            | Message::Truncated(_)
            | Message::Link(_)
            | Message::Linked(_)
            | Message::LinkedAck
            | Message::Switch(_)
            | Message::OnionService(_)
            | Message::Drop => false,
        }
    }
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

/// The maximum payload of one DATA cell [B]. Source: tor-spec §6.1 (`RELAY_PAYLOAD_SIZE` 498).
pub const MAX_PAYLOAD: u16 = 498;

/// One cell.
///
/// The sender encrypts a relay message with the layer of the destination hop ([`seal`](Cell::seal)). Then the sender
/// adds the layer of each nearer hop ([`wrap`](Cell::wrap)). Each hop removes one layer ([`peel`](Cell::peel)).
pub trait Cell: Sized + fmt::Debug {
    /// Bytes of a stream.
    type Payload: Payload;
    /// The target of a stream.
    type Target: fmt::Debug;
    /// The content of an exit's CONNECTED.
    type Connected: fmt::Debug;
    /// The content of an END: a reason, or the answer to a request (for example a name's addresses).
    type End: fmt::Debug + From<EndReason>;
    /// Identifies the new relay in an EXTEND.
    type LinkSpec: fmt::Debug;
    /// The content of CREATE, CREATED, EXTEND and EXTENDED.
    type Handshake: fmt::Debug;
    /// A message of an onion service's protocol (rend-spec-v3).
    type OnionService: fmt::Debug;
    /// The keys of one hop for one circuit.
    type Layer: fmt::Debug;
    /// The digest of one message. Only the sender and the receiver of the message can compute it.
    type Digest: fmt::Debug + Copy + Eq;

    /// The cell's size on the channel, without TLS [B].
    fn wire_size(&self) -> u32;
    /// The circuit id of the cell on the current channel.
    fn circ_id(&self) -> CircId;
    /// Changes the circuit id for the next channel.
    fn set_circ_id(&mut self, id: CircId);
    /// The cell's command.
    fn command(&self) -> Command;
    /// The cell's tag; `None` if the cell's times are not recorded.
    fn tag(&self) -> Option<Tag>;
    /// Marks a RELAY cell that met congestion. The mark is one bit beside the circuit id and is not encrypted. Any node
    /// may set the mark, and no node clears it. C tor does not know this bit.
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
    /// Makes a cell with hop-control feedback.
    fn feedback(id: CircId, feedback: Feedback) -> Self;
    /// The feedback in this cell; `None` if it has none.
    fn as_feedback(&self) -> Option<Feedback>;
    /// Makes a cell that announces the circuit's priority class.
    fn class(id: CircId, class: PriorityClass) -> Self;
    /// The priority class in this cell; `None` if it has none.
    fn as_class(&self) -> Option<PriorityClass>;
    /// Whether a BEGIN to this target is [multiplexed](Message::is_multiplexed). The default multiplexes all.
    fn is_multiplexed(_target: &Self::Target) -> bool {
        true
    }
    /// Makes an unencrypted RELAY cell.
    fn relay(id: CircId, stream: Option<StreamId>, message: Message<Self>) -> Self;
    /// The relay message of an unencrypted cell; `None` if it is malformed.
    fn into_message(self) -> Option<(Option<StreamId>, Message<Self>)>;

    /// Checks whether this node accepts a RELAY cell that travels in `direction`; an error closes the circuit. The
    /// relay calls this once, before it peels or wraps the cell. `layer` is the node's layer of the circuit; at the
    /// client it is the nearest hop's layer. The default accepts every cell.
    ///
    /// Source: tor-spec, "Handling RELAY_EARLY".
    fn admit(&self, _layer: &mut Self::Layer, _direction: Direction) -> Result<(), Violation> {
        Ok(())
    }
    /// Encrypts a plaintext message with the layer of its destination hop. Returns the digest of the message.
    fn seal(&mut self, layer: &mut Self::Layer) -> Self::Digest;
    /// Adds the onion layer of one hop.
    fn wrap(&mut self, layer: &mut Self::Layer);
    /// Removes one hop's layer. Returns the digest if the message is plaintext afterwards.
    fn peel(&mut self, layer: &mut Self::Layer) -> Option<Self::Digest>;
    /// The rendezvous point moves the cell to the joined circuit, towards that circuit's client. A RELAY_EARLY becomes a
    /// RELAY. The default changes nothing.
    ///
    /// Source: C tor `circuit_receive_relay_cell()`.
    fn cross(&mut self) {}
}
