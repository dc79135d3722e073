//! Bit splitting: equal shares of the relay's bandwidth.

use super::{Count, Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Instant};

/// The configuration of bit splitting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitSplittingConfig {
    /// The connections that N counts.
    pub count: Count,
}

/// Throttles every client at its fair share of the relay's bandwidth, B/N.
///
/// B is the configured rate. Shares are rounded down to whole bytes a second, so their sum never exceeds
/// B. A relay without a rate does not throttle.
///
/// Source: throttling §3.2, algorithm 1.
/// Deviation: none.
#[derive(Clone, Copy, Debug)]
pub struct BitSplitting {
    config: BitSplittingConfig,
    split: Option<DataRate>,
}

impl BitSplitting {
    /// A throttle before its first refill.
    pub fn new(config: BitSplittingConfig) -> Self {
        BitSplitting { config, split: None }
    }
}

impl Throttle for BitSplitting {
    fn on_refill(&mut self, _now: Instant, signals: &ThrottleSignals<'_>) {
        let connections = u64::from(signals.connections(self.config.count));
        let split = |bandwidth: DataRate| bandwidth.bytes_per_sec().checked_div(connections);
        // A share is never zero: with too many connections it is one byte a second.
        self.split = signals.bandwidth.and_then(split).and_then(|split| DataRate::new(split.max(1)));
    }
    fn rate(&self, _client: ClientKey) -> Option<DataRate> {
        self.split
    }
    fn on_close(&mut self, _client: ClientKey) {}
}
