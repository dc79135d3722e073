use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(_core, PenstockError, PyException, "Any error of Penstock.");
create_exception!(_core, ScenarioError, PenstockError, "A mistake in a scenario.");
create_exception!(_core, OutputError, PenstockError, "An output that cannot be written or read.");
create_exception!(_core, Cancelled, PenstockError, "A run that was cancelled before its end.");
create_exception!(
    _core,
    Violation,
    PyException,
    "A prototype's peer broke the protocol, so the circuit closes."
);

/// An error of any crate of Penstock. The message names the place of the error and the correction.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Scenario(#[from] penstock_scenario::Error),
    #[error(transparent)]
    Network(#[from] penstock_network::Error),
    #[error(transparent)]
    Sim(#[from] penstock_sim::Error),
    #[error("cannot write {0}")]
    Output(penstock_record::Error),
    #[error("cannot merge the tables: {0}")]
    Merge(penstock_record::Error),
    /// A sentence about a Python class that is an algorithm.
    #[error("{0}")]
    Prototype(String),
}

/// An error of Penstock as a Python exception, or an exception that Python itself raised.
pub(crate) struct PyError(PyErr);

impl<E: Into<Error>> From<E> for PyError {
    fn from(error: E) -> Self {
        let error = error.into();
        let message = error.to_string();
        Self(match error {
            Error::Sim(penstock_sim::Error::Cancelled) => Cancelled::new_err(message),
            // All other errors of the simulator concern a record that does not fit the scenario.
            Error::Scenario(_) | Error::Sim(_) | Error::Prototype(_) => ScenarioError::new_err(message),
            Error::Network(_) => PenstockError::new_err(message),
            Error::Output(_) | Error::Merge(_) => OutputError::new_err(message),
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
