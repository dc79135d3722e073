//! Channel setup: the handshakes of TCP, TLS and Tor.

use super::packet::SockRef;
use super::socket::Item;
use super::{Net, NetEvent, Owner};
use penstock_units::fifo::take_first;

/// The sizes of the messages during channel setup [B]. The two sides send them alternately, beginning with the
/// initiator.
///
/// The messages are: ClientHello; ServerHello with certificate; key exchange and VERSIONS; VERSIONS, CERTS,
/// AUTH_CHALLENGE and NETINFO; CERTS, AUTHENTICATE and NETINFO. Together with TCP's handshake, setup takes three round
/// trips.
/// Source: tor-spec §2 and §4 (link protocol 3 and later). The sizes are typical of TLS 1.2 with RSA-1024 certificates.
const FLIGHTS: [u64; 5] = [250, 1400, 600, 2600, 2100];

impl Net<'_> {
    pub(super) fn link_step(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
        if !here.tcp.is_established() {
            return;
        }
        let mut next = None;
        if here.initiator && !std::mem::replace(&mut here.announced, true) {
            next = Some(0);
        }
        if let Some((end, Item::Link(step))) = here.messages.front().copied()
            && end <= here.tcp.received_end()
        {
            take_first(&mut here.messages);
            here.tcp.read(tcp, now, FLIGHTS[step as usize]);
            next = Some(step + 1);
        }
        let Some(step) = next else { return };
        let peer = here.peer.sock;
        let written = FLIGHTS.get(step as usize).map(|bytes| {
            host.writes += 1;
            here.tcp.write(tcp, host.writes, *bytes);
            here.tcp.written_end()
        });
        // The initiator may use the channel after it has sent the last message; the responder, after it has received
        // that message.
        let last = FLIGHTS.len() as u8 - 1;
        if step == last || step == last + 1 {
            let event = match here.owner {
                Owner::Linking(Some(channel)) => {
                    here.owner = Owner::Channel(channel);
                    NetEvent::Opened(channel, peer.host)
                }
                _ => NetEvent::Accepted(sock, peer.host),
            };
            self.events.push((sock.host, event));
        }
        if let Some(end) = written {
            self.post(peer, end, Item::Link(step));
        }
        self.pump(sock);
    }
}
