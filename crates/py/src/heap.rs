//! How much memory a run takes.
//!
//! A run lives in one thread, so counting what that thread allocates and frees says what the run holds, however many
//! others run beside it. The counters are two numbers of the thread; the memory itself is the system's.

// An allocator cannot be had without; everything unsafe here hands its call on to the system's as it came.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocated and not freed in this thread [B]; negative if it freed what others had allocated.
    static HELD: Cell<i64> = const { Cell::new(0) };
    /// The largest that `HELD` has been since the last reset [B].
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// What `work` returns, and the largest heap that this thread held meanwhile, above what it held before [B].
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    PEAK.set(before);
    let value = work();
    (value, PEAK.get().saturating_sub(before).max(0) as u64)
}

/// The system's allocator, counted.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Note a change of what this thread holds; a thread that is ending no longer counts.
fn count(bytes: i64) {
    let _ = HELD.try_with(|held| {
        let now = held.get().wrapping_add(bytes);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

// SAFETY: every call goes to `System` with the arguments that came, and what it returns is returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}
