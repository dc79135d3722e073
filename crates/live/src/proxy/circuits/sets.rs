//! Sets of linked circuits (Conflux): when the client builds one, which circuits are its legs, and which leg stands for
//! the set.
//!
//! The first leg of a linked set has the set's streams, isolation group and times. The other legs have none.
//!
//! Source: proposal 329; C tor `conflux_predict_new()`, `conflux_launch_leg()`, `conflux_get_circ_for_conn()`,
//! `linked_circuit_closed()`, `unlinked_circuit_closed()`.

use super::{Circuits, ClientCircuit, Path, Progress};
use crate::directory::Params;
use crate::proxy::path::Purpose;
use penstock_core::CircuitIndex;
use penstock_core::conflux::Nonce;
use penstock_units::{Duration, Instant};
use std::collections::BTreeSet;

/// Consensus parameters of sets. The default builds none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetLimits {
    /// Maximum number of linked sets, unused ones included [1] (`cfx_max_linked_set`).
    max_linked: usize,
    /// Unused sets [1] (`cfx_max_prebuilt_set`).
    prebuilt: usize,
    /// Legs that the client builds for a set in addition to those that the set needs [1]
    /// (`cfx_max_unlinked_leg_retry`).
    max_retries: usize,
}

impl SetLimits {
    /// The limits in a consensus. `exits`: the numbers of exits with Conflux, and of all exits [1].
    ///
    /// Source: C tor `conflux_params_new_consensus()`, `conflux_params_get_max_prebuilt()`.
    pub(crate) fn of(params: &Params, [with, all]: [usize; 2]) -> Self {
        let get = |name, default, max| params.get(name, default, 0..=max).unsigned_abs() as usize;
        let prebuilt = get("cfx_max_prebuilt_set", 3, 255);
        let threshold = get("cfx_low_exit_threshold", 6000, 10_000);
        SetLimits {
            max_linked: get("cfx_max_linked_set", 10, 255),
            prebuilt: match with * 10_000 {
                0 => 0,
                few if few < threshold * all => 1,
                _ => prebuilt,
            },
            max_retries: get("cfx_max_unlinked_leg_retry", 3, 255),
        }
    }
}

/// A set with at least one leg.
#[derive(Debug, Default)]
pub(super) struct LinkedSet {
    legs: Vec<CircuitIndex>,
    /// The number of legs of the complete set [1].
    needed: usize,
    /// Legs that the client has begun to build [1].
    begun: usize,
    /// Whether all legs close, because too many have failed.
    is_given_up: bool,
    /// Whether all legs are linked, so that streams may use the set.
    is_linked: bool,
}

impl LinkedSet {
    /// Whether this leg has the streams of the set.
    pub(super) fn is_led_by(&self, leg: CircuitIndex) -> bool {
        self.is_linked && self.legs.first() == Some(&leg)
    }

    pub(super) fn is_linked(&self) -> bool {
        self.is_linked
    }
}

/// The next step for sets.
#[derive(Debug)]
pub(crate) enum SetStep {
    /// Build a new set.
    Begin(Purpose),
    /// Build one more leg of this set, which has these legs.
    Replace(Nonce, Vec<Path>),
    /// Close the legs of this set, because too many others have failed.
    GiveUp(Nonce),
}

impl Circuits {
    /// A circuit that has just begun becomes a leg of a set. A new set needs `needed` legs [1].
    pub(crate) fn join_set(&mut self, index: CircuitIndex, nonce: Nonce, needed: usize) {
        if let Some(circuit) = self.table.get_mut(&index) {
            (circuit.set, circuit.is_leg) = (Some(nonce), true);
            let new = LinkedSet { needed, ..LinkedSet::default() };
            let set = self.sets.entry(nonce).or_insert(new);
            set.legs.push(index);
            set.begun += 1;
        }
    }

    /// The set to which the circuit belongs.
    pub(crate) fn set_of(&self, index: CircuitIndex) -> Option<Nonce> {
        self.table.get(&index)?.set
    }

    /// The legs of the circuit's set; the circuit alone if it has none.
    pub(crate) fn legs_of(&self, index: CircuitIndex) -> Vec<CircuitIndex> {
        let set = self.set_of(index).and_then(|nonce| self.sets.get(&nonce));
        set.map_or_else(|| vec![index], |set| set.legs.clone())
    }

    /// The legs of a set, which all close.
    pub(crate) fn give_up(&mut self, nonce: Nonce) -> Vec<CircuitIndex> {
        let Some(set) = self.sets.get_mut(&nonce) else { return Vec::new() };
        set.is_given_up = true;
        set.legs.clone()
    }

    /// Whether the circuit is a leg of a set that is not linked.
    pub(crate) fn is_linking(&self, index: CircuitIndex) -> bool {
        let set = self.set_of(index).and_then(|nonce| self.sets.get(&nonce));
        set.is_some_and(|set| !set.is_linked)
    }

    /// LINK leaves on a leg.
    pub(crate) fn on_link_sent(&mut self, now: Instant, index: CircuitIndex) {
        if let Some(circuit) = self.table.get_mut(&index) {
            circuit.link_sent = Some(now);
        }
    }

    /// All legs of the circuit's set are linked.
    pub(crate) fn on_linked(&mut self, now: Instant, index: CircuitIndex) {
        let Some(set) = self.set_of(index).and_then(|nonce| self.sets.get_mut(&nonce)) else { return };
        set.is_linked = true;
        if let Some(first) = set.legs.first().and_then(|first| self.table.get_mut(first)) {
            first.used = now;
        }
    }

    /// The legs whose LINK left at least `timeout` ago, of sets that are not linked.
    pub(crate) fn slow_links(&self, now: Instant, timeout: Duration) -> Vec<CircuitIndex> {
        let is_slow = |index: &CircuitIndex| {
            let sent = self.table.get(index).and_then(|circuit| circuit.link_sent);
            sent.is_some_and(|sent| now.since(sent) >= timeout)
        };
        let unlinked = self.sets.values().filter(|set| !set.is_linked);
        unlinked.flat_map(|set| set.legs.iter().copied()).filter(is_slow).collect()
    }

    /// The next step for sets, without new sets for the purposes of `impossible`. `may_begin`: whether a new set may
    /// begin.
    ///
    /// Source: C tor `conflux_predict_new()`, `launch_leg_is_allowed()`.
    pub(crate) fn next_set_step(
        &self,
        limits: SetLimits,
        may_begin: bool,
        impossible: &BTreeSet<Purpose>,
    ) -> Option<SetStep> {
        let is_lacking = |set: &LinkedSet| !set.is_linked && !set.is_given_up && set.legs.len() < set.needed;
        if let Some((nonce, set)) = self.sets.iter().find(|(_, set)| is_lacking(set)) {
            if set.begun >= set.needed + limits.max_retries {
                return Some(SetStep::GiveUp(*nonce));
            }
            let legs = set.legs.iter().filter_map(|leg| self.table.get(leg));
            return Some(SetStep::Replace(*nonce, legs.map(|leg| leg.path.clone()).collect()));
        }
        if !may_begin {
            return None;
        }
        let unused = || self.sets.values().filter(|set| self.is_unused(set));
        let linked = self.sets.values().filter(|set| set.is_linked).count();
        if linked >= limits.max_linked || unused().count() >= limits.prebuilt {
            return None;
        }
        let exit_of = |set: &LinkedSet| Some(&self.table.get(set.legs.first()?)?.path[2]);
        let count = |purpose: Purpose| {
            unused().filter(|set| exit_of(set).is_some_and(|exit| purpose.fits(exit))).count()
        };
        let possible = self.predicted.keys().copied().filter(|purpose| !impossible.contains(purpose));
        possible.min_by_key(|purpose| count(*purpose)).map(SetStep::Begin)
    }

    /// Whether the set waits for its first stream. Source: C tor `count_client_usable_sets()`.
    fn is_unused(&self, set: &LinkedSet) -> bool {
        let first = set.legs.first().and_then(|first| self.table.get(first));
        let is_clean = |first: &ClientCircuit| first.dirty.is_none() && first.isolation.is_none();
        !set.is_linked || first.is_some_and(|first| is_clean(first) && !first.is_retired)
    }

    /// A circuit leaves its set, because it is late or has closed. If it had the streams of the set, they move to
    /// another leg, which is returned.
    pub(super) fn leave_set(
        &mut self,
        index: CircuitIndex,
        circuit: &mut ClientCircuit,
    ) -> Option<CircuitIndex> {
        let nonce = circuit.set.take()?;
        let set = self.sets.get_mut(&nonce)?;
        let had_streams = set.is_led_by(index);
        set.legs.retain(|leg| *leg != index);
        let Some(heir) = set.legs.first().copied() else {
            self.sets.remove(&nonce);
            return None;
        };
        let next = self.table.get_mut(&heir).filter(|_| had_streams)?;
        debug_assert!(next.progress == Progress::Open, "a linked leg is open");
        next.isolation = circuit.isolation.take();
        (next.dirty, next.is_retired) = (circuit.dirty, circuit.is_retired);
        (next.streams, next.used) = (circuit.streams, circuit.used);
        Some(heir)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TIMES, at, circuits, group, path};
    use super::super::{Expiry, Wanted};
    use super::*;
    use crate::proxy::circuits::CircuitLimits;

    const LIMITS: SetLimits = SetLimits { max_linked: 4, prebuilt: 2, max_retries: 1 };
    const NONCE: Nonce = Nonce([1; 32]);

    fn step(circuits: &Circuits) -> Option<SetStep> {
        circuits.next_set_step(LIMITS, true, &BTreeSet::new())
    }

    fn leg(circuits: &mut Circuits, second: u64, number: u32, nonce: Nonce) -> CircuitIndex {
        let index = CircuitIndex::first(number);
        circuits.begin(at(second), index, path(7), None, true);
        circuits.join_set(index, nonce, 2);
        index
    }

    fn open(circuits: &mut Circuits, second: u64, index: CircuitIndex) {
        (0..3).for_each(|_| circuits.on_hop(index));
        circuits.on_built(at(second), index).unwrap();
        circuits.on_link_sent(at(second), index);
    }

    /// A linked set with two legs.
    fn linked(circuits: &mut Circuits, second: u64, number: u32) -> [CircuitIndex; 2] {
        let nonce = Nonce([number as u8; 32]);
        let legs = [number, number + 1].map(|number| leg(circuits, second, number, nonce));
        legs.iter().for_each(|leg| open(circuits, second, *leg));
        circuits.on_linked(at(second), legs[1]);
        legs
    }

    fn find(circuits: &Circuits, second: u64, secret: &str) -> Option<CircuitIndex> {
        let (isolation, failed) = (group(secret), BTreeSet::new());
        circuits
            .find(at(second), Wanted { purpose: Purpose::Port(80), isolation: &isolation, failed: &failed })
    }

    #[test]
    fn the_consensus_and_the_share_of_exits_decide_how_many_sets_wait() {
        let prebuilt = |text: &str, exits| SetLimits::of(&Params::read(text).unwrap(), exits).prebuilt;
        assert_eq!([prebuilt("", [6, 10]), prebuilt("", [5, 10]), prebuilt("", [0, 10])], [3, 1, 0]);
        assert_eq!(prebuilt("cfx_low_exit_threshold=0 cfx_max_prebuilt_set=7", [1, 10]), 7);
        assert_eq!(prebuilt("cfx_max_prebuilt_set=0", [9, 10]), 0);
        let limits = SetLimits::of(&Params::default(), [1, 1]);
        assert_eq!(limits, SetLimits { max_linked: 10, prebuilt: 3, max_retries: 3 });
    }

    #[test]
    fn streams_use_only_linked_sets_and_prefer_them() {
        let mut circuits = circuits();
        let alone = CircuitIndex::first(9);
        circuits.begin(at(0), alone, path(7), None, true);
        (0..3).for_each(|_| circuits.on_hop(alone));
        circuits.on_built(at(1), alone).unwrap();
        let first = leg(&mut circuits, 0, 1, NONCE);
        open(&mut circuits, 1, first);
        assert_eq!(find(&circuits, 2, "x"), Some(alone), "the set lacks a leg");
        let second = leg(&mut circuits, 0, 2, NONCE);
        open(&mut circuits, 2, second);
        assert_eq!(find(&circuits, 2, "x"), Some(alone), "the set is not linked");
        circuits.on_linked(at(3), second);
        assert_eq!(find(&circuits, 3, "x"), Some(first));
        assert_eq!(circuits.legs_of(first), [first, second]);
        circuits.attach(at(3), first, &group("x"));
        assert_eq!((find(&circuits, 4, "x"), find(&circuits, 4, "y")), (Some(first), Some(alone)));
    }

    #[test]
    fn unused_sets_wait_and_used_ones_are_replaced_up_to_a_limit() {
        let mut circuits = circuits();
        let mut number = 10;
        let mut sets = Vec::new();
        while let Some(SetStep::Begin(purpose)) = step(&circuits) {
            assert_eq!(purpose, Purpose::Port(443));
            sets.push(linked(&mut circuits, 0, number));
            number += 10;
        }
        assert_eq!(sets.len(), LIMITS.prebuilt);
        // Two streams of different groups use the sets, so two others are built, and no more.
        for (secret, [first, _]) in ["x", "y"].iter().zip(sets) {
            circuits.attach(at(1), first, &group(secret));
        }
        for _ in 0..2 {
            assert!(matches!(step(&circuits), Some(SetStep::Begin(_))));
            let [first, _] = linked(&mut circuits, 2, number);
            circuits.attach(at(3), first, &group(&number.to_string()));
            number += 10;
        }
        assert!(step(&circuits).is_none(), "four sets are linked");
        assert_eq!(
            circuits.lacks(at(3), &BTreeSet::new(), false),
            Some(Purpose::Port(443)),
            "legs are no spares"
        );
    }

    #[test]
    fn a_leg_that_fails_is_replaced_until_there_are_too_many() {
        let mut circuits = circuits();
        let [first, second] = [1, 2].map(|number| leg(&mut circuits, 0, number, NONCE));
        assert!(matches!(step(&circuits), Some(SetStep::Begin(_))), "both legs are on their way");
        circuits.on_closed(second);
        let Some(SetStep::Replace(nonce, paths)) = step(&circuits) else { panic!("a leg is missing") };
        assert_eq!((nonce, paths.len()), (NONCE, 1));
        let third = leg(&mut circuits, 1, 3, NONCE);
        circuits.on_closed(third);
        let Some(SetStep::GiveUp(nonce)) = step(&circuits) else { panic!("three legs have begun") };
        assert_eq!(circuits.give_up(nonce), [first]);
        assert!(!matches!(step(&circuits), Some(SetStep::GiveUp(_) | SetStep::Replace(..))), "it closes");
        let (closed, _) = circuits.on_closed(first).unwrap();
        assert!(closed.is_leg);
        assert!(circuits.sets.is_empty());
    }

    /// A consensus may change the number of legs. Sets that have begun keep theirs.
    #[test]
    fn a_leg_is_replaced_while_no_new_set_may_begin() {
        let mut circuits = circuits();
        let [_, second] = [1, 2].map(|number| leg(&mut circuits, 0, number, NONCE));
        let paused = |circuits: &Circuits| circuits.next_set_step(LIMITS, false, &BTreeSet::new());
        assert!(paused(&circuits).is_none() && matches!(step(&circuits), Some(SetStep::Begin(_))));
        circuits.on_closed(second);
        assert!(matches!(paused(&circuits), Some(SetStep::Replace(NONCE, _))));
        let third = CircuitIndex::first(3);
        circuits.begin(at(1), third, path(7), None, true);
        circuits.join_set(third, NONCE, 5);
        assert!(paused(&circuits).is_none(), "two legs are enough");
    }

    #[test]
    fn a_late_leg_only_measures_its_build_time() {
        let mut circuits = circuits();
        let [first, late] = [1, 2].map(|number| leg(&mut circuits, 0, number, NONCE));
        open(&mut circuits, 1, first);
        circuits.on_hop(late);
        assert_eq!(circuits.expire(at(5), TIMES, false), [(late, Expiry::TimedOut)]);
        assert_eq!((circuits.set_of(late), circuits.legs_of(first)), (None, vec![first]));
        assert!(matches!(step(&circuits), Some(SetStep::Replace(..))));
        assert_eq!(circuits.slow_links(at(5), TIMES.timeout), []);
        assert_eq!(circuits.slow_links(at(6), TIMES.timeout), [first]);
    }

    #[test]
    fn streams_stay_with_their_set_if_another_leg_carries_on() {
        let mut circuits = circuits();
        let [first, second] = linked(&mut circuits, 0, 1);
        circuits.attach(at(1), first, &group("x"));
        let available = CircuitLimits::default().available.as_secs();
        assert_eq!(circuits.expire(at(available + 1), TIMES, false), [], "the set has a stream");
        let (_, heir) = circuits.on_closed(first).unwrap();
        assert_eq!(
            (heir, find(&circuits, 2, "x"), find(&circuits, 2, "y")),
            (Some(second), Some(second), None)
        );
        circuits.detach(at(3), second);
        assert_eq!(circuits.expire(at(700), TIMES, false), [(second, Expiry::Unused)]);
        assert_eq!(circuits.on_closed(second).unwrap().1, None);
        assert!(circuits.sets.is_empty());
    }

    #[test]
    fn an_unused_set_closes_by_its_first_leg() {
        let mut circuits = circuits();
        let [first, _] = linked(&mut circuits, 0, 1);
        let available = CircuitLimits::default().available.as_secs();
        assert_eq!(circuits.expire(at(available), TIMES, false), [(first, Expiry::Unused)]);
    }
}
