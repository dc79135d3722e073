//! Errors of this crate.

/// The reason why a run failed, as a sentence that also names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error on the command line.
    #[error("{0}")]
    Usage(String),
    /// An error in the scenario, or a setting that the testbed does not support.
    #[error("{0}")]
    Scenario(String),
    /// The machine lacks a feature or a permission.
    #[error("{0}")]
    Machine(String),
    /// The run was aborted.
    #[error("{0}")]
    Run(String),
}

/// Formats an [`Error::Usage`].
macro_rules! usage { ($($text:tt)*) => { $crate::Error::Usage(format!($($text)*)) } }
/// Formats an [`Error::Scenario`].
macro_rules! unsupported { ($($text:tt)*) => { $crate::Error::Scenario(format!($($text)*)) } }
/// Formats an [`Error::Machine`].
macro_rules! machine { ($($text:tt)*) => { $crate::Error::Machine(format!($($text)*)) } }
/// Formats an [`Error::Run`].
macro_rules! broken { ($($text:tt)*) => { $crate::Error::Run(format!($($text)*)) } }
pub(crate) use {broken, machine, unsupported, usage};
