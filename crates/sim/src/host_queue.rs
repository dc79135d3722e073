//! The next event of each host, and the hosts of a window.
//!
//! Hosts affect each other only through packets, and a packet needs at least the shortest delay of the network, the
//! look-ahead. In a window of this length, no host can receive a packet that another host sends in the same window. The
//! hosts of a window may therefore act one after the other, in any order. Source: Chandy and Misra 1979; Fujimoto,
//! "Parallel and distributed simulation systems", chapter 3.

use crate::queue::HostId;
use penstock_units::Instant;

/// A bucket has the events of 2^19 ns, about half a millisecond.
const BUCKET_BITS: u32 = 19;

/// The number of buckets. Together they cover about a second.
const BUCKETS: u64 = 2048;

/// The time of the next event of each host.
///
/// Each bucket is a list of the hosts with an event in its time, in no particular order. Times that differ by a
/// multiple of all buckets have the same bucket. The queue never allocates memory after its creation.
#[derive(Debug)]
pub(crate) struct HostQueue {
    entries: Vec<Entry>,
    /// The first host of each bucket.
    buckets: Vec<HostId>,
    /// No event is before this bucket, counted from time zero.
    first: u64,
}

/// A host's next event, and its neighbours in the list of its bucket.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Instant,
    before: HostId,
    after: HostId,
}

/// The end of a list.
const NONE: HostId = HostId::MAX;
/// The neighbour of a host that is in no list.
const UNLISTED: HostId = HostId::MAX - 1;

/// The time of a host that was taken. No event is earlier, so [`HostQueue::advance`] does not change it.
const TAKEN: Instant = Instant::ZERO;

fn bucket_of(at: Instant) -> u64 {
    at.as_nanos() >> BUCKET_BITS
}

/// The place of a bucket in the table.
fn place(bucket: u64) -> usize {
    (bucket % BUCKETS) as usize
}

impl HostQueue {
    pub(crate) fn new(hosts: usize) -> Self {
        let entry = Entry { due: Instant::FAR_FUTURE, before: NONE, after: UNLISTED };
        HostQueue { entries: vec![entry; hosts], buckets: vec![NONE; BUCKETS as usize], first: 0 }
    }

    /// Records that the host has an event at `at`. An earlier event of the host stays first.
    pub(crate) fn advance(&mut self, id: HostId, at: Instant) {
        if at < self.entries[id as usize].due {
            self.set(id, at);
        }
    }

    /// Sets the time of the host's next event.
    pub(crate) fn set(&mut self, id: HostId, at: Instant) {
        self.remove(id);
        self.entries[id as usize].due = at;
        if at == Instant::FAR_FUTURE {
            return;
        }
        let bucket = bucket_of(at);
        self.first = self.first.min(bucket);
        let after = std::mem::replace(&mut self.buckets[place(bucket)], id);
        self.entries[id as usize] = Entry { due: at, before: NONE, after };
        if after != NONE {
            self.entries[after as usize].before = id;
        }
    }

    /// Removes a host from the list of its bucket, if it is in one.
    fn remove(&mut self, id: HostId) {
        let Entry { due, before, after } = self.entries[id as usize];
        if after == UNLISTED {
            return;
        }
        self.entries[id as usize].after = UNLISTED;
        match before {
            NONE => self.buckets[place(bucket_of(due))] = after,
            _ => self.entries[before as usize].after = after,
        }
        if after != NONE {
            self.entries[after as usize].before = before;
        }
    }

    /// The times of the hosts in a bucket's list.
    fn list(&self, bucket: u64) -> impl Iterator<Item = Instant> {
        let mut id = self.buckets[place(bucket)];
        std::iter::from_fn(move || {
            let entry = self.entries.get(id as usize)?;
            id = entry.after;
            Some(entry.due)
        })
    }

    /// The time of the first event of all hosts.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        for bucket in self.first..self.first + BUCKETS {
            let events = self.list(bucket).filter(|at| bucket_of(*at) == bucket);
            if let Some(at) = events.min() {
                self.first = bucket;
                return Some(at);
            }
        }
        let listed = self.entries.iter().filter(|entry| entry.after != UNLISTED);
        let first = listed.map(|entry| entry.due).min()?;
        self.first = bucket_of(first);
        Some(first)
    }

    /// Adds all hosts with an event before `end` to `hosts`. These hosts then have no time until [`HostQueue::set`].
    pub(crate) fn take(&mut self, end: Instant, hosts: &mut Vec<HostId>) {
        for bucket in (self.first..=bucket_of(end)).take(BUCKETS as usize) {
            let mut id = self.buckets[place(bucket)];
            while id != NONE {
                let Entry { due, after, .. } = self.entries[id as usize];
                if due < end {
                    self.remove(id);
                    self.entries[id as usize].due = TAKEN;
                    hosts.push(id);
                }
                id = after;
            }
        }
        self.first = self.first.max(bucket_of(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(queue: &mut HostQueue, end: Instant) -> Vec<HostId> {
        let mut hosts = Vec::new();
        queue.take(end, &mut hosts);
        hosts.sort_unstable();
        hosts
    }

    #[test]
    fn a_window_has_each_host_once() {
        let mut queue = HostQueue::new(4);
        let at = Instant::from_millis;
        queue.set(2, at(5));
        queue.advance(1, at(7));
        queue.advance(1, at(5));
        queue.advance(1, at(6));
        queue.set(0, at(9));
        queue.set(3, at(60_000));
        assert_eq!(queue.next(), Some(at(5)));
        assert_eq!(take(&mut queue, at(9)), [1, 2]);
        // A packet for a host of the window.
        queue.advance(2, at(10));
        (1..3).for_each(|id| queue.set(id, Instant::FAR_FUTURE));
        assert_eq!(queue.next(), Some(at(9)));
        assert_eq!(take(&mut queue, at(10)), [0]);
        queue.set(0, Instant::FAR_FUTURE);
        assert_eq!(queue.next(), Some(at(60_000)));
        assert_eq!(take(&mut queue, at(60_001)), [3]);
        queue.set(3, Instant::FAR_FUTURE);
        assert_eq!(queue.next(), None);
    }

    proptest! {
        /// The queue gives the same windows as a list of the hosts' times. Times are up to four seconds away,
        /// and the buckets cover one.
        #[test]
        fn windows_are_those_of_a_list(
            windows in proptest::collection::vec(
                (proptest::collection::vec((0u32..20, 0u64..1 << 32, any::<bool>()), 0..20), 1u64..1 << 28),
                1..60,
            )
        ) {
            let mut queue = HostQueue::new(20);
            let mut list = [Instant::FAR_FUTURE; 20];
            let mut now = 0;
            for (changes, length) in windows {
                for (id, delay, is_new) in changes {
                    let at = Instant::from_nanos(now + 1 + delay);
                    let entry = &mut list[id as usize];
                    if is_new {
                        queue.set(id, at);
                        *entry = at;
                    } else {
                        queue.advance(id, at);
                        *entry = at.min(*entry);
                    }
                }
                let first = list.iter().min().copied().filter(|at| *at != Instant::FAR_FUTURE);
                prop_assert_eq!(queue.next(), first);
                let Some(first) = first else { continue };
                let end = Instant::from_nanos(first.as_nanos() + length);
                let hosts = take(&mut queue, end);
                let wanted: Vec<HostId> = (0..20).filter(|id| list[*id as usize] < end).collect();
                prop_assert_eq!(&hosts, &wanted);
                for id in hosts {
                    queue.set(id, Instant::FAR_FUTURE);
                    list[id as usize] = Instant::FAR_FUTURE;
                }
                queue.next();
                now = end.as_nanos();
            }
        }
    }
}
