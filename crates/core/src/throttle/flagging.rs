use super::average::{Averages, CELL};
use super::{Count, Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Duration, Instant};
use std::collections::BTreeMap;

/// Parameters of [`Flagging`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlaggingConfig {
    /// The refill rate of a flagged client's buckets [B/s] (`flagRate`).
    pub rate: DataRate,
    /// P, in `[0, 1]` [1]. A flag is removed when the client's count falls below P times the fair count; 0 never
    /// removes a flag.
    pub penalty: f64,
    /// H, the half-life of counts [ns].
    pub half_life: Duration,
    /// With which fair count a flagged client is compared.
    pub unflag: Unflag,
    /// Which connections the number N counts.
    pub count: Count,
}

/// The fair count with which a flagged client is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unflag {
    /// The fair count at the current refill (algorithm 2, line 13).
    #[default]
    Current,
    /// The fair count at the last refill at which the client exceeded it, as in the authors' prototype.
    Frozen,
}

impl Default for FlaggingConfig {
    /// Source: the rate of throttling §5.1, the half-life of the prototype. P is Penstock's own.
    fn default() -> Self {
        FlaggingConfig {
            rate: DataRate::kib(5),
            penalty: 0.5,
            half_life: Duration::from_secs(30),
            unflag: Unflag::default(),
            count: Count::default(),
        }
    }
}

/// Flags a client whose count C exceeds the fair count M, and throttles it to a fixed rate until C is below P·M.
///
/// M is the count of a client that always gets its fair share. At each refill, δ after the previous one, M ←
/// M·2^(−δ/H) + (B/N)·(1 − 2^(−δ/H))·H/ln 2, in cells. A relay without a configured rate does not throttle.
///
/// Source: throttling §3.2, algorithm 2.
/// Deviation: M starts at its steady value B·H/(N·512 B·ln 2). A start at zero would flag the first clients. A refill
/// with N = 0 does not change M.
#[derive(Clone, Debug)]
pub struct Flagging {
    config: FlaggingConfig,
    averages: Averages,
    fair: Option<f64>,
    flagged: BTreeMap<ClientKey, f64>,
}

impl Flagging {
    /// A throttle without flags.
    pub fn new(config: FlaggingConfig) -> Self {
        let averages = Averages::new(config.half_life);
        Flagging { config, averages, fair: None, flagged: BTreeMap::new() }
    }

    /// M, the fair count [cell]; `None` before the first connection.
    pub fn fair(&self) -> Option<f64> {
        self.fair
    }
}

impl Throttle for Flagging {
    fn on_refill(&mut self, now: Instant, signals: &ThrottleSignals<'_>) {
        let step = self.averages.on_refill(now, signals.clients);
        let connections = signals.connections(self.config.count);
        let Some(bandwidth) = signals.bandwidth.filter(|_| connections > 0) else { return };
        let split = bandwidth.bytes_per_sec() as f64 / f64::from(connections) / CELL;
        let steady = split * self.averages.memory();
        let fair = self.fair.map_or(steady, |fair| fair * step.kept + split * step.gain);
        self.fair = Some(fair);
        for client in signals.clients {
            let count = self.averages.of(client.client);
            if count > fair {
                self.flagged.insert(client.client, self.config.penalty * fair);
            } else if let Some(then) = self.flagged.get(&client.client) {
                let below = match self.config.unflag {
                    Unflag::Current => self.config.penalty * fair,
                    Unflag::Frozen => *then,
                };
                if count < below {
                    self.flagged.remove(&client.client);
                }
            }
        }
    }

    fn rate(&self, client: ClientKey) -> Option<DataRate> {
        self.flagged.contains_key(&client).then_some(self.config.rate)
    }

    fn on_close(&mut self, client: ClientKey) {
        self.averages.forget(client);
        self.flagged.remove(&client);
    }
}
