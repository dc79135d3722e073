use super::{Scheduler, SchedulerContext};
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Instant};

/// The limits of the output buffer [B].
///
/// Source: C tor `OR_CONN_LOWWATER` and `OR_CONN_HIGHWATER`; DefenestraTor §3.1 ("fixed size of 32 KiB").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VanillaConfig {
    /// When the output buffer falls below this size, cells move into the buffer.
    pub outbuf_low: Bytes,
    /// Cells move into the output buffer until it holds at least this many bytes.
    pub outbuf_high: Bytes,
}

impl Default for VanillaConfig {
    fn default() -> Self {
        VanillaConfig { outbuf_low: Bytes::kib(16), outbuf_high: Bytes::kib(32) }
    }
}

/// Writes each socket when the kernel reports it writable, one I/O quantum for each notification.
///
/// The sockets are served in the order of the kernel's notifications. KIST §5.1 describes this order as a defect of
/// Tor; Penstock reproduces it.
///
/// Source: C tor 0.2.3 `connection_handle_write()`, `connection_or_flushed_some()`, `append_cell_to_circuit_queue()`.
/// Deviation: a write takes whole cells, while C tor's write takes bytes. The buckets' long-run rate is the same.
#[derive(Debug)]
pub struct Vanilla {
    config: VanillaConfig,
}

impl Vanilla {
    /// The scheduler of one relay.
    pub fn new(config: VanillaConfig) -> Self {
        Vanilla { config }
    }
}

impl Scheduler for Vanilla {
    fn on_ready(&mut self, _now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        // One cell in the output buffer starts the notifications. The other cells follow when the kernel reports the
        // socket writable.
        if context.outbuf(channel) == Bytes::ZERO {
            context.move_cell(channel);
        }
        if context.outbuf(channel) > Bytes::ZERO {
            context.want_writable(channel, true);
        }
    }

    fn on_writable(&mut self, _now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        if context.flush(channel, Bytes::new(u64::MAX)).throttled {
            context.want_writable(channel, false);
            return;
        }
        if context.outbuf(channel) < self.config.outbuf_low {
            while context.outbuf(channel) < self.config.outbuf_high && context.move_cell(channel) {}
        }
        context.want_writable(channel, context.outbuf(channel) > Bytes::ZERO);
    }

    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.on_ready(now, channel, context);
    }

    fn on_timer(&mut self, _now: Instant, _host: &mut dyn SchedulerContext) {}
    fn on_close(&mut self, _channel: ChannelKey) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
