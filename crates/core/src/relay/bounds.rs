//! What holds a relay back, as far as the relay itself knows.

use super::{Node, Relay};
use crate::cell::Cell;
use crate::edge_control::{EdgeControl, StreamControl};
use crate::hop_control::HopControlConfig;
use crate::keys::Direction;
use penstock_units::Cells;

/// Who waits for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// A channel or a stream waits for its token buckets.
    pub bucket: bool,
    /// A circuit has cells but no credit for the next hop.
    pub credit: bool,
    /// A stream that is packaged here has used up its own or its circuit's window; whether it has more to send is not
    /// asked.
    pub window: bool,
}

impl<C: Cell> Relay<C> {
    /// What holds the relay back now. Looks at every circuit and stream.
    pub fn bounds(&self) -> Bounds {
        let node = &self.node;
        Bounds { bucket: node.waiting.someone(), credit: node.lacks_credit(), window: node.lacks_window() }
    }
}

impl<C: Cell> Node<C> {
    fn lacks_credit(&self) -> bool {
        let limited = !matches!(self.config.hop_control, HopControlConfig::None);
        limited
            && self.circuits.iter().any(|(_, circuit)| {
                [Direction::Forward, Direction::Backward].into_iter().any(|direction| {
                    let lane = circuit.lane(direction);
                    !lane.queue.is_empty() && !lane.may_send()
                })
            })
    }

    fn lacks_window(&self) -> bool {
        self.streams.iter().any(|(_, stream)| {
            let edge = self.circuits[stream.circuit.0 as usize].edge.as_ref();
            let used_up = || {
                let circuit = edge.is_some_and(|edge| edge.control.package_window() == Cells::ZERO);
                circuit || stream.control.package_window() == Cells::ZERO
            };
            stream.open && !stream.ended && used_up()
        })
    }
}
