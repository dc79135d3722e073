//! Idle channels: a channel without circuits closes after a timeout.

use super::{Parts, Relay};
use crate::cell::Cell;
use crate::kernel::Kernel;
use crate::keys::ChannelKey;
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    /// Closes channels whose idle timeouts have expired, the longest idle one first.
    pub(super) fn on_idle(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        while let Some(channel) = self.parts.timers.expired_idle(now) {
            self.close_channel(now, channel, kernel);
        }
    }
}

impl<C: Cell> Parts<C> {
    /// Starts the idle timeout of an open channel without circuits.
    pub(super) fn start_idle_timeout(&mut self, now: Instant, channel: ChannelKey) {
        let timeouts = self.config.idle_timeouts;
        let state = &mut self.channels[channel];
        let timeout = if state.with_client { timeouts.client } else { timeouts.relay };
        if let Some(timeout) = timeout
            && state.open
            && state.circuits.is_empty()
        {
            self.timers.set_idle(channel, &mut state.timers, now + timeout);
        }
    }

    /// Stops the idle timeout, because the channel has a circuit or is gone.
    pub(super) fn stop_idle_timeout(&mut self, channel: ChannelKey) {
        self.timers.clear_idle(channel, &mut self.channels[channel].timers);
    }
}
