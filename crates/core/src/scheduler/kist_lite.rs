use super::SchedulerContext;
use super::kist_loop::{CELL, CHARGE, ChannelLimit, KistLoop, RUN_INTERVAL};
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration};

/// The configuration of KISTLite, C tor's KIST for hosts whose kernel does not report socket state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KistLiteConfig {
    /// Minimum time between two runs [ns], above zero (`KISTSchedRunInterval`).
    pub interval: Duration,
}

impl Default for KistLiteConfig {
    fn default() -> Self {
        KistLiteConfig { interval: RUN_INTERVAL }
    }
}

/// Fills the output buffer with whole cells up to C tor's high mark of 32 KiB; the last cell may exceed the mark.
///
/// Source: C tor `channel_tls_num_cells_writeable_method()`, `update_socket_info_impl()` (its fallback). Deviation:
/// none.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutbufLimit;

/// C tor's `OR_CONN_HIGHWATER` [B].
const HIGH_WATER: Bytes = Bytes::kib(32);

impl OutbufLimit {
    fn of(outbuf: Bytes) -> Bytes {
        let cells = HIGH_WATER.saturating_sub(outbuf).get().div_ceil(CELL);
        Bytes::new(cells * CHARGE.get())
    }
}

impl ChannelLimit for OutbufLimit {
    fn limit(&self, channel: ChannelKey, context: &mut dyn SchedulerContext) -> Bytes {
        OutbufLimit::of(context.outbuf(channel))
    }
}

/// C tor's KIST without the kernel's socket state.
pub type KistLite = KistLoop<OutbufLimit>;

impl KistLite {
    /// The scheduler of one relay.
    pub fn new(config: KistLiteConfig) -> Self {
        KistLoop::with(config.interval, OutbufLimit)
    }
}
