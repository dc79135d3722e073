//! Which channels write now, how many cells do they write, and when do they write again?
//!
//! A scheduler moves cells from circuit queues to output buffers and then to the kernel, through a
//! [`SchedulerContext`]. A scheduler does not see the cells themselves.

mod bandwidth;
mod by_channel;
mod by_transport;
mod eligible;
mod global;
mod global_limit;
mod global_loop;
mod kist;
mod kist_deployed;
mod kist_lite;
mod kist_loop;
mod pending;
mod vanilla;
mod write;

#[cfg(test)]
mod tests;

pub use by_transport::ByTransport;
pub use global::{Global, GlobalConfig, NoLimits};
pub use global_limit::GlobalLimitConfig;
pub use global_loop::{GlobalLoop, WriteLimits};
pub use kist::{
    KernelLimits, Kist, KistConfig, Unacked, socket_limit, socket_limit_by_flight, socket_limit_by_written,
};
pub use kist_deployed::{KistDeployed, KistDeployedConfig, WindowLimit, window_limit};
pub use kist_lite::{KistLite, KistLiteConfig, OutbufLimit};
pub use kist_loop::{ChannelLimit, KistLoop};
pub use vanilla::{Vanilla, VanillaConfig};

use crate::circuit_policy::Priority;
use crate::factory::Factory;
use crate::kernel::SocketInfo;
use crate::keys::ChannelKey;
use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;
use penstock_units::{Bytes, Duration, Instant};
use std::fmt;

/// The result of [`SchedulerContext::flush`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes that the kernel took [B].
    pub bytes: Bytes,
    /// The kernel refused further bytes.
    pub refused: bool,
    /// A token bucket is empty, so the channel waits for the next refill.
    pub throttled: bool,
}

/// The queries and actions that a relay offers to its scheduler.
pub trait SchedulerContext {
    /// Bytes in the channel's output buffer [B].
    fn outbuf(&self, channel: ChannelKey) -> Bytes;
    /// The priority of the channel's best circuit; `None` if no circuit has cells and credit.
    fn head(&self, channel: ChannelKey) -> Option<Priority>;
    /// Moves one cell of the best circuit to the output buffer, or all of its queued cells if its policy
    /// [flushes](crate::circuit_policy::Flush) queues. Returns false if no circuit has a cell to move.
    fn move_cell(&mut self, channel: ChannelKey) -> bool;
    /// Writes at most `limit` bytes of the output buffer to the kernel [B], and at most one I/O quantum of the token
    /// buckets. Without tokens the channel waits for a refill.
    fn flush(&mut self, channel: ChannelKey, limit: Bytes) -> Flushed;
    /// Whether the channel's cells travel in datagrams over UDP now. The cells of all other channels travel over TCP.
    fn has_datagrams(&self, channel: ChannelKey) -> bool;
    /// The kernel's state of the channel's socket.
    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo;
    /// Selects whether the kernel reports that the channel is writable.
    fn want_writable(&mut self, channel: ChannelKey, wanted: bool);
}

/// Decides when each channel's cells move towards the kernel.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait Scheduler: fmt::Debug + Send {
    /// A circuit of `channel` can send again, because it has cells and credit.
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext);
    /// The kernel reports that `channel` is writable.
    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext);
    /// A refill of token buckets allows `channel` to write again.
    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext);
    /// Handles the timer. Called at the time that [`poll_timeout`](Self::poll_timeout) returned. Early calls are
    /// harmless.
    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext);
    /// `channel` is closed.
    fn on_close(&mut self, channel: ChannelKey);
    /// Changes the minimum time between two runs [ns], above zero. A scheduler without runs ignores this.
    fn set_run_interval(&mut self, _interval: Duration) {}
    /// When to call [`on_timer`](Self::on_timer) next.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Builds the [`Scheduler`] of a relay.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum SchedulerConfig {
    Vanilla(VanillaConfig),
    Global(GlobalConfig),
    Kist(KistConfig),
    KistDeployed(KistDeployedConfig),
    KistLite(KistLiteConfig),
    /// An algorithm from outside this workspace.
    Custom(Factory<dyn Scheduler>),
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        SchedulerConfig::Vanilla(VanillaConfig::default())
    }
}

impl SchedulerConfig {
    /// Changes the minimum time between two runs of C tor's schedulers [ns] (`KISTSchedRunInterval`). The papers'
    /// schedulers have their own intervals.
    pub(crate) fn set_run_interval(&mut self, interval: Duration) {
        match self {
            SchedulerConfig::KistDeployed(config) => config.interval = interval,
            SchedulerConfig::KistLite(config) => config.interval = interval,
            SchedulerConfig::Vanilla(_)
            | SchedulerConfig::Global(_)
            | SchedulerConfig::Kist(_)
            | SchedulerConfig::Custom(_) => {}
        }
    }

    /// The scheduler of a relay that offers datagrams to its neighbours. A built-in scheduler with rounds then serves
    /// only channels of TCP.
    pub fn build_with_datagrams(&self) -> AnyScheduler {
        match self {
            SchedulerConfig::Vanilla(_) | SchedulerConfig::Custom(_) => self.build(),
            SchedulerConfig::Global(_)
            | SchedulerConfig::Kist(_)
            | SchedulerConfig::KistDeployed(_)
            | SchedulerConfig::KistLite(_) => {
                AnyScheduler::ByTransport(Box::new(ByTransport::new(self.build())))
            }
        }
    }

    /// The scheduler of one relay.
    pub fn build(&self) -> AnyScheduler {
        match self {
            SchedulerConfig::Vanilla(config) => AnyScheduler::Vanilla(Vanilla::new(*config)),
            SchedulerConfig::Global(config) => AnyScheduler::Global(Box::new(Global::new(*config))),
            SchedulerConfig::Kist(config) => AnyScheduler::Kist(Box::new(Kist::new(*config))),
            SchedulerConfig::KistDeployed(config) => {
                AnyScheduler::KistDeployed(Box::new(KistDeployed::new(*config)))
            }
            SchedulerConfig::KistLite(config) => AnyScheduler::KistLite(Box::new(KistLite::new(*config))),
            SchedulerConfig::Custom(factory) => AnyScheduler::Custom(factory.build()),
        }
    }
}

/// A built-in scheduler, or an algorithm from outside this workspace. Schedulers with state are boxed, because most
/// nodes are clients, which use [`Vanilla`].
#[enum_dispatch(Scheduler)]
#[derive(Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum AnyScheduler {
    Vanilla(Vanilla),
    Global(Box<Global>),
    Kist(Box<Kist>),
    KistDeployed(Box<KistDeployed>),
    KistLite(Box<KistLite>),
    ByTransport(Box<ByTransport>),
    Custom(Box<dyn Scheduler>),
}
