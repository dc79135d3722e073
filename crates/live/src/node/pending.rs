//! Requests to worker threads that wait for an answer.

use std::collections::BTreeMap;

/// Keys that wait for an answer, each with a value. An old answer has no effect if its key is reused.
#[derive(Debug)]
pub(super) struct Pending<K, V> {
    /// Key of each request. `None` if the key was removed while the thread works on the request.
    by_number: BTreeMap<u64, Option<K>>,
    by_key: BTreeMap<K, (u64, V)>,
    next: u64,
}

impl<K: Ord + Copy, V> Pending<K, V> {
    pub(super) fn new() -> Self {
        Pending { by_number: BTreeMap::new(), by_key: BTreeMap::new(), next: 0 }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Adds a request for `key`. Returns the number of the request.
    pub(super) fn await_for(&mut self, key: K, then: V) -> u64 {
        self.forget(key);
        self.next += 1;
        self.by_number.insert(self.next, Some(key));
        self.by_key.insert(key, (self.next, then));
        self.next
    }

    /// Removes a key. Returns the number of its request, and the value.
    pub(super) fn forget(&mut self, key: K) -> Option<(u64, V)> {
        let (number, then) = self.by_key.remove(&key)?;
        self.by_number.insert(number, None);
        Some((number, then))
    }

    /// Takes the key and the value for an answer; `None` if the key was removed.
    pub(super) fn answered(&mut self, number: u64) -> Option<(K, V)> {
        let key = self.by_number.remove(&number)??;
        let (_, then) = self.by_key.remove(&key).expect("both maps have the same keys");
        Some((key, then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reaches_only_the_key_that_waits_for_it() {
        let mut pending = Pending::new();
        let (first, second) = (pending.await_for('a', 1), pending.await_for('b', 2));
        assert_eq!(pending.answered(second), Some(('b', 2)));
        assert_eq!(pending.answered(second), None);
        pending.forget('a');
        let again = pending.await_for('a', 3);
        assert_eq!(pending.len(), 2, "a thread works for both");
        assert_eq!(pending.answered(first), None, "that was another one");
        assert_eq!(pending.len(), 1);
        assert_eq!(pending.answered(again), Some(('a', 3)));
        assert_eq!(pending.len(), 0);
    }
}
