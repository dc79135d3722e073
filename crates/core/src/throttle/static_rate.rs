//! One rate for every client, always.

use super::{Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Instant};

/// At what rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticRateConfig {
    /// Refill of each bucket [B/s] (torrc `PerConnBWRate`, consensus `perconnbwrate`).
    pub rate: DataRate,
}

/// Throttles every client at one rate: what Tor itself has, off by default.
///
/// Source: throttling §3.1; C tor `connection_or_update_token_buckets_helper()`, where a peer that is in the consensus
/// has the relay's own rate.
/// Deviation: none.
#[derive(Clone, Copy, Debug)]
pub struct StaticRate(StaticRateConfig);

impl StaticRate {
    /// Knows no clients, and needs to know none.
    pub fn new(config: StaticRateConfig) -> Self {
        StaticRate(config)
    }
}

impl Throttle for StaticRate {
    fn on_refill(&mut self, _now: Instant, _signals: &ThrottleSignals<'_>) {}
    fn rate(&self, _client: ClientKey) -> Option<DataRate> {
        Some(self.0.rate)
    }
    fn on_close(&mut self, _client: ClientKey) {}
}
