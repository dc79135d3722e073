//! A heap of counts whose members can be found, changed and removed.

use crate::keys::CircuitKey;
use std::collections::BTreeMap;

/// Children of a node. Four are adjacent in memory, and the heap is half as deep as with two.
const ARITY: usize = 4;

/// The place of a circuit that is not eligible.
const OUT: u32 = u32::MAX;

/// Circuits by count, smallest first.
///
/// `slots` keeps all circuits with their counts. Only eligible circuits are in the heap. Its entries are
/// dense: choosing and charging the first circuit touches only the heap and `places`.
#[derive(Debug, Default)]
pub(super) struct IndexedHeap {
    slots: slab::Slab<Slot>,
    by_key: BTreeMap<CircuitKey, usize>,
    heap: Vec<Standing>,
    /// Each slot's place in the heap, or `OUT`.
    places: Vec<u32>,
    last: Turn,
}

/// A circuit. While it is eligible, its count and turn are in the heap.
#[derive(Debug)]
struct Slot {
    key: CircuitKey,
    count: f64,
    turn: Turn,
    /// The reference time of an ineligible circuit's count, in the unit of the owner.
    epoch: u64,
}

/// When a circuit was served last. Circuits that were never served come first, in the order of their
/// keys. No two turns are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

impl Turn {
    /// The turn of a circuit that was never served.
    pub(super) fn never(key: CircuitKey) -> Self {
        Turn(key.index() as u64)
    }

    pub(super) fn next(self) -> Self {
        Turn(self.0 + 1)
    }
}

impl Default for Turn {
    /// The turn before the first.
    fn default() -> Self {
        Turn(u32::MAX.into())
    }
}

/// A circuit's rank: count, then turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) count: f64,
    pub(super) turn: Turn,
    pub(super) key: CircuitKey,
    /// Its slot; only entries of the heap have one.
    pub(super) slot: u32,
}

impl Standing {
    pub(super) fn goes_before(&self, other: &Standing) -> bool {
        self.rank() < other.rank()
    }

    /// Count and turn as one number, for comparisons without a branch. Counts are never negative, so
    /// their bits have the same order.
    fn rank(&self) -> u128 {
        u128::from(self.count.to_bits()) << 64 | u128::from(self.turn.0)
    }
}

impl IndexedHeap {
    /// The slot of a circuit. A new circuit has a count of zero. The count of an ineligible circuit
    /// moves to `epoch`: `decay` gives the factor for its old epoch.
    pub(super) fn slot_of(&mut self, key: CircuitKey, epoch: u64, decay: impl FnOnce(u64) -> f64) -> usize {
        // The circuit just served is the first, so there is no search.
        if let Some(first) = self.heap.first()
            && first.key == key
        {
            return first.slot as usize;
        }
        let slot = *self
            .by_key
            .entry(key)
            .or_insert_with(|| self.slots.insert(Slot { key, count: 0.0, turn: Turn::never(key), epoch }));
        if self.places.len() <= slot {
            self.places.resize(slot + 1, OUT);
        }
        let state = &mut self.slots[slot];
        if self.places[slot] == OUT && state.epoch != epoch {
            state.count *= decay(state.epoch);
            state.epoch = epoch;
        }
        slot
    }

    /// A sift from the root examines one circuit at each level.
    pub(super) fn scans(&self) -> u64 {
        1 + u64::from(self.heap.len().checked_ilog2().unwrap_or(0))
    }

    pub(super) fn head(&self) -> Option<&Standing> {
        self.heap.first()
    }

    pub(super) fn enter(&mut self, slot: usize) {
        if self.places[slot] == OUT {
            let Slot { key, count, turn, .. } = self.slots[slot];
            let standing = Standing { count, turn, key, slot: slot as u32 };
            self.heap.push(standing);
            self.rise(self.heap.len() - 1, standing);
        }
    }

    /// Makes a slot ineligible. Its count refers to `epoch`.
    pub(super) fn leave(&mut self, slot: usize, epoch: u64) {
        let place = std::mem::replace(&mut self.places[slot], OUT);
        if place == OUT {
            return;
        }
        let Standing { count, turn, key, .. } = self.heap.swap_remove(place as usize);
        self.slots[slot] = Slot { key, count, turn, epoch };
        if let Some(moved) = self.heap.get(place as usize).copied() {
            let place = self.rise(place as usize, moved);
            self.sink(place, moved);
        }
    }

    /// Adds to a slot's count and records its turn.
    pub(super) fn charge(&mut self, slot: usize, amount: f64) {
        self.last = self.last.next();
        let place = self.places[slot];
        if place == OUT {
            let state = &mut self.slots[slot];
            state.count += amount;
            state.turn = self.last;
        } else {
            let mut standing = self.heap[place as usize];
            standing.count += amount;
            standing.turn = self.last;
            self.sink(place as usize, standing);
        }
    }

    pub(super) fn forget(&mut self, key: CircuitKey) {
        if let Some(slot) = self.by_key.remove(&key) {
            self.leave(slot, 0);
            self.slots.remove(slot);
        }
    }

    /// Multiplies the counts of all eligible circuits by `factor`, which keeps their order.
    pub(super) fn rescale_eligible(&mut self, factor: f64) {
        for standing in &mut self.heap {
            standing.count *= factor;
        }
    }

    /// Moves the counts of all other circuits to `epoch`. `decay` gives the factor for an old epoch.
    pub(super) fn rescale_others(&mut self, epoch: u64, decay: impl Fn(u64) -> f64) {
        for (slot, state) in &mut self.slots {
            if self.places[slot] == OUT {
                state.count *= decay(state.epoch);
                state.epoch = epoch;
            }
        }
    }

    fn put(&mut self, place: usize, standing: Standing) {
        self.heap[place] = standing;
        self.places[standing.slot as usize] = place as u32;
    }

    /// Puts `standing` at `place` or above, and returns its new place.
    fn rise(&mut self, mut place: usize, standing: Standing) -> usize {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !standing.goes_before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, standing);
        place
    }

    /// Puts `standing` at `place` or below: the hole sinks to a leaf, and `standing` rises from there. A
    /// circuit that was just charged mostly belongs near the leaves, so this needs fewer comparisons.
    fn sink(&mut self, mut place: usize, standing: Standing) {
        loop {
            let first = ARITY * place + 1;
            let children = self.heap.get(first..self.heap.len().min(first + ARITY)).unwrap_or_default();
            let Some((offset, least)) = least(children) else { break };
            self.put(place, least);
            place = first + offset;
        }
        self.rise(place, standing);
    }
}

/// The smallest of them. Pairs are compared by selection, because half of the branches would be mispredicted.
fn least(standings: &[Standing]) -> Option<(usize, Standing)> {
    let less = |one: usize, other: usize| {
        let later = standings[other].goes_before(&standings[one]);
        [one, other][usize::from(later)]
    };
    let best = match standings.len() {
        0 => return None,
        ARITY => less(less(0, 1), less(2, 3)),
        some => (1..some).fold(0, less),
    };
    Some((best, standings[best]))
}
