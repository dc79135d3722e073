//! Circuits of the client: paths, handshakes and timeouts.

use super::Proxy;
use super::accept::{Connection, State};
use crate::directory::Fingerprint;
use crate::node::Node;
use crate::proxy::circuits::{Expiry, Path};
use crate::proxy::isolation::Isolation;
use crate::proxy::path::{Paths, Purpose};
use penstock_core::edge_control::Negotiation;
use penstock_core::{CircuitIndex, DestroyReason, Direction};
use penstock_link::cell::Handshake;
use penstock_link::crypto::ClientHandshake;
use penstock_units::Instant;
use std::collections::BTreeSet;

/// After so many failed circuits, the client waits for the next tick [1].
pub(super) const MAX_FAILURES: u32 = 5;
/// Maximum number of exits that the client tries for one path [1].
pub(super) const MAX_EXITS: usize = 8;

impl Proxy {
    /// Starts a circuit for a waiting request. Returns false if no path is possible.
    pub(super) fn build_for(&mut self, node: &mut Node, now: Instant, number: u64) -> bool {
        if !self.may_begin() {
            return true;
        }
        let Some(Connection { state: State::Waiting(waiting), .. }) = self.connections.get(&number) else {
            return true;
        };
        let wanted = waiting.wanted();
        let (purpose, isolation, failed) = (wanted.purpose, wanted.isolation.clone(), wanted.failed.clone());
        self.build(node, now, purpose, Some(isolation), &failed)
    }

    /// Starts circuits for expected streams. While build times are missing, starts one more in each interval.
    pub(super) fn build_ahead(&mut self, node: &mut Node, now: Instant) {
        let (none, mut impossible) = (BTreeSet::new(), BTreeSet::new());
        while self.may_begin() && self.paths().is_some() {
            let interval = self.build_times.parameters().test_interval.filter(|_| self.learns());
            let interval = interval.filter(|_| self.next_test <= now);
            let Some(purpose) = self.circuits.lacks(now, &impossible, interval.is_some()) else { return };
            if let Some(interval) = interval {
                self.next_test = now + interval;
            }
            if !self.build(node, now, purpose, None, &none) {
                impossible.insert(purpose);
            }
        }
    }

    fn may_begin(&self) -> bool {
        self.failures < MAX_FAILURES && self.circuits.may_begin()
    }

    /// Starts a circuit. Returns false if no path is possible.
    fn build(
        &mut self,
        node: &mut Node,
        now: Instant,
        purpose: Purpose,
        isolation: Option<Isolation>,
        failed: &BTreeSet<Fingerprint>,
    ) -> bool {
        let Some(path) = self.choose_path(node, now, purpose, failed) else { return false };
        self.begin(node, now, path, isolation);
        true
    }

    /// Starts a circuit with this path.
    pub(super) fn begin(
        &mut self,
        node: &mut Node,
        now: Instant,
        path: Path,
        isolation: Option<Isolation>,
    ) -> CircuitIndex {
        let [guard, middle, exit] = &path;
        let peer = node.peers.relay(&guard.link_spec(), guard.address, |peer| node.relay.shares(peer));
        let rest = [middle.link_spec(), exit.link_spec()];
        let controlled = path.iter().all(|router| router.has_n23);
        let circuit = node.relay.open_circuit(now, peer, rest, controlled);
        let leg = node.relay.leg(circuit, Direction::Forward);
        let has_link = leg.is_some_and(|(channel, _)| node.sockets.channels.contains(channel));
        self.circuits.begin(now, circuit, path, isolation, has_link);
        circuit
    }

    /// Chooses the exit, then a guard that fits to it, then the middle relay. In a small network, an exit may fit to no
    /// guard. Then the client tries another exit.
    fn choose_path(
        &mut self,
        node: &mut Node,
        now: Instant,
        purpose: Purpose,
        failed: &BTreeSet<Fingerprint>,
    ) -> Option<Path> {
        let Proxy { network, config, own, guards, .. } = self;
        let network = network.as_ref().filter(|network| network.is_sufficient())?;
        let paths = Paths { network, rules: &config.rules, own: *own };
        let mut excluded = failed.clone();
        for _ in 0..MAX_EXITS {
            let exit = paths.exit(&mut node.rng, purpose, &excluded)?;
            let fits = |guard: &Fingerprint| {
                let guard = network.by_identity(guard);
                guard.is_some_and(|guard| paths.are_compatible(guard, exit))
            };
            if let Some(identity) = guards.select(now, fits) {
                let guard = network.by_identity(&identity)?;
                if let Some(middle) = paths.middle(&mut node.rng, purpose, guard, exit) {
                    return Some([guard.clone(), middle.clone(), exit.clone()]);
                }
                guards.on_abandoned(&identity);
            }
            excluded.insert(exit.rsa());
        }
        None
    }

    /// Answers the core's request for a handshake with the next hop.
    pub(super) fn start_handshake(
        &mut self,
        node: &mut Node,
        circuit: CircuitIndex,
        hop: usize,
        ask: Negotiation,
    ) {
        let now = node.clock.now();
        let Some(router) = self.circuits.get(circuit).and_then(|circuit| circuit.path.get(hop)) else {
            return;
        };
        // A relay that does not support the extension would refuse the handshake.
        let is_supported = match ask {
            Negotiation::Asked(_) => router.has_congestion_control,
            _ => router.has_n23,
        };
        let ask = if is_supported { ask } else { Negotiation::Nothing };
        let (handshake, message) = ClientHandshake::start(&mut node.rng, &router.keys, ask);
        self.handshakes.insert(circuit, handshake);
        node.relay.start_handshake(now, circuit, message, &mut node.sockets);
    }

    pub(super) fn finish_handshake(&mut self, node: &mut Node, circuit: CircuitIndex, reply: &Handshake) {
        let now = node.clock.now();
        let Some(handshake) = self.handshakes.remove(circuit) else { return };
        match handshake.finish(&mut node.rng, reply) {
            Ok((layer, answer)) => {
                if let Some(state) = self.circuits.get(circuit).filter(|state| state.awaits_guard()) {
                    let (guard, date) = (state.path[0].rsa(), node.clock.date());
                    self.guards.on_success(now, date, &mut node.rng, &guard);
                }
                self.circuits.on_hop(circuit);
                node.relay.finish_handshake(now, circuit, layer, answer, &mut node.sockets);
            }
            Err(_) => {
                node.relay.close_circuit(now, circuit, DestroyReason::NONE, &mut node.sockets);
            }
        }
    }

    pub(super) fn on_built(&mut self, node: &mut Node, circuit: CircuitIndex) {
        let Some((time, in_time)) = self.circuits.on_built(node.clock.now(), circuit) else { return };
        if let Some(time) = time {
            let is_late = !in_time || time > self.build_times.timeout().timeout;
            self.build_times.on_built(time, is_late);
        }
        self.has_news = true;
        self.link(node, circuit);
    }

    pub(super) fn on_circuit_closed(&mut self, node: &mut Node, circuit: CircuitIndex) {
        self.handshakes.remove(circuit);
        let was_linking = self.circuits.is_linking(circuit);
        let Some((state, heir)) = self.circuits.on_closed(circuit) else { return };
        if let Some(heir) = heir {
            self.move_streams(circuit, heir);
        }
        if state.awaits_guard() {
            self.guards.on_failure(node.clock.now(), &state.path[0].rsa());
        }
        let failures = if state.is_leg { &mut self.set_failures } else { &mut self.failures };
        *failures += u32::from(was_linking || !state.is_open());
        self.has_news = true;
    }

    /// Closes circuits whose time is over.
    pub(super) fn expire_circuits(&mut self, node: &mut Node, now: Instant) {
        for (circuit, expiry) in self.circuits.expire(now, self.build_timeout(), self.learns()) {
            match expiry {
                Expiry::TimedOut => {
                    if self.circuits.is_measured(circuit) {
                        self.build_times.on_timeout();
                    }
                    self.has_news = true;
                    continue;
                }
                Expiry::Unfinished if self.circuits.is_measured(circuit) => self.build_times.on_unfinished(),
                Expiry::Unfinished | Expiry::GuardSilent | Expiry::Unused => {}
            }
            node.relay.close_circuit(now, circuit, DestroyReason::NONE, &mut node.sockets);
        }
    }
}
