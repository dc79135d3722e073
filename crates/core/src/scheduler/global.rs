use super::SchedulerContext;
use super::global_loop::{GLOBAL_WRITE_TIMEOUT, GlobalLoop, WriteLimits};
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration, Instant};

/// The configuration of global scheduling without KIST's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalConfig {
    /// How long the first channel with new cells waits for the next round [ns] (`GlobalWriteTimeout`).
    pub interval: Duration,
}

impl Default for GlobalConfig {
    fn default() -> Self {
        GlobalConfig { interval: GLOBAL_WRITE_TIMEOUT }
    }
}

/// No limits: a channel takes cells until the kernel refuses and 16 KiB wait in the channel's output buffer.
///
/// Source: KIST §5.3 ("global scheduling without enforcing the write limits"); the 16 KiB are from `autotune.c` of its
/// prototype. Deviation: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLimits;

impl WriteLimits for NoLimits {
    const UNFLUSHED: Bytes = Bytes::kib(16);

    fn begin_round(&mut self, _now: Instant, _pending: &[ChannelKey], _host: &mut dyn SchedulerContext) {}
    fn left(&mut self, _channel: ChannelKey) -> Bytes {
        super::write::ALL
    }
    fn charge(&mut self, _channel: ChannelKey, _bytes: Bytes) {}
    fn written(&mut self, _channel: ChannelKey, _charged: Bytes, _bytes: Bytes) {}
    fn forget(&mut self, _channel: ChannelKey) {}
}

/// Global scheduling with KIST's rounds, but without KIST's limits.
pub type Global = GlobalLoop<NoLimits>;

impl Global {
    /// The scheduler of one relay.
    pub fn new(config: GlobalConfig) -> Self {
        GlobalLoop::with(config.interval, NoLimits)
    }
}
