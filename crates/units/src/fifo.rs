//! FIFO queues that stay in the cache.

use std::collections::VecDeque;

/// Takes the first element. If the queue is empty afterwards, it restarts at the beginning of its memory.
///
/// Without this restart, even a short queue would move through the whole memory of its ring buffer, which is larger
/// than the cache.
#[inline]
pub fn take_first<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let first = queue.pop_front();
    if queue.is_empty() {
        queue.clear();
    }
    first
}

/// The memory that a queue keeps after trimming [B]. With Tor's windows, simulated queues never need this much memory,
/// so a steady network allocates nothing.
const KEPT_BYTES: usize = 64 << 10;

/// The minimum capacity of a queue after trimming.
const fn kept<T>() -> usize {
    let size = size_of::<T>();
    KEPT_BYTES / if size == 0 { 1 } else { size }
}

/// Frees most of the unused memory of a queue that was long before. The average cost per element is constant.
#[inline]
pub fn trim<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > kept::<T>() && queue.len() < queue.capacity() / 4 {
        shrink(queue);
    }
}

#[cold]
fn shrink<T>(queue: &mut VecDeque<T>) {
    queue.shrink_to((queue.capacity() / 2).max(kept::<T>()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_returns_its_memory_when_it_is_short_again() {
        let mut queue: VecDeque<u32> = (0..100_000).collect();
        while queue.pop_front().is_some() {
            trim(&mut queue);
            assert!(queue.capacity() <= kept::<u32>() || queue.len() * 4 + 4 >= queue.capacity());
        }
        assert!(queue.capacity() <= kept::<u32>());
    }

    #[test]
    fn an_emptied_queue_restarts_at_the_same_memory() {
        let mut queue = VecDeque::with_capacity(8);
        let mut places = Vec::new();
        for _ in 0..3 {
            queue.extend([1, 2]);
            places.push(std::ptr::from_ref(&queue[0]));
            assert_eq!(
                [take_first(&mut queue), take_first(&mut queue), take_first(&mut queue)],
                [Some(1), Some(2), None]
            );
        }
        assert_eq!(places, [places[0]; 3]);
    }
}
