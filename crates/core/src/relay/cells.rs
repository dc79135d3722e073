use super::{Parts, Relay};
use crate::cell::{Cell, Command, Message, StreamId};
use crate::circuit::{Edge, Leg, Role};
use crate::edge_control::StreamFeedback;
use crate::error::Violation;
use crate::event::{Event, Station};
use crate::hop_control::{HopControl, Source};
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use crate::reason::DestroyReason;
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    pub(super) fn on_cell(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        cell: C,
        kernel: &mut impl Kernel<C>,
    ) {
        if !self.parts.channels.contains(channel) {
            self.parts.counters.dropped += 1;
            return;
        }
        let id = cell.circ_id();
        let known = self.parts.channels[channel].circuits.get(id);
        let outcome = match (cell.command(), known) {
            (Command::Create, None) => {
                self.parts.on_create(now, channel, cell);
                Ok(())
            }
            // C tor also ignores this cell. The circuit with this id stays open.
            (Command::Create, Some(_)) => {
                self.parts.counters.consumed += 1;
                Ok(())
            }
            (_, None) => {
                self.parts.counters.dropped += 1;
                Ok(())
            }
            (Command::Relay, Some(circuit)) => self.on_relay_cell(now, channel, circuit, cell, kernel),
            (Command::Created, Some(circuit)) => self.on_created(now, channel, circuit, cell),
            (Command::Destroy, Some(circuit)) => {
                self.parts.counters.consumed += 1;
                let from = self.parts.circuits[circuit].direction_from(channel, id);
                // The next DESTROY does not repeat the neighbour's reason (C tor 0.4.9,
                // `command_process_destroy_cell()`).
                self.close(now, circuit, Some(from), Ok(DestroyReason::DESTROYED), kernel);
                Ok(())
            }
            (Command::Feedback, Some(circuit)) => self.parts.on_feedback(now, channel, circuit, &cell),
            (Command::Class, Some(circuit)) => self.parts.on_class(now, channel, circuit, &cell),
        };
        if let (Err(violation), Some(circuit)) = (outcome, known) {
            self.close(now, circuit, None, Err(violation), kernel);
        }
    }

    fn on_created(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        circuit: CircuitIndex,
        cell: C,
    ) -> Result<(), Violation> {
        self.parts.counters.consumed += 1;
        let state = &mut self.parts.circuits[circuit];
        let expected = std::mem::take(&mut state.extending);
        if !expected || state.direction_from(channel, cell.circ_id()) != Direction::Backward {
            return Err(Violation::UnexpectedCell);
        }
        let handshake = cell.into_handshake().ok_or(Violation::UnexpectedCell)?;
        match &state.role {
            Role::Origin(origin) if origin.layers.is_empty() => {
                self.parts.events.push(Event::HandshakeAnswered { circuit, handshake });
            }
            Role::Relay(_) => {
                self.parts.send_relay(now, circuit, None, Message::Extended(handshake));
            }
            Role::Origin(_) | Role::Opening => return Err(Violation::UnexpectedCell),
        }
        Ok(())
    }

    fn on_relay_cell(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        index: CircuitIndex,
        mut cell: C,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        let circuit = &mut self.parts.circuits[index];
        let direction = circuit.direction_from(channel, cell.circ_id());
        if let Err(violation) = circuit.half_mut(direction).hop.on_received(now) {
            self.parts.counters.consumed += 1;
            return Err(violation);
        }
        let nearest = match &mut circuit.role {
            Role::Opening => None,
            Role::Relay(layer) => Some(layer),
            Role::Origin(origin) => origin.layers.first_mut(),
        };
        if let Some(Err(violation)) = nearest.map(|layer| cell.admit(layer, direction)) {
            self.parts.counters.consumed += 1;
            return Err(violation);
        }
        let digest = match &mut circuit.role {
            Role::Opening => {
                self.parts.counters.consumed += 1;
                return Err(Violation::UnexpectedCell);
            }
            Role::Relay(layer) if direction == Direction::Forward => cell.peel(layer),
            Role::Relay(layer) => {
                cell.wrap(layer);
                None
            }
            Role::Origin(origin) => {
                let last = origin.layers.len().wrapping_sub(1);
                let mut layers = origin.layers.iter_mut().enumerate();
                match layers.find_map(|(hop, layer)| Some((hop, cell.peel(layer)?))) {
                    // Only the last hop has streams and extends the circuit. Any other hop only reports that the
                    // circuit has lost the hops after that hop.
                    Some((hop, _)) if hop != last => {
                        self.parts.counters.consumed += 1;
                        let said = cell.into_message();
                        if !matches!(said, Some((None, Message::Truncated(_)))) {
                            return Err(Violation::UnexpectedCell);
                        }
                        self.close(now, index, None, Ok(DestroyReason::NONE), kernel);
                        return Ok(());
                    }
                    found => found.map(|(_, digest)| digest),
                }
            }
        };
        let next = circuit.half(direction).to;
        let max = self.parts.config.limits.max_circuit_queue as usize;
        let half = if digest.is_some() { direction.opposite() } else { direction };
        // A peer might ignore windows or not read answers. It must not fill the relay's memory.
        if circuit.half(half).queue.len() >= max {
            self.parts.counters.consumed += 1;
            return Err(Violation::QueueExceeded);
        }
        self.parts.events.track(now, &cell, index, direction, Station::Parsed);
        match (digest, next) {
            (Some(digest), _) => self.on_message(now, index, cell, digest, kernel),
            (None, Some(leg)) => {
                cell.set_circ_id(leg.id);
                self.parts.enqueue_from(now, index, direction, cell, Source::Before);
                Ok(())
            }
            (None, None) if self.parts.joined(index).is_some() => self.parts.cross(now, index, cell),
            (None, None) => {
                self.parts.counters.consumed += 1;
                let truncated = self.parts.circuits[index].truncated;
                if truncated { Ok(()) } else { Err(Violation::Unrecognised) }
            }
        }
    }

    fn on_message(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        cell: C,
        digest: C::Digest,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        self.parts.counters.consumed += 1;
        let marked = cell.is_marked();
        let (id, message) = cell.into_message().ok_or(Violation::UnexpectedCell)?;
        let set = self.parts.set_of(circuit);
        // A DATA cell counts as delivered when the stream's connection has taken its payload. Every other message, and
        // every message of linked circuits, counts as delivered now.
        let is_data = matches!(message, Message::Data(_));
        if !is_data || set.is_some() {
            self.parts.hop_delivered(now, circuit, 1);
        }
        let origin = match &self.parts.circuits[circuit].role {
            Role::Origin(origin) => Some(origin.built),
            Role::Relay(_) | Role::Opening => None,
        };
        // No stream can exist before the last hop is added, because that hop's answer decides on congestion control.
        if origin == Some(false) && !matches!(message, Message::Extended(_)) {
            return Err(Violation::UnexpectedCell);
        }
        if is_data && id.is_some() {
            self.parts.on_data(now, circuit, marked, digest)?;
        }
        let Some(set) = set.filter(|_| message.is_multiplexed()) else {
            return self.on_ordered_message(now, circuit, id, message, kernel);
        };
        if let Some((owner, id, message)) = self.parts.arrange(now, set, circuit, id, message)? {
            self.on_ordered_message(now, owner, id, message, kernel)?;
            self.release(now, set, kernel)?;
        }
        Ok(())
    }

    /// Handles the next message of a circuit, or of linked circuits. The first of the linked circuits then stands for
    /// all of them.
    pub(super) fn on_ordered_message(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        id: Option<StreamId>,
        message: Message<C>,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        let is_origin = matches!(self.parts.circuits[circuit].role, Role::Origin(_));
        match (message, id) {
            (Message::Drop, _) => Ok(()),
            (Message::Data(payload), Some(id)) => self.parts.deliver(now, circuit, id, payload, kernel),
            (Message::Sendme { proof, marked }, None) => {
                self.parts.on_circuit_sendme(now, circuit, proof, marked)
            }
            (Message::Sendme { .. }, Some(id)) => {
                self.parts.on_stream_feedback(now, circuit, id, StreamFeedback::Sendme, kernel)
            }
            (Message::Xoff, Some(id)) => {
                self.parts.on_stream_feedback(now, circuit, id, StreamFeedback::Xoff, kernel)
            }
            (Message::Xon(rate), Some(id)) => {
                self.parts.on_stream_feedback(now, circuit, id, StreamFeedback::Xon(rate), kernel)
            }
            (Message::End(end), Some(id)) => {
                self.parts.on_end(now, circuit, id, is_origin.then_some(end), kernel);
                Ok(())
            }
            (Message::Connected(_), Some(id)) if is_origin => {
                self.parts.on_connected(circuit, id, kernel);
                Ok(())
            }
            (Message::Begin(target), Some(id)) if !is_origin => self.parts.on_begin(circuit, id, target),
            (Message::Link(link), None) if !is_origin => self.parts.on_link(now, circuit, &link),
            (Message::Linked(link), None) if is_origin => self.parts.on_linked(now, circuit, &link),
            (Message::LinkedAck, None) if !is_origin => self.parts.on_linked_ack(now, circuit),
            (Message::Switch(relative), None) => self.parts.on_switch(circuit, relative),
            (Message::Extend(..), None)
                if self.parts.circuits[circuit].edge.as_deref().is_some_and(Edge::has_partners) =>
            {
                Err(Violation::UnexpectedCell)
            }
            (Message::OnionService(message), _) => self.parts.on_onion_service(circuit, message),
            (Message::Extend(to, handshake), None) if !is_origin => {
                self.parts.events.push(Event::ExtendRequested { circuit, to, handshake });
                Ok(())
            }
            (Message::Extended(handshake), None) if is_origin => {
                if !std::mem::take(&mut self.parts.circuits[circuit].extending) {
                    return Err(Violation::UnexpectedCell);
                }
                self.parts.events.push(Event::HandshakeAnswered { circuit, handshake });
                Ok(())
            }
            (Message::Truncate, None) if !is_origin => {
                if self.parts.is_controlled(circuit, Direction::Forward) {
                    // The counters for the removed hop do not fit a new one.
                    self.close(now, circuit, None, Ok(DestroyReason::REQUESTED), kernel);
                } else {
                    self.parts.truncate(now, circuit);
                }
                Ok(())
            }
            // A client closes a circuit that has lost its last hop (C tor `circuit_truncated()`).
            (Message::Truncated(_), None) if is_origin => {
                self.close(now, circuit, None, Ok(DestroyReason::NONE), kernel);
                Ok(())
            }
            _ => Err(Violation::UnexpectedCell),
        }
    }
}

impl<C: Cell> Parts<C> {
    /// Accepts a new circuit, or answers with DESTROY. Source: C tor `command_process_create_cell()`.
    fn on_create(&mut self, now: Instant, channel: ChannelKey, cell: C) {
        self.counters.consumed += 1;
        let id = cell.circ_id();
        let circuits = &self.channels[channel].circuits;
        let (is_peers, count) = (circuits.is_peers(id), circuits.len());
        let refusal = match cell.into_handshake() {
            Some(_) if count >= self.config.limits.circuits_per_channel as usize => {
                DestroyReason::RESOURCE_LIMIT
            }
            Some(handshake) if is_peers => {
                let circuit = self.new_circuit(Role::Opening);
                self.circuits[circuit].half_mut(Direction::Backward).to = Some(Leg { channel, id });
                self.stop_idle_timeout(channel);
                self.channels[channel].circuits.insert(id, circuit);
                self.attach_circuit(circuit, Direction::Backward);
                self.events.push(Event::HandshakeRequested { circuit, handshake });
                return;
            }
            _ => DestroyReason::PROTOCOL,
        };
        self.send_control(now, channel, C::destroy(id, refusal));
    }
}
