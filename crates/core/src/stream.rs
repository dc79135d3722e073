use crate::cell::{Cell, StreamId};
use crate::circuit::Stamp;
use crate::edge_control::{AnyStreamControl, Backlog};
use crate::kernel::Interest;
use crate::keys::CircuitIndex;
use crate::token_bucket::TokenBucket;
use penstock_units::{Bytes, Cells};
use std::collections::VecDeque;

/// Estimates the age of a queue's first item with two time stamps. The estimate is an upper bound.
///
/// A mark with a time stamp is set behind the queue's last item. When all items before the mark have left, the
/// remaining items are younger than the mark, and a new mark is set. A reader that takes single items therefore does
/// not reset the age.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    /// The first item arrived at this time or later.
    since: Stamp,
    mark: Stamp,
    before: u32,
}

impl Wait {
    pub(crate) fn begin(now: Stamp) -> Self {
        Wait { since: now, mark: now, before: 0 }
    }

    pub(crate) fn on_taken(&mut self, now: Stamp, taken: usize, left: usize) {
        match self.before.checked_sub(taken as u32) {
            Some(before @ 1..) => self.before = before,
            _ => *self = Wait { since: self.mark, mark: now, before: left as u32 },
        }
    }

    pub(crate) fn age(&self, now: Stamp) -> u32 {
        self.since.age(now)
    }
}

#[derive(Debug)]
pub(crate) struct Stream<C: Cell> {
    pub(crate) circuit: CircuitIndex,
    pub(crate) id: StreamId,
    pub(crate) control: AnyStreamControl,
    /// The bucket for reads of the socket, if the stream control sets a rate (C tor `edge_connection_t.bucket`).
    pub(crate) bucket: Option<TokenBucket>,
    pub(crate) open: bool,
    /// Whether the application's data may leave before CONNECTED arrives (proposal 174).
    pub(crate) optimistic: bool,
    pub(crate) ended: bool,
    pub(crate) outbuf: VecDeque<C::Payload>,
    /// The size of the payloads in `outbuf` [B].
    pub(crate) outbuf_bytes: Bytes,
    pub(crate) wait: Wait,
    pub(crate) interest: Interest,
}

impl<C: Cell> Stream<C> {
    pub(crate) fn may_package(&self) -> bool {
        (self.open || self.optimistic) && !self.ended
    }

    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { cells: Cells::new(self.outbuf.len() as u64), bytes: self.outbuf_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::{Duration, Instant};
    use proptest::prelude::*;

    fn stamp(ms: u64) -> Stamp {
        Stamp::at(Instant::ZERO + Duration::from_millis(ms))
    }

    /// The arrival times of the waiting items [ms].
    #[derive(Default)]
    struct Queue(VecDeque<u64>, Wait);

    impl Queue {
        fn arrive(&mut self, now: u64) {
            if self.0.is_empty() {
                self.1 = Wait::begin(stamp(now));
            }
            self.0.push_back(now);
        }

        fn take(&mut self, now: u64, most: usize) {
            let taken = most.min(self.0.len());
            self.0.drain(..taken);
            self.1.on_taken(stamp(now), taken, self.0.len());
        }

        /// The estimated and the true age of the first item [2^20 ns].
        fn ages(&self, now: u64) -> Option<(u32, u32)> {
            let first = self.0.front()?;
            Some((self.1.age(stamp(now)), stamp(*first).age(stamp(now))))
        }
    }

    proptest! {
        #[test]
        fn the_estimated_age_is_never_below_the_true_age(
            steps in prop::collection::vec((0u64..50, 0usize..6, 1usize..6), 1..80),
        ) {
            let (mut queue, mut now) = (Queue::default(), 0);
            for (ms, arrivals, taken) in steps {
                now += ms;
                (0..arrivals).for_each(|_| queue.arrive(now));
                queue.take(now, taken);
                if let Some((seems, is)) = queue.ages(now) {
                    prop_assert!(seems >= is, "{seems} {is}");
                }
            }
        }
    }

    #[test]
    fn the_estimate_is_at_most_twice_the_age_and_a_slow_queue_gets_older() {
        let mut moves = Queue::default();
        (0..20).for_each(|now| moves.arrive(now));
        for now in 20..1000 {
            moves.arrive(now);
            moves.take(now, 1);
            let (seems, is) = moves.ages(now).unwrap();
            // Stamps are rounded.
            assert!(seems <= 2 * is + 3, "{seems} {is}");
        }
        let mut drips = Queue::default();
        (0..1000).for_each(|_| drips.arrive(0));
        (1..100).for_each(|second| drips.take(second * 1000, 1));
        let (seems, is) = drips.ages(99_000).unwrap();
        assert_eq!(seems, is);
    }
}
