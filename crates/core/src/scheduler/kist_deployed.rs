use super::SchedulerContext;
use super::kist_loop::{ChannelLimit, KistLoop, RUN_INTERVAL};
use crate::kernel::SocketInfo;
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration};

/// The configuration of the KIST that C tor has had since 0.3.2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KistDeployedConfig {
    /// Minimum time between two runs [ns], above zero (`KISTSchedRunInterval`: 10 ms in C tor's first KIST, 2 ms in
    /// 0.4.9).
    pub interval: Duration,
    /// In addition to the window in flight, the kernel may hold this many congestion windows of unsent bytes [1]
    /// (`KISTSockBufSizeFactor`).
    pub factor: f64,
}

impl Default for KistDeployedConfig {
    fn default() -> Self {
        KistDeployedConfig { interval: RUN_INTERVAL, factor: 1.0 }
    }
}

/// The write limit of one socket [B]: bytes that the kernel can send now, and bytes to send when the next ACKs arrive.
///
/// (cwnd - unacked) · mss + cwnd · mss · factor - unsent bytes in the kernel - bytes in the output buffer, at least
/// zero.
///
/// Source: C tor `scheduler_kist.c`, `update_socket_info_impl()`. Deviation: none.
pub fn window_limit(info: &SocketInfo, outbuf: Bytes, factor: f64) -> Bytes {
    let mss = u64::from(info.mss);
    let tcp_space = u64::from(info.cwnd.saturating_sub(info.unacked)) * mss;
    // The product is far below 2^53, so it is exact for whole factors.
    let allowed = (u64::from(info.cwnd) * mss) as f64 * factor;
    let extra = (allowed as u64).saturating_add(tcp_space);
    Bytes::new(extra).saturating_sub(info.not_sent).saturating_sub(outbuf)
}

/// Limits a channel by [`window_limit`]. The socket state is read when the run reaches the channel.
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
