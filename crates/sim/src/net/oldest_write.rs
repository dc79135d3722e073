//! The interface of Shadow 1.9. Segments wait in their sockets, and the interface sends the oldest write first.
//!
//! An idle interface sends one segment at once, and is then busy for its transmission time. After that, a batch takes the
//! segments that wait ([`Link::continues`](super::link::Link::continues)). A new segment cannot join a batch.
//!
//! Source: Shadow 1.9.0 `networkinterface_wantsSend`, `_networkinterface_scheduleNextSend`,
//! `_networkinterface_selectFirstInFirstOut`, `_networkinterface_compareSocket`, `packet_new`
//! (`host_getNextPacketPriority`), `socket_addToOutputBuffer`, `_tcp_getBufferSpaceOut`.
//! Relays write records in parts ([`super::kernel`]), and wait for the end of a received batch, as their epoll does.
//! Deviation: a retransmission passes all new data; in Shadow, it keeps the number of its write. Segments without new data
//! leave in the order of arrival; in Shadow, the last one leaves first. Datagrams do not wait in sockets. The delay of a loss
//! notice is that of the departure; in Shadow, it is that of the write. Servers and exit streams write
//! as much as the buffer takes before any of it waits, and servers then need an ACK; Shadow writes at most 64 KiB at once, and
//! a departure lets a server continue. A retransmission does not wait for space. Exit streams may
//! exceed the free space by a payload.

use super::Net;
use super::packet::SockRef;
use crate::queue::HostId;
use crate::tcp::{Segment, Train};
use penstock_units::fifo::take_first;
use std::collections::BTreeMap;

/// The sockets of a host with waiting segments.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Slots, by the number of the first segment's write and by arrival. Segments without new data have the number 0.
    slots: BTreeMap<(u64, u64), u32>,
    arrivals: u64,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn push(&mut self, write: u64, slot: u32) {
        self.arrivals += 1;
        self.slots.insert((write, self.arrivals), slot);
    }

    fn pop(&mut self) -> Option<u32> {
        self.slots.pop_first().map(|(_, slot)| slot)
    }
}

impl Net<'_> {
    /// Queues the segments that TCP may send in their socket, and sends at once while the interface is idle.
    pub(super) fn queue_segments(&mut self, sock: SockRef) {
        while let Some((write, segment)) = self.next_segment(sock) {
            let host = &mut self.hosts[sock.host as usize];
            let here = &mut host.socks[sock.slot as usize];
            here.tcp.hold(segment.len);
            let waiting = &mut here.cold_mut().waiting;
            waiting.push_back((write, segment));
            if waiting.len() == 1 {
                host.line.push(write, sock.slot);
            }
            if host.up.is_idle(self.now) {
                self.serve_line(sock.host);
            } else {
                self.schedule_nic(sock.host);
            }
        }
    }

    /// The next segment of a socket, with the number of its write; 0 without new data.
    fn next_segment(&mut self, sock: SockRef) -> Option<(u64, Segment)> {
        let host = &mut self.hosts[sock.host as usize];
        let tcp = &mut host.socks[sock.slot as usize].tcp;
        let (sent, write) = (tcp.sent_end(), tcp.unsent_write());
        let segment = tcp.poll_train(&host.tcp, self.now, 1)?.first;
        let is_new = segment.len > 0 && segment.seq >= sent;
        Some((write.filter(|_| is_new).unwrap_or(0), segment))
    }

    /// Sends the first segments of the line, until the interface is busy or no segment waits.
    pub(super) fn serve_line(&mut self, id: HostId) {
        loop {
            let host = &mut self.hosts[id as usize];
            if !host.up.continues(self.now) {
                break;
            }
            let Some(slot) = host.line.pop() else { return };
            let here = &mut host.socks[slot as usize];
            let waiting = &mut here.cold_mut().waiting;
            let (_, segment) = take_first(waiting).expect("a socket in the line has a segment");
            if let Some((write, _)) = waiting.front() {
                host.line.push(*write, slot);
            }
            here.tcp.release(segment.len);
            let sock = SockRef { host: id, slot };
            self.put_on_wire(sock, Train { first: segment, count: 1 });
            // A lost segment sets the timer of its notice.
            self.arm_tcp_timer(sock);
            self.hosts[id as usize].offer_space(sock);
        }
        if !self.hosts[id as usize].line.is_empty() {
            self.schedule_nic(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_write_is_first_and_segments_without_new_data_pass_all_others() {
        let mut line = Line::default();
        for (write, slot) in [(7, 1), (5, 9), (0, 3), (6, 4), (0, 2)] {
            line.push(write, slot);
        }
        let order: Vec<_> = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(order, [3, 2, 9, 4, 1]);
    }
}
