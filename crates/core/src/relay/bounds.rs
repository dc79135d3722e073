//! Which limits make a relay wait. Measurements call these functions many times a second.

use super::Relay;
use crate::cell::Cell;
use crate::edge_control::StreamControl;
use crate::hop_control::HopControlConfig;
use penstock_units::Cells;

impl<C: Cell> Relay<C> {
    /// Whether a channel or a stream waits for tokens of a bucket.
    pub fn lacks_tokens(&self) -> bool {
        self.parts.buckets.waiting.any()
    }

    /// Whether a circuit's cells wait for credit. Examines every circuit if this relay has hop control.
    pub fn lacks_credit(&self) -> bool {
        let limited = !matches!(self.parts.config.hop_control, HopControlConfig::None);
        let mut circuits = self.parts.circuits.values();
        limited
            && circuits
                .any(|circuit| circuit.halves().iter().any(|half| !half.queue.is_empty() && !half.may_send()))
    }

    /// Whether this node packages a stream whose window, or whose circuit's window, is used up. The stream may have no
    /// data to send. Examines every stream.
    pub fn lacks_window(&self) -> bool {
        self.parts.edges.streams.values().any(|stream| {
            let used_up =
                || self.parts.lacks_window(stream.circuit) || stream.control.package_window() == Cells::ZERO;
            stream.open && !stream.ended && used_up()
        })
    }
}
