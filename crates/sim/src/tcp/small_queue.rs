use penstock_units::{Instant, fifo::take_first};
use std::collections::VecDeque;

/// The maximum that one socket may have in the interface's queue (`tcp_limit_output_bytes`) [B].
pub(super) const LIMIT_OUTPUT: u64 = 4 << 20;

/// TCP small queues: the segments of one socket that the interface has accepted but not sent.
///
/// The interface is a FIFO, so each segment's departure time is known when the interface accepts it. A departure is an
/// event only if the socket waits for it.
/// Source: Linux `tcp_small_queue_check`, `tcp_wfree` (`sk_wmem_alloc`).
/// Deviation: the limit counts bytes on the wire instead of truesize.
#[derive(Clone, Debug)]
pub(super) struct SmallQueue {
    departures: VecDeque<(Instant, u32)>,
    /// Accepted bytes that had not left at the last check [B].
    pub(super) bytes: u64,
    /// The departure time for which the socket waits; FAR_FUTURE if it does not wait.
    pub(super) wake: Instant,
}

impl Default for SmallQueue {
    fn default() -> Self {
        SmallQueue { departures: VecDeque::new(), bytes: 0, wake: Instant::FAR_FUTURE }
    }
}

impl SmallQueue {
    /// The interface accepted `bytes` and will have sent them at `at`, after all earlier bytes.
    pub(super) fn push(&mut self, at: Instant, bytes: u32) {
        self.departures.push_back((at, bytes));
        self.bytes += u64::from(bytes);
    }

    /// Whether more than `limit` bytes are queued [B]. If so, sets `wake` to the departure time of the first queued
    /// segment.
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
