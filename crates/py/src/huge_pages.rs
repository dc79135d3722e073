//! Huge pages for the heap of a run.
//!
//! A large network needs gigabytes of memory in random order, so the processor often misses the address of a page.
//! Linux gives huge pages only to memory for which a program requests them, and only if a whole huge page is mapped.
//! The heap of a thread grows in smaller steps. The module therefore requests a huge page when the heap has grown into
//! the next one.

// Requests to the kernel are unsafe functions.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// The size of a huge page on x86-64 and most other processors [B], as a power of two.
const PAGE_BITS: u32 = 21;
const PAGE: usize = 1 << PAGE_BITS;

/// The number of entries of [`SEEN`]. They cover 128 GiB; further memory only causes repeated requests.
const ENTRIES: usize = 1 << 16;

/// For each huge page, modulo [`ENTRIES`], its address and the run that last allocated memory in it.
static SEEN: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];

static RUNS: AtomicU8 = AtomicU8::new(0);

/// The number of a new run; never 0. Later runs may use freed memory again, which then has small pages.
pub(crate) fn next_run() -> u8 {
    RUNS.fetch_add(1, Relaxed) | 1 << 5
}

/// Address and run of a huge page. The run has the upper six bits.
fn mark(run: u8, page: usize) -> u32 {
    u32::from(run) << 26 | (page as u32 & ((1 << 26) - 1))
}

/// Handles an allocation of a run at the address `at`.
#[inline]
pub(crate) fn on_allocated(run: u8, at: usize, size: usize) {
    let page = at >> PAGE_BITS;
    if SEEN[page % ENTRIES].load(Relaxed) != mark(run, page) || size >= 2 * PAGE {
        on_new_page(run, at, size);
    }
}

#[cold]
fn on_new_page(run: u8, at: usize, size: usize) {
    if at == 0 {
        return;
    }
    let page = at >> PAGE_BITS;
    SEEN[page % ENTRIES].store(mark(run, page), Relaxed);
    if size >= 2 * PAGE {
        let first = page + 1;
        request(first, ((at + size) >> PAGE_BITS).saturating_sub(first));
    } else if SEEN[(page - 1) % ENTRIES].load(Relaxed) == mark(run, page - 1) {
        request(page - 1, 1);
        merge(page - 1, 1);
    }
}

/// Requests that the kernel uses huge pages from now on. Without support, this does nothing.
fn request(page: usize, count: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the advice changes the contents of no mapping at this address.
    let _ = unsafe { libc::madvise((page << PAGE_BITS) as *mut _, count * PAGE, libc::MADV_HUGEPAGE) };
}

/// Moves small pages to huge pages immediately (Linux 6.1 and later). Older kernels do it in the background.
fn merge(page: usize, count: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: as above.
    let _ = unsafe { libc::madvise((page << PAGE_BITS) as *mut _, count * PAGE, libc::MADV_COLLAPSE) };
}
