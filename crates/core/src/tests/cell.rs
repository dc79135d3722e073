//! A cell for tests. Its onion layers detect lost, repeated and reordered cells.

use crate::cell::{Cell, CircId, Command, Message, Payload, PeerId, StreamId, Tag};
use crate::circuit_policy::PriorityClass;
use crate::edge_control::Negotiation;
use crate::error::Violation;
use crate::hop_control::Feedback;
use crate::keys::Direction;
use crate::reason::{DestroyReason, EndReason};
use std::num::NonZeroU16;

/// A cell without bytes. It has a list of layers instead of a ciphertext, and a byte range of a transfer instead of a
/// payload.
#[derive(Debug)]
pub(super) struct TestCell {
    id: CircId,
    marked: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// `None` is a malformed handshake.
    Create(Option<TestHandshake>),
    Created(Option<TestHandshake>),
    Destroy,
    /// `None` is a malformed cell.
    Feedback(Option<Feedback>),
    /// `None` is a malformed cell.
    Class(Option<PriorityClass>),
    /// The layers, innermost first, and the message. `None` is a malformed message.
    Relay(Vec<OnionLayer>, Option<StreamId>, Option<Box<Message<TestCell>>>),
}

/// One onion layer: its key and its sequence number. As with a stream cipher, all cells after a
/// lost, repeated or reordered cell are unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnionLayer(u32, u64);

/// Datagrams may carry a cell more than once. The layers detect a cell that a node processes twice.
impl Clone for TestCell {
    fn clone(&self) -> Self {
        let body = match &self.body {
            Body::Create(handshake) => Body::Create(*handshake),
            Body::Created(handshake) => Body::Created(*handshake),
            Body::Destroy => Body::Destroy,
            Body::Feedback(feedback) => Body::Feedback(*feedback),
            Body::Class(class) => Body::Class(*class),
            Body::Relay(layers, stream, message) => {
                let message = message.as_ref().map(|message| Box::new(clone_message(message)));
                Body::Relay(layers.clone(), *stream, message)
            }
        };
        TestCell { id: self.id, marked: self.marked, body }
    }
}

fn clone_message(message: &Message<TestCell>) -> Message<TestCell> {
    match message {
        Message::Begin(target) => Message::Begin(*target),
        Message::Connected(()) => Message::Connected(()),
        Message::Data(piece) => Message::Data(*piece),
        Message::End(reason) => Message::End(*reason),
        Message::Sendme { proof, marked } => Message::Sendme { proof: *proof, marked: *marked },
        Message::Xoff => Message::Xoff,
        Message::Xon(rate) => Message::Xon(*rate),
        Message::Extend(peer, handshake) => Message::Extend(*peer, *handshake),
        Message::Extended(handshake) => Message::Extended(*handshake),
        Message::Truncate => Message::Truncate,
        Message::Truncated(reason) => Message::Truncated(*reason),
        Message::Link(link) => Message::Link(link.clone()),
        Message::Linked(link) => Message::Linked(link.clone()),
        Message::LinkedAck => Message::LinkedAck,
        Message::Switch(relative) => Message::Switch(*relative),
        Message::OnionService(number) => Message::OnionService(*number),
        Message::Drop => Message::Drop,
    }
}

const GARBLED: OnionLayer = OnionLayer(u32::MAX, 0);
/// The layer of a cell that every node rejects.
const FORBIDDEN: OnionLayer = OnionLayer(u32::MAX, 1);

/// The key of one hop of one circuit, at one of its ends.
#[derive(Debug)]
pub(super) struct Layer {
    key: u32,
    added: u64,
    removed: u64,
}

impl Layer {
    pub(super) fn new(key: u32) -> Self {
        Layer { key, added: 0, removed: 0 }
    }

    fn add(&mut self) -> OnionLayer {
        self.added += 1;
        OnionLayer(self.key, self.added)
    }
}

/// A handshake: the key, and the negotiation of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TestHandshake {
    pub(super) key: u32,
    pub(super) congestion: Negotiation,
}

impl TestHandshake {
    /// A handshake that does not negotiate congestion control.
    pub(super) fn new(key: u32) -> Self {
        TestHandshake { key, congestion: Negotiation::Nothing }
    }
}

/// `len` bytes at `offset` of one direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) transfer: usize,
    pub(super) download: bool,
    pub(super) offset: u64,
    pub(super) len: u16,
}

impl Payload for Piece {
    fn len(&self) -> u16 {
        self.len
    }
}

/// Cells that a hostile peer makes.
impl TestCell {
    /// A cell of this command with a malformed body.
    pub(super) fn malformed(id: CircId, command: Command) -> Self {
        let body = match command {
            Command::Create => Body::Create(None),
            Command::Created => Body::Created(None),
            Command::Relay => Body::Relay(vec![GARBLED], None, None),
            Command::Destroy => Body::Destroy,
            Command::Feedback => Body::Feedback(None),
            Command::Class => Body::Class(None),
        };
        TestCell { id, marked: false, body }
    }

    /// A RELAY cell that every node rejects.
    pub(super) fn forbidden(id: CircId) -> Self {
        TestCell { id, marked: false, body: Body::Relay(vec![FORBIDDEN], None, None) }
    }

    /// A DATA cell of an unknown stream for the last hop of `layers`. Each hop has its key and the
    /// sequence number of its next cell, nearest hop first.
    pub(super) fn unwanted(id: CircId, layers: &[(u32, u64)]) -> Self {
        let layers = layers.iter().rev().map(|(key, place)| OnionLayer(*key, *place)).collect();
        let message = Message::Data(Piece { transfer: 0, download: false, offset: 0, len: 1 });
        let stream = Some(StreamId(NonZeroU16::MAX));
        TestCell { id, marked: false, body: Body::Relay(layers, stream, Some(Box::new(message))) }
    }

    /// Replaces the message below all layers by another message, or by garbage.
    pub(super) fn replace(&mut self, stream: Option<StreamId>, other: Option<Message<TestCell>>) {
        if let Body::Relay(_, id, message) = &mut self.body {
            (*id, *message) = (stream, other.map(Box::new));
        }
    }

    /// The message of the cell, even below layers.
    pub(super) fn message(&self) -> Option<(Option<StreamId>, &Message<TestCell>)> {
        let Body::Relay(_, stream, Some(message)) = &self.body else { return None };
        Some((*stream, message))
    }
}

impl Cell for TestCell {
    type Payload = Piece;
    /// The index of the transfer that the stream carries.
    type Target = usize;
    type Connected = ();
    type End = EndReason;
    type LinkSpec = PeerId;
    type Handshake = TestHandshake;
    type Layer = Layer;
    /// Any number.
    type OnionService = u32;
    /// The layer that only the end of the circuit adds.
    type Digest = OnionLayer;

    fn wire_size(&self) -> u32 {
        512
    }
    fn circ_id(&self) -> CircId {
        self.id
    }
    fn set_circ_id(&mut self, id: CircId) {
        self.id = id;
    }
    fn command(&self) -> Command {
        match self.body {
            Body::Create(_) => Command::Create,
            Body::Created(_) => Command::Created,
            Body::Destroy => Command::Destroy,
            Body::Feedback(_) => Command::Feedback,
            Body::Class(_) => Command::Class,
            Body::Relay(..) => Command::Relay,
        }
    }
    fn tag(&self) -> Option<Tag> {
        None
    }
    fn mark(&mut self) {
        assert!(matches!(self.body, Body::Relay(..)), "only a RELAY cell can be marked");
        self.marked = true;
    }
    fn is_marked(&self) -> bool {
        self.marked
    }
    fn create(id: CircId, handshake: TestHandshake) -> Self {
        TestCell { id, marked: false, body: Body::Create(Some(handshake)) }
    }
    fn created(id: CircId, handshake: TestHandshake) -> Self {
        TestCell { id, marked: false, body: Body::Created(Some(handshake)) }
    }
    fn into_handshake(self) -> Option<TestHandshake> {
        match self.body {
            Body::Create(handshake) | Body::Created(handshake) => handshake,
            _ => None,
        }
    }
    fn destroy(id: CircId, _reason: DestroyReason) -> Self {
        TestCell { id, marked: false, body: Body::Destroy }
    }
    fn feedback(id: CircId, feedback: Feedback) -> Self {
        TestCell { id, marked: false, body: Body::Feedback(Some(feedback)) }
    }
    fn as_feedback(&self) -> Option<Feedback> {
        match self.body {
            Body::Feedback(feedback) => feedback,
            _ => None,
        }
    }
    fn class(id: CircId, class: PriorityClass) -> Self {
        TestCell { id, marked: false, body: Body::Class(Some(class)) }
    }
    fn as_class(&self) -> Option<PriorityClass> {
        if let Body::Class(class) = self.body { class } else { None }
    }
    fn relay(id: CircId, stream: Option<StreamId>, message: Message<Self>) -> Self {
        TestCell { id, marked: false, body: Body::Relay(Vec::new(), stream, Some(Box::new(message))) }
    }
    fn into_message(self) -> Option<(Option<StreamId>, Message<Self>)> {
        let Body::Relay(layers, stream, message) = self.body else {
            panic!("a relay decodes only RELAY cells")
        };
        assert_eq!(layers, [], "a relay decodes only cells without layers");
        Some((stream, *message?))
    }
    fn admit(&self, _layer: &mut Layer, _direction: Direction) -> Result<(), Violation> {
        match &self.body {
            Body::Relay(layers, ..) if layers.last() == Some(&FORBIDDEN) => {
                Err(Violation::UnexpectedEarlyCell)
            }
            _ => Ok(()),
        }
    }
    fn seal(&mut self, layer: &mut Layer) -> OnionLayer {
        let Body::Relay(layers, ..) = &mut self.body else { panic!("only a RELAY cell can be sealed") };
        assert_eq!(*layers, [], "a sealed cell has no layers before");
        let layer_added = layer.add();
        layers.push(layer_added);
        layer_added
    }
    fn wrap(&mut self, layer: &mut Layer) {
        let Body::Relay(layers, ..) = &mut self.body else { panic!("only a RELAY cell can be wrapped") };
        assert_ne!(*layers, [], "a wrapped cell was sealed before");
        layers.push(layer.add());
    }
    fn peel(&mut self, layer: &mut Layer) -> Option<OnionLayer> {
        let Body::Relay(layers, ..) = &mut self.body else { panic!("only a RELAY cell can be peeled") };
        layer.removed += 1;
        let layer_added = OnionLayer(layer.key, layer.removed);
        if layers.last() == Some(&layer_added) {
            layers.pop();
        } else {
            layers.push(GARBLED);
        }
        layers.is_empty().then_some(layer_added)
    }
}
