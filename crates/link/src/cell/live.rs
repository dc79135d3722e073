//! A circuit cell of the live network, in the form that the relay core handles.

use super::answers::{Connected, StreamEnd};
use super::command;
use super::frame::{BODY_LEN, CELL_LEN, Frame};
use super::handshake::{Handshake, HandshakeKind};
use super::linkspec::LinkSpec;
use super::message::{self, LivePayload, RelayMessage};
use super::onion_service::OnionService;
use super::target::Target;
use crate::crypto::tor1::{self, Layer};
use crate::wire::Reader;
use penstock_core::circuit_policy::PriorityClass;
use penstock_core::datagram::{CellBody, circuit_id};
use penstock_core::hop_control::Feedback;
use penstock_core::{Cell, CircId, Command, DestroyReason, Direction, Message, StreamId, Tag, Violation};
use std::fmt;
use std::num::NonZeroU32;

/// Command of hop-control feedback between nodes that negotiated it. C tor ignores this command.
const FEEDBACK: u8 = 100;
/// Command that sets a circuit's priority class, between nodes that negotiated it. C tor ignores this command.
const CLASS: u8 = 101;

/// Number of RELAY_EARLY cells that a relay accepts on one circuit [cell].
///
/// Source: tor-spec, "Handling RELAY_EARLY"; C tor `MAX_RELAY_EARLY_CELLS_PER_CIRCUIT`.
pub const MAX_EARLY: u8 = 8;

/// A circuit cell.
#[derive(Clone)]
pub struct LiveCell {
    id: CircId,
    tag: Option<Tag>,
    command: u8,
    /// Congestion mark of the core. It leaves this node only in datagrams, because cells over TLS have no field for it.
    marked: bool,
    body: [u8; BODY_LEN],
}

/// A cell that arrived on an open channel.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all that comes is cells, and a box for each would cost more"
)]
pub enum Incoming {
    /// A circuit cell.
    Cell(LiveCell),
    /// PADDING or VPADDING.
    Padding,
    /// PADDING_NEGOTIATE. Its content is ignored.
    PaddingNegotiate,
    /// A cell that the node ignores: its command is unknown or not accepted, or a circuit cell has circuit id 0.
    Ignored(u8),
}

/// Commands that C tor does not know. A node accepts them only on links on which both nodes agreed to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// Feedback of hop control, for example N23 credits.
    pub feedback: bool,
    /// The priority class of a circuit.
    pub class: bool,
}

impl Extended {
    /// Only commands of C tor.
    pub const NONE: Extended = Extended { feedback: false, class: false };
    /// All commands.
    pub const ALL: Extended = Extended { feedback: true, class: true };
}

impl Incoming {
    /// Classifies a frame. `extended`: the accepted commands that C tor does not know.
    ///
    /// Source: C tor `command_process_cell()`, `command_process_var_cell()`.
    pub fn of(frame: &Frame<'_>, extended: Extended) -> Self {
        let known = match frame.command {
            command::PADDING | command::VPADDING => return Incoming::Padding,
            command::PADDING_NEGOTIATE => return Incoming::PaddingNegotiate,
            command::CREATE | command::CREATE_FAST | command::CREATE2 => true,
            command::CREATED_FAST | command::CREATED2 => true,
            command::RELAY | command::RELAY_EARLY | command::DESTROY => true,
            FEEDBACK => extended.feedback,
            CLASS => extended.class,
            _ => false,
        };
        match (NonZeroU32::new(frame.circ_id), frame.body.first_chunk()) {
            (Some(id), Some(body)) if known => {
                Incoming::Cell(LiveCell { body: *body, ..LiveCell::new(CircId(id), frame.command) })
            }
            _ => Incoming::Ignored(frame.command),
        }
    }
}

impl LiveCell {
    fn new(id: CircId, command: u8) -> Self {
        LiveCell { id, tag: None, command, marked: false, body: [0; BODY_LEN] }
    }

    fn with(id: CircId, command: u8, data: &[u8]) -> Self {
        let mut cell = LiveCell::new(id, command);
        cell.body[..data.len()].copy_from_slice(data);
        cell
    }

    /// Appends the cell to `out`, in the wire format of link protocols 4 and 5.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.get().to_be_bytes());
        out.push(self.command);
        out.extend_from_slice(&self.body);
    }

    /// The cell in the wire format of link protocols 4 and 5.
    pub fn to_bytes(&self) -> [u8; CELL_LEN] {
        let mut bytes = [0; CELL_LEN];
        bytes[..4].copy_from_slice(&self.id.0.get().to_be_bytes());
        bytes[4] = self.command;
        bytes[5..].copy_from_slice(&self.body);
        bytes
    }

    /// The cell of a DATA message of a datagram; `None` if its circuit number or command is not one of circuit cells.
    /// `extended`: the commands that C tor does not know and that are accepted.
    pub fn from_datagram(circuit: u16, body: &CellBody<'_>, extended: Extended) -> Option<Self> {
        let frame =
            Frame { circ_id: circuit_id(circuit)?.0.get(), command: body.command, body: body.payload };
        let Incoming::Cell(cell) = Incoming::of(&frame, extended) else { return None };
        Some(LiveCell { marked: body.marked, ..cell })
    }

    /// The cell as it travels in a datagram.
    pub fn in_datagram(&self) -> CellBody<'_> {
        CellBody { command: self.command, marked: self.marked, payload: &self.body }
    }

    /// Command number; see [`command`].
    pub fn wire_command(&self) -> u8 {
        self.command
    }

    /// Marks this cell for tracing through the node.
    pub fn set_tag(&mut self, tag: Tag) {
        self.tag = Some(tag);
    }

    /// The reason in a DESTROY cell.
    pub fn destroy_reason(&self) -> DestroyReason {
        DestroyReason(self.body[0])
    }

    /// An unencrypted cell with a relay message: RELAY_EARLY for EXTEND2, otherwise RELAY.
    pub fn saying(id: CircId, stream: Option<StreamId>, message: &RelayMessage) -> Self {
        // An EXTEND2 needs a RELAY_EARLY cell. Relays refuse it in a RELAY cell, to limit the length of a circuit.
        let extends = matches!(message, RelayMessage::Extend(..));
        let command = if extends { command::RELAY_EARLY } else { command::RELAY };
        LiveCell { body: message::write(stream, message), ..LiveCell::new(id, command) }
    }

    fn create_or_answer(id: CircId, answer: bool, handshake: &Handshake) -> Self {
        let mut data = Vec::new();
        let command = match (handshake.kind, answer) {
            (HandshakeKind::Fast, _) => {
                data.extend_from_slice(&handshake.data);
                if answer { command::CREATED_FAST } else { command::CREATE_FAST }
            }
            (_, true) => {
                handshake.write_answer(&mut data);
                command::CREATED2
            }
            (_, false) => {
                handshake.write(&mut data);
                command::CREATE2
            }
        };
        LiveCell::with(id, command, &data)
    }
}

/// Logs do not show the body of a cell.
impl fmt::Debug for LiveCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LiveCell {{ command: {} }}", self.command)
    }
}

impl Cell for LiveCell {
    type Payload = LivePayload;
    type Target = Target;
    type Connected = Connected;
    type End = StreamEnd;
    type LinkSpec = LinkSpec;
    type Handshake = Handshake;
    type OnionService = OnionService;
    type Layer = Layer;
    type Digest = tor1::Tag;

    fn wire_size(&self) -> u32 {
        CELL_LEN as u32
    }
    fn circ_id(&self) -> CircId {
        self.id
    }
    fn set_circ_id(&mut self, id: CircId) {
        self.id = id;
    }
    fn command(&self) -> Command {
        match self.command {
            command::CREATE | command::CREATE_FAST | command::CREATE2 => Command::Create,
            command::CREATED_FAST | command::CREATED2 => Command::Created,
            command::RELAY | command::RELAY_EARLY => Command::Relay,
            command::DESTROY => Command::Destroy,
            FEEDBACK => Command::Feedback,
            CLASS => Command::Class,
            other => unreachable!("`Incoming::of` makes no cell of command {other}"),
        }
    }
    fn tag(&self) -> Option<Tag> {
        self.tag
    }
    fn mark(&mut self) {
        self.marked = true;
    }
    fn is_marked(&self) -> bool {
        self.marked
    }

    fn create(id: CircId, handshake: Handshake) -> Self {
        LiveCell::create_or_answer(id, false, &handshake)
    }
    fn created(id: CircId, handshake: Handshake) -> Self {
        LiveCell::create_or_answer(id, true, &handshake)
    }

    /// The handshake of a CREATE cell. A malformed cell becomes [`HandshakeKind::Malformed`]: the circuit closes, the
    /// channel stays open (C tor `command_process_create_cell()`).
    fn into_handshake(self) -> Option<Handshake> {
        let mut reader = Reader::new(&self.body);
        let fast = |data: &[u8]| Handshake { kind: HandshakeKind::Fast, data: data.to_vec() };
        match self.command {
            command::CREATE => Some(Handshake { kind: HandshakeKind::Other(0), data: Vec::new() }),
            command::CREATE_FAST => Some(fast(&self.body[..20])),
            command::CREATE2 => Some(Handshake::read(&mut reader).unwrap_or_else(|_| Handshake::malformed())),
            command::CREATED_FAST => Some(fast(&self.body[..40])),
            command::CREATED2 => Handshake::read_answer(&mut reader).ok(),
            _ => None,
        }
    }
    fn destroy(id: CircId, reason: DestroyReason) -> Self {
        LiveCell::with(id, command::DESTROY, &[reason.0])
    }
    fn feedback(id: CircId, feedback: Feedback) -> Self {
        let mut data = [0; 9];
        data[0] = u8::from(feedback.direction == Direction::Backward);
        data[1..5].copy_from_slice(&feedback.forwarded.to_be_bytes());
        data[5..].copy_from_slice(&feedback.allowance.to_be_bytes());
        LiveCell::with(id, FEEDBACK, &data)
    }
    fn as_feedback(&self) -> Option<Feedback> {
        let mut reader = Reader::new(&self.body);
        let direction = match reader.u8().ok()? {
            0 => Direction::Forward,
            1 => Direction::Backward,
            _ => return None,
        };
        let (forwarded, allowance) = (reader.u32().ok()?, reader.u32().ok()?);
        (self.command == FEEDBACK).then_some(Feedback { direction, forwarded, allowance })
    }
    fn class(id: CircId, class: PriorityClass) -> Self {
        LiveCell::with(id, CLASS, &[u8::from(class == PriorityClass::Worse)])
    }
    fn as_class(&self) -> Option<PriorityClass> {
        match (self.command, self.body[0]) {
            (CLASS, 0) => Some(PriorityClass::Better),
            (CLASS, 1) => Some(PriorityClass::Worse),
            _ => None,
        }
    }
    /// Source: C tor `conflux_should_multiplex()`.
    fn is_multiplexed(target: &Target) -> bool {
        !matches!(target, Target::Directory)
    }
    fn relay(id: CircId, stream: Option<StreamId>, message: Message<Self>) -> Self {
        let tag = if let Message::Data(payload) = &message { payload.tag() } else { None };
        LiveCell { tag, ..LiveCell::saying(id, stream, &RelayMessage::from_core(message)) }
    }
    fn into_message(self) -> Option<(Option<StreamId>, Message<Self>)> {
        let (stream, message) = message::read(&self.body).ok()?;
        // C tor also ignores an EXTEND2 in a RELAY cell or on a stream.
        let may_extend = self.command == command::RELAY_EARLY && stream.is_none();
        if matches!(message, RelayMessage::Extend(..)) && !may_extend {
            return Some((stream, Message::Drop));
        }
        Some((stream, message.into_core()))
    }

    /// Source: tor-spec, "Handling RELAY_EARLY"; C tor `command_process_relay_cell()`.
    fn admit(&self, layer: &mut Layer, direction: Direction) -> Result<(), Violation> {
        if self.command != command::RELAY_EARLY {
            return Ok(());
        }
        if direction == Direction::Backward || layer.count_early() > MAX_EARLY {
            return Err(Violation::UnexpectedEarlyCell);
        }
        Ok(())
    }
    fn seal(&mut self, layer: &mut Layer) -> tor1::Tag {
        layer.seal(&mut self.body)
    }
    fn wrap(&mut self, layer: &mut Layer) {
        layer.wrap(&mut self.body);
    }
    fn peel(&mut self, layer: &mut Layer) -> Option<tor1::Tag> {
        layer.peel(&mut self.body)
    }
    fn cross(&mut self) {
        self.command = command::RELAY;
    }
}
