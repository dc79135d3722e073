//! The onion proxy in the event loop. `crate::proxy` decides, and these modules execute.
//!
//! | module | content |
//! |---|---|
//! | `accept` | connections of applications, and their SOCKS handshakes |
//! | `build` | circuits: paths, handshakes, timeouts |
//! | `sets` | linked circuits |
//! | `attach` | streams: requests wait for a circuit, join it, and try again after a failure |

mod accept;
mod attach;
mod build;
mod sets;

#[cfg(test)]
pub(super) mod tests;

use super::Node;
use super::sockets::Token;
use crate::directory::{Fingerprint, Flavour};
use crate::proxy::ProxyConfig;
use crate::proxy::circuits::{Circuits, SetLimits};
use crate::proxy::guards::Guards;
use crate::proxy::network::Network;
use crate::proxy::path::Paths;
use crate::proxy::state::State;
use accept::Connection;
use attach::Attached;
use penstock_core::build_times::{BuildTimeout, BuildTimes};
use penstock_core::kernel::Interest;
use penstock_core::{CircuitIndex, Event, SecondaryMap, StreamKey};
use penstock_link::cell::LiveCell;
use penstock_link::crypto::ClientHandshake;
use penstock_units::{Duration, Instant};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Interval between two looks at timeouts, the consensus and circuits in advance.
const TICK: Duration = Duration::from_secs(1);
/// Interval between two writes of the state file.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);
/// The client uses a consensus so long after it expired (C tor `REASONABLY_LIVE_TIME`).
const MAX_EXPIRED: std::time::Duration = std::time::Duration::from_secs(86_400);
/// The lists of guards in the state file. With `EntryNodes`, the client has a list of its own, as in C tor.
const GUARD_LISTS: [&str; 2] = ["default", "restricted"];

/// The state of the onion proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    config: ProxyConfig,
    listeners: Vec<TcpListener>,
    /// Applications whose requests have no stream yet. Each one has a higher number than earlier ones.
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Streams that are not open yet.
    streams: BTreeMap<StreamKey, Attached>,
    /// The circuit of each stream.
    circuit_of: BTreeMap<StreamKey, CircuitIndex>,
    circuits: Circuits,
    /// Handshakes that wait for a reply.
    handshakes: SecondaryMap<CircuitIndex, ClientHandshake>,
    network: Option<Network>,
    /// The number of microdescriptors at the last look [1].
    known: usize,
    /// This node's own identity, if it is a relay.
    own: Option<Fingerprint>,
    guards: Guards,
    build_times: BuildTimes,
    /// Guards of the other list, which this run does not use.
    state: State,
    next_tick: Instant,
    next_save: Instant,
    /// Whether a request or a circuit changed, so that requests may get a circuit.
    pub(super) has_news: bool,
    /// Circuits that failed since the last tick [1], without legs of sets.
    failures: u32,
    /// Legs of sets that failed since the last tick [1].
    set_failures: u32,
    /// The time of the next circuit that only measures a build time.
    next_test: Instant,
    /// Why the current consensus allows no circuit; `None` if it allows one.
    shortage: Option<&'static str>,
    set_limits: SetLimits,
    /// No set of linked circuits begins before this time.
    next_set: Instant,
    /// End of the pause in accepting connections, after the process ran out of file descriptors.
    paused: Option<Instant>,
}

impl Proxy {
    fn guard_list(&self) -> &'static str {
        GUARD_LISTS[usize::from(!self.config.rules.entry.is_empty())]
    }

    /// The choice of paths; `None` while the client knows too few relays.
    fn paths(&self) -> Option<Paths<'_>> {
        let network = self.network.as_ref().filter(|network| network.is_sufficient())?;
        Some(Paths { network, rules: &self.config.rules, own: self.own })
    }

    fn build_timeout(&self) -> BuildTimeout {
        let fixed = self.config.build_timeout.map(|timeout| BuildTimeout { timeout, close: timeout });
        fixed.unwrap_or_else(|| self.build_times.timeout())
    }

    fn learns(&self) -> bool {
        self.config.build_timeout.is_none() && self.build_times.needs_more()
    }

    /// Writes the state file if its content has changed.
    fn save(&mut self) {
        let Some(path) = self.config.state_file.clone() else { return };
        self.state.guards.insert(self.guard_list().to_owned(), self.guards.records().cloned().collect());
        self.state.build_times = self.build_times.clone();
        if let Err(error) = self.state.save(&path) {
            log::warn!("{} was not written: {error}", path.display());
        }
    }
}

impl Node {
    /// Starts the onion proxy with listeners for its ports, which [`listen`](super::listen) made.
    ///
    /// # Errors
    ///
    /// If the state file cannot be read, or epoll cannot watch a listener.
    pub fn serve_socks(&mut self, listeners: Vec<TcpListener>, config: ProxyConfig) -> io::Result<()> {
        let now = self.clock.now();
        for (number, listener) in listeners.iter().enumerate() {
            self.sockets.watch(listener, Token::SocksPort(number as u64), READABLE)?;
        }
        let mut state = config.state_file.as_deref().map_or(Ok(State::default()), State::load)?;
        let build_times = std::mem::take(&mut state.build_times);
        let mut proxy = Proxy {
            listeners,
            connections: BTreeMap::new(),
            next: 0,
            streams: BTreeMap::new(),
            circuit_of: BTreeMap::new(),
            circuits: Circuits::new(config.limits, now),
            handshakes: SecondaryMap::new(),
            network: None,
            known: 0,
            own: self.listener.is_some().then(|| self.keys.rsa_identity()),
            guards: Guards::default(),
            build_times,
            state,
            next_tick: now,
            next_save: now + SAVE_INTERVAL,
            has_news: false,
            failures: 0,
            set_failures: 0,
            next_test: now,
            shortage: None,
            set_limits: SetLimits::default(),
            next_set: now,
            paused: None,
            config,
        };
        proxy.guards = Guards::new(proxy.state.guards.remove(proxy.guard_list()).unwrap_or_default());
        self.proxy = Some(Box::new(proxy));
        Ok(())
    }

    /// The addresses and ports on which applications can connect.
    pub fn socks_ports(&self) -> Vec<SocketAddr> {
        let listeners = self.proxy.iter().flat_map(|proxy| &proxy.listeners);
        listeners.filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Calls `action` with the proxy, if this node has one.
    pub(super) fn with_proxy(&mut self, action: impl FnOnce(&mut Proxy, &mut Node)) {
        if let Some(mut proxy) = self.proxy.take() {
            action(&mut proxy, self);
            self.proxy = Some(proxy);
        }
    }

    /// Handles timeouts, and gives circuits to waiting requests.
    pub(super) fn poll_proxy(&mut self, now: Instant) {
        let is_due = |proxy: &Proxy| proxy.has_news || proxy.next_tick <= now;
        if self.proxy.as_deref().is_some_and(is_due) {
            self.with_proxy(|proxy, node| proxy.poll(node, now));
            self.process_events();
        }
    }

    /// Handles an event of a client's circuit or stream.
    pub(super) fn on_client_event(&mut self, event: Event<LiveCell>) {
        self.with_proxy(|proxy, node| match event {
            Event::HandshakeNeeded { circuit, hop, ask } => proxy.start_handshake(node, circuit, hop, ask),
            Event::HandshakeAnswered { circuit, handshake } => {
                proxy.finish_handshake(node, circuit, &handshake);
            }
            Event::CircuitBuilt { circuit } => proxy.on_built(node, circuit),
            Event::CircuitsLinked { circuit } => proxy.on_linked(node, circuit),
            Event::CircuitClosed { circuit, .. } => proxy.on_circuit_closed(node, circuit),
            Event::StreamConnected { stream } => proxy.on_connected(node, stream),
            Event::StreamEnded { stream, end } => proxy.on_ended(stream, end),
            Event::StreamClosed { stream } => proxy.on_stream_closed(node, stream),
            _ => {}
        });
    }

    /// Writes the state file, and closes the connections of applications without streams.
    pub(super) fn end_proxy(&mut self) {
        self.with_proxy(|proxy, _| {
            proxy.connections.clear();
            proxy.save();
        });
    }
}

const READABLE: Interest = Interest { readable: true, writable: false };

impl Proxy {
    fn poll(&mut self, node: &mut Node, now: Instant) {
        if self.next_tick <= now {
            (self.next_tick, self.failures, self.set_failures) = (now + TICK, 0, 0);
            self.update_network(node);
            self.expire_circuits(node, now);
            self.expire_links(node, now);
            self.expire_requests(node, now);
            if self.next_save <= now {
                self.next_save = now + SAVE_INTERVAL;
                self.save();
            }
        }
        self.has_news = false;
        self.attach_all(node, now);
        self.build_ahead(node, now);
        self.build_sets(node, now);
    }

    /// Reads the consensus again if it or the microdescriptors have changed.
    fn update_network(&mut self, node: &mut Node) {
        let Some(documents) = node.documents() else { return };
        let Some(consensus) = documents.consensus(Flavour::Microdescriptors) else { return };
        if consensus.valid_until + MAX_EXPIRED < node.clock.date() {
            self.network = None;
            return;
        }
        let known = documents.microdescriptors();
        let old = self.network.as_ref().map(|network| network.valid_after);
        if (old, self.known) == (Some(consensus.valid_after), known) {
            return;
        }
        let was_sufficient = self.paths().is_some();
        (self.network, self.known) = (Network::of(&documents), known);
        let Some(network) = self.network.as_ref().filter(|network| network.is_sufficient()) else { return };
        self.set_limits = SetLimits::of(&consensus.params, network.linking_exits());
        let paths = Paths { network, rules: &self.config.rules, own: self.own };
        self.guards.update(node.clock.date(), &mut node.rng, paths);
        let shortage = paths.shortage();
        if shortage.is_none() && (!was_sufficient || self.shortage.is_some()) {
            log::info!("the client knows {} relays, and can build circuits", network.routers.len());
        }
        if let Some(why) = shortage.filter(|_| shortage != self.shortage) {
            log::warn!("the client can build no circuits: {why}");
        }
        self.shortage = shortage;
    }
}
