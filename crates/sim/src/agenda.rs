//! Which host acts next, and how far it may run ahead of the others.
//!
//! Hosts meet only in packets, and a packet takes at least the shortest delay of the network. So a
//! host may handle everything that happens to it within that delay at once, as if the others stood
//! still: nothing that they do meanwhile reaches it in time to matter. Each host sees its own
//! events in the same order as if all were handled one by one (conservative look-ahead; Chandy and
//! Misra 1979, Fujimoto, "Parallel and distributed simulation systems", chapter 3).

use crate::queue::Rank;
use penstock_units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When each host has something to do.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Some entries are out of date; those that agree with `next` count.
    heap: BinaryHeap<Reverse<(Instant, Rank)>>,
    /// By rank; FAR_FUTURE is never.
    next: Vec<Instant>,
}

impl Agenda {
    pub(crate) fn new(hosts: usize) -> Self {
        Agenda { heap: BinaryHeap::new(), next: vec![Instant::FAR_FUTURE; hosts] }
    }

    /// The host has something to do at `at`, if not sooner.
    pub(crate) fn advance(&mut self, rank: Rank, at: Instant) {
        if at < self.next[rank as usize] {
            self.set(rank, at);
        }
    }

    /// The host has nothing to do before `at`.
    pub(crate) fn set(&mut self, rank: Rank, at: Instant) {
        self.next[rank as usize] = at;
        if at != Instant::FAR_FUTURE {
            self.heap.push(Reverse((at, rank)));
        }
    }

    /// When something happens next, if ever.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, rank))) = self.heap.peek().copied() {
            if self.next[rank as usize] == at {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes a host that has something to do before `horizon`; it is to be [`Agenda::set`] again.
    pub(crate) fn take(&mut self, horizon: Instant) -> Option<Rank> {
        if self.next()? >= horizon {
            return None;
        }
        let Reverse((_, rank)) = self.heap.pop().expect("it was just seen");
        self.next[rank as usize] = Instant::FAR_FUTURE;
        Some(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
