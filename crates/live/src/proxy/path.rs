//! How a client chooses the relays of a circuit: the exit first, then the guard, then the middle relay.
//!
//! Each choice is random, with probabilities proportional to the consensus weight times the position weight.
//!
//! Source: path-spec, "Choosing a path"; C tor `choose_good_exit_server_general()`, `choose_good_middle_server()`.

use super::network::{Network, Router};
use super::nodes::PathRules;
use crate::directory::Fingerprint;
use penstock_network::{Flags, Position};
use rand::{Rng, RngExt as _};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Ports whose connections last long. Their circuits use only relays with the flag Stable (C tor: `LongLivedPorts`).
const LONG_LIVED_PORTS: [u16; 12] = [21, 22, 706, 1863, 5050, 5190, 5222, 5223, 6523, 6667, 6697, 8300];

/// The property that the exit of a circuit must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Streams to this port.
    Port(u16),
    /// Name lookups.
    Resolve,
}

impl Purpose {
    /// Whether all relays of a circuit for this purpose need the flag Stable.
    pub(crate) fn is_long_lived(self) -> bool {
        matches!(self, Purpose::Port(port) if LONG_LIVED_PORTS.contains(&port))
    }

    /// Whether a relay can be an exit for this purpose.
    pub(crate) fn fits(self, router: &Router) -> bool {
        match self {
            Purpose::Port(port) => router.policy.allows(port),
            Purpose::Resolve => router.policy.allows_some(),
        }
    }
}

/// The choice of paths in one network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths<'a> {
    pub(crate) network: &'a Network,
    pub(crate) rules: &'a PathRules,
    /// This node's own identity, if it is a relay. Its circuits do not use it.
    pub(crate) own: Option<Fingerprint>,
}

impl<'a> Paths<'a> {
    /// An exit for this purpose, without those of `failed`. `None` if there is none.
    pub(crate) fn exit(
        &self,
        rng: &mut impl Rng,
        purpose: Purpose,
        failed: &BTreeSet<Fingerprint>,
    ) -> Option<&'a Arc<Router>> {
        self.exit_that(rng, purpose, failed, |_| true)
    }

    /// An exit for linked circuits. Source: C tor `choose_good_exit_server_general()` with `CRN_CONFLUX`.
    pub(crate) fn linking_exit(
        &self,
        rng: &mut impl Rng,
        purpose: Purpose,
        failed: &BTreeSet<Fingerprint>,
    ) -> Option<&'a Arc<Router>> {
        self.exit_that(rng, purpose, failed, |router| router.links_circuits() && router.flags.stable)
    }

    fn exit_that(
        &self,
        rng: &mut impl Rng,
        purpose: Purpose,
        failed: &BTreeSet<Fingerprint>,
        fits: impl Fn(&Router) -> bool,
    ) -> Option<&'a Arc<Router>> {
        let rules = self.rules;
        self.choose(rng, Position::Exit, |router| {
            !router.flags.bad_exit
                && fits(router)
                && is_usable(router, purpose.is_long_lived())
                && purpose.fits(router)
                && !failed.contains(&router.rsa())
                && !rules.exclude_exit.contains(router)
                && (rules.exit.is_empty() || rules.exit.contains(router))
        })
    }

    /// A middle relay between a guard and an exit.
    pub(crate) fn middle(
        &self,
        rng: &mut impl Rng,
        purpose: Purpose,
        guard: &Router,
        exit: &Router,
    ) -> Option<&'a Arc<Router>> {
        self.middle_that(rng, purpose.is_long_lived(), guard, exit, |_| true)
    }

    /// A middle relay of a leg, without the middle relays of other legs (C tor `conflux_add_middles_to_exclude_list()`).
    pub(crate) fn linking_middle(
        &self,
        rng: &mut impl Rng,
        guard: &Router,
        exit: &Router,
        others: &BTreeSet<Fingerprint>,
    ) -> Option<&'a Arc<Router>> {
        self.middle_that(rng, true, guard, exit, |router| !others.contains(&router.rsa()))
    }

    fn middle_that(
        &self,
        rng: &mut impl Rng,
        needs_stable: bool,
        guard: &Router,
        exit: &Router,
        fits: impl Fn(&Router) -> bool,
    ) -> Option<&'a Arc<Router>> {
        let rules = self.rules;
        self.choose(rng, Position::Middle, |router| {
            is_usable(router, needs_stable)
                && fits(router)
                && self.are_compatible(router, guard)
                && self.are_compatible(router, exit)
                && (rules.middle.is_empty() || rules.middle.contains(router))
        })
    }

    /// A guard that is not in `known`, for the sample of guards.
    pub(crate) fn new_guard(
        &self,
        rng: &mut impl Rng,
        known: &BTreeSet<Fingerprint>,
    ) -> Option<&'a Arc<Router>> {
        self.choose(rng, Position::Guard, |router| self.may_guard(router) && !known.contains(&router.rsa()))
    }

    /// Whether the rules allow this relay as a guard.
    pub(crate) fn may_guard(&self, router: &Router) -> bool {
        let rules = self.rules;
        router.is_guard()
            && self.is_allowed(router)
            && (rules.entry.is_empty() || rules.entry.contains(router))
    }

    /// The number of relays that may be guards [1].
    pub(crate) fn guards(&self) -> usize {
        self.network.routers.iter().filter(|router| self.may_guard(router)).count()
    }

    /// Why no circuit is possible with this consensus and these rules, as far as single positions decide this.
    pub(crate) fn shortage(&self) -> Option<&'static str> {
        let may_exit = |router: &Router| {
            self.is_allowed(router)
                && !self.rules.exclude_exit.contains(router)
                && (self.rules.exit.is_empty() || self.rules.exit.contains(router))
                && !router.flags.bad_exit
                && is_usable(router, false)
                && router.policy.allows_some()
        };
        if self.guards() == 0 {
            Some(
                "no relay of the consensus may be the guard: it needs the flags Guard, Fast, Stable, Running, Valid and \
                 V2Dir; correct EntryNodes or ExcludeNodes",
            )
        } else if !self.network.routers.iter().any(|router| may_exit(router)) {
            Some(
                "no relay of the consensus may be the exit: it needs the flags Fast, Running and Valid, and an exit policy \
                 that accepts a port; correct ExitNodes, ExcludeNodes or ExcludeExitNodes",
            )
        } else {
            None
        }
    }

    /// Whether two relays may be on one circuit.
    pub(crate) fn are_compatible(&self, one: &Router, other: &Router) -> bool {
        Network::are_compatible(one, other, self.rules.distinct_subnets)
    }

    fn is_allowed(&self, router: &Router) -> bool {
        !self.rules.exclude.contains(router) && self.own != Some(router.rsa())
    }

    fn choose(
        &self,
        rng: &mut impl Rng,
        position: Position,
        fits: impl Fn(&Router) -> bool,
    ) -> Option<&'a Arc<Router>> {
        let network = self.network;
        let allowed = |router: &&Arc<Router>| self.is_allowed(router) && fits(router);
        let weighted: Vec<(&Arc<Router>, f64)> = network
            .routers
            .iter()
            .filter(allowed)
            .map(|router| (router, network.weight(router, position)))
            .collect();
        let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        if total <= 0.0 {
            // As in C tor, relays without weight are equally likely if there are no others.
            let count = weighted.len();
            return (count > 0).then(|| weighted[rng.random_range(0..count)].0);
        }
        let mut left = rng.random::<f64>() * total;
        let mut last = None;
        for (router, weight) in weighted.into_iter().filter(|(_, weight)| *weight > 0.0) {
            last = Some(router);
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }
}

/// Whether a relay can be on a general circuit. Guards have a rule of their own.
fn is_usable(router: &Router, needs_stable: bool) -> bool {
    let Flags { running, valid, fast, stable, .. } = router.flags;
    running && valid && fast && (stable || !needs_stable)
}

#[cfg(test)]
mod tests {
    use super::super::network::tests::{network, router};
    use super::super::nodes::NodeSet;
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    fn some() -> Network {
        network(vec![
            router(1, 10, "Guard", ""),
            router(2, 30, "Guard", ""),
            router(3, 10, "", ""),
            router(4, 10, "Exit", "accept 80"),
            router(5, 30, "Exit", "accept 1-65535"),
            router(6, 99, "Exit BadExit", "accept 1-65535"),
        ])
    }

    fn names(
        network: &Network,
        rules: &PathRules,
        draw: impl Fn(Paths<'_>, &mut StdRng) -> Option<String>,
    ) -> Vec<(String, usize)> {
        let mut rng = StdRng::seed_from_u64(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..4000 {
            if let Some(name) = draw(Paths { network, rules, own: None }, &mut rng) {
                *counts.entry(name).or_insert(0) += 1;
            }
        }
        counts.into_iter().collect()
    }

    #[test]
    fn exits_are_chosen_by_weight_among_those_that_accept_the_port() {
        let (network, rules) = (some(), PathRules::default());
        let exits = |port, failed: &[u8]| {
            let failed = failed.iter().map(|number| [*number; 20]).collect();
            names(&network, &rules, |paths, rng| {
                Some(paths.exit(rng, Purpose::Port(port), &failed)?.nickname.clone())
            })
        };
        let both = exits(80, &[]);
        assert_eq!(both.len(), 2);
        assert!((900..1100).contains(&both[0].1), "{both:?}");
        assert_eq!(exits(443, &[]), [("relay5".to_owned(), 4000)]);
        assert_eq!(exits(80, &[5]), [("relay4".to_owned(), 4000)]);
        assert_eq!(exits(443, &[5]), []);
    }

    #[test]
    fn the_operator_can_name_and_exclude_relays() {
        let network = some();
        let set = |text: &str| NodeSet::read(text).unwrap();
        let rules = PathRules {
            entry: set("relay1"),
            exit: set("relay4,relay5"),
            middle: set("relay3,relay2"),
            exclude: set("relay5"),
            ..PathRules::default()
        };
        let purpose = Purpose::Port(80);
        let none = BTreeSet::new();
        let all = |draw: &dyn Fn(Paths<'_>, &mut StdRng) -> Option<String>| {
            names(&network, &rules, draw).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(all(&|paths, rng| Some(paths.exit(rng, purpose, &none)?.nickname.clone())), ["relay4"]);
        assert_eq!(all(&|paths, rng| Some(paths.new_guard(rng, &none)?.nickname.clone())), ["relay1"]);
        let [guard, exit] = [1, 4].map(|number| network.by_identity(&[number; 20]).unwrap());
        assert_eq!(
            all(&|paths, rng| Some(paths.middle(rng, purpose, guard, exit)?.nickname.clone())),
            ["relay2", "relay3"]
        );
    }

    #[test]
    fn a_client_without_guards_or_exits_knows_the_reason() {
        let network = some();
        let why = |entry: &str, exit: &str| {
            let set =
                |text: &str| if text.is_empty() { NodeSet::default() } else { NodeSet::read(text).unwrap() };
            let rules = PathRules { entry: set(entry), exit: set(exit), ..PathRules::default() };
            Paths { network: &network, rules: &rules, own: None }.shortage()
        };
        assert_eq!(why("relay1", "relay4"), None);
        assert!(why("relay3", "").unwrap().contains("correct EntryNodes"), "it has no flag Guard");
        assert!(why("", "nosuch").unwrap().contains("correct ExitNodes"));
        assert!(why("", "relay3").unwrap().contains("exit policy"), "it allows no port");
    }

    #[test]
    fn long_lived_ports_need_stable_relays() {
        let mut network = some();
        Arc::make_mut(&mut network.routers[4]).flags.stable = false;
        let rules = PathRules::default();
        let (paths, mut rng) =
            (Paths { network: &network, rules: &rules, own: None }, StdRng::seed_from_u64(1));
        assert!(paths.exit(&mut rng, Purpose::Port(22), &BTreeSet::new()).is_none());
        assert!(paths.exit(&mut rng, Purpose::Port(23), &BTreeSet::new()).is_some());
    }

    proptest! {
        /// All relays of a path are different and compatible.
        #[test]
        fn paths_are_compatible(weights in prop::collection::vec(0u32..100, 3..12), seed: u64) {
            let flags = ["Guard Exit", "Guard", "Exit", ""];
            let relays = weights.iter().enumerate().map(|(place, weight)| {
                // Two relays share a /16.
                let mut router = router(place as u8 + 1, *weight, flags[place % 4], "accept 80");
                router.address.set_ip(std::net::Ipv4Addr::new(10, place as u8 / 2, 0, 1).into());
                router
            });
            let (network, rules) = (network(relays.collect()), PathRules::default());
            let (paths, mut rng) = (Paths { network: &network, rules: &rules, own: None }, StdRng::seed_from_u64(seed));
            let (purpose, none) = (Purpose::Port(80), BTreeSet::new());
            if let Some(exit) = paths.exit(&mut rng, purpose, &none)
                && let Some(guard) = paths.new_guard(&mut rng, &BTreeSet::from([exit.rsa()]))
                && let Some(middle) = paths.middle(&mut rng, purpose, guard, exit)
            {
                prop_assert!(paths.are_compatible(middle, exit) && paths.are_compatible(middle, guard));
            }
        }
    }
}
