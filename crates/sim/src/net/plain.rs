//! Clients without Tor: a request and its answer over one TCP connection to the server.
//!
//! Source: KIST §3 downloads so between two nodes to test its TCP. The application reads whatever arrives at
//! once, as a server does.

use super::host::App;
use super::socket::{Item, Owner, SockRef};
use super::{Net, StreamSock, sides};
use crate::queue::HostId;
use crate::tcp::Info;
use penstock_core::StreamKey;

/// The only stream of a client without Tor, which has no onion proxy to number them.
pub(crate) const PLAIN: StreamKey = StreamKey(0);

impl Net {
    /// A client without Tor connects to its server, to send the request of `app` when it is there.
    pub(crate) fn connect_plain(&mut self, from: HostId, to: HostId, app: App) {
        let sock = self.connect(from, to, Owner::Plain, Owner::Server(0));
        self.hosts[from as usize].set_stream(PLAIN, Some(StreamSock::Plain { sock: Some(sock), app }));
    }

    /// Something changed on a client's own connection: asks when it is established, takes what arrived.
    pub(super) fn on_plain_input(&mut self, sock: SockRef) {
        let now = self.now();
        let [here, _] = sides(&mut self.conns[sock.conn as usize], sock);
        let host = &mut self.hosts[here.host as usize];
        let tcp = &host.tcp;
        let Some(Some(StreamSock::Plain { app, .. })) = host.streams.get_mut(PLAIN.0 as usize) else {
            return;
        };
        if here.tcp.is_established() {
            app.connected.get_or_insert(now);
            let written = app.request.min(here.tcp.write_space(tcp));
            if written > 0 {
                here.tcp.write(tcp, now, written);
                if let Some(request) = app.take(written) {
                    here.sent.push_back((here.tcp.written_end(), Item::Request(request)));
                }
            }
        }
        let readable = here.tcp.readable();
        if readable > 0 {
            here.tcp.read(tcp, now, readable);
            app.receive(now, readable);
        }
        self.plain_progress = true;
        let ended = here.tcp.receive_closed();
        let (id, whole) = (here.host, app.received >= app.wants);
        self.pump(sock);
        if ended && !whole {
            self.close_plain(id);
        }
    }

    /// A client's own connection is over, or broke; what arrived stays until the next one.
    pub(crate) fn close_plain(&mut self, id: HostId) {
        if let Some(sock) = self.take_plain(id) {
            self.close(sock);
        }
    }

    /// The client no longer has its connection.
    pub(super) fn take_plain(&mut self, id: HostId) -> Option<SockRef> {
        match self.hosts[id as usize].stream(PLAIN) {
            Some(StreamSock::Plain { sock, .. }) => sock.take(),
            _ => None,
        }
    }

    /// Whether a client still has its own connection.
    pub(crate) fn has_plain(&mut self, id: HostId) -> bool {
        matches!(self.hosts[id as usize].stream(PLAIN), Some(StreamSock::Plain { sock: Some(_), .. }))
    }

    /// What TCP says at the server of a client's own connection.
    pub(crate) fn plain_server(&mut self, id: HostId) -> Option<Info> {
        match self.hosts[id as usize].stream(PLAIN)? {
            StreamSock::Plain { sock: Some(sock), .. } => {
                let peer = sock.peer();
                Some(self.tcp_info(peer))
            }
            _ => None,
        }
    }
}
