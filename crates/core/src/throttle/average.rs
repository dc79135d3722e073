//! How much each client was sent recently.

use super::ClientSignals;
use crate::keys::ClientKey;
use penstock_units::{Duration, Instant, math};

/// The size of a cell in the relay's bandwidth, without TLS [B].
pub const CELL: f64 = 512.0;

/// An exponentially weighted moving count C of the cells sent to each client, with its own half-life H.
///
/// The cells between two refills count as if they were sent evenly. A client that always gets `r` cells
/// a second has the count r·H/ln 2, for any refill interval.
///
/// Source: throttling §3.2 ("computed in much the same way as the per-circuit cell EWMA").
/// Deviation: cells count at refills, not one by one, so a cell costs one addition.
#[derive(Clone, Debug)]
pub struct Averages {
    half_life: Duration,
    /// By client key.
    counts: Vec<f64>,
    refilled: Option<Instant>,
}

/// The change of counts from one refill to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The remaining factor of old counts [1].
    pub(super) kept: f64,
    /// The contribution of one cell a second [s].
    pub(super) gain: f64,
    /// The time between the refills [s].
    span: f64,
}

impl Averages {
    /// Counts without clients.
    pub fn new(half_life: Duration) -> Self {
        Averages { half_life, counts: Vec::new(), refilled: None }
    }

    /// Handles a refill: counts decay, and the cells since the last refill are added.
    pub(super) fn on_refill(&mut self, now: Instant, clients: &[ClientSignals]) -> Step {
        let span = self.refilled.map_or(Duration::ZERO, |then| now.since(then)).as_secs_f64();
        self.refilled = Some(now);
        let half_lives = span / self.half_life.as_secs_f64();
        let kept = math::exp2(-half_lives);
        let step = Step { kept, gain: (1.0 - kept) * self.memory(), span };
        for client in clients {
            let slot = client.client.index();
            if self.counts.len() <= slot {
                self.counts.resize(slot + 1, 0.0);
            }
            // Before the first refill there is no time span for the cells.
            let weight = if step.span > 0.0 { step.gain / step.span } else { 1.0 };
            self.counts[slot] = self.counts[slot] * kept + client.sent.get() as f64 * weight;
        }
        step
    }

    /// The count of one cell a second forever [s].
    pub(super) fn memory(&self) -> f64 {
        self.half_life.as_secs_f64() / math::ln(2.0)
    }

    /// The count of `client` [cell].
    pub(super) fn of(&self, client: ClientKey) -> f64 {
        self.counts.get(client.index()).copied().unwrap_or(0.0)
    }

    pub(super) fn forget(&mut self, client: ClientKey) {
        if let Some(count) = self.counts.get_mut(client.index()) {
            *count = 0.0;
        }
    }
}
