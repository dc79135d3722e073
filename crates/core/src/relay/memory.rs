//! When too much waits, the circuits close of which something has waited longest.

use super::{Node, Relay};
use crate::cell::{Cell, MAX_PAYLOAD};
use crate::circuit::{Circuit, Stamp};
use crate::kernel::Kernel;
use crate::keys::{CircuitIndex, Direction};
use crate::reason::DestroyReason;
use penstock_units::{Bytes, Instant};

/// What a cell counts as [B]: its size on the wire.
const CELL: u64 = 514;

impl<C: Cell> Relay<C> {
    /// Closes circuits until nine tenths of the limit are left, if more than the limit waits.
    ///
    /// A circuit is as old as the oldest cell in its queues, or the oldest payload that waits for one of its streams'
    /// applications. So a flood that nobody reads goes first, or that somebody reads drop by drop, and what passes through
    /// stays.
    ///
    /// Source: C tor `cell_queues_check_size()`, `circuits_handle_oom()` (`FRACTION_OF_DATA_TO_RETAIN_ON_OOM`).
    /// Deviation: only what a circuit's end sets free is counted: output buffers, which have a limit of their own for each
    /// channel, are not, nor are TLS's, the kernel's and directories'. A stream that nobody reads costs its circuit, where
    /// C tor may close the stream alone. A payload counts as up to twice as old as it is ([`Wait`](crate::stream::Wait)).
    pub(super) fn handle_oom(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        let Some(limit) = self.node.config.limits.memory else { return };
        if self.node.held() > limit {
            self.close_oldest(now, limit, kernel);
        }
    }

    #[cold]
    fn close_oldest(&mut self, now: Instant, limit: Bytes, kernel: &mut impl Kernel<C>) {
        let stamp = Stamp::at(now);
        let circuits = self.node.circuits.iter();
        let ages =
            circuits.filter_map(|(index, circuit)| Some((self.node.age(circuit, stamp)?, index as u32)));
        let mut ages: Vec<(u32, u32)> = ages.collect();
        // Of those that are as old the first comes first.
        ages.sort_unstable_by_key(|(age, index)| (std::cmp::Reverse(*age), *index));
        let target = Bytes::new(limit.get() / 10 * 9);
        for (_, index) in ages {
            if self.node.held() <= target {
                break;
            }
            self.node.counters.oom_closed += 1;
            self.close(now, CircuitIndex(index), None, Ok(DestroyReason::RESOURCE_LIMIT), kernel);
        }
    }
}

impl<C: Cell> Node<C> {
    /// What would be free if all circuits closed.
    fn held(&self) -> Bytes {
        Bytes::new(self.waiting_cells * CELL + self.waiting_payloads * u64::from(MAX_PAYLOAD))
    }

    /// How long something of a circuit has waited; nothing if nothing does.
    fn age(&self, circuit: &Circuit<C>, now: Stamp) -> Option<u32> {
        let halves = [Direction::Forward, Direction::Backward].map(|direction| circuit.half(direction));
        let cells = halves.into_iter().filter_map(|half| Some(half.queue.front()?.since));
        let streams = circuit.edge.iter().flat_map(|edge| &edge.streams);
        let streams = streams.map(|stream| &self.streams[stream.0 as usize]);
        let payloads = streams.filter(|stream| !stream.outbuf.is_empty()).map(|stream| stream.wait.age(now));
        cells.map(|since| since.age(now)).chain(payloads).max()
    }
}
