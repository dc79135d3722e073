use penstock_units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The index of a host, in the order of host names.
pub(crate) type HostId = u32;

/// The timers of one host, in the order of time. Timers with the same time fire in the order of insertion.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: BinaryHeap<Entry<T>>,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    key: Reverse<(Instant, u64)>,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { heap: BinaryHeap::new(), count: 0 }
    }
}

impl<T: Copy> Timers<T> {
    pub(crate) fn push(&mut self, at: Instant, what: T) {
        self.count += 1;
        self.heap.push(Entry { key: Reverse((at, self.count)), what });
    }

    /// The time of the first timer; FAR_FUTURE if there is none.
    pub(crate) fn next(&self) -> Instant {
        self.heap.peek().map_or(Instant::FAR_FUTURE, |entry| entry.key.0.0)
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|entry| entry.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_by_time_then_in_the_order_of_setting() {
        let mut timers = Timers::default();
        let (one, two) = (Instant::from_millis(1), Instant::from_millis(2));
        timers.push(two, "later");
        timers.push(one, "first");
        timers.push(one, "second");
        assert_eq!(timers.next(), one);
        let order: Vec<_> = std::iter::from_fn(|| timers.pop()).collect();
        assert_eq!(order, ["first", "second", "later"]);
        assert_eq!(timers.next(), Instant::FAR_FUTURE);
    }
}
