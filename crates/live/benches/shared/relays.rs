//! Relays of an emulated network: their places, their end, and the times of cells in their records.

use crate::testnet::TIMEOUT;
use crate::testnet::place::Place;
use crate::testnet::tor::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use penstock_testbed::site::Site;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// The places of the first `hosts` hosts.
pub(crate) fn places(site: &Arc<Site>, hosts: usize) -> Vec<Place> {
    let place = |host| {
        let site = Arc::clone(site);
        Place::namespace(site.address(host), move || site.enter(host))
    };
    (0..hosts).map(place).collect()
}

/// Ends the process `signalled` with SIGTERM, so that a relay writes its records. Waits until the process `awaited` has
/// ended.
pub(crate) fn end(signalled: u32, awaited: u32) {
    kill(Pid::from_raw(signalled.cast_signed()), Signal::SIGTERM).expect("the process runs");
    let has_ended = || {
        let status = fs::read_to_string(format!("/proc/{awaited}/status")).unwrap_or_default();
        status.is_empty() || status.contains("State:\tZ")
    };
    assert!(wait(TIMEOUT, has_ended), "process {awaited} ends");
}

/// The times of each recorded cell in these columns [s]; `None` if the relay does not know a time.
pub(crate) fn cell_times<const N: usize>(record: &Path, columns: [&str; N]) -> Vec<[Option<f64>; N]> {
    let file = File::open(record.join("cells.parquet")).expect("the relay wrote its records");
    let reader = SerializedFileReader::new(file).expect("the records are Parquet");
    let names: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    let places = columns
        .map(|column| names.iter().position(|name| name == column).expect("the table has this column"));
    let rows = reader.get_row_iter(None).expect("the records have rows");
    rows.map(|row| {
        let row = row.expect("the records are complete");
        places.map(|place| Some(row.get_long(place).ok()? as f64 / 1e9))
    })
    .collect()
}

/// The value with this part of all sorted values at or below it; NaN without values.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((part * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}
