//! The output of a run: five tables, the same from the simulator and the live relay.
//!
//! Layers, in order: [`tables`] (the rows), [`key`] (the run of a row), [`stats`] (the cost of a run), [`error`], `write`
//! (one Parquet file per table, the same bytes for the same rows), [`merge`](mod@merge) (the tables of many runs in one).
//!
//! A simulator or relay appends rows to [`Tables`] in the order of events and passes them on at the end. It never accesses a
//! file. The columns are an interface: add columns, do not rename them.

pub mod error;
pub mod key;
pub mod merge;
pub mod stats;
pub mod tables;
mod write;

pub use error::Error;
pub use key::RunKey;
pub use merge::merge;
pub use stats::RunStats;
pub use tables::{CellRow, CircuitRow, Direction, Outcome, PathRow, Position, RelayRow, Tables, Transfer};
