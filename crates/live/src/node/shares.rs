//! Fair shares of limited things, such as file descriptors. If none is left, the holder with the most things loses one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// The addresses that count as one host: an IPv4 address, or the IPv6 addresses with the same first 64 bits, which
/// networks assign to one customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host(Ipv6Addr);

impl Host {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Host(v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => Host(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        }
    }

    /// The host as a number.
    pub(super) fn number(self) -> u128 {
        self.0.to_bits()
    }
}

/// The things of each holder. Every new thing gets a higher number.
#[derive(Debug)]
pub(super) struct Shares<K, T> {
    /// The things of each holder, oldest first; none is empty.
    holders: BTreeMap<K, BTreeMap<u64, T>>,
    /// Each holder with the number of its things.
    by_count: BTreeSet<(usize, K)>,
    len: usize,
    next: u64,
}

impl<K: Ord + Copy, T: Copy> Shares<K, T> {
    pub(super) fn new() -> Self {
        Shares { holders: BTreeMap::new(), by_count: BTreeSet::new(), len: 0, next: 0 }
    }

    /// Adds a thing; returns its number.
    pub(super) fn add(&mut self, holder: K, thing: T) -> u64 {
        self.next += 1;
        self.len += 1;
        let things = self.holders.entry(holder).or_default();
        self.by_count.remove(&(things.len(), holder));
        things.insert(self.next, thing);
        self.by_count.insert((things.len(), holder));
        self.next
    }

    /// Removes a thing. Does nothing if it was removed already.
    pub(super) fn remove(&mut self, holder: K, number: u64) {
        let Some(things) = self.holders.get_mut(&holder) else { return };
        if things.remove(&number).is_none() {
            return;
        }
        self.len -= 1;
        self.by_count.remove(&(things.len() + 1, holder));
        if things.is_empty() {
            self.holders.remove(&holder);
        } else {
            self.by_count.insert((things.len(), holder));
        }
    }

    /// The number of all things [1].
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of things of a holder [1].
    pub(super) fn count(&self, holder: K) -> usize {
        self.holders.get(&holder).map_or(0, BTreeMap::len)
    }

    /// The highest number of things of one holder [1].
    pub(super) fn most(&self) -> usize {
        self.by_count.last().map_or(0, |(count, _)| *count)
    }

    /// The newest thing of the holder with the most things. `None` if one more thing would give `holder` as many.
    pub(super) fn newest_of_most(&self, holder: K) -> Option<T> {
        let newest = self.newest_of_largest()?;
        (self.most() > self.count(holder) + 1).then_some(newest)
    }

    /// The newest thing of the holder with the most things.
    pub(super) fn newest_of_largest(&self) -> Option<T> {
        let (_, most) = self.by_count.last()?;
        self.holders[most].last_key_value().map(|(_, newest)| *newest)
    }

    /// The oldest thing of the holder with the most things, or of all such holders if several have equally many.
    pub(super) fn oldest_of_most(&self) -> Option<T> {
        let most = self.most();
        let fullest = self.by_count.iter().rev().take_while(|(count, _)| *count == most);
        let oldest = fullest.filter_map(|(_, holder)| self.holders[holder].first_key_value());
        oldest.min_by_key(|(number, _)| **number).map(|(_, thing)| *thing)
    }
}

/// The things of each part of each holder, such as the streams of each circuit of each host. An attacker on a shared
/// link thus cannot end the streams of clients.
#[derive(Debug)]
pub(super) struct NestedShares<K, P, T> {
    hosts: Shares<K, ()>,
    parts: BTreeMap<K, Shares<P, T>>,
}

/// Identifies a thing: its holder, its part, and its numbers in both tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<K, P> {
    pub(super) holder: K,
    pub(super) part: P,
    numbers: [u64; 2],
}

impl<K: Ord + Copy, P: Ord + Copy, T: Copy> NestedShares<K, P, T> {
    pub(super) fn new() -> Self {
        NestedShares { hosts: Shares::new(), parts: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, holder: K, part: P, thing: T) -> Held<K, P> {
        let parts = self.parts.entry(holder).or_insert_with(Shares::new);
        Held { holder, part, numbers: [self.hosts.add(holder, ()), parts.add(part, thing)] }
    }

    pub(super) fn remove(&mut self, held: Held<K, P>) {
        self.hosts.remove(held.holder, held.numbers[0]);
        if let Some(parts) = self.parts.get_mut(&held.holder) {
            parts.remove(held.part, held.numbers[1]);
            if parts.len() == 0 {
                self.parts.remove(&held.holder);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// The number of things of one part of a holder [1].
    pub(super) fn count(&self, holder: K, part: P) -> usize {
        self.parts.get(&holder).map_or(0, |parts| parts.count(part))
    }

    /// The thing to remove, so that `part` of `holder` can get a new one: the newest of the largest part of the largest
    /// holder. `None` if the new one would make its own part the largest.
    pub(super) fn newest_of_most(&self, holder: K, part: P) -> Option<T> {
        if self.hosts.most() > self.hosts.count(holder) + 1 {
            return self.newest_of_largest();
        }
        self.parts.get(&holder)?.newest_of_most(part)
    }

    /// The newest thing in the largest part of the largest holder.
    pub(super) fn newest_of_largest(&self) -> Option<T> {
        let (_, most) = self.hosts.by_count.last()?;
        self.parts.get(most)?.newest_of_largest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_host_is_an_address_or_a_network_of_64_bits() {
        let host = |address: &str| Host::of(address.parse().unwrap());
        assert_eq!(host("192.0.2.1"), host("::ffff:192.0.2.1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
        assert_eq!(host("2001:db8::1"), host("2001:db8::ffff:0:0:1"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
    }

    #[test]
    fn the_holder_of_the_most_gives_one_up() {
        let mut shares = Shares::new();
        let a: Vec<_> = (0..4).map(|thing| shares.add('a', thing)).collect();
        shares.add('b', 10);
        assert_eq!(shares.newest_of_most('b'), Some(3));
        assert_eq!(shares.newest_of_most('a'), None, "it has the most itself");
        assert_eq!(shares.oldest_of_most(), Some(0));
        shares.remove('a', a[0]);
        shares.remove('a', a[0]);
        shares.add('b', 11);
        assert_eq!((shares.newest_of_most('b'), shares.len(), shares.most()), (None, 5, 3));
        assert_eq!((shares.oldest_of_most(), shares.count('c')), (Some(1), 0));
        shares.add('b', 12);
        assert_eq!(shares.oldest_of_most(), Some(1), "the oldest of both");
    }

    #[test]
    fn a_small_part_of_a_large_holder_keeps_what_it_has() {
        let mut shares = NestedShares::new();
        let held: Vec<_> = (0..5).map(|thing| shares.add('a', 1, thing)).collect();
        let small = shares.add('a', 2, 20);
        assert_eq!((shares.len(), shares.count('a', 1), shares.count('a', 2)), (6, 5, 1));
        assert_eq!(shares.newest_of_most('b', 1), Some(4), "another host");
        assert_eq!(shares.newest_of_most('a', 2), Some(4), "another circuit of the host");
        assert_eq!(shares.newest_of_most('a', 1), None);
        held.into_iter().chain([small]).for_each(|held| shares.remove(held));
        assert_eq!((shares.len(), shares.newest_of_most('b', 1)), (0, None));
    }

    proptest! {
        #[test]
        fn counts_equal_those_of_a_list(steps in proptest::collection::vec((0u8..3, 0u8..4), 0..100)) {
            let (mut shares, mut list) = (Shares::new(), Vec::new());
            for (step, (what, who)) in steps.into_iter().enumerate() {
                if what == 0 && let Some((holder, number, _)) = list.pop() {
                    shares.remove(holder, number);
                } else {
                    list.push((who, shares.add(who, step), step));
                }
                let count = |who| list.iter().filter(|(other, ..)| *other == who).count();
                let most = (0..4).map(count).max().unwrap_or(0);
                prop_assert_eq!((shares.len(), shares.most()), (list.len(), most));
                let oldest = list.iter().filter(|(who, ..)| count(*who) == most).map(|(_, _, thing)| *thing).min();
                prop_assert_eq!(shares.oldest_of_most(), oldest);
            }
        }
    }
}
