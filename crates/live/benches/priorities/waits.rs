//! The waits of cells in a relay, from its own record.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
use penstock_units::Duration;
use std::fs::File;
use std::path::Path;

/// The stations in a relay: names, and the columns with the times of arrival and departure.
pub(crate) const STATIONS: [(&str, [&str; 2]); 3] = [
    ("circuit queue", ["queued_ns", "outbuf_ns"]),
    ("output buffer", ["outbuf_ns", "kernel_ns"]),
    ("kernel out", ["kernel_ns", "nic_out_ns"]),
];

/// A recorded cell: when the relay read it, and its wait at each station [s].
pub(crate) struct Cell {
    read: f64,
    waits: [Option<f64>; 3],
}

/// The cells in a record.
pub(crate) fn cells(record: &Path) -> Vec<Cell> {
    let file = File::open(record.join("cells.parquet")).expect("the relay wrote its records");
    let reader = SerializedFileReader::new(file).expect("the records are Parquet");
    let rows = reader.get_row_iter(None).expect("the records have rows");
    let rows = rows.map(|row| row.expect("the records are complete"));
    let cell = |row: Row| {
        let names: Vec<String> = row.get_column_iter().map(|(name, _)| name.clone()).collect();
        let time = |name: &str| {
            let place = names.iter().position(|other| other == name).expect("the table has this column");
            Some(row.get_long(place).ok()? as f64 / 1e9)
        };
        let waits = STATIONS.map(|(_, [from, to])| Some(time(to)? - time(from)?));
        Some(Cell { read: time("read_ns")?, waits })
    };
    rows.filter_map(cell).collect()
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
