//! A fair queue of requests. Networks get their turns in round robin. Inside a network, so do its hosts, and inside a
//! host, so do its links or circuits.

use std::collections::BTreeMap;

/// Queued requests, up to a limit. The path of a request lists its sender's groups, the largest one first. All paths of
/// a queue have the same length. At the limit, a sender with fewer requests replaces the newest request of the largest
/// group. A sender with too many requests therefore delays only itself, and a host gets no more turns with more links.
#[derive(Debug)]
pub(super) struct FairQueue<K, T> {
    root: Group<K, T>,
    most: usize,
}

#[derive(Debug)]
struct Group<K, T> {
    /// The groups in this one, each with the number of its next turn. None is empty.
    groups: BTreeMap<K, (u64, Group<K, T>)>,
    /// These groups in the order of their turns.
    order: BTreeMap<u64, K>,
    /// The number of the last turn that a group here got.
    last: u64,
    /// The requests by number, if this group has no groups.
    requests: BTreeMap<u64, T>,
    len: usize,
}

impl<K: Ord + Copy, T> FairQueue<K, T> {
    pub(super) fn new(most: usize) -> Self {
        FairQueue { root: Group::new(), most }
    }

    /// Adds a request with a new number, above all earlier ones of this sender. At the limit, returns the number of the
    /// dropped request, which can be `number`.
    pub(super) fn push(&mut self, path: &[K], number: u64, request: T) -> Option<u64> {
        let dropped = if self.root.len < self.most { None } else { Some(self.root.make_room(path)) };
        if dropped == Some(None) {
            return Some(number);
        }
        self.root.push(path, number, request);
        dropped.flatten()
    }

    /// Takes the oldest request of the next sender.
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        self.root.pop()
    }

    /// Removes a request that needs no answer. Returns whether the request was still queued.
    pub(super) fn forget(&mut self, path: &[K], number: u64) -> bool {
        self.root.forget(path, number).is_some()
    }
}

impl<K: Ord + Copy, T> Group<K, T> {
    fn new() -> Self {
        Group { groups: BTreeMap::new(), order: BTreeMap::new(), last: 0, requests: BTreeMap::new(), len: 0 }
    }

    fn push(&mut self, path: &[K], number: u64, request: T) {
        self.len += 1;
        let Some((first, rest)) = path.split_first() else {
            self.requests.insert(number, request);
            return;
        };
        let (order, last) = (&mut self.order, &mut self.last);
        let (_, group) = self.groups.entry(*first).or_insert_with(|| {
            *last += 1;
            order.insert(*last, *first);
            (*last, Group::new())
        });
        group.push(rest, number, request);
    }

    fn pop(&mut self) -> Option<(u64, T)> {
        let next = match self.order.pop_first() {
            None => self.requests.pop_first()?,
            Some((_, key)) => {
                let (turn, group) = self.groups.get_mut(&key).expect("each group in the order exists");
                let next = group.pop().expect("no group is empty");
                if group.len == 0 {
                    self.groups.remove(&key);
                } else {
                    self.last += 1;
                    *turn = self.last;
                    self.order.insert(self.last, key);
                }
                next
            }
        };
        self.len -= 1;
        Some(next)
    }

    fn forget(&mut self, path: &[K], number: u64) -> Option<()> {
        if let Some((first, rest)) = path.split_first() {
            return self.take_from(*first, |group| group.forget(rest, number));
        }
        self.requests.remove(&number)?;
        self.len -= 1;
        Some(())
    }

    /// Removes a request of the largest group, so that the groups of `path` can get one. Returns its number; `None` if
    /// one more request would make the groups of `path` the largest ones.
    fn make_room(&mut self, path: &[K]) -> Option<u64> {
        let (first, rest) = path.split_first()?;
        let own = self.groups.get(first).map_or(0, |(_, group)| group.len);
        let (largest, len) = self.largest()?;
        if len > own + 1 {
            self.take_from(largest, Group::pop_newest)
        } else {
            self.take_from(*first, |group| group.make_room(rest))
        }
    }

    fn largest(&self) -> Option<(K, usize)> {
        self.groups.iter().map(|(key, (_, group))| (*key, group.len)).max_by_key(|(_, len)| *len)
    }

    fn pop_newest(&mut self) -> Option<u64> {
        if let Some((largest, _)) = self.largest() {
            return self.take_from(largest, Group::pop_newest);
        }
        let (number, _) = self.requests.pop_last()?;
        self.len -= 1;
        Some(number)
    }

    /// Lets `take` remove one request from a group.
    fn take_from<R>(&mut self, key: K, take: impl FnOnce(&mut Self) -> Option<R>) -> Option<R> {
        let (turn, group) = self.groups.get_mut(&key)?;
        let taken = take(group)?;
        self.len -= 1;
        if group.len == 0 {
            self.order.remove(turn);
            self.groups.remove(&key);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain<K: Ord + Copy>(turns: &mut FairQueue<K, ()>) -> Vec<u64> {
        std::iter::from_fn(|| turns.pop()).map(|(number, ())| number).collect()
    }

    #[test]
    fn a_sender_with_many_requests_delays_only_itself() {
        let mut turns = FairQueue::new(100);
        for number in 0..5 {
            assert_eq!(turns.push(&['a'], number, ()), None);
        }
        turns.push(&['b'], 10, ());
        turns.push(&['b'], 11, ());
        assert_eq!(drain(&mut turns), [0, 10, 1, 11, 2, 3, 4]);
    }

    #[test]
    fn a_host_with_many_links_gets_one_turn() {
        let mut turns = FairQueue::new(100);
        for link in 0..4 {
            turns.push(&[1, link], link, ());
            turns.push(&[1, link], 10 + link, ());
        }
        for number in 20..23 {
            turns.push(&[2, 0], number, ());
        }
        assert_eq!(drain(&mut turns), [0, 20, 1, 21, 2, 22, 3, 10, 11, 12, 13]);
    }

    #[test]
    fn at_the_limit_the_longest_queue_loses_its_newest_request() {
        let mut turns = FairQueue::new(4);
        for number in 0..4 {
            turns.push(&['a'], number, ());
        }
        assert_eq!(turns.push(&['a'], 4, ()), Some(4));
        assert_eq!(turns.push(&['b'], 10, ()), Some(3));
        assert_eq!(turns.push(&['b'], 11, ()), Some(2));
        assert_eq!(turns.push(&['b'], 12, ()), Some(12), "it has as many as the other one");
        assert_eq!(turns.push(&['c'], 20, ()), Some(11));
        assert_eq!(drain(&mut turns), [0, 10, 20, 1]);
    }

    #[test]
    fn at_the_limit_the_host_with_the_most_links_loses_a_request() {
        let mut turns = FairQueue::new(6);
        for link in 0..5 {
            turns.push(&[1, link], link, ());
        }
        turns.push(&[2, 0], 10, ());
        assert_eq!(turns.push(&[2, 0], 11, ()), Some(4), "one link of host 1");
        assert_eq!(turns.push(&[1, 0], 20, ()), Some(20), "its own host is the largest");
        assert_eq!(turns.push(&[1, 9], 21, ()), Some(21));
    }

    #[test]
    fn a_forgotten_request_frees_its_place() {
        let mut turns = FairQueue::new(2);
        turns.push(&['a'], 1, ());
        turns.push(&['a'], 2, ());
        assert!(turns.forget(&['a'], 1));
        assert!(!turns.forget(&['a'], 1) && !turns.forget(&['b'], 2));
        assert_eq!(turns.push(&['b'], 3, ()), None);
        assert!(turns.forget(&['a'], 2));
        assert_eq!(drain(&mut turns), [3]);
    }

    fn check(group: &Group<u8, [u8; 2]>) -> usize {
        assert_eq!(group.order.len(), group.groups.len());
        assert!(group.groups.iter().all(|(key, (turn, _))| group.order.get(turn) == Some(key)));
        let inside: usize = group.groups.values().map(|(_, group)| check(group)).sum();
        assert_eq!(group.len, inside + group.requests.len());
        assert!(group.groups.values().all(|(_, group)| group.len > 0));
        group.len
    }

    proptest! {
        /// Each request is answered, dropped or removed exactly once, and the limit holds.
        #[test]
        fn no_request_is_lost(steps in proptest::collection::vec((0u8..4, 0u8..6), 0..200)) {
            let mut turns = FairQueue::new(8);
            let mut waiting = Vec::<([u8; 2], u64)>::new();
            for (number, (action, sender)) in (0u64..).zip(steps) {
                let path = [sender / 2, sender % 2];
                match action {
                    0 => {
                        let next = turns.pop().map(|(number, path)| (path, number));
                        prop_assert_eq!(next.is_none(), waiting.is_empty());
                        waiting.retain(|other| Some(*other) != next);
                    }
                    1 => if let Some((path, number)) = waiting.pop() {
                        prop_assert!(turns.forget(&path, number));
                    },
                    _ => {
                        waiting.push((path, number));
                        let dropped = turns.push(&path, number, path);
                        waiting.retain(|(_, other)| Some(*other) != dropped);
                    }
                }
                prop_assert!(check(&turns.root) == waiting.len() && waiting.len() <= 8);
            }
        }
    }
}
