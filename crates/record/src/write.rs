//! Writes one Parquet file for each table. The same tables give the same bytes.
//!
//! A file is encoded in memory and then written in one call, because an encoded file is small compared with its rows.

mod table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use self::table::{Column, Datum, Row, column, properties, row, words};

use self::table::{encode, schema};
use crate::{CellRow, CircuitRow, ClientRow, Error, PathRow, RelayRow, RunKey, Tables, Transfer};
use parquet::schema::types::TypePtr;
use std::fs::File;
use std::io::Write;
use std::path::Path;

type Schema = fn() -> TypePtr;

/// The file name of each table, and the table's columns.
pub(crate) const TABLES: [(&str, Schema); 6] = [
    (Transfer::FILE, schema::<Transfer>),
    (PathRow::FILE, schema::<PathRow>),
    (RelayRow::FILE, schema::<RelayRow>),
    (CircuitRow::FILE, schema::<CircuitRow>),
    (CellRow::FILE, schema::<CellRow>),
    (ClientRow::FILE, schema::<ClientRow>),
];

impl Tables {
    /// Writes the six tables into the existing directory `dir` as `transfers.parquet`, `paths.parquet`, `relays.parquet`,
    /// `circuits.parquet`, `cells.parquet` and `clients.parquet`. Each row begins with the run's `key`. The same tables
    /// and key give the same bytes.
    pub fn write(&self, dir: &Path, key: &RunKey) -> Result<(), Error> {
        save(dir, key, &self.transfers)?;
        save(dir, key, &self.paths)?;
        save(dir, key, &self.relays)?;
        save(dir, key, &self.circuits)?;
        save(dir, key, &self.cells)?;
        save(dir, key, &self.clients)
    }
}

/// Writes one file and waits until it is on the disk, because some file systems report a full disk only then.
fn save<R: Row>(dir: &Path, key: &RunKey, rows: &[R]) -> Result<(), Error> {
    let path = dir.join(R::FILE);
    let bytes = encode(key, rows).map_err(|error| Error::parquet(&path, error))?;
    let write = || {
        let mut file = File::create(&path)?;
        file.write_all(&bytes).and_then(|()| file.sync_data())
    };
    write().map_err(|error| Error::io(&path, error))
}
