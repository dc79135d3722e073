//! What holds a relay back, as far as the relay itself knows.

use super::Relay;
use crate::cell::Cell;
use crate::edge_control::{EdgeControl, StreamControl};
use crate::hop_control::HopControlConfig;
use crate::keys::Direction;
use penstock_units::Cells;

/// Instruments ask this many times a second; each question is answered only if it is asked.
impl<C: Cell> Relay<C> {
    /// Whether a channel or a stream waits for its token buckets.
    pub fn lacks_tokens(&self) -> bool {
        self.node.waiting.someone()
    }

    /// Whether a circuit has cells but no credit for the next hop. Looks at every circuit where hops are controlled.
    pub fn lacks_credit(&self) -> bool {
        let node = &self.node;
        let limited = !matches!(node.config.hop_control, HopControlConfig::None);
        limited
            && node.circuits.iter().any(|(_, circuit)| {
                [Direction::Forward, Direction::Backward].into_iter().any(|direction| {
                    let half = circuit.half(direction);
                    !half.queue.is_empty() && !half.may_send()
                })
            })
    }

    /// Whether a stream that is packaged here has used up its own or its circuit's window; whether it has more to send
    /// is not asked. Looks at every stream.
    pub fn lacks_window(&self) -> bool {
        let node = &self.node;
        node.streams.iter().any(|(_, stream)| {
            let edge = node.circuits[stream.circuit.0 as usize].edge.as_ref();
            let used_up = || {
                let circuit = edge.is_some_and(|edge| edge.control.package_window() == Cells::ZERO);
                circuit || stream.control.package_window() == Cells::ZERO
            };
            stream.open && !stream.ended && used_up()
        })
    }
}
