use super::{Parts, Relay};
use crate::cell::{Cell, Message};
use crate::circuit_policy::CircuitPolicy;
use crate::error::Violation;
use crate::event::Event;
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use crate::reason::DestroyReason;
use crate::scheduler::Scheduler;
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    /// Closes a circuit, and all circuits that are linked or joined with it, in both directions for this reason. A client's
    /// DESTROY contains no reason (tor-spec, "Tearing down circuits").
    pub fn close_circuit(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        reason: DestroyReason,
        kernel: &mut impl Kernel<C>,
    ) {
        if self.parts.circuits.contains(circuit) {
            for other in self.parts.leave_others(circuit, true) {
                self.close_one(now, other, None, Ok(reason), kernel);
            }
            self.close_one(now, circuit, None, Ok(reason), kernel);
            self.settle(now, kernel);
        }
    }

    /// Closes a channel and all its circuits.
    pub fn close_channel(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        if self.parts.channels.contains(channel) {
            kernel.close(channel);
            self.on_channel_closed(now, channel, kernel);
        }
    }

    /// The channel's connection has closed. All circuits of the channel close.
    pub fn on_channel_closed(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        self.remove_channel(now, channel, kernel);
        self.settle(now, kernel);
    }

    /// Removes a channel, and closes its circuits. If this makes other channels exceed a limit,
    /// [`settle`](Self::settle) closes those channels later, without recursion.
    pub(super) fn remove_channel(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        let Some(state) = self.parts.channels.get_mut(channel) else { return };
        state.open = false;
        for circuit in state.circuits.all() {
            // A circuit that uses this channel in both directions appears twice.
            if self.parts.circuits.contains(circuit) {
                self.close(now, circuit, None, Ok(DestroyReason::CHANNEL_CLOSED), kernel);
            }
        }
        let parts = &mut self.parts;
        let timers = &mut parts.channels[channel].timers;
        parts.timers.set_retransmit(channel, timers, None);
        parts.timers.clear_idle(channel, timers);
        let state = parts.channels.remove(channel);
        parts.datagrams.on_channel_closed(channel, &state.transport);
        parts.counters.dropped += state.outbuf.len() as u64;
        parts.memory.destroys -= state.destroys.len() as u64;
        parts.buckets.waiting.remove_channel(channel);
        self.scheduler.on_close(channel);
        self.parts.leave_client(state.client);
    }

    /// Closes a circuit for a reason, or because of a violation. Without `from`, both neighbours get a DESTROY. With
    /// `from`, only the neighbour in this direction gets a DESTROY. If cells of linked circuits may be lost, all of them
    /// close. A joined circuit also closes.
    pub(super) fn close(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        from: Option<Direction>,
        why: Result<DestroyReason, Violation>,
        kernel: &mut impl Kernel<C>,
    ) {
        let others = self.parts.leave_others(circuit, why.is_err());
        self.close_one(now, circuit, from, why, kernel);
        for other in others {
            self.close_one(now, other, None, Ok(DestroyReason::FINISHED), kernel);
        }
    }

    pub(super) fn close_one(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        from: Option<Direction>,
        why: Result<DestroyReason, Violation>,
        kernel: &mut impl Kernel<C>,
    ) {
        assert!(self.parts.joined(circuit).is_none(), "a joined circuit is separated before it closes");
        self.parts.close_streams(now, circuit, kernel);
        let reason = why.unwrap_or_else(Violation::reason);
        for direction in Direction::BOTH {
            let destroy = (from != Some(direction.opposite())).then_some(reason);
            self.parts.close_half(now, circuit, direction, destroy);
        }
        self.parts.circuits.remove(circuit);
        self.parts.events.push(Event::CircuitClosed { circuit, violation: why.err() });
    }
}

impl<C: Cell> Parts<C> {
    /// A circuit closes. Returns the linked and joined circuits that must close, too.
    pub(super) fn leave_others(&mut self, circuit: CircuitIndex, whole: bool) -> Vec<CircuitIndex> {
        let mut others = self.leave_set(circuit, whole);
        others.extend(self.separate(circuit));
        others
    }

    /// Removes the hops behind this relay at the client's request. Sends DESTROY to the next hop and TRUNCATED to the
    /// client. Source: C tor `connection_edge_process_relay_cell()`, RELAY_COMMAND_TRUNCATE. Deviation: cells for the
    /// removed hops may still arrive; this relay drops them, while C tor closes the circuit.
    pub(super) fn truncate(&mut self, now: Instant, circuit: CircuitIndex) {
        let reason = DestroyReason::REQUESTED;
        self.close_half(now, circuit, Direction::Forward, Some(reason));
        let state = &mut self.circuits[circuit];
        state.extending = false;
        state.truncated = true;
        self.events.withdraw_extend(circuit);
        self.send_relay(now, circuit, None, Message::Truncated(reason));
    }

    /// Drops the cells of one direction, and detaches the direction from its channel. If a reason is given, the next
    /// hop gets a DESTROY.
    fn close_half(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        destroy: Option<DestroyReason>,
    ) {
        let half = self.circuits[circuit].half_mut(direction);
        let waiting = half.clear();
        let leg = half.to.take();
        self.memory.cells -= waiting;
        let Some(leg) = leg else { return };
        self.counters.dropped += waiting;
        let channel = &mut self.channels[leg.channel];
        channel.policy.on_blocked(now, circuit.key(direction));
        channel.policy.on_close(circuit.key(direction));
        channel.circuits.remove(leg.id);
        if let Some(reason) = destroy.filter(|_| channel.open) {
            self.send_destroy(now, leg.channel, leg.id, reason);
        } else {
            self.forget(leg.channel, leg.id);
        }
        self.start_idle_timeout(now, leg.channel);
    }
}
