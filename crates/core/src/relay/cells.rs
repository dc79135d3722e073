//! What arrives on a channel.

use super::{Node, Relay};
use crate::cell::{Cell, Command, Message};
use crate::circuit::{End, Leg};
use crate::edge_control::StreamFeedback;
use crate::error::Violation;
use crate::event::{Event, Station};
use crate::hop_control::{HopControl, Source};
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use crate::reason::DestroyReason;
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    /// Takes one cell; whatever is wrong with it closes what it must and no more.
    pub(super) fn on_cell(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        cell: C,
        kernel: &mut impl Kernel<C>,
    ) {
        if !self.node.channels.contains(channel.0 as usize) {
            self.node.counters.dropped += 1;
            return;
        }
        let id = cell.circ_id();
        let known = self.node.channel(channel).circuits.get(id);
        let outcome = match (cell.command(), known) {
            (Command::Create, None) => {
                self.node.on_create(now, channel, cell);
                Ok(())
            }
            // C tor ignores it, too; the circuit that has the id stays.
            (Command::Create, Some(_)) => {
                self.node.counters.consumed += 1;
                Ok(())
            }
            // Cells that were on their way while the circuit closed.
            (_, None) => {
                self.node.counters.dropped += 1;
                Ok(())
            }
            (Command::Relay, Some(circuit)) => self.on_relay_cell(now, channel, circuit, cell, kernel),
            (Command::Created, Some(circuit)) => self.on_created(now, channel, circuit, cell),
            (Command::Destroy, Some(circuit)) => {
                self.node.counters.consumed += 1;
                let from = self.node.circuit(circuit).arriving(channel, id);
                // Whatever the neighbour's reason was (C tor 0.4.9, `command_process_destroy_cell()`).
                self.close(now, circuit, Some(from), Ok(DestroyReason::DESTROYED), kernel);
                Ok(())
            }
            (Command::Feedback, Some(circuit)) => self.node.on_feedback(now, channel, circuit, &cell),
            (Command::Class, Some(circuit)) => self.node.on_class(now, channel, circuit, &cell),
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
        self.node.counters.consumed += 1;
        let state = self.node.circuit(circuit);
        let expected = std::mem::take(&mut state.extending);
        if !expected || state.arriving(channel, cell.circ_id()) != Direction::Backward {
            return Err(Violation::UnexpectedCell);
        }
        let handshake = cell.into_handshake().ok_or(Violation::UnexpectedCell)?;
        match &state.end {
            End::Origin(origin) if origin.layers.is_empty() => {
                self.node.events.push_back(Event::HandshakeAnswered { circuit, handshake });
            }
            End::Relay(_) => {
                self.node.send_relay(now, circuit, None, Message::Extended(handshake));
            }
            End::Origin(_) | End::Opening => return Err(Violation::UnexpectedCell),
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
        let circuit = self.node.circuit(index);
        let direction = circuit.arriving(channel, cell.circ_id());
        if let Err(violation) = circuit.half_mut(direction).hop.on_received(now) {
            self.node.counters.consumed += 1;
            return Err(violation);
        }
        let nearest = match &mut circuit.end {
            End::Opening => None,
            End::Relay(layer) => Some(layer),
            End::Origin(origin) => origin.layers.first_mut(),
        };
        if let Some(Err(violation)) = nearest.map(|layer| cell.admit(layer, direction)) {
            self.node.counters.consumed += 1;
            return Err(violation);
        }
        let digest = match &mut circuit.end {
            End::Opening => {
                self.node.counters.consumed += 1;
                return Err(Violation::UnexpectedCell);
            }
            End::Relay(layer) if direction == Direction::Forward => cell.peel(layer),
            End::Relay(layer) => {
                cell.wrap(layer);
                None
            }
            End::Origin(origin) => {
                let last = origin.layers.len().wrapping_sub(1);
                let mut layers = origin.layers.iter_mut().enumerate();
                match layers.find_map(|(hop, layer)| Some((hop, cell.peel(layer)?))) {
                    // Only the last hop speaks to us: it has the streams, and it extends. Others say that what is
                    // behind them is gone.
                    Some((hop, _)) if hop != last => {
                        self.node.counters.consumed += 1;
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
        let most = self.node.config.limits.max_circuit_queue as usize;
        let half = if digest.is_some() { direction.opposite() } else { direction };
        // Who ignores windows, or makes us answer what it does not read, fills no memory with it.
        if self.node.circuit(index).half(half).queue.len() >= most {
            self.node.counters.consumed += 1;
            return Err(Violation::QueueExceeded);
        }
        self.node.track(now, &cell, index, direction, Station::Parsed);
        match (digest, next) {
            (Some(digest), _) => self.on_message(now, index, cell, digest, kernel),
            (None, Some(leg)) => {
                cell.set_circ_id(leg.id);
                self.node.enqueue_from(now, index, direction, cell, Source::Before);
                Ok(())
            }
            (None, None) => {
                self.node.counters.consumed += 1;
                let truncated = self.node.circuit(index).truncated;
                if truncated { Ok(()) } else { Err(Violation::Unrecognised) }
            }
        }
    }

    /// A relay message that is meant for us.
    fn on_message(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        cell: C,
        digest: C::Digest,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        self.node.counters.consumed += 1;
        let marked = cell.is_marked();
        let (id, message) = cell.into_message().ok_or(Violation::UnexpectedCell)?;
        // DATA is delivered when the stream's connection has taken it.
        if !matches!(message, Message::Data(_)) {
            self.node.hop_delivered(now, circuit, 1);
        }
        let origin = match &self.node.circuit(circuit).end {
            End::Origin(origin) => Some(origin.built),
            End::Relay(_) | End::Opening => None,
        };
        let is_origin = origin.is_some();
        // Nobody has streams with us before the last hop is there, whose answer decides on congestion control.
        if origin == Some(false) && !matches!(message, Message::Extended(_)) {
            return Err(Violation::UnexpectedCell);
        }
        match (message, id) {
            (Message::Drop, _) => Ok(()),
            (Message::Data(payload), Some(id)) => {
                if marked {
                    self.node.note_mark(circuit);
                }
                self.node.deliver(now, circuit, id, payload, digest, kernel)
            }
            (Message::Sendme { proof, marked }, None) => {
                self.node.on_circuit_sendme(now, circuit, proof, marked)
            }
            (Message::Sendme { .. }, Some(id)) => {
                self.node.on_stream_feedback(now, circuit, id, StreamFeedback::Sendme, kernel)
            }
            (Message::Xoff, Some(id)) => {
                self.node.on_stream_feedback(now, circuit, id, StreamFeedback::Xoff, kernel)
            }
            (Message::Xon(rate), Some(id)) => {
                self.node.on_stream_feedback(now, circuit, id, StreamFeedback::Xon(rate), kernel)
            }
            (Message::End(_), Some(id)) => {
                self.node.on_end(now, circuit, id, kernel);
                Ok(())
            }
            (Message::Connected(_), Some(id)) if is_origin => {
                self.node.on_connected(circuit, id, kernel);
                Ok(())
            }
            (Message::Begin(target), Some(id)) if !is_origin => self.node.on_begin(circuit, id, target),
            (Message::Extend(to, handshake), None) if !is_origin => {
                self.node.events.push_back(Event::ExtendRequested { circuit, to, handshake });
                Ok(())
            }
            (Message::Extended(handshake), None) if is_origin => {
                if !std::mem::take(&mut self.node.circuit(circuit).extending) {
                    return Err(Violation::UnexpectedCell);
                }
                self.node.events.push_back(Event::HandshakeAnswered { circuit, handshake });
                Ok(())
            }
            (Message::Truncate, None) if !is_origin => {
                if self.node.config.hop_control.is_active() {
                    self.close(now, circuit, None, Ok(DestroyReason::REQUESTED), kernel);
                } else {
                    self.node.truncate(now, circuit);
                }
                Ok(())
            }
            // A client's circuit without its last hop is of no use to it (C tor `circuit_truncated()`).
            (Message::Truncated(_), None) if is_origin => {
                self.close(now, circuit, None, Ok(DestroyReason::NONE), kernel);
                Ok(())
            }
            _ => Err(Violation::UnexpectedCell),
        }
    }
}

impl<C: Cell> Node<C> {
    /// Takes a new circuit, or says that it does not.
    ///
    /// Source: C tor `command_process_create_cell()`.
    fn on_create(&mut self, now: Instant, channel: ChannelKey, cell: C) {
        self.counters.consumed += 1;
        let id = cell.circ_id();
        let circuits = &self.channel(channel).circuits;
        let (is_peers, count) = (circuits.is_peers(id), circuits.len());
        let refusal = match cell.into_handshake() {
            Some(_) if count >= self.config.limits.circuits_per_channel as usize => {
                DestroyReason::RESOURCE_LIMIT
            }
            Some(handshake) if is_peers => {
                let circuit = self.new_circuit(End::Opening);
                self.circuit(circuit).half_mut(Direction::Backward).to = Some(Leg { channel, id });
                self.note_busy(channel);
                self.channel(channel).circuits.insert(id, circuit);
                self.attach_circuit(circuit, Direction::Backward);
                self.events.push_back(Event::HandshakeRequested { circuit, handshake });
                return;
            }
            _ => DestroyReason::PROTOCOL,
        };
        self.send_control(now, channel, C::destroy(id, refusal));
    }
}
