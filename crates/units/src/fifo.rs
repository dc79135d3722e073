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

#[cfg(test)]
mod tests {
    use super::*;

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
