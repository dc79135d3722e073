//! A scheduler: no more than so many bytes of a channel in the kernel.

use penstock_core::ChannelKey;
use penstock_core::scheduler::{Host, Scheduler};
use penstock_units::{Bytes, Duration, Instant};
use std::collections::BTreeSet;

/// Looks again after this long whether the kernel has sent something [ns].
const AGAIN: Duration = Duration::from_millis(5);
/// What is written at once, as long as there is so much [B].
const RECORD: Bytes = Bytes::kib(4);

/// What has to wait waits in circuit queues, where the circuit policy still has a say.
#[derive(Debug)]
pub struct ShortQueues {
    /// The most that a channel's socket may hold, sent or not, beside one record [B].
    most: Bytes,
    /// Channels whose sockets hold that much.
    waiting: BTreeSet<ChannelKey>,
    /// When to look at them.
    due: Option<Instant>,
}

impl ShortQueues {
    pub fn new(most: Bytes) -> Self {
        ShortQueues { most, waiting: BTreeSet::new(), due: None }
    }

    /// Writes until the socket holds enough, somebody refuses, or nothing is left.
    fn serve(&mut self, now: Instant, channel: ChannelKey, host: &mut dyn Host) {
        loop {
            if host.socket_info(channel).queued >= self.most {
                self.waiting.insert(channel);
                self.due.get_or_insert(now + AGAIN);
                return;
            }
            while host.outbuf(channel) < RECORD && host.move_cell(channel) {}
            if host.outbuf(channel) == Bytes::ZERO {
                return;
            }
            let flushed = host.flush(channel, RECORD);
            if flushed.refused {
                return host.want_writable(channel, true);
            }
            if flushed.throttled {
                return;
            }
        }
    }
}

impl Scheduler for ShortQueues {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, host: &mut dyn Host) {
        if !self.waiting.contains(&channel) {
            self.serve(now, channel, host);
        }
    }

    fn on_writable(&mut self, now: Instant, channel: ChannelKey, host: &mut dyn Host) {
        host.want_writable(channel, false);
        self.on_ready(now, channel, host);
    }

    fn on_refill(&mut self, now: Instant, channel: ChannelKey, host: &mut dyn Host) {
        self.on_ready(now, channel, host);
    }

    fn on_timer(&mut self, now: Instant, host: &mut dyn Host) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            for channel in std::mem::take(&mut self.waiting) {
                self.serve(now, channel, host);
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
