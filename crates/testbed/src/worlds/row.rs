//! What is printed of a run, in the same words of either world.

use penstock_record::{CellRow, Outcome, Tables};
use serde::Serialize;
use std::collections::BTreeMap;

/// One run: a JSON object on a line.
#[derive(Clone, Debug, Serialize)]
pub struct WorldRow {
    /// `sim` or `testbed`.
    pub world: String,
    /// The scenario's file or name.
    pub scenario: String,
    /// Which of its variants.
    pub variant: String,
    /// The seed of starts, pauses and losses.
    pub seed: u64,
    /// Which software: the version, and in the testbed the kernel's.
    pub by: String,
    /// What was set over the file.
    pub sets: Vec<String>,
    /// What downloads took, by workload, those of the warm-up left out.
    pub downloads: BTreeMap<String, Downloads>,
    /// Where followed cells waited, by the position of the relay, those of the warm-up left out; `all` is all relays.
    pub cells: BTreeMap<String, Stations>,
    /// What relays wrote from the end of the warm-up on [B].
    pub written_bytes: BTreeMap<String, u64>,
    /// How long it was [s].
    pub seconds: f64,
    /// Packets that reached a kernel [packet].
    pub packets: u64,
    /// Cells that relays wrote [cell].
    pub written_cells: u64,
    /// What a testbed says of itself; `null` in the simulator.
    pub emulation: Option<Emulation>,
}

/// Downloads of a workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Downloads {
    /// From BEGIN to the last byte of each that was complete, in the order of their ends [s].
    pub ttlb_s: Vec<f64>,
    /// To the first byte [s].
    pub ttfb_s: Vec<f64>,
    /// How many failed [1].
    pub failed: u64,
}

/// Cells at relays of a position.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stations {
    /// How many were followed to the end [cell].
    pub count: usize,
    /// Medians of what they waited in each station [s].
    pub kernel_in_s: Option<f64>,
    /// In the circuit queue [s].
    pub circuit_queue_s: Option<f64>,
    /// In the output buffer [s].
    pub outbuf_s: Option<f64>,
    /// In the kernel, up to the last bit on the link [s].
    pub kernel_out_s: Option<f64>,
    /// All percentiles of that, from 0 to 100 [s].
    pub kernel_out_percentiles_s: Vec<f64>,
}

/// What tells a bad run.
#[derive(Clone, Debug, Serialize)]
pub struct Emulation {
    /// How late packets were handed to the receiving kernel: a bound for 99 of 100 [s].
    pub late_p99_s: f64,
    /// And the latest [s].
    pub late_max_s: f64,
    /// The longest that a packet waited behind the kernel's own queue [s].
    pub longest_wait_s: f64,
    /// Packets that found a receiver's queue full [packet].
    pub dropped: u64,
    /// Packets that the testbed itself dropped [packet].
    pub unseen: u64,
    /// Clients that stopped before the run was over, each with why.
    pub broken: Vec<String>,
    /// Why the run says nothing, if it does not.
    pub void: Option<String>,
}

/// A run in which one packet in a hundred was later is void [s].
const LATEST_S: f64 = 0.001;

impl Emulation {
    /// Judges itself.
    pub fn judged(mut self) -> Self {
        self.void = if self.late_p99_s > LATEST_S {
            Some(format!("one packet in a hundred was {} ms late or more", self.late_p99_s * 1e3))
        } else if self.unseen > 0 {
            Some(format!("the testbed itself dropped {} packets", self.unseen))
        } else {
            self.broken.first().map(|why| format!("not all clients came to the end: {why}"))
        };
        self
    }
}

impl WorldRow {
    /// Takes what a run recorded from its warm-up's end on [s].
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

/// The value below which a share of the sorted values is, straight between two.
fn at(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * (place - place.floor()))
}

/// To the microsecond.
fn micros(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_lies_between_its_neighbours() {
        assert_eq!((at(&[], 0.5), at(&[3.0], 0.5), at(&[1.0, 2.0], 0.5)), (None, Some(3.0), Some(1.5)));
        assert_eq!([at(&[1.0, 2.0, 5.0], 0.0), at(&[1.0, 2.0, 5.0], 1.0)], [Some(1.0), Some(5.0)]);
    }

    #[test]
    fn a_run_that_was_late_or_dropped_packets_says_nothing() {
        let good = Emulation {
            late_p99_s: 0.001,
            late_max_s: 0.1,
            longest_wait_s: 0.0,
            dropped: 5,
            unseen: 0,
            broken: Vec::new(),
            void: None,
        };
        assert_eq!(good.clone().judged().void, None);
        assert!(Emulation { late_p99_s: 0.0011, ..good.clone() }.judged().void.is_some());
        assert!(Emulation { unseen: 1, ..good.clone() }.judged().void.is_some());
        assert!(Emulation { broken: vec!["client web: x".to_owned()], ..good }.judged().void.is_some());
    }
}
