//! A cell with a body on a socket: 4 bytes circuit, 1 byte command, 507 bytes body.
//!
//! Onion layers are keystreams that cover the whole body and advance with every cell. So a lost or misplaced cell makes
//! later cells unreadable. They provide no secrecy.

use penstock_core::cell::{CircId, Command, MAX_PAYLOAD, Message, Payload, PeerId, StreamId, Tag};
use penstock_core::circuit_policy::PriorityClass;
use penstock_core::hop_control::Feedback;
use penstock_core::reason::{DestroyReason, EndReason};
use penstock_core::{Cell, Direction};
use std::convert::Infallible;
use std::num::{NonZeroU16, NonZeroU32};

/// Size of a cell on the wire [B].
pub const SIZE: usize = 512;

/// One cell.
#[derive(Clone, Debug)]
pub struct LinuxCell(pub [u8; SIZE]);

/// Bytes of a stream.
#[derive(Clone, Debug)]
pub struct Body(pub Vec<u8>);

impl Payload for Body {
    fn len(&self) -> u16 {
        self.0.len() as u16
    }
}

/// One hop's key for one circuit.
#[derive(Debug)]
pub struct Layer {
    key: u32,
    added: u64,
    removed: u64,
}

impl Layer {
    /// Both ends derive it from the same number.
    pub fn new(key: u32) -> Self {
        Layer { key, added: 0, removed: 0 }
    }
}

/// Offset of the body. It has a mark for clear text, the message, the stream, the length and the data.
const BODY: usize = 5;
const MARK: [u8; 4] = [0x5e, 0x17, 0xa3, 0x88];
const DATA: usize = BODY + 9;
/// A bit of the command: the cell met congestion.
const MARKED: u8 = 0x80;

impl LinuxCell {
    fn new(id: CircId, command: u8) -> Self {
        let mut cell = LinuxCell([0; SIZE]);
        cell.set_circ_id(id);
        cell.0[4] = command;
        cell
    }

    fn put(mut self, at: usize, number: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&number.to_be_bytes());
        self
    }

    fn get(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Hash of the clear body and the cell's number (FNV-1a).
    fn digest(&self, cell: u64) -> u64 {
        let add = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.0[BODY..].iter().fold(0xcbf2_9ce4_8422_2325 ^ cell, add)
    }

    fn blur(&mut self, key: u32, cell: u64) {
        let mut state = u64::from(key) << 32 ^ cell;
        for byte in &mut self.0[BODY..] {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            *byte ^= (state >> 56) as u8;
        }
    }
}

impl Cell for LinuxCell {
    type OnionService = Infallible;
    type Payload = Body;
    /// The number of the stream in its plan.
    type Target = u32;
    type Connected = ();
    type End = EndReason;
    type LinkSpec = PeerId;
    type Handshake = u32;
    type Layer = Layer;
    type Digest = u64;

    fn wire_size(&self) -> u32 {
        SIZE as u32
    }
    fn circ_id(&self) -> CircId {
        CircId(NonZeroU32::new(self.get(0)).unwrap_or(NonZeroU32::MAX))
    }
    fn set_circ_id(&mut self, id: CircId) {
        self.0[..4].copy_from_slice(&id.0.get().to_be_bytes());
    }
    fn command(&self) -> Command {
        match self.0[4] & !MARKED {
            1 => Command::Create,
            2 => Command::Created,
            3 => Command::Relay,
            5 => Command::Feedback,
            6 => Command::Class,
            _ => Command::Destroy,
        }
    }
    fn tag(&self) -> Option<Tag> {
        None
    }
    fn mark(&mut self) {
        self.0[4] |= MARKED;
    }
    fn is_marked(&self) -> bool {
        self.0[4] & MARKED != 0
    }
    fn create(id: CircId, handshake: u32) -> Self {
        LinuxCell::new(id, 1).put(BODY, handshake)
    }
    fn created(id: CircId, handshake: u32) -> Self {
        LinuxCell::new(id, 2).put(BODY, handshake)
    }
    fn into_handshake(self) -> Option<u32> {
        Some(self.get(BODY))
    }
    fn destroy(id: CircId, reason: DestroyReason) -> Self {
        LinuxCell::new(id, 4).put(BODY, reason.0.into())
    }
    fn feedback(id: CircId, feedback: Feedback) -> Self {
        let cell = LinuxCell::new(id, 5).put(BODY, u32::from(feedback.direction == Direction::Backward));
        cell.put(BODY + 4, feedback.forwarded).put(BODY + 8, feedback.allowance)
    }
    fn as_feedback(&self) -> Option<Feedback> {
        let direction = if self.get(BODY) == 0 { Direction::Forward } else { Direction::Backward };
        Some(Feedback { direction, forwarded: self.get(BODY + 4), allowance: self.get(BODY + 8) })
    }
    fn class(id: CircId, class: PriorityClass) -> Self {
        LinuxCell::new(id, 6).put(BODY, u32::from(class == PriorityClass::Worse))
    }
    fn as_class(&self) -> Option<PriorityClass> {
        [PriorityClass::Better, PriorityClass::Worse].get(self.get(BODY) as usize).copied()
    }

    fn relay(id: CircId, stream: Option<StreamId>, message: Message<Self>) -> Self {
        let mut cell = LinuxCell::new(id, 3);
        let (kind, data) = match message {
            Message::Begin(target) => (1, target.to_be_bytes().to_vec()),
            Message::Data(body) => (2, body.0),
            Message::End(reason) => (3, vec![reason.0]),
            Message::Connected(()) => (4, Vec::new()),
            Message::Sendme { proof, marked } => {
                let proof = proof.map_or(Vec::new(), |digest| digest.to_be_bytes().to_vec());
                (5, [vec![marked], proof].concat())
            }
            Message::Xoff => (8, Vec::new()),
            Message::Xon(rate) => (9, rate.map_or(0, NonZeroU32::get).to_be_bytes().to_vec()),
            Message::Extend(to, handshake) => (6, [to.0.to_be_bytes(), handshake.to_be_bytes()].concat()),
            Message::Extended(handshake) => (7, handshake.to_be_bytes().to_vec()),
            Message::Drop => (10, Vec::new()),
            Message::Truncate => (11, Vec::new()),
            Message::Truncated(reason) => (12, vec![reason.0]),
            Message::Link(_) | Message::Linked(_) | Message::LinkedAck | Message::Switch(_) => {
                unreachable!("the path links no circuits")
            }
            Message::OnionService(none) => match none {},
        };
        cell.0[BODY..BODY + 4].copy_from_slice(&MARK);
        cell.0[BODY + 4] = kind;
        let stream = stream.map_or(0, |id| id.0.get());
        cell.0[BODY + 5..BODY + 7].copy_from_slice(&stream.to_be_bytes());
        cell.0[BODY + 7..DATA].copy_from_slice(&(data.len() as u16).to_be_bytes());
        cell.0[DATA..DATA + data.len()].copy_from_slice(&data);
        cell
    }

    fn into_message(self) -> Option<(Option<StreamId>, Message<Self>)> {
        let stream = u16::from_be_bytes([self.0[BODY + 5], self.0[BODY + 6]]);
        let len = u16::from_be_bytes([self.0[BODY + 7], self.0[BODY + 8]]);
        let message = match self.0[BODY + 4] {
            1 => Message::Begin(self.get(DATA)),
            2 if len <= MAX_PAYLOAD => Message::Data(Body(self.0[DATA..DATA + usize::from(len)].to_vec())),
            3 => Message::End(EndReason(self.0[DATA])),
            4 => Message::Connected(()),
            5 => {
                let digest = u64::from(self.get(DATA + 1)) << 32 | u64::from(self.get(DATA + 5));
                Message::Sendme { proof: (len > 1).then_some(digest), marked: self.0[DATA] }
            }
            6 => Message::Extend(PeerId(self.get(DATA)), self.get(DATA + 4)),
            7 => Message::Extended(self.get(DATA)),
            8 => Message::Xoff,
            9 => Message::Xon(NonZeroU32::new(self.get(DATA))),
            10 => Message::Drop,
            11 => Message::Truncate,
            12 => Message::Truncated(DestroyReason(self.0[DATA])),
            _ => return None,
        };
        Some((NonZeroU16::new(stream).map(StreamId), message))
    }

    fn seal(&mut self, layer: &mut Layer) -> u64 {
        let digest = self.digest(layer.added + 1);
        self.wrap(layer);
        digest
    }
    fn wrap(&mut self, layer: &mut Layer) {
        layer.added += 1;
        self.blur(layer.key, layer.added);
    }
    fn peel(&mut self, layer: &mut Layer) -> Option<u64> {
        layer.removed += 1;
        self.blur(layer.key, layer.removed);
        (self.0[BODY..BODY + 4] == MARK).then(|| self.digest(layer.removed))
    }
}
