//! The output of a run. It is the same for the simulator and the testbed.

use penstock_record::{CellRow, Outcome, Tables};
use serde::Serialize;
use std::collections::BTreeMap;

/// One run, as one JSON object on one line.
#[derive(Clone, Debug, Serialize)]
pub struct WorldRow {
    /// Backend of the run: `sim` or `testbed`.
    pub world: String,
    /// File or name of the scenario.
    pub scenario: String,
    /// Name of the variant.
    pub variant: String,
    /// Seed of start times, pauses and losses.
    pub seed: u64,
    /// Version of the software; in the testbed, also of the kernel.
    pub by: String,
    /// Overrides as `key=value`.
    pub sets: Vec<String>,
    /// Times of downloads by workload, without the warm-up.
    pub downloads: BTreeMap<String, Downloads>,
    /// Waiting times of traced cells by the relay's position, without the warm-up; `all` is all relays.
    pub cells: BTreeMap<String, Stations>,
    /// Bytes that relays wrote after the warm-up, by relay [B].
    pub written_bytes: BTreeMap<String, u64>,
    /// Cells that relays wrote after the warm-up, by relay [cell].
    pub relay_cells: BTreeMap<String, u64>,
    /// Duration of the run [s].
    pub seconds: f64,
    /// Packets that reached a kernel [packet].
    pub packets: u64,
    /// Cells that relays wrote [cell].
    pub written_cells: u64,
    /// Accuracy of the emulation; `null` in the simulator.
    pub emulation: Option<Emulation>,
}

/// Downloads of a workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Downloads {
    /// Time from BEGIN to the last byte of each completed download, in the order in which downloads ended [s].
    pub ttlb_s: Vec<f64>,
    /// Time from BEGIN to the first byte of each completed download [s].
    pub ttfb_s: Vec<f64>,
    /// Number of failed downloads [1].
    pub failed: u64,
}

/// Traced cells at relays of one position.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stations {
    /// Number of completely traced cells [cell].
    pub count: usize,
    /// Median waiting time in the kernel's receive buffer [s].
    pub kernel_in_s: Option<f64>,
    /// Median waiting time in the circuit queue [s].
    pub circuit_queue_s: Option<f64>,
    /// Median waiting time in the output buffer [s].
    pub outbuf_s: Option<f64>,
    /// Median time in the kernel's send buffer, until the last bit is on the link [s].
    pub kernel_out_s: Option<f64>,
    /// All percentiles from 0 to 100 of the time in the kernel's send buffer [s].
    pub kernel_out_percentiles_s: Vec<f64>,
}

/// Accuracy of the emulation in a testbed run.
#[derive(Clone, Debug, Serialize)]
pub struct Emulation {
    /// Delay of packets after their planned arrival at the kernel: 99th percentile [s].
    pub late_p99_s: f64,
    /// Delay of packets after their planned arrival at the kernel: maximum [s].
    pub late_max_s: f64,
    /// Longest wait of a packet in the emulated queue of a sending link [s].
    pub longest_wait_s: f64,
    /// Packets dropped by full queues at receivers [packet].
    pub dropped: u64,
    /// Packets dropped by the testbed itself [packet].
    pub unseen: u64,
    /// Clients that stopped before the end of the run, with the reasons.
    pub broken: Vec<String>,
    /// The reason why the run is invalid; `null` if it is valid.
    pub void: Option<String>,
}

/// Maximum lateness of the 99th percentile in a valid run [s].
const LATEST_S: f64 = 0.001;

impl Emulation {
    /// Decides whether the run is valid.
    pub fn assessed(mut self) -> Self {
        self.void = if self.late_p99_s > LATEST_S {
            Some(format!("1 % of the packets were at least {} ms late", self.late_p99_s * 1e3))
        } else if self.unseen > 0 {
            Some(format!("the testbed itself dropped {} packets", self.unseen))
        } else {
            self.broken.first().map(|why| format!("a client stopped before the end: {why}"))
        };
        self
    }
}

impl WorldRow {
    /// Adds the records of a run after its warm-up [s].
    pub fn fill(&mut self, tables: &Tables, warmup: f64) {
        for transfer in tables.transfers.iter().filter(|transfer| !transfer.warmup) {
            let downloads = self.downloads.entry(transfer.workload.to_string()).or_default();
            match transfer.outcome {
                Outcome::Ok => {
                    downloads.ttlb_s.extend(transfer.ttlb_s.map(micros));
                    downloads.ttfb_s.extend(transfer.ttfb_s.map(micros));
                }
                Outcome::Unfinished => {}
                Outcome::Failed | Outcome::Timeout => downloads.failed += 1,
            }
        }
        let counts = |cell: &&CellRow| {
            cell.nic_out_ns.is_some() && cell.kernel_ns.is_some_and(|at| at as f64 >= warmup * 1e9)
        };
        let cells: Vec<&CellRow> = tables.cells.iter().filter(counts).collect();
        for position in ["guard", "middle", "exit", "all"] {
            let at = cells.iter().filter(|cell| position == "all" || cell.hop.as_str() == position);
            self.cells.insert(position.to_owned(), stations(&at.copied().collect::<Vec<_>>()));
        }
        for row in tables.relays.iter().filter(|row| row.t_s > warmup) {
            *self.written_bytes.entry(row.relay.to_string()).or_default() += row.written_bytes;
            *self.relay_cells.entry(row.relay.to_string()).or_default() += row.written_cells;
        }
        self.written_cells = tables.relays.iter().map(|row| row.written_cells).sum();
    }
}

fn stations(cells: &[&CellRow]) -> Stations {
    let spans = |of: fn(&CellRow) -> Option<f64>| {
        let mut spans: Vec<f64> = cells.iter().filter_map(|cell| of(cell)).collect();
        spans.sort_by(f64::total_cmp);
        spans
    };
    let median = |of: fn(&CellRow) -> Option<f64>| at(&spans(of), 0.5).map(micros);
    let kernel_out = spans(CellRow::kernel_out_s);
    Stations {
        count: kernel_out.len(),
        kernel_in_s: median(CellRow::kernel_in_s),
        circuit_queue_s: median(CellRow::circuit_queue_s),
        outbuf_s: median(CellRow::outbuf_s),
        kernel_out_s: median(CellRow::kernel_out_s),
        kernel_out_percentiles_s: (0..=100)
            .filter_map(|percent| at(&kernel_out, f64::from(percent) / 100.0).map(micros))
            .collect(),
    }
}

fn at(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * (place - place.floor()))
}

/// A time [s], rounded to a microsecond.
fn micros(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!((at(&[], 0.5), at(&[3.0], 0.5), at(&[1.0, 2.0], 0.5)), (None, Some(3.0), Some(1.5)));
        assert_eq!([at(&[1.0, 2.0, 5.0], 0.0), at(&[1.0, 2.0, 5.0], 1.0)], [Some(1.0), Some(5.0)]);
    }

    #[test]
    fn a_run_with_late_or_dropped_packets_is_invalid() {
        let good = Emulation {
            late_p99_s: 0.001,
            late_max_s: 0.1,
            longest_wait_s: 0.0,
            dropped: 5,
            unseen: 0,
            broken: Vec::new(),
            void: None,
        };
        assert_eq!(good.clone().assessed().void, None);
        assert!(Emulation { late_p99_s: 0.0011, ..good.clone() }.assessed().void.is_some());
        assert!(Emulation { unseen: 1, ..good.clone() }.assessed().void.is_some());
        assert!(Emulation { broken: vec!["client web: x".to_owned()], ..good }.assessed().void.is_some());
    }
}
