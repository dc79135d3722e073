//! Priority classes along a circuit (K-38).

use super::util::Net;

use crate::circuit_policy::{
    CircuitPolicy, CircuitPolicyConfig, Priority, PriorityClass, PriorityFactor, RoundRobin, Weight,
};
use crate::keys::CircuitKey;
use crate::{Factory, RelayConfig};
use penstock_units::{Cells, Instant};

const FACTOR: f64 = 7.0;

/// Round robin that panics if a cell's weight does not match the class of the circuit.
#[derive(Debug, Default)]
struct WeightCheck<const WORSE: bool> {
    inner: RoundRobin,
    /// The numbers of cells with weight 1 and with weight `FACTOR`.
    charged: [u64; 2],
}

impl<const WORSE: bool> CircuitPolicy for WeightCheck<WORSE> {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        self.inner.on_ready(now, circuit);
    }
    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        self.inner.on_blocked(now, circuit);
    }
    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        assert!([1.0, FACTOR].contains(&weight.0));
        self.charged[usize::from(weight.0 == FACTOR)] += cells.get();
        // Cells that build the circuit and announce the class have weight 1.
        assert!(self.charged[usize::from(!WORSE)] < 12, "{:?}", self.charged);
        self.inner.on_flush(now, circuit, cells, weight);
    }
    fn on_close(&mut self, circuit: CircuitKey) {
        self.inner.on_close(circuit);
    }
    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        self.inner.head(now)
    }
}

/// All relays of the path charge the circuit by its class, in both directions.
#[test]
fn every_relay_charges_cells_by_the_class_of_the_client() {
    let worse = || Box::new(WeightCheck::<true>::default()) as Box<dyn CircuitPolicy>;
    let better = || Box::new(WeightCheck::<false>::default()) as Box<dyn CircuitPolicy>;
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

/// The client announces the class once, before the first stream, with one cell for each hop.
#[test]
fn the_worse_class_costs_one_cell_per_hop_and_the_better_class_none() {
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
