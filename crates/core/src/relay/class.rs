use super::Parts;
use crate::cell::Cell;
use crate::circuit_policy::PriorityClass;
use crate::error::Violation;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use penstock_units::Instant;

impl<C: Cell> Parts<C> {
    /// Announces the client's priority class to the relays of a built circuit, unless they already use it.
    pub(super) fn announce_class(&mut self, now: Instant, circuit: CircuitIndex) {
        self.set_class(now, circuit, self.config.priority_class);
    }

    /// Stores the class that the previous hop announces, and announces it to the next hop.
    ///
    /// The announcement is a new cell at the end of the circuit's queue. As in the paper, every relay of the circuit
    /// learns the class, except relays that are added later. If a class cell is malformed or comes from the exit's
    /// side, the circuit closes.
    /// Source: KIST §5.1 ("a special cell after building a circuit that communicates one of two priority classes to the
    /// circuit's relays").
    /// Deviation: the paper does not say how the special cell travels.
    pub(super) fn on_class(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        circuit: CircuitIndex,
        cell: &C,
    ) -> Result<(), Violation> {
        self.counters.consumed += 1;
        let class = cell.as_class().ok_or(Violation::UnexpectedCell)?;
        let state = &self.circuits[circuit];
        if state.direction_from(channel, cell.circ_id()) == Direction::Backward {
            return Err(Violation::UnexpectedCell);
        }
        if state.half(Direction::Forward).queue.len() >= self.config.limits.max_circuit_queue as usize {
            return Err(Violation::QueueExceeded);
        }
        self.set_class(now, circuit, class);
        Ok(())
    }

    fn set_class(&mut self, now: Instant, circuit: CircuitIndex, class: PriorityClass) {
        let state = &mut self.circuits[circuit];
        let changed = std::mem::replace(&mut state.class, class) != class;
        if let Some(leg) = state.half(Direction::Forward).to
            && changed
        {
            self.counters.made += 1;
            self.enqueue(now, circuit, Direction::Forward, C::class(leg.id, class));
        }
    }
}
