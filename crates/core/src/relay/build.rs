//! Circuits are built hop by hop, with CREATE and EXTEND.

use super::{Ends, Node, Relay};
use crate::Violation;
use crate::cell::{Cell, Message, PeerId, StreamId};
use crate::circuit::{Circuit, End, Leg, Origin};
use crate::edge_control::Negotiation;
use crate::event::Event;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use penstock_units::Instant;
use std::collections::VecDeque;

/// The client's side.
impl<C: Cell> Relay<C> {
    /// Begins a circuit whose first hop is `first`, to be extended to each of `rest` in turn. `controlled` says that
    /// by the consensus each of them controls its hops, so that the circuit's ends need no windows.
    pub fn open_circuit(
        &mut self,
        _now: Instant,
        first: PeerId,
        rest: impl IntoIterator<Item = C::LinkSpec>,
        controlled: bool,
    ) -> CircuitIndex {
        let to_extend: VecDeque<_> = rest.into_iter().collect();
        let layers = Vec::with_capacity(to_extend.len() + 1);
        let ask = self.node.ask(to_extend.is_empty(), controlled);
        let origin = Origin { to_extend, layers, built: false, controlled };
        let circuit = self.node.new_circuit(End::Origin(Box::new(origin)));
        self.node.join(circuit, first, true);
        self.node.events.push_back(Event::HandshakeNeeded { circuit, hop: 0, ask });
        circuit
    }

    /// Sends the handshake that [`Event::HandshakeNeeded`] asked for.
    pub fn start_handshake(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        handshake: C::Handshake,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.node.circuits.get_mut(circuit.0 as usize) else { return };
        let leg = state.half(Direction::Forward).to;
        let End::Origin(origin) = &mut state.end else { return };
        let extend = if origin.layers.is_empty() { None } else { origin.to_extend.pop_front() };
        state.extending = true;
        match (extend, leg) {
            (Some(to), _) => {
                self.node.send_relay(now, circuit, None, Message::Extend(to, handshake));
            }
            (None, Some(leg)) => self.node.send_create(now, circuit, leg, handshake),
            (None, None) => return,
        }
        self.settle(now, kernel);
    }

    /// Adds the hop that [`Event::HandshakeAnswered`] announced, with what it said of congestion control.
    pub fn finish_handshake(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        layer: C::Layer,
        answer: Negotiation,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.node.circuits.get_mut(circuit.0 as usize) else { return };
        let End::Origin(origin) = &mut state.end else { return };
        origin.layers.push(layer);
        let (hop, left, controlled) = (origin.layers.len(), origin.to_extend.len(), origin.controlled);
        origin.built = left == 0;
        let asked = self.node.ask(left == 0, controlled);
        match self.node.config.edge_control.accept(asked, answer) {
            Ok(agreed) => self.node.circuit(circuit).agreed = agreed,
            Err(violation) => {
                self.close(now, circuit, None, Err(violation), kernel);
                self.settle(now, kernel);
                return;
            }
        }
        let next = if left == 0 {
            Event::CircuitBuilt { circuit }
        } else {
            Event::HandshakeNeeded { circuit, hop, ask: self.node.ask(left == 1, controlled) }
        };
        self.node.events.push_back(next);
    }
}

/// A relay's side.
impl<C: Cell> Relay<C> {
    /// What to answer the client of `circuit`, by what it said of congestion control and windows; it may be asked in
    /// another thread. Windows are off only if the hop by which the circuit comes is controlled, whatever the client says of
    /// its path.
    pub fn agree(
        &self,
        circuit: CircuitIndex,
    ) -> impl FnOnce(Negotiation) -> Negotiation + Send + 'static + use<C> {
        let leg = self.leg(circuit, Direction::Backward);
        let controlled =
            leg.is_some_and(|(channel, _)| self.node.channels[channel.0 as usize].hops.is_some());
        let config = self.node.config.clone();
        move |asked| config.edge_control.answer(asked, controlled)
    }

    /// Answers the CREATE that [`Event::HandshakeRequested`] brought; `reply` has `answer` in it, which
    /// [`agree`](Self::agree) gave.
    pub fn on_handshake(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        reply: C::Handshake,
        layer: C::Layer,
        answer: Negotiation,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.node.circuits.get_mut(circuit.0 as usize) else { return };
        let Some(leg) = state.half(Direction::Backward).to else { return };
        if !matches!(state.end, End::Opening) {
            return;
        }
        state.end = End::Relay(layer);
        state.agreed = answer.agreement();
        self.node.counters.made += 1;
        self.node.enqueue(now, circuit, Direction::Backward, C::created(leg.id, reply));
        self.settle(now, kernel);
    }

    /// Extends `circuit` to `peer`, as [`Event::ExtendRequested`] asked.
    pub fn extend(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        peer: PeerId,
        handshake: C::Handshake,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.node.circuits.get(circuit.0 as usize) else { return };
        if state.half(Direction::Forward).to.is_some() {
            self.close(now, circuit, None, Err(Violation::UnexpectedCell), kernel);
        } else {
            let leg = self.node.join(circuit, peer, false);
            let state = self.node.circuit(circuit);
            (state.extending, state.truncated) = (true, false);
            self.node.send_create(now, circuit, leg, handshake);
        }
        self.settle(now, kernel);
    }
}

impl<C: Cell> Node<C> {
    pub(super) fn new_circuit(&mut self, end: End<C>) -> CircuitIndex {
        let rate = self.config.bandwidth.map(|bandwidth| bandwidth.rate);
        let hops = [self.config.hop_control.build(rate), self.config.hop_control.build(rate)];
        CircuitIndex(self.circuits.insert(Circuit::new(end, hops)) as u32)
    }

    /// What a client's handshake with a circuit's last hop, or an earlier one, says of congestion control, and of
    /// windows if the path's hops are `controlled`.
    fn ask(&self, is_last: bool, controlled: bool) -> Negotiation {
        let controlled = controlled && self.config.hop_control.is_active();
        if is_last { self.config.edge_control.ask(controlled) } else { Negotiation::Nothing }
    }

    /// Gives `circuit` its forward leg, over a channel that may still have to be opened; `own` if it begins here.
    fn join(&mut self, circuit: CircuitIndex, peer: PeerId, own: bool) -> Leg {
        let channel = self.channel_to(peer, own);
        self.note_busy(channel);
        let id = self.channel(channel).circuits.allocate(circuit);
        let leg = Leg { channel, id };
        self.circuit(circuit).half_mut(Direction::Forward).to = Some(leg);
        self.attach_circuit(circuit, Direction::Forward);
        leg
    }

    fn channel_to(&mut self, peer: PeerId, with_client: bool) -> ChannelKey {
        if let Some(channel) = self.shared_with(peer) {
            return channel;
        }
        let channel = self.add_channel(peer, Ends { to_client: false, with_client, initiator: true });
        self.events.push_back(Event::Connect { channel, peer });
        channel
    }

    /// The channel to `peer` that the map chooses, if it has an id left.
    pub(super) fn shared_with(&self, peer: PeerId) -> Option<ChannelKey> {
        let existing = self.by_peer.get(&peer).map_or(&[][..], Vec::as_slice);
        let chosen = self.channel_map.choose(peer, existing);
        chosen.filter(|channel| !self.channels[channel.0 as usize].circuits.is_full())
    }

    /// Queues a CREATE as a circuit's cell, so that it shares the circuit's priority.
    fn send_create(&mut self, now: Instant, circuit: CircuitIndex, leg: Leg, handshake: C::Handshake) {
        self.counters.made += 1;
        self.enqueue(now, circuit, Direction::Forward, C::create(leg.id, handshake));
    }

    /// Sends a relay message from this end of the circuit to the other one; returns its digest if it could.
    pub(super) fn send_relay(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        stream: Option<StreamId>,
        message: Message<C>,
    ) -> Option<C::Digest> {
        let state = self.circuit(circuit);
        let direction = state.outward();
        let leg = state.half(direction).to?;
        let mut cell = C::relay(leg.id, stream, message);
        let digest = match &mut state.end {
            End::Opening => return None,
            End::Relay(layer) => cell.seal(layer),
            End::Origin(origin) => {
                let (last, nearer) = origin.layers.split_last_mut()?;
                let digest = cell.seal(last);
                nearer.iter_mut().rev().for_each(|layer| cell.wrap(layer));
                digest
            }
        };
        self.counters.made += 1;
        self.enqueue(now, circuit, direction, cell);
        Some(digest)
    }
}
