//! Tests that consensus parameters change running relays, but not the negotiated parameters of existing circuits.

use super::util::Net;
use crate::edge_control::{EdgeControlConfig, VegasConfig, WindowsConfig};
use crate::relay::Parameters;
use crate::scheduler::{KistDeployedConfig, SchedulerConfig};
use crate::{CircuitIndex, RelayConfig};
use penstock_units::{Cells, Duration};
use std::num::NonZeroU8;

const EXIT: usize = 3;

/// A client, three relays and a server. The exit agrees to Vegas if the client requests it.
fn path() -> Net {
    let edge_control = EdgeControlConfig::Vegas(VegasConfig::default());
    let config = RelayConfig { edge_control, authenticated_sendmes: true, ..RelayConfig::default() };
    let mut net = Net::path(3, &RelayConfig::default());
    net.configure(0, config.clone());
    net.configure(EXIT, config);
    net
}

fn apply_parameters(net: &mut Net, node: usize, parameters: Parameters) {
    let now = net.now;
    net.nodes[node].relay.apply_parameters(now, parameters);
}

/// Completes a transfer in both directions. Returns the exit's window before the transfer.
fn window_of_exit(net: &mut Net, circuit: CircuitIndex) -> Cells {
    let transfer = net.transfer(0, circuit, 200_000, 100_000);
    assert!(net.drive_until(|net| net.at(transfer).connected));
    let exit = net.circuit_at(0, circuit, EXIT).expect("the circuit is there");
    let (window, _) = net.nodes[EXIT].relay.circuit_window(exit).expect("the exit has the circuit");
    net.drive();
    assert!(net.at(transfer).is_complete());
    window
}

#[test]
fn open_circuits_keep_vegas_after_the_consensus_disables_it() {
    let mut net = path();
    let [used, unused] = [(); 2].map(|()| net.build(0, &[1, 2, EXIT]));
    assert_eq!(window_of_exit(&mut net, used), Cells::new(124));
    let off = Parameters { grants_vegas: Some(false), circuit_window: Some(300), ..Parameters::default() };
    apply_parameters(&mut net, EXIT, off);
    let new = net.build(0, &[1, 2, EXIT]);
    assert_eq!(window_of_exit(&mut net, new), Cells::new(300));
    assert_eq!(
        window_of_exit(&mut net, unused),
        Cells::new(124),
        "the unused circuit keeps its negotiated window"
    );
    assert!(window_of_exit(&mut net, used) > Cells::new(124), "the window of the used circuit grew");
    apply_parameters(&mut net, EXIT, Parameters { grants_vegas: Some(true), ..Parameters::default() });
    let again = net.build(0, &[1, 2, EXIT]);
    assert_eq!(window_of_exit(&mut net, again), Cells::new(124));
}

#[test]
fn a_new_sendme_increment_applies_to_new_circuits() {
    let mut net = path();
    let old = net.build(0, &[1, 2, EXIT]);
    let fifty = Parameters { sendme_inc: NonZeroU8::new(50), ..Parameters::default() };
    apply_parameters(&mut net, 0, fifty);
    apply_parameters(&mut net, EXIT, fifty);
    let check = |net: &mut Net, circuit, increment| {
        let before = net.nodes[0].relay.counters();
        window_of_exit(net, circuit);
        let after = net.nodes[0].relay.counters();
        let delivered = after.data_delivered - before.data_delivered;
        assert_eq!(after.sendmes - before.sendmes, delivered / increment);
    };
    check(&mut net, old, 31);
    let new = net.build(0, &[1, 2, EXIT]);
    check(&mut net, new, 50);
}

#[test]
fn windows_stay_within_interoperable_bounds() {
    for (asked, held) in [(1, 100), (100_000, 1000)] {
        let mut net = Net::path(3, &RelayConfig::default());
        apply_parameters(&mut net, EXIT, Parameters { circuit_window: Some(asked), ..Parameters::default() });
        let circuit = net.build(0, &[1, 2, EXIT]);
        assert_eq!(window_of_exit(&mut net, circuit), Cells::new(held));
    }
    assert_eq!(WindowsConfig::CIRCUIT_RANGE, (100, 1000));
}

#[test]
fn kist_runs_at_the_interval_of_the_consensus() {
    let scheduler = SchedulerConfig::KistDeployed(KistDeployedConfig::default());
    let mut net = Net::path(3, &RelayConfig { scheduler, ..RelayConfig::default() });
    let circuit = net.build(0, &[1, 2, EXIT]);
    let mut took = |interval: Option<u64>| {
        let run_interval = interval.map(Duration::from_millis);
        for node in 1..=EXIT {
            apply_parameters(&mut net, node, Parameters { run_interval, ..Parameters::default() });
        }
        let began = net.now;
        window_of_exit(&mut net, circuit);
        net.now.since(began)
    };
    let [deployed, slow, quick] = [None, Some(100), Some(2)].map(&mut took);
    assert!(slow > deployed * 2 && quick < deployed, "{deployed:?} {slow:?} {quick:?}");
}
