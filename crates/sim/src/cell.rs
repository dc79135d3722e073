//! The simulator's cell.

use penstock_core::cell::{Cell, CircId, Command, Message, Payload, PeerId, StreamId, Tag};
use penstock_core::circuit_policy::PriorityClass;
use penstock_core::conflux::{DesiredUx, Link, Nonce};
use penstock_core::edge_control::Negotiation;
use penstock_core::hop_control::Feedback;
use penstock_core::keys::Direction;
use penstock_core::reason::{DestroyReason, EndReason};
use std::convert::Infallible;
use std::num::{NonZeroU32, NonZeroU64};

/// The size of a cell on the wire [B], as in all reproduced papers.
pub(crate) const CELL_BYTES: u32 = 512;

/// A payload. The simulator stores only the number of bytes, not the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SimPayload {
    pub(crate) len: u16,
    /// The tag of the cell that carries the payload, if the cell is tracked.
    pub(crate) tag: Option<Tag>,
    /// The request that ends with this payload, if any.
    pub(crate) request: Option<Request>,
}

/// A request for a download of some bytes [B], or for the server's script in a stream that follows a Markov model.
///
/// The stored value is the request plus one and is never zero, so `Option<Request>` takes no extra space in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request(NonZeroU64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A download of this many bytes [B].
    Bytes(u64),
    /// The Markov model of this workload decides when the server sends. The seed gives its random numbers.
    Script { workload: usize, seed: u64 },
}

/// The bit that marks a script request. It is larger than the size of any download.
const SCRIPT: u64 = 1 << 63;
/// The number of bits for the seed in a script request. The workload is in the bits above the seed.
const SEED_BITS: u32 = 43;

impl Request {
    pub(crate) fn of(bytes: u64) -> Self {
        Request(NonZeroU64::MIN.saturating_add(bytes))
    }

    /// A request for the server's script. The request contains only the lower bits of the seed.
    pub(crate) fn script(workload: usize, seed: u64) -> Self {
        assert!((workload as u64) + 1 < SCRIPT >> SEED_BITS, "no scenario has a million workloads");
        Request::of(SCRIPT | ((workload as u64) << SEED_BITS) | (seed % (1 << SEED_BITS)))
    }

    pub(crate) fn kind(self) -> RequestKind {
        let number = self.0.get() - 1;
        if number < SCRIPT {
            return RequestKind::Bytes(number);
        }
        let workload = ((number & !SCRIPT) >> SEED_BITS) as usize;
        RequestKind::Script { workload, seed: number % (1 << SEED_BITS) }
    }
}

impl Payload for SimPayload {
    fn len(&self) -> u16 {
        self.len
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SimHandshake {
    pub(crate) circuit: u32,
    pub(crate) hop: u8,
    /// Whether the run records the circuit in detail.
    pub(crate) traced: bool,
    pub(crate) congestion: Negotiation,
}

/// The onion layer of one hop, at one end of a circuit. The layer has no keys. Each end counts the messages, and the
/// count replaces the digest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimLayer {
    sealed: u32,
    peeled: u32,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    Create(SimHandshake),
    Created(SimHandshake),
    Destroy,
    Feedback(Feedback),
    Class(PriorityClass),
    Begin(u32),
    Connected,
    Data {
        len: u16,
        request: Option<Request>,
    },
    End,
    Sendme {
        proof: Option<u32>,
        marked: u8,
    },
    Xoff,
    Xon(Option<NonZeroU32>),
    Extend(PeerId, SimHandshake),
    Extended(SimHandshake),
    Truncated,
    /// The first bytes of the nonce, and the desired UX. The simulator links only circuits that have sent no cells.
    Link(NonceHead, DesiredUx),
    Linked(NonceHead, DesiredUx),
    LinkedAck,
    Switch(u32),
}

/// The bytes of a nonce that are not zero.
type NonceHead = [u8; 8];

fn nonce_head(link: &Link) -> NonceHead {
    assert_eq!(
        (link.last_sent, link.last_received),
        (0, 0),
        "circuits are linked before their set has streams"
    );
    std::array::from_fn(|place| link.nonce.0[place])
}

fn link_of(head: NonceHead, desired_ux: DesiredUx) -> Box<Link> {
    Box::new(Link { nonce: nonce(u64::from_le_bytes(head)), last_sent: 0, last_received: 0, desired_ux })
}

/// The nonce with this number. Real clients choose a random one.
pub(crate) fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce(bytes)
}

/// The value of the congestion mark in [`SimCell::layers`].
const MARKED: u8 = 1;
/// The value of one onion layer in [`SimCell::layers`].
const LAYER: u8 = 2;

/// The simulator's cell: a descriptor without a body.
///
/// The cell counts its onion layers: sealing sets the count to one, and each hop towards the client adds one. The node
/// that removes the last layer checks the cell's number, where real Tor checks the digest. A wrong number causes a
/// panic, because only a bug in Penstock can lose, duplicate or reorder cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimCell {
    id: CircId,
    tag: Option<Tag>,
    /// The number of this message in its onion layer. It replaces the running digest of a real cell.
    number: u32,
    stream: Option<StreamId>,
    /// The number of onion layers times [`LAYER`], plus [`MARKED`]. A single byte for both keeps copies of a cell
    /// cheap.
    layers: u8,
    body: Body,
}

impl SimCell {
    fn link(id: CircId, body: Body) -> Self {
        SimCell { id, tag: None, number: 0, stream: None, layers: 0, body }
    }
}

impl Cell for SimCell {
    type Payload = SimPayload;
    type Target = u32;
    type Connected = ();
    type End = EndReason;
    type LinkSpec = PeerId;
    type Handshake = SimHandshake;
    type Layer = SimLayer;
    /// The simulator has no onion services.
    type OnionService = Infallible;
    type Digest = u32;

    fn wire_size(&self) -> u32 {
        CELL_BYTES
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
            _ => Command::Relay,
        }
    }
    fn tag(&self) -> Option<Tag> {
        self.tag
    }
    fn mark(&mut self) {
        self.layers |= MARKED;
    }
    fn is_marked(&self) -> bool {
        self.layers & MARKED != 0
    }

    fn create(id: CircId, handshake: SimHandshake) -> Self {
        SimCell::link(id, Body::Create(handshake))
    }
    fn created(id: CircId, handshake: SimHandshake) -> Self {
        SimCell::link(id, Body::Created(handshake))
    }
    fn into_handshake(self) -> Option<SimHandshake> {
        match self.body {
            Body::Create(handshake) | Body::Created(handshake) => Some(handshake),
            _ => None,
        }
    }
    fn destroy(id: CircId, _reason: DestroyReason) -> Self {
        SimCell::link(id, Body::Destroy)
    }
    fn feedback(id: CircId, feedback: Feedback) -> Self {
        SimCell::link(id, Body::Feedback(feedback))
    }
    fn as_feedback(&self) -> Option<Feedback> {
        match self.body {
            Body::Feedback(feedback) => Some(feedback),
            _ => None,
        }
    }
    fn class(id: CircId, class: PriorityClass) -> Self {
        SimCell::link(id, Body::Class(class))
    }
    fn as_class(&self) -> Option<PriorityClass> {
        match self.body {
            Body::Class(class) => Some(class),
            _ => None,
        }
    }
    fn relay(id: CircId, stream: Option<StreamId>, message: Message<Self>) -> Self {
        let mut tag = None;
        let body = match message {
            Message::Begin(target) => Body::Begin(target),
            Message::Connected(()) => Body::Connected,
            Message::Data(payload) => {
                tag = payload.tag;
                Body::Data { len: payload.len, request: payload.request }
            }
            Message::End(_) => Body::End,
            Message::Sendme { proof, marked } => Body::Sendme { proof, marked },
            Message::Xoff => Body::Xoff,
            Message::Xon(rate) => Body::Xon(rate),
            Message::Extend(peer, handshake) => Body::Extend(peer, handshake),
            Message::Extended(handshake) => Body::Extended(handshake),
            Message::Truncated(_) => Body::Truncated,
            Message::Link(link) => Body::Link(nonce_head(&link), link.desired_ux),
            Message::Linked(link) => Body::Linked(nonce_head(&link), link.desired_ux),
            Message::LinkedAck => Body::LinkedAck,
            Message::Switch(relative) => Body::Switch(relative),
            Message::OnionService(none) => match none {},
            Message::Truncate | Message::Drop => {
                unreachable!("the simulator does not truncate circuits or send padding")
            }
        };
        SimCell { id, tag, number: 0, stream, layers: 0, body }
    }
    fn into_message(self) -> Option<(Option<StreamId>, Message<Self>)> {
        let message = match self.body {
            Body::Begin(target) => Message::Begin(target),
            Body::Connected => Message::Connected(()),
            Body::Data { len, request } => Message::Data(SimPayload { len, tag: self.tag, request }),
            Body::End => Message::End(EndReason::DONE),
            Body::Sendme { proof, marked } => Message::Sendme { proof, marked },
            Body::Xoff => Message::Xoff,
            Body::Xon(rate) => Message::Xon(rate),
            Body::Extend(peer, handshake) => Message::Extend(peer, handshake),
            Body::Extended(handshake) => Message::Extended(handshake),
            Body::Truncated => Message::Truncated(DestroyReason::NONE),
            Body::Link(head, ux) => Message::Link(link_of(head, ux)),
            Body::Linked(head, ux) => Message::Linked(link_of(head, ux)),
            Body::LinkedAck => Message::LinkedAck,
            Body::Switch(relative) => Message::Switch(relative),
            Body::Create(_) | Body::Created(_) | Body::Destroy | Body::Feedback(_) | Body::Class(_) => {
                return None;
            }
        };
        Some((self.stream, message))
    }

    fn seal(&mut self, layer: &mut SimLayer) -> u32 {
        self.layers = LAYER;
        layer.sealed = layer.sealed.wrapping_add(1);
        self.number = layer.sealed;
        layer.sealed
    }
    fn wrap(&mut self, _layer: &mut SimLayer) {
        self.layers += LAYER;
    }
    fn peel(&mut self, layer: &mut SimLayer) -> Option<u32> {
        self.layers = self.layers.checked_sub(LAYER).expect("a relay cell is sealed before it travels");
        if self.layers >= LAYER {
            return None;
        }
        layer.peeled = layer.peeled.wrapping_add(1);
        assert_eq!(
            self.number, layer.peeled,
            "a circuit keeps its cells and their order: every queue on the way is first in, first out, and every hop repeats \
             what it loses"
        );
        Some(layer.peeled)
    }
}

pub(crate) fn tag(n: usize) -> Tag {
    Tag(NonZeroU32::new(n as u32 + 1).expect("tags count from one"))
}

pub(crate) fn tag_index(tag: Tag) -> usize {
    tag.0.get() as usize - 1
}

pub(crate) const TO_CLIENT: Direction = Direction::Backward;

#[cfg(test)]
mod tests {
    use super::*;

    /// Four cells in the order of sealing.
    fn sealed() -> [SimCell; 4] {
        let mut layer = SimLayer::default();
        let id = CircId(NonZeroU32::MIN);
        std::array::from_fn(|_| {
            let mut cell = SimCell::relay(id, None, Message::Sendme { proof: None, marked: 0 });
            cell.seal(&mut layer);
            cell
        })
    }

    fn peel(order: &[usize]) -> Vec<Option<u32>> {
        let (cells, mut layer) = (sealed(), SimLayer::default());
        order.iter().map(|cell| { cells[*cell] }.peel(&mut layer)).collect()
    }

    #[test]
    fn cells_are_peeled_in_the_order_of_sealing() {
        assert_eq!(peel(&[0, 1, 2, 3]), [1, 2, 3, 4].map(Some));
    }

    #[test]
    #[should_panic(expected = "keeps its cells and their order")]
    fn a_lost_cell_ends_a_run() {
        peel(&[0, 2]);
    }

    #[test]
    #[should_panic(expected = "keeps its cells and their order")]
    fn a_duplicated_cell_ends_a_run() {
        peel(&[0, 0]);
    }

    #[test]
    #[should_panic(expected = "keeps its cells and their order")]
    fn cells_in_another_order_end_a_run() {
        peel(&[0, 2, 1]);
    }

    #[test]
    fn a_request_is_for_bytes_or_for_a_script() {
        for bytes in [0, 1, 1 << 50] {
            assert_eq!(Request::of(bytes).kind(), RequestKind::Bytes(bytes));
        }
        for (workload, seed) in [(0, 0), (7, 0xABCD_EF00), ((1 << 20) - 2, (1 << SEED_BITS) - 1)] {
            assert_eq!(Request::script(workload, seed).kind(), RequestKind::Script { workload, seed });
        }
        // Both sides use the same bits of a longer seed.
        let RequestKind::Script { seed, .. } = Request::script(1, u64::MAX).kind() else {
            panic!("it is a part")
        };
        assert_eq!(seed, (1 << SEED_BITS) - 1);
    }

    #[test]
    fn a_cell_takes_at_most_40_bytes() {
        assert!(size_of::<SimCell>() <= 40, "{}", size_of::<SimCell>());
    }
}
