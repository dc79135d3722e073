//! The output of a run: five tables, which the simulator and the live relay write in the same form.
//!
//! Layers, in order: [`tables`] (the rows), [`key`] (the run to which a row belongs), [`stats`] (the cost of a run),
//! [`error`], `write` (one Parquet file for each table; the same rows give the same bytes), [`merge`](mod@merge)
//! (merges the tables of many runs).
//!
//! A simulator or relay appends rows to [`Tables`] in the order of events, and returns the tables at the end. Appending
//! accesses no file. The columns are an interface: add columns, but do not rename them.

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
pub use tables::{
    CellRow, CircuitRow, ClientRow, Direction, Outcome, PathRow, Position, RelayRow, Tables, Transfer,
};
