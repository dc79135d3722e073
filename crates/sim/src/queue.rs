//! The event queue: what happens next, in one total order.
//!
//! Events are ordered by time, then by the rank of the node that caused them (the order of the
//! nodes' *names*), then by a counter of that node. Two events are never equal, so the order
//! depends neither on insertion nor on the heap.
//!
//! Source of the rule: Shadow `core/work/event.rs`.

use penstock_units::Instant;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A node's place in the order of names.
pub(crate) type Rank = u32;

/// The rank of what no node causes: samples for the record. Comes after all nodes.
pub(crate) const OBSERVER: Rank = Rank::MAX;

/// One event and its place in the order.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: Instant,
    rank: Rank,
    count: u32,
    what: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (Instant, Rank, u32) {
        (self.at, self.rank, self.count)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// What is to happen.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Entry<T>>,
    now: Instant,
    /// One counter for each node, and the observer's last.
    counts: Vec<u32>,
    handled: u64,
}

impl<T: Copy> EventQueue<T> {
    pub(crate) fn new(nodes: usize) -> Self {
        EventQueue { heap: BinaryHeap::new(), now: Instant::ZERO, counts: vec![0; nodes + 1], handled: 0 }
    }

    /// Schedules `what` on behalf of `rank`. Time does not run backwards.
    pub(crate) fn push(&mut self, at: Instant, rank: Rank, what: T) {
        assert!(at >= self.now, "an event at {at} comes after {}", self.now);
        let last = self.counts.len() - 1;
        let slot = &mut self.counts[(rank as usize).min(last)];
        *slot = slot.wrapping_add(1);
        let count = *slot;
        self.heap.push(Entry { at, rank, count, what });
    }

    /// The next event, unless it lies beyond `end`.
    pub(crate) fn pop(&mut self, end: Instant) -> Option<(Instant, T)> {
        if self.heap.peek()?.at > end {
            return None;
        }
        let entry = self.heap.pop().expect("it was just seen");
        self.now = entry.at;
        self.handled += 1;
        Some((entry.at, entry.what))
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// How many events happened.
    pub(crate) fn handled(&self) -> u64 {
        self.handled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_rank_then_count() {
        let mut queue = EventQueue::new(3);
        let (one, two) = (Instant::from_millis(1), Instant::from_millis(2));
        queue.push(two, 0, "later");
        queue.push(one, OBSERVER, "observer");
        queue.push(one, 2, "c");
        queue.push(one, 1, "b1");
        queue.push(one, 1, "b2");
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop(Instant::FAR_FUTURE)).map(|(_, what)| what).collect();
        assert_eq!(order, ["b1", "b2", "c", "observer", "later"]);
        assert_eq!(queue.handled(), 5);
    }
}
