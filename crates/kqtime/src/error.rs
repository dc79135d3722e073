//! Errors of this crate.

/// The reason why a measurement failed, as a sentence that also names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error on the command line.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks a feature or a permission.
    #[error("{0}")]
    Machine(String),
}
