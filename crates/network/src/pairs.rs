//! Relays, connections and sockets that two circuits of a network share.
//!
//! A relay can prioritise one circuit over another only if both send through the same socket. KIST section 5.1 measures
//! with TorPS how often two circuits share a socket.

use crate::error::Error;
use crate::select::Selector;
use penstock_units::{Rng, Seed};

/// After this many failed circuits in a row, sampling fails because the network has too few compatible relays.
pub(crate) const MAX_ATTEMPTS: u32 = 1000;

/// How many pairs of circuits share relays, connections or sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// The number of sampled pairs.
    pub sampled: u64,
    /// Pairs with the same guard.
    pub guard: u64,
    /// Pairs with the same middle.
    pub middle: u64,
    /// Pairs with the same exit.
    pub exit: u64,
    /// Pairs that have at least one relay in common, at any position.
    pub relay: u64,
    /// Pairs in which a relay has the same next relay on both circuits, so two downloads share a socket.
    pub socket: u64,
    /// Pairs in which two relays are neighbours on both circuits, in any order, so the circuits share a connection.
    pub connection: u64,
}

impl Pairs {
    /// Counts a pair of circuits of different clients. The circuits share no connection to a client or a server.
    fn count(&mut self, one: [usize; 3], other: [usize; 3]) {
        let hops = |[guard, middle, exit]: [usize; 3]| [[guard, middle], [middle, exit]];
        let back = |[from, to]: [usize; 2]| [to, from];
        let (mine, theirs) = (hops(one), hops(other));
        let same_way = mine.iter().any(|hop| theirs.contains(hop));
        let shared = |position: usize| u64::from(one[position] == other[position]);
        self.sampled += 1;
        self.guard += shared(0);
        self.middle += shared(1);
        self.exit += shared(2);
        self.relay += u64::from(one.iter().any(|relay| other.contains(relay)));
        self.socket += u64::from(same_way);
        self.connection += u64::from(same_way || mine.iter().any(|hop| theirs.contains(&back(*hop))));
    }
}

/// Samples pairs of circuits step by step.
#[derive(Clone, Debug)]
pub struct Sampler {
    selector: Selector,
    rng: Rng,
    pairs: Pairs,
    failures: u64,
}

impl Sampler {
    /// A sampler whose random numbers derive from `seed`.
    pub fn new(selector: Selector, seed: Seed) -> Self {
        Sampler { selector, rng: seed.stream("paths"), pairs: Pairs::default(), failures: 0 }
    }

    /// Samples `pairs` more pairs. The name of the network in error messages is `name`.
    pub fn advance(&mut self, pairs: u64, name: &str) -> Result<(), Error> {
        for _ in 0..pairs {
            let (one, other) = (self.circuit(name)?, self.circuit(name)?);
            self.pairs.count(one, other);
        }
        Ok(())
    }

    /// The counts so far.
    pub fn pairs(&self) -> Pairs {
        self.pairs
    }

    /// The number of circuits that failed because no relay was compatible with the relays chosen before. The sampler
    /// replaced these circuits.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    fn circuit(&mut self, name: &str) -> Result<[usize; 3], Error> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(circuit) = self.selector.draw(&mut self.rng, &[]) {
                return Ok(circuit);
            }
            self.failures += 1;
        }
        Err(Error::NoCircuit { network: name.to_owned(), attempts: MAX_ATTEMPTS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::{Flags, Relay};
    use crate::weights::PositionWeights;

    fn counted(one: [usize; 3], other: [usize; 3]) -> [u64; 6] {
        let mut pairs = Pairs::default();
        pairs.count(one, other);
        let Pairs { sampled, guard, middle, exit, relay, socket, connection } = pairs;
        assert_eq!(sampled, 1);
        [guard, middle, exit, relay, socket, connection]
    }

    #[test]
    fn two_circuits_share_relays_and_sockets() {
        assert_eq!(counted([1, 2, 3], [4, 5, 6]), [0, 0, 0, 0, 0, 0]);
        assert_eq!(counted([1, 2, 3], [1, 5, 6]), [1, 0, 0, 1, 0, 0]);
        assert_eq!(counted([1, 2, 3], [4, 5, 1]), [0, 0, 0, 1, 0, 0]);
        assert_eq!(counted([1, 2, 3], [1, 5, 3]), [1, 0, 1, 1, 0, 0]);
        assert_eq!(counted([1, 2, 3], [1, 2, 6]), [1, 1, 0, 1, 1, 1]);
        assert_eq!(counted([1, 2, 3], [4, 2, 3]), [0, 1, 1, 1, 1, 1]);
        assert_eq!(counted([1, 2, 3], [1, 2, 3]), [1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_socket_has_a_direction_and_a_connection_has_none() {
        // Exit to middle on one, middle to guard on the other: 3 writes to 2 for both.
        assert_eq!(counted([1, 2, 3], [2, 3, 6]), [0, 0, 0, 1, 1, 1]);
        // 3 writes to 2 for the one, 2 to 3 for the other.
        assert_eq!(counted([1, 2, 3], [3, 2, 6]), [0, 1, 0, 1, 0, 1]);
    }

    fn relays(count: usize) -> Vec<Relay> {
        let flags = Flags {
            guard: true,
            exit: true,
            bad_exit: false,
            fast: true,
            stable: true,
            running: true,
            valid: true,
        };
        let relay = |place| {
            let name = format!("relay{place}");
            Relay { name, weight: 7, flags, address: None, family: std::sync::Arc::default(), exits: true }
        };
        (0..count).map(relay).collect()
    }

    #[test]
    fn equal_relays_give_the_computed_shares() {
        let n = 20.0;
        let selector = Selector::new(&relays(20), &PositionWeights::even(), "a test").unwrap();
        let mut sampler = Sampler::new(selector, Seed(3));
        sampler.advance(150_000, "a test").unwrap();
        sampler.advance(50_000, "a test").unwrap();
        let pairs = sampler.pairs();
        // Two hops of one circuit, two of the other, of n (n - 1); the same circuit twice counts once.
        let both = 1.0 / (n * (n - 1.0) * (n - 2.0));
        let disjoint = (n - 3.0) * (n - 4.0) * (n - 5.0) * both;
        let socket = 4.0 / (n * (n - 1.0)) - both;
        for (seen, probability) in [(pairs.guard, 1.0 / n), (pairs.middle, 1.0 / n), (pairs.exit, 1.0 / n)]
            .into_iter()
            .chain([(pairs.relay, 1.0 - disjoint), (pairs.socket, socket)])
        {
            let all = pairs.sampled as f64;
            let off =
                (seen as f64 - probability * all).abs() / (probability * (1.0 - probability) * all).sqrt();
            assert!(off < 4.5, "{seen} of {all}, not {probability}");
        }
        assert_eq!((pairs.sampled, sampler.failures()), (200_000, 0));
    }

    #[test]
    fn a_network_without_three_compatible_relays_is_an_error() {
        let mut relays = relays(5);
        let address = std::net::Ipv4Addr::new(10, 0, 0, 1);
        relays.iter_mut().skip(1).for_each(|relay| relay.address = Some(address));
        let selector = Selector::new(&relays, &PositionWeights::even(), "net").unwrap();
        let error = Sampler::new(selector, Seed(1)).advance(1, "net").unwrap_err().to_string();
        assert!(error.starts_with("net: 1000 circuits in a row"), "{error}");
    }
}
