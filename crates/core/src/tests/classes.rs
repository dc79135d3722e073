//! Priority classes along a circuit (K-38).

use super::util::Net;

use crate::circuit_policy::{
    CircuitPolicy, CircuitPolicyConfig, Priority, PriorityClass, PriorityFactor, RoundRobin, Weight,
};
use crate::keys::CircuitKey;
use crate::{Factory, RelayConfig};
use penstock_units::{Cells, Instant};

const FACTOR: f64 = 7.0;

/// Takes turns, and panics at a DATA-like crowd of cells of another weight than `FACTOR` says.
#[derive(Debug, Default)]
struct Scale<const WORSE: bool> {
    turns: RoundRobin,
    /// Cells at their own weight, and at the factor.
    charged: [u64; 2],
}

impl<const WORSE: bool> CircuitPolicy for Scale<WORSE> {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        self.turns.on_ready(now, circuit);
    }
    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        self.turns.on_blocked(now, circuit);
    }
    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        assert!([1.0, FACTOR].contains(&weight.0));
        self.charged[usize::from(weight.0 == FACTOR)] += cells.get();
        // Building and announcing come before the class is known.
        assert!(self.charged[usize::from(!WORSE)] < 12, "{:?}", self.charged);
        self.turns.on_flush(now, circuit, cells, weight);
    }
    fn on_close(&mut self, circuit: CircuitKey) {
        self.turns.on_close(circuit);
    }
    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        self.turns.head(now)
    }
}

/// All relays of the path learn the class, in both directions, and those of other circuits do not.
#[test]
fn every_relay_charges_cells_as_their_client_said() {
    let worse = || Box::new(Scale::<true>::default()) as Box<dyn CircuitPolicy>;
    let better = || Box::new(Scale::<false>::default()) as Box<dyn CircuitPolicy>;
    for (class, policy) in [
        (PriorityClass::Worse, CircuitPolicyConfig::Custom(Factory::<dyn CircuitPolicy>::new(worse))),
        (PriorityClass::Better, CircuitPolicyConfig::Custom(Factory::<dyn CircuitPolicy>::new(better))),
    ] {
        let config = RelayConfig {
            circuit_policy: policy,
            priority_factor: PriorityFactor(FACTOR),
            priority_class: class,
            ..RelayConfig::default()
        };
        let mut net = Net::path(3, &config);
        let circuit = net.build(0, &[1, 2, 3]);
        let transfers = [0; 2].map(|_| net.transfer(0, circuit, 200_000, 100_000));
        net.drive();
        assert!(transfers.iter().all(|at| net.at(*at).is_complete()));
    }
}

/// The class is said once, before the first stream: one cell a hop.
#[test]
fn a_class_costs_a_cell_for_each_hop_and_the_better_one_none() {
    let cells = |priority_class: PriorityClass| {
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(0, RelayConfig { priority_class, ..RelayConfig::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        for _ in 0..3 {
            net.transfer(0, circuit, 1000, 1000);
        }
        net.drive();
        [0, 1, 2, 3].map(|node| net.nodes[node].relay.counters().made)
    };
    let (better, worse) = (cells(PriorityClass::Better), cells(PriorityClass::Worse));
    assert_eq!([0, 1, 2, 3].map(|node| worse[node] - better[node]), [1, 1, 1, 0]);
}
