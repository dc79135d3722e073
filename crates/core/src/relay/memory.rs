//! The out-of-memory handler: it closes the circuits with the oldest queues.

use super::{Parts, Relay};
use crate::cell::{Cell, MAX_PAYLOAD};
use crate::circuit::{Circuit, Stamp};
use crate::kernel::Kernel;
use crate::reason::DestroyReason;
use penstock_units::{Bytes, Instant};

/// The size of a queued cell in this count [B]: its size on the wire.
const CELL: u64 = 514;

/// Cells and payloads that the end of a circuit would free.
#[derive(Debug, Default)]
pub(super) struct MemoryUse {
    /// Cells in all circuit queues [cell].
    pub(super) cells: u64,
    /// Payloads in the buffers of all streams [1].
    pub(super) payloads: u64,
}

impl MemoryUse {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.cells * CELL + self.payloads * u64::from(MAX_PAYLOAD))
    }
}

impl<C: Cell> Relay<C> {
    /// Closes circuits until nine tenths of the memory limit are left, if circuits hold more than the limit.
    ///
    /// The age of a circuit is the age of the oldest cell in its queues, or of the oldest payload that waits
    /// for an application. So a flood closes first if its reader is slow or absent, and busy circuits stay.
    ///
    /// Source: C tor `cell_queues_check_size()`, `circuits_handle_oom()` (`FRACTION_OF_DATA_TO_RETAIN_ON_OOM`).
    /// Deviation: only memory that the end of a circuit frees is counted. Output buffers have limits of their
    /// own for each channel; TLS, kernel and directory buffers are not counted. A stream whose application
    /// does not read costs its circuit, where C tor may close the stream alone. A payload counts as up to
    /// twice as old as it is ([`Wait`](crate::stream::Wait)).
    pub(super) fn handle_oom(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        let Some(limit) = self.parts.config.limits.memory else { return };
        if self.parts.memory.bytes() > limit {
            self.close_oldest(now, limit, kernel);
        }
    }

    #[cold]
    fn close_oldest(&mut self, now: Instant, limit: Bytes, kernel: &mut impl Kernel<C>) {
        let stamp = Stamp::at(now);
        let circuits = self.parts.circuits.iter();
        let ages = circuits.filter_map(|(key, circuit)| Some((self.parts.age(circuit, stamp)?, key)));
        let mut ages: Vec<_> = ages.collect();
        // Circuits of the same age close in the order of their keys.
        ages.sort_unstable_by_key(|(age, circuit)| (std::cmp::Reverse(*age), *circuit));
        let target = Bytes::new(limit.get() / 10 * 9);
        for (_, circuit) in ages {
            if self.parts.memory.bytes() <= target {
                break;
            }
            self.parts.counters.oom_closed += 1;
            self.close(now, circuit, None, Ok(DestroyReason::RESOURCE_LIMIT), kernel);
        }
    }
}

impl<C: Cell> Parts<C> {
    /// The age of the oldest queued cell or payload of a circuit; `None` if nothing is queued.
    fn age(&self, circuit: &Circuit<C>, now: Stamp) -> Option<u32> {
        let cells = circuit.halves().into_iter().filter_map(|half| Some(half.queue.front()?.since));
        let streams = circuit.edge.iter().flat_map(|edge| &edge.streams);
        let streams = streams.map(|stream| &self.edges.streams[*stream]);
        let payloads = streams.filter(|stream| !stream.outbuf.is_empty()).map(|stream| stream.wait.age(now));
        cells.map(|since| since.age(now)).chain(payloads).max()
    }
}
