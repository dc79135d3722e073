//! The waits of cells in a relay, from its own record.

use crate::relays::cell_times;
use penstock_units::Duration;
use std::path::Path;

/// The stations of a cell in a relay, in order.
pub(crate) const STATIONS: [&str; 3] = ["circuit queue", "output buffer", "kernel out"];

/// A recorded cell: when the relay read it, and its wait at each station [s].
pub(crate) struct Cell {
    read: f64,
    waits: [Option<f64>; 3],
}

/// The cells in a record.
pub(crate) fn cells(record: &Path) -> Vec<Cell> {
    let times = cell_times(record, ["read_ns", "queued_ns", "outbuf_ns", "kernel_ns", "nic_out_ns"]);
    let cell = |[read, stations @ ..]: [Option<f64>; 5]| {
        Some(Cell { read: read?, waits: [0, 1, 2].map(|at| Some(stations[at + 1]? - stations[at]?)) })
    };
    times.into_iter().filter_map(cell).collect()
}

/// The sorted waits at each station. `from` and `to` count backwards from the last cell.
pub(crate) fn between(cells: &[Cell], from: Duration, to: Duration) -> [Vec<f64>; 3] {
    let last = cells.iter().map(|cell| cell.read).fold(0.0, f64::max);
    let [from, to] = [from, to].map(|back| last - back.as_secs_f64());
    let here = || cells.iter().filter(|cell| cell.read >= from && cell.read <= to);
    [0, 1, 2].map(|station| {
        let mut waits: Vec<f64> = here().filter_map(|cell| cell.waits[station]).collect();
        waits.sort_by(f64::total_cmp);
        waits
    })
}
