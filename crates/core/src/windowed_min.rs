use penstock_units::{Duration, Instant};
use std::collections::VecDeque;

/// The minimum of the samples in the last `memory` seconds, with a resolution of one second.
#[derive(Debug)]
pub(crate) struct WindowedMin {
    memory: u64,
    /// For each second, the minimum sample. A second is removed when a later second has a smaller minimum, so the
    /// minima increase.
    seconds: VecDeque<(u64, Duration)>,
}

impl WindowedMin {
    pub(crate) fn new(memory: u64) -> Self {
        WindowedMin { memory, seconds: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, now: Instant, sample: Duration) {
        let second = now.as_nanos() / 1_000_000_000;
        while self.seconds.back().is_some_and(|(_, least)| *least >= sample) {
            self.seconds.pop_back();
        }
        // Without expiry, only a smaller sample replaces the minimum.
        let never = self.memory == u64::MAX && !self.seconds.is_empty();
        if !never && self.seconds.back().is_none_or(|(known, _)| *known < second) {
            self.seconds.push_back((second, sample));
        }
        self.forget(second);
    }

    fn forget(&mut self, second: u64) {
        while self.seconds.front().is_some_and(|(known, _)| known.saturating_add(self.memory) < second) {
            self.seconds.pop_front();
        }
    }

    pub(crate) fn get(&mut self, now: Instant) -> Option<Duration> {
        self.forget(now.as_nanos() / 1_000_000_000);
        self.seconds.front().map(|(_, least)| *least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    proptest! {
        #[test]
        fn the_minimum_covers_the_window(
            samples in proptest::collection::vec((0u64..4000, 0u64..1000), 1..200),
            memory in prop_oneof![Just(u64::MAX), 1u64..100],
        ) {
            let (mut least, mut now, mut all) = (WindowedMin::new(memory), 0, Vec::new());
            for (pause, sample) in samples {
                now += pause;
                least.add(MS(now), Duration::from_millis(sample));
                all.push((now / 1000, sample));
                let expected = all.iter().filter(|(second, _)| second.saturating_add(memory) >= now / 1000);
                let expected = expected.map(|(_, sample)| Duration::from_millis(*sample)).min();
                prop_assert_eq!(least.get(MS(now)), expected);
                prop_assert!((least.seconds.len() as u64) <= memory.saturating_add(1).min(200));
            }
        }
    }
}
