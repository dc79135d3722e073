use super::MAX_IN_FLIGHT;
use crate::error::Violation;
use crate::serial::ahead;
use std::collections::BTreeMap;

/// The receiving half of a hop. It puts a circuit's cells in order, and stores cells that wait for a missing cell.
#[derive(Debug)]
pub struct Receiver<B> {
    /// All cells with a sequence number below this have arrived.
    tail: u64,
    early: BTreeMap<u64, B>,
}

/// Whether a cell arrived for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The cell arrived for the first time.
    New,
    /// The cell is a duplicate.
    Again,
}

impl<B> Receiver<B> {
    /// A receiver that expects the sequence number `first` next.
    pub fn new(first: u64) -> Self {
        Receiver { tail: first, early: BTreeMap::new() }
    }

    /// Handles the cell with this sequence number, and delivers all cells that are in order now. A number
    /// [`MAX_IN_FLIGHT`] or more beyond the expected number is a [`Violation`].
    pub fn on_data(&mut self, seq: u32, body: B, mut deliver: impl FnMut(B)) -> Result<Arrival, Violation> {
        let Ok(distance) = u64::try_from(ahead(seq, self.tail)) else { return Ok(Arrival::Again) };
        if distance >= MAX_IN_FLIGHT {
            return Err(Violation::TooFarAhead);
        }
        if distance > 0 {
            let seq = self.tail + distance;
            if self.early.contains_key(&seq) {
                return Ok(Arrival::Again);
            }
            self.early.insert(seq, body);
            return Ok(Arrival::New);
        }
        self.tail += 1;
        deliver(body);
        while let Some(next) = self.early.remove(&self.tail) {
            self.tail += 1;
            deliver(next);
        }
        Ok(Arrival::New)
    }

    /// The sequence number for the ACK, modulo 2³². All cells below this number have arrived.
    pub fn ack(&self) -> u32 {
        self.tail as u32
    }

    /// How many cells wait for a missing earlier cell [cell].
    pub fn early(&self) -> usize {
        self.early.len()
    }

    /// Whether a cell waits for a missing earlier cell.
    pub fn has_hole(&self) -> bool {
        !self.early.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn early_cells_wait_and_repeated_cells_are_dropped() {
        let mut receiver = Receiver::new(u64::from(u32::MAX) - 1);
        let mut taken = Vec::new();
        let mut receive = |seq: u32, body| {
            let arrival = receiver.on_data(seq, body, |body| taken.push(body));
            (arrival, receiver.ack(), receiver.has_hole())
        };
        assert_eq!(receive(u32::MAX - 1, 'a'), (Ok(Arrival::New), u32::MAX, false));
        assert_eq!(receive(0, 'c'), (Ok(Arrival::New), u32::MAX, true), "sequence numbers wrap");
        assert_eq!(receive(0, 'c'), (Ok(Arrival::Again), u32::MAX, true));
        assert_eq!(receive(u32::MAX, 'b'), (Ok(Arrival::New), 1, false));
        assert_eq!(receive(u32::MAX, 'b'), (Ok(Arrival::Again), 1, false));
        assert_eq!(taken, ['a', 'b', 'c']);
    }

    #[test]
    fn cells_far_ahead_fill_no_memory() {
        let mut receiver = Receiver::new(7);
        let most = MAX_IN_FLIGHT as u32;
        assert_eq!(receiver.on_data(7 + most, (), |()| {}), Err(Violation::TooFarAhead));
        assert_eq!(receiver.on_data(6 + most, (), |()| {}), Ok(Arrival::New));
    }

    proptest! {
        #[test]
        fn reordered_cells_are_delivered_in_order(
            first in any::<u32>(),
            order in proptest::collection::vec(0u32..60, 0..200),
        ) {
            let mut receiver = Receiver::new(first.into());
            let mut taken = Vec::new();
            for seq in order.into_iter().chain(0..60) {
                receiver.on_data(first.wrapping_add(seq), seq, |body| taken.push(body)).expect("no cell is too far ahead");
                prop_assert_eq!(receiver.ack(), first.wrapping_add(taken.len() as u32));
            }
            prop_assert_eq!(taken, (0..60).collect::<Vec<_>>());
            prop_assert!(!receiver.has_hole());
        }
    }
}
