//! Building circuits hop by hop, with CREATE and EXTEND.

use super::channels::ChannelEnds;
use super::{Parts, Relay};
use crate::Violation;
use crate::cell::{Cell, CircId, Message, PeerId, StreamId};
use crate::circuit::{Circuit, Edge, Leg, Origin, Role};
use crate::edge_control::Negotiation;
use crate::event::Event;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use penstock_units::Instant;
use std::collections::VecDeque;

impl<C: Cell> Relay<C> {
    /// Creates a circuit with the first hop `first`. The client then extends the circuit to each relay of `rest`.
    /// `controlled`: the consensus says that each of these relays offers hop control, so the ends of the circuit need
    /// no windows.
    pub fn open_circuit(
        &mut self,
        _now: Instant,
        first: PeerId,
        rest: impl IntoIterator<Item = C::LinkSpec>,
        controlled: bool,
    ) -> CircuitIndex {
        let to_extend: VecDeque<_> = rest.into_iter().collect();
        let layers = Vec::with_capacity(to_extend.len() + 1);
        let ask = self.parts.ask(0, to_extend.is_empty(), controlled);
        let origin = Origin { to_extend, layers, built: false, controlled };
        let circuit = self.parts.new_circuit(Role::Origin(Box::new(origin)));
        self.parts.join(circuit, first, true);
        self.parts.events.push(Event::HandshakeNeeded { circuit, hop: 0, ask });
        circuit
    }

    /// Sends a handshake, in answer to [`Event::HandshakeNeeded`].
    pub fn start_handshake(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        handshake: C::Handshake,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.parts.circuits.get_mut(circuit) else { return };
        let leg = state.half(Direction::Forward).to;
        let Role::Origin(origin) = &mut state.role else { return };
        let extend = if origin.layers.is_empty() { None } else { origin.to_extend.pop_front() };
        state.extending = true;
        match (extend, leg) {
            (Some(to), _) => {
                self.parts.send_relay(now, circuit, None, Message::Extend(to, handshake));
            }
            (None, Some(leg)) => self.parts.send_create(now, circuit, leg, handshake),
            (None, None) => return,
        }
        self.settle(now, kernel);
    }

    /// Adds the hop of [`Event::HandshakeAnswered`]. The arguments include the hop's answer to the congestion control
    /// request.
    pub fn finish_handshake(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        layer: C::Layer,
        answer: Negotiation,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.parts.circuits.get_mut(circuit) else { return };
        let Role::Origin(origin) = &mut state.role else { return };
        origin.layers.push(layer);
        let (hop, left, controlled) = (origin.layers.len(), origin.to_extend.len(), origin.controlled);
        origin.built = left == 0;
        let asked = self.parts.ask(hop - 1, left == 0, controlled);
        // A link without hop control, for example from before its activation, keeps the windows of this circuit. The
        // client itself knows the state of its own link.
        let controlled = controlled
            && self.parts.is_controlled(circuit, Direction::Forward)
            && (asked != Negotiation::HopAsked || answer == Negotiation::HopAgreed);
        if let Role::Origin(origin) = &mut self.parts.circuits[circuit].role {
            origin.controlled = controlled;
        }
        match self.parts.config.edge_control.accept(asked, answer) {
            Ok(agreed) => self.parts.circuits[circuit].agreed = agreed,
            Err(violation) => {
                self.close(now, circuit, None, Err(violation), kernel);
                self.settle(now, kernel);
                return;
            }
        }
        let next = if left == 0 {
            Event::CircuitBuilt { circuit }
        } else {
            Event::HandshakeNeeded { circuit, hop, ask: self.parts.ask(hop, left == 1, controlled) }
        };
        self.parts.events.push(next);
    }
}

impl<C: Cell> Relay<C> {
    /// Returns a function that answers the client's request about congestion control and windows. Any thread may call
    /// the function. The function agrees to use no end-to-end windows only if the hop towards the client has hop
    /// control.
    pub fn agree(
        &self,
        circuit: CircuitIndex,
    ) -> impl FnOnce(Negotiation) -> Negotiation + Send + 'static + use<C> {
        let exists = self.parts.circuits.get(circuit).is_some();
        let controlled = exists && self.parts.is_controlled(circuit, Direction::Backward);
        let config = self.parts.config.clone();
        move |asked| config.edge_control.answer(asked, controlled)
    }

    /// Answers the CREATE of [`Event::HandshakeRequested`]. `reply` contains `answer`, which [`agree`](Self::agree)
    /// returned.
    pub fn on_handshake(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        reply: C::Handshake,
        layer: C::Layer,
        answer: Negotiation,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.parts.circuits.get_mut(circuit) else { return };
        let Some(leg) = state.half(Direction::Backward).to else { return };
        if !matches!(state.role, Role::Opening) {
            return;
        }
        state.role = Role::Relay(layer);
        state.agreed = answer.agreement();
        self.parts.counters.made += 1;
        self.parts.enqueue(now, circuit, Direction::Backward, C::created(leg.id, reply));
        self.settle(now, kernel);
    }

    /// Extends `circuit` to `peer`, in answer to [`Event::ExtendRequested`].
    pub fn extend(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        peer: PeerId,
        handshake: C::Handshake,
        kernel: &mut impl crate::Kernel<C>,
    ) {
        let Some(state) = self.parts.circuits.get(circuit) else { return };
        // A circuit that is linked or joined ends here. The client may have sent LINK or RENDEZVOUS1 with the EXTEND.
        let is_end = state.edge.as_deref().is_some_and(Edge::has_partners);
        if is_end || state.half(Direction::Forward).to.is_some() {
            self.close(now, circuit, None, Err(Violation::UnexpectedCell), kernel);
        } else {
            let leg = self.parts.join(circuit, peer, false);
            let state = &mut self.parts.circuits[circuit];
            (state.extending, state.truncated) = (true, false);
            self.parts.send_create(now, circuit, leg, handshake);
        }
        self.settle(now, kernel);
    }
}

impl<C: Cell> Parts<C> {
    pub(super) fn new_circuit(&mut self, role: Role<C>) -> CircuitIndex {
        let rate = self.config.bandwidth.map(|bandwidth| bandwidth.rate);
        let hops = [self.config.hop_control.build(rate), self.config.hop_control.build(rate)];
        self.circuits.insert(Circuit::new(role, hops))
    }

    pub(super) fn circuit_of(&self, channel: ChannelKey, id: CircId) -> Option<CircuitIndex> {
        self.channels.get(channel)?.circuits.get(id)
    }

    /// The request in the client's handshake with hop number `hop`, from 0. `controlled`: every relay of the path offers
    /// hop control.
    fn ask(&self, hop: usize, is_last: bool, controlled: bool) -> Negotiation {
        let controlled = controlled && self.config.hop_control.is_active();
        self.config.edge_control.ask_hop(hop, is_last, controlled)
    }

    /// Connects a circuit to the next hop `peer`, over a shared channel or a new channel. `own`: the circuit begins at
    /// this node.
    fn join(&mut self, circuit: CircuitIndex, peer: PeerId, own: bool) -> Leg {
        let channel = self.channels.shared_with(peer).unwrap_or_else(|| {
            let ends = ChannelEnds { to_client: false, with_client: own, initiator: true };
            let channel = self.channels.insert(peer, ends, &self.config);
            self.events.push(Event::Connect { channel, peer });
            channel
        });
        self.stop_idle_timeout(channel);
        let id = self.channels[channel].circuits.allocate(circuit);
        let leg = Leg { channel, id };
        self.circuits[circuit].half_mut(Direction::Forward).to = Some(leg);
        self.attach_circuit(circuit, Direction::Forward);
        leg
    }

    /// Sends a CREATE through the circuit's queue, so that the CREATE has the circuit's priority.
    fn send_create(&mut self, now: Instant, circuit: CircuitIndex, leg: Leg, handshake: C::Handshake) {
        self.counters.made += 1;
        self.enqueue(now, circuit, Direction::Forward, C::create(leg.id, handshake));
    }

    /// Sends a relay message from this end of the circuit, or of its linked circuits, to the other end. Returns its
    /// digest, or `None` if it cannot be sent.
    pub(super) fn send_relay(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        stream: Option<StreamId>,
        message: Message<C>,
    ) -> Option<C::Digest> {
        let leg = if message.is_multiplexed() { self.message_leg(circuit) } else { circuit };
        self.send_on_leg(now, leg, stream, message)
    }

    /// Sends a relay message on this circuit.
    pub(super) fn seal_and_enqueue(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        stream: Option<StreamId>,
        message: Message<C>,
    ) -> Option<C::Digest> {
        let state = &mut self.circuits[circuit];
        let direction = state.own_direction();
        let leg = state.half(direction).to?;
        let mut cell = C::relay(leg.id, stream, message);
        let digest = match &mut state.role {
            Role::Opening => return None,
            Role::Relay(layer) => cell.seal(layer),
            Role::Origin(origin) => {
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
