//! Selects the next host, and limits how far it may run ahead of the others (conservative look-ahead).
//!
//! Hosts affect each other only through packets, and a packet needs at least the shortest delay of the network. No
//! packet of another host can arrive within this delay. A host may therefore handle all its events of this time in one
//! step, without a change of their order. Source: Chandy and Misra 1979; Fujimoto, "Parallel and distributed simulation
//! systems", chapter 3.

use crate::queue::HostId;
use penstock_units::Instant;

/// The number of children of a heap node. Four children are adjacent in memory, and the heap is half as deep as a
/// binary heap.
const ARITY: usize = 4;

/// The time of the next event of each host.
///
/// The heap has exactly one entry for each host, so it never grows. Hosts without events come last.
#[derive(Debug)]
pub(crate) struct HostQueue {
    heap: Vec<(Instant, HostId)>,
    places: Vec<u32>,
}

impl HostQueue {
    pub(crate) fn new(hosts: usize) -> Self {
        let ids = 0..hosts as HostId;
        HostQueue { heap: ids.clone().map(|id| (Instant::FAR_FUTURE, id)).collect(), places: ids.collect() }
    }

    /// Records that the host has an event at `at`. An earlier event of the host stays first.
    pub(crate) fn advance(&mut self, id: HostId, at: Instant) {
        let place = self.places[id as usize] as usize;
        if at < self.heap[place].0 {
            self.rise(place, (at, id));
        }
    }

    pub(crate) fn set(&mut self, id: HostId, at: Instant) {
        let place = self.places[id as usize] as usize;
        let place = self.rise(place, (at, id));
        self.sink(place, (at, id));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|(at, _)| *at).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// The host with the earliest event, if the event is before `horizon`. The host stays first until
    /// [`HostQueue::set`].
    pub(crate) fn first(&self, horizon: Instant) -> Option<HostId> {
        self.next().filter(|at| *at < horizon).map(|_| self.heap[0].1)
    }

    fn put(&mut self, place: usize, entry: (Instant, HostId)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }

    /// Moves an entry from `place` towards the front. Returns its new position.
    fn rise(&mut self, mut place: usize, entry: (Instant, HostId)) -> usize {
        while place > 0 && entry < self.heap[(place - 1) / ARITY] {
            self.put(place, self.heap[(place - 1) / ARITY]);
            place = (place - 1) / ARITY;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize, entry: (Instant, HostId)) {
        while let Some(children) = self.heap.get(ARITY * place + 1..) {
            let children = children.iter().take(ARITY).enumerate();
            let Some((child, first)) = children.min_by_key(|(_, child)| **child) else { break };
            if entry <= *first {
                break;
            }
            self.put(place, *first);
            place = ARITY * place + 1 + child;
        }
        self.put(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_are_ordered_by_time_then_id() {
        let mut host_queue = HostQueue::new(3);
        let at = Instant::from_millis;
        host_queue.set(2, at(5));
        host_queue.advance(1, at(7));
        host_queue.advance(1, at(5));
        host_queue.advance(1, at(6));
        host_queue.set(0, at(9));
        assert_eq!(host_queue.next(), Some(at(5)));
        let take = |host_queue: &mut HostQueue| {
            host_queue.first(at(9)).inspect(|id| host_queue.set(*id, Instant::FAR_FUTURE))
        };
        let taken: Vec<_> = std::iter::from_fn(|| take(&mut host_queue)).collect();
        assert_eq!(taken, [1, 2]);
        assert_eq!(host_queue.next(), Some(at(9)));
        host_queue.set(0, Instant::FAR_FUTURE);
        assert_eq!(host_queue.next(), None);
    }

    proptest! {
        /// The first host is the same as in a linear search.
        #[test]
        fn the_first_is_always_the_earliest(changes in proptest::collection::vec((0u32..20, 0u64..50, 0..3), 1..300)) {
            let mut host_queue = HostQueue::new(20);
            let mut list = [Instant::FAR_FUTURE; 20];
            for (id, at, how) in changes {
                let at = Instant::from_nanos(at);
                match how {
                    0 => host_queue.set(id, at),
                    1 => host_queue.advance(id, at),
                    _ => {
                        if let Some(first) = host_queue.first(at) {
                            prop_assert!(list[first as usize] < at);
                            host_queue.set(first, Instant::FAR_FUTURE);
                            list[first as usize] = Instant::FAR_FUTURE;
                        }
                    }
                }
                if how == 0 || (how == 1 && at < list[id as usize]) {
                    list[id as usize] = at;
                }
                let earliest = list.iter().min().copied().filter(|at| *at != Instant::FAR_FUTURE);
                prop_assert_eq!(host_queue.next(), earliest);
                prop_assert_eq!(host_queue.heap.len(), 20);
            }
        }
    }
}
