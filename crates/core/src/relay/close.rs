//! Circuits and channels end.

use super::{Node, Relay};
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
    /// Closes a circuit from here, in both directions, for this reason; clients say none (tor-spec, "Tearing down
    /// circuits").
    pub fn close_circuit(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        reason: DestroyReason,
        kernel: &mut impl Kernel<C>,
    ) {
        if self.node.circuits.contains(circuit.0 as usize) {
            self.close(now, circuit, None, Ok(reason), kernel);
            self.settle(now, kernel);
        }
    }

    /// Closes a channel from here, and all its circuits.
    pub fn close_channel(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        if self.node.channels.contains(channel.0 as usize) {
            kernel.close(channel);
            self.on_channel_closed(now, channel, kernel);
        }
    }

    /// The channel's connection is gone, and all its circuits with it.
    pub fn on_channel_closed(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        let Some(state) = self.node.channels.get_mut(channel.0 as usize) else { return };
        state.open = false;
        for circuit in state.circuits.all() {
            // A circuit that returns the way it came is listed twice.
            if self.node.circuits.contains(circuit.0 as usize) {
                self.close(now, circuit, None, Ok(DestroyReason::CHANNEL_CLOSED), kernel);
            }
        }
        self.node.set_datagram_timer(channel, None);
        self.node.note_busy(channel);
        let state = self.node.channels.remove(channel.0 as usize);
        let mut counted = state.transport.counters();
        counted.given_up += state.transport.unacknowledged();
        self.node.closed_datagrams = self.node.closed_datagrams.plus(counted);
        self.node.failed.retain(|(other, _)| *other != channel);
        self.node.counters.dropped += state.outbuf.len() as u64;
        self.node.waiting.forget_channel(channel);
        self.node.forget_way(state.peer, channel);
        self.node.ready.retain(|other| *other != channel);
        self.scheduler.on_close(channel);
        self.node.leave_client(state.client);
        self.settle(now, kernel);
    }

    /// Ends a circuit, for a reason or because a peer broke the protocol. A DESTROY goes to each side but the one that
    /// cells come from which travel `from`.
    pub(super) fn close(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        from: Option<Direction>,
        why: Result<DestroyReason, Violation>,
        kernel: &mut impl Kernel<C>,
    ) {
        self.node.close_streams(now, circuit, kernel);
        for direction in [Direction::Forward, Direction::Backward] {
            let reason_to_send =
                (from != Some(direction.opposite())).then(|| why.unwrap_or_else(Violation::reason));
            self.node.cut(now, circuit, direction, reason_to_send);
        }
        self.node.circuits.remove(circuit.0 as usize);
        self.node.resume.retain(|other| *other != circuit);
        self.node.withdraw_requests(circuit);
        self.node.events.push_back(Event::CircuitClosed { circuit, violation: why.err() });
    }
}

impl<C: Cell> Node<C> {
    /// Asks no more for a circuit that is gone: before the driver polls, its index may belong to another one.
    fn withdraw_requests(&mut self, circuit: CircuitIndex) {
        self.events.retain(|event| match event {
            Event::HandshakeRequested { circuit: other, .. }
            | Event::ExtendRequested { circuit: other, .. }
            | Event::HandshakeNeeded { circuit: other, .. }
            | Event::HandshakeAnswered { circuit: other, .. }
            | Event::CircuitBuilt { circuit: other } => *other != circuit,
            _ => true,
        });
    }

    /// Cuts off what is behind a relay, since its client asked for it, and says so to both.
    ///
    /// Source: C tor `connection_edge_process_relay_cell()`, RELAY_COMMAND_TRUNCATE.
    /// Deviation: cells that were on their way to what is gone are dropped; C tor closes the circuit for them. Where hops are controlled, whose
    /// counts would have to begin again on one side alone, the whole circuit closes instead.
    pub(super) fn truncate(&mut self, now: Instant, circuit: CircuitIndex) {
        let reason = DestroyReason::REQUESTED;
        self.cut(now, circuit, Direction::Forward, Some(reason));
        let state = self.circuit(circuit);
        state.extending = false;
        state.truncated = true;
        let asks = |event: &Event<C>| matches!(event, Event::ExtendRequested { circuit: other, .. } if *other == circuit);
        self.events.retain(|event| !asks(event));
        self.send_relay(now, circuit, None, Message::Truncated(reason));
    }

    /// Drops what waits in one direction, and tells the next hop why, if it is to know.
    fn cut(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        reason_to_send: Option<DestroyReason>,
    ) {
        let half = self.circuit(circuit).half_mut(direction);
        let waiting = half.clear();
        let leg = half.to.take();
        self.waiting_cells -= waiting;
        let Some(leg) = leg else { return };
        self.counters.dropped += waiting;
        let channel = self.channel(leg.channel);
        channel.policy.on_blocked(now, circuit.key(direction));
        channel.policy.on_close(circuit.key(direction));
        channel.circuits.remove(leg.id);
        if let Some(reason) = reason_to_send.filter(|_| channel.open) {
            self.send_control(now, leg.channel, C::destroy(leg.id, reason));
        } else {
            channel.transport.forget(leg.id);
        }
        self.note_idle(now, leg.channel);
    }
}
