//! The relay's bandwidth, divided equally.

use super::{Count, Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Instant};

/// Among whom the bandwidth is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitSplittingConfig {
    /// What N counts.
    pub count: Count,
}

/// Throttles every client at the fair split of the relay's bandwidth, B/N.
///
/// B is the configured rate, rounded down to whole bytes a second for each, so that all together never exceed it. A
/// relay without a rate throttles nobody.
///
/// Source: throttling §3.2, algorithm 1.
/// Deviation: none.
#[derive(Clone, Copy, Debug)]
pub struct BitSplitting {
    config: BitSplittingConfig,
    split: Option<DataRate>,
}

impl BitSplitting {
    /// Before the first refill.
    pub fn new(config: BitSplittingConfig) -> Self {
        BitSplitting { config, split: None }
    }
}

impl Throttle for BitSplitting {
    fn on_refill(&mut self, _now: Instant, signals: &ThrottleSignals<'_>) {
        let connections = u64::from(signals.connections(self.config.count));
        let split = |bandwidth: DataRate| bandwidth.bytes_per_sec().checked_div(connections);
        // A rate is never zero; so many connections share one byte a second each.
        self.split = signals.bandwidth.and_then(split).and_then(|split| DataRate::new(split.max(1)));
    }
    fn rate(&self, _client: ClientKey) -> Option<DataRate> {
        self.split
    }
    fn on_close(&mut self, _client: ClientKey) {}
}
