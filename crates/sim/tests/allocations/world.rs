//! No cell, packet or event costs an allocation.

use penstock_scenario::Document;
use penstock_sim::{Control, Outcome, run};
/// Two clients download for ever over one path; nothing is sampled but at the end.
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

/// How often a run of so many seconds asked, and the cells that its relays and clients sent.
fn asked(set: &[&str], seconds: u32) -> (u64, u64) {
    let mut sets = vec![format!("run.duration=\"{seconds} s\"")];
    sets.extend(set.iter().map(|set| (*set).to_owned()));
    let document = Document::parse(BULK, "bulk.toml", &sets).expect("the scenario is right");
    let scenario = document.scenario("default").expect("it has one variant");
    let before = crate::asked();
    let Outcome { stats, .. } = run(scenario, 1, &Control::new()).expect("nobody cancels");
    (crate::asked() - before, stats.cells)
}

/// With windows that fit into the kernels' buffers: where packets are lost, some queue now and then is longer than
/// it ever was.
#[test]
fn a_steady_network_allocates_nothing() {
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
        // Until the buffers are as large as they become, and queues with them.
        let (short, long) = (asked(set, 240), asked(set, 260));
        let cells = long.1 - short.1;
        assert!(cells > 20_000, "{cells} cells");
        assert_eq!(long.0 - short.0, 0, "{set:?}: for {cells} cells, after {}", short.0);
    }
}

/// Queues still grow here, but not with the cells.
#[test]
fn a_network_with_loss_allocates_less_than_once_in_five_thousand_cells() {
    let (short, long) = (asked(&[], 20), asked(&[], 40));
    let cells = long.1 - short.1;
    assert!(cells > 100_000, "{cells} cells");
    assert!((long.0 - short.0) * 5_000 < cells, "{} for {cells} cells", long.0 - short.0);
}
