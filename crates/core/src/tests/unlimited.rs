//! An edge control without windows.

use crate::Violation;
use crate::edge_control::{Backlog, EdgeControl, Signals, StreamControl, StreamFeedback};
use penstock_units::{Bytes, Cells, Instant};

/// An edge control without windows, which acknowledges every cell or none.
#[derive(Debug)]
pub(super) struct Unlimited(pub(super) bool);

impl EdgeControl for Unlimited {
    fn package_window(&self) -> Cells {
        Cells::new(u64::MAX)
    }
    fn on_package(&mut self, _now: Instant, _signals: Signals) -> bool {
        false
    }
    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        Ok(self.0)
    }
    fn on_sendme(&mut self, _now: Instant, _signals: Signals) -> Result<(), Violation> {
        Ok(())
    }
    fn window(&self) -> Cells {
        Cells::new(u64::MAX)
    }
}

impl StreamControl for Unlimited {
    fn package_window(&self) -> Cells {
        Cells::new(u64::MAX)
    }
    fn on_package(&mut self, _now: Instant, _bytes: Bytes) {}
    fn on_deliver(&mut self, _now: Instant, _backlog: Backlog) -> Result<(), Violation> {
        Ok(())
    }
    fn on_drain(&mut self, _now: Instant, _drained: Bytes, _backlog: Backlog) {}
    fn take_feedback(&mut self) -> Option<StreamFeedback> {
        None
    }
    fn on_feedback(&mut self, _now: Instant, _feedback: StreamFeedback) -> Result<(), Violation> {
        Ok(())
    }
}
