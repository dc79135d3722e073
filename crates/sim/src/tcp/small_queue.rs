//! TCP small queues: what of one socket waits at the host's interface.

use penstock_units::{Instant, fifo::take_first};
use std::collections::VecDeque;

/// No socket has more at the interface (`tcp_limit_output_bytes`) [B].
pub(super) const LIMIT_OUTPUT: u64 = 4 << 20;

/// Segments that the interface took and has not sent.
///
/// The interface is a FIFO, so it knows with each segment when that will have left: departures are looked at
/// when they matter, and cost no event until the socket has to wait for one.
///
/// Source: Linux `tcp_small_queue_check`, `tcp_wfree` (`sk_wmem_alloc`).
/// Deviation: bytes on the wire for truesize.
#[derive(Clone, Debug)]
pub(super) struct SmallQueue {
    departures: VecDeque<(Instant, u32)>,
    /// What was taken, less what is known to have left [B].
    pub(super) bytes: u64,
    /// When the next one leaves that the socket waits for; FAR_FUTURE is none.
    pub(super) wake: Instant,
}

impl Default for SmallQueue {
    fn default() -> Self {
        SmallQueue { departures: VecDeque::new(), bytes: 0, wake: Instant::FAR_FUTURE }
    }
}

impl SmallQueue {
    /// The interface took `bytes` and will have sent them at `at`, not before any others.
    pub(super) fn push(&mut self, at: Instant, bytes: u32) {
        self.departures.push_back((at, bytes));
        self.bytes += u64::from(bytes);
    }

    /// Whether more than `limit` [B] is still there; then `wake` tells when the first of it leaves.
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
