//! A handle on a run in another thread.

use pyo3::prelude::*;

/// Watches and stops one run.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Default)]
pub(crate) struct Control(penstock_sim::Control);

impl Control {
    pub(crate) fn inner(&self) -> &penstock_sim::Control {
        &self.0
    }
}

#[pymethods]
impl Control {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn cancel(&self) {
        self.0.cancel();
    }

    fn progress(&self) -> (f64, f64) {
        self.0.progress()
    }
}
