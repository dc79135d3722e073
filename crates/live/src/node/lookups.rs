//! Running name lookups of exit streams, with limits for each circuit and each peer.
//!
//! An attacker can ask for names that no server answers. Each such lookup runs until its timeout. Each circuit and each
//! peer therefore has a limit. At the limit of a peer or of the relay, a new lookup replaces the oldest lookup of the
//! busiest circuit. Unanswered lookups therefore delay only the circuits that start them.

use std::collections::{BTreeMap, BTreeSet};

/// Limits of running lookups [1].
#[derive(Clone, Copy, Debug)]
pub(super) struct LookupLimits {
    pub(super) total: usize,
    /// Limit for all circuits from one peer. One peer, such as a middle relay, forwards circuits of many clients.
    pub(super) per_peer: usize,
    pub(super) per_circuit: usize,
}

impl LookupLimits {
    /// The limits of a live node.
    /// Deviation: C tor has no such limits. Its resolver accepts lookups until memory is full.
    pub(super) const NODE: LookupLimits = LookupLimits { total: 1024, per_peer: 512, per_circuit: 256 };
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
struct Running<P, C, S, V> {
    peer: P,
    circuit: C,
    /// The stream, and the purpose of the lookup. `None` if the stream closed before the thread answered.
    waiting: Option<(S, V)>,
}

#[derive(Debug)]
struct OfPeer<C> {
    /// Numbers of the lookups, by circuit, in the order of their start. No set is empty.
    circuits: BTreeMap<C, BTreeSet<u64>>,
    /// Number of lookups in `circuits` [1].
    len: usize,
}

/// All running lookups. `P` is a peer, `C` a circuit, `S` a stream, and `V` the purpose of a lookup.
#[derive(Debug)]
pub(super) struct Lookups<P, C, S, V> {
    limits: LookupLimits,
    running: BTreeMap<u64, Running<P, C, S, V>>,
    by_stream: BTreeMap<S, u64>,
    by_peer: BTreeMap<P, OfPeer<C>>,
    /// Number of unanswered lookups of closed streams, by peer and circuit [1].
    ending: BTreeMap<(P, C), usize>,
    next: u64,
}

impl<P: Ord + Copy, C: Ord + Copy, S: Ord + Copy, V> Lookups<P, C, S, V> {
    pub(super) fn new(limits: LookupLimits) -> Self {
        Lookups {
            limits,
            running: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            ending: BTreeMap::new(),
            next: 0,
        }
    }

    /// Starts a lookup for `stream` on `circuit`, which comes from `peer`. At the relay's limit, the run time grows
    /// with the number of peers.
    pub(super) fn begin(&mut self, peer: P, circuit: C, stream: S, then: V) -> Begun<S> {
        let own = self.len_of(peer, circuit);
        let ending = self.ending.get(&(peer, circuit)).copied().unwrap_or(0);
        // Ending lookups also count. Otherwise, a client that opens and closes streams would fill the thread's queue.
        let is_excess =
            own + ending >= self.limits.per_circuit || self.running.len() >= 2 * self.limits.total;
        if is_excess {
            return Begun::Refused;
        }
        let of_peer = self.by_peer.get(&peer).map_or(0, |of| of.len);
        let replaced = if of_peer >= self.limits.per_peer {
            let Some(oldest) = self.oldest_of_fullest(peer, own) else { return Begun::Refused };
            Some(oldest)
        } else if self.by_stream.len() >= self.limits.total {
            let fullest = self.by_peer.iter().max_by_key(|(_, of)| of.len);
            // A peer without lookups gets one, even if no peer has two.
            let other =
                fullest.filter(|(_, of)| of_peer == 0 || of.len > of_peer + 1).map(|(other, _)| *other);
            let oldest = other.map_or_else(
                || self.oldest_of_fullest(peer, own),
                // For another peer, any circuit may lose a lookup.
                |other| self.oldest_of_fullest(other, 0).or_else(|| self.oldest(other)),
            );
            let Some(oldest) = oldest else { return Begun::Refused };
            Some(oldest)
        } else {
            None
        };
        let replaced = replaced.and_then(|number| {
            let stream = self.running.get(&number)?.waiting.as_ref()?.0;
            self.forget(stream).map(|_| (stream, number))
        });
        self.next += 1;
        let number = self.next;
        self.running.insert(number, Running { peer, circuit, waiting: Some((stream, then)) });
        self.by_stream.insert(stream, number);
        let of = self.by_peer.entry(peer).or_insert(OfPeer { circuits: BTreeMap::new(), len: 0 });
        of.circuits.entry(circuit).or_default().insert(number);
        of.len += 1;
        replaced.map_or(Begun::Started(number), |(stream, old)| Begun::Replaces(number, stream, old))
    }

    /// The number of running lookups [1].
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// The stream that an answer belongs to; `None` if the stream is closed.
    pub(super) fn answered(&mut self, number: u64) -> Option<(S, V)> {
        let Running { peer, circuit, waiting } = self.running.remove(&number)?;
        let Some((stream, then)) = waiting else {
            let ending =
                self.ending.get_mut(&(peer, circuit)).expect("each lookup without a stream is counted");
            *ending -= 1;
            if *ending == 0 {
                self.ending.remove(&(peer, circuit));
            }
            return None;
        };
        self.by_stream.remove(&stream);
        self.uncount(peer, circuit, number);
        Some((stream, then))
    }

    /// Drops the lookup of a stream. Returns the lookup's number. A later answer is ignored.
    pub(super) fn forget(&mut self, stream: S) -> Option<u64> {
        let number = self.by_stream.remove(&stream)?;
        let running = self.running.get_mut(&number).expect("a stream's lookup is running");
        let (peer, circuit) = (running.peer, running.circuit);
        running.waiting = None;
        *self.ending.entry((peer, circuit)).or_default() += 1;
        self.uncount(peer, circuit, number);
        Some(number)
    }

    fn len_of(&self, peer: P, circuit: C) -> usize {
        self.by_peer.get(&peer).and_then(|of| of.circuits.get(&circuit)).map_or(0, BTreeSet::len)
    }

    /// The oldest lookup of the peer's circuit with the most lookups. `None` if it has at most `own` + 1.
    fn oldest_of_fullest(&self, peer: P, own: usize) -> Option<u64> {
        let fullest = self.by_peer.get(&peer)?.circuits.values().max_by_key(|numbers| numbers.len())?;
        fullest.first().copied().filter(|_| fullest.len() > own + 1)
    }

    fn oldest(&self, peer: P) -> Option<u64> {
        self.by_peer.get(&peer)?.circuits.values().filter_map(|numbers| numbers.first().copied()).min()
    }

    fn uncount(&mut self, peer: P, circuit: C, number: u64) {
        let of = self.by_peer.get_mut(&peer).expect("the lookup's peer is counted");
        let numbers = of.circuits.get_mut(&circuit).expect("the lookup's circuit is counted");
        numbers.remove(&number);
        of.len -= 1;
        if numbers.is_empty() {
            of.circuits.remove(&circuit);
        }
        if of.len == 0 {
            self.by_peer.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Table = Lookups<char, u8, u32, ()>;

    const LIMITS: LookupLimits = LookupLimits { total: 8, per_peer: 6, per_circuit: 4 };

    /// Lookups of streams `from..` on a circuit.
    fn fill(table: &mut Table, peer: char, circuit: u8, streams: std::ops::Range<u32>) {
        for stream in streams {
            assert!(matches!(table.begin(peer, circuit, stream, ()), Begun::Started(_)), "{stream}");
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
        fill(&mut table, 'a', 1, 0..4);
        assert_eq!(table.begin('a', 1, 9, ()), Begun::Refused);
        assert_eq!(table.answered(2), Some((1, ())));
        fill(&mut table, 'a', 1, 9..10);
    }

    #[test]
    fn at_the_limit_of_a_peer_its_fullest_circuit_loses_its_oldest_lookup() {
        let mut table = Table::new(LIMITS);
        fill(&mut table, 'a', 1, 0..4);
        fill(&mut table, 'a', 2, 10..12);
        assert_eq!(replaced(table.begin('a', 3, 20, ())), Some(0));
        assert_eq!(replaced(table.begin('a', 3, 21, ())), Some(1));
        assert_eq!(table.begin('a', 3, 22, ()), Begun::Refused, "no circuit has more");
        fill(&mut table, 'b', 9, 30..32);
    }

    #[test]
    fn at_the_limit_of_the_relay_the_fullest_peer_loses_a_lookup() {
        let mut table = Table::new(LIMITS);
        for circuit in 0..6 {
            fill(&mut table, 'a', circuit, 10 * u32::from(circuit)..10 * u32::from(circuit) + 1);
        }
        fill(&mut table, 'b', 1, 100..102);
        assert_eq!(
            replaced(table.begin('c', 1, 200, ())),
            Some(0),
            "many circuits of one peer are one sender"
        );
        assert_eq!(replaced(table.begin('b', 2, 103, ())), Some(10));
    }

    #[test]
    fn streams_that_open_and_close_at_once_do_not_fill_the_thread() {
        let mut table = Table::new(LIMITS);
        for stream in 0..4 {
            fill(&mut table, 'a', 1, stream..stream + 1);
            assert!(table.forget(stream).is_some());
        }
        assert_eq!(table.begin('a', 1, 9, ()), Begun::Refused);
        fill(&mut table, 'a', 2, 10..12);
        assert_eq!(table.answered(1), None, "nobody waits for it");
        fill(&mut table, 'a', 1, 9..10);
        assert_eq!(table.forget(77), None);
    }

    proptest! {
        /// Each lookup is answered, replaced or forgotten once, the limits hold, and a sender without a lookup is
        /// served while another sender has two.
        #[test]
        fn limits_hold_for_any_sequence(steps in proptest::collection::vec((0u8..6, 0u8..3, 0u8..4), 0..300)) {
            let mut table = Table::new(LIMITS);
            // Numbers at the thread, and the streams that wait, with their peers and circuits.
            let mut thread: Vec<u64> = Vec::new();
            let mut waiting: BTreeMap<u32, (char, u8)> = BTreeMap::new();
            for (stream, (what, peer, circuit)) in (0u32..).zip(steps) {
                let peer = ['a', 'b', 'c'][usize::from(peer)];
                match what {
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
                        let of = |who: char| waiting.values().filter(|(other, _)| *other == who).count();
                        let has_none = of(peer) == 0 && !table.ending.contains_key(&(peer, circuit));
                        let can_yield = ['a', 'b', 'c'].into_iter().any(|other| of(other) > 1);
                        match table.begin(peer, circuit, stream, ()) {
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
                prop_assert_eq!(table.ending.values().sum::<usize>(), thread.len() - waiting.len());
                for (peer, of) in &table.by_peer {
                    let there = waiting.values().filter(|(other, _)| other == peer).count();
                    prop_assert!(of.len == there && there <= 6 && there > 0);
                    prop_assert!(of.circuits.values().all(|numbers| (1..=4).contains(&numbers.len())));
                }
            }
        }
    }
}
