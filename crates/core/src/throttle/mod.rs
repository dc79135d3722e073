//! At what rate does the guard refill a client's buckets?
//!
//! A *client* is a connection whose other end is no relay, or all such connections of one address
//! ([`Aggregate`]): counts and buckets belong to it. The relay counts what it sends and receives, asks its throttle
//! at every refill, sets the rates and adds the tokens; a throttle sees counts and says rates, and nothing else.

mod average;
mod bit_splitting;
mod flagging;
mod static_rate;
mod threshold;

pub use average::{Averages, CELL};
pub use bit_splitting::{BitSplitting, BitSplittingConfig};
pub use flagging::{Flagging, FlaggingConfig, Unflag};
pub use static_rate::{StaticRate, StaticRateConfig};
pub use threshold::{Order, Threshold, ThresholdConfig, Throughput};

use crate::factory::Factory;
use crate::keys::ClientKey;
use penstock_units::{Bytes, Cells, DataRate, Instant};
use std::fmt;

/// What a throttle may see of one client at a refill.
#[derive(Clone, Copy, Debug)]
pub struct ClientSignals {
    /// The client; its key may be used again after [`Throttle::on_close`].
    pub client: ClientKey,
    /// Cells written to it since the last refill [cell].
    pub sent: Cells,
    /// Bytes written to it since the last refill, TLS included [B].
    pub written: Bytes,
    /// Bytes read from it since the last refill, TLS included [B].
    pub read: Bytes,
}

/// What a throttle may see of its relay at a refill.
#[derive(Clone, Copy, Debug)]
pub struct ThrottleSignals<'a> {
    /// Clients with an open connection, by key.
    pub clients: &'a [ClientSignals],
    /// Open connections to relays, which are never throttled [1].
    pub relays: u32,
    /// The relay's configured bandwidth rate; `None` if it has none.
    pub bandwidth: Option<DataRate>,
}

impl ThrottleSignals<'_> {
    /// Among how many the bandwidth is divided [1].
    pub fn connections(&self, count: Count) -> u32 {
        let clients = self.clients.len() as u32;
        match count {
            Count::All => clients + self.relays,
            Count::Clients => clients,
        }
    }
}

/// Which connections share the relay's bandwidth.
///
/// Source: throttling §3.2, algorithms 1 and 2, line 2 (`getConnectionList`) against the text, "active client
/// connections"; the prototype counts all open ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// Those to clients and to relays.
    #[default]
    All,
    /// Those to clients.
    Clients,
}

/// Sets the refill rate of clients' read and write buckets.
pub trait Throttle: fmt::Debug + Send {
    /// Called once at every bucket refill, before the tokens are added; never twice at one instant.
    fn on_refill(&mut self, now: Instant, signals: &ThrottleSignals<'_>);
    /// The rate of each of `client`'s buckets from this refill on; `None` does not throttle it. Asked after
    /// [`on_refill`](Self::on_refill), once for each of its clients.
    fn rate(&self, client: ClientKey) -> Option<DataRate>;
    /// `client` is gone; forget it.
    fn on_close(&mut self, client: ClientKey);
}

/// Throttles nobody, and is asked all the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoThrottle;

impl Throttle for NoThrottle {
    fn on_refill(&mut self, _now: Instant, _signals: &ThrottleSignals<'_>) {}
    fn rate(&self, _client: ClientKey) -> Option<DataRate> {
        None
    }
    fn on_close(&mut self, _client: ClientKey) {}
}

/// What of a client's connections counts together, and has one pair of buckets.
///
/// Source: throttling §5.3: a guard can "aggregate the accounting of all connections to that client".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// Each connection by itself.
    #[default]
    Connection,
    /// All connections of one address, which is one to whoever counts connections, too.
    Address,
}

/// The buckets of a relay's clients, whatever sets their rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBuckets {
    /// Their depth, read and write alike [B] (torrc `PerConnBWBurst`).
    pub burst: Bytes,
    /// What has a pair of them.
    pub aggregate: Aggregate,
}

impl Default for ClientBuckets {
    /// Source: throttling §3.2, footnote 3: 2 MiB let a client fetch the directory unthrottled.
    fn default() -> Self {
        ClientBuckets { burst: Bytes::mib(2), aggregate: Aggregate::default() }
    }
}

/// Builds the [`Throttle`] of a relay.
#[derive(Clone, Debug, Default)]
pub enum ThrottleConfig {
    /// Clients have no buckets.
    #[default]
    None,
    /// [`StaticRate`].
    Static(StaticRateConfig),
    /// [`BitSplitting`].
    BitSplitting(BitSplittingConfig),
    /// [`Flagging`].
    Flagging(FlaggingConfig),
    /// [`Threshold`].
    Threshold(ThresholdConfig),
    /// Whatever this builds: the way in for algorithms outside this workspace.
    Custom(Factory<dyn Throttle>),
}

impl ThrottleConfig {
    /// The throttle of one relay; `None` spares all bookkeeping.
    pub fn build(&self) -> Option<AnyThrottle> {
        Some(match self {
            ThrottleConfig::None => return None,
            ThrottleConfig::Static(config) => AnyThrottle::Static(StaticRate::new(*config)),
            ThrottleConfig::BitSplitting(config) => AnyThrottle::BitSplitting(BitSplitting::new(*config)),
            ThrottleConfig::Flagging(config) => AnyThrottle::Flagging(Flagging::new(*config)),
            ThrottleConfig::Threshold(config) => AnyThrottle::Threshold(Threshold::new(*config)),
            ThrottleConfig::Custom(factory) => AnyThrottle::Custom(factory.build()),
        })
    }
}

/// A built-in throttle without an allocation of its own, or anyone's.
#[derive(Debug)]
pub enum AnyThrottle {
    /// [`StaticRate`].
    Static(StaticRate),
    /// [`BitSplitting`].
    BitSplitting(BitSplitting),
    /// [`Flagging`].
    Flagging(Flagging),
    /// [`Threshold`].
    Threshold(Threshold),
    /// An algorithm from outside.
    Custom(Box<dyn Throttle>),
}

macro_rules! each {
    ($self:ident, $throttle:ident => $call:expr) => {
        match $self {
            AnyThrottle::Static($throttle) => $call,
            AnyThrottle::BitSplitting($throttle) => $call,
            AnyThrottle::Flagging($throttle) => $call,
            AnyThrottle::Threshold($throttle) => $call,
            AnyThrottle::Custom($throttle) => $call,
        }
    };
}

impl Throttle for AnyThrottle {
    fn on_refill(&mut self, now: Instant, signals: &ThrottleSignals<'_>) {
        each!(self, throttle => throttle.on_refill(now, signals));
    }
    fn rate(&self, client: ClientKey) -> Option<DataRate> {
        each!(self, throttle => throttle.rate(client))
    }
    fn on_close(&mut self, client: ClientKey) {
        each!(self, throttle => throttle.on_close(client));
    }
}

#[cfg(test)]
mod tests;
