//! Errors of this crate. Each is one sentence with the remedy.

/// Why a run of the testbed did not take place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A mistake on the command line.
    #[error("{0}")]
    Usage(String),
    /// A setting of a scenario that the testbed does not support, or a mistake in the scenario.
    #[error("{0}")]
    Scenario(String),
    /// The machine lacks a feature or a permission.
    #[error("{0}")]
    Machine(String),
    /// The run broke off.
    #[error("{0}")]
    Run(String),
}

/// An [`Error::Usage`] with a formatted sentence.
macro_rules! usage { ($($text:tt)*) => { $crate::Error::Usage(format!($($text)*)) } }
/// An [`Error::Scenario`] with a formatted sentence.
macro_rules! unsupported { ($($text:tt)*) => { $crate::Error::Scenario(format!($($text)*)) } }
/// An [`Error::Machine`] with a formatted sentence.
macro_rules! machine { ($($text:tt)*) => { $crate::Error::Machine(format!($($text)*)) } }
/// An [`Error::Run`] with a formatted sentence.
macro_rules! broken { ($($text:tt)*) => { $crate::Error::Run(format!($($text)*)) } }
pub(crate) use {broken, machine, unsupported, usage};
