//! Datagrams use the same interfaces and links as TCP segments. The kernel does not retransmit a lost datagram.

use super::packet::SockRef;
use super::socket::DatagramBody;
use super::{Net, TICK};
use crate::cell::SimCell;
use penstock_core::datagram::Message;
use penstock_units::Bytes;

/// The DTLS overhead of a datagram [B]: header, explicit nonce and tag of AES-GCM (RFC 6347 and 5288).
const RECORD_OVERHEAD: u64 = 13 + 8 + 16;

/// The overhead of UDP, IP and Ethernet [B].
const HEADERS: u64 = 8 + 20 + 14;

/// The receive buffer of a socket [B] (Linux's `net.core.rmem_default`).
const RECEIVE_BUFFER: u64 = 212_992;

/// The maximum number of unused buffers to keep [1]. This is enough except under exceptional load.
const MAX_SPARE_BUFFERS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Datagram {
    to: SockRef,
    /// The generation of the receiving socket. If it differs at the arrival, another socket uses the same slot.
    generation: u32,
    body: DatagramBody,
}

impl Datagram {
    /// The size on the wire without preamble and checksum [B].
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.body.bytes + HEADERS
    }
}

impl Net<'_> {
    /// Sends a datagram and returns its size with DTLS [B]. If the interface's queue is full, the datagram is lost.
    ///
    /// Deviation: Linux first fills the socket's send buffer and then blocks the sending process.
    pub(super) fn send_datagram(&mut self, sock: SockRef, messages: Vec<Message<SimCell>>) -> Bytes {
        let now = self.now();
        let size: usize = messages.iter().map(Message::wire_size).sum();
        let bytes = size as u64 + RECORD_OVERHEAD;
        let host = &mut self.hosts[sock.host as usize];
        let here = &host.socks[sock.slot as usize];
        let (to, delay, generation) = (here.peer.sock, here.delay, here.peer.generation);
        let wire = here.random_wire.as_deref().copied();
        let (id, far) = (sock.host, to.host);
        let datagram = Datagram { to, generation, body: DatagramBody { bytes, messages } };
        let on_wire = datagram.wire_bytes();
        if !host.up.has_room(now, on_wire) {
            self.recycle(datagram.body.messages);
            return Bytes::new(bytes);
        }
        let left = host.up.send(now, on_wire);
        host.sent += 1;
        let count = host.sent;
        for tag in datagram.body.tags() {
            self.tracker.written(tag, id, now);
            self.tracker.nic_out(tag, id, left);
        }
        let Some(wire) = wire else {
            self.post_datagram(far, (left + delay).max(now + TICK), id, count, datagram);
            return Bytes::new(bytes);
        };
        if self.topology.loses(id, far, wire.loss) {
            self.recycle(datagram.body.messages);
            return Bytes::new(bytes);
        }
        let at = (left + self.topology.delay(id, far, wire)).max(now + TICK);
        if self.topology.duplicates(id, far, wire.duplicate) {
            let again = Datagram { body: datagram.body.clone(), ..datagram };
            let late = self.topology.reorder_delay(id, far, wire);
            self.post_datagram(far, at + late, id, count, again);
        }
        let late = self.topology.reorder_delay(id, far, wire);
        self.post_datagram(far, at + late, id, count, datagram);
        Bytes::new(bytes)
    }

    fn recycle(&mut self, mut buffer: Vec<Message<SimCell>>) {
        if self.spare_buffers.len() < MAX_SPARE_BUFFERS {
            buffer.clear();
            self.spare_buffers.push(buffer);
        }
    }

    pub(super) fn on_datagram(&mut self, datagram: u32) {
        let now = self.now();
        let Datagram { to, generation, body } = self.datagrams.remove(datagram as usize);
        self.delivered += 1;
        let id = to.host;
        let Some(sock) = self.hosts[id as usize].sock_of(to.slot, generation) else { return };
        let cold = sock.cold_mut();
        if cold.unread_bytes + body.bytes > RECEIVE_BUFFER {
            self.recycle(body.messages);
            return;
        }
        for tag in body.tags() {
            self.tracker.nic_in(tag, id, now);
        }
        cold.unread_bytes += body.bytes;
        cold.unread.push_back(body);
        self.refresh(to);
    }

    /// Lets a relay read a datagram. Returns the datagram's size with DTLS [B].
    pub(super) fn receive_datagram(&mut self, sock: SockRef, into: &mut Vec<Message<SimCell>>) -> Bytes {
        let now = self.now();
        let id = sock.host;
        let Some(cold) = self.sock(sock).cold() else { return Bytes::ZERO };
        let Some(mut body) = cold.unread.pop_front() else { return Bytes::ZERO };
        cold.unread_bytes -= body.bytes;
        for tag in body.tags() {
            self.tracker.read(tag, id, now);
        }
        into.append(&mut body.messages);
        self.recycle(body.messages);
        Bytes::new(body.bytes)
    }
}
