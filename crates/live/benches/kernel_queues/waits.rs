//! The measured waits, and their percentiles as CSV. `benches/kernel_queues.py` makes the table and the figures.

use crate::relays::{cell_times, quantile};
use penstock_units::Duration;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The waits of one relay.
pub(crate) struct Waits {
    pub(crate) program: &'static str,
    pub(crate) scheduler: &'static str,
    /// The rate of the relay's link [Mbit/s].
    pub(crate) rate: u64,
    /// The rate at which the relay sent bytes, including packet headers [B/s].
    pub(crate) sent: f64,
    /// Sorted waits of calls in the kernel [s], inbound and outbound.
    pub(crate) kernel: [Vec<f64>; 2],
    /// Sorted waits of cells from the read to the write of the relay [s]; empty if the program does not report them.
    pub(crate) relay: Vec<f64>,
}

impl Waits {
    fn stations(&self) -> [(&'static str, &[f64]); 3] {
        [("kernel in", &self.kernel[0]), ("relay", &self.relay), ("kernel out", &self.kernel[1])]
    }
}

/// The waits in a file of `penstock-kqtime`, in the last `took` before its end.
pub(crate) fn of_kernel(file: &Path, took: Duration) -> [Vec<f64>; 2] {
    let text = fs::read_to_string(file).expect("penstock-kqtime wrote its file");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| head.iter().position(|other| *other == name).expect("the file has this column");
    let [time, direction, wait] = ["time_ns", "direction", "wait_ns"].map(column);
    let rows: Vec<(f64, bool, f64)> = lines
        .map(|line| {
            let values: Vec<&str> = line.split(',').collect();
            let number = |at: usize| values[at].parse::<f64>().expect("times are numbers") / 1e9;
            (number(time), values[direction] == "out", number(wait))
        })
        .collect();
    let first = rows.iter().map(|row| row.0).fold(0.0, f64::max) - took.as_secs_f64();
    [false, true].map(|is_out| {
        let chosen = rows.iter().filter(|row| row.0 >= first && row.1 == is_out);
        sorted(chosen.map(|row| row.2).collect())
    })
}

/// The waits of recorded cells between the relay's read and its write.
pub(crate) fn of_relay(record: &Path) -> Vec<f64> {
    let times = cell_times(record, ["read_ns", "kernel_ns"]);
    sorted(times.into_iter().filter_map(|[read, written]| Some(written? - read?)).collect())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn below_a_millisecond(sorted: &[f64]) -> f64 {
    sorted.partition_point(|wait| *wait < 1e-3) as f64 / sorted.len() as f64
}

/// Percentiles of all waits as CSV, for the figure.
pub(crate) fn csv(all: &[Waits]) -> String {
    let mut csv =
        "scheduler,program,link_mbit,sent_mbit,wait,below_1ms,waits,percentile,wait_ms\n".to_owned();
    for waits in all {
        for (station, sorted) in waits.stations().into_iter().filter(|(_, sorted)| !sorted.is_empty()) {
            let (below, count) = (below_a_millisecond(sorted), sorted.len());
            for percent in 0..=100 {
                let wait = quantile(sorted, f64::from(percent) / 100.0) * 1e3;
                let Waits { scheduler, program, rate, sent, .. } = waits;
                let sent = sent * 8e-6;
                writeln!(
                    csv,
                    "{scheduler},{program},{rate},{sent:.3},{station},{below:.4},{count},{percent},{wait:.6}"
                )
                .expect("a string has room");
            }
        }
    }
    csv
}
