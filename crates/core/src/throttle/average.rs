use super::ClientSignals;
use crate::keys::ClientKey;
use penstock_units::{Duration, Instant, math};

/// The size of a cell when a bandwidth is converted to cells, without TLS [B].
pub const CELL: f64 = 512.0;

/// An exponentially weighted moving count C of the cells that were sent to each client. The half-life H is the same for
/// all clients.
///
/// Cells between two refills count as if they were sent evenly. A client that always gets `r` cells a second has the
/// count r·H/ln 2, for any refill interval.
///
/// Source: throttling §3.2 ("computed in much the same way as the per-circuit cell EWMA").
///
/// Deviation: cells are counted at refills, not one by one, so a cell costs only one addition.
#[derive(Clone, Debug)]
pub struct Averages {
    half_life: Duration,
    counts: Vec<f64>,
    refilled: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The factor by which old counts are multiplied [1].
    pub(super) kept: f64,
    /// The increase of a count from one refill to the next if one cell per second is sent [s].
    pub(super) gain: f64,
    /// The time between the refills [s].
    span: f64,
}

impl Averages {
    /// The averages of a relay that has no clients yet.
    pub fn new(half_life: Duration) -> Self {
        Averages { half_life, counts: Vec::new(), refilled: None }
    }

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
            // At the first refill, the time in which the cells were sent is unknown.
            let weight = if step.span > 0.0 { step.gain / step.span } else { 1.0 };
            self.counts[slot] = self.counts[slot] * kept + client.sent.get() as f64 * weight;
        }
        step
    }

    /// The constant count of a client that always gets one cell a second [s].
    pub(super) fn memory(&self) -> f64 {
        self.half_life.as_secs_f64() / math::ln(2.0)
    }

    pub(super) fn of(&self, client: ClientKey) -> f64 {
        self.counts.get(client.index()).copied().unwrap_or(0.0)
    }

    pub(super) fn forget(&mut self, client: ClientKey) {
        if let Some(count) = self.counts.get_mut(client.index()) {
            *count = 0.0;
        }
    }
}
