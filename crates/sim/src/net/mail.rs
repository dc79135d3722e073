//! Messages between hosts. A host changes the state of another host only through them.
//!
//! If both hosts belong to the same shard, the message is delivered at once. Otherwise it waits in the outbox until the
//! end of the window. The receiver sees no difference: a packet arrives at the earliest in the next window, and the
//! relay reads the messages of a stream only after their bytes have arrived.

use super::datagrams::Datagram;
use super::packet::{Arrival, Packet, Peer, SockRef};
use super::socket::{Item, Owner, Sock, Tracked, TrainInFlight};
use super::{Host, Net};
use crate::queue::HostId;
use penstock_units::Instant;

/// A message to a host of another shard.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Segments of a connection. `owner` is the owner of the sending socket.
    Train {
        slot: u32,
        from: Peer,
        owner: Owner,
        train: TrainInFlight,
    },
    /// A message of a stream, with the stream position after it.
    Message {
        slot: u32,
        end: u64,
        item: Item,
    },
    /// A message of a stream whose arrival is recorded.
    Tracked {
        slot: u32,
        tracked: Tracked,
    },
    Datagram {
        at: Instant,
        from: HostId,
        count: u64,
        datagram: Datagram,
    },
    /// A client has built a circuit with the relay in this position.
    Served(usize),
}

impl Mail {
    /// When the host has to act because of this message.
    fn arrival(&self) -> Instant {
        match self {
            Mail::Train { train, .. } => train.at,
            Mail::Datagram { at, .. } => *at,
            Mail::Message { .. } | Mail::Tracked { .. } | Mail::Served(_) => Instant::FAR_FUTURE,
        }
    }
}

/// Messages to hosts of other shards.
#[derive(Debug)]
pub(crate) struct Outbox<'a> {
    shard_of: &'a [u8],
    /// The messages to each shard.
    pub(crate) mail: Vec<Vec<(HostId, Mail)>>,
    /// The earliest arrival of a packet in the outbox.
    pub(crate) earliest: Instant,
}

impl<'a> Outbox<'a> {
    /// An empty outbox for this number of `shards`. `shard_of` is the shard of each host.
    pub(crate) fn new(shard_of: &'a [u8], shards: usize) -> Self {
        Outbox { shard_of, mail: (0..shards).map(|_| Vec::new()).collect(), earliest: Instant::FAR_FUTURE }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mail.iter().all(Vec::is_empty)
    }

    #[cold]
    pub(crate) fn push(&mut self, to: HostId, mail: Mail) {
        self.earliest = self.earliest.min(mail.arrival());
        self.mail[usize::from(self.shard_of[to as usize])].push((to, mail));
    }
}

impl Net<'_> {
    /// Delivers a message of another shard. The caller handles [`Mail::Served`].
    pub(crate) fn deliver(&mut self, to: HostId, mail: Mail) {
        match mail {
            Mail::Train { slot, from, owner, train } => {
                self.deliver_train(SockRef { host: to, slot }, from, owner, train);
            }
            Mail::Message { slot, end, item } => {
                self.hosts[to as usize].socks[slot as usize].messages.push_back((end, item));
            }
            Mail::Tracked { slot, tracked } => {
                self.hosts[to as usize].socks[slot as usize].cold_mut().arriving.push_back(tracked);
            }
            Mail::Datagram { at, from, count, datagram } => {
                self.deliver_datagram(to, at, from, count, datagram);
            }
            Mail::Served(_) => {}
        }
    }

    /// Sends segments to the peer of a socket. The first segments open the peer's socket.
    pub(super) fn post_train(&mut self, to: SockRef, from: Peer, owner: Owner, train: TrainInFlight) {
        if self.hosts.contains(to.host) {
            self.deliver_train(to, from, owner, train);
        } else {
            self.outbox.push(to.host, Mail::Train { slot: to.slot, from, owner, train });
        }
    }

    fn deliver_train(&mut self, to: SockRef, from: Peer, owner: Owner, train: TrainInFlight) {
        let slot = if to.is_known() { to.slot } else { self.accept(to.host, from, owner) };
        let sock = &mut self.hosts[to.host as usize].socks[slot as usize];
        if !sock.peer.sock.is_known() {
            sock.peer = from;
        }
        let arrival = Arrival {
            at: train.at,
            from: from.sock.host,
            count: train.count,
            bytes: train.train.first.wire_bytes() as u32,
            what: Packet::Segment(slot),
        };
        sock.inbound.push_back(train);
        if sock.inbound.len() == sock.enqueued + 1 {
            self.transmit(to.host, arrival);
        }
    }

    /// The slot of the socket that a peer opens on this host. The peer repeats its SYN if an answer is late.
    fn accept(&mut self, id: HostId, from: Peer, owner: Owner) -> u32 {
        let key = (from.sock.host, from.generation);
        if let Some(slot) = self.hosts[id as usize].accepted.get(&key) {
            return *slot;
        }
        self.generations += 1;
        let mut sock = Sock::new(self.generations, from, self.wire(id, from.sock.host), owner.of_acceptor());
        sock.tcp.listen();
        let host = &mut self.hosts[id as usize];
        let slot = host.socks.insert(sock) as u32;
        host.accepted.insert(key, slot);
        slot
    }

    /// Passes a message to the peer, which can read it after the bytes before `end` have arrived.
    pub(super) fn post(&mut self, to: SockRef, end: u64, item: Item) {
        if self.hosts.contains(to.host) {
            self.sock(to).messages.push_back((end, item));
        } else {
            self.outbox.push(to.host, Mail::Message { slot: to.slot, end, item });
        }
    }

    pub(super) fn post_datagram(
        &mut self,
        to: HostId,
        at: Instant,
        from: HostId,
        count: u64,
        datagram: Datagram,
    ) {
        if self.hosts.contains(to) {
            self.deliver_datagram(to, at, from, count, datagram);
        } else {
            self.outbox.push(to, Mail::Datagram { at, from, count, datagram });
        }
    }

    fn deliver_datagram(&mut self, to: HostId, at: Instant, from: HostId, count: u64, datagram: Datagram) {
        let bytes = datagram.wire_bytes() as u32;
        let what = Packet::Datagram(self.datagrams.insert(datagram) as u32);
        self.transmit(to, Arrival { at, from, count, bytes, what });
    }
}

/// Removes connections after both ends have closed. `shard_of` is the index in `nets` for each host. All messages must
/// have been delivered.
pub(crate) fn remove_closed(nets: &mut [&mut Net<'_>], shard_of: &[u8]) {
    for shard in 0..nets.len() {
        let mut closed = std::mem::take(&mut nets[shard].closed);
        closed.retain(|end| !remove(nets, shard_of, *end));
        nets[shard].closed = closed;
    }
}

/// Removes both ends of a connection if both are over. Returns whether this end no longer exists.
///
/// A socket stays while a packet is on its way or the socket is in the list of ready sockets. A new socket in the same
/// slot would otherwise inherit the packet or the entry.
fn remove(nets: &mut [&mut Net<'_>], shard_of: &[u8], end: Peer) -> bool {
    let shard = |sock: SockRef| usize::from(shard_of[sock.host as usize]);
    let host = &mut nets[shard(end.sock)].hosts[end.sock.host as usize];
    let Some(here) = host.sock_of(end.sock.slot, end.generation) else { return true };
    if !here.is_over() {
        return false;
    }
    let peer = here.peer.sock;
    let peer = if peer.is_known() { Some(peer) } else { nets[shard(peer)].accepted(end, peer.host) };
    if peer.is_some_and(|peer| !nets[shard(peer)].sock(peer).is_over()) {
        return false;
    }
    for end in [Some(end.sock), peer].into_iter().flatten() {
        let net = &mut nets[shard(end)];
        let host = &mut net.hosts[end.host as usize];
        let cells = host.remove(end.slot);
        net.lost += cells;
    }
    true
}

impl Net<'_> {
    /// The socket on `host` that has accepted the connection of `end`.
    pub(crate) fn accepted(&self, end: Peer, host: HostId) -> Option<SockRef> {
        let slot = *self.hosts[host as usize].accepted.get(&(end.sock.host, end.generation))?;
        Some(SockRef { host, slot })
    }
}

impl Host {
    /// Removes a socket. Returns the cells that the host has not read.
    fn remove(&mut self, slot: u32) -> u64 {
        self.nic_waiters.retain(|waiter| *waiter != slot);
        let sock = self.socks.remove(slot as usize);
        if !sock.initiator {
            self.accepted.remove(&(sock.peer.sock.host, sock.peer.generation));
        }
        sock.cells()
    }
}
