//! `Penstock record`: what the relay was seen to do, in the tables of a simulation, so that the same programs read both.
//!
//! No address, no name and no identity is written, of nobody: positions and numbers alone. While it runs, each hour is a folder
//! `part-000001` and so on; when it ends, they become one table each.

use crate::Error;
use crate::node::{Node, Observation, TraceConfig};
use crate::torrc::Record;
use penstock_record::{RunKey, Tables};
use penstock_units::{Duration, Instant};
use std::path::PathBuf;
use std::sync::Arc;

/// So many samples, or rows of the other tables, are a part: what is not written yet is lost if the relay is killed.
const SAMPLES_A_PART: usize = 3600;
const ROWS_A_PART: usize = 1 << 18;

/// Who writes down.
#[derive(Debug)]
pub(super) struct Recorder {
    folder: PathBuf,
    interval: Duration,
    next: Instant,
    last: Observation,
    tables: Tables,
    /// Which part is written next, from 1.
    part: u32,
}

impl Recorder {
    /// Begins in a folder of its own, in which no earlier record is.
    pub(super) fn open(record: &Record, node: &mut Node) -> Result<Self, Error> {
        let folder = record.folder.clone();
        let fail = |why: &dyn std::fmt::Display| {
            Error::mistake(format!("Penstock record: {}: {why}", folder.display()))
        };
        std::fs::create_dir_all(&folder).map_err(|error| fail(&error))?;
        let mut there = std::fs::read_dir(&folder).map_err(|error| fail(&error))?;
        if there.next().is_some() {
            return Err(fail(&"there is something in it already; name an empty folder"));
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

    /// Adds a row when it is time.
    pub(super) fn sample(&mut self, node: &mut Node) -> Result<(), Error> {
        if node.now() < self.next {
            return Ok(());
        }
        self.next += self.interval;
        self.row(node);
        let rows = self.tables.cells.len() + self.tables.circuits.len();
        if self.tables.relays.len() >= SAMPLES_A_PART || rows >= ROWS_A_PART { self.write() } else { Ok(()) }
    }

    /// The last row; and all parts become one.
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
        tables.write(&part, &RunKey::new("live", 0)).map_err(Error::mistake)?;
        self.part += 1;
        Ok(())
    }
}
