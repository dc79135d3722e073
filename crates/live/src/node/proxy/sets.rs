//! Linked circuits of the client (Conflux).
//!
//! Source: proposal 329; C tor `conflux_predict_new()`, `conflux_launch_leg()`, `conflux_circuit_has_opened()`,
//! `conflux_process_linked()`.

use super::Proxy;
use super::build::{MAX_EXITS, MAX_FAILURES};
use crate::directory::Fingerprint;
use crate::node::Node;
use crate::proxy::circuits::{Path, SetStep};
use crate::proxy::path::{Paths, Purpose};
use penstock_core::conflux::Nonce;
use penstock_core::{CircuitIndex, DestroyReason};
use penstock_units::{Duration, Instant};
use rand::RngExt as _;
use std::collections::BTreeSet;

/// After a set without possible paths, or with too many failed legs, the next new set begins after this time.
const PAUSE: Duration = Duration::from_secs(10);

impl Proxy {
    /// Starts sets of linked circuits in advance, and replaces legs that failed.
    pub(super) fn build_sets(&mut self, node: &mut Node, now: Instant) {
        let config = node.relay.config();
        let has_congestion_control = config.edge_control.has_congestion_control();
        let conflux = config.conflux.filter(|conflux| conflux.active && has_congestion_control);
        let Some(needed) = conflux.map(|conflux| usize::from(conflux.legs)) else { return };
        let mut impossible = BTreeSet::new();
        // Failed legs do not stop other circuits, and these do not stop sets (C tor `conflux_launch_leg()`).
        while self.set_failures < MAX_FAILURES && self.circuits.may_begin() && self.paths().is_some() {
            let may_begin = self.next_set <= now && needed > 0;
            match self.circuits.next_set_step(self.set_limits, may_begin, &impossible) {
                None => break,
                Some(SetStep::Begin(purpose)) => {
                    let nonce = Nonce(node.rng.random());
                    match self.choose_legs(node, now, purpose, needed) {
                        Some(paths) => {
                            paths.into_iter().for_each(|path| self.begin_leg(node, now, path, nonce, needed))
                        }
                        None => drop(impossible.insert(purpose)),
                    }
                }
                Some(SetStep::Replace(nonce, legs)) => match self.choose_leg(node, now, None, &legs) {
                    Some(path) => self.begin_leg(node, now, path, nonce, needed),
                    None => self.give_up(node, now, nonce),
                },
                Some(SetStep::GiveUp(nonce)) => self.give_up(node, now, nonce),
            }
        }
        if !impossible.is_empty() {
            self.next_set = now + PAUSE;
        }
    }

    fn begin_leg(&mut self, node: &mut Node, now: Instant, path: Path, nonce: Nonce, needed: usize) {
        let circuit = self.begin(node, now, path, None);
        self.circuits.join_set(circuit, nonce, needed);
    }

    fn give_up(&mut self, node: &mut Node, now: Instant, nonce: Nonce) {
        self.next_set = now + PAUSE;
        for leg in self.circuits.give_up(nonce) {
            // The client ends the leg, so it does not know whether the guard would have answered.
            if let Some(guard) = self.circuits.forget_guard(leg) {
                self.guards.on_abandoned(&guard);
            }
            node.relay.close_circuit(now, leg, DestroyReason::NONE, &mut node.sockets);
        }
    }

    /// Chooses the paths of all legs of a new set. `None` if one is not possible.
    fn choose_legs(
        &mut self,
        node: &mut Node,
        now: Instant,
        purpose: Purpose,
        count: usize,
    ) -> Option<Vec<Path>> {
        let mut legs = Vec::new();
        while legs.len() < count {
            let Some(path) = self.choose_leg(node, now, Some(purpose), &legs) else {
                legs.iter().for_each(|path: &Path| self.guards.on_abandoned(&path[0].rsa()));
                return None;
            };
            legs.push(path);
        }
        Some(legs)
    }

    /// Chooses the path of a leg beside other legs of its set: the same exit, another guard, another middle relay.
    /// `purpose` decides the exit of the first leg.
    ///
    /// Relays of different legs may be of one family. C tor compares only identities (`RST_EXCL_LIST`,
    /// `conflux_add_middles_to_exclude_list()`), and other rules would make this client's paths recognisable.
    fn choose_leg(
        &mut self,
        node: &mut Node,
        now: Instant,
        purpose: Option<Purpose>,
        others: &[Path],
    ) -> Option<Path> {
        let Proxy { network, config, own, guards, .. } = self;
        let network = network.as_ref().filter(|network| network.is_sufficient())?;
        let paths = Paths { network, rules: &config.rules, own: *own };
        let at = |position: usize| others.iter().map(|path| path[position].rsa()).collect::<BTreeSet<_>>();
        let (guards_of_others, middles_of_others) = (at(0), at(1));
        let mut excluded = BTreeSet::new();
        for _ in 0..MAX_EXITS {
            let exit = match others.first() {
                Some([_, _, exit]) => network.by_identity(&exit.rsa()).filter(|_| excluded.is_empty())?,
                None => paths.linking_exit(&mut node.rng, purpose?, &excluded)?,
            };
            let fits = |guard: &Fingerprint| {
                let router = network.by_identity(guard);
                let is_possible = router.is_some_and(|router| paths.are_compatible(router, exit));
                is_possible && !guards_of_others.contains(guard)
            };
            if let Some(identity) = guards.select(now, fits) {
                let guard = network.by_identity(&identity)?;
                let middle = paths.linking_middle(&mut node.rng, guard, exit, &middles_of_others);
                if let Some(middle) = middle {
                    return Some([guard.clone(), middle.clone(), exit.clone()]);
                }
                guards.on_abandoned(&identity);
            }
            excluded.insert(exit.rsa());
        }
        None
    }

    /// A circuit is built. If it is a leg, the client asks the exit to link it.
    pub(super) fn link(&mut self, node: &mut Node, circuit: CircuitIndex) {
        let Some(nonce) = self.circuits.set_of(circuit) else { return };
        let now = node.clock.now();
        if node.relay.link_circuit(now, circuit, nonce, &mut node.sockets) {
            self.circuits.on_link_sent(now, circuit);
        } else {
            // The exit has not granted congestion control.
            node.relay.close_circuit(now, circuit, DestroyReason::NONE, &mut node.sockets);
        }
    }

    /// All legs of a set are linked.
    pub(super) fn on_linked(&mut self, node: &mut Node, circuit: CircuitIndex) {
        self.circuits.on_linked(node.clock.now(), circuit);
        log::debug!("linked {}", self.described(circuit));
        self.has_news = true;
    }

    /// Closes the legs whose LINK has no answer within the build timeout.
    /// Source: C tor `record_rtt()`. Deviation: C tor closes such a leg when the answer arrives.
    pub(super) fn expire_links(&mut self, node: &mut Node, now: Instant) {
        for leg in self.circuits.slow_links(now, self.build_timeout().timeout) {
            if node.relay.awaits_link(leg) {
                node.relay.close_circuit(now, leg, DestroyReason::NONE, &mut node.sockets);
            }
        }
    }
}
