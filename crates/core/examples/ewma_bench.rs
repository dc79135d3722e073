//! Measures the processor time to choose and charge a cell, for EWMA (heap, ticks, list) and round robin.
//!
//! `cargo run --release -p penstock-core --example ewma_bench`, or `make bench`.
//!
//! All circuits of one channel always have cells. Time advances with each write event of 32 cells, because the relay
//! reads the clock once per event (EWMA §3.5). The output has the median and the best of several rounds.

// An allocator cannot be had without; everything unsafe here hands its call on to the system's as it came.
#![allow(unsafe_code)]

use penstock_core::CircuitKey;
use penstock_core::circuit_policy::{CircuitPolicy, CircuitPolicyConfig, EwmaConfig, Weight};
use penstock_units::{Cells, Duration, Instant};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, with a counter.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to `System` with its arguments, and the result is returned; `realloc` is the
// trait's own, in terms of these.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of cells in a write event [cell].
const EVENT: u64 = 32;
const ROUNDS: usize = 9;

fn main() {
    let ewma = EwmaConfig::default();
    let policies = [
        ("heap", CircuitPolicyConfig::EwmaHeap(ewma), 400_000),
        ("tick", CircuitPolicyConfig::EwmaTick(ewma), 400_000),
        ("list", CircuitPolicyConfig::EwmaList(ewma), 4_000_000),
        ("round robin", CircuitPolicyConfig::RoundRobin, 400_000),
    ];
    println!("policy        circuits   median [ns/cell]   best [ns/cell]   allocations");
    for (name, config, cells) in policies {
        for circuits in [10, 100, 1_000, 10_000] {
            // The list's walk is as long as there are circuits.
            let cells = if name == "list" { cells / u64::from(circuits) } else { cells };
            let mut policy = config.build();
            (0..circuits).for_each(|index| policy.on_ready(Instant::ZERO, CircuitKey::from_index(index)));
            let mut now = Instant::ZERO;
            serve(&mut policy, &mut now, cells.min(20_000));
            let mut rounds = [0.0; ROUNDS];
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            serve(&mut policy, &mut now, cells);
            let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
            for round in &mut rounds {
                let begun = cpu_nanos();
                serve(&mut policy, &mut now, cells);
                *round = (cpu_nanos() - begun) as f64 / cells as f64;
            }
            rounds.sort_by(f64::total_cmp);
            let (median, best) = (rounds[ROUNDS / 2], rounds[0]);
            println!("{name:<12}{circuits:>10}{median:>19.1}{best:>17.1}{allocations:>14}");
        }
    }
}

/// The processor time of this process [ns]; other processes do not count.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux says how long a process ran");
    stat.split(' ')
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .expect("the first number is the time that it ran")
}

/// Serves `cells` cells. Each cell is one choice of the policy.
fn serve(policy: &mut impl CircuitPolicy, now: &mut Instant, cells: u64) {
    for cell in 0..cells {
        if cell.is_multiple_of(EVENT) {
            *now += Duration::from_micros(100);
        }
        let (_, circuit) = black_box(policy.head(*now)).expect("all circuits are backlogged");
        policy.on_flush(*now, circuit, Cells::new(1), Weight::ONE);
    }
}
