//! What a run leaves behind: five tables, the same from every world.
//!
//! Layers, in order: [`tables`] (the rows, as a world fills them in), [`key`] (which run they belong to),
//! [`stats`] (what the run cost), `write` (one Parquet file per table, byte for byte repeatable),
//! [`merge`](mod@merge) (the tables of many runs into one each).
//!
//! A world appends rows to [`Tables`] in the order in which things happen and hands them over at the end;
//! it never sees a file. The columns are an interface: add to them, do not rename them.

pub mod key;
pub mod merge;
pub mod stats;
pub mod tables;
mod write;

pub use key::RunKey;
pub use merge::merge;
pub use stats::RunStats;
pub use tables::{CellRow, CircuitRow, Direction, Outcome, PathRow, Position, RelayRow, Tables, Transfer};
