//! Scenarios for tests. Each scenario is one path with the changes of the test.

use penstock_record::{CellRow, Outcome as Ending, Position, Transfer};
use penstock_scenario::{Document, Error};
use penstock_sim::{Control, NodeReport, Outcome};
use std::collections::BTreeMap;

/// Two clients share three relays, of which the middle one is slow. Nagle is off, so times can be computed. Blank lines
/// separate tables.
const PATH: &str = r#"
[scenario]
title = "a test"

[run]
duration = "40 s"
sample = "100 ms"

[trace]
workloads = ["bulk", "web"]
interval = "20 ms"
cells = 1

[tcp]
nodelay = true

[network]
rtt = "40 ms"

[relays.entry]

[relays.middle]
link = "256 KiB/s"

[relays.exit]

[client]
path = ["entry", "middle", "exit"]

[servers.destination]

[workloads.web]
size = "uniform(10 KiB, 60 KiB)"
pause = "uniform(200 ms, 2 s)"
start = "uniform(0 s, 1 s)"

[workloads.bulk]
size = "1 MiB"
pause = "uniform(200 ms, 2 s)"
start = "uniform(0 s, 1 s)"

[clients.web]
workload = "web"

[clients.bulk]
workload = "bulk"

[[variants]]
name = "stock"

[[variants]]
name = "50KiB"
set = { "relay.edge_control.circuit_window" = 100 }
"#;

/// A scenario of a test.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    text: String,
    sets: Vec<String>,
}

impl Lab {
    /// Two clients on one path with a slow middle.
    pub(crate) fn path() -> Self {
        Lab::of(PATH)
    }

    /// Only a bulk client, with an endless download.
    pub(crate) fn only_bulk() -> Self {
        Lab::of(&PATH.replace("[clients.web]\nworkload = \"web\"\n", ""))
            .set("trace.workloads", "['bulk']")
            .set("workloads.bulk.size", "1 GiB")
            .set("workloads.bulk.start", "0 s")
    }

    pub(crate) fn of(text: &str) -> Self {
        Lab { text: text.to_owned(), sets: Vec::new() }
    }

    /// Overrides a key, as `--set` does.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.sets.push(format!("{key}={value}"));
        self
    }

    /// Adds tables to the file.
    pub(crate) fn with(mut self, tables: &str) -> Self {
        self.text = format!("{tables}\n{}", self.text);
        self
    }

    /// Changes the order of the file's tables.
    pub(crate) fn reordered(mut self, order: impl FnOnce(&mut Vec<&str>)) -> Self {
        let (tables, variants) =
            self.text.split_at(self.text.find("[[variants]]").unwrap_or(self.text.len()));
        let mut tables: Vec<&str> = tables.split("\n\n").collect();
        order(&mut tables);
        self.text = format!("{}\n\n{variants}", tables.join("\n\n"));
        self
    }

    pub(crate) fn parse(&self) -> Result<Document, Error> {
        Document::parse(&self.text, "test.toml", &self.sets)
    }

    pub(crate) fn document(&self) -> Document {
        self.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn run(&self, seed: u64) -> Outcome {
        self.run_variant("stock", seed)
    }

    pub(crate) fn run_variant(&self, variant: &str, seed: u64) -> Outcome {
        let document = self.document();
        let scenario = document.scenario(variant).expect("the variant is in the text");
        penstock_sim::run(scenario, seed, &Control::new()).expect("the run is not cancelled")
    }
}

/// The report of a node.
pub(crate) fn node<'a>(outcome: &'a Outcome, name: &str) -> &'a NodeReport {
    outcome.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no node {name}"))
}

/// Complete downloads of one client.
pub(crate) fn complete<'a>(outcome: &'a Outcome, client: &str) -> Vec<&'a Transfer> {
    let of_client = |row: &&Transfer| &*row.client == client && row.outcome == Ending::Ok;
    outcome.tables.transfers.iter().filter(of_client).collect()
}

/// The counters of every node and every channel account for all cells.
pub(crate) fn assert_conserved(outcome: &Outcome) {
    for node in &outcome.nodes {
        let counters = &node.counters;
        let out = counters.sent + counters.consumed + counters.dropped + node.held.get();
        assert_eq!(counters.received + counters.made, out, "{node:?}");
    }
    let sum = |count: fn(&NodeReport) -> u64| outcome.nodes.iter().map(count).sum::<u64>();
    let sent = sum(|node| node.counters.sent);
    let received = sum(|node| node.counters.received + node.datagrams.unwanted);
    let under_way = outcome.network.cells.get() + outcome.network.lost.get();
    // Datagrams may have arrived although their acknowledgements are in transit or too late.
    let unsure = sum(|node| node.unacknowledged.get() + node.datagrams.given_up);
    assert!(
        (received + under_way..=received + under_way + unsure).contains(&sent),
        "{sent} sent, {received} received, {under_way} under way, {unsure} perhaps"
    );
    for row in outcome.tables.transfers.iter().filter(|row| row.outcome == Ending::Ok) {
        assert_eq!(row.bytes_received, row.bytes, "{row:?}");
    }
}

/// At each sample, the queue of a traced circuit holds exactly the cells that entered and did not leave.
///
/// All DATA cells have stamps. A queue towards the client may also hold a few other cells.
pub(crate) fn assert_queues_match_cell_stamps(outcome: &Outcome) -> usize {
    const OTHERS: u64 = 8;
    type Span = (u64, Option<u64>);
    let mut queues: BTreeMap<(u64, u8), Vec<Span>> = BTreeMap::new();
    for row in &outcome.tables.cells {
        let span = row.queued_ns.map(|queued| (queued, row.outbuf_ns));
        queues.entry((row.circuit, row.hop as u8)).or_default().extend(span);
    }
    let mut compared = 0;
    for row in &outcome.tables.circuits {
        let queue = row.circuit.and_then(|circuit| queues.get(&(circuit, row.hop as u8)));
        let Some(queue) = queue.filter(|_| row.hop != Position::Client) else { continue };
        let at = (row.t_s * 1e9).round() as u64;
        let there = |span: &&Span| span.0 <= at && span.1.is_none_or(|left| left > at);
        let data = queue.iter().filter(there).count() as u64;
        assert!((data..=data + OTHERS).contains(&row.queue_cells), "{data} DATA cells, {row:?}");
        compared += 1;
    }
    compared
}

/// The tracked cells of a workload at one hop, in the order of packaging.
pub(crate) fn cells_at(outcome: &Outcome, workload: &str, hop: Position) -> Vec<CellRow> {
    let here = |row: &&CellRow| &*row.workload == workload && row.hop == hop;
    let by_number: BTreeMap<_, _> =
        outcome.tables.cells.iter().filter(here).map(|row| ((row.circuit, row.cell), row.clone())).collect();
    by_number.into_values().collect()
}

/// Maximum length of a queue, and the time integral of its length [cell·ns], from the times of entering and leaving
/// [ns]. A cell that has not left is in the queue until `end` [ns].
pub(crate) fn queue_of(spans: impl Iterator<Item = (u64, Option<u64>)>, end: u64) -> (i64, u128) {
    let mut steps = Vec::new();
    for (enters, leaves) in spans {
        steps.push((enters, 1));
        steps.push((leaves.unwrap_or(end), -1));
    }
    steps.sort_unstable();
    let (mut length, mut longest, mut integral, mut before) = (0i64, 0i64, 0u128, 0u64);
    for (at, step) in steps {
        integral += u128::from(at - before) * length as u128;
        length += step;
        longest = longest.max(length);
        before = at;
    }
    (longest, integral)
}

/// The median. With an even number of values, it is the mean of the two middle values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// A quantile, interpolated like NumPy.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, q: f64) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let place = last as f64 * q;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}
