//! Channels of datagrams: how one becomes such, what it says beside cells, and when it wants to be heard.

use super::{Node, Relay};
use crate::cell::Cell;
use crate::datagram::{DatagramCounters, Note};
use crate::kernel::Kernel;
use crate::keys::ChannelKey;
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

    /// Tells channels of datagrams that time passed, if they wait for it.
    pub(super) fn on_datagram_timer(&mut self, now: Instant) {
        while let Some((due, channel)) = self.node.datagram_timers.first().copied()
            && due <= now
        {
            self.node.channel(channel).transport.on_timer(now);
            self.node.review_transport(channel);
        }
    }

    /// What a datagram said beside cells.
    pub(super) fn on_note(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        note: Note,
        kernel: &mut impl Kernel<C>,
    ) {
        match note {
            Note::Forwarded { id, count, trip, onward } => {
                let outcome = self.node.on_forwarded(now, channel, id, count, trip, onward);
                if let Err(violation) = outcome {
                    let violation = Some(violation);
                    self.on_failed(now, channel, Note::Failed { id, violation }, kernel);
                }
            }
            Note::Failed { .. } => self.on_failed(now, channel, note, kernel),
        }
    }

    /// A circuit must close for what its peer did, or because it is unknown there.
    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        note: Note,
        kernel: &mut impl Kernel<C>,
    ) {
        let Note::Failed { id, violation } = note else { return };
        let Some(state) = self.node.channels.get(channel.0 as usize) else { return };
        let Some(circuit) = state.circuits.get(id) else { return };
        // Who does not know the circuit needs no DESTROY.
        let from = violation.is_none().then(|| self.node.circuit(circuit).arriving(channel, id));
        self.close(now, circuit, from, violation, kernel);
    }
}

impl<C: Cell> Node<C> {
    /// Something changed in how a channel's cells travel: it may have something to send, now or later.
    pub(super) fn review_transport(&mut self, channel: ChannelKey) {
        let state = self.channel(channel);
        if !state.transport.is_datagrams() {
            return;
        }
        let failed = state.transport.take_failed();
        let due = state.transport.poll_timeout();
        if state.transport.ready() > Bytes::ZERO {
            self.ready.push_back(channel);
        }
        self.failed.extend(failed.into_iter().map(|note| (channel, note)));
        self.set_datagram_timer(channel, due);
    }

    /// When the channel is to be told next that time passed.
    pub(super) fn set_datagram_timer(&mut self, channel: ChannelKey, due: Option<Instant>) {
        let before = std::mem::replace(&mut self.channel(channel).due, due);
        if before != due {
            before.map(|before| self.datagram_timers.remove(&(before, channel)));
            due.map(|due| self.datagram_timers.insert((due, channel)));
        }
    }
}
