//! One UDP socket with DTLS, beside the TLS connection of a link.

use super::mtu::PathMtu;
use crate::clock::Clock;
use crate::dtls::{self, DtlsIdentity, MAX_PACKET, OVERHEAD, SESSION_MEMORY};
use crate::node::conn::is_transient;
use crate::node::trace::Left;
use dimpl::{Dtls, Output};
use penstock_link::datagram::{Hello, PathOffer, Token};
use penstock_units::{Duration, Instant};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Time between two answers to HELLOs. They take no tokens, so a peer must not cause many.
const ANSWER_INTERVAL: Duration = Duration::from_millis(50);
/// An open path has failed if the peer answers none of the datagrams of this time.
pub(super) const DEAD: Duration = Duration::from_secs(5);
/// Before the peer has shown its token, a responder sends at most this many times the received bytes (RFC 9000
/// section 8.1).
const AMPLIFICATION: u64 = 3;
/// Maximum number of datagrams that wait for the relay [1]. Datagrams wait before the initiator's SELECT arrives, and if
/// the relay's read limit is reached.
const MAX_INBOX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum PathState {
    /// The peer's PATH, the DTLS handshake or the peer's token is missing.
    Unconfirmed,
    /// A full datagram with the right token came back. The link is not open yet.
    Confirmed,
    /// The path does not work, for this reason. The link is not open yet.
    Failed(&'static str),
    /// The link is open. Datagrams travel over UDP.
    Open,
    /// The link is open. Datagrams travel over TLS, because UDP stopped working.
    Tunnel,
}

pub(in crate::node) struct Path {
    /// `None` after the path has failed.
    pub(in crate::node) socket: Option<UdpSocket>,
    /// `None` after the path has failed, so that its memory is free.
    dtls: Option<Dtls>,
    pub(super) is_initiator: bool,
    pub(super) ours: PathOffer,
    pub(super) theirs: Option<PathOffer>,
    pub(in crate::node) state: PathState,
    /// Whether the peer has shown the certificate that it named.
    has_certificate: bool,
    is_connected: bool,
    /// Decrypted datagrams so far [1].
    decrypted: u64,
    /// Packets that the session may store since its handshake, because they had no datagram [1].
    stored: u64,
    /// Bytes in both directions so far [B].
    received: u64,
    sent: u64,
    /// Decrypted datagrams that wait for the relay.
    pub(in crate::node) inbox: VecDeque<Box<[u8]>>,
    pub(super) mtu: PathMtu,
    /// Whether `mtu` has shrunk, until the relay knows it.
    pub(super) has_shrunk: bool,
    next_answer: Instant,
    dtls_timeout: std::time::Instant,
    /// When this node sent the first datagram that the peer must answer, since the last datagram from the peer.
    unanswered: Option<Instant>,
    /// Received bytes that belong to no datagram of circuits, until the relay's token buckets count them [B].
    pub(super) uncounted: u64,
    /// Whether an open path stopped working, until the node counts this.
    pub(super) has_broken: bool,
    /// Whether epoll reports readable bytes of the UDP socket.
    pub(in crate::node) is_watched: bool,
    #[cfg(test)]
    pub(super) middlebox: Option<super::tests::Middlebox>,
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A UDP socket that never blocks and never sends fragments.
///
/// The kernel ignores ICMP messages about the path MTU, which anyone can forge ([`PathMtu`]).
pub(in crate::node) fn udp_socket(at: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // An IPv6 socket with an IPv4-mapped address sends packets of IPv4.
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
    if at.is_ipv6() {
        set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    // All accepted links have a connected socket with the port of the listener.
    socket.set_reuse_port(shared)?;
    socket.bind(&at.into())?;
    Ok(socket.into())
}

impl Path {
    /// The initiator's end. Its socket has a new port, and sends to the address of the TCP connection.
    pub(super) fn initiator(
        identity: &DtlsIdentity,
        clock: Clock,
        [local, peer]: [SocketAddr; 2],
        token: Token,
    ) -> io::Result<Self> {
        let socket = udp_socket(SocketAddr::new(local.ip(), 0), false)?;
        socket.connect(peer)?;
        let port = socket.local_addr()?.port();
        Ok(Path::new(
            identity,
            clock,
            socket,
            true,
            PathOffer { certificate: identity.sha256(), token, port },
        ))
    }

    /// The responder's end. Its socket has the port of the TCP listener.
    pub(super) fn responder(
        identity: &DtlsIdentity,
        clock: Clock,
        [local, peer]: [SocketAddr; 2],
        token: Token,
    ) -> io::Result<Self> {
        let socket = udp_socket(local, true)?;
        socket.connect(peer)?;
        let ours = PathOffer { certificate: identity.sha256(), token, port: 0 };
        Ok(Path::new(identity, clock, socket, false, ours))
    }

    fn new(
        identity: &DtlsIdentity,
        clock: Clock,
        socket: UdpSocket,
        is_initiator: bool,
        ours: PathOffer,
    ) -> Self {
        let now = clock.now();
        Path {
            socket: Some(socket),
            dtls: Some(identity.session(is_initiator, clock.at(now))),
            is_initiator,
            ours,
            theirs: None,
            state: PathState::Unconfirmed,
            has_certificate: false,
            is_connected: false,
            decrypted: 0,
            stored: 0,
            received: 0,
            sent: 0,
            inbox: VecDeque::new(),
            mtu: PathMtu::new(now),
            has_shrunk: false,
            next_answer: now,
            dtls_timeout: clock.at(now),
            unanswered: None,
            uncounted: 0,
            has_broken: false,
            is_watched: false,
            #[cfg(test)]
            middlebox: None,
        }
    }

    /// Sends all packets through a middlebox.
    #[cfg(test)]
    pub(super) fn through(self, middlebox: Option<super::tests::Middlebox>) -> Self {
        Path { middlebox, ..self }
    }

    /// The memory of the path [B].
    pub(in crate::node) fn memory(&self) -> u64 {
        let session = match self.dtls {
            None => 0,
            Some(_) if self.is_connected => dtls::finished_memory(self.stored),
            Some(_) => SESSION_MEMORY,
        };
        session + self.inbox.iter().map(|datagram| datagram.len() as u64).sum::<u64>()
    }

    /// When to call [`on_timer`](Self::on_timer) before the link is open.
    pub(super) fn poll_timeout(&self, clock: Clock) -> Instant {
        if self.theirs.is_none() || self.socket.is_none() {
            Instant::FAR_FUTURE
        } else if self.is_initiator && self.is_connected {
            self.mtu.next
        } else {
            clock.time_of(self.dtls_timeout)
        }
    }

    /// The link uses this path from now on.
    pub(super) fn open(&mut self) {
        self.has_broken |= self.socket.is_none();
        self.state = if self.socket.is_some() { PathState::Open } else { PathState::Tunnel };
    }

    /// The peer's PATH has arrived.
    pub(super) fn on_offer(&mut self, clock: Clock, theirs: PathOffer) {
        self.theirs = Some(theirs);
        self.on_timer(clock);
    }

    pub(super) fn on_timer(&mut self, clock: Clock) {
        // The DTLS handshake starts when both sides know the other's certificate.
        if self.theirs.is_none() || matches!(self.state, PathState::Failed(_)) {
            return;
        }
        let now = clock.now();
        let Some(dtls) = &mut self.dtls else { return };
        if dtls.handle_timeout(clock.at(now)).is_err() {
            return self.fail("dtls");
        }
        self.drain(clock);
        let waits = self.is_initiator && self.is_connected && self.state == PathState::Unconfirmed;
        if waits && self.mtu.poll(now, false) {
            self.say_hello(clock, false, self.mtu.size());
        }
    }

    fn say_hello(&mut self, clock: Clock, back: bool, size: usize) {
        if let Some(theirs) = self.theirs {
            self.send(clock, &Hello { back, size, token: theirs.token }.write());
        }
    }

    /// When to call [`confirm_size`](Self::confirm_size) on an open path.
    pub(super) fn confirm_timeout(&self) -> Option<Instant> {
        self.mtu.poll_timeout().filter(|_| self.state == PathState::Open)
    }

    /// Sends a HELLO on an open path if one is due. Fails if not even small datagrams arrive.
    pub(super) fn confirm_size(&mut self, clock: Clock, now: Instant) {
        if self.mtu.is_dead(now) {
            return self.fail("mtu");
        }
        let before = self.mtu.size();
        if self.mtu.poll(now, true) {
            self.has_shrunk |= self.mtu.size() < before;
            self.say_hello(clock, false, self.mtu.size());
        }
    }

    /// Sends a datagram over UDP. It may be lost.
    pub(super) fn send(&mut self, clock: Clock, datagram: &[u8]) {
        let Some(dtls) = &mut self.dtls else { return };
        if dtls.send_application_data(datagram).is_err() {
            return self.fail("dtls");
        }
        self.drain(clock);
    }

    /// Sends a datagram of circuits. `needs_answer`: the peer must answer it. Returns false if the datagram must travel
    /// over TLS.
    pub(in crate::node) fn send_messages(
        &mut self,
        clock: Clock,
        datagram: &[u8],
        needs_answer: bool,
    ) -> bool {
        if self.state == PathState::Open {
            let now = clock.now();
            if self.unanswered.is_some_and(|since| now.since(since) >= DEAD) {
                self.fail("silent");
                return false;
            }
            if needs_answer {
                self.unanswered.get_or_insert(now);
            }
            self.confirm_size(clock, now);
        }
        if self.state == PathState::Open {
            self.send(clock, datagram);
        }
        self.state == PathState::Open
    }

    /// Where the last packet left the node; `None` if it travelled over TLS.
    pub(super) fn left(&self) -> Option<Left> {
        let socket = self.socket.as_ref()?;
        let (local, peer) = (socket.local_addr().ok()?, socket.peer_addr().ok()?);
        Some(Left { local, peer, bytes: self.sent, is_udp: true })
    }

    /// Reads one packet. Returns whether there was one.
    pub(in crate::node) fn read(&mut self, clock: Clock, room: &mut [u8]) -> bool {
        let read = match self.socket.as_ref().map(|socket| socket.recv(room)) {
            Some(Ok(read)) => read,
            // An ICMP message of an earlier packet: that packet is lost.
            Some(Err(error)) => return !is_transient(&error),
            None => return false,
        };
        self.on_packet(clock, &room[..read]);
        true
    }

    pub(super) fn on_packet(&mut self, clock: Clock, packet: &[u8]) {
        if self.theirs.is_none() || packet.len() > MAX_PACKET || self.socket.is_none() {
            return;
        }
        let Some(dtls) = &mut self.dtls else { return };
        self.received += packet.len() as u64;
        let now = clock.at(clock.now());
        // The session drops forged and replayed packets, and reports no error for them.
        if dtls.handle_timeout(now).and_then(|()| dtls.handle_packet(packet)).is_err() {
            return self.fail("dtls");
        }
        let (was_connected, before) = (self.is_connected, self.decrypted);
        self.drain(clock);
        self.stored += u64::from(was_connected && self.decrypted == before);
    }

    fn drain(&mut self, clock: Clock) {
        let mut room = [0; MAX_PACKET + 64];
        loop {
            let Some(dtls) = &mut self.dtls else { return };
            match dtls.poll_output(&mut room) {
                Output::Packet(packet) => {
                    let len = packet.len();
                    self.transmit(&room[..len]);
                }
                Output::PeerCert(certificate) => {
                    let named = self.theirs.map(|theirs| theirs.certificate);
                    self.has_certificate = named == Some(dtls::sha256(certificate));
                    if !self.has_certificate {
                        return self.fail("certificate");
                    }
                }
                Output::Connected if self.has_certificate => self.is_connected = true,
                Output::Connected => return self.fail("certificate"),
                Output::ApplicationData(datagram) => {
                    let len = datagram.len();
                    self.on_plain(clock, &room[..len]);
                }
                Output::CloseNotify => return self.fail("closed"),
                Output::Timeout(at) => {
                    self.dtls_timeout = at;
                    return;
                }
                Output::BufferTooSmall { .. } => return self.fail("dtls"),
                _ => {}
            }
        }
    }

    /// Handles a decrypted datagram. The session accepts data only from the holder of the named certificate.
    fn on_plain(&mut self, clock: Clock, datagram: &[u8]) {
        self.unanswered = None;
        self.decrypted += 1;
        match Hello::read(datagram) {
            Some(Ok(hello)) if hello.token == self.ours.token => self.on_hello(clock, hello),
            Some(_) => self.fail("token"),
            None if self.state != PathState::Unconfirmed && self.inbox.len() < MAX_INBOX => {
                self.inbox.push_back(datagram.into());
            }
            // The relay is too slow, or the peer's HELLO is lost. The peer sends the cells again.
            None => {}
        }
    }

    fn on_hello(&mut self, clock: Clock, hello: Hello) {
        let now = clock.now();
        self.uncounted += (hello.size + OVERHEAD) as u64;
        if hello.back {
            self.mtu.on_answer(now, hello.size);
        } else {
            let before = self.mtu.size();
            self.mtu.on_hello(hello.size);
            self.has_shrunk |= self.mtu.size() < before;
        }
        if self.state == PathState::Unconfirmed && hello.back == self.is_initiator {
            self.state = PathState::Confirmed;
        }
        if !hello.back && self.next_answer <= now {
            self.next_answer = now + ANSWER_INTERVAL;
            self.say_hello(clock, true, hello.size);
        }
    }

    fn transmit(&mut self, packet: &[u8]) {
        let sent = self.sent + packet.len() as u64;
        let is_proven = self.is_initiator || self.state != PathState::Unconfirmed;
        if !is_proven && sent > AMPLIFICATION * self.received {
            return;
        }
        self.sent = sent;
        let Some(socket) = &self.socket else { return };
        #[cfg(test)]
        if let Some(middlebox) = &mut self.middlebox {
            return middlebox.pass(socket, packet);
        }
        match socket.send(packet) {
            // The interface cannot send packets of this size.
            Err(error) if error.raw_os_error() == Some(nix::libc::EMSGSIZE) => {
                if packet.len() > self.mtu.size() + OVERHEAD {
                    return;
                }
                if self.mtu.shrink() {
                    self.has_shrunk = true;
                } else {
                    self.fail("mtu");
                }
            }
            // A full send buffer loses the packet, as a full queue of the network does.
            _ => {}
        }
    }

    /// The path does not work, so its socket closes. An open link continues over TLS.
    pub(super) fn fail(&mut self, reason: &'static str) {
        self.has_broken |= self.state == PathState::Open;
        self.state = match self.state {
            PathState::Open | PathState::Tunnel => PathState::Tunnel,
            PathState::Failed(first) => PathState::Failed(first),
            PathState::Unconfirmed | PathState::Confirmed => PathState::Failed(reason),
        };
        (self.socket, self.dtls) = (None, None);
    }
}
