//! Lets another thread observe the progress of a run and cancel the run.

use penstock_units::Instant;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State that a running simulation shares with the thread that waits for it. The results do not depend on it.
#[derive(Default)]
pub struct Control {
    cancelled: AtomicBool,
    one_by_one: bool,
    threads: usize,
    wrapper: Option<ThreadWrapper>,
    now: AtomicU64,
    /// The completed fraction of the run [1/1,000,000].
    fraction: AtomicU64,
}

/// The number of cores that this process may use. On Linux, the affinity mask and the CPU quota of the process's cgroups
/// limit it.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// A function that calls its argument once.
pub type ThreadWrapper = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

impl fmt::Debug for Control {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Control").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Control {
    /// The control of one run.
    pub fn new() -> Self {
        Control::default()
    }

    /// The control of a run without look-ahead and trains. The run handles the events of all hosts one at a time, in
    /// the order of time, and sends each packet separately. Such a run is slower, but has the same results, as tests
    /// verify.
    pub fn one_by_one() -> Self {
        Control { one_by_one: true, ..Control::default() }
    }

    /// Lets one run use several threads, each for some of the hosts. The results do not depend on the number.
    pub fn with_threads(self, threads: usize) -> Self {
        Control { threads, ..self }
    }

    /// Lets `wrapper` call the work of each additional thread of a run, for example to count its memory.
    pub fn with_thread_wrapper(self, wrapper: ThreadWrapper) -> Self {
        Control { wrapper: Some(wrapper), ..self }
    }

    /// Does the work of an additional thread.
    pub(crate) fn in_thread(&self, work: &mut dyn FnMut()) {
        match &self.wrapper {
            Some(wrapper) => wrapper(work),
            None => work(),
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.max(1)
    }

    pub(crate) fn is_one_by_one(&self) -> bool {
        self.one_by_one
    }

    /// Requests the run to stop, which it does within a few thousand events.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The simulated time [s], and the approximate completed fraction of the run, from 0 to 1.
    pub fn progress(&self) -> (f64, f64) {
        let now = Instant::from_nanos(self.now.load(Ordering::Relaxed)).as_secs_f64();
        (now, self.fraction.load(Ordering::Relaxed) as f64 / 1e6)
    }

    pub(crate) fn report(&self, now: Instant, fraction: f64) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
        self.fraction.store((fraction.clamp(0.0, 1.0) * 1e6) as u64, Ordering::Relaxed);
    }
}
