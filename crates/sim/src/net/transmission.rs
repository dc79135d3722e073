//! TCP connections over the interface of a host, which all sockets share.

use super::event::Timer;
use super::packet::{Peer, SockRef};
use super::socket::{Owner, Sock, TrainInFlight};
use super::{Net, TICK};
use crate::queue::HostId;
use crate::tcp::Train;
use penstock_scenario::model::LossOf;
use penstock_units::Instant;

/// Sockets that wait for a full interface may send again after the interface has sent this many packets [packet].
const NIC_WAKE_PACKETS: u64 = 5;

impl Net<'_> {
    pub(crate) fn connect(&mut self, from: HostId, to: HostId, owner: Owner) -> SockRef {
        let wire = self.wire(from, to);
        self.generations += 1;
        let mut opening = Sock::new(self.generations, Peer::unknown(to), wire, owner);
        let now = self.now();
        let host = &mut self.hosts[from as usize];
        opening.tcp.connect(&host.tcp, now);
        let sock = SockRef { host: from, slot: host.socks.insert(opening) as u32 };
        self.pump(sock);
        sock
    }

    /// Sends the data of a socket until the interface is full, and sets the TCP timer.
    ///
    /// If the interface is full, or other sockets already wait for the interface, the socket waits as well.
    pub(crate) fn pump(&mut self, sock: SockRef) {
        let now = self.now();
        if self.sock(sock).tcp.is_settled() {
            return;
        }
        if self.hosts[sock.host as usize].tcp.sockets_wait() {
            self.queue_segments(sock);
            self.arm_tcp_timer(sock);
            return;
        }
        loop {
            let host = &mut self.hosts[sock.host as usize];
            let here = &mut host.socks[sock.slot as usize];
            if here.tcp.is_settled() {
                break;
            }
            let room = host.up.room(now, host.tcp.full_segment());
            if !host.nic_waiters.is_empty() || room == 0 {
                if !std::mem::replace(&mut here.awaits_nic, true) {
                    host.nic_waiters.push_back(sock.slot);
                    self.schedule_nic(sock.host);
                }
                break;
            }
            if !self.send_segments(sock, room) {
                break;
            }
        }
        self.arm_tcp_timer(sock);
    }

    /// Sends one segment, or a train of at most `most` segments. Returns false if TCP has nothing to send. If the path
    /// has loss or jitter, or a cell is tracked, segments are sent one at a time.
    pub(super) fn send_segments(&mut self, sock: SockRef, most: u32) -> bool {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        let is_single = self.one_by_one || here.random_wire.is_some() || here.has_leaving();
        let most = if is_single { 1 } else { most };
        let Some(train) = here.tcp.poll_train(&host.tcp, now, most) else { return false };
        self.put_on_wire(sock, train);
        true
    }

    /// Sends polled segments over the interface.
    pub(super) fn put_on_wire(&mut self, sock: SockRef, train: Train) {
        let now = self.now();
        let id = sock.host;
        let host = &mut self.hosts[id as usize];
        let here = &mut host.socks[sock.slot as usize];
        let Train { first: segment, count: segments } = train;
        let (left, gap) = host.up.send_train(now, segment.wire_bytes(), segments);
        here.tcp.on_departure(&host.tcp, left, segment.wire_bytes());
        here.take_leaving(&segment, |tag| self.tracker.nic_out(tag, id, left));
        let count = host.sent + 1;
        host.sent += u64::from(segments);
        let (to, owner) = (here.peer.sock, here.owner);
        let from = Peer { sock, generation: here.generation };
        let mut at = (left + here.delay).max(now + TICK);
        if let Some(wire) = here.random_wire.as_deref().copied() {
            let loss = if wire.loss_of == LossOf::Data && segment.len == 0 { 0.0 } else { wire.loss };
            if self.topology.loses(id, to.host, loss) {
                if self.topology.tells(id, to.host, host.tcp.drop_notices) {
                    here.tcp.on_dropped(left, &segment);
                }
                return;
            }
            at = (left + self.topology.delay(id, to.host, wire)).max(now + TICK);
            if !wire.jitter.is_zero() {
                // Segments keep their order.
                let last = &mut here.cold_mut().last_arrival;
                at = last.map_or(at, |last| at.max(last));
                *last = Some(at);
            }
        }
        let train = TrainInFlight { at, gap, count, train, enqueued: 0, delivered: 0 };
        self.post_train(to, from, owner, train);
    }

    pub(super) fn arm_tcp_timer(&mut self, sock: SockRef) {
        self.update_unsent(sock);
        let now = self.now();
        let here = self.sock(sock);
        here.due = here.tcp.poll_timeout().map_or(Instant::FAR_FUTURE, |due| due.max(now));
        if here.due < here.timer {
            here.timer = here.due;
            let (due, what) = (here.due, Timer::Tcp(sock.slot, here.generation));
            self.set_timer(sock.host, due, what);
        }
    }

    /// Sets a timer that wakes waiting sockets after the interface has sent a few packets, or is idle if packets wait in
    /// their sockets.
    pub(super) fn schedule_nic(&mut self, id: HostId) {
        let now = self.now();
        let host = &mut self.hosts[id as usize];
        if !std::mem::replace(&mut host.drain_scheduled, true) {
            let at = host.up.after(now, NIC_WAKE_PACKETS * host.tcp.full_segment());
            self.set_timer(id, at, Timer::NicDrained);
        }
    }

    pub(super) fn on_segment(&mut self, to: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[to.host as usize];
        let here = &mut host.socks[to.slot as usize];
        let segment = here.deliver();
        self.delivered += 1;
        here.take_arriving(&segment, |tag| self.tracker.nic_in(tag, to.host, now));
        let before = here.tcp.received_end();
        here.tcp.on_segment(&host.tcp, now, &segment);
        let after = here.tcp.received_end();
        if after > before
            && let Some(traced) = here.cold().and_then(|cold| cold.traced.as_mut())
        {
            traced.arrivals.push_back((after, now));
        }
        self.pump(to);
        self.after_input(to);
    }

    pub(crate) fn on_tcp_timer(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        here.timer = Instant::FAR_FUTURE;
        here.tcp.on_timer(&host.tcp, now);
        self.pump(sock);
        self.after_input(sock);
    }

    /// Lets waiting sockets send one segment each, in turn, because the interface has space again.
    pub(crate) fn on_nic_drained(&mut self, id: HostId) {
        let now = self.now();
        self.hosts[id as usize].drain_scheduled = false;
        if self.hosts[id as usize].tcp.sockets_wait() {
            self.serve_line(id);
            return;
        }
        loop {
            let host = &mut self.hosts[id as usize];
            if !host.up.has_room(now, host.tcp.full_segment()) {
                break;
            }
            let Some(slot) = host.nic_waiters.pop_front() else { return };
            let sock = SockRef { host: id, slot };
            let is_only = host.nic_waiters.is_empty();
            let room = if is_only { host.up.room(now, host.tcp.full_segment()) } else { 1 };
            if self.send_segments(sock, room) {
                self.hosts[id as usize].nic_waiters.push_back(slot);
            } else {
                self.sock(sock).awaits_nic = false;
            }
            self.arm_tcp_timer(sock);
        }
        self.schedule_nic(id);
    }
}
