//! Relay messages between the ends of a circuit.
//!
//! Source: tor-spec, "Relay cells" (format V0); proposal 289 (SENDME), proposal 324 §4 (XON and XOFF), proposal 329
//! (linked circuits), rend-spec-v3 (onion services).

use super::BODY_LEN;
use super::answers::{self, Connected, End, Resolved, StreamEnd};
use super::handshake::Handshake;
use super::linkspec::LinkSpec;
use super::onion_service::{OnionService, OnionServiceCommand};
use super::target::Target;
use crate::crypto::tor1::Tag;
use crate::wire::{Malformed, Reader};
use penstock_core::cell::{MAX_PAYLOAD, Payload};
use penstock_core::conflux::{DesiredUx, Link, Nonce};
use penstock_core::{DestroyReason, Message, StreamId};
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

/// Length of a message header: command, recognized, stream, digest, length [B].
const HEADER: usize = BODY_LEN - MAX_PAYLOAD as usize;

mod command {
    pub(super) const BEGIN: u8 = 1;
    pub(super) const DATA: u8 = 2;
    pub(super) const END: u8 = 3;
    pub(super) const CONNECTED: u8 = 4;
    pub(super) const SENDME: u8 = 5;
    pub(super) const EXTEND: u8 = 6;
    pub(super) const TRUNCATE: u8 = 8;
    pub(super) const TRUNCATED: u8 = 9;
    pub(super) const DROP: u8 = 10;
    pub(super) const RESOLVE: u8 = 11;
    pub(super) const RESOLVED: u8 = 12;
    pub(super) const BEGIN_DIR: u8 = 13;
    pub(super) const EXTEND2: u8 = 14;
    pub(super) const EXTENDED2: u8 = 15;
    pub(super) const CONFLUX_LINK: u8 = 19;
    pub(super) const CONFLUX_LINKED: u8 = 20;
    pub(super) const CONFLUX_LINKED_ACK: u8 = 21;
    pub(super) const CONFLUX_SWITCH: u8 = 22;
    pub(super) const XOFF: u8 = 43;
    pub(super) const XON: u8 = 44;
}

/// The stream data in one DATA cell.
#[derive(Clone)]
pub struct LivePayload {
    len: u16,
    /// Tag that the cell with this data will have.
    tag: Option<penstock_core::Tag>,
    bytes: [u8; MAX_PAYLOAD as usize],
}

impl LivePayload {
    /// A payload with a copy of `bytes`; `None` if they are longer than [`MAX_PAYLOAD`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        LivePayload::read_with(|room| {
            let len = bytes.len();
            room.get_mut(..len)?.copy_from_slice(bytes);
            Some(len)
        })
    }

    /// A payload with the data that `read` writes into a buffer. `read` returns the length [B], or `None`.
    ///
    /// # Panics
    ///
    /// If the length is larger than the buffer.
    pub fn read_with(read: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Self> {
        let mut bytes = [0; MAX_PAYLOAD as usize];
        let len = read(&mut bytes)?;
        assert!(len <= bytes.len(), "a reader fills at most the room that it is given");
        Some(LivePayload { len: len as u16, tag: None, bytes })
    }

    /// Marks the cell for tracing through the node.
    pub fn set_tag(&mut self, tag: Option<penstock_core::Tag>) {
        self.tag = tag;
    }

    pub(super) fn tag(&self) -> Option<penstock_core::Tag> {
        self.tag
    }

    /// The stream data.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

impl Payload for LivePayload {
    fn len(&self) -> u16 {
        self.len
    }
}

impl PartialEq for LivePayload {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

/// Logs show only the length of the data.
impl fmt::Debug for LivePayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LivePayload({} B)", self.len)
    }
}

/// A relay message with all fields of the wire format.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all that is said is DATA, and a box for each would cost more"
)]
pub enum RelayMessage {
    /// BEGIN, BEGIN_DIR or RESOLVE.
    Begin(Target),
    /// DATA.
    Data(LivePayload),
    /// END.
    End(End),
    /// CONNECTED.
    Connected(Connected),
    /// SENDME. On a circuit, version 1 has the acknowledged cell's tag. Version 0 and SENDMEs of streams have none.
    Sendme(Option<Tag>),
    /// EXTEND2.
    Extend(LinkSpec, Handshake),
    /// EXTENDED2.
    Extended(Handshake),
    /// TRUNCATE: a request to close the circuit after this relay.
    Truncate,
    /// TRUNCATED: the circuit after this relay is closed.
    Truncated(DestroyReason),
    /// RESOLVED: answers, each with the time for which a client may cache it [s].
    Resolved(Vec<(Resolved, u32)>),
    /// XOFF.
    Xoff,
    /// XON, with a rate limit [kB/s, with 1 kB = 1000 B] or without.
    Xon(Option<NonZeroU32>),
    /// CONFLUX_LINK.
    Link(Box<Link>),
    /// CONFLUX_LINKED.
    Linked(Box<Link>),
    /// CONFLUX_LINKED_ACK.
    LinkedAck,
    /// CONFLUX_SWITCH: how many numbers the circuit skips [cell].
    Switch(u32),
    /// A message of an onion service's protocol.
    OnionService(OnionService),
    /// DROP: padding on a circuit.
    Drop,
    /// A command that Penstock does not support (padding machines).
    Unknown(u8),
}

/// Parses an unencrypted body. Returns the stream id and the message.
pub fn read(body: &[u8; BODY_LEN]) -> Result<(Option<StreamId>, RelayMessage), Malformed> {
    let mut header = Reader::new(body);
    let command = header.u8()?;
    header.take(2)?;
    let stream = NonZeroU16::new(header.u16()?).map(StreamId);
    header.take(4)?;
    let len = header.u16()?;
    let data = header.take(len.into())?;
    Ok((stream, read_data(command, stream, data)?))
}

fn read_data(command: u8, stream: Option<StreamId>, data: &[u8]) -> Result<RelayMessage, Malformed> {
    let mut reader = Reader::new(data);
    Ok(match command {
        command::DATA => RelayMessage::Data(LivePayload::new(data).ok_or(Malformed)?),
        // A SENDME of a stream has no content. Additional bytes are ignored.
        command::SENDME if stream.is_some() => RelayMessage::Sendme(None),
        command::SENDME => RelayMessage::Sendme(read_proof(data)?),
        command::BEGIN => RelayMessage::Begin(Target::read_begin(data)),
        command::BEGIN_DIR => RelayMessage::Begin(Target::Directory),
        command::RESOLVE => RelayMessage::Begin(Target::read_resolve(data)),
        command::END => RelayMessage::End(End::read(data)),
        command::CONNECTED => RelayMessage::Connected(Connected::read(data)?),
        command::RESOLVED => RelayMessage::Resolved(answers::read_resolved(data)?),
        command::EXTEND2 => {
            let to = LinkSpec::read(&mut reader)?;
            RelayMessage::Extend(to, Handshake::read(&mut reader)?)
        }
        command::EXTENDED2 => RelayMessage::Extended(Handshake::read_answer(&mut reader)?),
        // EXTEND uses the obsolete TAP handshake.
        command::EXTEND => return Err(Malformed),
        command::TRUNCATE => RelayMessage::Truncate,
        command::TRUNCATED => RelayMessage::Truncated(DestroyReason(reader.u8().unwrap_or(0))),
        command::XOFF => {
            version_zero(&mut reader)?;
            RelayMessage::Xoff
        }
        command::XON => {
            version_zero(&mut reader)?;
            RelayMessage::Xon(NonZeroU32::new(reader.u32()?))
        }
        command::CONFLUX_LINK => RelayMessage::Link(Box::new(read_link(&mut reader)?)),
        command::CONFLUX_LINKED => RelayMessage::Linked(Box::new(read_link(&mut reader)?)),
        command::CONFLUX_LINKED_ACK => RelayMessage::LinkedAck,
        // C tor fills the cell with zeros.
        command::CONFLUX_SWITCH => RelayMessage::Switch(reader.u32()?),
        command::DROP => RelayMessage::Drop,
        other => match OnionServiceCommand::of(other) {
            Some(command) => RelayMessage::OnionService(OnionService::new(command, data)),
            None => RelayMessage::Unknown(other),
        },
    })
}

fn version_zero(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    if reader.u8()? == 0 { Ok(()) } else { Err(Malformed) }
}

/// Reads the acknowledged cell's tag in a circuit's SENDME. Fails for an unknown SENDME version.
/// Source: proposal 289; C tor `sendme_is_valid()`.
fn read_proof(data: &[u8]) -> Result<Option<Tag>, Malformed> {
    let mut reader = Reader::new(data);
    match reader.u8() {
        Err(Malformed) | Ok(0) => Ok(None),
        Ok(1) => {
            let len = reader.u16()?;
            Reader::new(reader.take(len.into())?).array().map(|tag| Some(Tag(tag)))
        }
        Ok(_) => Err(Malformed),
    }
}

/// The version of LINK and LINKED.
const LINK_VERSION: u8 = 1;

/// Reads a LINK or LINKED. Fails for an unknown version or desired UX. Additional bytes are ignored.
/// Source: C tor `conflux_cell_parse_link()`, `conflux.trunnel`.
fn read_link(reader: &mut Reader<'_>) -> Result<Link, Malformed> {
    if reader.u8()? != LINK_VERSION {
        return Err(Malformed);
    }
    let nonce = Nonce(reader.array()?);
    let [last_sent, last_received] = [reader.array()?, reader.array()?].map(u64::from_be_bytes);
    let ux = reader.u8()?;
    let desired_ux = *DesiredUx::ALL.get(usize::from(ux)).ok_or(Malformed)?;
    Ok(Link { nonce, last_sent, last_received, desired_ux })
}

fn write_link(link: &Link) -> Vec<u8> {
    let Link { nonce, last_sent, last_received, desired_ux } = link;
    let numbers = [last_sent, last_received].map(|number| number.to_be_bytes());
    [&[LINK_VERSION], &nonce.0[..], &numbers[0], &numbers[1], &[*desired_ux as u8]].concat()
}

/// Writes `message` as an unencrypted body.
///
/// # Panics
///
/// If the message does not fit into a cell, or is [`RelayMessage::Unknown`].
pub fn write(stream: Option<StreamId>, message: &RelayMessage) -> [u8; BODY_LEN] {
    let (command, data) = match message {
        // DATA is the most frequent message, so it is written without an allocation.
        RelayMessage::Data(payload) => return fill(command::DATA, stream, payload.as_bytes()),
        RelayMessage::Begin(target) => {
            let command = match target {
                Target::Directory => command::BEGIN_DIR,
                Target::Resolve(_) => command::RESOLVE,
                Target::Host { .. } | Target::Malformed => command::BEGIN,
            };
            (command, target.write())
        }
        RelayMessage::End(end) => (command::END, end.write()),
        RelayMessage::Connected(connected) => (command::CONNECTED, connected.write()),
        RelayMessage::Sendme(None) => (command::SENDME, Vec::new()),
        RelayMessage::Sendme(Some(tag)) => (command::SENDME, [&[1, 0, 20], &tag.0[..]].concat()),
        RelayMessage::Extend(to, handshake) => {
            let mut data = Vec::new();
            to.write(&mut data);
            handshake.write(&mut data);
            (command::EXTEND2, data)
        }
        RelayMessage::Extended(handshake) => {
            let mut data = Vec::new();
            handshake.write_answer(&mut data);
            (command::EXTENDED2, data)
        }
        RelayMessage::Truncate => (command::TRUNCATE, Vec::new()),
        RelayMessage::Truncated(reason) => (command::TRUNCATED, vec![reason.0]),
        RelayMessage::Resolved(list) => {
            (command::RESOLVED, answers::write_resolved(list, MAX_PAYLOAD.into()))
        }
        RelayMessage::Xoff => (command::XOFF, vec![0]),
        RelayMessage::Xon(rate) => {
            let rate = rate.map_or(0, NonZeroU32::get);
            (command::XON, [&[0], &rate.to_be_bytes()[..]].concat())
        }
        RelayMessage::Link(link) => (command::CONFLUX_LINK, write_link(link)),
        RelayMessage::Linked(link) => (command::CONFLUX_LINKED, write_link(link)),
        RelayMessage::LinkedAck => (command::CONFLUX_LINKED_ACK, Vec::new()),
        RelayMessage::Switch(relative) => (command::CONFLUX_SWITCH, relative.to_be_bytes().to_vec()),
        // The bodies are not copied.
        RelayMessage::OnionService(message) => return fill(message.command as u8, stream, message.body()),
        RelayMessage::Drop => (command::DROP, Vec::new()),
        RelayMessage::Unknown(_) => panic!("this node sends no unknown message"),
    };
    fill(command, stream, &data)
}

fn fill(command: u8, stream: Option<StreamId>, data: &[u8]) -> [u8; BODY_LEN] {
    let mut body = [0; BODY_LEN];
    body[0] = command;
    body[3..5].copy_from_slice(&stream.map_or(0, |id| id.0.get()).to_be_bytes());
    body[9..HEADER].copy_from_slice(&(data.len() as u16).to_be_bytes());
    body[HEADER..HEADER + data.len()].copy_from_slice(data);
    body
}

/// Conversions to and from the messages of the core.
impl RelayMessage {
    /// Whether linked circuits number this message ([`Message::is_multiplexed`]).
    pub fn is_multiplexed(&self) -> bool {
        self.clone().into_core().is_multiplexed()
    }

    pub(super) fn into_core(self) -> Message<super::LiveCell> {
        match self {
            RelayMessage::Begin(target) => Message::Begin(target),
            RelayMessage::Data(payload) => Message::Data(payload),
            RelayMessage::End(end) => Message::End(StreamEnd::End(end)),
            RelayMessage::Resolved(answers) => Message::End(StreamEnd::Resolved(answers)),
            RelayMessage::Connected(connected) => Message::Connected(connected),
            RelayMessage::Sendme(proof) => Message::Sendme { proof, marked: 0 },
            RelayMessage::Extend(to, handshake) => Message::Extend(to, handshake),
            RelayMessage::Extended(handshake) => Message::Extended(handshake),
            RelayMessage::Truncate => Message::Truncate,
            RelayMessage::Truncated(reason) => Message::Truncated(reason),
            RelayMessage::Xoff => Message::Xoff,
            RelayMessage::Xon(rate) => Message::Xon(rate),
            RelayMessage::Link(link) => Message::Link(link),
            RelayMessage::Linked(link) => Message::Linked(link),
            RelayMessage::LinkedAck => Message::LinkedAck,
            RelayMessage::Switch(relative) => Message::Switch(relative),
            RelayMessage::OnionService(message) => Message::OnionService(message),
            RelayMessage::Drop | RelayMessage::Unknown(_) => Message::Drop,
        }
    }

    pub(super) fn from_core(message: Message<super::LiveCell>) -> Self {
        match message {
            Message::Begin(target) => RelayMessage::Begin(target),
            Message::Data(payload) => RelayMessage::Data(payload),
            Message::End(StreamEnd::End(end)) => RelayMessage::End(end),
            Message::End(StreamEnd::Resolved(answers)) => RelayMessage::Resolved(answers),
            Message::Connected(connected) => RelayMessage::Connected(connected),
            Message::Sendme { proof, marked: _ } => RelayMessage::Sendme(proof),
            Message::Extend(to, handshake) => RelayMessage::Extend(to, handshake),
            Message::Extended(handshake) => RelayMessage::Extended(handshake),
            Message::Truncate => RelayMessage::Truncate,
            Message::Truncated(reason) => RelayMessage::Truncated(reason),
            Message::Xoff => RelayMessage::Xoff,
            Message::Xon(rate) => RelayMessage::Xon(rate),
            Message::Link(link) => RelayMessage::Link(link),
            Message::Linked(link) => RelayMessage::Linked(link),
            Message::LinkedAck => RelayMessage::LinkedAck,
            Message::Switch(relative) => RelayMessage::Switch(relative),
            Message::OnionService(message) => RelayMessage::OnionService(message),
            Message::Drop => RelayMessage::Drop,
        }
    }
}
