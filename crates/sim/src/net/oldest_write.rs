//! The interface of Shadow 1.x. Segments wait in their sockets, and the interface sends the oldest write first.
//!
//! Source: Shadow 1.9.0 `_networkinterface_selectFirstInFirstOut`, `packet_new` (`host_getNextPacketPriority`),
//! `socket_addToOutputBuffer`.
//! Deviation: a retransmission has the place of an ACK. In Shadow, it keeps the number of its write.

use super::Net;
use super::packet::SockRef;
use crate::queue::HostId;
use crate::tcp::Train;
use penstock_units::fifo::take_first;

impl Net<'_> {
    /// Queues the segments that TCP may send in their socket, and sends at once while the interface is idle.
    pub(super) fn queue_segments(&mut self, sock: SockRef) {
        let now = self.now();
        loop {
            let host = &mut self.hosts[sock.host as usize];
            let here = &mut host.socks[sock.slot as usize];
            let write = here.tcp.next_write(&host.tcp);
            let Some(Train { first, .. }) = here.tcp.poll_train(&host.tcp, now, 1) else { break };
            let waiting = &mut here.cold_mut().waiting;
            waiting.push_back((write, first));
            if waiting.len() == 1 {
                host.line.insert((write, sock.slot));
            }
            if host.up.is_idle(now) {
                self.serve_line(sock.host);
            } else {
                self.schedule_nic(sock.host);
            }
        }
    }

    /// Sends the first segments of the line, until the interface is busy or no segment waits.
    pub(super) fn serve_line(&mut self, id: HostId) {
        let now = self.now();
        loop {
            let host = &mut self.hosts[id as usize];
            if !host.up.continues(now) {
                break;
            }
            let Some((_, slot)) = host.line.pop_first() else { return };
            let waiting = &mut host.socks[slot as usize].cold_mut().waiting;
            let (_, segment) = take_first(waiting).expect("a socket in the line has a segment");
            if let Some((write, _)) = waiting.front() {
                host.line.insert((*write, slot));
            }
            self.put_on_wire(SockRef { host: id, slot }, Train { first: segment, count: 1 });
        }
        if !self.hosts[id as usize].line.is_empty() {
            self.schedule_nic(id);
        }
    }
}
