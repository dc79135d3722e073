//! Fair shares of limited items, such as file descriptors. If none is left, the group with the most items loses one:
//! first the network with the most, then its host with the most, then the largest part of this host.

use penstock_core::{ChannelKey, CircuitIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// The addresses that count as one host: an IPv4 address, or the IPv6 addresses with the same first 64 bits, which
/// networks assign to one customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host(Ipv6Addr);

/// A group in a table of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// The IPv6 hosts with the same first 48 bits, or a single IPv4 host. A site often has 48 bits, and then has 65,536
    /// hosts.
    Network(Ipv6Addr),
    Host(Ipv6Addr),
    Link(ChannelKey),
    Circuit(CircuitIndex),
    /// All unfinished link handshakes of a host.
    Handshakes,
}

/// The network, the host, and a part of this host: a link, a circuit, or its handshakes.
pub(super) type PartPath = [Holder; 3];

impl Host {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Host(v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => Host(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        }
    }

    fn network(self) -> Ipv6Addr {
        match self.0.to_ipv4_mapped() {
            Some(_) => self.0,
            None => Ipv6Addr::from_bits(self.0.to_bits() >> 80 << 80),
        }
    }

    pub(super) fn path(self) -> [Holder; 2] {
        [Holder::Network(self.network()), Holder::Host(self.0)]
    }

    pub(super) fn with_link(self, link: ChannelKey) -> PartPath {
        let [network, host] = self.path();
        [network, host, Holder::Link(link)]
    }

    pub(super) fn with_circuit(self, circuit: CircuitIndex) -> PartPath {
        let [network, host] = self.path();
        [network, host, Holder::Circuit(circuit)]
    }

    pub(super) fn with_handshakes(self) -> PartPath {
        let [network, host] = self.path();
        [network, host, Holder::Handshakes]
    }

    /// The host with these [`numbers`](Self::numbers).
    pub(super) fn with_numbers([_, host]: [u128; 2]) -> Self {
        Host(Ipv6Addr::from_bits(host))
    }

    /// The network and the host as numbers.
    pub(super) fn numbers(self) -> [u128; 2] {
        [self.network().to_bits(), self.0.to_bits()]
    }
}

/// Which item a group loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loses {
    Oldest,
    Newest,
}

/// Items in nested groups. The path of an item lists its groups, the largest one first. All paths of a table have the
/// same length. Every new item gets a higher number.
#[derive(Debug)]
pub(super) struct Shares<K, T> {
    root: Group<K, T>,
    next: u64,
}

#[derive(Debug)]
struct Group<K, T> {
    /// The groups in this one; none is empty.
    groups: BTreeMap<K, Group<K, T>>,
    /// Each of these groups with the number of its items.
    by_len: BTreeSet<(usize, K)>,
    /// The items, oldest first, if this group has no groups.
    items: BTreeMap<u64, T>,
    len: usize,
}

impl<K: Ord + Copy, T: Copy> Shares<K, T> {
    pub(super) fn new() -> Self {
        Shares { root: Group::new(), next: 0 }
    }

    /// Adds an item; returns its number.
    pub(super) fn add(&mut self, path: &[K], item: T) -> u64 {
        self.next += 1;
        self.root.add(path, self.next, item);
        self.next
    }

    /// Removes an item. Does nothing if it was removed already.
    pub(super) fn remove(&mut self, path: &[K], number: u64) {
        self.root.remove(path, number);
    }

    /// The number of all items [1].
    pub(super) fn len(&self) -> usize {
        self.root.len
    }

    /// The number of items of a group [1]. Its path is the beginning of the paths of its items.
    pub(super) fn count(&self, path: &[K]) -> usize {
        self.root.at(path).map_or(0, |group| group.len)
    }

    /// The highest number of items of one of the outermost groups [1].
    pub(super) fn most(&self) -> usize {
        self.root.most()
    }

    /// The newest item of the group with the most items. `None` if one more item would make the groups of `path`
    /// the largest ones.
    pub(super) fn newest_of_most(&self, path: &[K]) -> Option<T> {
        self.yielding(0, path, Loses::Newest, |own, most| most > own + 1)
    }

    /// The newest item of the group with the most items.
    pub(super) fn newest_of_largest(&self) -> Option<T> {
        self.root.of_largest(Loses::Newest).map(|(_, item)| item)
    }

    /// The oldest item of the group with the most items, or of all such groups if several have equally many.
    pub(super) fn oldest_of_most(&self) -> Option<T> {
        self.root.of_largest(Loses::Oldest).map(|(_, item)| item)
    }

    /// The oldest item in these groups. If they have smaller groups, it belongs to the largest of them.
    pub(super) fn oldest_in(&self, path: &[K]) -> Option<T> {
        self.root.at(path)?.of_largest(Loses::Oldest).map(|(_, item)| item)
    }

    /// The item that makes room for a new one in the groups of `path`. The first `within` groups of `path` are full.
    ///
    /// At each level below, `may_take` gets the number of items of the path's own group and the highest number of one
    /// group there. If it returns true, the largest group at this level loses an item. Otherwise the same question
    /// follows inside the path's own group. `None` if no level gives room.
    pub(super) fn yielding(
        &self,
        within: usize,
        path: &[K],
        loses: Loses,
        may_take: impl Fn(usize, usize) -> bool,
    ) -> Option<T> {
        let (full, below) = path.split_at(within);
        let mut group = self.root.at(full)?;
        for key in below {
            let own = group.groups.get(key);
            if may_take(own.map_or(0, |own| own.len), group.most()) {
                return group.of_largest(loses).map(|(_, item)| item);
            }
            group = own?;
        }
        None
    }
}

impl<T: Copy> Shares<Holder, T> {
    /// The number of items of each host [1].
    pub(super) fn by_host(&self) -> impl Iterator<Item = (Host, usize)> {
        let hosts = self.root.groups.values().flat_map(|network| &network.groups);
        hosts.filter_map(|(holder, host)| match holder {
            Holder::Host(address) => Some((Host(*address), host.len)),
            _ => None,
        })
    }
}

impl<K: Ord + Copy, T: Copy> Group<K, T> {
    fn new() -> Self {
        Group { groups: BTreeMap::new(), by_len: BTreeSet::new(), items: BTreeMap::new(), len: 0 }
    }

    fn at(&self, path: &[K]) -> Option<&Self> {
        path.iter().try_fold(self, |group, key| group.groups.get(key))
    }

    fn most(&self) -> usize {
        self.by_len.last().map_or(0, |(len, _)| *len)
    }

    fn add(&mut self, path: &[K], number: u64, item: T) {
        self.len += 1;
        let Some((first, rest)) = path.split_first() else {
            self.items.insert(number, item);
            return;
        };
        let group = self.groups.entry(*first).or_insert_with(Group::new);
        self.by_len.remove(&(group.len, *first));
        group.add(rest, number, item);
        self.by_len.insert((group.len, *first));
    }

    /// Returns whether the item was there.
    fn remove(&mut self, path: &[K], number: u64) -> bool {
        if let Some((first, rest)) = path.split_first() {
            let Some(group) = self.groups.get_mut(first) else { return false };
            if !group.remove(rest, number) {
                return false;
            }
            self.by_len.remove(&(group.len + 1, *first));
            if group.len == 0 {
                self.groups.remove(first);
            } else {
                self.by_len.insert((group.len, *first));
            }
        } else if self.items.remove(&number).is_none() {
            return false;
        }
        self.len -= 1;
        true
    }

    /// An item of the largest group, with its number.
    fn of_largest(&self, loses: Loses) -> Option<(u64, T)> {
        let most = self.most();
        let largest = self.by_len.iter().rev().take_while(|(len, _)| *len == most);
        let mut largest = largest.map(|(_, key)| &self.groups[key]);
        let (item, inside) = match loses {
            Loses::Newest => {
                (self.items.last_key_value(), largest.next().and_then(|group| group.of_largest(loses)))
            }
            Loses::Oldest => (
                self.items.first_key_value(),
                largest.filter_map(|group| group.of_largest(loses)).min_by_key(|(number, _)| *number),
            ),
        };
        inside.or(item.map(|(number, item)| (*number, *item)))
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
    fn a_network_is_an_ipv4_address_or_has_48_bits() {
        let network = |address: &str| Host::of(address.parse().unwrap()).path()[0];
        assert_eq!(network("2001:db8:7::1"), network("2001:db8:7:ffff::1"));
        assert_ne!(network("2001:db8:7::1"), network("2001:db8:8::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }

    #[test]
    fn many_hosts_of_one_network_share_like_one_host() {
        let host = |address: String| Host::of(address.parse().unwrap()).path();
        let mut shares = Shares::new();
        for number in 0..5 {
            shares.add(&host(format!("2001:db8:7:{number}::1")), number);
        }
        let honest = host("2001:db8:8::1".into());
        shares.add(&honest, 10);
        assert_eq!(shares.newest_of_most(&honest), Some(4), "the network has 5");
        let new = host("2001:db8:7:99::1".into());
        assert_eq!(shares.newest_of_most(&new), None, "it would make its own network larger");
        shares.add(&host("2001:db8:7:2::1".into()), 22);
        assert_eq!(shares.newest_of_most(&new), Some(22), "one host of its network has two");
    }

    #[test]
    fn items_are_counted_by_host() {
        let hosts = ["2001:db8:7:1::1", "2001:db8:7:2::1", "2001:db8:8::1"];
        let hosts = hosts.map(|address| Host::of(address.parse().unwrap()));
        let mut shares = Shares::new();
        for (number, host) in [2, 0, 0, 1, 2, 0].into_iter().enumerate() {
            shares.add(&hosts[host].path(), number);
        }
        assert_eq!(shares.by_host().collect::<Vec<_>>(), [(hosts[0], 3), (hosts[1], 1), (hosts[2], 2)]);
        let oldest = |path: &[Holder]| shares.oldest_in(path);
        assert_eq!((oldest(&hosts[1].path()), oldest(&hosts[1].path()[..1])), (Some(3), Some(1)));
        assert_eq!(hosts.map(|host| Host::with_numbers(host.numbers())), hosts);
    }

    #[test]
    fn the_holder_of_the_most_gives_one_up() {
        let mut shares = Shares::new();
        let a: Vec<_> = (0..4).map(|item| shares.add(&['a'], item)).collect();
        shares.add(&['b'], 10);
        assert_eq!(shares.newest_of_most(&['b']), Some(3));
        assert_eq!(shares.newest_of_most(&['a']), None, "it has the most itself");
        assert_eq!(shares.oldest_of_most(), Some(0));
        shares.remove(&['a'], a[0]);
        shares.remove(&['a'], a[0]);
        shares.add(&['b'], 11);
        assert_eq!((shares.newest_of_most(&['b']), shares.len(), shares.most()), (None, 5, 3));
        assert_eq!((shares.oldest_of_most(), shares.count(&['c'])), (Some(1), 0));
        shares.add(&['b'], 12);
        assert_eq!(shares.oldest_of_most(), Some(1), "the oldest of both");
    }

    #[test]
    fn a_small_part_of_a_large_holder_keeps_what_it_has() {
        let mut shares = Shares::new();
        let held: Vec<_> = (0..5).map(|item| (['a', '1'], shares.add(&['a', '1'], item))).collect();
        let small = (['a', '2'], shares.add(&['a', '2'], 20));
        assert_eq!((shares.len(), shares.count(&['a', '1']), shares.count(&['a', '2'])), (6, 5, 1));
        assert_eq!(shares.newest_of_most(&['b', '1']), Some(4), "another host");
        assert_eq!(shares.newest_of_most(&['a', '2']), Some(4), "another circuit of the host");
        assert_eq!(shares.newest_of_most(&['a', '1']), None);
        held.into_iter().chain([small]).for_each(|(path, number)| shares.remove(&path, number));
        assert_eq!((shares.len(), shares.newest_of_most(&['b', '1'])), (0, None));
        assert!(shares.root.groups.is_empty() && shares.root.by_len.is_empty());
    }

    proptest! {
        #[test]
        fn counts_equal_those_of_a_list(steps in proptest::collection::vec((0u8..3, 0u8..4), 0..100)) {
            let (mut shares, mut list) = (Shares::new(), Vec::<([u8; 2], u64, usize)>::new());
            for (step, (action, holder)) in steps.into_iter().enumerate() {
                let path = [holder / 2, holder % 2];
                if action == 0 && let Some((path, number, _)) = list.pop() {
                    shares.remove(&path, number);
                } else {
                    list.push((path, shares.add(&path, step), step));
                }
                let count = |prefix: &[u8]| list.iter().filter(|(path, ..)| path.starts_with(prefix)).count();
                let most = (0..2).map(|outer| count(&[outer])).max().unwrap_or(0);
                prop_assert_eq!((shares.len(), shares.most()), (list.len(), most));
                prop_assert!((0..4u8).all(|n| shares.count(&[n / 2, n % 2]) == count(&[n / 2, n % 2])));
                let is_largest = |path: &[u8; 2]| {
                    let inner = (0..2).map(|inner| count(&[path[0], inner])).max();
                    count(&path[..1]) == most && Some(count(path)) == inner
                };
                let oldest = list.iter().filter(|(path, ..)| is_largest(path)).map(|(_, _, item)| *item).min();
                prop_assert_eq!(shares.oldest_of_most(), oldest);
            }
        }
    }
}
