//! KIST as C tor has it since 0.3.2.

use super::SchedulerContext;
use super::kist_loop::{ChannelLimit, KistLoop, RUN_INTERVAL};
use crate::kernel::SocketInfo;
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration};

/// How C tor's KIST writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KistDeployedConfig {
    /// Least time between two runs [ns], above zero (`KISTSchedRunInterval`: 10 ms in C tor's first KIST, 2 ms in
    /// 0.4.9).
    pub interval: Duration,
    /// How many congestion windows may wait unsent behind the one under way [1] (`KISTSockBufSizeFactor`).
    pub factor: f64,
}

impl Default for KistDeployedConfig {
    fn default() -> Self {
        KistDeployedConfig { interval: RUN_INTERVAL, factor: 1.0 }
    }
}

/// What the kernel can send now, and what it needs until the next ACKs come [B].
///
/// (cwnd - unacked) · mss + cwnd · mss · factor - what waits unsent in the kernel - what waits in the output buffer,
/// and never below zero.
///
/// Source: C tor `scheduler_kist.c`, `update_socket_info_impl()`. Deviation: none.
pub fn window_limit(info: &SocketInfo, outbuf: Bytes, factor: f64) -> Bytes {
    let mss = u64::from(info.mss);
    let tcp_space = u64::from(info.cwnd.saturating_sub(info.unacked)) * mss;
    // Far below 2^53, so that the product is exact for whole factors.
    let allowed = (u64::from(info.cwnd) * mss) as f64 * factor;
    let extra = (allowed as u64).saturating_add(tcp_space);
    Bytes::new(extra).saturating_sub(info.not_sent).saturating_sub(outbuf)
}

/// [`window_limit`] of what the kernel says when a channel's turn comes.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimit {
    factor: f64,
}

impl ChannelLimit for WindowLimit {
    fn limit(&self, channel: ChannelKey, context: &mut dyn SchedulerContext) -> Bytes {
        window_limit(&context.socket_info(channel), context.outbuf(channel), self.factor)
    }
}

/// C tor's default scheduler on Linux.
pub type KistDeployed = KistLoop<WindowLimit>;

impl KistDeployed {
    /// The scheduler of one relay.
    pub fn new(config: KistDeployedConfig) -> Self {
        KistLoop::with(config.interval, WindowLimit { factor: config.factor })
    }
}
