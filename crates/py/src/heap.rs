//! The memory of a run: its peak, and huge pages for it.
//!
//! An allocator counts the allocations of each thread. Runs in other threads therefore do not affect the result. If a run
//! uses several threads, its peak is the sum of their peaks.

// An allocator requires unsafe code. Each call goes unchanged to the system's allocator.
#![allow(unsafe_code)]

use crate::huge_pages;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated minus bytes that it has freed [B]. Negative if it freed memory of other
    /// threads.
    static HELD: Cell<i64> = const { Cell::new(0) };
    /// The maximum of `HELD` since the last reset [B].
    static PEAK: Cell<i64> = const { Cell::new(0) };
    /// The number of the thread's run; 0 if it has none.
    static RUN: Cell<u8> = const { Cell::new(0) };
}

/// Runs `work`. Returns the result of `work`, and how far the thread's heap grew above its initial size [B].
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    PEAK.set(before);
    RUN.set(huge_pages::next_run());
    let value = work();
    RUN.set(0);
    (value, PEAK.get().saturating_sub(before).max(0) as u64)
}

/// The system's allocator, with counters.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts a change of this thread's heap, unless the thread is ending.
fn count(bytes: i64) {
    let _ = HELD.try_with(|held| {
        let now = held.get().wrapping_add(bytes);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

/// The heap from which on a run uses huge pages [B]. Their creation takes longer than a short run saves.
const LARGE_HEAP: i64 = 256 << 20;

/// Requests huge pages for new memory of a run with a large heap.
fn on_allocated(memory: *mut u8, size: usize) -> *mut u8 {
    if let Ok(run) = RUN.try_with(Cell::get)
        && run > 0
        && HELD.try_with(Cell::get).is_ok_and(|held| held > LARGE_HEAP)
    {
        huge_pages::on_allocated(run, memory as usize, size);
    }
    memory
}

// SAFETY: every call goes to `System` with unchanged arguments and result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller fulfils the requirements of `System`.
        on_allocated(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        on_allocated(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        on_allocated(unsafe { System.realloc(memory, layout, size) }, size)
    }
}
