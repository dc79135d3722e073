//! A cell that notices every mistake on its way.

use crate::cell::{Cell, CircId, Command, Message, Payload, PeerId, StreamId, Tag};
use crate::circuit_policy::PriorityClass;
use crate::edge_control::Negotiation;
use crate::error::Violation;
use crate::hop_control::Feedback;
use crate::keys::Direction;
use crate::reason::{DestroyReason, EndReason};
use std::num::NonZeroU16;

/// A cell without bytes: its layers are counted, its payload is a place in a transfer.
#[derive(Debug)]
pub(super) struct TestCell {
    id: CircId,
    marked: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// `None` is a malformed handshake.
    Create(Option<Hello>),
    Created(Option<Hello>),
    Destroy,
    /// `None` is malformed.
    Feedback(Option<Feedback>),
    /// `None` is malformed.
    Class(Option<PriorityClass>),
    /// Layers, innermost first, and the message; `None` is a malformed message.
    Relay(Vec<Skin>, Option<StreamId>, Option<Box<Message<TestCell>>>),
}

/// One layer: its key and its number. As with a stream cipher, all cells after a lost, repeated or
/// overtaken one are unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skin(u32, u64);

/// Datagrams may carry a cell more than once. The layers detect a cell that is taken twice.
impl Clone for TestCell {
    fn clone(&self) -> Self {
        let body = match &self.body {
            Body::Create(hello) => Body::Create(*hello),
            Body::Created(hello) => Body::Created(*hello),
            Body::Destroy => Body::Destroy,
            Body::Feedback(feedback) => Body::Feedback(*feedback),
            Body::Class(class) => Body::Class(*class),
            Body::Relay(skins, stream, message) => {
                let message = message.as_ref().map(|message| Box::new(repeat(message)));
                Body::Relay(skins.clone(), *stream, message)
            }
        };
        TestCell { id: self.id, marked: self.marked, body }
    }
}

fn repeat(message: &Message<TestCell>) -> Message<TestCell> {
    match message {
        Message::Begin(target) => Message::Begin(*target),
        Message::Connected(()) => Message::Connected(()),
        Message::Data(piece) => Message::Data(*piece),
        Message::End(reason) => Message::End(*reason),
        Message::Sendme { proof, marked } => Message::Sendme { proof: *proof, marked: *marked },
        Message::Xoff => Message::Xoff,
        Message::Xon(rate) => Message::Xon(*rate),
        Message::Extend(peer, hello) => Message::Extend(*peer, *hello),
        Message::Extended(hello) => Message::Extended(*hello),
        Message::Truncate => Message::Truncate,
        Message::Truncated(reason) => Message::Truncated(*reason),
        Message::Drop => Message::Drop,
    }
}

const GARBLED: Skin = Skin(u32::MAX, 0);
/// The layer of a cell that no node takes.
const FORBIDDEN: Skin = Skin(u32::MAX, 1);

/// One hop's key for one circuit, at one of its ends.
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

    fn add(&mut self) -> Skin {
        self.added += 1;
        Skin(self.key, self.added)
    }
}

/// A handshake: the key itself, and the part about congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) key: u32,
    pub(super) congestion: Negotiation,
}

impl Hello {
    /// One that says nothing of it.
    pub(super) fn new(key: u32) -> Self {
        Hello { key, congestion: Negotiation::Nothing }
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

/// Cells as a hostile peer makes them.
impl TestCell {
    /// A cell of this command with nonsense in it.
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

    /// A RELAY cell that is not to be taken.
    pub(super) fn forbidden(id: CircId) -> Self {
        TestCell { id, marked: false, body: Body::Relay(vec![FORBIDDEN], None, None) }
    }

    /// DATA of an unknown stream for the last hop with these keys, nearest first. Each key has the
    /// number of its next cell.
    pub(super) fn unwanted(id: CircId, layers: &[(u32, u64)]) -> Self {
        let skins = layers.iter().rev().map(|(key, place)| Skin(*key, *place)).collect();
        let message = Message::Data(Piece { transfer: 0, download: false, offset: 0, len: 1 });
        let stream = Some(StreamId(NonZeroU16::MAX));
        TestCell { id, marked: false, body: Body::Relay(skins, stream, Some(Box::new(message))) }
    }

    /// Replaces the message, under any layers, by another one or by garbage.
    pub(super) fn replace(&mut self, stream: Option<StreamId>, other: Option<Message<TestCell>>) {
        if let Body::Relay(_, id, message) = &mut self.body {
            (*id, *message) = (stream, other.map(Box::new));
        }
    }

    /// The message in it, even if it is encrypted.
    pub(super) fn message(&self) -> Option<(Option<StreamId>, &Message<TestCell>)> {
        let Body::Relay(_, stream, Some(message)) = &self.body else { return None };
        Some((*stream, message))
    }
}

impl Cell for TestCell {
    type Payload = Piece;
    /// The transfer that the server is to serve.
    type Target = usize;
    type Connected = ();
    type End = EndReason;
    type LinkSpec = PeerId;
    type Handshake = Hello;
    type Layer = Layer;
    /// The layer that the end alone adds.
    type Digest = Skin;

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
        assert!(matches!(self.body, Body::Relay(..)), "only RELAY cells are marked");
        self.marked = true;
    }
    fn is_marked(&self) -> bool {
        self.marked
    }
    fn create(id: CircId, handshake: Hello) -> Self {
        TestCell { id, marked: false, body: Body::Create(Some(handshake)) }
    }
    fn created(id: CircId, handshake: Hello) -> Self {
        TestCell { id, marked: false, body: Body::Created(Some(handshake)) }
    }
    fn into_handshake(self) -> Option<Hello> {
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
        let Body::Relay(skins, stream, message) = self.body else { panic!("a relay reads only RELAY cells") };
        assert_eq!(skins, [], "a relay reads only what is in the clear");
        Some((stream, *message?))
    }
    fn admit(&self, _layer: &mut Layer, _direction: Direction) -> Result<(), Violation> {
        match &self.body {
            Body::Relay(skins, ..) if skins.last() == Some(&FORBIDDEN) => Err(Violation::UnexpectedEarlyCell),
            _ => Ok(()),
        }
    }
    fn seal(&mut self, layer: &mut Layer) -> Skin {
        let Body::Relay(skins, ..) = &mut self.body else { panic!("only RELAY cells are sealed") };
        assert_eq!(*skins, [], "only what is in the clear is sealed");
        let skin = layer.add();
        skins.push(skin);
        skin
    }
    fn wrap(&mut self, layer: &mut Layer) {
        let Body::Relay(skins, ..) = &mut self.body else { panic!("only RELAY cells are wrapped") };
        assert_ne!(*skins, [], "only what is sealed is wrapped");
        skins.push(layer.add());
    }
    fn peel(&mut self, layer: &mut Layer) -> Option<Skin> {
        let Body::Relay(skins, ..) = &mut self.body else { panic!("only RELAY cells are peeled") };
        layer.removed += 1;
        let skin = Skin(layer.key, layer.removed);
        if skins.last() == Some(&skin) {
            skins.pop();
        } else {
            skins.push(GARBLED);
        }
        skins.is_empty().then_some(skin)
    }
}
