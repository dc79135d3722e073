use super::{CircuitPolicy, Priority, Weight};
use crate::keys::CircuitKey;
use penstock_units::{Cells, Instant};
use std::collections::VecDeque;

/// Serves eligible circuits in turn, one cell each.
///
/// A circuit that becomes eligible joins the end of the queue. All circuits have the same priority, so a global
/// scheduler must choose between channels by its own rule.
///
/// Source: DefenestraTor §3.1; C tor 0.2.1 `connection_or_flush_from_first_active_circuit()`. Deviation: none.
#[derive(Debug, Default)]
pub struct RoundRobin {
    turn: VecDeque<CircuitKey>,
}

impl CircuitPolicy for RoundRobin {
    fn on_ready(&mut self, _now: Instant, circuit: CircuitKey) {
        if !self.turn.contains(&circuit) {
            self.turn.push_back(circuit);
        }
    }

    fn on_blocked(&mut self, _now: Instant, circuit: CircuitKey) {
        self.on_close(circuit);
    }

    fn on_flush(&mut self, _now: Instant, circuit: CircuitKey, _cells: Cells, _weight: Weight) {
        if self.turn.front() == Some(&circuit) {
            self.turn.rotate_left(1);
        }
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        // The circuit that was just served is the last one, so the search starts at the end.
        if let Some(place) = self.turn.iter().rposition(|other| *other == circuit) {
            self.turn.remove(place);
        }
    }

    fn head(&self, _now: Instant) -> Option<(Priority, CircuitKey)> {
        self.turn.front().map(|circuit| (Priority(0.0), *circuit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(index: u32) -> CircuitKey {
        CircuitKey::from_index(index)
    }

    fn serve(policy: &mut RoundRobin) -> CircuitKey {
        let (_, circuit) = policy.head(Instant::ZERO).expect("a circuit is eligible");
        policy.on_flush(Instant::ZERO, circuit, Cells::new(1), Weight::ONE);
        circuit
    }

    #[test]
    fn circuits_take_turns() {
        let mut policy = RoundRobin::default();
        for index in [3, 1, 2] {
            policy.on_ready(Instant::ZERO, key(index));
        }
        let served: Vec<_> = (0..6).map(|_| serve(&mut policy)).collect();
        assert_eq!(served, [3, 1, 2, 3, 1, 2].map(key));
        policy.on_blocked(Instant::ZERO, key(1));
        assert_eq!([serve(&mut policy), serve(&mut policy)], [3, 2].map(key));
    }

    proptest! {
        /// G-32: among continuously backlogged circuits, service counts differ by at most one.
        #[test]
        fn backlogged_circuits_are_served_equally(circuits in 1u32..40, cells in 1usize..400) {
            let mut policy = RoundRobin::default();
            let mut served = vec![0u32; circuits as usize];
            for index in 0..circuits {
                policy.on_ready(Instant::ZERO, key(index));
            }
            for _ in 0..cells {
                served[serve(&mut policy).index()] += 1;
            }
            let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }
}
