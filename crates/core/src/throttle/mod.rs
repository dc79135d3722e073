//! At what rate does the guard refill a client's buckets?

use crate::factory::Factory;
use crate::keys::ChannelKey;
use penstock_units::{Cells, DataRate, Instant};
use std::fmt;

/// What a throttle may see of one client channel at a refill.
#[derive(Clone, Copy, Debug)]
pub struct ClientSignals {
    /// The channel.
    pub channel: ChannelKey,
    /// Cells sent to the client since the last refill [cell].
    pub sent: Cells,
    /// Cells read from the client since the last refill [cell].
    pub received: Cells,
}

/// What a throttle may see of its relay at a refill.
#[derive(Clone, Copy, Debug)]
pub struct ThrottleSignals<'a> {
    /// Channels to clients, by key. Channels to relays are never throttled.
    pub clients: &'a [ClientSignals],
    /// All open channels, relays' included [1].
    pub channels: u32,
    /// The relay's configured bandwidth rate; `None` if it has none.
    pub bandwidth: Option<DataRate>,
}

/// Sets the refill rate of client channels' read and write buckets.
pub trait Throttle: fmt::Debug + Send {
    /// Called once at every bucket refill, before the tokens are added.
    fn on_refill(&mut self, now: Instant, signals: &ThrottleSignals<'_>);
    /// The rate of `channel`'s buckets; `None` leaves it unlimited.
    fn rate(&self, channel: ChannelKey) -> Option<DataRate>;
    /// `channel` is gone; forget it.
    fn on_close(&mut self, channel: ChannelKey);
}

/// No throttling.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoThrottle;

impl Throttle for NoThrottle {
    fn on_refill(&mut self, _now: Instant, _signals: &ThrottleSignals<'_>) {}
    fn rate(&self, _channel: ChannelKey) -> Option<DataRate> {
        None
    }
    fn on_close(&mut self, _channel: ChannelKey) {}
}

/// Builds the [`Throttle`] of a relay.
#[derive(Clone, Debug, Default)]
pub enum ThrottleConfig {
    /// [`NoThrottle`].
    #[default]
    None,
    /// Whatever this builds: the way in for algorithms outside this workspace.
    Custom(Factory<dyn Throttle>),
}

impl ThrottleConfig {
    /// The throttle of one relay; `None` spares its bookkeeping.
    pub fn build(&self) -> Option<Box<dyn Throttle>> {
        match self {
            ThrottleConfig::None => None,
            ThrottleConfig::Custom(factory) => Some(factory.build()),
        }
    }
}
