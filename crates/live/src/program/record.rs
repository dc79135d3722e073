//! The option `Penstock record`: writes the relay's state into the same tables as a simulation, so that the same
//! tools can read them.
//!
//! The tables contain positions and numbers, but no addresses, names or identities. During the run, each hour has a
//! folder such as `part-000001`. At the end, the parts of each table are merged.

use crate::Error;
use crate::node::{Node, Observation, TraceConfig};
use crate::torrc::Record;
use penstock_record::{RunKey, Tables};
use penstock_units::{Duration, Instant};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of samples in a part. `ROWS_A_PART` limits other tables. A killed process loses the unwritten part.
const SAMPLES_A_PART: usize = 3600;
const ROWS_A_PART: usize = 1 << 18;

/// The folder for the tables of this start: the first of `name`, `name-2`, `name-3` and so on that is new or empty. It
/// exists afterwards.
pub(super) fn folder(name: &Path) -> Result<PathBuf, Error> {
    let mut folder = name.to_owned();
    for number in 2_u64.. {
        let is_empty = fs::create_dir_all(&folder)
            .and_then(|()| Ok(fs::read_dir(&folder)?.next().is_none()))
            .map_err(|error| Error::operator(format!("Penstock record: {}: {error}", folder.display())))?;
        if is_empty {
            break;
        }
        let mut numbered = name.file_name().unwrap_or_default().to_owned();
        numbered.push(format!("-{number}"));
        folder.set_file_name(numbered);
    }
    Ok(folder)
}

#[derive(Debug)]
pub(super) struct Recorder {
    folder: PathBuf,
    interval: Duration,
    next: Instant,
    last: Observation,
    tables: Tables,
    part: u32,
}

impl Recorder {
    /// Starts a record in an empty folder ([`folder`]).
    pub(super) fn open(record: &Record, folder: PathBuf, node: &mut Node) -> Self {
        log::info!("tables go to {}", folder.display());
        node.trace(TraceConfig { cells: record.cells, circuits: record.circuits, connections: false });
        let last = node.observe();
        Recorder {
            next: last.at + record.interval,
            folder,
            interval: record.interval,
            last,
            tables: Tables::default(),
            part: 1,
        }
    }

    pub(super) fn sample(&mut self, node: &mut Node) -> Result<(), Error> {
        if node.now() < self.next {
            return Ok(());
        }
        self.next += self.interval;
        self.row(node);
        let rows = self.tables.cells.len() + self.tables.circuits.len();
        if self.tables.relays.len() >= SAMPLES_A_PART || rows >= ROWS_A_PART { self.write() } else { Ok(()) }
    }

    /// Adds the last row, and merges all parts.
    pub(super) fn close(mut self, node: &mut Node) -> Result<(), Error> {
        self.row(node);
        self.write()?;
        let parts: Vec<PathBuf> = (1..self.part).map(|part| self.part(part)).collect();
        let merged = penstock_record::merge(&parts, &self.folder).map_err(std::io::Error::other);
        let merged = merged.and_then(|()| parts.iter().try_for_each(fs::remove_dir_all));
        merged.map_err(|error| Error::file(&self.folder, error))
    }

    fn part(&self, number: u32) -> PathBuf {
        self.folder.join(format!("part-{number:06}"))
    }

    fn row(&mut self, node: &mut Node) {
        let seen = node.observe();
        self.tables.relays.push(seen.row(&self.last, Arc::from("relay"), node.position()));
        self.last = seen;
        let traced = node.take_traced();
        self.tables.cells.extend(traced.cells);
        self.tables.circuits.extend(traced.circuits);
    }

    fn write(&mut self) -> Result<(), Error> {
        let part = self.part(self.part);
        let tables = std::mem::take(&mut self.tables);
        fs::create_dir(&part).map_err(|error| Error::file(&part, error))?;
        tables.write(&part, &RunKey::new("live", 0)).map_err(Error::operator)?;
        self.part += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_a_folder_of_its_own() {
        let root = std::env::temp_dir().join(format!("penstock-record-{}", std::process::id()));
        let name = root.join("tables");
        let mut starts = Vec::new();
        for _ in 0..3 {
            let folder = folder(&name).unwrap();
            fs::write(folder.join("relays.parquet"), "rows").unwrap();
            starts.push(folder.file_name().unwrap().to_owned());
        }
        assert_eq!(starts, ["tables", "tables-2", "tables-3"]);
        fs::remove_file(root.join("tables-2/relays.parquet")).unwrap();
        assert_eq!(folder(&name).unwrap(), root.join("tables-2"), "an empty folder is used");
        let message = folder(&name.join("relays.parquet")).unwrap_err().to_string();
        assert!(message.contains("Penstock record: "), "{message}");
        fs::remove_dir_all(root).unwrap();
    }
}
