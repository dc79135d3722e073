use super::{Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Instant};

/// The configuration of static throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticRateConfig {
    /// The refill rate of each bucket [B/s] (torrc `PerConnBWRate`, consensus `perconnbwrate`).
    pub rate: DataRate,
}

/// Static throttling: every client has the same fixed rate. C tor has this feature, off by default.
///
/// Source: throttling §3.1; C tor `connection_or_update_token_buckets_helper()`, which sets no such limit for relays in
/// the consensus. Deviation: none.
#[derive(Clone, Copy, Debug)]
pub struct StaticRate(StaticRateConfig);

impl StaticRate {
    /// A throttle with this rate.
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
