//! Exponentially weighted moving average (EWMA): circuits that sent little recently go first.
//!
//! The policy counts each circuit's sent cells. A sent cell adds one to the count, and the count halves in every
//! half-life H. The policy serves the circuit with the smallest count. A new circuit has the count zero, so CREATE and
//! EXTEND overtake the cells of other circuits (EWMA §2.3, §5).
//!
//! Three implementations make the same choices: [`List`] (the first deployed one, scans all active circuits), [`Heap`]
//! (constant reference time, logarithmic cost) and [`Tick`] (today's C tor). If counts are equal, the circuit that was
//! served least recently goes first. Among circuits that were never served, the lower key goes first. [`Connection`]
//! ranks connections instead of circuits.
//!
//! Source: Tang and Goldberg, EWMA §2.3 and §3.5; C tor `circuitmux_ewma.c`.

mod connection;
mod heap;
mod indexed_heap;
mod list;
mod tick;

pub use connection::{Connection, ConnectionConfig, Share};
pub use heap::Heap;
pub use list::List;
pub use tick::Tick;

use super::{Flush, Weight};
use indexed_heap::{HeapEntry, IndexedHeap, Turn};
use penstock_units::{Cells, Duration, Instant, math};

/// The configuration of EWMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EwmaConfig {
    /// The half-life of counts [ns]; above zero. The paper recommends 20 to 30 s; its experiments used 66 s.
    pub half_life: Duration,
    /// How many cells a choice moves. Source: EWMA §2.3. Deviation: by default one cell, as in C tor.
    pub flush: Flush,
}

impl Default for EwmaConfig {
    /// The default of C tor's `CircuitPriorityHalflifeMsec`.
    fn default() -> Self {
        EwmaConfig { half_life: Duration::from_secs(30), flush: Flush::Cell }
    }
}

fn half_lives(from: Instant, to: Instant, half_life: Duration) -> f64 {
    let span = if to >= from {
        penstock_units::time::nanos(to.since(from)) as f64
    } else {
        -(penstock_units::time::nanos(from.since(to)) as f64)
    };
    span / penstock_units::time::nanos(half_life).max(1) as f64
}

fn decay(half_lives: f64) -> f64 {
    math::exp2(-half_lives)
}

fn charge(cells: Cells, weight: Weight) -> f64 {
    cells.get() as f64 * weight.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit_policy::CircuitPolicy;
    use crate::keys::CircuitKey;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const H: Duration = Duration::from_secs(32);

    fn all() -> Vec<Box<dyn CircuitPolicy>> {
        let config = EwmaConfig { half_life: H, ..EwmaConfig::default() };
        vec![Box::new(List::new(config)), Box::new(Heap::new(config)), Box::new(Tick::new(config))]
    }

    fn key(index: u32) -> CircuitKey {
        CircuitKey::from_index(index)
    }

    fn serve(policy: &mut dyn CircuitPolicy, now: Instant) -> CircuitKey {
        let (_, circuit) = policy.head(now).expect("a circuit is eligible");
        policy.on_flush(now, circuit, Cells::new(1), Weight::ONE);
        circuit
    }

    #[test]
    fn a_new_circuit_precedes_a_busy_circuit() {
        for mut policy in all() {
            policy.on_ready(Instant::ZERO, key(1));
            for _ in 0..50 {
                assert_eq!(serve(&mut *policy, Instant::ZERO), key(1));
            }
            policy.on_ready(Instant::from_secs(1), key(2));
            assert_eq!(serve(&mut *policy, Instant::from_secs(1)), key(2), "{policy:?}");
        }
    }

    /// VC-11: a circuit without traffic has half of its count after one half-life.
    #[test]
    fn idle_circuit_regains_priority_after_one_half_life() {
        for mut policy in all() {
            policy.on_ready(Instant::ZERO, key(1));
            for _ in 0..64 {
                serve(&mut *policy, Instant::ZERO);
            }
            let (start, _) = policy.head(Instant::ZERO).unwrap();
            let (later, _) = policy.head(Instant::ZERO + H).unwrap();
            let (much_later, _) = policy.head(Instant::ZERO + H * 5).unwrap();
            assert!((later.0 / start.0 - 0.5).abs() < 1e-9, "{policy:?}: {start:?} {later:?}");
            assert!((much_later.0 / start.0 - 1.0 / 32.0).abs() < 1e-9, "{policy:?}");
        }
    }

    /// G-33: circuits that always have cells get equal shares.
    #[test]
    fn backlogged_circuits_share_equally() {
        for mut policy in all() {
            let mut served = [0u32; 5];
            (0..5).for_each(|index| policy.on_ready(Instant::ZERO, key(index)));
            for cell in 0..50_000u64 {
                served[serve(&mut *policy, Instant::from_millis(cell)).index()] += 1;
            }
            assert!(served.iter().all(|count| (9_800..=10_200).contains(count)), "{policy:?}: {served:?}");
        }
    }

    /// G-31: a busy circuit waits for new circuits only until its count has decayed below their counts. This takes at
    /// most H · log2 of the ratio of the counts.
    #[test]
    fn new_circuits_do_not_starve_a_busy_circuit() {
        for mut policy in all() {
            let (old, cell) = (key(0), Duration::from_millis(10));
            policy.on_ready(Instant::ZERO, old);
            for _ in 0..6_400 {
                serve(&mut *policy, Instant::ZERO);
            }
            // Each new circuit is always backlogged. One arrives every ten cells, so nine cells
            // remain for the others.
            let (mut now, mut last, mut longest) = (Instant::ZERO, Instant::ZERO, Duration::ZERO);
            for k in 0..60_000u32 {
                if k.is_multiple_of(10) && k < 2_000 {
                    policy.on_ready(now, key(k + 1));
                }
                if serve(&mut *policy, now) == old {
                    longest = longest.max(now - last);
                    last = now;
                }
                now += cell;
            }
            longest = longest.max(now - last);
            // At 100 cells a second, each of 200 circuits has some 23 cells in the long run (rate *
            // H / ln 2 / circuits).
            let bound = H.mul_f64((6_400.0f64 / 20.0).log2());
            assert!(longest < bound, "{policy:?}: {longest:?}");
            assert!(longest > H, "the busy circuit waits longer than H");
        }
    }

    /// G-30: after 10⁹ cells over ten days, in batches of some ten thousand, no count overflows and
    /// the order is right.
    #[test]
    fn counts_stay_finite_after_ten_days_and_10_to_the_9_cells() {
        for mut policy in all() {
            let mut now = Instant::ZERO;
            policy.on_ready(now, key(0));
            policy.on_ready(now, key(1));
            let step = Duration::from_secs(10 * 86_400) / 100_000;
            for _ in 0..100_000 {
                let (_, circuit) = policy.head(now).unwrap();
                policy.on_flush(now, circuit, Cells::new(10_000), Weight::ONE);
                now += step;
                let (priority, next) = policy.head(now).unwrap();
                assert!(priority.0.is_finite() && priority.0 >= 0.0, "{policy:?}");
                assert_ne!(next, circuit, "two equal circuits take turns");
            }
        }
    }

    /// A new half-life applies to later decay. The counts do not change, apart from rounding in the heap and the list,
    /// and apart from one tick in C tor's variant.
    #[test]
    fn a_changed_half_life_keeps_counts_and_changes_their_decay() {
        for mut policy in all() {
            let (now, later) = (Instant::from_secs(20), Instant::from_secs(30));
            policy.on_ready(now, key(1));
            for _ in 0..64 {
                serve(&mut *policy, now);
            }
            let (before, _) = policy.head(now).unwrap();
            policy.set_half_life(now, Duration::from_secs(10));
            let (after, _) = policy.head(now).unwrap();
            let (halved, _) = policy.head(later).unwrap();
            assert!((after.0 / before.0 - 1.0).abs() < 1e-9, "{policy:?}");
            assert!((halved.0 / after.0 - 0.5).abs() < 1e-9, "{policy:?}");
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Ready(u32),
        Blocked(u32),
        Close(u32),
        Serve,
        Wait(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            3 => (0u32..12).prop_map(Operation::Ready),
            1 => (0u32..12).prop_map(Operation::Blocked),
            1 => (0u32..12).prop_map(Operation::Close),
            12 => Just(Operation::Serve),
            // Eighths of a half-life: few ties depend on the last bit.
            2 => (1u64..80).prop_map(|eighths| Operation::Wait(eighths * 4_000)),
        ]
    }

    proptest! {
        /// VC-10, G-30: list, heap and ticks choose an eligible circuit with the minimum count. If
        /// two counts differ by less than rounding, both choices are right.
        #[test]
        fn list_heap_and_ticks_choose_the_same_circuit(operations in proptest::collection::vec(operation(), 0..400)) {
            let mut policies = all();
            let (mut now, mut eligible) = (Instant::ZERO, std::collections::BTreeSet::new());
            // The counts by the definition, as the reference.
            let mut counts: BTreeMap<u32, (f64, Instant)> = BTreeMap::new();
            for operation in operations {
                match operation {
                    Operation::Wait(millis) => now += Duration::from_millis(millis),
                    Operation::Ready(index) => {
                        eligible.insert(index);
                        policies.iter_mut().for_each(|policy| policy.on_ready(now, key(index)));
                    }
                    Operation::Blocked(index) => {
                        eligible.remove(&index);
                        policies.iter_mut().for_each(|policy| policy.on_blocked(now, key(index)));
                    }
                    Operation::Close(index) => {
                        eligible.remove(&index);
                        counts.remove(&index);
                        policies.iter_mut().for_each(|policy| policy.on_close(key(index)));
                    }
                    Operation::Serve => {
                        let at = |index: u32| counts.get(&index).map_or(0.0, |(count, since)| count * decay(half_lives(*since, now, H)));
                        let least = eligible.iter().map(|index| at(*index)).fold(f64::INFINITY, f64::min);
                        let mut chosen = None;
                        for policy in &policies {
                            match policy.head(now) {
                                None => prop_assert!(eligible.is_empty()),
                                Some((_, circuit)) => {
                                    let index = circuit.index() as u32;
                                    prop_assert!(eligible.contains(&index));
                                    prop_assert!(at(index) <= least + 1e-9 * (1.0 + least));
                                    chosen.get_or_insert(index);
                                }
                            }
                        }
                        if let Some(index) = chosen {
                            let count = at(index) + 1.0;
                            counts.insert(index, (count, now));
                            policies.iter_mut().for_each(|policy| policy.on_flush(now, key(index), Cells::new(1), Weight::ONE));
                        }
                    }
                }
            }
        }

        /// G-30: after any time, all counts are finite numbers.
        #[test]
        fn counts_stay_finite(gaps in proptest::collection::vec(0u64..40_000_000, 1..200)) {
            for mut policy in all() {
                let mut now = Instant::ZERO;
                policy.on_ready(now, key(0));
                for gap in &gaps {
                    now += Duration::from_millis(*gap);
                    serve(&mut *policy, now);
                    let (priority, _) = policy.head(now).unwrap();
                    prop_assert!(priority.0.is_finite() && priority.0 > 0.0);
                }
            }
        }
    }
}
