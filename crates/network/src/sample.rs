//! Samples the relays of a large network, to make a smaller one.
//!
//! Sampling is stratified as in an [era](crate::era). Each class keeps its share of the relays. To sample n relays of a
//! class, the relays of the class are ordered by weight and divided into n parts. One relay is sampled from each part.

use crate::relay::Class;
use penstock_units::Rng;

pub(crate) const CLASSES: [Class; 4] = [Class::Plain, Class::Guard, Class::Exit, Class::Both];

/// Samples `count` of the relays, given by class and weight. Returns the indices of the sampled relays in increasing
/// order. If there are fewer relays than `count`, returns all indices.
pub fn sample(relays: &[(Class, u64)], count: usize, rng: &mut Rng) -> Vec<usize> {
    if count >= relays.len() {
        return (0..relays.len()).collect();
    }
    let members = CLASSES.map(|class| {
        let mut members: Vec<usize> = (0..relays.len()).filter(|place| relays[*place].0 == class).collect();
        members.sort_by_key(|place| (relays[*place].1, *place));
        members
    });
    // No network has more than 2^32 relays.
    let counts = shared(count, &members.each_ref().map(|members| members.len() as u32));
    let mut sampled = Vec::with_capacity(count);
    for (members, count) in members.iter().zip(counts) {
        for stratum in 0..count {
            let [from, to] = [stratum, stratum + 1].map(|edge| edge * members.len() / count);
            sampled.push(members[from + rng.below((to - from) as u64) as usize]);
        }
    }
    sampled.sort_unstable();
    sampled
}

/// Divides `count` in proportion to `shares`, with the method of largest remainders. Of equal remainders, the first one
/// wins.
pub(crate) fn shared(count: usize, shares: &[u32; 4]) -> [usize; 4] {
    let total: u64 = shares.iter().map(|share| u64::from(*share)).sum();
    let exact = shares.map(|share| count as u64 * u64::from(share));
    let mut counts = exact.map(|exact| (exact / total) as usize);
    let mut order = [0, 1, 2, 3];
    order.sort_by_key(|place: &usize| std::cmp::Reverse(exact[*place] % total));
    let missing = count - counts.iter().sum::<usize>();
    order.iter().take(missing).for_each(|place| counts[*place] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::{Rng, Seed};
    use proptest::prelude::*;

    fn rng(seed: u64) -> Rng {
        Seed(seed).stream("sample")
    }

    #[test]
    fn a_sample_keeps_the_classes_and_the_shape() {
        // Weights of 1 to 1000; every tenth relay is an exit, every fifth a guard.
        let class = |place: u64| match place {
            _ if place.is_multiple_of(10) => Class::Exit,
            _ if place % 5 == 1 => Class::Guard,
            _ => Class::Plain,
        };
        let relays: Vec<_> = (0..1000).map(|place| (class(place), place + 1)).collect();
        for seed in 1..20 {
            let sampled = sample(&relays, 50, &mut rng(seed));
            let of = |class| sampled.iter().filter(|place| relays[**place].0 == class).count();
            assert_eq!(CLASSES.map(of), [35, 10, 5, 0]);
            let mean = sampled.iter().map(|place| relays[*place].1).sum::<u64>() / 50;
            assert!((485..=515).contains(&mean), "seed {seed}: {mean}");
        }
        assert_ne!(sample(&relays, 50, &mut rng(1)), sample(&relays, 50, &mut rng(2)));
    }

    #[test]
    fn a_sample_larger_than_the_network_is_the_network() {
        let relays = [(Class::Both, 3), (Class::Plain, 1), (Class::Guard, 2)];
        for count in [3, 4, usize::MAX] {
            assert_eq!(sample(&relays, count, &mut rng(1)), [0, 1, 2]);
        }
        assert_eq!(sample(&[], 5, &mut rng(1)), [0; 0]);
    }

    proptest! {
        #[test]
        fn a_sample_has_the_requested_size_and_no_duplicates(
            relays in prop::collection::vec((0usize..4, 0u64..5), 1..60),
            count in 1usize..80,
            seed in 0u64..1000,
        ) {
            let relays: Vec<_> = relays.into_iter().map(|(class, weight)| (CLASSES[class], weight)).collect();
            let sampled = sample(&relays, count, &mut rng(seed));
            prop_assert_eq!(sampled.len(), count.min(relays.len()));
            prop_assert!(sampled.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(sampled.iter().all(|place| *place < relays.len()));
            for class in CLASSES {
                let there = relays.iter().filter(|relay| relay.0 == class).count() as f64;
                let here = sampled.iter().filter(|place| relays[**place].0 == class).count() as f64;
                let share = there * sampled.len() as f64 / relays.len() as f64;
                prop_assert!((here - share).abs() < 1.0, "{here} of {share}");
            }
        }
    }
}
