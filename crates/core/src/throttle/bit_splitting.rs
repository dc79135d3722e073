use super::{Count, Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Instant};

/// The configuration of bit splitting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitSplittingConfig {
    /// Which connections the number N counts.
    pub count: Count,
}

/// Bit splitting: throttles every client to its fair share B/N of the relay's bandwidth.
///
/// B is the relay's configured rate and N the number of connections. A share is rounded down to whole bytes a second,
/// so the sum of the shares never exceeds B. A relay without a configured rate does not throttle.
///
/// Source: throttling §3.2, algorithm 1. Deviation: none.
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
        // With more connections than bytes a second, the share would be zero. It is one byte a second instead.
        self.split = signals.bandwidth.and_then(split).and_then(|split| DataRate::new(split.max(1)));
    }
    fn rate(&self, _client: ClientKey) -> Option<DataRate> {
        self.split
    }
    fn on_close(&mut self, _client: ClientKey) {}
}
