use crate::heap;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Observes and cancels a run from another Python thread.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct Control {
    inner: penstock_sim::Control,
    /// The sum of the peak heaps of the run's additional threads [B].
    peak_of_others: Arc<AtomicU64>,
}

impl Control {
    pub(crate) fn inner(&self) -> &penstock_sim::Control {
        &self.inner
    }

    pub(crate) fn peak_of_others(&self) -> u64 {
        self.peak_of_others.load(Ordering::Relaxed)
    }
}

#[pymethods]
impl Control {
    #[new]
    #[pyo3(signature = (threads = 1))]
    fn new(threads: usize) -> Self {
        let peak_of_others = Arc::new(AtomicU64::new(0));
        let sum = peak_of_others.clone();
        let wrapper = move |work: &mut dyn FnMut()| {
            let ((), peak) = heap::peak_of(work);
            sum.fetch_add(peak, Ordering::Relaxed);
        };
        let inner = penstock_sim::Control::new().with_threads(threads).with_thread_wrapper(Box::new(wrapper));
        Control { inner, peak_of_others }
    }

    fn cancel(&self) {
        self.inner.cancel();
    }

    fn progress(&self) -> (f64, f64) {
        self.inner.progress()
    }
}
