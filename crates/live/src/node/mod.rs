//! A node on Linux sockets. It waits for events, passes them to the relay core, and executes the core's requests. The
//! core makes all decisions about cells.
//!
//! | module | content |
//! |---|---|
//! | `config` | settings |
//! | `conn`, `sockets`, `socket_info` | TLS connections, the core's kernel, the kernel's state of a socket |
//! | `peers`, `relay_list` | numbers of other nodes for the core, and which peers are relays |
//! | `links`, `openings`, `room`, `shares`, `claims` | new links, file descriptors, the shares of hosts |
//! | `dos` | C tor's defences against denial of service |
//! | `datagrams` | datagram paths of links between Penstock nodes |
//! | `exits`, `lookups` | exit streams, and limits of name lookups |
//! | `meeting_points` | introduction points and rendezvous points of onion services |
//! | `handshake_worker`, `fair_queue`, `pending`, `wake` | threads, their queues and their answers |
//! | `ready` | the order in which ready sockets are called |
//! | `renewal` | new keys and certificates |
//! | `member`, `directory_stream` | descriptor, consensus, directory documents |
//! | `proxy` | the onion proxy: applications, client circuits and their streams |
//! | `operate`, `counters`, `trace`, `stamps` | the operator's calls, counters, traced cells, timestamps |

mod claims;
mod config;
mod conn;
mod counters;
mod datagrams;
mod directory_stream;
mod dos;
mod exits;
mod fair_queue;
mod handshake_worker;
mod links;
mod lookups;
mod meeting_points;
mod member;
mod openings;
mod operate;
mod peers;
mod pending;
mod proxy;
mod ready;
mod relay_list;
mod renewal;
mod room;
mod shares;
mod socket_info;
mod sockets;
mod stamps;
#[cfg(test)]
mod test_node;
mod trace;
mod wake;

use crate::clock::Clock;
use crate::dtls::DtlsIdentity;
use crate::names::Names;
use crate::tls::TlsConfigs;
use crate::torrc::Outbound;
use conn::Conn;
use dos::Dos;
use exits::end_reason;
use handshake_worker::HandshakeWorker;
use lookups::LookupLimits;
use meeting_points::MeetingPoints;
use member::Member;
use peers::Peers;
use pending::Pending;
use penstock_core::config::Limits;
use penstock_core::kernel::Interest;
use penstock_core::{
    ChannelKey, CircuitIndex, DestroyReason, Direction, Event, Relay, RelayConfig, SecondaryMap, StreamKey,
};
use penstock_link::cell::{Handshake, HandshakeKind, LinkSpec, LiveCell};
use penstock_link::certs::{Credentials, Identity};
use penstock_link::crypto::Identities;
use penstock_link::descriptor::{ExitPolicy, is_private};
use penstock_link::keys::Keys;
use penstock_units::{Bytes, Duration, Instant};
use proxy::Proxy;
use ready::MAX_TURN;
use relay_list::RelayList;
use renewal::Renewal;
use room::DescriptorLimits;
use shares::{Host, PartPath};
use socket2::{Domain, Socket, Type};
use sockets::{Sockets, Token};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use wake::Wake;

pub use config::{HANDSHAKE_TIMEOUT, NodeConfig, SocketTcp};
pub use counters::NodeCounters;
pub use directory_stream::DirectoryStream;
pub use dos::{DOS_OPTIONS, DosCounters, DosOption, DosOptions};
pub use links::listen;
pub use member::Membership;
pub use operate::Observation;
pub use trace::{Left, TraceConfig, Traced};

/// After so many new peers, the node forgets all peers without channels [1].
const MAX_IDLE_PEERS: usize = 1024;
/// Longest wait for events [ns].
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Padding of a cell that a SENDME acknowledges [B]: four zeros and 16 random bytes (prop289 §3.4).
const SENDME_PADDING: u16 = 20;

/// Estimated memory of a circuit that sometimes carries cells [B]: keys and keystreams of both directions, and queues
/// for four cells. An idle circuit needs about half of it.
const CIRCUIT_MEMORY: Bytes = Bytes::kib(8);
/// The memory of a stream without data [B].
const STREAM_MEMORY: Bytes = Bytes::kib(1);
/// The memory of a link without cells [B]: TLS, and the buffers of its records.
const LINK_MEMORY: u64 = 16 * 1024;
/// The memory of a running name lookup in the resolver [B]. In a test, 1,024 lookups took 55 MB.
const LOOKUP_MEMORY: u64 = 56 * 1024;

/// A live node.
#[derive(Debug)]
pub struct Node {
    clock: Clock,
    keys: Arc<Keys>,
    identities: Arc<Identities>,
    credentials: Arc<Credentials>,
    tls: TlsConfigs,
    /// The certificate of a relay's datagram paths, from the first one on.
    dtls: Option<DtlsIdentity>,
    #[cfg(test)]
    middlebox: Option<datagrams::Middlebox>,
    keys_folder: Option<PathBuf>,
    renewal: Renewal,
    address: IpAddr,
    policy: ExitPolicy,
    extend_to_private: bool,
    single_hop: bool,
    handshake_timeout: Duration,
    tcp: SocketTcp,
    outbound: Outbound,
    counters: NodeCounters,
    /// Whether the operator's file descriptor was readable.
    woken: bool,
    /// Accepts links; `None` at a client.
    listener: Option<TcpListener>,
    relay: Relay<LiveCell>,
    sockets: Sockets,
    peers: Peers,
    /// For each new channel without a connection, the hosts whose circuits asked for it.
    requesters: SecondaryMap<ChannelKey, Vec<Host>>,
    /// File descriptors of the process [1], and the limits that follow from them.
    process_descriptors: usize,
    descriptors: DescriptorLimits,
    dos: Dos,
    meeting_points: MeetingPoints,
    /// The node forgets peers without channels above this number of peers [1].
    peer_limit: usize,
    /// End of the pause in accepting connections, after the process ran out of file descriptors.
    accept_backoff: Option<Instant>,
    /// The next time at which the node looks for connections above their time limit.
    next_sweep: Instant,
    member: Option<Member>,
    relay_list: RelayList,
    /// Newly ready sockets, in the order in which they became ready. Between turns, the queue has only channels.
    ready: VecDeque<(Token, Interest)>,
    /// A turn with many ready sockets ends after this time.
    max_turn: Duration,
    wake: Wake,
    handshake_worker: HandshakeWorker,
    /// Circuits that wait for the handshake worker, with their places in its queue.
    opening_circuits: Pending<CircuitIndex, (PartPath, HandshakeKind)>,
    names: Option<Names>,
    proxy: Option<Box<Proxy>>,
    rng: rand::rngs::ThreadRng,
}

impl Node {
    /// Opens the listening socket.
    ///
    /// # Errors
    ///
    /// If the address cannot be used, or the process has run out of file descriptors.
    pub fn bind(config: NodeConfig, keys: Keys) -> io::Result<Self> {
        Node::on(config.listen.map(listen).transpose()?, config, keys)
    }

    /// A node that accepts connections at `listener`, which [`listen`] made. Without a listener, the node is a client.
    ///
    /// # Errors
    ///
    /// If there are no file descriptors left.
    pub fn on(listener: Option<TcpListener>, config: NodeConfig, keys: Keys) -> io::Result<Self> {
        let clock = config.clock;
        let descriptors = DescriptorLimits::new(config.descriptors, !config.policy.rejects_all());
        let credentials = renewal::first(&keys, clock);
        let sockets = Sockets::new(clock, LookupLimits::of(descriptors.lookups))?;
        if let Some(listener) = &listener {
            config.tcp.apply(listener)?;
            sockets.watch(listener, Token::Listener, Interest { readable: true, writable: false })?;
        }
        let wake = Wake::new()?;
        sockets.watch(&wake, Token::Wake, Interest { readable: true, writable: false })?;
        let names = Names::start(&config.name_servers, wake.caller());
        if let Err(error) = &names
            && !config.policy.rejects_all()
        {
            log::warn!("DNS lookups are not possible: {error}");
        }
        let limits = Limits { circuit: CIRCUIT_MEMORY, stream: STREAM_MEMORY, ..config.relay.limits };
        let relay = RelayConfig { sendme_padding: SENDME_PADDING, limits, ..config.relay };
        Ok(Node {
            tls: TlsConfigs::new(&credentials),
            dtls: None,
            #[cfg(test)]
            middlebox: None,
            relay: Relay::new(relay, clock.now()),
            identities: Arc::new(keys.identities()),
            keys: Arc::new(keys),
            credentials,
            keys_folder: config.keys_folder,
            renewal: Renewal::new(clock.now()),
            clock,
            address: config.address,
            policy: config.policy,
            extend_to_private: config.extend_to_private,
            single_hop: config.single_hop,
            handshake_timeout: config.handshake_timeout,
            tcp: config.tcp,
            handshake_worker: HandshakeWorker::start(wake.caller())?,
            opening_circuits: Pending::new(),
            names: names.ok(),
            wake,
            outbound: Outbound::default(),
            counters: NodeCounters::new(),
            woken: false,
            listener,
            sockets,
            peers: Peers::default(),
            requesters: SecondaryMap::new(),
            process_descriptors: config.descriptors,
            descriptors,
            dos: Dos::new(config.dos),
            meeting_points: MeetingPoints::default(),
            peer_limit: MAX_IDLE_PEERS,
            accept_backoff: None,
            next_sweep: clock.now(),
            member: None,
            relay_list: RelayList::new(clock.now()),
            ready: VecDeque::new(),
            max_turn: MAX_TURN,
            proxy: None,
            rng: rand::rng(),
        })
    }

    /// Address and port on which the node listens.
    pub fn listens_at(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    /// Link specifiers that an EXTEND2 to this node needs.
    pub fn link_spec(&self) -> io::Result<LinkSpec> {
        let address = SocketAddr::new(self.address, self.listens_at()?.port());
        let (rsa, ed25519) = (self.keys.rsa_identity(), self.keys.ed25519_identity());
        Ok(LinkSpec { addresses: vec![address], rsa, ed25519: Some(ed25519) })
    }

    /// Waits for events, for at most a second, and handles them.
    ///
    /// # Errors
    ///
    /// If epoll fails.
    pub fn turn(&mut self) -> io::Result<()> {
        self.serve_ready()?;
        self.relay.set_driver_memory(self.driver_memory());
        self.poll_directory();
        let now = self.clock.now();
        self.classify_channels(now);
        if self.relay.poll_timeout().is_some_and(|due| due <= now) {
            self.relay.on_timer(now, &mut self.sockets);
            self.process_events();
        }
        self.poll_paths(now);
        self.poll_proxy(now);
        self.close_timed_out(now);
        self.forget_idle_peers();
        self.resume_accepting(now);
        self.renew(now);
        Ok(())
    }

    /// Memory of connections, lookups and directory answers [B].
    fn driver_memory(&self) -> Bytes {
        let links = (self.sockets.openings.len() + self.sockets.links.len()) as u64;
        let lookups = self.sockets.lookups.len() as u64;
        Bytes::new(links * LINK_MEMORY + lookups * LOOKUP_MEMORY + self.sockets.buffered)
    }

    /// Time to wait for events [ns].
    fn max_wait(&self) -> Duration {
        let has_work = !self.ready.is_empty() || !self.sockets.waiting.is_empty();
        let has_news = self.proxy.as_deref().is_some_and(|proxy| proxy.has_news);
        let is_due = !self.sockets.woken.is_empty() || !self.sockets.full.is_empty();
        if has_work || has_news || is_due || !self.sockets.sending.is_empty() {
            return Duration::ZERO;
        }
        let due = [self.relay.poll_timeout(), self.sockets.next_path()].into_iter().flatten().min();
        let due = due.unwrap_or(Instant::FAR_FUTURE);
        due.since(self.clock.now()).min(MAX_WAIT)
    }

    fn serve(&mut self, token: Token, what: Interest) {
        match token {
            Token::Listener => self.accept(),
            Token::Opening(number) => self.drive_handshake(number),
            Token::Channel(channel) => {
                if what.readable {
                    self.sockets.note_tls_readable(channel);
                }
                self.serve_channel(channel, what);
            }
            Token::Datagrams(channel) => self.serve_channel(channel, what),
            Token::Stream(stream) if self.sockets.directory_streams.contains_key(&stream) => {
                self.serve_directory_stream(stream);
            }
            Token::Stream(stream) => self.serve_stream(stream, what),
            Token::Lingering(number) => self.sockets.flush_lingering(number),
            Token::SocksPort(number) => self.accept_socks(number),
            Token::Socks(number) => self.serve_socks_connection(number),
            Token::Wake => self.on_wake(),
            // The operator reads this file descriptor after the turn.
            Token::Waker => self.woken = true,
        }
        self.process_events();
    }

    /// Queues a channel with a whole cell in its buffer for the next turn, unless it is queued already.
    pub(super) fn queue(&mut self, channel: ChannelKey) {
        let Some(conn) = self.sockets.channel(channel) else { return };
        if !std::mem::replace(&mut conn.is_queued, true) {
            let readable = Interest { readable: true, writable: false };
            self.ready.push_back((Token::Channel(channel), readable));
        }
    }

    fn serve_channel(&mut self, channel: ChannelKey, what: Interest) {
        let now = self.clock.now();
        self.sockets.take_stamps(channel);
        let Some(conn) = self.sockets.channel(channel) else { return };
        conn.is_queued = false;
        let wanted = conn.interest;
        if what.writable && conn.is_stuck() {
            conn.flush();
            self.sockets.rewatch(channel);
        }
        if self.sockets.is_choosing(channel) {
            return self.drive_path(channel, what.readable);
        }
        if what.readable && wanted.readable {
            self.relay.on_readable(now, channel, &mut self.sockets);
        }
        let is_free = |conn: &mut Conn| conn.interest.writable && !conn.is_stuck();
        if what.writable && self.sockets.channel(channel).is_some_and(is_free) {
            self.relay.on_writable(now, channel, &mut self.sockets);
        }
        self.sockets.note_sending(channel);
        self.sockets.recount(channel);
        let Some(conn) = self.sockets.channel(channel) else { return };
        if conn.interest.readable && conn.has_input() {
            self.queue(channel);
        } else if conn.broken {
            self.relay.close_channel(now, channel, &mut self.sockets);
        }
    }

    fn serve_stream(&mut self, stream: StreamKey, what: Interest) {
        let now = self.clock.now();
        let Some(state) = self.sockets.stream(stream) else { return };
        if state.awaits_exit() {
            // Epoll watches this socket for hang-ups only.
            return self.with_proxy(|proxy, node| proxy.on_gone(node, stream));
        }
        if state.connecting && !what.writable {
            return;
        }
        if state.connecting {
            state.connecting = false;
            let said = state.said;
            match state.socket.take_error() {
                Ok(None) => {
                    self.counters.stream("connected");
                    self.relay.on_stream_connected(now, stream, said, &mut self.sockets);
                }
                Ok(Some(error)) | Err(error) => {
                    self.counters.stream("failed");
                    self.relay.close_stream(now, stream, end_reason(&error), &mut self.sockets);
                }
            }
            self.sockets.rewatch_stream(stream);
            return;
        }
        let wanted = state.interest;
        if what.writable {
            self.sockets.flush_stream(stream);
        }
        if what.readable && wanted.readable {
            self.relay.on_stream_readable(now, stream, &mut self.sockets);
        }
        if what.writable && wanted.writable {
            self.relay.on_stream_writable(now, stream, &mut self.sockets);
        }
    }

    fn process_events(&mut self) {
        while let Some(event) = self.relay.poll_event() {
            match event {
                Event::Connect { channel, peer } => self.connect(channel, peer),
                // A client is no relay for its guards (C tor `command_process_create_cell()`).
                Event::HandshakeRequested { circuit, .. } if self.listener.is_none() => {
                    let now = self.clock.now();
                    self.relay.close_circuit(now, circuit, DestroyReason::PROTOCOL, &mut self.sockets);
                }
                Event::HandshakeRequested { circuit, handshake } => {
                    self.note_begun(circuit);
                    self.answer(circuit, handshake);
                }
                Event::ExtendRequested { circuit, to, handshake } => self.extend(circuit, &to, handshake),
                Event::OnionService { circuit, message } => self.on_onion_service(circuit, message),
                Event::StreamRequested { stream, target } => self.begin(stream, target),
                Event::CircuitClosed { circuit, violation } => {
                    self.forget_handshake(circuit);
                    self.dos.on_circuit_closed(circuit);
                    self.meeting_points.on_circuit_closed(circuit);
                    self.note_over(circuit, violation);
                    self.on_client_event(event);
                }
                Event::StreamClosed { stream } => {
                    self.forget_lookup(stream);
                    self.on_client_event(event);
                }
                Event::Tracked { tag, circuit, station, at, .. } => {
                    self.note_station(tag, circuit, station, at);
                }
                Event::HandshakeNeeded { .. }
                | Event::HandshakeAnswered { .. }
                | Event::CircuitBuilt { .. }
                | Event::CircuitsLinked { .. }
                | Event::StreamEnded { .. }
                | Event::StreamConnected { .. } => self.on_client_event(event),
            }
        }
        for _ in 0..std::mem::take(&mut self.sockets.oom_openings) {
            self.counters.no_link("memory");
        }
        for _ in 0..std::mem::take(&mut self.sockets.failed_paths) {
            self.counters.path("failed");
        }
        self.shrink_paths();
        for host in self.sockets.closed_clients.drain(..) {
            self.dos.on_closed(host);
        }
    }

    fn answer(&mut self, circuit: CircuitIndex, handshake: Handshake) {
        let Some((channel, _)) = self.relay.leg(circuit, Direction::Backward) else { return };
        let now = self.clock.now();
        let Some(conn) = self.sockets.channel(channel) else { return };
        let (host, is_client) = (conn.host, conn.is_client);
        if is_client && !self.dos.may_create(now, host, &mut self.rng) {
            let reason = DestroyReason::RESOURCE_LIMIT;
            return self.relay.close_circuit(now, circuit, reason, &mut self.sockets);
        }
        let path = host.with_link(channel);
        let number = self.opening_circuits.await_for(circuit, (path, handshake.kind));
        let agree = self.relay.agree(circuit);
        let dropped = self.handshake_worker.ask(number, path, handshake, self.identities.clone(), agree);
        if let Some((circuit, _)) = dropped.and_then(|number| self.opening_circuits.answered(number)) {
            let reason = DestroyReason::RESOURCE_LIMIT;
            self.relay.close_circuit(self.clock.now(), circuit, reason, &mut self.sockets);
        }
    }

    fn forget_handshake(&mut self, circuit: CircuitIndex) {
        if let Some((number, (path, _))) = self.opening_circuits.forget(circuit)
            && self.handshake_worker.forget(path, number)
        {
            self.opening_circuits.answered(number);
        }
    }

    fn on_wake(&mut self) {
        self.wake.reset();
        let now = self.clock.now();
        while let Some((number, answered)) = self.handshake_worker.answer() {
            let Some((circuit, (_, kind))) = self.opening_circuits.answered(number) else { continue };
            self.counters.handshake(kind, answered.is_ok());
            match answered {
                Ok(answered) => {
                    let (reply, layer, said) = (answered.reply, answered.layer, answered.negotiation);
                    self.relay.on_handshake(now, circuit, reply, layer, said, &mut self.sockets);
                }
                Err(_) => {
                    self.relay.close_circuit(now, circuit, DestroyReason::PROTOCOL, &mut self.sockets);
                }
            }
        }
        self.on_names();
    }

    fn extend(&mut self, circuit: CircuitIndex, to: &LinkSpec, handshake: Handshake) {
        let now = self.clock.now();
        // As in C tor `circuit_extend_add_ed25519_helper()`.
        let listed = || self.documents()?.ed25519_of(&to.rsa);
        let to = &LinkSpec { ed25519: to.ed25519.or_else(listed), ..to.clone() };
        let close =
            |node: &mut Self, reason| node.relay.close_circuit(now, circuit, reason, &mut node.sockets);
        if to.rsa == self.keys.rsa_identity() || to.ed25519 == Some(self.keys.ed25519_identity()) {
            // As in C tor `connection_or_connect()`.
            return close(self, DestroyReason::CONNECT_FAILED);
        }
        let first = to.addresses.first().copied();
        let reachable = first.filter(|at| self.extend_to_private || !is_private(at.ip()));
        let leg = self.relay.leg(circuit, Direction::Backward);
        let conn = leg.and_then(|(channel, _)| self.sockets.channel(channel));
        let (before, host) = (conn.as_ref().and_then(|conn| conn.peer), conn.map(|conn| conn.host));
        let is_back = before.is_some_and(|peer| self.peers.is(peer, to));
        // A refused relay gets no number.
        let Some(at) = reachable.filter(|_| to.rsa != [0; 20] && !is_back) else {
            return close(self, DestroyReason::PROTOCOL);
        };
        let peer = self.peers.relay(to, at, |peer| self.relay.shares(peer));
        self.relay.extend(now, circuit, peer, handshake, &mut self.sockets);
        if let (Some((channel, _)), Some(host)) = (self.relay.leg(circuit, Direction::Forward), host) {
            self.note_requester(channel, host);
        }
    }

    /// A circuit of `host` needs a channel, which may have no connection yet.
    fn note_requester(&mut self, channel: ChannelKey, host: Host) {
        if self.sockets.has_link(channel) {
            self.sockets.join_link(channel, host);
        } else if let Some(hosts) = self.requesters.get_mut(channel) {
            hosts.push(host);
        } else {
            self.requesters.insert(channel, vec![host]);
        }
    }

    /// Forgets peers without channels. The core may reuse their numbers.
    fn forget_idle_peers(&mut self) {
        if self.peers.len() > self.peer_limit {
            self.peers.keep(|peer| self.relay.has_channel(peer));
            self.peer_limit = self.peers.len() + MAX_IDLE_PEERS;
        }
    }
}

/// Starts a TCP connection from the configured source address. Connections to this machine use no source address.
fn dial(to: SocketAddr, from: [Option<IpAddr>; 2], tcp: SocketTcp) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    tcp.apply(&socket)?;
    if let Some(from) = from[usize::from(to.is_ipv6())].filter(|_| !to.ip().is_loopback()) {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    match socket.connect(&to.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// The RSA and ed25519 identities of a node.
pub fn identity(keys: &Keys) -> Identity {
    Identity { rsa: keys.rsa_identity(), ed25519: keys.ed25519_identity() }
}
