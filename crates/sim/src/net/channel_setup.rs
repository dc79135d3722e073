//! Setting up a channel: TCP's handshake, then TLS's and Tor's on top of it.

use super::socket::{Item, SockRef};
use super::{Net, NetEvent, Owner, sides};
use penstock_units::fifo::take_first;

/// What each side sends in turn, the initiator first [B].
///
/// ClientHello; ServerHello with certificate; key exchange and VERSIONS; VERSIONS, CERTS,
/// AUTH_CHALLENGE and NETINFO; CERTS, AUTHENTICATE and NETINFO. Three round trips with TCP's.
///
/// Source: tor-spec §2 and §4 (link protocol 3 and later); sizes are typical ones of TLS 1.2 with
/// RSA-1024 certificates.
const FLIGHTS: [u64; 5] = [250, 1400, 600, 2600, 2100];

impl Net {
    /// A connection in the making got something: bound_counts with the next train_in_flight.
    pub(super) fn link_step(&mut self, sock: SockRef) {
        let now = self.now();
        let conn = &mut self.conns[sock.conn as usize];
        let peer = conn.sides[sock.peer().side as usize].host;
        let [here, there] = sides(conn, sock);
        if !here.tcp.is_established() {
            return;
        }
        let id = here.host;
        let tcp = &self.hosts[id as usize].tcp;
        let mut next = None;
        if sock.side == 0 && !std::mem::replace(&mut here.announced, true) {
            next = Some(0);
        }
        if let Some((end, Item::Link(step))) = there.sent.front().copied()
            && end <= here.tcp.received_end()
        {
            take_first(&mut there.sent);
            here.tcp.read(tcp, now, FLIGHTS[step as usize]);
            next = Some(step + 1);
        }
        let Some(step) = next else { return };
        if let Some(bytes) = FLIGHTS.get(step as usize) {
            here.tcp.write(tcp, now, *bytes);
            here.sent.push_back((here.tcp.written_end(), Item::Link(step)));
        }
        // The initiator may use the channel with its last train_in_flight, the responder once it has it.
        let last = FLIGHTS.len() as u8 - 1;
        if step == last || step == last + 1 {
            let event = match here.owner {
                Owner::Linking(Some(channel)) => {
                    here.owner = Owner::Channel(channel);
                    NetEvent::Opened(channel, peer)
                }
                _ => NetEvent::Accepted(sock, peer),
            };
            self.events.push((id, event));
        }
        self.pump(sock);
    }
}
