//! The relays that a client can use: the entries of the consensus with their microdescriptors.
//!
//! Source: dir-spec, "Consensus documents", "Microdescriptor consensus", "Computing microdescriptors".

use super::ports::PortSummary;
use crate::directory::{Documents, Fingerprint, Flavour};
use penstock_link::cell::LinkSpec;
use penstock_link::crypto::RelayKeys;
use penstock_network::document::{Item, Malformed, base64, hex, items, pair};
use penstock_network::{Class, Flags, Position, PositionWeights};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

/// A relay with a microdescriptor.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    pub(crate) nickname: String,
    pub(crate) keys: RelayKeys,
    pub(crate) address: SocketAddr,
    pub(crate) flags: Flags,
    /// Whether the relay serves directory documents (flag V2Dir).
    pub(crate) is_directory: bool,
    /// The consensus weight [kB/s].
    pub(crate) weight: u32,
    /// Relays that this relay declares as its family.
    pub(crate) family: BTreeSet<Fingerprint>,
    /// Identities of families with certificates (proposal 321).
    pub(crate) family_ids: BTreeSet<String>,
    pub(crate) policy: PortSummary,
    /// Whether the relay supports congestion control (FlowCtrl=2).
    pub(crate) has_congestion_control: bool,
    /// Whether the relay supports N23 (N23=1).
    pub(crate) has_n23: bool,
    /// Whether the relay supports Conflux (Conflux=1).
    pub(crate) has_conflux: bool,
}

impl Router {
    pub(crate) fn rsa(&self) -> Fingerprint {
        self.keys.rsa
    }

    /// The link specifiers of an EXTEND2 to the relay.
    /// Deviation: C tor also writes the IPv6 address.
    pub(crate) fn link_spec(&self) -> LinkSpec {
        LinkSpec { addresses: vec![self.address], rsa: self.keys.rsa, ed25519: Some(self.keys.ed25519) }
    }

    /// Whether the relay, as an exit, links circuits. They need congestion control.
    pub(crate) fn links_circuits(&self) -> bool {
        self.has_conflux && self.has_congestion_control
    }

    fn class(&self) -> Class {
        Class::of(self.flags.guard, self.flags.exit && !self.flags.bad_exit)
    }

    /// Whether the relay can be a guard (C tor `node_is_possible_guard()`).
    pub(crate) fn is_guard(&self) -> bool {
        let Flags { guard, fast, stable, running, valid, .. } = self.flags;
        guard && fast && stable && running && valid && self.is_directory
    }

    /// Whether two relays are declared or certified members of one family.
    fn is_in_family_of(&self, other: &Router) -> bool {
        self.family.contains(&other.rsa()) && other.family.contains(&self.rsa())
            || !self.family_ids.is_disjoint(&other.family_ids)
    }
}

/// All relays of a consensus whose microdescriptors are known.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) valid_after: SystemTime,
    pub(crate) routers: Vec<Arc<Router>>,
    /// The identities of all relays that the consensus lists with the flag Guard or without.
    listed: BTreeSet<Fingerprint>,
    by_identity: BTreeMap<Fingerprint, usize>,
    weights: PositionWeights,
    /// The fraction of paths whose three microdescriptors are known, by bandwidth [1].
    known_paths: f64,
}

impl Network {
    /// Reads the consensus with microdescriptors. `None` without a consensus.
    ///
    /// The documents are verified, so an entry that this parser does not understand is left out.
    pub(crate) fn of(documents: &Documents) -> Option<Self> {
        let consensus = documents.consensus(Flavour::Microdescriptors)?;
        let mut reading = Reading::default();
        for item in items(consensus.text.as_bytes()) {
            reading.take(&item);
        }
        reading.end_entry();
        let Reading { entries, weights, .. } = reading;
        let scale = consensus.params.get("bwweightscale", 10_000, 1..=i32::MAX).unsigned_abs();
        let values = weights.iter().map(|(key, value)| (&key[..], *value)).collect();
        let weights = PositionWeights::of(&values, scale).unwrap_or_else(|_| PositionWeights::even());
        let listed = entries.iter().map(|entry| entry.rsa).collect();
        let (mut routers, mut totals) = (Vec::new(), [[0.0; 2]; 3]);
        for entry in entries {
            let class = Class::of(entry.flags.guard, entry.flags.exit && !entry.flags.bad_exit);
            let text = entry.digest.and_then(|digest| documents.microdescriptor(&digest));
            let router = text.and_then(|text| entry.clone().with(&text).ok());
            for position in Position::ALL {
                let is_candidate = match position {
                    Position::Guard => entry.flags.guard,
                    Position::Middle => true,
                    Position::Exit => entry.flags.exit && !entry.flags.bad_exit,
                };
                let weight = f64::from(entry.weight) * weights.share(position, class);
                let weight = if entry.flags.running && is_candidate { weight } else { 0.0 };
                totals[position as usize][0] += weight;
                totals[position as usize][1] += if router.is_some() { weight } else { 0.0 };
            }
            routers.extend(router.map(Arc::new));
        }
        let known = |[all, known]: [f64; 2]| if all > 0.0 { known / all } else { 1.0 };
        let by_identity = routers.iter().enumerate().map(|(place, router)| (router.rsa(), place)).collect();
        Some(Network {
            valid_after: consensus.valid_after,
            listed,
            by_identity,
            weights,
            known_paths: if routers.is_empty() { 0.0 } else { totals.map(known).iter().product() },
            routers,
        })
    }

    /// Whether the client knows enough relays to choose paths.
    /// Source: C tor `count_usable_descriptors()`, `PathsNeededToBuildCircuits` with its default.
    pub(crate) fn is_sufficient(&self) -> bool {
        self.known_paths >= 0.6
    }

    /// Whether the consensus lists this relay as running.
    pub(crate) fn lists(&self, identity: &Fingerprint) -> bool {
        self.listed.contains(identity)
    }

    /// The numbers of exits with Conflux, and of all exits [1]. Source: C tor `count_exit_with_conflux_support()`.
    pub(crate) fn linking_exits(&self) -> [usize; 2] {
        let exits = || self.routers.iter().filter(|router| router.flags.exit && !router.flags.bad_exit);
        [exits().filter(|exit| exit.has_conflux).count(), exits().count()]
    }

    pub(crate) fn by_identity(&self, identity: &Fingerprint) -> Option<&Arc<Router>> {
        self.by_identity.get(identity).map(|place| &self.routers[*place])
    }

    /// The weight of a relay at a position.
    pub(crate) fn weight(&self, router: &Router, position: Position) -> f64 {
        f64::from(router.weight) * self.weights.share(position, router.class())
    }

    /// Whether two relays may be on one circuit: they are different, of different families and, if `distinct`, of
    /// different /16 networks.
    ///
    /// Source: path-spec, "Choosing a path"; C tor `nodes_in_same_family()`.
    pub(crate) fn are_compatible(one: &Router, other: &Router, distinct: bool) -> bool {
        let network = |router: &Router| match router.address.ip() {
            IpAddr::V4(address) => u128::from(u32::from(address) >> 16),
            IpAddr::V6(address) => (1 << 96) | (u128::from(address) >> 96),
        };
        one.rsa() != other.rsa()
            && one.keys.ed25519 != other.keys.ed25519
            && !(distinct && network(one) == network(other))
            && !one.is_in_family_of(other)
    }
}

/// An entry of the consensus.
#[derive(Clone, Debug)]
struct Entry {
    nickname: String,
    rsa: Fingerprint,
    address: SocketAddr,
    flags: Flags,
    is_directory: bool,
    weight: u32,
    has_congestion_control: bool,
    has_n23: bool,
    has_conflux: bool,
    digest: Option<[u8; 32]>,
}

impl Entry {
    fn read(item: &Item<'_>) -> Result<Self, Malformed> {
        let address: Ipv4Addr = item.argument(4)?.parse().map_err(|_| Malformed)?;
        let port: u16 = item.argument(5)?.parse().map_err(|_| Malformed)?;
        Ok(Entry {
            nickname: item.argument(0)?.to_owned(),
            rsa: base64(item.argument(1)?)?,
            address: SocketAddr::new(address.into(), port),
            flags: Flags::default(),
            is_directory: false,
            weight: 0,
            has_congestion_control: false,
            has_n23: false,
            has_conflux: false,
            digest: None,
        })
    }

    fn take(&mut self, item: &Item<'_>) -> Result<(), Malformed> {
        let words = item.words()?;
        match item.keyword() {
            b"s" => (self.flags, self.is_directory) = (Flags::of(&words), words.contains(&"V2Dir")),
            b"m" => self.digest = Some(base64(item.argument(0)?)?),
            b"pr" => {
                self.has_congestion_control = supports(&words, "FlowCtrl", 2);
                self.has_n23 = supports(&words, "N23", 1);
                self.has_conflux = supports(&words, "Conflux", 1);
            }
            b"w" => {
                let value = words.iter().find_map(|word| word.strip_prefix("Bandwidth="));
                self.weight = value.and_then(|value| value.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    /// The relay with the keys, the family and the policy of its microdescriptor.
    fn with(self, text: &str) -> Result<Router, Malformed> {
        let (mut onion, mut ed25519, mut policy) = (None, None, PortSummary::none());
        let (mut family, mut family_ids) = (BTreeSet::new(), BTreeSet::new());
        for item in items(text.as_bytes()) {
            match item.keyword() {
                b"ntor-onion-key" => onion = Some(base64(item.argument(0)?.trim_end_matches('='))?),
                b"id" if item.argument(0)? == "ed25519" => ed25519 = Some(base64(item.argument(1)?)?),
                b"family" => family = item.words()?.into_iter().filter_map(fingerprint).collect(),
                b"family-ids" => family_ids = item.words()?.into_iter().map(str::to_owned).collect(),
                b"p" => policy = PortSummary::read(item.arguments()?)?,
                _ => {}
            }
        }
        let (onion, ed25519) = (onion.ok_or(Malformed)?, ed25519.ok_or(Malformed)?);
        Ok(Router {
            nickname: self.nickname,
            keys: RelayKeys { rsa: self.rsa, ed25519, onion },
            address: self.address,
            flags: self.flags,
            is_directory: self.is_directory,
            weight: self.weight,
            family,
            family_ids,
            policy,
            has_congestion_control: self.has_congestion_control,
            has_n23: self.has_n23,
            has_conflux: self.has_conflux,
        })
    }
}

/// The identity in a `family` line. Nicknames do not count, because they are not unique.
fn fingerprint(word: &str) -> Option<Fingerprint> {
    hex(word.strip_prefix('$')?.get(..40)?).ok()
}

/// Whether a `pr` line contains this version of a protocol, such as 2 in `FlowCtrl=1-2`.
fn supports(words: &[&str], protocol: &str, version: u32) -> bool {
    let ranges = words.iter().find_map(|word| word.strip_prefix(protocol)?.strip_prefix('='));
    ranges.unwrap_or_default().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last] = [first, last].map(|number| number.parse::<u32>());
        first.is_ok_and(|first| first <= version) && last.is_ok_and(|last| version <= last)
    })
}

#[derive(Debug, Default)]
struct Reading {
    entries: Vec<Entry>,
    entry: Option<Entry>,
    weights: BTreeMap<String, i64>,
}

impl Reading {
    fn take(&mut self, item: &Item<'_>) {
        match item.keyword() {
            b"r" => {
                self.end_entry();
                self.entry = Entry::read(item).ok();
            }
            b"directory-footer" => self.end_entry(),
            b"bandwidth-weights" => {
                let words = item.words().unwrap_or_default().into_iter();
                let values = words.filter_map(|word| pair(word).ok());
                self.weights = values.map(|(key, value)| (key.to_owned(), value)).collect();
            }
            _ => {
                if let Some(entry) = &mut self.entry
                    && entry.take(item).is_err()
                {
                    self.entry = None;
                }
            }
        }
    }

    fn end_entry(&mut self) {
        self.entries.extend(self.entry.take());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::directory::{Consensus, samples};

    /// A relay for tests. Relays with different numbers are in different /16 networks.
    pub(crate) fn router(number: u8, weight: u32, flags: &str, policy: &str) -> Router {
        let words: Vec<&str> = flags.split(' ').chain(["Fast", "Stable", "Running", "Valid"]).collect();
        Router {
            nickname: format!("relay{number}"),
            keys: RelayKeys { rsa: [number; 20], ed25519: [number; 32], onion: [number; 32] },
            address: SocketAddr::new(Ipv4Addr::new(10, number, 0, 1).into(), 9001),
            flags: Flags::of(&words),
            is_directory: true,
            weight,
            family: BTreeSet::new(),
            family_ids: BTreeSet::new(),
            policy: PortSummary::read(policy).unwrap_or_else(|_| PortSummary::none()),
            has_congestion_control: true,
            has_n23: false,
            has_conflux: true,
        }
    }

    pub(crate) fn network(routers: Vec<Router>) -> Network {
        let routers: Vec<_> = routers.into_iter().map(Arc::new).collect();
        Network {
            valid_after: SystemTime::UNIX_EPOCH,
            listed: routers.iter().map(|router| router.rsa()).collect(),
            by_identity: routers.iter().enumerate().map(|(place, router)| (router.rsa(), place)).collect(),
            routers,
            weights: PositionWeights::even(),
            known_paths: 1.0,
        }
    }

    /// The documents of a C tor network.
    fn documents() -> Documents {
        let mut documents = Documents::new(samples::authorities());
        let now = samples::at(1);
        documents.take_certs(now, samples::CERTIFICATES);
        let consensus = Consensus::read(samples::MICRO).unwrap();
        documents.take_consensus(now, consensus).unwrap();
        documents
    }

    #[test]
    fn relays_are_read_from_the_consensus_and_their_microdescriptors() {
        let mut documents = documents();
        let without = Network::of(&documents).unwrap();
        assert!(without.routers.is_empty() && !without.is_sufficient());
        assert_eq!(documents.take_microdescriptors(samples::at(1), samples::MICRODESCRIPTORS), 5);
        let network = Network::of(&documents).unwrap();
        assert!(network.is_sufficient());
        assert_eq!(network.routers.len(), 5);
        let named = |name: &str| network.routers.iter().find(|router| router.nickname == name).unwrap();
        let (exit, relay) = (named("exit0"), named("relay0"));
        assert!(exit.policy.allows(80) && !relay.policy.allows_some());
        assert!(exit.is_guard() && relay.is_guard() && !named("auth0").is_guard());
        assert!(exit.has_congestion_control && exit.links_circuits() && exit.address.port() == 17_040);
        assert_eq!(network.linking_exits(), [1, 1]);
        assert!(network.lists(&exit.rsa()) && network.by_identity(&exit.rsa()).is_some());
    }

    #[test]
    fn relays_of_a_family_or_network_are_not_compatible() {
        let [one, mut other] = [1, 2].map(|number| router(number, 1, "", ""));
        let compatible = |one: &Router, other: &Router| Network::are_compatible(one, other, true);
        assert!(compatible(&one, &other) && !compatible(&one, &one));
        let mut member = one.clone();
        member.family.insert(other.rsa());
        assert!(compatible(&member, &other), "only one relay declares the other");
        other.family.insert(member.rsa());
        assert!(!compatible(&member, &other) && compatible(&one, &other));
        let mut near = router(3, 1, "", "");
        near.address = SocketAddr::new(Ipv4Addr::new(10, 1, 9, 9).into(), 1);
        assert!(!compatible(&one, &near) && Network::are_compatible(&one, &near, false));
    }

    #[test]
    fn protocol_versions_are_ranges() {
        let words = ["Cons=1-2", "FlowCtrl=1-2", "Relay=1,3-4"];
        assert!(supports(&words, "FlowCtrl", 2) && supports(&words, "Relay", 4));
        assert!(
            !supports(&words, "Relay", 2) && !supports(&words, "Link", 1) && !supports(&words, "Cons", 3)
        );
    }
}
