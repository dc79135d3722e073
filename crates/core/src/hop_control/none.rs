use super::{DatagramHop, Feedback, HopControl, Neighbour, Source};
use crate::error::Violation;
use penstock_units::{Cells, Instant};

/// No hop control: the hop carries every cell that the end-to-end control allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHopControl;

impl DatagramHop for NoHopControl {}

impl HopControl for NoHopControl {
    fn on_neighbour(&mut self, _neighbour: Neighbour) {}
    fn credit(&self) -> Cells {
        Cells::new(u64::MAX)
    }
    fn on_received(&mut self, _now: Instant) -> Result<(), Violation> {
        Ok(())
    }
    fn on_sent(&mut self, _now: Instant, _source: Source) -> Option<Feedback> {
        None
    }
    fn on_delivered(&mut self, _now: Instant) -> Option<Feedback> {
        None
    }
    fn on_feedback(&mut self, _now: Instant, _feedback: Feedback) -> Result<(), Violation> {
        Ok(())
    }
}
