//! Circuits of clients over several consensuses, as a path simulator samples them.
//!
//! Each client keeps its guards over all consensuses, and builds a new circuit at a constant interval. A circuit uses the
//! consensus of its time.
//!
//! Source: TorPS (Johnson et al., Users get routed, CCS 2013, section 5); C tor `MaxCircuitDirtiness`.
//! Deviation: a client has a stream for port 443 all the time, and no circuit fails.

use crate::consensus::Consensus;
use crate::document::hex;
use crate::error::Error;
use crate::guards::{Guards, Listed};
use crate::pairs::MAX_ATTEMPTS;
use crate::relay::Position;
use crate::select::Selector;
use penstock_units::{Rng, Seed};
use std::collections::BTreeMap;
use std::ops::Range;

/// A sampled circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circuit {
    /// When the client begins to use the circuit [s since 1970].
    pub time: u64,
    /// The number of the client, from 0.
    pub client: u32,
    /// The guard, the middle and the exit, as indices of the consensus' relays.
    pub relays: [usize; 3],
}

/// Clients that live through several consensuses.
#[derive(Clone, Debug)]
pub struct History {
    clients: Vec<Client>,
    every: u64,
    failures: u64,
}

#[derive(Clone, Debug)]
struct Client {
    rng: Rng,
    guards: Guards,
    /// The time of the next circuit [s since 1970]; `None` before the first consensus.
    next: Option<u64>,
}

impl History {
    /// Clients that need a new circuit every `every` seconds, which must be above 0. The random numbers of each client
    /// derive from `seed` and its number. Therefore, more clients do not change the circuits of the others.
    pub fn new(clients: u32, every: u64, seed: Seed) -> Self {
        assert!(every > 0, "the caller checks the interval");
        let client = |number| Client {
            rng: seed.stream(&format!("client{number}/paths")),
            guards: Guards::default(),
            next: None,
        };
        History { clients: (0..clients).map(client).collect(), every, failures: 0 }
    }

    /// Samples all circuits of a consensus that clients use in `period` [s since 1970], in the order of their times. Also
    /// returns the number of relays that may be guards, middles and exits.
    ///
    /// No period may begin before the end of an earlier one. The name of the consensus in error messages is `name`.
    ///
    /// The first circuit of a client is at a random time of the first interval.
    pub fn advance(
        &mut self,
        consensus: &Consensus,
        period: Range<u64>,
        name: &str,
    ) -> Result<([usize; 3], Vec<Circuit>), Error> {
        let selector = Selector::new(&consensus.relays, &consensus.weights, name)?;
        let identity = |fingerprint| hex(fingerprint).expect("a relay of a consensus has an identity");
        let identities: Vec<[u8; 20]> =
            consensus.relays.iter().map(|relay| identity(relay.identity().0)).collect();
        let places = (0..identities.len()).filter(|place| consensus.relays[*place].may_be(Position::Guard));
        let places = places.map(|place| (identities[place], place)).collect();
        let listed = Listed { selector: &selector, places, identities };
        let mut circuits = Vec::new();
        for (number, client) in (0u32..).zip(&mut self.clients) {
            let Client { rng, guards, next } = client;
            let mut time = next.unwrap_or_else(|| period.start + rng.below(self.every)).max(period.start);
            guards.update(period.start, rng, &listed);
            let mut usable: Vec<usize> = guards.usable().collect();
            while time < period.end {
                let (relays, failures) = circuit(&selector, rng, &usable, name)?;
                self.failures += failures;
                if guards.on_circuit(time, rng, relays[0]) {
                    usable = guards.usable().collect();
                }
                circuits.push(Circuit { time, client: number, relays });
                time += self.every;
            }
            *next = Some(time);
        }
        circuits.sort_unstable();
        Ok((Position::ALL.map(|position| selector.candidates(position)), circuits))
    }

    /// The number of clients by the number of guards that their circuits have used so far.
    pub fn used_guards(&self) -> BTreeMap<usize, usize> {
        let mut clients = BTreeMap::new();
        self.clients.iter().for_each(|client| *clients.entry(client.guards.used()).or_insert(0) += 1);
        clients
    }

    /// The number of circuits that were sampled again, because no relay was compatible with the relays chosen before.
    pub fn failures(&self) -> u64 {
        self.failures
    }
}

/// Samples a circuit through one of these guards, and the number of failed attempts before. As in C tor, an attempt fails
/// if no guard is compatible with its exit.
fn circuit(
    selector: &Selector,
    rng: &mut Rng,
    guards: &[usize],
    name: &str,
) -> Result<([usize; 3], u64), Error> {
    let attempt = || selector.draw(rng, guards).filter(|relays| guards.contains(&relays[0]));
    let mut attempts = (0..).zip(std::iter::repeat_with(attempt)).take(MAX_ATTEMPTS as usize);
    attempts
        .find_map(|(failures, relays)| Some((relays?, failures)))
        .ok_or_else(|| Error::NoCircuit { network: name.to_owned(), attempts: MAX_ATTEMPTS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::to_hex;
    use crate::families::tests::declare_each_other;
    use proptest::prelude::*;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    const START: u64 = 1_900_000_000;

    /// A consensus of these relays, which may have every position.
    fn consensus(relays: impl IntoIterator<Item = u8>) -> Consensus {
        with_flags(relays, |_| "Exit Fast Guard")
    }

    /// A consensus of relays that are either guards or exits, so that every guard is compatible with every exit.
    fn guards_and_exits(relays: impl IntoIterator<Item = u8>) -> Consensus {
        with_flags(relays, |number| if number / 2 % 2 == 0 { "Fast Guard" } else { "Exit Fast" })
    }

    /// A consensus of these relays, whose numbers are their identities. The relay n has the address 10.(n / 2).0.1, so two
    /// relays share a /16.
    fn with_flags(relays: impl IntoIterator<Item = u8>, flags: impl Fn(u8) -> &'static str) -> Consensus {
        let entries: String = relays
            .into_iter()
            .map(|number| {
                let identity = crate::document::to_base64(&[number; 20]);
                format!(
                    "r relay{number} {identity} 2030-01-01 00:00:00 10.{}.0.1 9001 0\n\
                     s {} Running Stable Valid\nw Bandwidth={}\n",
                    number / 2,
                    flags(number),
                    10 + number % 7
                )
            })
            .collect();
        let text = format!(
            "network-status-version 3 microdesc\nvote-status consensus\nvalid-after 2030-01-01 00:00:00\n{entries}\
             directory-footer\ndirectory-signature sha256 0 0\n"
        );
        Consensus::parse(text.as_bytes(), "doc").unwrap()
    }

    fn hour(history: &mut History, consensus: &Consensus, from: u64) -> Vec<Circuit> {
        history.advance(consensus, from..from + HOUR, "doc").unwrap().1
    }

    fn guards(consensus: &Consensus, circuits: &[Circuit]) -> BTreeMap<u32, Vec<String>> {
        let mut guards: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for Circuit { client, relays, .. } in circuits {
            let name = &consensus.relays[relays[0]].name;
            let of_client = guards.entry(*client).or_default();
            if !of_client.contains(name) {
                of_client.push(name.clone());
            }
        }
        guards
    }

    #[test]
    fn each_client_has_a_circuit_in_each_interval() {
        let mut history = History::new(3, 600, Seed(1));
        let (one, two) = (consensus(0..60), consensus(0..60));
        let circuits = [hour(&mut history, &one, START), hour(&mut history, &two, START + HOUR)].concat();
        assert!(circuits.is_sorted_by_key(|circuit| (circuit.time, circuit.client)));
        for client in 0..3 {
            let times: Vec<u64> = circuits
                .iter()
                .filter(|circuit| circuit.client == client)
                .map(|circuit| circuit.time)
                .collect();
            assert!(times.len() == 12 && (START..START + 600).contains(&times[0]), "{times:?}");
            assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 600));
        }
    }

    /// Clients keep a guard, although its place in the documents changes.
    #[test]
    fn guards_persist_over_consensuses() {
        let mut history = History::new(40, 600, Seed(2));
        let orders = [
            guards_and_exits(0..80),
            guards_and_exits((0..80).rev()),
            guards_and_exits((0..80).filter(|number| number % 5 != 1)),
        ];
        let mut all: Vec<BTreeMap<u32, Vec<String>>> = Vec::new();
        for (number, document) in (0..).zip(&orders) {
            all.push(guards(document, &hour(&mut history, document, START + number * HOUR)));
        }
        let mut replaced = 0;
        for client in 0..40 {
            let [first, second, third] = [0, 1, 2].map(|hour| &all[hour][&client]);
            assert_eq!(first, second);
            let is_listed = orders[2].relays.iter().any(|relay| relay.name == first[0]);
            assert_eq!(is_listed, first == third, "{first:?} {third:?}");
            replaced += usize::from(!is_listed);
        }
        assert!(replaced > 0, "one of forty clients loses its guard");
        assert_eq!(history.used_guards().values().sum::<usize>(), 40);
        // A guard that comes back is used again.
        let back = guards(&orders[0], &hour(&mut history, &orders[0], START + 3 * HOUR));
        assert_eq!(back, all[0]);
    }

    /// Source: proposal 310, which makes the order of the used guards independent of the order of their first circuits.
    #[test]
    fn used_guards_keep_the_order_in_which_they_joined_the_sample() {
        let mut history = History::new(1, HOUR, Seed(1));
        hour(&mut history, &guards_and_exits(0..80), START);
        let Client { rng, guards, .. } = &mut history.clients[0];
        let sampled: Vec<usize> = guards.usable().take(4).collect();
        let mut order_after = |place: usize| {
            assert!(guards.on_circuit(START, rng, sampled[place]));
            guards.usable().take(4).collect::<Vec<usize>>()
        };
        // Guard 3 becomes primary beside the first two, and does not come before them.
        assert_eq!(order_after(3), [0, 1, 3, 2].map(|place| sampled[place]));
        assert_eq!(order_after(2), [0, 2, 3, 1].map(|place| sampled[place]));
    }

    #[test]
    fn a_guard_leaves_after_its_lifetime_or_when_it_is_unlisted_for_weeks() {
        let (all, early) = (guards_and_exits(0..200), guards_and_exits(0..100));
        let first = |history: &mut History, document: &Consensus, day: u64| {
            let circuits = hour(history, document, START + day * DAY);
            let guard = circuits.iter().find(|circuit| circuit.client == 0).unwrap().relays[0];
            document.relays[guard].name.clone()
        };
        let mut changed = [0; 2];
        for seed in 0..40 {
            let history = || History::new(1, HOUR, Seed(seed));
            // After 45 days no guard is old, and after 150 days all are.
            let mut old = history();
            let one = first(&mut old, &all, 0);
            assert_eq!(first(&mut old, &all, 45), one);
            changed[0] += usize::from(first(&mut old, &all, 150) != one);
            // A guard that is listed again after 15 days is first again; after 21 days, another guard is.
            let mut gone = history();
            let one = first(&mut gone, &all, 0);
            if !early.relays.iter().any(|relay| relay.name == one) {
                let other = first(&mut gone, &early, 1);
                assert_ne!(other, one);
                assert_eq!(first(&mut gone, &all, 16), one);
                first(&mut gone, &early, 17);
                first(&mut gone, &early, 38);
                assert_ne!(first(&mut gone, &all, 39), one);
                changed[1] += 1;
            }
        }
        assert!(changed[0] > 30 && changed[1] > 5, "{changed:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_circuits_whatever_the_number_of_clients() {
        let circuits = |clients, seed| {
            let (mut history, document) = (History::new(clients, 600, Seed(seed)), consensus(0..60));
            let mut circuits = hour(&mut history, &document, START);
            circuits.extend(hour(&mut history, &document, START + HOUR));
            circuits
        };
        assert_eq!(circuits(9, 1), circuits(9, 1));
        assert_ne!(circuits(9, 1), circuits(9, 2));
        let mut few = circuits(9, 1);
        few.retain(|circuit| circuit.client < 4);
        assert_eq!(few, circuits(4, 1));
    }

    #[test]
    fn a_network_without_three_compatible_relays_is_an_error() {
        let error = History::new(1, 600, Seed(1)).advance(&consensus(0..4), START..START + HOUR, "net");
        assert!(error.unwrap_err().to_string().starts_with("net: 1000 circuits in a row"));
    }

    proptest! {
        /// With all families that relays can declare, no circuit has two relays of one family or one /16.
        #[test]
        fn no_circuit_has_two_relays_of_one_family_or_network(
            families in prop::collection::vec(prop::collection::btree_set(0u8..40, 2..6), 0..8),
            one_sided in prop::collection::vec((0u8..40, 0u8..40), 0..8),
            seed in 0u64..1000,
        ) {
            let mut document = consensus(0..40);
            declare_each_other(&mut document.relays, &families, &one_sided);
            let in_family = |one: u8, other: u8| {
                families.iter().any(|family| family.contains(&one) && family.contains(&other))
                    || one_sided.contains(&(one, other)) && one_sided.contains(&(other, one))
            };
            let mut history = History::new(10, 600, Seed(seed));
            for number in 0..3 {
                for Circuit { relays, .. } in hour(&mut history, &document, START + number * HOUR) {
                    let numbers = relays.map(|relay| relay as u8);
                    for (one, other) in [(0, 1), (0, 2), (1, 2)].map(|(a, b)| (numbers[a], numbers[b])) {
                        prop_assert!(one / 2 != other / 2 && !in_family(one, other), "{numbers:?}");
                    }
                    prop_assert_eq!(&document.relays[relays[0]].name[1..3], &to_hex(&[numbers[0]])[..]);
                }
            }
        }
    }
}
