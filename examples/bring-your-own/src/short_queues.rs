//! A scheduler that limits the bytes of each channel in the kernel's send buffer.

use penstock_core::ChannelKey;
use penstock_core::scheduler::{Scheduler, SchedulerContext};
use penstock_units::{Bytes, Duration, Instant};
use std::collections::BTreeSet;

/// Interval at which the scheduler looks for free space in the kernel.
const AGAIN: Duration = Duration::from_millis(5);
/// Size of a write, if enough cells wait [B].
const RECORD: Bytes = Bytes::kib(4);

/// A scheduler that keeps few bytes in the kernel. Other cells wait in circuit queues.
#[derive(Debug)]
pub(crate) struct ShortQueues {
    /// Maximum bytes in a channel's send buffer, sent or unsent [B]. One record may exceed the limit.
    most: Bytes,
    /// Channels with the maximum in their send buffer.
    waiting: BTreeSet<ChannelKey>,
    /// Time of the next look for free space.
    due: Option<Instant>,
}

impl ShortQueues {
    pub(crate) fn new(most: Bytes) -> Self {
        ShortQueues { most, waiting: BTreeSet::new(), due: None }
    }

    /// Writes until the send buffer holds the maximum, the kernel refuses a write, or no cells wait.
    fn serve(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        loop {
            if context.socket_info(channel).queued >= self.most {
                self.waiting.insert(channel);
                self.due.get_or_insert(now + AGAIN);
                return;
            }
            while context.outbuf(channel) < RECORD && context.move_cell(channel) {}
            if context.outbuf(channel) == Bytes::ZERO {
                return;
            }
            let flushed = context.flush(channel, RECORD);
            if flushed.refused {
                return context.want_writable(channel, true);
            }
            if flushed.throttled {
                return;
            }
        }
    }
}

impl Scheduler for ShortQueues {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        if !self.waiting.contains(&channel) {
            self.serve(now, channel, context);
        }
    }

    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        context.want_writable(channel, false);
        self.on_ready(now, channel, context);
    }

    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.on_ready(now, channel, context);
    }

    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            for channel in std::mem::take(&mut self.waiting) {
                self.serve(now, channel, context);
            }
        }
    }

    fn on_close(&mut self, channel: ChannelKey) {
        self.waiting.remove(&channel);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}
