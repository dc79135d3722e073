//! Counts allocations: a steady flow and a steady network allocate no memory.

mod flow;
mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread. Tests run in parallel.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[allow(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: every call goes to the system allocator; only the counter is ours.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// Allocations of this thread so far.
fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}
