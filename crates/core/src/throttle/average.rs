//! How much each client was sent of late.

use super::ClientSignals;
use crate::keys::ClientKey;
use penstock_units::{Duration, Instant, math};

/// What a cell takes of the relay's bandwidth, without TLS [B].
pub const CELL: f64 = 512.0;

/// An exponentially weighted moving count of the cells that each client was sent, C, with a half-life H of its own.
///
/// The relay counts cells; from one refill to the next they count as if they had been sent evenly in between. A client
/// that is sent `r` cells a second for ever has r·H/ln 2, whatever the refill interval.
///
/// Source: throttling §3.2 ("computed in much the same way as the per-circuit cell EWMA").
/// Deviation: cells count at refills, not one by one, so that a cell costs an addition and no more.
#[derive(Clone, Debug)]
pub struct Averages {
    half_life: Duration,
    /// By key.
    counts: Vec<f64>,
    refilled: Option<Instant>,
}

/// What happened to counts from one refill to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// What is left of what was counted before [1].
    pub(super) kept: f64,
    /// What one a second adds to a count [s].
    pub(super) gain: f64,
    /// How long it took [s].
    span: f64,
}

impl Averages {
    /// Of nobody yet.
    pub fn new(half_life: Duration) -> Self {
        Averages { half_life, counts: Vec::new(), refilled: None }
    }

    /// A refill: counts decay, and what was sent since the last one is added.
    pub(super) fn on_refill(&mut self, now: Instant, clients: &[ClientSignals]) -> Step {
        let span = self.refilled.map_or(Duration::ZERO, |then| now.since(then)).as_secs_f64();
        self.refilled = Some(now);
        let half_lives = span / self.half_life.as_secs_f64();
        let kept = math::exp2(-half_lives);
        let step = Step { kept, gain: (1.0 - kept) * self.memory(), span };
        for client in clients {
            let slot = client.client.0 as usize;
            if self.counts.len() <= slot {
                self.counts.resize(slot + 1, 0.0);
            }
            // Before the first refill there is no span to spread them over.
            let weight = if step.span > 0.0 { step.gain / step.span } else { 1.0 };
            self.counts[slot] = self.counts[slot] * kept + client.sent.get() as f64 * weight;
        }
        step
    }

    /// What one cell a second for ever amounts to [s].
    pub(super) fn memory(&self) -> f64 {
        self.half_life.as_secs_f64() / math::ln(2.0)
    }

    /// What `client` was sent of late [cell].
    pub(super) fn of(&self, client: ClientKey) -> f64 {
        self.counts.get(client.0 as usize).copied().unwrap_or(0.0)
    }

    /// The client is gone.
    pub(super) fn forget(&mut self, client: ClientKey) {
        if let Some(count) = self.counts.get_mut(client.0 as usize) {
            *count = 0.0;
        }
    }
}
