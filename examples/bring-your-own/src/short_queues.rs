//! A scheduler that limits the bytes of each channel in the kernel.

use penstock_core::ChannelKey;
use penstock_core::scheduler::{Scheduler, SchedulerContext};
use penstock_units::{Bytes, Duration, Instant};
use std::collections::BTreeSet;

/// Interval of checks for free space in the kernel [ns].
const AGAIN: Duration = Duration::from_millis(5);
/// Size of a write, if there are enough cells [B].
const RECORD: Bytes = Bytes::kib(4);

/// Other cells wait in circuit queues, where the circuit policy orders them.
#[derive(Debug)]
pub(crate) struct ShortQueues {
    /// Maximum bytes of a channel's socket, sent or unsent; one record may exceed it [B].
    most: Bytes,
    /// Channels whose sockets hold the maximum.
    waiting: BTreeSet<ChannelKey>,
    /// Time of the next check.
    due: Option<Instant>,
}

impl ShortQueues {
    pub(crate) fn new(most: Bytes) -> Self {
        ShortQueues { most, waiting: BTreeSet::new(), due: None }
    }

    /// Writes until the socket holds the maximum, a write is refused, or no cells are left.
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
