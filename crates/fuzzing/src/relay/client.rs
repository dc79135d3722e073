//! A client's end of a circuit: its keys, and the cells that it sends and receives.

use super::host::pattern;
use crate::test_relays::{identities, seeded_rng};
use penstock_core::edge_control::{Congestion, Negotiation};
use penstock_core::{Cell, ChannelKey, CircId, StreamId};
use penstock_link::cell::{
    BODY_LEN, Extended, Frame, Handshake, HandshakeKind, Incoming, LiveCell, RelayMessage, command, read,
};
use penstock_link::crypto::tor1::{Layer, Tag};
use penstock_link::crypto::{extensions, fast, ntor, ntor_v3};
use std::collections::{BTreeMap, VecDeque};

enum Begun {
    Fast(fast::Client),
    Ntor(Box<ntor::Client>),
    NtorV3(Box<ntor_v3::Client>),
    Nothing,
}

pub(super) struct Circuit {
    pub(super) channel: ChannelKey,
    pub(super) id: CircId,
    begun: Begun,
    layer: Option<Layer>,
    /// Whether the client requests congestion control.
    pub(super) asks: bool,
    /// DATA cells per SENDME of the circuit [cell].
    pub(super) increment: u32,
    pub(super) over: bool,
    /// Tags of the cells that the client must still acknowledge.
    pub(super) expected_tags: VecDeque<Tag>,
    /// Number of received DATA cells in total. `streams` has the number for each stream [cell].
    pub(super) cells: u32,
    streams: BTreeMap<Option<StreamId>, u32>,
    /// Whether the client follows the protocol, and no other party disturbs its circuit.
    pub(super) honest: bool,
    /// Received bytes [B].
    pub(super) came: u64,
}

pub(super) fn body(command: u8, stream: u16, data: &[u8]) -> [u8; BODY_LEN] {
    let mut body = [0; BODY_LEN];
    let len = data.len().min(BODY_LEN - 11);
    body[0] = command;
    body[3..5].copy_from_slice(&stream.to_be_bytes());
    body[9..11].copy_from_slice(&(len as u16).to_be_bytes());
    body[11..11 + len].copy_from_slice(&data[..len]);
    body
}

pub(super) fn cell(id: CircId, command: u8, data: &[u8]) -> Vec<u8> {
    let mut cell = id.0.get().to_be_bytes().to_vec();
    cell.push(command);
    cell.extend_from_slice(&data[..data.len().min(BODY_LEN)]);
    cell.resize(5 + BODY_LEN, 0);
    cell
}

impl Circuit {
    pub(super) fn begin(channel: ChannelKey, id: CircId, kind: u8, asks: bool) -> (Self, Vec<u8>) {
        let mut rng = seeded_rng(u64::from(id.0.get()) << 8 | u64::from(kind));
        let me = identities();
        let onion = me.onion[0].public;
        let (begun, handshake) = match kind {
            0 => {
                let client = fast::Client::start(&mut rng);
                let data = client.message().to_vec();
                (Begun::Fast(client), Handshake { kind: HandshakeKind::Fast, data })
            }
            1 => {
                let client = ntor::Client::start(&mut rng, me.rsa, onion);
                let data = client.message();
                (Begun::Ntor(Box::new(client)), Handshake { kind: HandshakeKind::Ntor, data })
            }
            2 => {
                let saying = if asks { Negotiation::Asked(Congestion::Vegas) } else { Negotiation::Nothing };
                let saying = extensions::write(saying);
                let client = ntor_v3::Client::start(&mut rng, me.ed25519, onion, &saying);
                let data = client.message().to_vec();
                (Begun::NtorV3(Box::new(client)), Handshake { kind: HandshakeKind::NtorV3, data })
            }
            _ => {
                let data = vec![kind; 84];
                (Begun::Nothing, Handshake { kind: HandshakeKind::Other(kind.into()), data })
            }
        };
        let circuit = Circuit {
            channel,
            id,
            begun,
            layer: None,
            asks,
            increment: 100,
            over: false,
            expected_tags: VecDeque::new(),
            cells: 0,
            streams: BTreeMap::new(),
            honest: false,
            came: 0,
        };
        (circuit, LiveCell::create(id, handshake).to_bytes().to_vec())
    }

    /// A relay cell to the relay at the other end of the link. It is not encrypted before the end of the handshake.
    pub(super) fn send(&mut self, early: bool, body: &[u8; BODY_LEN]) -> Vec<u8> {
        let command = if early { command::RELAY_EARLY } else { command::RELAY };
        let frame = Frame { circ_id: self.id.0.get(), command, body };
        let Incoming::Cell(mut cell) = Incoming::of(&frame, Extended::ALL) else {
            panic!("the cell has a circuit id")
        };
        if let Some(layer) = &mut self.layer {
            cell.seal(layer);
        }
        cell.to_bytes().to_vec()
    }

    /// Handles a cell from the relay. Returns the answer of an honest client.
    pub(super) fn receive(&mut self, mut cell: LiveCell) -> Vec<u8> {
        let number = cell.wire_command();
        if number != command::RELAY && number != command::RELAY_EARLY {
            self.over |= number == command::DESTROY;
            if let Some(answer) = cell.into_handshake() {
                self.finish(&answer.data);
            }
            return Vec::new();
        }
        let Some(tag) = self.layer.as_mut().and_then(|layer| cell.peel(layer)) else {
            assert!(!self.honest || self.over, "an honest client can decrypt every cell");
            return Vec::new();
        };
        let bytes = cell.to_bytes();
        let decoded = read(bytes.last_chunk().expect("a cell is longer than its body"));
        let (stream, message) = decoded.expect("the relay's message is valid");
        match message {
            RelayMessage::Data(payload) => self.take(stream, payload.as_bytes(), tag),
            _ => Vec::new(),
        }
    }

    fn take(&mut self, stream: Option<StreamId>, bytes: &[u8], tag: Tag) -> Vec<u8> {
        self.cells += 1;
        let on_stream = self.streams.entry(stream).or_default();
        *on_stream += 1;
        let acknowledges_stream = on_stream.is_multiple_of(50) && !self.asks;
        if self.cells.is_multiple_of(self.increment) {
            self.expected_tags.push_back(tag);
        }
        if !self.honest {
            return Vec::new();
        }
        let expected = (self.came..).map(pattern);
        assert!(
            bytes.iter().copied().eq(expected.take(bytes.len())),
            "each byte arrives once and in its place"
        );
        self.came += bytes.len() as u64;
        let mut answer = Vec::new();
        if acknowledges_stream {
            answer.extend(self.send(false, &body(5, stream.map_or(0, |id| id.0.get()), &[])));
        }
        answer.extend(self.acknowledge());
        answer
    }

    pub(super) fn acknowledge(&mut self) -> Vec<u8> {
        let Some(tag) = self.expected_tags.pop_front() else { return Vec::new() };
        self.send(false, &body(5, 0, &[&[1, 0, 20], &tag.0[..]].concat()))
    }

    fn finish(&mut self, answer: &[u8]) {
        let keys = match std::mem::replace(&mut self.begun, Begun::Nothing) {
            Begun::Fast(client) => client.finish(answer),
            Begun::Ntor(client) => client.finish(answer),
            Begun::NtorV3(client) => client.finish(answer).map(|(decoded, keys)| {
                if let Ok(Negotiation::Agreed(_, increment)) = extensions::granted(&decoded) {
                    self.increment = increment.get().into();
                }
                keys
            }),
            Begun::Nothing => return,
        };
        match keys {
            Ok(keys) => self.layer = Some(Layer::client(&keys, &[self.id.0.get() as u8; 16])),
            // The answer is for an earlier circuit with the same id, which the client has closed.
            Err(_) => assert!(!self.honest, "an honest client receives a valid handshake"),
        }
    }

    pub(super) fn is_built(&self) -> bool {
        self.layer.is_some()
    }
}
