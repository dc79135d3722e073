use crate::heap;
use pyo3::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Observes and cancels a run from another Python thread.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct Control {
    inner: Arc<penstock_sim::Control>,
    threads: usize,
    /// The sum of the peak heaps of the run's additional threads [B].
    peak_of_others: Arc<AtomicU64>,
    /// The processor time of the run's additional threads [ns].
    cpu_of_others: Arc<AtomicU64>,
}

/// The processor time of this thread so far [ns].
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Control {
    pub(crate) fn inner(&self) -> &Arc<penstock_sim::Control> {
        &self.inner
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
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
        let cpu_of_others = Arc::new(AtomicU64::new(0));
        let (peaks, times) = (peak_of_others.clone(), cpu_of_others.clone());
        let wrapper = move |work: &mut dyn FnMut()| {
            let begun = thread_time();
            let ((), peak) = heap::peak_of(work);
            peaks.fetch_add(peak, Ordering::Relaxed);
            times.fetch_add(thread_time() - begun, Ordering::Relaxed);
        };
        let inner = penstock_sim::Control::new().with_threads(threads).with_thread_wrapper(Box::new(wrapper));
        Control { inner: Arc::new(inner), threads, peak_of_others, cpu_of_others }
    }

    /// The processor time of the run's additional threads, after the run [s].
    fn cpu_seconds_of_others(&self) -> f64 {
        self.cpu_of_others.load(Ordering::Relaxed) as f64 / 1e9
    }

    fn cancel(&self) {
        self.inner.cancel();
    }

    fn progress(&self) -> (f64, f64) {
        self.inner.progress()
    }
}
