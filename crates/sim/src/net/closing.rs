//! How connections end: by their owner, by the peer, or by a reset.

use super::packet::{Peer, SockRef};
use super::socket::{Item, Owner};
use super::{Net, NetEvent};
use penstock_units::fifo::take_first;

impl Net<'_> {
    pub(super) fn on_reset(&mut self, sock: SockRef, owner: Owner) {
        let id = sock.host;
        match owner {
            Owner::Channel(channel) | Owner::Linking(Some(channel)) => {
                self.events.push((id, NetEvent::ChannelBroke(channel)));
            }
            Owner::Stream(stream) => self.events.push((id, NetEvent::StreamBroke(stream))),
            Owner::Plain => {
                self.plain_progress = true;
                self.take_plain(id);
            }
            Owner::Linking(None) | Owner::Server(_) | Owner::Closed => {}
        }
        self.abandon(sock);
    }

    /// Whether the peer has closed the channel, and the relay has read all received bytes.
    pub(super) fn channel_ended(&mut self, sock: SockRef) -> bool {
        self.sock(sock).tcp.receive_closed()
    }

    pub(super) fn discard(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        while here.messages.front().is_some_and(|(end, _)| *end <= here.tcp.received_end()) {
            self.lost += u64::from(matches!(take_first(&mut here.messages), Some((_, Item::Cell(_)))));
        }
        let readable = here.tcp.readable();
        if readable > 0 {
            here.tcp.read(&host.tcp, now, readable);
            self.pump(sock);
        }
        self.mark_closed(sock);
    }

    /// Closes the owner's side. If the owner has read all data and the FIN of the peer, TCP still sends the written
    /// bytes. Otherwise it aborts the connection, as in Linux `tcp_close()`.
    pub(crate) fn close(&mut self, sock: SockRef) {
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        here.owner = Owner::Closed;
        here.interest = Default::default();
        if here.tcp.receive_closed() {
            debug_assert!(!here.has_record_rest(), "a channel that ends with a FIN was reset before");
            here.tcp.shutdown();
        } else {
            here.tcp.reset();
        }
        self.pump(sock);
        self.discard(sock);
    }

    /// Removes the owner of a broken connection.
    pub(super) fn abandon(&mut self, sock: SockRef) {
        let here = self.sock(sock);
        here.owner = Owner::Closed;
        here.interest = Default::default();
        here.drop_record_rest();
        self.update_unsent(sock);
        self.mark_closed(sock);
    }

    /// Marks a socket for removal if it is closed.
    pub(super) fn mark_closed(&mut self, sock: SockRef) {
        let here = self.sock(sock);
        if here.is_done() && !std::mem::replace(&mut here.marked, true) {
            let generation = here.generation;
            self.closed.push(Peer { sock, generation });
        }
    }
}
