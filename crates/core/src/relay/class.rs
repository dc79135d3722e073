//! Priority classes travel from the client along the circuit.

use super::Node;
use crate::cell::Cell;
use crate::circuit_policy::PriorityClass;
use crate::error::Violation;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use penstock_units::Instant;

impl<C: Cell> Node<C> {
    /// As a client: tells the relays of a built circuit what class its traffic is in, unless they know.
    pub(super) fn announce_class(&mut self, now: Instant, circuit: CircuitIndex) {
        self.set_class(now, circuit, self.config.priority_class);
    }

    /// The hop before this one says what it was told: each relay notes the class and tells the next.
    ///
    /// The cell ends here, and a new one goes on, behind what waits in the circuit's queue; so every relay of the circuit
    /// learns the class, as those of the paper do, and one that is added later does not. A class that came from the
    /// exit's side, or makes no sense, closes the circuit.
    ///
    /// Source: KIST §5.1 ("a special cell after building a circuit that communicates one of two priority classes to the
    /// circuit's relays"). Deviation: the paper does not say how its cell travels.
    pub(super) fn on_class(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        circuit: CircuitIndex,
        cell: &C,
    ) -> Result<(), Violation> {
        self.counters.consumed += 1;
        let class = cell.as_class().ok_or(Violation::UnexpectedCell)?;
        let most = self.config.limits.max_circuit_queue as usize;
        let state = self.circuit(circuit);
        if state.arriving(channel, cell.circ_id()) == Direction::Backward {
            return Err(Violation::UnexpectedCell);
        }
        if state.half(Direction::Forward).queue.len() >= most {
            return Err(Violation::QueueExceeded);
        }
        self.set_class(now, circuit, class);
        Ok(())
    }

    fn set_class(&mut self, now: Instant, circuit: CircuitIndex, class: PriorityClass) {
        let state = self.circuit(circuit);
        let changed = std::mem::replace(&mut state.class, class) != class;
        if let Some(leg) = state.half(Direction::Forward).to
            && changed
        {
            self.counters.made += 1;
            self.enqueue(now, circuit, Direction::Forward, C::class(leg.id, class));
        }
    }
}
