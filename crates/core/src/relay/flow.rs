//! From circuit queues to output buffers to the kernel.

use super::Node;
use crate::cell::{Cell, Command};
use crate::circuit::{Queued, Stamp};
use crate::circuit_policy::{CircuitPolicy, Priority};
use crate::event::{Event, Station};
use crate::hop_control::{HopControl, Source};
use crate::kernel::{Kernel, SocketInfo};
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use crate::scheduler::{Flushed, SchedulerContext};
use penstock_units::{Bytes, Cells, Instant};

/// A node and its kernel, lent to the scheduler for one call.
#[derive(Debug)]
pub(super) struct RelayContext<'a, C: Cell, K> {
    node: &'a mut Node<C>,
    kernel: &'a mut K,
    now: Instant,
}

impl<C: Cell> Node<C> {
    pub(super) fn context<'a, K: Kernel<C>>(
        &'a mut self,
        now: Instant,
        kernel: &'a mut K,
    ) -> RelayContext<'a, C, K> {
        RelayContext { node: self, kernel, now }
    }

    /// Puts a cell of this node at the end of a circuit's queue.
    pub(super) fn enqueue(&mut self, now: Instant, circuit: CircuitIndex, direction: Direction, cell: C) {
        self.enqueue_from(now, circuit, direction, cell, Source::Here);
    }

    /// Puts a cell at the end of a circuit's queue.
    pub(super) fn enqueue_from(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        cell: C,
        source: Source,
    ) {
        self.track(now, &cell, circuit, direction, Station::Queued);
        let half = self.circuit(circuit).half_mut(direction);
        let could_send = half.may_send();
        half.push(Queued { cell, source, since: Stamp::at(now) });
        let (length, period) = (half.queue.len() as u64, half.hop.period());
        self.waiting_cells += 1;
        self.counters.longest_queue = self.counters.longest_queue.max(length);
        if let Some(most) = self.config.ecn_threshold {
            self.mark_newest(circuit, direction, most);
        }
        self.await_hop_tick(now, period);
        if !could_send {
            self.make_ready(now, circuit, direction);
        }
        self.note_edge_queue(circuit, direction);
    }

    /// Marks the cell that joined a queue of more than so many.
    #[cold]
    fn mark_newest(&mut self, circuit: CircuitIndex, direction: Direction, most: u32) {
        let queue = &mut self.circuit(circuit).half_mut(direction).queue;
        let before = queue.len() - 1;
        let newest = &mut queue[before].cell;
        if before > most as usize && newest.command() == Command::Relay {
            newest.mark();
        }
    }

    /// Tells policy and scheduler of a circuit that has cells and credit.
    pub(super) fn make_ready(&mut self, now: Instant, circuit: CircuitIndex, direction: Direction) {
        let half = self.circuit(circuit).half(direction);
        let Some(leg) = half.to else { return };
        if !half.may_send() {
            return;
        }
        self.channel(leg.channel).policy.on_ready(now, circuit.key(direction));
        self.ready.push_back(leg.channel);
    }

    /// A cell that bypasses circuit queues: the link's own business.
    pub(super) fn send_control(&mut self, now: Instant, channel: ChannelKey, cell: C) {
        self.counters.made += 1;
        let most = self.config.limits.outbuf;
        let state = self.channel(channel);
        state.push(now, cell);
        if state.to_write() > most {
            self.to_close.push(channel);
        }
        self.ready.push_back(channel);
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

impl<C: Cell, K: Kernel<C>> SchedulerContext for RelayContext<'_, C, K> {
    fn outbuf(&self, channel: ChannelKey) -> Bytes {
        self.node.channels[channel.0 as usize].to_write()
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
        let scans = policy.scans();
        node.counters.scans += scans;
        let (index, direction) = (key.circuit(), key.direction());
        let circuit = node.circuit(index);
        let (outward, class) = (circuit.outward(), circuit.class);
        let half = circuit.half_mut(direction);
        let Queued { cell, source, .. } = half.pop().expect("a policy serves only circuits that may send");
        let is_relay = cell.command() == Command::Relay;
        let feedback = if is_relay { half.hop.on_sent(now, source) } else { None };
        let exhausted = !half.may_send();
        node.waiting_cells -= 1;
        node.track(now, &cell, index, direction, Station::Outbuf);
        let weight = node.config.priority_factor.weight(class);
        let state = node.channel(channel);
        state.push(now, cell);
        if let Some(delay) = &mut state.delay {
            delay.on_moved();
        }
        state.policy.on_flush(now, key, Cells::new(1), weight);
        if exhausted {
            state.policy.on_blocked(now, key);
        }
        if let Some(feedback) = feedback {
            node.send_feedback(now, index, direction, feedback);
        }
        if direction == outward {
            node.resume_if_drained(index);
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
        let bytes = state.transport.write(self.now, channel, &mut state.outbuf, limit, self.kernel);
        let cells = (before - state.outbuf.len()) as u64;
        let refused = !state.outbuf.is_empty() && bytes < limit;
        if let Some(delay) = &mut state.delay {
            delay.on_flushed(self.now, cells, bytes, || self.kernel.socket_info(channel).not_sent);
        }
        self.node.charge_write(channel, bytes, cells);
        self.node.review_transport(channel);
        Flushed { bytes, refused, throttled: false }
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        self.node.channels[channel.0 as usize].transport.socket_info(channel, self.kernel)
    }

    fn want_writable(&mut self, channel: ChannelKey, wanted: bool) {
        self.node.set_interest(channel, self.kernel, |interest| interest.writable = wanted);
    }
}
