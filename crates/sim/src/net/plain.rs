//! Clients without Tor: a client sends a request to the server over one TCP connection and gets the response.
//!
//! Source: KIST §3 tests TCP with downloads of this kind between two nodes. The application reads all available bytes
//! in one call, like a server.

use super::host::App;
use super::packet::{Peer, SockRef};
use super::socket::{Item, Owner};
use super::{Net, StreamSock};
use crate::queue::HostId;
use crate::tcp::{Endpoint, Info};
use penstock_core::StreamKey;

/// The stream key of every client without Tor. No onion proxy assigns keys to these clients.
pub(crate) const PLAIN: StreamKey = StreamKey::first(0);

impl Net<'_> {
    /// Connects a client without Tor to its server. The client sends the request of `app` over the established
    /// connection.
    pub(crate) fn connect_plain(&mut self, from: HostId, to: HostId, app: App) {
        let sock = self.connect(from, to, Owner::Plain);
        self.hosts[from as usize].set_stream(PLAIN, Some(StreamSock::Plain { sock: Some(sock), app }));
    }

    /// Sends the request after the client's connection was established, and reads all received bytes.
    pub(super) fn on_plain_input(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
        let mut requested = None;
        let Some(Some(StreamSock::Plain { app, .. })) = host.streams.get_mut(PLAIN.index()) else {
            return;
        };
        if here.tcp.is_established() {
            app.connected.get_or_insert(now);
            let written = app.to_send.min(here.tcp.write_space());
            if written > 0 {
                host.writes += 1;
                here.tcp.write(tcp, host.writes, written);
                requested = app.take(written).map(|request| (here.tcp.written_end(), Item::Request(request)));
            }
        }
        let readable = here.tcp.readable();
        if readable > 0 {
            here.tcp.read(tcp, now, readable);
            app.receive(now, readable);
            host.received += readable;
        }
        self.plain_progress = true;
        let ended = here.tcp.receive_closed();
        let (peer, whole) = (here.peer.sock, app.received >= app.wants);
        if let Some((end, request)) = requested {
            self.post(peer, end, request);
        }
        self.pump(sock);
        if ended && !whole {
            self.close_plain(sock.host);
        }
    }

    /// Closes the connection of a client without Tor. The count of received bytes remains until the next connection.
    pub(crate) fn close_plain(&mut self, id: HostId) {
        if let Some(sock) = self.take_plain(id) {
            self.close(sock);
        }
    }

    pub(super) fn take_plain(&mut self, id: HostId) -> Option<SockRef> {
        match self.hosts[id as usize].stream(PLAIN) {
            Some(StreamSock::Plain { sock, .. }) => sock.take(),
            _ => None,
        }
    }

    pub(crate) fn has_plain(&mut self, id: HostId) -> bool {
        matches!(self.hosts[id as usize].stream(PLAIN), Some(StreamSock::Plain { sock: Some(_), .. }))
    }

    /// The current connection of a client without Tor: the client's socket, and the server's.
    pub(crate) fn plain_ends(&mut self, id: HostId) -> Option<(Peer, SockRef)> {
        let StreamSock::Plain { sock: Some(sock), .. } = self.hosts[id as usize].stream(PLAIN)? else {
            return None;
        };
        let sock = *sock;
        let here = self.sock(sock);
        Some((Peer { sock, generation: here.generation }, here.peer.sock))
    }

    /// TCP's state of the server's socket. `client` and `server` are from [`Net::plain_ends`].
    pub(crate) fn plain_server(&self, client: Peer, server: SockRef) -> Info {
        let known = if server.is_known() { Some(server) } else { self.accepted(client, server.host) };
        match known {
            Some(server) => self.tcp_info(server),
            None => Endpoint::new().info(&self.hosts[server.host as usize].tcp),
        }
    }
}
