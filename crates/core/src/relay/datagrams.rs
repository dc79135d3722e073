//! Channels of datagrams: how one becomes such, what it says beside cells, and when it wants to be heard.

use super::{Node, Relay};
use crate::cell::Cell;
use crate::datagram::{DatagramCounters, LinkEvent};
use crate::kernel::Kernel;
use crate::keys::ChannelKey;
use crate::reason::DestroyReason;
use crate::transport::Transport;
use penstock_units::{Bytes, Instant};

impl<C: Cell> Relay<C> {
    /// Whether this node can speak datagrams; a channel has them if both its nodes can.
    pub fn speaks_datagrams(&self) -> bool {
        self.node.config.datagrams.is_some()
    }

    /// Both ends of a channel speak datagrams, and it is one. Before [`on_channel_open`](Self::on_channel_open).
    pub fn use_datagrams(&mut self, channel: ChannelKey) {
        let Some(config) = self.node.config.datagrams else { return };
        if let Some(state) = self.node.channels.get_mut(channel.0 as usize).filter(|state| !state.open) {
            state.transport = Transport::datagrams(config);
        }
    }

    /// What all channels of datagrams counted since the start.
    pub fn datagram_counters(&self) -> DatagramCounters {
        let open = self.node.channels.iter().map(|(_, channel)| channel.transport.counters());
        open.fold(self.node.closed_datagrams, DatagramCounters::plus)
    }

    /// Cells that left for channels of datagrams and are not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.node.channels.iter().map(|(_, channel)| channel.transport.unacknowledged()).sum()
    }

    /// Tells channels of datagrams that time passed, if they wait for it: the one first that waited for the earlier
    /// time, and of two for the same one that with the smaller key.
    pub(super) fn on_datagram_timer(&mut self, now: Instant) {
        let node = &mut self.node;
        let mut fired = std::mem::take(&mut node.fired);
        while let Some((due, channel)) = node.datagram_timers.first().copied()
            && due <= now
        {
            node.set_datagram_timer(channel, None);
            fired.push((due, channel));
        }
        while let Some(held) = node.holds.front().copied()
            && held.0 <= now
        {
            node.holds.pop_front();
            fired.push(held);
        }
        fired.sort_unstable();
        for (_, channel) in fired.drain(..) {
            let Some(state) = node.channels.get_mut(channel.0 as usize) else { continue };
            let times = [state.transport.poll_timeout(), state.transport.held_until()];
            if times.into_iter().flatten().any(|due| due <= now) {
                state.transport.on_timer(now);
            }
            node.review_transport(channel);
        }
        node.fired = fired;
    }

    /// When channels of datagrams want to be told that time passed.
    pub(super) fn poll_datagrams(&self) -> Option<Instant> {
        let timer = self.node.datagram_timers.first().map(|(due, _)| *due);
        let held = self.node.holds.front().map(|(due, _)| *due);
        [timer, held].into_iter().flatten().min()
    }

    /// What a datagram said beside cells.
    pub(super) fn on_link_event(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        event: LinkEvent,
        kernel: &mut impl Kernel<C>,
    ) {
        match event {
            LinkEvent::Forwarded { id, count, trip, downstream } => {
                let outcome = self.node.on_forwarded(now, channel, id, count, trip, downstream);
                if let Err(violation) = outcome {
                    let violation = Some(violation);
                    self.on_failed(now, channel, LinkEvent::Failed { id, violation }, kernel);
                }
            }
            LinkEvent::Failed { .. } => self.on_failed(now, channel, event, kernel),
        }
    }

    /// A circuit must close for what its peer did, or because it is unknown there.
    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        event: LinkEvent,
        kernel: &mut impl Kernel<C>,
    ) {
        let LinkEvent::Failed { id, violation } = event else { return };
        let Some(state) = self.node.channels.get(channel.0 as usize) else { return };
        let Some(circuit) = state.circuits.get(id) else { return };
        // Who does not know the circuit needs no DESTROY.
        let from = violation.is_none().then(|| self.node.circuit(circuit).arriving(channel, id));
        self.close(now, circuit, from, violation.map_or(Ok(DestroyReason::DESTROYED), Err), kernel);
    }
}

impl<C: Cell> Node<C> {
    /// Something changed in how a channel's cells travel: it may have something to send, now or later.
    pub(super) fn review_transport(&mut self, channel: ChannelKey) {
        let state = self.channels.get_mut(channel.0 as usize).expect("it has just read, written or waited");
        if !state.transport.is_datagrams() {
            return;
        }
        if state.transport.has_failed() {
            self.failed.extend(state.transport.take_failed().map(|event| (channel, event)));
        }
        let (due, armed) = (state.transport.poll_timeout(), state.due);
        let held = state.transport.held_until();
        if held != std::mem::replace(&mut state.held, held) {
            self.holds.extend(held.map(|held| (held, channel)));
        }
        // Those in front that found company.
        while let Some((due, channel)) = self.holds.front()
            && self.channels.get(channel.0 as usize).is_none_or(|state| state.held != Some(*due))
        {
            self.holds.pop_front();
        }
        let state = &self.channels[channel.0 as usize];
        if state.transport.ready() > Bytes::ZERO {
            self.ready.push_back(channel);
        }
        // A timer that is early finds nothing to do, and is set anew; most are not needed when they come.
        if due.is_some_and(|due| armed.is_none_or(|armed| due < armed)) {
            self.set_datagram_timer(channel, due);
        }
    }

    /// When the channel is to be told next that time passed, if not sooner.
    pub(super) fn set_datagram_timer(&mut self, channel: ChannelKey, due: Option<Instant>) {
        let before = std::mem::replace(&mut self.channel(channel).due, due);
        before.map(|before| self.datagram_timers.remove(&(before, channel)));
        due.map(|due| self.datagram_timers.insert((due, channel)));
    }
}
