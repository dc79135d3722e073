//! Channels that no circuit uses any more close after a while.

use super::{Node, Relay};
use crate::cell::Cell;
use crate::kernel::Kernel;
use crate::keys::ChannelKey;
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    /// Closes channels that had no circuit for too long, the one first that has had none for longest.
    pub(super) fn on_idle(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        while let Some((at, channel)) = self.node.idle.first().copied()
            && at <= now
        {
            self.close_channel(now, channel, kernel);
        }
    }
}

impl<C: Cell> Node<C> {
    /// An open channel without circuits closes after a while.
    pub(super) fn note_idle(&mut self, now: Instant, channel: ChannelKey) {
        let timeouts = self.config.idle_timeouts;
        let state = self.channel(channel);
        let timeout = if state.with_client { timeouts.client } else { timeouts.relay };
        if let Some(timeout) = timeout
            && state.open
            && state.circuits.is_empty()
            && state.closes_at.is_none()
        {
            let at = now + timeout;
            state.closes_at = Some(at);
            self.idle.insert((at, channel));
        }
    }

    /// The channel has a circuit, or is gone.
    pub(super) fn note_busy(&mut self, channel: ChannelKey) {
        if let Some(at) = self.channel(channel).closes_at.take() {
            self.idle.remove(&(at, channel));
        }
    }
}
