//! A heap of cell counts that supports lookup, change and removal of any circuit.

use crate::keys::CircuitKey;
use std::collections::BTreeMap;

/// The number of children of a heap node. Four children are adjacent in memory, and the heap is half as deep as a
/// binary heap.
const ARITY: usize = 4;

/// Marks an ineligible circuit in `places`.
const OUT: u32 = u32::MAX;

/// Circuits ordered by count, smallest first.
///
/// `slots` keeps the counts of all circuits; only eligible circuits are in the heap. Heap entries are dense, so
/// choosing and charging the first circuit touches only the heap and `places`.
#[derive(Debug, Default)]
pub(super) struct IndexedHeap {
    slots: slab::Slab<Slot>,
    by_key: BTreeMap<CircuitKey, usize>,
    heap: Vec<HeapEntry>,
    /// For each slot, the position in the heap; `OUT` for an ineligible circuit.
    places: Vec<u32>,
    /// The slot that the last search found. Consecutive calls often name the same circuit.
    recent: usize,
    last: Turn,
}

/// The state of a circuit. If the circuit is eligible, count and turn are not stored in the slot but in the heap.
#[derive(Debug)]
struct Slot {
    key: CircuitKey,
    count: f64,
    turn: Turn,
    /// The reference time of an ineligible circuit's count. The caller chooses its unit.
    epoch: u64,
}

/// The sequence number of a circuit's last service. Circuits that were never served sort first, in the order of their
/// keys. No two circuits have the same turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

impl Turn {
    pub(super) fn never(key: CircuitKey) -> Self {
        Turn(key.index() as u64)
    }

    pub(super) fn next(self) -> Self {
        Turn(self.0 + 1)
    }
}

impl Default for Turn {
    fn default() -> Self {
        Turn(u32::MAX.into())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct HeapEntry {
    pub(super) count: f64,
    pub(super) turn: Turn,
    pub(super) key: CircuitKey,
    pub(super) slot: u32,
}

impl HeapEntry {
    pub(super) fn goes_before(&self, other: &HeapEntry) -> bool {
        self.rank() < other.rank()
    }

    /// Count and turn as one number, so that a comparison needs no branch. Counts are not negative, so their bits sort
    /// correctly.
    fn rank(&self) -> u128 {
        u128::from(self.count.to_bits()) << 64 | u128::from(self.turn.0)
    }
}

impl IndexedHeap {
    /// The slot of a circuit. A new circuit gets a count of zero. For an ineligible circuit, the count is multiplied by
    /// `decay` of the old reference time. The new reference time is `epoch`.
    pub(super) fn slot_of(&mut self, key: CircuitKey, epoch: u64, decay: impl FnOnce(u64) -> f64) -> usize {
        // The circuit served last is at the root, so no search is needed.
        if let Some(first) = self.heap.first()
            && first.key == key
        {
            return first.slot as usize;
        }
        let slot = match self.slots.get(self.recent) {
            Some(recent) if recent.key == key => self.recent,
            _ => self.find_or_add(key, epoch),
        };
        let state = &mut self.slots[slot];
        if self.places[slot] == OUT && state.epoch != epoch {
            state.count *= decay(state.epoch);
            state.epoch = epoch;
        }
        slot
    }

    fn find_or_add(&mut self, key: CircuitKey, epoch: u64) -> usize {
        let slot = *self
            .by_key
            .entry(key)
            .or_insert_with(|| self.slots.insert(Slot { key, count: 0.0, turn: Turn::never(key), epoch }));
        if self.places.len() <= slot {
            self.places.resize(slot + 1, OUT);
        }
        self.recent = slot;
        slot
    }

    /// How many circuits a choice examines: one, and one more for each level of a binary heap.
    pub(super) fn scans(&self) -> u64 {
        1 + u64::from(self.heap.len().checked_ilog2().unwrap_or(0))
    }

    pub(super) fn head(&self) -> Option<&HeapEntry> {
        self.heap.first()
    }

    pub(super) fn enter(&mut self, slot: usize) {
        if self.places[slot] == OUT {
            let Slot { key, count, turn, .. } = self.slots[slot];
            let entry = HeapEntry { count, turn, key, slot: slot as u32 };
            self.heap.push(entry);
            self.rise(self.heap.len() - 1, entry);
        }
    }

    /// Makes the circuit in a slot ineligible, and stores `epoch` as the reference time of its count.
    pub(super) fn leave(&mut self, slot: usize, epoch: u64) {
        let place = std::mem::replace(&mut self.places[slot], OUT);
        if place == OUT {
            return;
        }
        let HeapEntry { count, turn, key, .. } = self.heap.swap_remove(place as usize);
        self.slots[slot] = Slot { key, count, turn, epoch };
        if let Some(moved) = self.heap.get(place as usize).copied() {
            let place = self.rise(place as usize, moved);
            self.sink(place, moved);
        }
    }

    pub(super) fn charge(&mut self, slot: usize, amount: f64) {
        self.last = self.last.next();
        let place = self.places[slot];
        if place == OUT {
            let state = &mut self.slots[slot];
            state.count += amount;
            state.turn = self.last;
        } else {
            let mut entry = self.heap[place as usize];
            entry.count += amount;
            entry.turn = self.last;
            self.sink(place as usize, entry);
        }
    }

    pub(super) fn forget(&mut self, key: CircuitKey) {
        if let Some(slot) = self.by_key.remove(&key) {
            self.leave(slot, 0);
            self.slots.remove(slot);
        }
    }

    pub(super) fn rescale_eligible(&mut self, factor: f64) {
        for entry in &mut self.heap {
            entry.count *= factor;
        }
    }

    /// Rescales the counts of ineligible circuits to the time `epoch`. `decay` returns the factor for an old time.
    pub(super) fn rescale_others(&mut self, epoch: u64, decay: impl Fn(u64) -> f64) {
        for (slot, state) in &mut self.slots {
            if self.places[slot] == OUT {
                state.count *= decay(state.epoch);
                state.epoch = epoch;
            }
        }
    }

    fn put(&mut self, place: usize, entry: HeapEntry) {
        self.heap[place] = entry;
        self.places[entry.slot as usize] = place as u32;
    }

    fn rise(&mut self, mut place: usize, entry: HeapEntry) -> usize {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !entry.goes_before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    /// Moves `entry` down from `place` to its position. The smallest children move up until `place` is a leaf. Then
    /// `entry` rises from there. A charged circuit mostly belongs near the leaves, so this saves comparisons.
    fn sink(&mut self, mut place: usize, entry: HeapEntry) {
        loop {
            let first = ARITY * place + 1;
            let children = self.heap.get(first..self.heap.len().min(first + ARITY)).unwrap_or_default();
            let Some((offset, least)) = least(children) else { break };
            self.put(place, least);
            place = first + offset;
        }
        self.rise(place, entry);
    }
}

/// The smallest entry. Pairs are compared without branches, because half of the branches would be mispredicted.
fn least(entries: &[HeapEntry]) -> Option<(usize, HeapEntry)> {
    let less = |one: usize, other: usize| {
        let later = entries[other].goes_before(&entries[one]);
        [one, other][usize::from(later)]
    };
    let best = match entries.len() {
        0 => return None,
        ARITY => less(less(0, 1), less(2, 3)),
        some => (1..some).fold(0, less),
    };
    Some((best, entries[best]))
}
