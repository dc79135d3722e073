//! From circuit queues to output buffers to the kernel.

use super::Node;
use crate::cell::{Cell, Command};
use crate::circuit_policy::{CircuitPolicy, Priority};
use crate::event::{Event, Station};
use crate::hop_control::{Feedback, HopControl};
use crate::kernel::{Kernel, SocketInfo};
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use crate::scheduler::{Flushed, Host};
use penstock_units::{Bytes, Cells, Instant};

/// A node and its kernel, lent to the scheduler for one call.
#[derive(Debug)]
pub(super) struct Lend<'a, C: Cell, K> {
    node: &'a mut Node<C>,
    kernel: &'a mut K,
    now: Instant,
}

impl<C: Cell> Node<C> {
    pub(super) fn lend<'a, K: Kernel<C>>(&'a mut self, now: Instant, kernel: &'a mut K) -> Lend<'a, C, K> {
        Lend { node: self, kernel, now }
    }

    /// Puts a cell at the end of a circuit's queue.
    pub(super) fn enqueue(&mut self, now: Instant, circuit: CircuitIndex, direction: Direction, cell: C) {
        self.track(now, &cell, circuit, direction, Station::Queued);
        let lane = self.circuit(circuit).lane_mut(direction);
        lane.queue.push_back(cell);
        let length = lane.queue.len() as u64;
        self.counters.longest_queue = self.counters.longest_queue.max(length);
        if length == 1 {
            self.make_ready(now, circuit, direction);
        }
        self.note_edge_queue(circuit, direction);
    }

    /// Tells policy and scheduler of a circuit that has cells and credit.
    pub(super) fn make_ready(&mut self, now: Instant, circuit: CircuitIndex, direction: Direction) {
        let lane = self.circuit(circuit).lane(direction);
        let Some(leg) = lane.to else { return };
        if lane.queue.is_empty() || lane.hop.credit() == Cells::ZERO {
            return;
        }
        self.channel(leg.channel).policy.on_ready(now, circuit.key(direction));
        self.ready.push_back(leg.channel);
    }

    /// A cell that bypasses circuit queues: the link's own business.
    pub(super) fn send_control(&mut self, channel: ChannelKey, cell: C) {
        self.counters.made += 1;
        let most = self.config.limits.outbuf;
        let state = self.channel(channel);
        state.outbuf.push_back(cell);
        if state.outbuf_len() > most {
            self.doomed.push(channel);
        }
        self.ready.push_back(channel);
    }

    /// Hands a hop's feedback to the hop that sends us cells in its direction.
    pub(super) fn send_feedback(&mut self, circuit: CircuitIndex, feedback: Feedback) {
        if let Some(leg) = self.circuit(circuit).lane(feedback.direction.opposite()).to {
            self.send_control(leg.channel, C::feedback(leg.id, feedback));
        }
    }

    pub(super) fn track(
        &mut self,
        now: Instant,
        cell: &C,
        circuit: CircuitIndex,
        direction: Direction,
        station: Station,
    ) {
        if let Some(tag) = cell.tag() {
            self.events.push_back(Event::Tracked { tag, circuit, direction, station, at: now });
        }
    }
}

impl<C: Cell, K: Kernel<C>> Host for Lend<'_, C, K> {
    fn outbuf(&self, channel: ChannelKey) -> Bytes {
        self.node.channels[channel.0 as usize].outbuf_len()
    }

    fn head(&self, channel: ChannelKey) -> Option<Priority> {
        let channel = &self.node.channels[channel.0 as usize];
        channel.policy.head(self.now).map(|(priority, _)| priority)
    }

    fn move_cell(&mut self, channel: ChannelKey) -> bool {
        let now = self.now;
        let node = &mut *self.node;
        let policy = &node.channel(channel).policy;
        let Some((_, key)) = policy.head(now) else { return false };
        let looks = policy.looks();
        node.counters.looks += looks;
        let (index, direction) = (key.circuit(), key.direction());
        let circuit = node.circuit(index);
        let (outward, class) = (circuit.outward(), circuit.class);
        let lane = circuit.lane_mut(direction);
        let cell = lane.queue.pop_front().expect("a policy serves only circuits that have cells");
        let left = lane.queue.len() as u64;
        let feedback = if cell.command() == Command::Relay { lane.hop.on_sent(now) } else { None };
        let exhausted = left == 0 || lane.hop.credit() == Cells::ZERO;
        node.track(now, &cell, index, direction, Station::Outbuf);
        let weight = node.config.priority_factor.weight(class);
        let state = node.channel(channel);
        state.outbuf.push_back(cell);
        state.policy.on_flush(now, key, Cells::new(1), weight);
        if exhausted {
            state.policy.on_blocked(now, key);
        }
        if let Some(feedback) = feedback {
            node.send_feedback(index, Feedback { direction, ..feedback });
        }
        let drained = direction == outward && node.edge_queue_has_drained(index);
        if drained && !node.resume.contains(&index) {
            node.resume.push_back(index);
        }
        true
    }

    fn flush(&mut self, channel: ChannelKey, limit: Bytes) -> Flushed {
        let allowed = self.node.write_quantum(self.now, channel);
        if allowed == Bytes::ZERO {
            self.node.wait_to_write(self.now, channel);
            return Flushed { throttled: true, ..Flushed::default() };
        }
        let limit = limit.min(allowed);
        let state = self.node.channel(channel);
        let before = state.outbuf.len();
        let bytes = self.kernel.write(channel, &mut state.outbuf, limit);
        let cells = (before - state.outbuf.len()) as u64;
        let refused = !state.outbuf.is_empty() && bytes < limit;
        self.node.charge_write(channel, bytes, cells);
        Flushed { bytes, refused, throttled: false }
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        self.kernel.socket_info(channel)
    }

    fn want_writable(&mut self, channel: ChannelKey, wanted: bool) {
        self.node.set_interest(channel, self.kernel, |interest| interest.writable = wanted);
    }
}
