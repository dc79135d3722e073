//! The state of hosts and sockets, for samples, bounds and reports.

use super::packet::SockRef;
use super::socket::{Sock, TrainInFlight};
use super::{Net, TICK};
use crate::queue::HostId;
use crate::tcp::Info;
use penstock_units::{Bytes, Cells};

impl Net<'_> {
    /// Whether more than one packet waits for the access link, in either direction.
    pub(crate) fn link_waits(&self, id: HostId) -> bool {
        let host = &self.hosts[id as usize];
        let packet = Bytes::new(host.tcp.full_segment());
        host.up.backlog(self.now) > packet || host.down.backlog(self.now) > packet || !host.line.is_empty()
    }

    /// Whether a channel's socket holds bytes that TCP cannot send yet.
    pub(crate) fn tcp_waits(&self, id: HostId) -> bool {
        let host = &self.hosts[id as usize];
        let waits = host.holding > 0;
        debug_assert_eq!(waits, host.channels.iter().flatten().any(|sock| self.tcp_info(*sock).not_sent > 0));
        waits
    }

    pub(crate) fn cpu_waits(&self, id: HostId) -> bool {
        self.hosts[id as usize].cpu.as_ref().is_some_and(|cpu| cpu.awaited)
    }

    /// Bytes that the access link has sent and received [B].
    pub(crate) fn carried(&mut self, id: HostId) -> [Bytes; 2] {
        let now = self.now;
        self.enqueue(id, now + TICK);
        let host = &self.hosts[id as usize];
        [host.up.carried(now), host.down.carried(now)]
    }

    /// Bytes in the send buffers of all channels [B].
    pub(crate) fn kernel_out(&self, id: HostId) -> u64 {
        let sockets = self.hosts[id as usize].channels.iter().flatten();
        sockets.map(|sock| self.tcp_info(*sock).queued).sum()
    }

    /// The state of a socket's TCP. The rest of a TLS record counts as queued.
    pub(crate) fn tcp_info(&self, sock: SockRef) -> Info {
        let host = &self.hosts[sock.host as usize];
        let here = &host.socks[sock.slot as usize];
        let (info, rest) = (here.tcp.info(&host.tcp), here.record_rest());
        Info { queued: info.queued + rest, not_sent: info.not_sent + rest, ..info }
    }

    pub(crate) fn is_done(&self, sock: SockRef) -> bool {
        self.hosts[sock.host as usize].socks[sock.slot as usize].is_done()
    }

    /// Cells, connections and packets of the hosts of this shard. `is_done` is for the other end of a connection.
    pub(crate) fn report(&self, is_done: impl Fn(SockRef) -> bool) -> crate::NetworkReport {
        let socks = || self.hosts.values().flat_map(|host| host.socks.iter().map(|(_, sock)| sock));
        let is_open = |sock: &&Sock| {
            let peer = sock.peer.sock;
            sock.initiator && !(sock.is_done() && peer.is_known() && is_done(peer))
        };
        crate::NetworkReport {
            cells: Cells::new(socks().map(Sock::cells).sum()),
            lost: Cells::new(self.lost),
            connections: socks().filter(is_open).count(),
            packets: socks().flat_map(|sock| &sock.inbound).map(TrainInFlight::packets).sum::<usize>()
                + self.datagrams.len(),
        }
    }
}
