//! Running name lookups of exit streams, with limits for each circuit and each network.
//!
//! An attacker can ask for names that no server answers. Each such lookup runs until its timeout. Each circuit and each
//! network therefore has a limit. At the limit of a network or of the relay, a new lookup replaces the oldest lookup of
//! the busiest circuit. Unanswered lookups therefore delay only the circuits that start them.

use super::shares::{Holder, Host, Loses, PartPath, Shares};
use std::collections::BTreeMap;

/// Limits of running lookups [1].
#[derive(Clone, Copy, Debug)]
pub(super) struct LookupLimits {
    pub(super) total: usize,
    /// Limit for all circuits from one network. One peer, such as a middle relay, forwards circuits of many clients.
    pub(super) per_network: usize,
    pub(super) per_circuit: usize,
}

impl LookupLimits {
    /// The limits of a live node whose resolver may have `most` lookups. Half of them are for lookups of closed
    /// streams, which end later.
    /// Deviation: C tor has no such limits. Its resolver accepts lookups until memory is full.
    pub(super) fn of(most: usize) -> Self {
        LookupLimits { total: most / 2, per_network: most / 4, per_circuit: most / 8 }
    }

    /// Limit for all lookups, including those of closed streams [1].
    const fn with_ending(self) -> usize {
        2 * self.total
    }
}

/// The outcome of a request for a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun<S> {
    /// The lookup starts, with this number.
    Started(u64),
    /// The lookup starts, with the first number. It replaces the lookup of this stream, which has the second number.
    Replaces(u64, S, u64),
    /// The relay refuses the lookup, because too many are running.
    Refused,
}

#[derive(Debug)]
struct Running<S, V> {
    path: PartPath,
    waiting: Waiting<S, V>,
}

/// The receiver of an answer.
#[derive(Debug)]
enum Waiting<S, V> {
    /// A stream, and the purpose of its lookup.
    Open(S, V),
    /// The stream closed before the thread answered. The number is the lookup's number in `ending`.
    Closed(u64),
}

/// All running lookups. `S` is a stream, and `V` the purpose of a lookup. Paths end with a circuit.
#[derive(Debug)]
pub(super) struct Lookups<S, V> {
    limits: LookupLimits,
    running: BTreeMap<u64, Running<S, V>>,
    by_stream: BTreeMap<S, u64>,
    /// The lookups of open streams, with their numbers.
    shares: Shares<Holder, S>,
    /// The unanswered lookups of closed streams.
    ending: Shares<Holder, ()>,
}

impl<S: Ord + Copy, V> Lookups<S, V> {
    pub(super) fn new(limits: LookupLimits) -> Self {
        Lookups {
            limits,
            running: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            shares: Shares::new(),
            ending: Shares::new(),
        }
    }

    /// Sets the limits of new lookups. Running lookups continue.
    pub(super) fn set_limits(&mut self, limits: LookupLimits) {
        self.limits = limits;
    }

    #[cfg(test)]
    pub(super) fn limits(&self) -> LookupLimits {
        self.limits
    }

    /// Starts a lookup for `stream`, whose circuit is at the end of `path`.
    pub(super) fn begin(&mut self, path: PartPath, stream: S, then: V) -> Begun<S> {
        // Ending lookups also count. Otherwise, a client that opens and closes streams would fill the thread's queue.
        let is_excess = self.shares.count(&path) + self.ending.count(&path) >= self.limits.per_circuit
            || self.ending.count(&path[..1]) >= self.limits.per_network
            || self.running.len() >= self.limits.with_ending();
        if is_excess {
            return Begun::Refused;
        }
        let replaced = if self.shares.count(&path[..1]) >= self.limits.per_network {
            Some(self.oldest_of_most(1, &path))
        } else if self.shares.len() >= self.limits.total {
            Some(self.oldest_of_most(0, &path))
        } else {
            None
        };
        let replaced = match replaced {
            Some(None) => return Begun::Refused,
            Some(Some(old)) => self.forget(old).map(|number| (old, number)),
            None => None,
        };
        let number = self.shares.add(&path, stream);
        self.running.insert(number, Running { path, waiting: Waiting::Open(stream, then) });
        self.by_stream.insert(stream, number);
        replaced.map_or(Begun::Started(number), |(stream, old)| Begun::Replaces(number, stream, old))
    }

    /// The stream that loses its lookup, so that `path` can have one. The first `within` groups of `path` are full. A
    /// group without lookups gets one, even if no group has two.
    fn oldest_of_most(&self, within: usize, path: &PartPath) -> Option<S> {
        self.shares.yielding(within, path, Loses::Oldest, |own, most| own == 0 || most > own + 1)
    }

    /// Whether a stream waits for a lookup.
    pub(super) fn has(&self, stream: S) -> bool {
        self.by_stream.contains_key(&stream)
    }

    /// The number of unanswered lookups of closed streams of each host [1].
    pub(super) fn ending_by_host(&self) -> impl Iterator<Item = (Host, usize)> {
        self.ending.by_host()
    }

    /// The number of running lookups [1].
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// The stream that an answer belongs to; `None` if the stream is closed.
    pub(super) fn answered(&mut self, number: u64) -> Option<(S, V)> {
        let Running { path, waiting } = self.running.remove(&number)?;
        match waiting {
            Waiting::Open(stream, then) => {
                self.by_stream.remove(&stream);
                self.shares.remove(&path, number);
                Some((stream, then))
            }
            Waiting::Closed(ending) => {
                self.ending.remove(&path, ending);
                None
            }
        }
    }

    /// Drops the lookup of a stream. Returns the lookup's number. A later answer is ignored.
    pub(super) fn forget(&mut self, stream: S) -> Option<u64> {
        let number = self.by_stream.remove(&stream)?;
        let running = self.running.get_mut(&number).expect("a stream's lookup is running");
        let path = running.path;
        running.waiting = Waiting::Closed(self.ending.add(&path, ()));
        self.shares.remove(&path, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::MAX_LOOKUPS;
    use penstock_core::CircuitIndex;
    use proptest::prelude::*;

    type Table = Lookups<u32, ()>;

    const LIMITS: LookupLimits = LookupLimits { total: 8, per_network: 6, per_circuit: 4 };

    fn of(peer: u8, circuit: u8) -> PartPath {
        Host::of([192, 0, 2, peer].into()).with_circuit(CircuitIndex::first(circuit.into()))
    }

    /// Lookups of streams `from..` on a circuit.
    fn fill(table: &mut Table, path: PartPath, streams: std::ops::Range<u32>) {
        for stream in streams {
            assert!(matches!(table.begin(path, stream, ()), Begun::Started(_)), "{stream}");
        }
    }

    fn replaced(begun: Begun<u32>) -> Option<u32> {
        match begun {
            Begun::Replaces(_, stream, _) => Some(stream),
            _ => None,
        }
    }

    #[test]
    fn a_circuit_at_its_limit_waits_for_its_own_lookups() {
        let mut table = Table::new(LIMITS);
        fill(&mut table, of(1, 1), 0..4);
        assert_eq!(table.begin(of(1, 1), 9, ()), Begun::Refused);
        assert_eq!(table.answered(2), Some((1, ())));
        fill(&mut table, of(1, 1), 9..10);
    }

    #[test]
    fn at_the_limit_of_a_peer_its_fullest_circuit_loses_its_oldest_lookup() {
        let mut table = Table::new(LIMITS);
        fill(&mut table, of(1, 1), 0..4);
        fill(&mut table, of(1, 2), 10..12);
        assert_eq!(replaced(table.begin(of(1, 3), 20, ())), Some(0));
        assert_eq!(replaced(table.begin(of(1, 3), 21, ())), Some(1));
        assert_eq!(table.begin(of(1, 3), 22, ()), Begun::Refused, "no circuit has more");
        fill(&mut table, of(2, 9), 30..32);
    }

    #[test]
    fn at_the_limit_of_the_relay_the_fullest_peer_loses_a_lookup() {
        let mut table = Table::new(LIMITS);
        for circuit in 0..6 {
            fill(&mut table, of(1, circuit), 10 * u32::from(circuit)..10 * u32::from(circuit) + 1);
        }
        fill(&mut table, of(2, 1), 100..102);
        assert_eq!(
            replaced(table.begin(of(3, 1), 200, ())),
            Some(0),
            "many circuits of one peer are one sender"
        );
        assert_eq!(replaced(table.begin(of(2, 2), 103, ())), Some(10));
    }

    #[test]
    fn hosts_of_one_ipv6_network_have_one_limit() {
        let mut table = Table::new(LIMITS);
        let host = |number: u16| {
            let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, 7, number, 0, 0, 0, 1);
            Host::of(address.into()).with_circuit(CircuitIndex::first(number.into()))
        };
        for number in 0..6 {
            fill(&mut table, host(number), number.into()..u32::from(number) + 1);
        }
        assert_eq!(replaced(table.begin(host(6), 20, ())), Some(0));
        fill(&mut table, of(1, 1), 30..32);
    }

    #[test]
    fn streams_that_open_and_close_at_once_do_not_fill_the_thread() {
        let mut table = Table::new(LIMITS);
        for stream in 0..4 {
            fill(&mut table, of(1, 1), stream..stream + 1);
            assert!(table.forget(stream).is_some());
        }
        assert_eq!(table.begin(of(1, 1), 9, ()), Begun::Refused);
        fill(&mut table, of(1, 2), 10..12);
        let host = Host::of([192, 0, 2, 1].into());
        assert_eq!(table.ending_by_host().collect::<Vec<_>>(), [(host, 4)]);
        assert!(table.has(10) && !table.has(0));
        assert_eq!(table.answered(1), None, "its stream is closed");
        fill(&mut table, of(1, 1), 9..10);
        assert_eq!(table.forget(77), None);
    }

    #[test]
    fn closed_streams_of_one_network_leave_lookups_to_others() {
        let mut table = Table::new(LIMITS);
        let mut stream = 0;
        for circuit in 0..8 {
            while table.begin(of(1, circuit), stream, ()) != Begun::Refused {
                assert!(table.forget(stream).is_some());
                stream += 1;
            }
        }
        assert_eq!(stream, 6, "the limit of a network");
        fill(&mut table, of(2, 1), 100..104);
    }

    #[test]
    fn the_resolver_serves_as_many_lookups_as_can_run() {
        let mut table = Table::new(LookupLimits::of(MAX_LOOKUPS));
        let mut begun = 0;
        // Every stream closes at once, so that only the limit for all lookups counts.
        for peer in 0..32 {
            for circuit in 0..8 {
                for _ in 0..256 {
                    if table.begin(of(peer, circuit), begun, ()) != Begun::Refused {
                        table.forget(begun);
                        begun += 1;
                    }
                }
            }
        }
        assert_eq!((table.len(), begun as usize), (MAX_LOOKUPS, MAX_LOOKUPS));
    }

    proptest! {
        /// Each lookup is answered, replaced or forgotten once, the limits hold, and a sender without a lookup is
        /// served while another sender has two.
        #[test]
        fn limits_hold_for_any_sequence(steps in proptest::collection::vec((0u8..6, 0u8..3, 0u8..4), 0..300)) {
            let mut table = Table::new(LIMITS);
            // Numbers at the thread, and the streams that wait, with their peers and circuits.
            let mut thread: Vec<u64> = Vec::new();
            let mut waiting: BTreeMap<u32, (u8, u8)> = BTreeMap::new();
            for (stream, (action, peer, circuit)) in (0u32..).zip(steps) {
                match action {
                    0 => if !thread.is_empty() {
                        let number = thread.remove(stream as usize % thread.len());
                        if let Some((stream, ())) = table.answered(number) {
                            prop_assert!(waiting.remove(&stream).is_some());
                        }
                    },
                    1 => if let Some((stream, _)) = waiting.pop_first() {
                        prop_assert!(table.forget(stream).is_some_and(|number| thread.contains(&number)));
                    },
                    _ => {
                        let has = |peer: u8| waiting.values().filter(|(other, _)| *other == peer).count();
                        let has_none = has(peer) == 0 && table.ending.count(&of(peer, circuit)[..1]) == 0;
                        let can_yield = (0..3).any(|other| has(other) > 1);
                        match table.begin(of(peer, circuit), stream, ()) {
                            Begun::Started(number) => thread.push(number),
                            Begun::Replaces(number, old, _) => {
                                prop_assert!(waiting.remove(&old).is_some());
                                thread.push(number);
                            }
                            Begun::Refused => {
                                prop_assert!(!(has_none && can_yield && thread.len() < 16));
                                continue;
                            }
                        }
                        waiting.insert(stream, (peer, circuit));
                    }
                }
                prop_assert_eq!(table.by_stream.len(), waiting.len());
                prop_assert!(waiting.len() <= 8 && table.running.len() == thread.len() && thread.len() <= 16);
                prop_assert_eq!(table.ending.len(), thread.len() - waiting.len());
                prop_assert_eq!(table.shares.len(), waiting.len());
                for peer in 0..3 {
                    let has = waiting.values().filter(|(other, _)| *other == peer).count();
                    prop_assert!(table.shares.count(&of(peer, 0)[..1]) == has && has <= 6);
                    prop_assert!((0..4).all(|circuit| table.shares.count(&of(peer, circuit)) <= 4));
                }
            }
        }
    }
}
