//! The simulator as a world.

use crate::{Findings, NodeFindings, Plan, World};
use penstock_core::cell::MAX_PAYLOAD;
use penstock_record::{CellRow, Outcome, Position};
use penstock_scenario::{
    Document, Scenario,
    model::{Activity, Amount},
};
use penstock_sim::{Control, run};
use penstock_units::Bytes;

/// The simulated network. Streams open one after the other, as simulated clients do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator;

/// Time for each stream [s]. A stream takes a few seconds, and the pause before the next one is as long.
const SECONDS_PER_STREAM: u64 = 100;

impl World for Simulator {
    fn name(&self) -> &'static str {
        "the simulator"
    }

    fn run(&mut self, plan: &Plan) -> Findings {
        let scenario = scenario(plan);
        let outcome = run(&scenario, 1, &Control::new()).expect("the run is not cancelled");
        let tables = &outcome.tables;
        let downloads = tables.transfers.iter().map(|transfer| {
            // The server responds or closes only after the whole request.
            let uploaded = if transfer.outcome == Outcome::Ok { Plan::bytes(plan.upload) } else { 0 };
            (transfer.bytes_received, uploaded)
        });
        let node = |name: String| {
            let found = outcome.nodes.iter().find(|node| node.name == name);
            NodeFindings::from(found.expect("every node reports").counters)
        };
        let relays = (1..=plan.hops).map(|place| format!("relay{place}"));
        Findings {
            circuits: tables.paths.iter().filter(|path| path.built_s.is_some()).count() as u64,
            streams: downloads.collect(),
            nodes: std::iter::once("client".to_owned()).chain(relays).map(node).collect(),
            window_kept: most_under_way(&tables.cells) <= i64::from(plan.circuit_window),
        }
    }
}

/// Maximum number of DATA cells between the exit's streams and the client [cell].
fn most_under_way(cells: &[CellRow]) -> i64 {
    let at = |row: &CellRow| match row.hop {
        Position::Exit => Some((row.queued_ns?, 1)),
        Position::Client => Some((row.parsed_ns?, -1)),
        Position::Guard | Position::Middle | Position::Server => None,
    };
    let mut changes: Vec<(u64, i64)> = cells.iter().filter_map(at).collect();
    // At the same instant, arrivals make room for departures.
    changes.sort_unstable();
    changes
        .iter()
        .scan(0, |under_way, (_, change)| {
            Some({
                *under_way += change;
                *under_way
            })
        })
        .max()
        .unwrap_or(0)
}

/// The plan as a scenario. A segment has the payload of a cell, so all cells are full.
fn scenario(plan: &Plan) -> Scenario {
    let names: Vec<String> = (1..=plan.hops).map(|place| format!("relay{place}")).collect();
    let relays: String = names.iter().map(|name| format!("[relays.{name}]\n")).collect();
    let buffer = plan.send_buffer.map_or("\"auto\"".to_owned(), |bytes| format!("\"{bytes} B\""));
    let request = Plan::bytes(plan.upload).max(1);
    let text = format!(
        r#"
        [scenario]
        title = "The path test"
        [run]
        duration = "{duration} s"
        [trace]
        workloads = ["transfer"]
        cells = 1
        [tcp]
        mss = "{MAX_PAYLOAD} B"
        [network]
        rtt = "20 ms"
        [relay]
        edge_control = {{ kind = "windows", circuit_window = {window} }}
        send_buffer = {buffer}
        {relays}
        [client]
        edge_control = {{ kind = "windows", circuit_window = {window} }}
        send_buffer = {buffer}
        [clients.client]
        workload = "transfer"
        path = {names:?}
        server = "server"
        [servers.server]
        [workloads.transfer]
        size = "1 B"
        request = "{request} B"
        pause = "{SECONDS_PER_STREAM} s"
        "#,
        duration = plan.streams * SECONDS_PER_STREAM,
        window = plan.circuit_window,
    );
    let document = Document::parse(&text, "the plan", &[]).expect("a plan makes a scenario");
    let mut scenario = document.scenario("default").expect("the scenario has one variant").clone();
    // A scenario requires a request and at least one byte. A plan may have none.
    scenario.workloads[0].does = Activity::Download(Amount::Fixed(Bytes::new(Plan::bytes(plan.download))));
    scenario.workloads[0].request = Bytes::new(Plan::bytes(plan.upload));
    scenario
}
