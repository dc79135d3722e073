//! Python's exception tree, and which of Rust's errors becomes which exception.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::io;

create_exception!(_core, PenstockError, PyException, "Anything that Penstock refuses or cannot do.");
create_exception!(_core, ScenarioError, PenstockError, "A scenario that is wrong.");
create_exception!(_core, OutputError, PenstockError, "An output that cannot be written or read.");
create_exception!(_core, Cancelled, PenstockError, "A run that was stopped before its end.");

/// Whatever the crates below can refuse.
pub(crate) enum Error {
    /// The scenario is wrong; the text names the place, the key and what would be right.
    Scenario(penstock_scenario::ScenarioError),
    /// A network, or the document that it is read from, is wrong; the text names the file.
    Network(penstock_network::Error),
    /// A record of requests does not go with the scenario; the text says why.
    Replay(String),
    /// A run has no outcome.
    Run(penstock_sim::Error),
    /// A table cannot be written; the text names the file.
    Output(io::Error),
    /// Tables cannot be joined; the text names the file.
    Merge(io::Error),
}

/// An [`Error`] of ours, or one that Python already has.
pub(crate) struct PyError(PyErr);

impl From<Error> for PyError {
    fn from(error: Error) -> Self {
        Self(match error {
            Error::Scenario(error) => ScenarioError::new_err(error.to_string()),
            Error::Replay(why) => ScenarioError::new_err(why),
            Error::Network(error) => PenstockError::new_err(error.to_string()),
            Error::Run(error @ penstock_sim::Error::Cancelled) => Cancelled::new_err(error.to_string()),
            Error::Run(error) => PenstockError::new_err(error.to_string()),
            Error::Output(error) => OutputError::new_err(format!("cannot write {error}")),
            Error::Merge(error) => OutputError::new_err(format!("cannot merge the tables: {error}")),
        })
    }
}

impl From<PyErr> for PyError {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl From<PyError> for PyErr {
    fn from(error: PyError) -> Self {
        error.0
    }
}
