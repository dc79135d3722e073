//! Which sockets are ready for their owners, and whose turn is next.

use super::host::{Host, Ready};
use super::packet::SockRef;
use super::socket::{Owner, Sock};
use super::{Net, NetEvent};
use crate::queue::HostId;

impl Net<'_> {
    pub(super) fn after_input(&mut self, sock: SockRef) {
        let here = self.sock(sock);
        let owner = here.owner;
        if here.tcp.is_reset() {
            self.on_reset(sock, owner);
            return;
        }
        match owner {
            Owner::Linking(_) => self.link_step(sock),
            Owner::Channel(_) => {
                if self.channel_ended(sock) {
                    self.on_reset(sock, owner);
                } else {
                    self.refresh(sock);
                }
            }
            Owner::Stream(stream) => {
                let here = self.sock(sock);
                if here.tcp.is_established() && !std::mem::replace(&mut here.announced, true) {
                    self.events.push((sock.host, NetEvent::Connected(stream)));
                }
                self.refresh(sock);
            }
            Owner::Server(_) => self.serve_requests(sock),
            Owner::Plain => self.on_plain_input(sock),
            Owner::Closed => self.discard(sock),
        }
    }

    /// Whether the host has ready sockets, or events for its relay.
    pub(crate) fn has_work(&self, id: HostId) -> bool {
        !self.hosts[id as usize].ready.is_empty() || !self.events.is_empty() || self.plain_progress
    }

    /// Adds a socket to the ready sockets if it is ready for an operation that its owner wants.
    pub(crate) fn refresh(&mut self, sock: SockRef) {
        let host = &mut self.hosts[sock.host as usize];
        let Some(here) = host.socks.get_mut(sock.slot as usize) else { return };
        if here.interest.readable && !here.ready.readable && has_input(here) {
            here.ready.readable = true;
            host.ready.push_back(Ready::Readable(sock));
        }
        host.offer_space(sock);
        let here = &mut host.socks[sock.slot as usize];
        let is_channel = matches!(here.owner, Owner::Channel(_));
        if is_channel && here.interest.readable && !here.ready.readable && here.tcp.readable() > 0 {
            here.take_partial(&host.tcp, self.now);
            self.pump(sock);
        }
    }

    /// Removes a socket from the ready sockets. Returns the owner if the operation is still wanted and possible.
    pub(crate) fn take_turn(&mut self, ready: Ready) -> Option<Owner> {
        let (sock, reading) = match ready {
            Ready::Readable(sock) => (sock, true),
            Ready::Writable(sock) => (sock, false),
            Ready::App(_) => return None,
        };
        let host = &mut self.hosts[sock.host as usize];
        if !reading && host.socks.get(sock.slot as usize).is_some_and(Sock::has_record_rest) {
            self.write_rest(sock);
        }
        let host = &mut self.hosts[sock.host as usize];
        let here = host.socks.get_mut(sock.slot as usize)?;
        let possible = if reading {
            here.ready.readable = false;
            here.interest.readable && has_input(here)
        } else {
            here.ready.writable = false;
            here.interest.writable && here.tcp.is_writable(&host.tcp)
        };
        possible.then_some(here.owner)
    }

    pub(super) fn update_unsent(&mut self, sock: SockRef) {
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        let is_channel = matches!(here.owner, Owner::Channel(_) | Owner::Linking(Some(_)));
        let holds = is_channel && (here.tcp.not_sent() > 0 || here.has_record_rest());
        if std::mem::replace(&mut here.holds, holds) != holds {
            host.holding = if holds { host.holding + 1 } else { host.holding - 1 };
        }
    }
}

impl Host {
    /// Adds a socket to the ready sockets if it is writable, and its owner or the rest of a record waits for this.
    pub(super) fn offer_space(&mut self, sock: SockRef) {
        let here = &mut self.socks[sock.slot as usize];
        let is_wanted = here.interest.writable || here.has_record_rest();
        if is_wanted && !here.ready.writable && here.tcp.is_writable(&self.tcp) {
            here.ready.writable = true;
            self.ready.push_back(Ready::Writable(sock));
        }
    }
}

/// Whether the owner of a socket can read data or the end of the stream.
fn has_input(here: &Sock) -> bool {
    match here.owner {
        Owner::Channel(_) => {
            let read = here.messages.front().is_some_and(|(end, _)| *end <= here.tcp.received_end());
            read || here.has_datagrams()
        }
        Owner::Stream(_) => here.tcp.readable() > 0 || here.tcp.receive_closed(),
        Owner::Linking(_) | Owner::Server(_) | Owner::Plain | Owner::Closed => false,
    }
}
