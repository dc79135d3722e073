//! Datagrams: over the same interfaces and links as segments, with nobody who sends them again.

use super::host::{Arrival, Packet};
use super::socket::{Mail, SockRef};
use super::{Net, TICK};
use crate::cell::SimCell;
use crate::queue::Rank;
use penstock_core::datagram::Message;
use penstock_units::{Bytes, Instant};

/// What DTLS adds to a datagram [B]: header, explicit nonce and tag of AES-GCM (RFC 6347 and 5288).
const RECORD_OVERHEAD: u64 = 13 + 8 + 16;

/// What UDP, IP and Ethernet add [B].
const HEADERS: u64 = 8 + 20 + 14;

/// What a socket holds that is not read [B]: Linux's `net.core.rmem_default`.
const RECEIVE_BUFFER: u64 = 212_992;

/// How many empty envelopes are kept for later [1]: more are not under way where nothing is amiss.
const MOST_ENVELOPES: usize = 4096;

/// A datagram between two hosts.
#[derive(Debug)]
pub(crate) struct Letter {
    to: SockRef,
    /// Of the connection: its slot may be another's when this arrives.
    generation: u32,
    mail: Mail,
}

impl Letter {
    /// On the wire, preamble and checksum excluded [B].
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.mail.bytes + HEADERS
    }
}

impl Net {
    /// A relay sends a datagram; returns what it takes, DTLS included [B].
    ///
    /// One that finds the interface's queue full is lost.
    /// Deviation: Linux would first fill the socket's send buffer and then have its owner wait.
    pub(super) fn post(&mut self, sock: SockRef, messages: Vec<Message<SimCell>>) -> Bytes {
        let now = self.now();
        let size: usize = messages.iter().map(Message::wire_size).sum();
        let bytes = size as u64 + RECORD_OVERHEAD;
        let to = sock.peer();
        let conn = &self.conns[sock.conn as usize];
        let (wire, generation) = (conn.wire, conn.generation);
        let [rank, far] = [sock, to].map(|sock| conn.sides[sock.side as usize].host);
        let letter = Letter { to, generation, mail: Mail { bytes, messages } };
        let on_wire = letter.wire_bytes();
        let host = &mut self.hosts[rank as usize];
        if !host.up.has_room(now, on_wire) {
            self.keep(letter.mail.messages);
            return Bytes::new(bytes);
        }
        let left = host.up.send(now, on_wire);
        host.sent += 1;
        let count = host.sent;
        for tag in letter.mail.tags() {
            self.tracker.written(tag, rank, now);
            self.tracker.nic_out(tag, rank, left);
        }
        if self.wires.loses(rank, far, wire.loss) {
            self.keep(letter.mail.messages);
            return Bytes::new(bytes);
        }
        let at = (left + wire.rtt / 2).max(now + TICK);
        if self.wires.repeats(rank, far, wire.duplicate) {
            let again = Letter { mail: letter.mail.clone(), ..letter };
            let late = self.wires.lateness(rank, far, wire);
            self.carry(rank, far, at + late, count, again);
        }
        let late = self.wires.lateness(rank, far, wire);
        self.carry(rank, far, at + late, count, letter);
        Bytes::new(bytes)
    }

    /// Keeps what held messages for the next ones: its memory.
    fn keep(&mut self, mut envelope: Vec<Message<SimCell>>) {
        if self.envelopes.len() < MOST_ENVELOPES {
            envelope.clear();
            self.envelopes.push(envelope);
        }
    }

    fn carry(&mut self, from: Rank, far: Rank, at: Instant, count: u64, letter: Letter) {
        let what = Packet::Letter(self.letters.insert(letter) as u32);
        self.fly(far, Arrival { at, from, count, what });
    }

    /// A datagram is in the receiver's kernel.
    pub(super) fn on_letter(&mut self, letter: u32) {
        let now = self.now();
        let Letter { to, generation, mail } = self.letters.remove(letter as usize);
        self.delivered += 1;
        let conn = self.conns.get_mut(to.conn as usize).filter(|conn| conn.generation == generation);
        let Some(side) = conn.map(|conn| &mut conn.sides[to.side as usize]) else { return };
        let (rank, seldom) = (side.host, side.seldom_made());
        if seldom.mail_bytes + mail.bytes > RECEIVE_BUFFER {
            self.keep(mail.messages);
            return;
        }
        for tag in mail.tags() {
            self.tracker.nic_in(tag, rank, now);
        }
        seldom.mail_bytes += mail.bytes;
        seldom.mail.push_back(mail);
        self.refresh(to);
    }

    /// A relay reads a datagram; returns what it takes, DTLS included [B].
    pub(super) fn collect_mail(&mut self, sock: SockRef, into: &mut Vec<Message<SimCell>>) -> Bytes {
        let now = self.now();
        let side = self.side(sock);
        let rank = side.host;
        let Some(seldom) = side.seldom() else { return Bytes::ZERO };
        let Some(mut mail) = seldom.mail.pop_front() else { return Bytes::ZERO };
        seldom.mail_bytes -= mail.bytes;
        for tag in mail.tags() {
            self.tracker.read(tag, rank, now);
        }
        into.append(&mut mail.messages);
        self.keep(mail.messages);
        Bytes::new(mail.bytes)
    }
}
