//! Which channels write now, how many cells, and when again?
//!
//! A scheduler moves cells from circuit queues to output buffers and from there to the kernel,
//! through the [`SchedulerContext`] that the relay lends it. It never sees a cell.

mod by_channel;
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

pub use global::{Global, GlobalConfig, NoLimits};
pub use global_limit::GlobalLimitConfig;
pub use global_loop::{GlobalLoop, WriteLimits};
pub use kist::{KernelLimits, Kist, KistConfig, socket_limit};
pub use kist_deployed::{KistDeployed, KistDeployedConfig, WindowLimit, window_limit};
pub use kist_lite::{KistLite, KistLiteConfig, OutbufLimit};
pub use kist_loop::{ChannelLimit, KistLoop};
pub use vanilla::{Vanilla, VanillaConfig};

use crate::circuit_policy::Priority;
use crate::factory::Factory;
use crate::kernel::SocketInfo;
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration, Instant};
use std::fmt;

/// What a [`SchedulerContext::flush`] achieved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes that the kernel took [B].
    pub bytes: Bytes,
    /// The kernel refused more.
    pub refused: bool,
    /// A token bucket is empty: nothing goes until the next refill.
    pub throttled: bool,
}

/// What a scheduler may see and do of its relay.
pub trait SchedulerContext {
    /// What is in the channel's output buffer [B].
    fn outbuf(&self, channel: ChannelKey) -> Bytes;
    /// The priority of the channel's best circuit; `None` if no circuit has cells and credit.
    fn head(&self, channel: ChannelKey) -> Option<Priority>;
    /// Moves one cell of the best circuit to the output buffer; false if there is none.
    fn move_cell(&mut self, channel: ChannelKey) -> bool;
    /// Writes at most `limit` of the output buffer to the kernel, and at most what the token buckets
    /// allow in one go (the I/O quantum). A channel that they allow nothing waits for a refill.
    fn flush(&mut self, channel: ChannelKey, limit: Bytes) -> Flushed;
    /// What the kernel says of the channel's socket.
    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo;
    /// Asks the kernel to say when the channel is writable, or not to.
    fn want_writable(&mut self, channel: ChannelKey, wanted: bool);
}

/// Decides when each channel's cells move towards the kernel.
pub trait Scheduler: fmt::Debug + Send {
    /// A circuit of `channel` that could not send before has cells and credit now.
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext);
    /// The kernel says that `channel` is writable.
    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext);
    /// A refill made `channel` eligible again.
    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext);
    /// The time asked for by [`poll_timeout`](Self::poll_timeout) came. Early calls are harmless.
    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext);
    /// `channel` is gone; forget it.
    fn on_close(&mut self, channel: ChannelKey);
    /// The least time between two runs is this from the next one on [ns], above zero; whoever has no runs does not mind.
    fn set_run_interval(&mut self, _interval: Duration) {}
    /// When to call [`on_timer`](Self::on_timer).
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Builds the [`Scheduler`] of a relay.
#[derive(Clone, Debug)]
pub enum SchedulerConfig {
    /// [`Vanilla`].
    Vanilla(VanillaConfig),
    /// [`Global`].
    Global(GlobalConfig),
    /// [`Kist`].
    Kist(KistConfig),
    /// [`KistDeployed`].
    KistDeployed(KistDeployedConfig),
    /// [`KistLite`].
    KistLite(KistLiteConfig),
    /// Whatever this builds: the way in for algorithms outside this workspace.
    Custom(Factory<dyn Scheduler>),
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        SchedulerConfig::Vanilla(VanillaConfig::default())
    }
}

impl SchedulerConfig {
    /// C tor's schedulers run at most once in `interval` [ns] (`KISTSchedRunInterval`); the papers' have their own.
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

/// A built-in scheduler, or anyone's. Those with a memory are boxed: a client, of which there are many, needs none.
#[derive(Debug)]
pub enum AnyScheduler {
    /// [`Vanilla`].
    Vanilla(Vanilla),
    /// [`Global`].
    Global(Box<Global>),
    /// [`Kist`].
    Kist(Box<Kist>),
    /// [`KistDeployed`].
    KistDeployed(Box<KistDeployed>),
    /// [`KistLite`].
    KistLite(Box<KistLite>),
    /// An algorithm from outside.
    Custom(Box<dyn Scheduler>),
}

macro_rules! each {
    ($self:ident, $scheduler:ident => $call:expr) => {
        match $self {
            AnyScheduler::Vanilla($scheduler) => $call,
            AnyScheduler::Global($scheduler) => $call,
            AnyScheduler::Kist($scheduler) => $call,
            AnyScheduler::KistDeployed($scheduler) => $call,
            AnyScheduler::KistLite($scheduler) => $call,
            AnyScheduler::Custom($scheduler) => $call,
        }
    };
}

impl Scheduler for AnyScheduler {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        each!(self, scheduler => scheduler.on_ready(now, channel, context));
    }
    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        each!(self, scheduler => scheduler.on_writable(now, channel, context));
    }
    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        each!(self, scheduler => scheduler.on_refill(now, channel, context));
    }
    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        each!(self, scheduler => scheduler.on_timer(now, context));
    }
    fn on_close(&mut self, channel: ChannelKey) {
        each!(self, scheduler => scheduler.on_close(channel));
    }
    fn set_run_interval(&mut self, interval: Duration) {
        each!(self, scheduler => scheduler.set_run_interval(interval));
    }
    fn poll_timeout(&self) -> Option<Instant> {
        each!(self, scheduler => scheduler.poll_timeout())
    }
}
