//! A fair queue before a worker thread. Each sender has its own queue, and the thread serves the queues in round robin.

use std::collections::{BTreeMap, VecDeque};

/// Queued requests, up to a limit. At the limit, a sender with fewer requests replaces the newest request in the
/// longest queue. A sender with too many requests therefore delays only itself.
#[derive(Debug)]
pub(super) struct FairQueue<K, T> {
    /// Requests of each sender; no queue is empty.
    queues: BTreeMap<K, VecDeque<(u64, T)>>,
    /// Senders in the order of service, without duplicates.
    order: VecDeque<K>,
    /// Number of requests in all queues [1].
    len: usize,
    most: usize,
}

impl<K: Ord + Copy, T> FairQueue<K, T> {
    pub(super) fn new(most: usize) -> Self {
        FairQueue { queues: BTreeMap::new(), order: VecDeque::new(), len: 0, most }
    }

    /// Adds a request of sender `who`. At the limit, returns the number of the dropped request, which can be `number`.
    pub(super) fn push(&mut self, who: K, number: u64, question: T) -> Option<u64> {
        let dropped = if self.len < self.most {
            None
        } else {
            let own = self.queues.get(&who).map_or(0, VecDeque::len);
            let fullest = self.queues.iter().max_by_key(|(_, queue)| queue.len());
            // If the longest queue is not longer than this sender's, the new request is dropped.
            match fullest.map(|(other, queue)| (*other, queue.len())) {
                Some((other, len)) if len > own + 1 => self.pop_newest(other),
                _ => return Some(number),
            }
        };
        let queue = self.queues.entry(who).or_default();
        if queue.is_empty() {
            self.order.push_back(who);
        }
        queue.push_back((number, question));
        self.len += 1;
        dropped
    }

    /// Takes the oldest request of the next sender.
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        let who = self.order.pop_front()?;
        let queue = self.queues.get_mut(&who).expect("who is in the order has a queue");
        let next = queue.pop_front().expect("a queue has something in it");
        self.len -= 1;
        if queue.is_empty() {
            self.queues.remove(&who);
        } else {
            self.order.push_back(who);
        }
        Some(next)
    }

    /// Removes a request that needs no answer. Returns whether the request was still queued.
    pub(super) fn forget(&mut self, who: K, number: u64) -> bool {
        let Some(queue) = self.queues.get_mut(&who) else { return false };
        let Some(place) = queue.iter().rposition(|(other, _)| *other == number) else { return false };
        queue.remove(place);
        self.shorten(who);
        true
    }

    fn pop_newest(&mut self, who: K) -> Option<u64> {
        let (number, _) = self.queues.get_mut(&who)?.pop_back()?;
        self.shorten(who);
        Some(number)
    }

    fn shorten(&mut self, who: K) {
        self.len -= 1;
        if self.queues.get(&who).is_some_and(VecDeque::is_empty) {
            self.queues.remove(&who);
            self.order.retain(|other| *other != who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(turns: &mut FairQueue<char, ()>) -> Vec<u64> {
        std::iter::from_fn(|| turns.pop()).map(|(number, ())| number).collect()
    }

    #[test]
    fn a_sender_with_many_requests_delays_only_itself() {
        let mut turns = FairQueue::new(100);
        for number in 0..5 {
            assert_eq!(turns.push('a', number, ()), None);
        }
        turns.push('b', 10, ());
        turns.push('b', 11, ());
        assert_eq!(drain(&mut turns), [0, 10, 1, 11, 2, 3, 4]);
    }

    #[test]
    fn at_the_limit_the_longest_queue_loses_its_newest_request() {
        let mut turns = FairQueue::new(4);
        for number in 0..4 {
            turns.push('a', number, ());
        }
        assert_eq!(turns.push('a', 4, ()), Some(4));
        assert_eq!(turns.push('b', 10, ()), Some(3));
        assert_eq!(turns.push('b', 11, ()), Some(2));
        assert_eq!(turns.push('b', 12, ()), Some(12), "it has as much as anybody");
        assert_eq!(turns.push('c', 20, ()), Some(11));
        assert_eq!(drain(&mut turns), [0, 10, 20, 1]);
    }

    #[test]
    fn a_forgotten_request_frees_its_place() {
        let mut turns = FairQueue::new(2);
        turns.push('a', 1, ());
        turns.push('a', 2, ());
        assert!(turns.forget('a', 1));
        assert!(!turns.forget('a', 1) && !turns.forget('b', 2));
        assert_eq!(turns.push('b', 3, ()), None);
        assert!(turns.forget('a', 2));
        assert_eq!(drain(&mut turns), [3]);
    }

    proptest! {
        /// Each question is answered, dropped or removed exactly once, and the limit holds.
        #[test]
        fn no_request_is_lost(steps in proptest::collection::vec((0u8..4, 0u8..5), 0..200)) {
            let mut turns = FairQueue::new(8);
            let mut waiting = Vec::new();
            for (number, (what, who)) in (0u64..).zip(steps) {
                match what {
                    0 => {
                        let next = turns.pop().map(|(number, who)| (who, number));
                        prop_assert_eq!(next.is_none(), waiting.is_empty());
                        waiting.retain(|other| Some(*other) != next);
                    }
                    1 => if let Some((who, number)) = waiting.pop() {
                        prop_assert!(turns.forget(who, number));
                    },
                    _ => {
                        waiting.push((who, number));
                        let dropped = turns.push(who, number, who);
                        waiting.retain(|(_, other)| Some(*other) != dropped);
                    }
                }
                prop_assert!(turns.len == waiting.len() && turns.len <= 8);
                prop_assert_eq!(turns.order.len(), turns.queues.len());
            }
        }
    }
}
