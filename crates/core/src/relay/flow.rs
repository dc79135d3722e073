//! Cells move from circuit queues through output buffers to the kernel.

use super::Parts;
use super::buckets::Blocked;
use crate::cell::{Cell, CircId, Command};
use crate::circuit::{Queued, Stamp};
use crate::circuit_policy::{CircuitPolicy, Priority};
use crate::event::Station;
use crate::hop_control::{HopControl, Source};
use crate::kernel::{Kernel, SocketInfo};
use crate::keys::{ChannelKey, CircuitIndex, CircuitKey, Direction};
use crate::reason::DestroyReason;
use crate::scheduler::{Flushed, SchedulerContext};
use penstock_units::{Bytes, Cells, Instant, fifo::trim};

#[derive(Debug)]
pub(super) struct RelayContext<'a, C: Cell, K> {
    parts: &'a mut Parts<C>,
    kernel: &'a mut K,
    now: Instant,
}

impl<C: Cell> Parts<C> {
    pub(super) fn context<'a, K: Kernel<C>>(
        &'a mut self,
        now: Instant,
        kernel: &'a mut K,
    ) -> RelayContext<'a, C, K> {
        RelayContext { parts: self, kernel, now }
    }

    pub(super) fn enqueue(&mut self, now: Instant, circuit: CircuitIndex, direction: Direction, cell: C) {
        self.enqueue_from(now, circuit, direction, cell, Source::Here);
    }

    pub(super) fn enqueue_from(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        cell: C,
        source: Source,
    ) {
        self.events.track(now, &cell, circuit, direction, Station::Queued);
        let state = &mut self.circuits[circuit];
        let half = state.half_mut(direction);
        let could_send = half.may_send();
        half.push(Queued { cell, source, since: Stamp::at(now) });
        let length = half.queue.len() as u64;
        self.memory.cells += 1;
        self.counters.longest_queue = self.counters.longest_queue.max(length);
        if let Some(threshold) = self.config.ecn_threshold {
            half.mark_newest(threshold);
        }
        if let Some(period) = half.hop.period() {
            self.timers.set_hop_tick(now, period);
        }
        if !could_send
            && half.may_send()
            && let Some(leg) = half.to
        {
            self.channels.on_circuit_ready(now, leg.channel, circuit.key(direction));
        }
        state.update_queue_full(direction, self.config.edge_queue);
    }

    /// Moves a cell of this circuit to the output buffer. Returns whether the circuit may send another one.
    fn move_one(&mut self, now: Instant, channel: ChannelKey, index: CircuitIndex, key: CircuitKey) -> bool {
        let direction = key.direction();
        let circuit = &mut self.circuits[index];
        let (own_direction, class) = (circuit.own_direction(), circuit.class);
        let half = circuit.half_mut(direction);
        let Queued { cell, source, .. } = half.pop().expect("a policy serves only circuits that may send");
        trim(&mut half.queue);
        let is_relay = cell.command() == Command::Relay;
        let feedback = if is_relay { half.hop.on_sent(now, source) } else { None };
        let exhausted = !half.may_send();
        self.memory.cells -= 1;
        self.events.track(now, &cell, index, direction, Station::Outbuf);
        let weight = self.config.priority_factor.weight(class);
        let state = &mut self.channels[channel];
        state.push(now, cell);
        if let Some(delay) = &mut state.delay {
            delay.on_moved();
        }
        state.policy.on_flush(now, key, Cells::new(1), weight);
        if exhausted {
            state.policy.on_blocked(now, key);
        }
        if let Some(feedback) = feedback {
            self.send_feedback(now, index, direction, feedback);
        }
        if direction == own_direction {
            self.resume_if_drained(index);
        }
        !exhausted
    }

    /// Sends the DESTROY of a circuit that closed. If the output buffer is long, the relay makes the cell later.
    /// Otherwise a client that closes many circuits could make the relay close an innocent peer's link.
    ///
    /// Source: C tor `circuitmux_append_destroy_cell()`, which keeps such cells in a short form, too.
    pub(super) fn send_destroy(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        id: CircId,
        reason: DestroyReason,
    ) {
        let mark = self.destroy_mark();
        let state = &mut self.channels[channel];
        if state.destroys.is_empty() && state.to_write() < mark {
            return self.send_control(now, channel, C::destroy(id, reason));
        }
        state.destroys.push_back((id, reason));
        self.memory.destroys += 1;
        self.channels.set_ready(channel);
    }

    /// The output buffer above which DESTROYs wait [B].
    fn destroy_mark(&self) -> Bytes {
        Bytes::new(self.config.limits.outbuf.get() / 2)
    }

    /// Sends a link-control cell, which bypasses circuit queues.
    pub(super) fn send_control(&mut self, now: Instant, channel: ChannelKey, cell: C) {
        self.counters.made += 1;
        let state = &mut self.channels[channel];
        state.push(now, cell);
        if state.to_write() > self.config.limits.outbuf {
            self.channels.close_soon(channel);
        }
        self.channels.set_ready(channel);
    }
}

impl<C: Cell, K: Kernel<C>> SchedulerContext for RelayContext<'_, C, K> {
    fn outbuf(&self, channel: ChannelKey) -> Bytes {
        self.parts.channels[channel].to_write()
    }

    fn head(&self, channel: ChannelKey) -> Option<Priority> {
        self.parts.channels[channel].policy.head(self.now).map(|(priority, _)| priority)
    }

    fn move_cell(&mut self, channel: ChannelKey) -> bool {
        let parts = &mut *self.parts;
        let policy = &parts.channels[channel].policy;
        let Some((_, key)) = policy.head(self.now) else { return false };
        let flush = policy.flush();
        parts.counters.scans += policy.scans();
        let circuit =
            parts.circuits.key_at(key.circuit()).expect("a policy serves only circuits of this relay");
        // Cells that arrive in the queue meanwhile belong to a later choice, so the work is bounded.
        let queued = Cells::new(parts.circuits[circuit].half(key.direction()).queue.len() as u64);
        let mut left = flush.of(queued).get();
        while left > 0 && parts.move_one(self.now, channel, circuit, key) {
            left -= 1;
        }
        true
    }

    fn flush(&mut self, channel: ChannelKey, limit: Bytes) -> Flushed {
        let parts = &mut *self.parts;
        let allowed = parts.buckets.write_quantum(self.now, parts.channels[channel].client);
        if allowed == Bytes::ZERO {
            parts.wait_for_refill(self.now, Blocked::Write(channel));
            return Flushed { throttled: true, ..Flushed::default() };
        }
        let limit = limit.min(allowed);
        let state = &mut parts.channels[channel];
        let before = state.outbuf.len();
        let bytes = state.transport.write(self.now, channel, &mut state.outbuf, limit, self.kernel);
        let waits = !state.destroys.is_empty();
        trim(&mut state.outbuf);
        let cells = (before - state.outbuf.len()) as u64;
        let refused = !state.outbuf.is_empty() && bytes < limit;
        if let Some(delay) = &mut state.delay {
            delay.on_flushed(self.now, cells, bytes, || self.kernel.socket_info(channel).not_sent);
        }
        parts.charge_channel_write(channel, bytes, cells);
        parts.review_transport(channel);
        if waits {
            let mark = parts.destroy_mark();
            let made = parts.channels[channel].push_destroys(self.now, mark);
            parts.counters.made += made;
            parts.memory.destroys -= made;
        }
        Flushed { bytes, refused, throttled: false }
    }

    fn has_datagrams(&self, channel: ChannelKey) -> bool {
        self.parts.channels[channel].transport.association().is_some() && self.kernel.uses_udp(channel)
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        self.parts.channels[channel].transport.socket_info(channel, self.kernel)
    }

    fn want_writable(&mut self, channel: ChannelKey, wanted: bool) {
        self.parts.channels.set_interest(channel, self.kernel, |interest| interest.writable = wanted);
    }
}
