//! Streams of applications: a request waits for a circuit, joins it, and tries another circuit after a failure.
//!
//! Source: path-spec, "Attaching streams to circuits", "Handling failure"; C tor
//! `connection_ap_process_end_not_open()`, `connection_ap_expire_beginning()`.

use super::Proxy;
use super::accept::{Connection, State};
use crate::directory::Fingerprint;
use crate::node::Node;
use crate::node::shares::Host;
use crate::node::sockets::Token;
use crate::proxy::circuits::Wanted;
use crate::proxy::isolation::{Isolation, IsolationFlags};
use crate::proxy::path::Purpose;
use crate::proxy::socks::{Request, status};
use penstock_core::kernel::Interest;
use penstock_core::{CircuitIndex, EndReason, StreamKey};
use penstock_link::cell::{StreamEnd, Target};
use penstock_units::{Duration, Instant};
use std::collections::BTreeSet;
use std::net::{IpAddr, TcpStream};
use tor_socksproto::SocksStatus;

/// Maximum number of circuits that try one request [1].
const MAX_TRIES: u32 = 5;
/// Maximum number of exits that look up a name in vain [1] (C tor `MAX_RESOLVE_FAILURES`).
const MAX_RESOLVES: u32 = 3;
/// A circuit has so much time to open a stream: the first two circuits of a request, then the others
/// (C tor `compute_retry_timeout()`).
const STREAM_TIMEOUTS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(15)];

/// A request that waits for a stream.
#[derive(Debug)]
pub(super) struct Waiting {
    request: Request,
    target: Target,
    isolation: Isolation,
    /// Exits that failed for this request.
    failed: BTreeSet<Fingerprint>,
    tries: u32,
    resolves: u32,
    /// The status of the last failure.
    status: SocksStatus,
}

impl Waiting {
    pub(super) fn new(
        request: Request,
        port: usize,
        flags: IsolationFlags,
        client: IpAddr,
        internal: bool,
    ) -> Result<Self, SocksStatus> {
        let target = request.target(internal)?;
        let isolation = Isolation::of(port, flags, client, &request);
        let (failed, status) = (BTreeSet::new(), SocksStatus::GENERAL_FAILURE);
        Ok(Waiting { request, target, isolation, failed, tries: 0, resolves: 0, status })
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.request.purpose()
    }

    pub(super) fn reply(&self, status: SocksStatus) -> Vec<u8> {
        self.request.reply(status)
    }

    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted { purpose: self.purpose(), isolation: &self.isolation, failed: &self.failed }
    }

    /// Notes that a circuit failed to open the stream, for a reason that the exit gave. `None`: the circuit ended or was
    /// silent. Returns whether another circuit may try it.
    ///
    /// Source: C tor `edge_reason_is_retriable()`.
    fn on_failure(&mut self, exit: Option<Fingerprint>, reason: Option<EndReason>) -> bool {
        self.tries += 1;
        let is_final = match reason {
            None => false,
            Some(EndReason::RESOLVE_FAILED) => {
                self.resolves += 1;
                self.resolves >= MAX_RESOLVES
            }
            Some(
                EndReason::EXIT_POLICY
                | EndReason::HIBERNATING
                | EndReason::RESOURCE_LIMIT
                | EndReason::MISC
                | EndReason::NO_ROUTE,
            ) => false,
            Some(_) => true,
        };
        self.status = reason.map_or(SocksStatus::TTL_EXPIRED, status);
        // A circuit can end because of its other relays, so its exit may try again.
        if reason.is_some() {
            self.failed.extend(exit);
        }
        !is_final && self.tries < MAX_TRIES
    }
}

/// A request whose stream is not open yet.
#[derive(Debug)]
pub(super) struct Attached {
    /// All parts of the connection except its socket.
    number: u64,
    client: IpAddr,
    port: usize,
    since: Instant,
    waiting: Box<Waiting>,
    circuit: CircuitIndex,
    exit: Option<Fingerprint>,
    until: Instant,
    /// The exit's message that ended the stream.
    end: Option<StreamEnd>,
    /// Whether the application has closed its connection.
    is_gone: bool,
}

impl Proxy {
    /// Gives a circuit to each waiting request. If there is none, starts one.
    pub(super) fn attach_all(&mut self, node: &mut Node, now: Instant) {
        if self.paths().is_none() {
            return;
        }
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            let Some(Connection { state: State::Waiting(waiting), .. }) = self.connections.get(&number)
            else {
                continue;
            };
            if let Some(circuit) = self.circuits.find(now, waiting.wanted()) {
                self.attach(node, now, number, circuit);
            } else if !self.circuits.reserve(waiting.wanted()) && !self.build_for(node, now, number) {
                self.refuse(number, SocksStatus::NETWORK_UNREACHABLE);
            }
        }
    }

    /// Closes a connection with a reply.
    fn refuse(&mut self, number: u64, status: SocksStatus) {
        if let Some(connection) = self.connections.remove(&number)
            && let State::Waiting(waiting) = &connection.state
        {
            let status = if waiting.tries > 0 { waiting.status } else { status };
            let reply = waiting.reply(status);
            connection.refuse(&reply);
        }
    }

    fn attach(&mut self, node: &mut Node, now: Instant, number: u64, circuit: CircuitIndex) {
        let Some(connection) = self.connections.remove(&number) else { return };
        let Connection { socket, client, port, since, state: State::Waiting(waiting) } = connection else {
            return;
        };
        let target = waiting.target.clone();
        let Some(stream) = node.relay.open_stream(now, circuit, target, &mut node.sockets) else {
            // The circuit has the maximum number of streams, or has just closed.
            self.circuits.retire(circuit);
            self.has_news = true;
            let state = State::Waiting(waiting);
            self.connections.insert(number, Connection { socket, client, port, since, state });
            return;
        };
        log::debug!("a stream uses {}", self.described(circuit));
        self.circuits.attach(now, circuit, &waiting.isolation);
        self.circuit_of.insert(stream, circuit);
        let greeting = waiting.reply(SocksStatus::SUCCEEDED);
        node.sockets.attach_client(stream, (Host::of(client), circuit), socket, greeting);
        let timeout = STREAM_TIMEOUTS[usize::from(waiting.tries >= 2)];
        let exit = self.circuits.get(circuit).map(|circuit| circuit.path[2].rsa());
        let (until, end, is_gone) = (now + timeout, None, false);
        let attached = Attached { number, client, port, since, waiting, circuit, exit, until, end, is_gone };
        self.streams.insert(stream, attached);
    }

    /// The number and the relays of a circuit, and of the circuits that are linked with it, for the log.
    pub(super) fn described(&self, circuit: CircuitIndex) -> String {
        let legs = self.circuits.legs_of(circuit).into_iter().filter_map(|leg| {
            let path = self.circuits.get(leg)?.path.each_ref().map(|router| &router.nickname[..]).join(", ");
            Some(format!("circuit {} through {path}", leg.index()))
        });
        legs.collect::<Vec<_>>().join(" and ")
    }

    /// The streams of a circuit continue on another one of its linked circuits.
    pub(super) fn move_streams(&mut self, from: CircuitIndex, to: CircuitIndex) {
        let circuits = self.circuit_of.values_mut();
        let attached = self.streams.values_mut().map(|attached| &mut attached.circuit);
        circuits.chain(attached).filter(|circuit| **circuit == from).for_each(|circuit| *circuit = to);
    }

    /// The exit has opened the stream. The application gets the reply before the first data.
    pub(super) fn on_connected(&mut self, node: &mut Node, stream: StreamKey) {
        if let Some(attached) = self.streams.remove(&stream) {
            node.counters.stream("proxied");
            self.circuits.predict(node.clock.now(), attached.waiting.purpose());
            node.sockets.greet(stream);
        }
    }

    /// Keeps the exit's message until the core has closed the stream.
    pub(super) fn on_ended(&mut self, stream: StreamKey, end: StreamEnd) {
        if let Some(attached) = self.streams.get_mut(&stream) {
            attached.end = Some(end);
        }
    }

    /// The application closed its connection before the stream was open.
    pub(in crate::node) fn on_gone(&mut self, node: &mut Node, stream: StreamKey) {
        if let Some(attached) = self.streams.get_mut(&stream) {
            attached.is_gone = true;
            node.relay.close_stream(node.clock.now(), stream, EndReason::MISC, &mut node.sockets);
        }
    }

    /// A stream has closed. If it was never open, another circuit tries the request, or the application gets the reason.
    pub(super) fn on_stream_closed(&mut self, node: &mut Node, stream: StreamKey) {
        let now = node.clock.now();
        if let Some(circuit) = self.circuit_of.remove(&stream) {
            self.circuits.detach(now, circuit);
        }
        let socket = node.sockets.returned.remove(&stream);
        let (Some(attached), Some(socket)) = (self.streams.remove(&stream), socket) else { return };
        if attached.is_gone {
            return;
        }
        self.try_again(node, attached, socket);
    }

    fn try_again(&mut self, node: &mut Node, attached: Attached, socket: TcpStream) {
        let Attached { number, client, port, since, mut waiting, exit, end, .. } = attached;
        let reason = match &end {
            Some(StreamEnd::Resolved(answers)) if waiting.request.is_resolve() => {
                let reply = waiting.request.resolved(answers);
                let state = State::Waiting(waiting);
                return Connection { socket, client, port, since, state }.refuse(&reply);
            }
            Some(StreamEnd::Resolved(_)) => Some(EndReason::PROTOCOL),
            Some(StreamEnd::End(end)) => Some(end.reason),
            None => None,
        };
        let may_retry = waiting.on_failure(exit, reason);
        let reply = waiting.reply(waiting.status);
        let connection = Connection { socket, client, port, since, state: State::Waiting(waiting) };
        if !may_retry {
            node.counters.stream("unproxied");
            return connection.refuse(&reply);
        }
        node.sockets.watch_for(&connection.socket, Token::Socks(number), Interest::default());
        self.connections.insert(number, connection);
        self.has_news = true;
    }

    /// Ends streams that their exits did not open in time. Their circuits get no more streams.
    pub(super) fn expire_streams(&mut self, node: &mut Node, now: Instant) {
        let late = self.streams.iter().filter(|(_, attached)| attached.until <= now);
        let late: Vec<_> = late.map(|(stream, attached)| (*stream, attached.circuit)).collect();
        for (stream, circuit) in late {
            self.circuits.retire(circuit);
            node.relay.close_stream(now, stream, EndReason::MISC, &mut node.sockets);
        }
    }
}
