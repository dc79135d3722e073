//! Samples circuits of three relays as C tor does.
//!
//! The exit is sampled first, then the guard, then the middle. The probability of a relay is proportional to its
//! consensus weight times its position weight. All relays of a circuit are different, and no two relays are in the same
//! /16 or the same family.
//!
//! A sample takes one random number and one lookup in an alias table (Walker 1977, built as in Vose 1991). If a relay
//! is incompatible, another one is sampled. This does not change the relative probabilities of compatible relays.

use crate::error::Error;
use crate::relay::{Position, Relay};
use crate::weights::PositionWeights;
use penstock_units::Rng;
use std::sync::Arc;

/// After this many incompatible samples in a row, the code scans all relays.
const MAX_ATTEMPTS: u32 = 64;

/// Samples circuits through one network, for all clients of the network.
///
/// Source: path-spec section 2.2; C tor `onion_pick_cpath_exit()`, `onion_extend_cpath()`,
/// `node_sl_choose_by_bandwidth()`.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The /16 network of each relay.
    networks: Vec<u32>,
    /// The family of each relay, as indices in increasing order.
    families: Vec<Arc<[u32]>>,
    tables: [Table; 3],
}

impl Selector {
    /// A selector of these relays. The name of the network in error messages is `name`.
    ///
    /// Fails if no relay may have one of the positions. Indices of family members beyond the end of the list are
    /// ignored.
    pub fn new(relays: &[Relay], weights: &PositionWeights, name: &str) -> Result<Self, Error> {
        let networks = (0u32..).zip(relays).map(|(place, relay)| match relay.address {
            Some(address) => u32::from(address) >> 16,
            // A relay without an address gets a unique number above all /16 networks.
            None => (1 << 16) + place,
        });
        let families = relays.iter().map(|relay| relay.family.clone()).collect();
        let table = |position: Position| {
            let candidates = (0u32..).zip(relays).filter(|(_, relay)| relay.may_be(position));
            let weighted = candidates.map(|(place, relay)| {
                (place, f64::from(relay.weight) * weights.share(position, relay.class()))
            });
            Table::new(weighted.collect())
                .ok_or_else(|| Error::NoRelay { network: name.to_owned(), position })
        };
        let tables = [table(Position::Guard)?, table(Position::Middle)?, table(Position::Exit)?];
        Ok(Selector { networks: networks.collect(), families, tables })
    }

    /// Samples a circuit. Returns the indices of its guard, middle and exit in the list of relays.
    ///
    /// The guard is the first of `guards` that is compatible with the exit; if there is none, the guard is sampled.
    /// Returns `None` if no relay is compatible with the relays chosen before it; C tor also gives up such a circuit.
    /// This function allocates nothing.
    pub fn draw(&self, rng: &mut Rng, guards: &[usize]) -> Option<[usize; 3]> {
        let exit = self.tables[Position::Exit as usize].draw(rng);
        let own = guards.iter().copied().find(|guard| self.are_compatible(*guard, exit));
        let guard = own.or_else(|| self.pick(Position::Guard, rng, &[exit]))?;
        let middle = self.pick(Position::Middle, rng, &[exit, guard])?;
        Some([guard, middle, exit])
    }

    /// Samples a second circuit to the exit of `first`, with another guard and another middle. The guard is the first of
    /// the other `guards` that is compatible with the exit; if there is none, the guard is sampled.
    ///
    /// Source: C tor `conflux_add_guards_to_exclude_list()`, `conflux_add_middles_to_exclude_list()`.
    pub fn draw_leg(&self, rng: &mut Rng, guards: &[usize], first: [usize; 3]) -> Option<[usize; 3]> {
        let [other_guard, other_middle, exit] = first;
        let fits = |guard: &usize| *guard != other_guard && self.are_compatible(*guard, exit);
        let own = guards.iter().copied().find(fits);
        let guard = own.or_else(|| self.tables[Position::Guard as usize].pick(rng, |guard| fits(&guard)))?;
        let middle = self.tables[Position::Middle as usize].pick(rng, |middle| {
            middle != other_middle && [exit, guard].iter().all(|other| self.are_compatible(*other, middle))
        })?;
        Some([guard, middle, exit])
    }

    /// Whether a client with these guards never uses another guard: each exit is compatible with at least one of them.
    pub fn keeps_to(&self, guards: &[usize]) -> bool {
        let exits = &self.tables[Position::Exit as usize].weighted;
        exits.iter().all(|(exit, _)| guards.iter().any(|guard| self.are_compatible(*guard, *exit as usize)))
    }

    /// Samples a client's guards, most preferred guard first: `count` guards, or all guards if the network has fewer.
    ///
    /// Source: guard-spec section 4.1; C tor `entry_guards_expand_sample()`, which also ignores families.
    pub fn guards(&self, rng: &mut Rng, count: usize) -> Vec<usize> {
        let table = &self.tables[Position::Guard as usize];
        let mut guards: Vec<usize> = Vec::with_capacity(count.min(table.slots.len()));
        while guards.len() < count {
            let Some(guard) = self.another_guard(rng, &guards) else { break };
            guards.push(guard);
        }
        guards
    }

    /// Samples a guard that is not one of `known`; `None` if there is no other guard.
    pub(crate) fn another_guard(&self, rng: &mut Rng, known: &[usize]) -> Option<usize> {
        self.tables[Position::Guard as usize].pick(rng, |guard| !known.contains(&guard))
    }

    /// How many relays may have a position and have a non-zero weight there.
    pub fn candidates(&self, position: Position) -> usize {
        self.tables[position as usize].weighted.iter().filter(|(_, weight)| *weight > 0.0).count()
    }

    /// Whether two relays may be on the same circuit. Source: path-spec section 2.2; C tor `nodes_in_same_family()`.
    fn are_compatible(&self, one: usize, other: usize) -> bool {
        // This also prevents that a relay is used twice, because two uses have the same /16.
        self.networks[one] != self.networks[other]
            && self.families[one].binary_search(&(other as u32)).is_err()
    }

    fn pick(&self, position: Position, rng: &mut Rng, chosen: &[usize]) -> Option<usize> {
        let fits = |relay| chosen.iter().all(|other| self.are_compatible(*other, relay));
        self.tables[position as usize].pick(rng, fits)
    }
}

#[derive(Clone, Debug)]
struct Table {
    slots: Vec<Slot>,
    weighted: Vec<(u32, f64)>,
}

/// One of the n slots of the alias table. A slot gets 1/n of all samples, which go to one or two relays.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The fraction of the slot's samples that go to `relay` [2^-64].
    keep: u64,
    relay: u32,
    other: u32,
}

impl Table {
    /// The alias table; `None` if there are no relays. If all weights are zero, all relays are equally likely, as in C
    /// tor.
    fn new(mut weighted: Vec<(u32, f64)>) -> Option<Self> {
        if weighted.is_empty() {
            return None;
        }
        let mut total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        if total == 0.0 {
            weighted.iter_mut().for_each(|(_, weight)| *weight = 1.0);
            total = weighted.len() as f64;
        }
        let count = weighted.len() as f64;
        let mut slots: Vec<Slot> =
            weighted.iter().map(|(relay, _)| Slot { keep: u64::MAX, relay: *relay, other: *relay }).collect();
        let mut left: Vec<f64> = weighted.iter().map(|(_, weight)| weight * count / total).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|slot| left[*slot] < 1.0);
        while let (Some(lesser), Some(greater)) = (small.pop(), large.last().copied()) {
            // The fraction is below 1, so the product fits into 64 bits.
            slots[lesser].keep = (left[lesser] * 2f64.powi(64)) as u64;
            slots[lesser].other = slots[greater].relay;
            left[greater] -= 1.0 - left[lesser];
            if left[greater] < 1.0 {
                large.pop();
                small.push(greater);
            }
        }
        // The remaining relays fill their slots, except for rounding errors.
        Some(Table { slots, weighted })
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        // The upper half of the product is uniform below n, the lower half is uniform within the slot.
        let product = u128::from(rng.bits()) * self.slots.len() as u128;
        let slot = self.slots[(product >> 64) as usize];
        (if (product as u64) < slot.keep { slot.relay } else { slot.other }) as usize
    }

    fn pick(&self, rng: &mut Rng, fits: impl Fn(usize) -> bool) -> Option<usize> {
        for _ in 0..MAX_ATTEMPTS {
            let relay = self.draw(rng);
            if fits(relay) {
                return Some(relay);
            }
        }
        self.pick_among_all(rng, fits)
    }

    /// Samples a compatible relay with a scan. If all compatible relays have the weight zero, they are equally likely.
    fn pick_among_all(&self, rng: &mut Rng, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let fitting = || self.weighted.iter().filter(|(relay, _)| fits(*relay as usize));
        let total: f64 = fitting().map(|(_, weight)| weight).sum();
        if total == 0.0 {
            let count = fitting().count();
            let index = if count > 0 { rng.below(count as u64) } else { return None };
            return fitting().nth(index as usize).map(|(relay, _)| *relay as usize);
        }
        let mut left = rng.unit() * total;
        let mut last = None;
        for (relay, weight) in fitting().filter(|(_, weight)| *weight > 0.0) {
            last = Some(*relay as usize);
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::{Class, Flags};
    use penstock_units::{Rng, Seed};
    use proptest::prelude::{prop, prop_assert, proptest};
    use std::net::Ipv4Addr;

    fn relay(place: usize, weight: u32, class: Class) -> Relay {
        let (guard, exit) = (class.is_guard(), class.is_exit());
        Relay {
            name: format!("relay{place}"),
            weight,
            flags: Flags {
                guard,
                exit,
                bad_exit: false,
                fast: true,
                stable: true,
                running: true,
                valid: true,
            },
            address: Some(Ipv4Addr::new(10, place as u8, 0, 1)),
            family: Arc::default(),
            exits: exit,
        }
    }

    fn network(relays: &[(u32, Class)]) -> Vec<Relay> {
        relays.iter().enumerate().map(|(place, (weight, class))| relay(place, *weight, *class)).collect()
    }

    fn selector(relays: &[Relay]) -> Selector {
        Selector::new(relays, &PositionWeights::even(), "a test").unwrap()
    }

    fn rng() -> Rng {
        Seed(1).stream("paths")
    }

    /// All circuits and their probabilities.
    fn exact(relays: &[Relay], weights: &PositionWeights) -> Vec<([usize; 3], f64)> {
        let weigh = |place: usize, position| {
            let relay: &Relay = &relays[place];
            let share = weights.share(position, relay.class());
            if relay.may_be(position) { f64::from(relay.weight) * share } else { 0.0 }
        };
        let compatible = |one: usize, other: usize| {
            let network = |place: usize| relays[place].address.map(|address| u32::from(address) >> 16);
            one != other && network(one) != network(other) && !relays[one].family.contains(&(other as u32))
        };
        let all = 0..relays.len();
        let mut circuits = Vec::new();
        let exits: f64 = all.clone().map(|exit| weigh(exit, Position::Exit)).sum();
        for exit in all.clone() {
            let fits = |guard: &usize| compatible(*guard, exit);
            let guards: f64 = all.clone().filter(fits).map(|guard| weigh(guard, Position::Guard)).sum();
            for guard in all.clone().filter(fits) {
                let fits = |middle: &usize| compatible(*middle, exit) && compatible(*middle, guard);
                let middles: f64 =
                    all.clone().filter(fits).map(|middle| weigh(middle, Position::Middle)).sum();
                for middle in all.clone().filter(fits) {
                    let probability = weigh(exit, Position::Exit) / exits * weigh(guard, Position::Guard)
                        / guards
                        * weigh(middle, Position::Middle)
                        / middles;
                    circuits.push(([guard, middle, exit], probability));
                }
            }
        }
        circuits
    }

    /// The largest deviation of sampled frequencies from the exact probabilities, in standard errors.
    fn worst(relays: &[Relay], weights: &PositionWeights, draws: u32) -> f64 {
        let (selector, mut rng) = (Selector::new(relays, weights, "a test").unwrap(), rng());
        let sampled: Vec<[usize; 3]> = (0..draws).filter_map(|_| selector.draw(&mut rng, &[])).collect();
        assert_eq!(sampled.len(), draws as usize);
        let circuits = exact(relays, weights);
        assert!(
            sampled.iter().all(|path| circuits
                .iter()
                .any(|(circuit, probability)| circuit == path && *probability > 0.0))
        );
        let off =
            circuits.iter().filter(|(_, probability)| *probability > 0.0).map(|(circuit, probability)| {
                let seen = sampled.iter().filter(|path| *path == circuit).count() as f64;
                let mean = probability * f64::from(draws);
                (seen - mean).abs() / (mean * (1.0 - probability)).sqrt()
            });
        off.fold(0.0, f64::max)
    }

    #[test]
    fn circuits_are_sampled_by_their_weights() {
        let mut relays = network(&[
            (100, Class::Guard),
            (300, Class::Guard),
            (50, Class::Both),
            (70, Class::Both),
            (400, Class::Exit),
            (10, Class::Plain),
            (90, Class::Plain),
        ]);
        // The first and the fifth relay are of one family, the second and the seventh of one /16.
        relays[0].family = Arc::new([4]);
        relays[4].family = Arc::new([0]);
        relays[6].address = Some(Ipv4Addr::new(10, 1, 200, 7));
        for weights in [PositionWeights::even(), PositionWeights::computed(&relays, 10_000).unwrap()] {
            let worst = worst(&relays, &weights, 200_000);
            assert!(worst < 4.5, "{worst} standard errors");
        }
    }

    #[test]
    fn a_second_leg_has_another_guard_and_middle() {
        let relays = network(&[
            (5, Class::Guard),
            (5, Class::Guard),
            (5, Class::Guard),
            (5, Class::Exit),
            (5, Class::Exit),
            (5, Class::Plain),
            (5, Class::Plain),
        ]);
        let (selector, mut rng) = (selector(&relays), rng());
        for _ in 0..200 {
            let first = selector.draw(&mut rng, &[0, 2]).unwrap();
            let second = selector.draw_leg(&mut rng, &[0, 2], first).unwrap();
            assert_eq!(second[2], first[2]);
            assert_eq!((first[0], second[0]), (0, 2), "the client has another guard");
            assert!(second[1] != first[1] && !second[..1].contains(&second[1]));
            let sampled = selector.draw_leg(&mut rng, &[0], first).unwrap();
            assert_ne!(sampled[0], 0);
        }
        let few = network(&[(5, Class::Guard), (5, Class::Exit), (5, Class::Plain), (5, Class::Plain)]);
        let selector = Selector::new(&few, &PositionWeights::even(), "a test").unwrap();
        assert_eq!(selector.draw_leg(&mut rng, &[0], [0, 2, 1]), None, "there is no other guard");
    }

    #[test]
    fn shares_hold_when_few_relays_are_compatible() {
        // All guards except for the last two are in the /16 of the only exit.
        let mut relays = network(&[(1_000_000, Class::Guard), (1_000_000, Class::Guard), (1, Class::Exit)]);
        relays.extend([relay(3, 3, Class::Guard), relay(4, 1, Class::Guard), relay(5, 5, Class::Plain)]);
        for near in [0, 1] {
            relays[near].address = relays[2].address;
        }
        let worst = worst(&relays, &PositionWeights::even(), 20_000);
        assert!(worst < 4.5, "{worst} standard errors");
    }

    #[test]
    fn a_client_keeps_its_guard_if_the_exit_is_compatible() {
        let mut relays = network(&[
            (5, Class::Guard),
            (5, Class::Guard),
            (9, Class::Guard),
            (5, Class::Exit),
            (5, Class::Exit),
            (5, Class::Plain),
        ]);
        relays[0].family = Arc::new([3]);
        relays[3].family = Arc::new([0]);
        let (selector, mut rng) = (selector(&relays), rng());
        for _ in 0..200 {
            let [guard, _, exit] = selector.draw(&mut rng, &[0, 1]).unwrap();
            assert_eq!(guard, if exit == 3 { 1 } else { 0 });
            let [guard, _, exit] = selector.draw(&mut rng, &[0]).unwrap();
            assert!(if exit == 3 { [1, 2].contains(&guard) } else { guard == 0 });
        }
    }

    #[test]
    fn the_guards_of_a_client_are_different_and_sampled_by_weight() {
        let relays = network(&[
            (80, Class::Guard),
            (15, Class::Guard),
            (5, Class::Both),
            (9, Class::Exit),
            (9, Class::Plain),
        ]);
        let (selector, mut rng) = (selector(&relays), rng());
        let mut first = [0; 5];
        for _ in 0..2000 {
            let mut guards = selector.guards(&mut rng, 3);
            first[guards[0]] += 1;
            guards.sort_unstable();
            assert_eq!(guards, [0, 1, 2]);
        }
        assert!((1520..1680).contains(&first[0]), "{first:?}");
        assert_eq!(selector.guards(&mut rng, 9).len(), 3);
        assert_eq!(selector.guards(&mut rng, 0), []);
    }

    #[test]
    fn relays_without_weight_are_equally_likely() {
        let relays = network(&[(0, Class::Guard), (0, Class::Guard), (0, Class::Exit), (0, Class::Plain)]);
        let (selector, mut rng) = (selector(&relays), rng());
        assert_eq!(Position::ALL.map(|position| selector.candidates(position)), [2, 4, 1]);
        let firsts = (0..1000).filter(|_| selector.draw(&mut rng, &[]).unwrap()[0] == 0).count();
        assert!((400..600).contains(&firsts), "{firsts}");
    }

    #[test]
    fn an_impossible_circuit_gives_none() {
        let mut relays = network(&[(1, Class::Guard), (1, Class::Exit), (1, Class::Plain)]);
        relays[2].address = relays[0].address;
        assert_eq!(selector(&relays).draw(&mut rng(), &[]), None);
        relays[2].address = None;
        assert_eq!(selector(&relays).draw(&mut rng(), &[]), Some([0, 2, 1]));
    }

    #[test]
    fn a_position_without_relays_is_an_error() {
        let error = |relays: &[Relay]| {
            Selector::new(relays, &PositionWeights::even(), "net").unwrap_err().to_string()
        };
        assert!(
            error(&network(&[(1, Class::Exit), (1, Class::Plain)]))
                .starts_with("net: no relay can be a guard")
        );
        assert!(error(&network(&[(1, Class::Guard)])).starts_with("net: no relay can be an exit"));
        assert!(error(&[]).starts_with("net: no relay can be a guard"));
    }

    #[test]
    fn the_same_random_stream_gives_the_same_circuits() {
        let relays = network(&[(5, Class::Both), (7, Class::Both), (11, Class::Both), (13, Class::Both)]);
        let circuits = || {
            let (selector, mut rng) = (selector(&relays), rng());
            (0..100).map(|_| selector.draw(&mut rng, &[])).collect::<Vec<_>>()
        };
        assert_eq!(circuits(), circuits());
    }

    proptest! {
        /// The alias table gives each relay its share.
        #[test]
        fn an_alias_table_keeps_the_shares(weights in prop::collection::vec(0u32.., 1..50)) {
            let weighted: Vec<(u32, f64)> = (0u32..).zip(weights.iter().map(|weight| f64::from(*weight))).collect();
            let table = Table::new(weighted).unwrap();
            let total: f64 = table.weighted.iter().map(|(_, weight)| weight).sum();
            let mut shares = vec![0.0; weights.len()];
            for slot in &table.slots {
                let kept = slot.keep as f64 / 2f64.powi(64);
                shares[slot.relay as usize] += kept / weights.len() as f64;
                shares[slot.other as usize] += (1.0 - kept) / weights.len() as f64;
            }
            for ((_, weight), share) in table.weighted.iter().zip(&shares) {
                prop_assert!((weight / total - share).abs() < 1e-9, "{weight} of {total}: {share}");
            }
        }
    }
}
