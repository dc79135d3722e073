use super::{Parts, Relay};
use crate::cell::{Cell, CircId};
use crate::channel::Channel;
use crate::datagram::{Association, DatagramCounters, LinkEvent, LinkFailure};
use crate::kernel::Kernel;
use crate::keys::ChannelKey;
use crate::reason::DestroyReason;
use crate::transport::Transport;
use penstock_units::{Bytes, Instant};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct DatagramLinks {
    /// The memory of all channels over datagrams [B].
    memory: u64,
    failed: VecDeque<(ChannelKey, LinkFailure)>,
    closed: DatagramCounters,
    fired: Vec<(Instant, ChannelKey)>,
}

impl DatagramLinks {
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Counts the memory of a channel again.
    fn recount<C: Cell>(&mut self, association: &mut Association<C>) {
        let memory = association.memory();
        self.memory = self.memory + memory - std::mem::replace(&mut association.counted, memory);
    }

    pub(super) fn take_failed(&mut self) -> Option<(ChannelKey, LinkFailure)> {
        self.failed.pop_front()
    }

    pub(super) fn on_channel_closed<C: Cell>(&mut self, channel: ChannelKey, transport: &Transport<C>) {
        if let Some(association) = transport.association() {
            self.memory -= association.counted;
            self.closed = self.closed.plus(association.counters);
            self.closed.given_up += association.unacknowledged();
            self.failed.retain(|(other, _)| *other != channel);
        }
    }
}

impl<C: Cell> Relay<C> {
    /// Whether this node supports datagrams. A channel uses datagrams if both its nodes support them.
    pub fn speaks_datagrams(&self) -> bool {
        self.parts.config.datagrams.is_some()
    }

    /// Makes the channel use datagrams, if both its nodes support them. The driver calls this before
    /// [`on_channel_open`](Self::on_channel_open).
    pub fn use_datagrams(&mut self, channel: ChannelKey) {
        let Some(config) = self.parts.config.datagrams else { return };
        if let Some(state) = self.parts.channels.get_mut(channel).filter(|state| !state.open) {
            state.transport = Transport::datagrams(config);
        }
    }

    /// Limits the datagrams of a channel, because the path MTU is small [B]. Two cells must fit. If they do not, the
    /// driver carries the datagrams in another way.
    pub fn set_max_datagram(&mut self, channel: ChannelKey, max: Bytes) {
        let state = self.parts.channels.get_mut(channel);
        if let Some(association) = state.and_then(|state| state.transport.association_mut()) {
            association.set_max_datagram(max.get() as usize);
        }
    }

    /// Counters of all channels of datagrams since the relay started.
    pub fn datagram_counters(&self) -> DatagramCounters {
        let open = self.parts.associations().map(|association| association.counters);
        open.fold(self.parts.datagrams.closed, DatagramCounters::plus)
    }

    /// Cells sent over datagrams but not yet acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.parts.associations().map(Association::unacknowledged).sum()
    }

    /// Runs the expired timers of datagram channels in the order of expiry, and at equal times in the order of keys.
    pub(super) fn on_datagram_timer(&mut self, now: Instant) {
        let parts = &mut self.parts;
        let mut fired = std::mem::take(&mut parts.datagrams.fired);
        while let Some((due, channel)) = parts.timers.expired_retransmit(now) {
            parts.timers.set_retransmit(channel, &mut parts.channels[channel].timers, None);
            fired.push((due, channel));
        }
        parts.timers.take_coalesce(now, &mut fired);
        fired.sort_unstable();
        for (_, channel) in fired.drain(..) {
            let Some(state) = parts.channels.get_mut(channel) else { continue };
            if let Some(association) = state.transport.association_mut() {
                let times = [association.poll_timeout(), association.coalesce_timeout()];
                if times.into_iter().flatten().any(|due| due <= now) {
                    association.on_timer(now);
                }
            }
            parts.review_transport(channel);
        }
        parts.datagrams.fired = fired;
    }

    pub(super) fn on_link_event(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        event: LinkEvent,
        kernel: &mut impl Kernel<C>,
    ) {
        let failure = match event {
            LinkEvent::Forwarded { id, count, trip, downstream } => {
                match self.parts.on_forwarded(now, channel, id, count, trip, downstream) {
                    Ok(()) => return,
                    Err(violation) => LinkFailure { id, violation: Some(violation) },
                }
            }
            LinkEvent::Failed(failure) => failure,
        };
        self.on_failed(now, channel, failure, kernel);
    }

    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        failure: LinkFailure,
        kernel: &mut impl Kernel<C>,
    ) {
        let LinkFailure { id, violation } = failure;
        let Some(circuit) = self.parts.circuit_of(channel, id) else { return };
        let from = violation.is_none().then(|| self.parts.circuits[circuit].direction_from(channel, id));
        self.close(now, circuit, from, violation.map_or(Ok(DestroyReason::DESTROYED), Err), kernel);
    }
}

impl<C: Cell> Parts<C> {
    fn associations(&self) -> impl Iterator<Item = &Association<C>> {
        self.channels.values().filter_map(|channel| channel.transport.association())
    }

    /// The peer of a closed circuit has not acknowledged the DESTROY. Sends GONE instead, which needs no memory.
    pub(super) fn abandon(&mut self, now: Instant, channel: ChannelKey, id: CircId) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        if let Some(association) = state.transport.association_mut() {
            association.abandon(now, id);
            self.review_transport(channel);
        }
    }

    /// Forgets a circuit of a channel over datagrams.
    pub(super) fn forget(&mut self, channel: ChannelKey, id: CircId) {
        if let Some(association) = self.channels[channel].transport.association_mut() {
            association.remove_circuit(id);
            self.datagrams.recount(association);
        }
    }

    pub(super) fn review_transport(&mut self, channel: ChannelKey) {
        let Channel { transport, timers, .. } = &mut self.channels[channel];
        let Some(association) = transport.association_mut() else { return };
        self.datagrams.recount(association);
        if association.has_failed() {
            self.datagrams.failed.extend(association.take_failed().map(|failure| (channel, failure)));
        }
        let (due, is_ready) = (association.poll_timeout(), association.ready() > Bytes::ZERO);
        self.timers.set_coalesce(channel, timers, association.coalesce_timeout());
        self.timers.advance_retransmit(channel, timers, due);
        self.timers.drop_stale_coalesce(|channel| Some(self.channels.get(channel)?.timers));
        if is_ready {
            self.channels.set_ready(channel);
        }
    }
}
