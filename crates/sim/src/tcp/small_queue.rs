//! TCP small queues: the data of one socket in the queue of the host's interface.

use penstock_units::{Instant, fifo::take_first};
use std::collections::VecDeque;

/// Maximum for a socket at the interface (`tcp_limit_output_bytes`) [B].
pub(super) const LIMIT_OUTPUT: u64 = 4 << 20;

/// Segments that the interface has accepted and not sent.
///
/// The interface is a FIFO, so the departure of each segment is known at once. Departures are checked when they matter.
/// They cost no event unless the socket waits for one.
///
/// Source: Linux `tcp_small_queue_check`, `tcp_wfree` (`sk_wmem_alloc`).
///
/// Deviation: bytes on the wire instead of truesize.
#[derive(Clone, Debug)]
pub(super) struct SmallQueue {
    departures: VecDeque<(Instant, u32)>,
    /// Accepted bytes, without those that are known to have left [B].
    pub(super) bytes: u64,
    /// The departure for which the socket waits; FAR_FUTURE is none.
    pub(super) wake: Instant,
}

impl Default for SmallQueue {
    fn default() -> Self {
        SmallQueue { departures: VecDeque::new(), bytes: 0, wake: Instant::FAR_FUTURE }
    }
}

impl SmallQueue {
    /// The interface accepted `bytes` and will have sent them at `at`, after all earlier ones.
    pub(super) fn push(&mut self, at: Instant, bytes: u32) {
        self.departures.push_back((at, bytes));
        self.bytes += u64::from(bytes);
    }

    /// Whether more than `limit` [B] are queued. If so, `wake` is the departure of the first of them.
    pub(super) fn exceeds(&mut self, now: Instant, limit: u64) -> bool {
        while let Some((_, bytes)) = self.departures.front().filter(|departure| departure.0 <= now) {
            self.bytes -= u64::from(*bytes);
            take_first(&mut self.departures);
        }
        let exceeds = self.bytes > limit;
        self.wake = match self.departures.front() {
            Some(departure) if exceeds => departure.0,
            _ => Instant::FAR_FUTURE,
        };
        exceeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departed_segments_leave_the_small_queue() {
        let mut queue = SmallQueue::default();
        for n in 1..=4 {
            queue.push(Instant::from_millis(n), 1500);
        }
        assert!(!queue.exceeds(Instant::ZERO, 6000));
        assert_eq!(queue.wake, Instant::FAR_FUTURE);
        assert!(queue.exceeds(Instant::ZERO, 5999));
        assert_eq!(queue.wake, Instant::from_millis(1));
        assert!(!queue.exceeds(Instant::from_millis(1), 5999));
        assert_eq!((queue.bytes, queue.wake), (4500, Instant::FAR_FUTURE));
    }
}
