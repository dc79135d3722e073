//! Which host acts next, and how far it may run ahead of the others.
//!
//! Hosts meet only in packets, and a packet takes at least the shortest delay of the network. So a
//! host may handle everything that happens to it within that delay at once, as if the others stood
//! still: nothing that they do meanwhile reaches it in time to matter. Each host sees its own
//! events in the same order as if all were handled one by one (conservative look-ahead; Chandy and
//! Misra 1979, Fujimoto, "Parallel and distributed simulation systems", chapter 3).

use crate::queue::Rank;
use penstock_units::Instant;

/// When each host has something to do.
///
/// A heap with exactly one entry for each host, so that it never grows; those who wait for nothing are last.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Earliest first, in heap order.
    heap: Vec<(Instant, Rank)>,
    /// Where in the heap each host is.
    places: Vec<usize>,
}

impl Agenda {
    pub(crate) fn new(hosts: usize) -> Self {
        let ranks = 0..hosts as Rank;
        Agenda { heap: ranks.map(|rank| (Instant::FAR_FUTURE, rank)).collect(), places: (0..hosts).collect() }
    }

    /// The host has something to do at `at`, if not sooner.
    pub(crate) fn advance(&mut self, rank: Rank, at: Instant) {
        if at < self.heap[self.places[rank as usize]].0 {
            self.set(rank, at);
        }
    }

    /// The host has nothing to do before `at`.
    pub(crate) fn set(&mut self, rank: Rank, at: Instant) {
        let place = self.places[rank as usize];
        self.heap[place].0 = at;
        let place = self.rise(place);
        self.sink(place);
    }

    /// When something happens next, if ever.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|(at, _)| *at).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// Takes a host that has something to do before `horizon`; it is to be [`Agenda::set`] again.
    pub(crate) fn take(&mut self, horizon: Instant) -> Option<Rank> {
        self.next().filter(|at| *at < horizon)?;
        let (_, rank) = self.heap[0];
        self.set(rank, Instant::FAR_FUTURE);
        Some(rank)
    }

    /// Moves an entry towards the front, as far as it belongs; returns its place.
    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            let parent = (place - 1) / 2;
            self.swap(place, parent);
            place = parent;
        }
        place
    }

    /// Moves an entry towards the end, as far as it belongs.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1..self.heap.len()).take(2);
            let Some(first) = children.min_by_key(|child| self.heap[*child]) else { return };
            if self.heap[place] <= self.heap[first] {
                return;
            }
            self.swap(place, first);
            place = first;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.places[self.heap[place].1 as usize] = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_come_by_time_then_rank_and_only_once() {
        let mut agenda = Agenda::new(3);
        let at = Instant::from_millis;
        agenda.set(2, at(5));
        agenda.advance(1, at(7));
        agenda.advance(1, at(5));
        agenda.advance(1, at(6));
        agenda.set(0, at(9));
        assert_eq!(agenda.next(), Some(at(5)));
        let taken: Vec<_> = std::iter::from_fn(|| agenda.take(at(9))).collect();
        assert_eq!(taken, [1, 2]);
        assert_eq!(agenda.next(), Some(at(9)));
        agenda.set(0, Instant::FAR_FUTURE);
        assert_eq!(agenda.next(), None);
    }

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn the_first_is_always_the_earliest(changes in proptest::collection::vec((0u32..20, 0u64..50, 0..3), 1..300)) {
            let mut agenda = Agenda::new(20);
            let mut list = [Instant::FAR_FUTURE; 20];
            for (rank, at, how) in changes {
                let at = Instant::from_nanos(at);
                match how {
                    0 => agenda.set(rank, at),
                    1 => agenda.advance(rank, at),
                    _ => _ = agenda.take(at).inspect(|taken| list[*taken as usize] = Instant::FAR_FUTURE),
                }
                if how == 0 || (how == 1 && at < list[rank as usize]) {
                    list[rank as usize] = at;
                }
                let earliest = list.iter().min().copied().filter(|at| *at != Instant::FAR_FUTURE);
                prop_assert_eq!(agenda.next(), earliest);
                prop_assert_eq!(agenda.heap.len(), 20);
            }
        }
    }
}
