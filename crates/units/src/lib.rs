//! Quantities with units, and random streams.
//!
//! Layers, in order: [`time`] (instants of a run), [`size`] (bytes and cells), [`rate`] (bytes per second, and
//! conversions between the three), [`parse`] (quantities as text), [`random`] (random streams keyed by name), [`math`]
//! (transcendental functions with the same last bit on every platform), [`fifo`] (queues that stay in the cache).

pub mod fifo;
pub mod math;
pub mod parse;
pub mod random;
pub mod rate;
pub mod size;
pub mod time;

pub use parse::ParseUnitError;
pub use random::{Rng, Seed};
pub use rate::DataRate;
pub use size::{Bytes, Cells};
pub use std::time::Duration;
pub use time::Instant;
