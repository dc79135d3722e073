//! The path test in the simulator.

use penstock_worlds::path_test;
use penstock_worlds::sim::Simulator;

#[test]
fn the_path_test_passes_in_the_simulator() {
    path_test(&mut Simulator);
}
