//! Counts allocations and bytes: a steady flow and a steady network allocate no memory, and a client that has not
//! started needs little memory.

mod dormant;
mod flow;
mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread. Tests run in parallel.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// The allocated bytes of this thread now, and their maximum since the last call of [`memory_of`] [B].
    static BYTES: Cell<[i64; 2]> = const { Cell::new([0; 2]) };
}

struct Counting;

#[allow(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: every call goes to the system allocator; only the counters are ours.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
        count(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
        count(size as i64 - layout.size() as i64);
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

fn count(added: i64) {
    BYTES.with(|bytes| {
        let [now, peak] = bytes.get();
        bytes.set([now + added, peak.max(now + added)]);
    });
}

/// Allocations of this thread so far.
fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// The memory that a step adds at its end, and the most that it adds at any time [B].
fn memory_of<T>(step: impl FnOnce() -> T) -> (T, [i64; 2]) {
    let [before, _] = BYTES.get();
    BYTES.set([before; 2]);
    let result = step();
    let [after, peak] = BYTES.get();
    (result, [after - before, peak - before])
}
