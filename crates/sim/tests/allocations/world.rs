//! Tests that cells, packets and events need no allocation.

use penstock_scenario::Document;
use penstock_sim::{Control, Outcome, run};
/// Two clients download without end over one path, without samples.
const BULK: &str = r#"
[scenario]
title = "a test"
[run]
duration = "10 s"
sample = "1 h"
[network]
rtt = "40 ms"
[relays.entry]
[relays.middle]
link = "1 MiB/s"
[relays.exit]
[client]
path = ["entry", "middle", "exit"]
[clients.one]
workload = "bulk"
[clients.two]
workload = "bulk"
[servers.destination]
[workloads.bulk]
size = "1 GiB"
"#;

/// The allocations of a run of `seconds` seconds, and the cells that relays and clients sent.
fn allocations(set: &[&str], seconds: u32) -> (u64, u64) {
    let mut sets = vec![format!("run.duration=\"{seconds} s\"")];
    sets.extend(set.iter().map(|set| (*set).to_owned()));
    let document = Document::parse(BULK, "bulk.toml", &sets).expect("the scenario is valid");
    let scenario = document.scenario("default").expect("the scenario has one variant");
    let before = crate::allocations();
    let Outcome { stats, .. } = run(scenario, 1, &Control::new()).expect("the run is not cancelled");
    (crate::allocations() - before, stats.cells)
}

/// A steady network allocates no memory. With these windows, all cells fit into the kernels' buffers.
#[test]
fn a_steady_network_allocates_no_memory() {
    let settings: [&[&str]; 5] = [
        &["relay.edge_control.circuit_window=100"],
        &["relay.edge_control.circuit_window=100", "relay.circuit_policy=ewma"],
        &["relay.edge_control=dynamic-windows", "relay.authenticated_sendmes=true"],
        &["relay.edge_control.circuit_window=100", "relays.middle.bandwidth_rate=200 KiB/s"],
        &[
            "relay.edge_control.circuit_window=100",
            "relay.throttle={ kind = 'threshold', fraction = 0.5, refresh = '1 s' }",
            "relays.entry.throttle={ kind = 'static', rate = '200 KiB/s', burst = '200 KiB' }",
        ],
    ];
    for set in settings {
        // Until buffers and queues have their final sizes.
        let (short, long) = (allocations(set, 240), allocations(set, 260));
        let cells = long.1 - short.1;
        assert!(cells > 20_000, "{cells} cells");
        assert_eq!(long.0 - short.0, 0, "{set:?}: for {cells} cells, after {}", short.0);
    }
}

/// With loss, a queue may sometimes exceed its earlier maximum. Allocations are therefore rare, but not zero.
#[test]
fn a_network_with_loss_allocates_less_than_once_in_five_thousand_cells() {
    let (short, long) = (allocations(&[], 20), allocations(&[], 40));
    let cells = long.1 - short.1;
    assert!(cells > 100_000, "{cells} cells");
    assert!((long.0 - short.0) * 5_000 < cells, "{} for {cells} cells", long.0 - short.0);
}
