use super::{Parts, Relay};
use crate::cell::{Cell, MAX_PAYLOAD};
use crate::circuit::{Circuit, Stamp};
use crate::kernel::Kernel;
use crate::reason::DestroyReason;
use penstock_units::{Bytes, Instant};

/// The size of a queued cell in the memory count [B], equal to the size on the wire.
const CELL: u64 = 514;

#[derive(Debug, Default)]
pub(super) struct MemoryUse {
    pub(super) cells: u64,
    pub(super) payloads: u64,
}

impl MemoryUse {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.cells * CELL + self.payloads * u64::from(MAX_PAYLOAD))
    }
}

impl<C: Cell> Relay<C> {
    /// Closes circuits if the queued data exceeds the memory limit, until nine tenths of the limit are in use.
    ///
    /// The age of a circuit is the age of its oldest queued cell, or of its oldest payload that waits for an
    /// application. The oldest circuits close first. So a circuit whose cells nobody reads closes early, and busy
    /// circuits stay open.
    /// Source: C tor `cell_queues_check_size()`, `circuits_handle_oom()` (`FRACTION_OF_DATA_TO_RETAIN_ON_OOM`).
    /// Deviation: only memory that closing a circuit frees is counted. Output buffers have their own limit for each
    /// channel; TLS, kernel and directory buffers are not counted.
    /// Deviation: if an application does not read a stream, the whole circuit closes; C tor may close only the stream.
    /// The age of a payload is overestimated by a factor of up to two ([`Wait`](crate::stream::Wait)).
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
    /// The age of a circuit's oldest queued cell or payload; `None` if nothing is queued.
    fn age(&self, circuit: &Circuit<C>, now: Stamp) -> Option<u32> {
        let cells = circuit.halves().into_iter().filter_map(|half| Some(half.queue.front()?.since));
        let streams = circuit.edge.iter().flat_map(|edge| &edge.streams);
        let streams = streams.map(|stream| &self.edges.streams[*stream]);
        let payloads = streams.filter(|stream| !stream.outbuf.is_empty()).map(|stream| stream.wait.age(now));
        cells.map(|since| since.age(now)).chain(payloads).max()
    }
}
