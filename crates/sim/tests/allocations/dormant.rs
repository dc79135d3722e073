//! Tests the memory of clients that have not started.

use crate::memory_of;
use penstock_scenario::Document;
use penstock_sim::{Control, run};

/// A sampled network with clients that start after the end of the run.
fn dormant(clients: usize, variants: usize) -> String {
    let names = (0..variants).map(|number| format!("[[variants]]\nname = \"v{number}\"\n"));
    let variants: String = names.collect();
    format!(
        r#"
[scenario]
title = "a test"
[run]
duration = "1 s"
[network]
latency = "geographic"
[relays.relay]
count = 3
[client]
path = "weighted"
[clients.bulk]
count = 100
workload = "bulk"
[clients.web]
count = {clients}
start = "uniform(1 h, 2 h)"
workload = ["web", "perf"]
[servers.destination]
[workloads.bulk]
size = "1 MiB"
start = "1 h"
[workloads.web]
size = "320 KiB"
pause = "uniform(1 s, 20 s)"
[workloads.perf]
size = "50 KiB"
{variants}
"#
    )
}

/// The memory of `clients` dormant clients in the parsed document, and the peak of a run in one thread [B].
fn memory(clients: usize, variants: usize) -> [i64; 2] {
    let text = dormant(clients, variants);
    let parse = || Document::parse(&text, "dormant.toml", &[]).expect("the scenario is valid");
    let (document, [parsed, _]) = memory_of(parse);
    let scenario = document.scenario("v0").expect("the scenario has this variant");
    let (outcome, [_, peak]) = memory_of(|| run(scenario, 1, &Control::new()));
    outcome.expect("the run is not cancelled");
    [parsed, peak]
}

/// The memory of one more dormant client in the parsed document, and in a run [B].
fn memory_of_a_client(variants: usize) -> [i64; 2] {
    const FEW: usize = 1_000;
    const MANY: usize = 9_000;
    let (few, many) = (memory(FEW, variants), memory(MANY, variants));
    [0, 1].map(|k| (many[k] - few[k]) / (MANY - FEW) as i64)
}

#[test]
fn a_client_that_has_not_started_needs_little_memory() {
    let [parsed, run] = memory_of_a_client(1);
    assert!(parsed <= 130 && run <= 150, "{parsed} B in the document, {run} B in the run");
    let [both, _] = memory_of_a_client(2);
    assert!(both - parsed <= 130, "{both} B with two variants, {parsed} B with one");
}
