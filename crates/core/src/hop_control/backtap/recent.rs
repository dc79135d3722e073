use penstock_units::{Duration, Instant};
use std::collections::VecDeque;

/// The shortest of the round trips that ended within the last round trip.
#[derive(Debug, Default)]
pub(super) struct RecentTrips {
    /// When each round trip ended, and how long it was. A round trip is removed when a later one is not longer, so the
    /// lengths increase.
    trips: VecDeque<(Instant, Duration)>,
    last: Duration,
}

impl RecentTrips {
    pub(super) fn add(&mut self, now: Instant, trip: Duration) {
        self.last = trip;
        while self.trips.back().is_some_and(|(_, longer)| *longer >= trip) {
            self.trips.pop_back();
        }
        self.trips.push_back((now, trip));
        self.forget(now);
    }

    fn forget(&mut self, now: Instant) {
        while self.trips.len() > 1 && self.trips.front().is_some_and(|(at, _)| now.since(*at) > self.last) {
            self.trips.pop_front();
        }
    }

    /// The minimum of the round trips that ended at most one round trip ago, or the last one. `None` before the first.
    /// A round trip that was once too old stays forgotten.
    pub(super) fn least(&mut self, now: Instant) -> Option<Duration> {
        self.forget(now);
        self.trips.front().map(|(_, least)| *least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_minimum_is_that_of_a_list(samples in proptest::collection::vec((0u64..30, 1u64..50), 1..200)) {
            let (mut recent, mut now, mut all) = (RecentTrips::default(), 0, Vec::new());
            for (pause, trip) in samples {
                now += pause;
                recent.add(Instant::from_millis(now), Duration::from_millis(trip));
                all.push((now, trip));
                all.retain(|(at, _)| now - at <= trip);
                let least = all.iter().map(|(_, trip)| *trip).min();
                prop_assert_eq!(recent.least(Instant::from_millis(now)), least.map(Duration::from_millis));
            }
        }
    }
}
