use super::{AnyScheduler, Scheduler, SchedulerContext, Vanilla, VanillaConfig};
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration, Instant};

/// The output buffer of a channel of datagrams [B]: two cells, as many as a datagram has.
const DATAGRAM: Bytes = Bytes::kib(1);

/// Serves channels of TCP with a scheduler that works in rounds, and channels of datagrams with [`Vanilla`].
///
/// Rounds keep bytes out of the kernel's queues of TCP. A datagram socket has no such queue. Between relays whose hop
/// round trip is shorter than a round, BackTap and Marut would take the wait for a round as a queue at the next node,
/// and keep the window at one cell.
///
/// A channel whose datagrams travel over TCP, because UDP does not work, is served like other channels of TCP. Otherwise
/// a peer that drops all UDP packets would leave the rounds.
///
/// Source: nstor's nodes with BackTap have no rounds. Deviation: its output buffer is a FIFO of messages; here the
/// circuit policy chooses cells until two wait.
#[derive(Debug)]
pub struct ByTransport {
    streams: AnyScheduler,
    datagrams: Vanilla,
}

impl ByTransport {
    pub(super) fn new(streams: AnyScheduler) -> Self {
        let config = VanillaConfig { outbuf_low: DATAGRAM, outbuf_high: DATAGRAM };
        ByTransport { streams, datagrams: Vanilla::new(config) }
    }

    fn of(&mut self, channel: ChannelKey, context: &dyn SchedulerContext) -> &mut dyn Scheduler {
        if context.has_datagrams(channel) { &mut self.datagrams } else { &mut self.streams }
    }
}

impl Scheduler for ByTransport {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.of(channel, context).on_ready(now, channel, context);
    }

    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.of(channel, context).on_writable(now, channel, context);
    }

    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.of(channel, context).on_refill(now, channel, context);
    }

    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        self.streams.on_timer(now, context);
    }

    fn on_close(&mut self, channel: ChannelKey) {
        self.streams.on_close(channel);
    }

    fn set_run_interval(&mut self, interval: Duration) {
        self.streams.set_run_interval(interval);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.streams.poll_timeout()
    }
}
