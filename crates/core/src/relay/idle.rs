use super::{Parts, Relay};
use crate::cell::Cell;
use crate::kernel::Kernel;
use crate::keys::ChannelKey;
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    pub(super) fn on_idle(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        while let Some(channel) = self.parts.timers.expired_idle(now) {
            self.close_channel(now, channel, kernel);
        }
    }
}

impl<C: Cell> Parts<C> {
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

    pub(super) fn stop_idle_timeout(&mut self, channel: ChannelKey) {
        self.timers.clear_idle(channel, &mut self.channels[channel].timers);
    }
}
