//! Circuits of onion services that end at this relay. The driver decides which circuits it joins (rend-spec-v3). A
//! rendezvous point joins the client's circuit with the service's circuit. A cell that arrives on one of them, and that is
//! not for this relay, leaves on the other one.
//!
//! Deviation: hop control ends at the rendezvous point. The ends' windows limit the queue of the second circuit.

use super::{Parts, Relay};
use crate::cell::{Cell, Message};
use crate::circuit::{Circuit, Edge, Role};
use crate::error::Violation;
use crate::event::{Event, Station};
use crate::kernel::Kernel;
use crate::keys::{CircuitIndex, Direction};
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    /// Sends a message of an onion service's protocol to the client or service whose circuit ends here. Returns false if
    /// the circuit has closed, or if its queue is full.
    pub fn send_onion_service(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        message: C::OnionService,
        kernel: &mut impl Kernel<C>,
    ) -> bool {
        let parts = &mut self.parts;
        let max = parts.config.limits.max_circuit_queue as usize;
        let has_room = |state: &Circuit<C>| state.own_half().queue.len() < max;
        if !parts.circuits.get(circuit).is_some_and(has_room) {
            return false;
        }
        // With an edge, the circuit does not count as unused.
        parts.edge(circuit);
        parts.send_relay(now, circuit, None, Message::OnionService(message));
        self.settle(now, kernel);
        true
    }

    /// Joins two circuits that end here. If one of them closes, both close. Returns false if one of them is not free.
    ///
    /// Source: C tor `rend_mid_rendezvous()`. Deviation: the DESTROY of the second circuit has the reason FINISHED.
    pub fn join_circuits(&mut self, one: CircuitIndex, other: CircuitIndex) -> bool {
        let parts = &mut self.parts;
        if one == other || ![one, other].into_iter().all(|circuit| parts.is_free(circuit)) {
            return false;
        }
        parts.edge(one).joined = Some(other);
        parts.edge(other).joined = Some(one);
        true
    }

    /// Whether the circuit ends at this relay, without streams, and is neither linked nor joined.
    pub fn is_free(&self, circuit: CircuitIndex) -> bool {
        self.parts.is_free(circuit)
    }

    /// The encryption layer that this relay shares with the client of a circuit.
    pub fn layer(&self, circuit: CircuitIndex) -> Option<&C::Layer> {
        match &self.parts.circuits.get(circuit)?.role {
            Role::Relay(layer) => Some(layer),
            Role::Opening | Role::Origin(_) => None,
        }
    }
}

#[cfg(test)]
impl<C: Cell> Relay<C> {
    /// Adds the layer that the client and the onion service share after their rendezvous.
    pub(crate) fn add_layer(&mut self, circuit: CircuitIndex, layer: C::Layer) {
        let Role::Origin(origin) = &mut self.parts.circuits[circuit].role else {
            panic!("a client's circuit")
        };
        origin.layers.push(layer);
    }
}

impl<C: Cell> Parts<C> {
    fn is_free(&self, circuit: CircuitIndex) -> bool {
        let Some(state) = self.circuits.get(circuit) else { return false };
        matches!(state.role, Role::Relay(_))
            && state.half(Direction::Forward).to.is_none()
            && state.edge.as_deref().is_none_or(Edge::is_unused)
    }

    pub(super) fn joined(&self, circuit: CircuitIndex) -> Option<CircuitIndex> {
        self.circuits[circuit].edge.as_deref()?.joined
    }

    pub(super) fn on_onion_service(
        &mut self,
        circuit: CircuitIndex,
        message: C::OnionService,
    ) -> Result<(), Violation> {
        let state = &self.circuits[circuit];
        if matches!(state.role, Role::Relay(_)) && state.half(Direction::Forward).to.is_some() {
            return Err(Violation::UnexpectedCell);
        }
        self.events.push(Event::OnionService { circuit, message });
        Ok(())
    }

    /// Moves a cell that arrived on a joined circuit to the other circuit.
    ///
    /// Source: C tor `circuit_receive_relay_cell()`.
    pub(super) fn cross(&mut self, now: Instant, from: CircuitIndex, mut cell: C) -> Result<(), Violation> {
        let max = self.config.limits.max_circuit_queue as usize;
        let to = self.joined(from).expect("the caller checks it");
        self.hop_delivered(now, from, 1);
        let state = &mut self.circuits[to];
        let half = state.half(Direction::Backward);
        let (Some(leg), true) = (half.to, half.queue.len() < max) else {
            self.counters.consumed += 1;
            return Err(Violation::QueueExceeded);
        };
        let Role::Relay(layer) = &mut state.role else { unreachable!("only circuits of relays are joined") };
        cell.wrap(layer);
        cell.cross();
        cell.set_circ_id(leg.id);
        self.events.track(now, &cell, to, Direction::Backward, Station::Parsed);
        self.enqueue(now, to, Direction::Backward, cell);
        Ok(())
    }

    /// Ends the connection of a circuit with its joined circuit. Returns the joined circuit.
    pub(super) fn separate(&mut self, circuit: CircuitIndex) -> Option<CircuitIndex> {
        let other = self.circuits[circuit].edge.as_deref_mut()?.joined.take()?;
        self.edge(other).joined = None;
        Some(other)
    }
}
