//! At what rate does the guard refill a client's buckets?
//!
//! A *client* is a connection whose other end is not a relay, or all such connections of one address ([`Aggregate`]).
//! Each client has counts and buckets. At every refill the relay passes the counts to the throttle, and the throttle
//! returns the clients' rates. Then the relay adds the tokens.

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
use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;
use penstock_units::{Bytes, Cells, DataRate, Instant};
use std::fmt;

/// The measurements of one client that a throttle gets at a refill.
#[derive(Clone, Copy, Debug)]
pub struct ClientSignals {
    /// The client's key. After [`Throttle::on_close`] another client may get the same key.
    pub client: ClientKey,
    /// Cells written to the client since the last refill [cell].
    pub sent: Cells,
    /// Bytes written to the client since the last refill, TLS included [B].
    pub written: Bytes,
    /// Bytes read from the client since the last refill, TLS included [B].
    pub read: Bytes,
}

/// The measurements of a relay that a throttle gets at a refill.
#[derive(Clone, Copy, Debug)]
pub struct ThrottleSignals<'a> {
    /// Clients with an open connection, in the order of their keys.
    pub clients: &'a [ClientSignals],
    /// Open connections to relays, which are never throttled [1].
    pub relays: u32,
    /// The relay's configured bandwidth rate; `None` if it has no limit.
    pub bandwidth: Option<DataRate>,
}

impl ThrottleSignals<'_> {
    /// The number of connections that share the bandwidth [1].
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
/// Source: throttling §3.2. In algorithms 1 and 2, line 2, `getConnectionList` names all connections, but the text says
/// "active client connections". The prototype counts all open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// Connections to clients and to relays.
    #[default]
    All,
    /// Connections to clients only.
    Clients,
}

/// Sets the refill rate of clients' read and write buckets.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait Throttle: fmt::Debug + Send {
    /// Called once at every bucket refill, before the relay adds the tokens. Each call has a later `now`.
    fn on_refill(&mut self, now: Instant, signals: &ThrottleSignals<'_>);
    /// The rate of each of the client's two buckets from this refill on; `None` does not throttle the client. Called
    /// after [`on_refill`](Self::on_refill), once for each client of that call.
    fn rate(&self, client: ClientKey) -> Option<DataRate>;
    /// `client` is closed.
    fn on_close(&mut self, client: ClientKey);
}

/// A throttle that limits no client. It is still called at every refill.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoThrottle;

impl Throttle for NoThrottle {
    fn on_refill(&mut self, _now: Instant, _signals: &ThrottleSignals<'_>) {}
    fn rate(&self, _client: ClientKey) -> Option<DataRate> {
        None
    }
    fn on_close(&mut self, _client: ClientKey) {}
}

/// Which connections of a client share counts and buckets.
///
/// Source: throttling §5.3: a guard can "aggregate the accounting of all connections to that client".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// Each connection has its own counts and buckets.
    #[default]
    Connection,
    /// All connections of one address share counts and buckets, and count as one connection in [`Count`].
    Address,
}

/// The token buckets of a relay's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBuckets {
    /// The depth of both buckets [B] (torrc `PerConnBWBurst`).
    pub burst: Bytes,
    /// Which connections share a pair of buckets.
    pub aggregate: Aggregate,
}

impl Default for ClientBuckets {
    /// Source: throttling §3.2, footnote 3: with 2 MiB a client can fetch the directory unthrottled.
    fn default() -> Self {
        ClientBuckets { burst: Bytes::mib(2), aggregate: Aggregate::default() }
    }
}

/// Builds the [`Throttle`] of a relay.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum ThrottleConfig {
    /// No throttle: clients have no token buckets.
    #[default]
    None,
    Static(StaticRateConfig),
    BitSplitting(BitSplittingConfig),
    Flagging(FlaggingConfig),
    Threshold(ThresholdConfig),
    /// An algorithm from outside this workspace.
    Custom(Factory<dyn Throttle>),
}

impl ThrottleConfig {
    /// The throttle of one relay; `None` if the relay does not throttle clients.
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

/// A built-in throttle (stored without an extra allocation), or an algorithm from outside this workspace.
#[enum_dispatch(Throttle)]
#[derive(Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum AnyThrottle {
    Static(StaticRate),
    BitSplitting(BitSplitting),
    Flagging(Flagging),
    Threshold(Threshold),
    Custom(Box<dyn Throttle>),
}

#[cfg(test)]
mod tests;
