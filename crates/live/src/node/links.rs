//! New links: the node accepts and opens connections, and performs the link handshakes. Each host has a limited share
//! of the unfinished handshakes.

use super::claims::Claim;
use super::conn::Conn;
use super::exits::end_reason;
use super::peers::{LinkAddress, Peers};
use super::ready::MAX_CALLS;
use super::shares::{Host, Loses};
use super::sockets::Token;
use super::{Node, dial};
use crate::clock::Clock;
use crate::tls;
use penstock_core::hop_control::HopOffer;
use penstock_core::kernel::Interest;
use penstock_core::{ChannelKey, EndReason, PeerId};
use penstock_link::certs::Credentials;
use penstock_link::handshake::{Established, Expected, Extensions, Link, LinkFailure, Peer};
use penstock_units::{Duration, Instant};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Maximum number of unfinished link handshakes [1], if there are enough file descriptors. Accepted and opened
/// connections have separate limits. One network may have a quarter of the accepted ones.
pub(super) const MAX_OPENING: usize = 1024;
/// Maximum number of connections that the node accepts in one turn [1]. A turn has few calls for other sockets, so the
/// node accepts thousands of connections a second beside a full load. They take less than half of its time.
const MAX_ACCEPTS: usize = 2 * MAX_CALLS;
/// Maximum number of connections that wait in the kernel to be accepted [1] (C tor listens with SOMAXCONN).
const BACKLOG: i32 = 4096;
/// Pause in accepting connections after the process has run out of file descriptors.
pub(super) const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Connections end at most this time after their time limit.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A connection with an unfinished link handshake.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) conn: Conn,
    /// The link handshake. It starts after the TLS handshake.
    link: Option<Link>,
    /// The certificates that this node uses in TLS.
    credentials: Arc<Credentials>,
    from: IpAddr,
    /// The channel that waits for the connection, if this node opened it.
    pub(super) channel: Option<ChannelKey>,
    /// The host that is charged for the handshake.
    pub(super) claim: Claim,
    /// The size of the buffers at the last update of the node's memory count [B].
    pub(super) counted: u64,
    until: Instant,
}

impl Opening {
    /// The size of the buffers [B].
    pub(super) fn buffered(&self) -> u64 {
        self.conn.buffered() + self.link.as_ref().map_or(0, |link| link.memory() as u64)
    }
}

/// Opens a socket that listens and never blocks.
///
/// # Errors
///
/// If the address cannot be used, or the process has run out of file descriptors.
pub fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl Node {
    /// Opens the connection for a channel.
    pub(super) fn connect(&mut self, channel: ChannelKey, peer: PeerId) {
        if let Err(reason) = self.try_connect(channel, peer) {
            self.counters.no_link(reason);
            self.relay.on_channel_closed(self.clock.now(), channel, &mut self.sockets);
        }
    }

    fn try_connect(&mut self, channel: ChannelKey, peer: PeerId) -> Result<(), &'static str> {
        // The core asks only for links that no existing link can replace. By default, all circuits to a relay share one;
        // with a channel for each circuit, none do.
        let hosts = self.requesters.remove(channel);
        let Some(LinkAddress::Dial(to)) = self.peers.known(peer).map(|known| known.address) else {
            return Err("connect");
        };
        let mut hosts = hosts.unwrap_or_else(|| vec![Host::of(to.ip())]);
        // The network and host that asked for the fewest links get the link. A flood cannot prevent links that others need.
        hosts.sort_by_key(|host| {
            let path = host.path();
            (self.sockets.requested.count(&path[..1]), self.sockets.requested.count(&path))
        });
        self.make_room_for_opened(hosts[0]);
        if !self.make_room_for_link(Host::of(to.ip()), Some(hosts[0])) {
            return Err("descriptors");
        }
        let socket = dial(to, self.outbound.relays, self.tcp).map_err(|_| "connect")?;
        let conn = Conn::new(socket, self.tls.connect(), Some(peer), Host::of(to.ip()));
        self.open(conn, to.ip(), Some(channel), &hosts).map_err(|_| "connect")
    }

    /// Makes room for a handshake that a circuit of `host` asked for. At the limit of the network of `host`, the oldest
    /// handshake of this network ends. At the limit of all networks, the oldest one of the largest network ends.
    ///
    /// Circuits of an attacker and of other clients come from the same relay. The new handshake therefore replaces even
    /// one of the same host. A handshake that other hosts wait for moves to one of them, and another one ends.
    fn make_room_for_opened(&mut self, host: Host) {
        let (most, network) = (self.descriptors.opening, &host.path()[..1]);
        loop {
            let opened = &self.sockets.openings.opened;
            let oldest = if opened.count(network) >= most / 4 {
                opened.oldest_in(network)
            } else if opened.len() >= most {
                opened.oldest_of_most()
            } else {
                None
            };
            let Some(oldest) = oldest else { return };
            if !self.sockets.openings.pass_on(oldest) {
                self.fail_link(oldest, "crowded");
            }
        }
    }

    /// Accepts waiting connections, up to a limit, so that a flood does not delay other events.
    pub(super) fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTS {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((socket, from)) => {
                    if let Err(reason) = self.admit(socket, from.ip()) {
                        self.counters.no_link(reason);
                    }
                }
                Err(error) => {
                    // Without a pause, epoll would report the listener in each turn.
                    if end_reason(&error) == EndReason::RESOURCE_LIMIT {
                        self.sockets.forget(listener);
                        self.accept_backoff = Some(self.clock.now() + ACCEPT_BACKOFF);
                    }
                    return;
                }
            }
        }
    }

    /// Starts the handshake of an accepted connection, or closes the connection. It refuses connections before TLS, so
    /// a refusal needs little CPU time.
    ///
    /// At the limit of unfinished handshakes, the oldest one of the network with the most handshakes is closed. If this
    /// network opened the new connection, its host with the most handshakes loses one. If this host opened the new
    /// connection, the new one is closed instead. A flood thus delays only its own host.
    ///
    /// Deviation: C tor has no limit on unfinished handshakes.
    fn admit(&mut self, socket: TcpStream, from: IpAddr) -> Result<(), &'static str> {
        let host = Host::of(from);
        if !self.dos.may_connect(self.clock.now(), host) {
            return Err("dos");
        }
        let (path, accepted) = (host.path(), &self.sockets.openings.accepted);
        let full = if accepted.count(&path[..1]) >= self.descriptors.opening / 4 {
            Some(1)
        } else {
            (accepted.len() >= self.descriptors.opening).then_some(0)
        };
        if let Some(within) = full {
            let may_take = |own, most| own <= 1 || own < most;
            let oldest = accepted.yielding(within, &path, Loses::Oldest, may_take);
            self.fail_link(oldest.ok_or("crowded")?, "crowded");
        }
        if !self.make_room_for_link(host, None) {
            return Err("descriptors");
        }
        socket.set_nonblocking(true).map_err(|_| "accept")?;
        let _ = socket.set_nodelay(self.tcp.nodelay);
        let conn = Conn::new(socket, self.tls.accept(), None, host);
        self.open(conn, from, None, &[host]).map_err(|_| "accept")
    }

    pub(super) fn resume_accepting(&mut self, now: Instant) {
        if self.accept_backoff.take_if(|until| *until <= now).is_some() {
            let readable = Interest { readable: true, writable: false };
            if let Some(listener) = &self.listener
                && self.sockets.watch(listener, Token::Listener, readable).is_err()
            {
                self.accept_backoff = Some(now + ACCEPT_BACKOFF);
            }
        }
    }

    /// Starts the handshake of a connection, which belongs to the share of the first of these hosts.
    pub(super) fn open(
        &mut self,
        conn: Conn,
        from: IpAddr,
        channel: Option<ChannelKey>,
        hosts: &[Host],
    ) -> io::Result<()> {
        let until = self.clock.now() + self.handshake_timeout;
        let number = self.sockets.openings.next_number();
        let both = Interest { readable: true, writable: true };
        self.sockets.watch(&conn.socket, Token::Opening(number), both)?;
        let credentials = self.credentials.clone();
        let (link, counted) = (None, 0);
        let make = |claim| Opening { conn, link, credentials, from, channel, claim, counted, until };
        self.sockets.openings.insert(channel, hosts, make);
        self.sockets.recount_opening(number);
        Ok(())
    }

    /// Continues a link handshake.
    pub(super) fn drive_handshake(&mut self, number: u64) {
        let extensions = self.extensions();
        let Some(open) = self.sockets.openings.get_mut(number) else { return };
        open.conn.fill(&mut self.sockets.scratch);
        let address = self.listener.is_some().then_some(self.address);
        let outcome = step(open, (address, extensions), &self.peers, self.clock, &mut self.rng);
        // A new consensus may have changed the setting that the peer already knows.
        let is_stale =
            |link: &Link| link.offered_hop_control() != extensions.hop_control(link.is_with_client());
        let changed = matches!(&outcome, Ok(Some(done)) if done.hop_control.is_some())
            && open.link.as_ref().is_some_and(is_stale);
        let outcome = if changed { Err("hop_control_changed") } else { outcome };
        open.conn.flush();
        self.sockets.recount_opening(number);
        let Some(open) = self.sockets.openings.get(number) else { return };
        match outcome {
            Ok(None) if !open.conn.broken => {
                let interest = Interest { readable: true, writable: open.conn.is_stuck() };
                let token = Token::Opening(number);
                self.sockets.watch_for(&open.conn.socket, token, interest);
            }
            Ok(Some(done)) => self.established(number, &done),
            Ok(None) => self.fail_link(number, "closed"),
            Err(reason) => self.fail_link(number, reason),
        }
    }

    /// Handles the end of a link handshake. A channel takes the connection.
    fn established(&mut self, number: u64, done: &Established) {
        let now = self.clock.now();
        let Some(open) = self.sockets.take_opening(number) else { return };
        let Opening { mut conn, from, channel, claim, .. } = open;
        if channel.is_some_and(|channel| !self.relay.is_channel(channel)) {
            // The core closed the channel during the handshake.
            return self.counters.no_link("closed");
        }
        conn.put_back(done.rest.clone());
        let peer = match &done.peer {
            Peer::Relay(identity) => self.peers.proven(identity, done.is_canonical(from), from),
            Peer::Client => self.peers.client(from),
        };
        conn.peer = Some(peer);
        let is_client = done.peer == Peer::Client;
        self.counters.link(is_client);
        let is_relay = |known: &super::peers::Known| self.is_relay(&known.rsa);
        conn.is_client = channel.is_none() && !self.peers.known(peer).is_some_and(is_relay);
        if conn.is_client {
            self.dos.on_connected(now, conn.host, &mut self.rng);
        }
        let is_initiator = channel.is_some();
        if let Some(channel) = channel {
            conn.claim = Some(claim);
            // Before this point, the peer's identity was not proven.
            self.relay.set_peer(channel, peer);
            // The peer knows a relay's link to it as one between relays, even if it begins with an own circuit.
            self.relay.set_with_client(channel, self.listener.is_none());
        }
        let channel = channel.unwrap_or_else(|| self.relay.accept_channel(now, peer, is_client));
        conn.extended.feedback = matches!(done.hop_control, Some(HopOffer::Credits { .. }));
        let begun = conn.has_cell();
        self.sockets.attach(channel, conn);
        if done.datagrams {
            return self.begin_path(channel, is_initiator, done.hop_control);
        }
        self.relay.on_channel_open(now, channel, done.hop_control, &mut self.sockets);
        self.classify_channel(now, channel);
        if begun {
            self.queue(channel);
        }
    }

    /// Closes a connection after a failed link handshake.
    pub(super) fn fail_link(&mut self, number: u64, reason: &'static str) {
        self.counters.no_link(reason);
        let Some(open) = self.sockets.take_opening(number) else { return };
        if let Some(channel) = open.channel {
            self.relay.on_channel_closed(self.clock.now(), channel, &mut self.sockets);
        }
    }

    /// Closes connections above their time limit, and counts directory streams again. Both look at many connections, so
    /// they run once a second.
    pub(super) fn close_timed_out(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_INTERVAL;
        self.sockets.recount_directory_streams();
        self.sockets.close_timed_out(now);
        let late = self.sockets.openings.iter().filter(|(_, open)| open.until <= now);
        let late: Vec<u64> = late.map(|(number, _)| number).collect();
        for number in late {
            self.fail_link(number, "timeout");
            self.process_events();
        }
    }
}

/// The identity that a peer must prove when this node opens the connection.
fn expected(peers: &Peers, peer: Option<PeerId>) -> Expected {
    let known = peer.and_then(|peer| peers.known(peer));
    known.map_or(Expected::default(), |known| Expected { rsa: Some(known.rsa), ed25519: known.ed25519 })
}

/// Continues a handshake with the bytes that have arrived. `address` is this relay's address. A client has none, and does
/// not authenticate itself. `ours` are the abilities that this node announces.
fn step(
    open: &mut Opening,
    (address, ours): (Option<IpAddr>, Extensions),
    peers: &Peers,
    clock: Clock,
    rng: &mut rand::rngs::ThreadRng,
) -> Result<Option<Established>, &'static str> {
    if open.conn.tls.is_handshaking() {
        return Ok(None);
    }
    let link = match &mut open.link {
        Some(link) => link,
        link @ None if open.channel.is_some() => {
            let certificate = tls::certificate_sha256(&open.conn.tls).ok_or("tls")?;
            let expected = expected(peers, open.conn.peer);
            let started = match address {
                Some(address) => Link::connect(expected, certificate, open.from, vec![address]),
                None => Link::connect_as_client(expected, certificate, open.from),
            };
            link.insert(started.with_extensions(ours))
        }
        link @ None => {
            let started = Link::respond(rng, open.from, address.into_iter().collect());
            link.insert(started.with_extensions(ours))
        }
    };
    let bytes = open.conn.decrypted();
    let connection = &open.conn.tls;
    let export = |context: &[u8; 32]| tls::export(connection, context);
    let done =
        link.on_bytes(clock.date(), &bytes, &open.credentials, &export, rng).map_err(LinkFailure::label)?;
    let say = link.poll_output();
    if !say.is_empty() {
        open.conn.encrypt(&say);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeConfig;
    use crate::node::room::DescriptorLimits;
    use crate::node::shares::Shares;
    use crate::node::test_node::{LOCALHOST, conn_to, host, node, node_with};
    use penstock_core::{Cell as _, CircId, RelayConfig};
    use penstock_link::cell::{Handshake, HandshakeKind, LinkSpec, LiveCell};
    use penstock_link::certs::Netinfo;
    use penstock_link::keys::Keys;
    use std::io::Write;

    fn conn(node: &Node) -> Conn {
        conn_to(node, Host::of(LOCALHOST))
    }

    #[test]
    fn the_bytes_of_a_tls_handshake_count_as_memory_up_to_a_limit() {
        let mut node = node();
        let mut peer = TcpStream::connect(node.listens_at().unwrap()).unwrap();
        // Records of a ClientHello of 61,440 bytes.
        let record = |hello: &[u8]| {
            let mut record = vec![22, 3, 1, 0x10, 0];
            record.extend_from_slice(hello);
            record.resize(5 + 4096, 0);
            record
        };
        peer.write_all(&record(&[1, 0, 0xF0, 0])).unwrap();
        while node.sockets.buffered < 4096 {
            node.turn().unwrap();
        }
        assert_eq!(node.sockets.openings.len(), 1);
        let mut most = 0;
        for _ in 0..14 {
            // The relay may have closed the connection.
            let _ = peer.write_all(&record(&[]));
            node.turn().unwrap();
            most = most.max(node.sockets.buffered);
        }
        while node.sockets.openings.len() > 0 {
            node.turn().unwrap();
        }
        assert!((8192..40_000).contains(&most), "{most} B");
        assert_eq!(node.sockets.buffered, 0);
    }

    #[test]
    fn a_host_with_many_links_does_not_prevent_a_link_that_another_host_also_asked_for() {
        let mut node = node_with(1);
        let [flood, good] = [100, 101].map(host);
        for last in 1..=16 {
            let channel = node.relay.accept_channel(node.clock.now(), PeerId(last.into()), false);
            let mut conn = conn_to(&node, host(last));
            conn.claim = Some(Claim::new(&mut Shares::new(), flood, channel));
            node.sockets.attach(channel, conn);
        }
        let at = node.listens_at().unwrap();
        let to = LinkSpec { addresses: vec![at], rsa: [7; 20], ed25519: None };
        let peer = node.peers.relay(&to, at, |_| false);
        for (hosts, is_opened) in [(vec![flood], false), (vec![flood, good], true)] {
            let channel = node.relay.accept_channel(node.clock.now(), peer, false);
            hosts.into_iter().for_each(|host| node.note_requester(channel, host));
            node.connect(channel, peer);
            assert_eq!(node.sockets.openings.has(channel), is_opened);
        }
        assert_eq!(node.sockets.openings.opened.count(&good.path()), 1);
    }

    /// A guard sends a CREATE_FAST behind its last handshake cell.
    #[test]
    fn a_client_refuses_the_circuits_of_its_guard() {
        let keys = || Keys::generate(&mut rand::rng(), node().clock.date());
        let mut client = Node::bind(NodeConfig::client(RelayConfig::default()), keys()).unwrap();
        for (node, circuits) in [(&mut client, 0), (&mut node(), 1)] {
            let conn = conn_to(&self::node(), host(1));
            node.open(conn, LOCALHOST, None, &[host(1)]).unwrap();
            // This side accepted the link, so the peer sets the top bit of its ids.
            let id = CircId(std::num::NonZeroU32::MIN | 1 << 31);
            let fast = Handshake { kind: HandshakeKind::Fast, data: vec![7; 20] };
            let rest = LiveCell::create(id, fast).to_bytes().to_vec();
            let netinfo = Netinfo { time: 0, yours: None, mine: Vec::new() };
            let done = Established {
                version: 5,
                peer: Peer::Client,
                netinfo,
                hop_control: None,
                datagrams: false,
                rest,
            };
            node.established(0, &done);
            let channel = node.relay.channels()[0];
            let now = node.clock.now();
            node.relay.on_readable(now, channel, &mut node.sockets);
            node.process_events();
            assert_eq!((node.relay.counters().received, node.circuits()), (1, circuits));
        }
    }

    #[test]
    fn a_link_for_a_channel_that_the_core_closed_is_dropped() {
        let mut node = node();
        let now = node.clock.now();
        let channel = node.relay.accept_channel(now, PeerId(1 << 31), true);
        let conn = conn(&node);
        node.open(conn, LOCALHOST, Some(channel), &[Host::of(LOCALHOST)]).unwrap();
        node.relay.close_channel(now, channel, &mut node.sockets);
        let netinfo = Netinfo { time: 0, yours: None, mine: Vec::new() };
        let (peer, hop_control, datagrams, rest) = (Peer::Client, None, false, Vec::new());
        node.established(0, &Established { version: 5, peer, netinfo, hop_control, datagrams, rest });
        assert_eq!((node.sockets.openings.len(), node.held(), node.sockets.buffered), (0, [0, 0], 0));
        assert!(!node.sockets.channels.contains(channel));
    }

    /// A host has 100 ready sockets and connects 40 more times. Another host has one ready socket.
    #[test]
    fn a_turn_calls_each_host_and_accepts_connections() {
        let mut node = node();
        node.descriptors = DescriptorLimits::new(50_000, false);
        let at = node.listens_at().unwrap();
        let dial = |last: u8| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::new([127, 0, 0, last].into(), 0).into()).unwrap();
            socket.connect(&at.into()).unwrap();
            TcpStream::from(socket)
        };
        let mut peers: Vec<_> = [2; 100].into_iter().chain([3]).map(dial).collect();
        let is_idle = |node: &Node| node.sockets.waiting.is_empty() && node.ready.is_empty();
        while node.sockets.openings.len() < peers.len() || !is_idle(&node) {
            node.turn().unwrap();
        }
        let more: Vec<_> = [2; 40].map(dial).into();
        peers.iter_mut().for_each(|peer| peer.write_all(&[22]).unwrap());
        let read = |node: &Node, last: u8| {
            let host = Host::of([127, 0, 0, last].into());
            let of = node.sockets.openings.iter().filter(|(_, open)| open.claim.host == host);
            of.filter(|(_, open)| open.conn.buffered() > 0).count()
        };
        node.max_turn = Duration::from_secs(60);
        node.turn().unwrap();
        assert_eq!((read(&node, 2), read(&node, 3)), (MAX_CALLS - 1, 1));
        assert_eq!(node.sockets.openings.len(), peers.len() + MAX_ACCEPTS);
        node.turn().unwrap();
        assert_eq!(node.sockets.openings.len(), peers.len() + more.len());
        // If a call takes too long, the turn ends.
        node.max_turn = Duration::ZERO;
        let before = read(&node, 2);
        node.turn().unwrap();
        assert!(read(&node, 2) <= before + 1);
        while read(&node, 2) < 100 {
            node.turn().unwrap();
        }
    }

    #[test]
    fn connections_above_their_time_limit_close_within_a_second() {
        let mut node = node();
        let start = node.clock.now();
        node.close_timed_out(start);
        let conn = conn(&node);
        node.open(conn, LOCALHOST, None, &[Host::of(LOCALHOST)]).unwrap();
        let end = node.sockets.openings.get(0).unwrap().until;
        node.close_timed_out(end);
        assert_eq!(node.sockets.openings.len(), 0);
        let conn = self::conn(&node);
        node.open(conn, LOCALHOST, None, &[Host::of(LOCALHOST)]).unwrap();
        node.sockets.openings.get_mut(1).unwrap().until = end;
        // A turn soon after the sweep does not look at all connections again.
        node.close_timed_out(end + SWEEP_INTERVAL / 2);
        assert_eq!(node.sockets.openings.len(), 1);
        node.close_timed_out(end + SWEEP_INTERVAL);
        assert_eq!(node.sockets.openings.len(), 0);
    }

    #[test]
    fn encrypted_bytes_that_wait_for_the_socket_count_as_memory() {
        let mut node = node();
        let channel = node.relay.accept_channel(node.clock.now(), PeerId(1 << 31), true);
        let mut conn = conn(&node);
        conn.encrypt(&[0; 1000]);
        node.sockets.attach(channel, conn);
        node.sockets.recount(channel);
        assert!(node.sockets.buffered >= 1000);
        node.relay.close_channel(node.clock.now(), channel, &mut node.sockets);
        assert_eq!(node.sockets.buffered, 0);
    }

    #[test]
    fn a_ready_channel_is_queued_once() {
        let mut node = node();
        let channel = node.relay.accept_channel(node.clock.now(), PeerId(1 << 31), true);
        let conn = conn(&node);
        node.sockets.attach(channel, conn);
        node.queue(channel);
        node.queue(channel);
        assert_eq!(node.ready.len(), 1);
        let (token, what) = node.ready.pop_front().unwrap();
        node.serve(token, what);
        node.queue(channel);
        assert_eq!(node.ready.len(), 1);
    }
}
