use pyo3::prelude::*;

/// Observes and cancels a run from another Python thread.
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
