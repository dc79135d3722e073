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
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of samples in a part. `ROWS_A_PART` limits other tables. A killed process loses the unwritten part.
const SAMPLES_A_PART: usize = 3600;
const ROWS_A_PART: usize = 1 << 18;

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
    /// Starts a record. The folder must be empty.
    pub(super) fn open(record: &Record, node: &mut Node) -> Result<Self, Error> {
        let folder = record.folder.clone();
        let fail = |why: &dyn std::fmt::Display| {
            Error::operator(format!("Penstock record: {}: {why}", folder.display()))
        };
        std::fs::create_dir_all(&folder).map_err(|error| fail(&error))?;
        let mut there = std::fs::read_dir(&folder).map_err(|error| fail(&error))?;
        if there.next().is_some() {
            return Err(fail(&"the folder is not empty; name an empty folder"));
        }
        node.trace(TraceConfig { cells: record.cells, circuits: record.circuits, connections: false });
        let last = node.observe();
        Ok(Recorder {
            next: last.at + record.interval,
            folder,
            interval: record.interval,
            last,
            tables: Tables::default(),
            part: 1,
        })
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
        let merged = merged.and_then(|()| parts.iter().try_for_each(std::fs::remove_dir_all));
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
        std::fs::create_dir(&part).map_err(|error| Error::file(&part, error))?;
        tables.write(&part, &RunKey::new("live", 0)).map_err(Error::operator)?;
        self.part += 1;
        Ok(())
    }
}
