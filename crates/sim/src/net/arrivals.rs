//! Packets in transit to a host, and the order of the events of a host.

use super::Net;
use super::event::{Step, Timer};
use super::host::Host;
use super::packet::{Arrival, Delivery, Packet, SockRef};
use crate::queue::HostId;
use penstock_units::{Instant, fifo::take_first};
use std::collections::binary_heap::PeekMut;

impl Net<'_> {
    /// Adds all packets that reach a host's access link before `horizon` to the link's drop-tail queue.
    pub(crate) fn enqueue(&mut self, id: HostId, horizon: Instant) {
        let host = &mut self.hosts[id as usize];
        host.horizon = horizon;
        while let Some(Arrival { mut at, from, bytes, what, .. }) = host.inbox.peek().copied() {
            if at >= horizon {
                break;
            }
            let slot = match what {
                Packet::Segment(slot) => slot,
                Packet::Datagram(datagram) => {
                    host.inbox.pop();
                    let bytes = u64::from(bytes);
                    if host.down.has_room(at, bytes) {
                        host.deliveries.push_back(Delivery { at: host.down.send(at, bytes), what });
                    } else {
                        self.datagrams.remove(datagram as usize);
                    }
                    continue;
                }
            };
            // In a binary heap, the second-earliest entry is one of these two.
            let others = &host.inbox.as_slice()[1..];
            let second = others.iter().take(2).map(Arrival::key).min();
            let sock = &mut host.socks[slot as usize];
            let is_first = |at, count| second.is_none_or(|second| (at, from, count) < second);
            let next = loop {
                let bytes = sock.inbound[sock.enqueued].train.first.wire_bytes();
                if host.down.has_room(at, bytes) {
                    host.deliveries.push_back(Delivery { at: host.down.send(at, bytes), what });
                    sock.enqueue();
                } else {
                    sock.drop_next();
                }
                match sock.next_arrival() {
                    Some(next) if next.0 < horizon && is_first(next.0, next.1) => at = next.0,
                    next => break next,
                }
            };
            let mut first = host.inbox.peek_mut().expect("it was there before");
            match next {
                Some((at, count)) => {
                    let bytes = sock.inbound[sock.enqueued].train.first.wire_bytes() as u32;
                    *first = Arrival { at, count, bytes, ..*first };
                }
                None => drop(PeekMut::pop(first)),
            }
        }
    }

    /// The next event of a host before `horizon`. The host's time advances to this event. If a packet and a timer have
    /// the same time, the packet comes first.
    pub(crate) fn step(&mut self, id: HostId, horizon: Instant) -> Option<Step> {
        loop {
            let host = &mut self.hosts[id as usize];
            let delivery = host.deliveries.front().map_or(Instant::FAR_FUTURE, |delivery| delivery.at);
            let timer = host.timers.next();
            let at = delivery.min(timer);
            if at >= horizon {
                return None;
            }
            self.now = at;
            if delivery <= timer {
                self.handled += 1;
                return take_first(&mut host.deliveries).map(|delivery| Step::Delivered(delivery.what));
            }
            let what = host.timers.pop()?;
            if let Timer::Tcp(slot, generation) = what
                && !has_expired(host, slot, generation, at)
            {
                continue;
            }
            self.handled += 1;
            return Some(Step::Timer(what));
        }
    }

    /// Whether further packets of a received batch follow at the current time, before the relay runs.
    pub(crate) fn is_in_batch(&self, id: HostId) -> bool {
        let host = &self.hosts[id as usize];
        host.tcp.runs_after_batch() && host.deliveries.front().is_some_and(|delivery| delivery.at == self.now)
    }

    /// Registers the time of a host's next event in the queue of hosts.
    pub(crate) fn schedule_next(&mut self, id: HostId) {
        let host = &self.hosts[id as usize];
        // A packet that has not yet arrived at the link is delivered after all packets in the link's queue.
        let packet = match host.deliveries.front() {
            Some(delivery) => delivery.at,
            None => host.inbox.peek().map_or(Instant::FAR_FUTURE, |first| host.earliest_delivery(first)),
        };
        self.host_queue.set(id, packet.min(host.timers.next()));
    }

    pub(super) fn transmit(&mut self, far: HostId, arrival: Arrival) {
        let host = &mut self.hosts[far as usize];
        assert!(arrival.at >= host.horizon, "a packet arrives in the past of its host");
        let earliest = host.earliest_delivery(&arrival);
        host.inbox.push(arrival);
        if host.deliveries.is_empty() {
            self.host_queue.advance(far, earliest);
        }
    }

    pub(crate) fn on_delivered(&mut self, id: HostId, what: Packet) {
        match what {
            Packet::Segment(slot) => self.on_segment(SockRef { host: id, slot }),
            Packet::Datagram(datagram) => self.on_datagram(datagram),
        }
    }
}

/// Whether a TCP timer that left the queue at `now` has expired. A postponed timer returns to the queue.
fn has_expired(host: &mut Host, slot: u32, generation: u32, now: Instant) -> bool {
    // An earlier timer may have replaced this timer.
    let Some(sock) = host.sock_of(slot, generation).filter(|sock| sock.timer == now) else { return false };
    let due = sock.due;
    if due <= now {
        return true;
    }
    sock.timer = due;
    if due != Instant::FAR_FUTURE {
        host.timers.push(due, Timer::Tcp(slot, generation));
    }
    false
}
