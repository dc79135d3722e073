//! Lets threads wait for each other.

use crate::control::cores;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// How often a waiting thread looks at the gate before it sleeps, if each thread has a core. This takes about 0.1 ms.
const SPINS: u32 = 2_000;

/// A gate that opens each time all threads have arrived.
///
/// The threads of a run wait about 10,000 times per second. A waiting thread therefore stays on its core for about 0.1 ms
/// before it sleeps, unlike at [`std::sync::Barrier`].
#[derive(Debug)]
pub(super) struct Gate {
    threads: usize,
    spins: u32,
    arrived: AtomicUsize,
    /// How often the gate has opened.
    opened: AtomicU64,
    is_dismantled: AtomicBool,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    pub(super) fn new(threads: usize) -> Self {
        Gate {
            threads,
            spins: if threads <= cores() { SPINS } else { 0 },
            arrived: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            is_dismantled: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Waits until all threads have arrived. Returns `false` as soon as the gate is dismantled.
    pub(super) fn wait(&self) -> bool {
        // The gate does not open before this thread arrives.
        let before = self.opened.load(Ordering::Relaxed);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.opened.store(before + 1, Ordering::SeqCst);
            self.wake_sleepers();
        } else {
            self.wait_for_others(before);
        }
        !self.is_dismantled.load(Ordering::Acquire)
    }

    /// Lets all threads pass, now and later.
    pub(super) fn dismantle(&self) {
        self.is_dismantled.store(true, Ordering::SeqCst);
        self.wake_sleepers();
    }

    fn is_open(&self, before: u64) -> bool {
        self.opened.load(Ordering::SeqCst) != before || self.is_dismantled.load(Ordering::SeqCst)
    }

    fn wait_for_others(&self, before: u64) {
        for _ in 0..self.spins {
            if self.is_open(before) {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_open(before) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake_sleepers(&self) {
        // A thread counts itself as a sleeper before it looks at the gate for the last time.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.wake.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Four threads pass the gate 200 times. `delay` makes one of them late.
    fn pass_together(delay: Duration) {
        let (gate, passed) = (Gate::new(4), [const { AtomicU64::new(0) }; 4]);
        std::thread::scope(|scope| {
            for own in 0..4 {
                let (gate, passed) = (&gate, &passed);
                scope.spawn(move || {
                    for turn in 1..=200 {
                        if own == 0 && turn % 50 == 0 {
                            std::thread::sleep(delay);
                        }
                        passed[own].store(turn, Ordering::Relaxed);
                        assert!(gate.wait());
                        // Other threads can be one turn ahead, but not behind.
                        let counts = passed.iter().map(|count| count.load(Ordering::Relaxed));
                        assert!(counts.into_iter().all(|count| count == turn || count == turn + 1));
                    }
                });
            }
        });
    }

    #[test]
    fn no_thread_passes_before_all_have_arrived() {
        pass_together(Duration::ZERO);
    }

    #[test]
    fn sleeping_threads_wake_up() {
        pass_together(Duration::from_millis(20));
    }

    #[test]
    fn all_threads_pass_a_dismantled_gate() {
        let gate = Gate::new(3);
        std::thread::scope(|scope| {
            let waiting = [0, 1].map(|_| scope.spawn(|| gate.wait()));
            std::thread::sleep(Duration::from_millis(20));
            gate.dismantle();
            assert!(waiting.into_iter().all(|thread| !thread.join().expect("it only waits")));
        });
        assert!(!gate.wait());
    }
}
