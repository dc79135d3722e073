//! A heap of counts whose members can be found, changed and taken out.

use crate::keys::CircuitKey;
use std::collections::BTreeMap;

/// Children of a place. Four of them lie beside each other in memory, and the heap is half as deep as with two.
const ARITY: usize = 4;

/// The place of a circuit that is not eligible.
const OUT: u32 = u32::MAX;

/// Circuits by their standing, least first.
///
/// Circuits stay in `slots` while they are inactive, with their counts; only eligible ones are in the heap,
/// whose entries are dense: choosing and charging the head touches nothing else but `places`.
#[derive(Debug, Default)]
pub(super) struct IndexedHeap {
    slots: slab::Slab<Slot>,
    by_key: BTreeMap<CircuitKey, usize>,
    heap: Vec<Standing>,
    /// Where in the heap each slot is, or `OUT`.
    places: Vec<u32>,
    last: Turn,
}

/// A circuit; while it is eligible, its count and turn are in the heap.
#[derive(Debug)]
struct Slot {
    key: CircuitKey,
    count: f64,
    turn: Turn,
    /// To what time the count of a circuit that is not eligible refers, in its owner's own reckoning.
    epoch: u64,
}

/// When a circuit was served last. Those that never were come before all others, in the order of their keys:
/// no two circuits have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

impl Turn {
    /// Of a circuit that was never served.
    pub(super) fn never(key: CircuitKey) -> Self {
        Turn(key.index() as u64)
    }

    /// The turn after this.
    pub(super) fn next(self) -> Self {
        Turn(self.0 + 1)
    }
}

impl Default for Turn {
    /// Before the first.
    fn default() -> Self {
        Turn(u32::MAX.into())
    }
}

/// One circuit's place in the order: count, then turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) count: f64,
    pub(super) turn: Turn,
    pub(super) key: CircuitKey,
    /// Its slot in the heap; others have none.
    pub(super) slot: u32,
}

impl Standing {
    pub(super) fn goes_before(&self, other: &Standing) -> bool {
        self.rank() < other.rank()
    }

    /// Count and turn in one number, so that comparing takes no branch: counts are never negative, and then their
    /// bits are in their order.
    fn rank(&self) -> u128 {
        u128::from(self.count.to_bits()) << 64 | u128::from(self.turn.0)
    }
}

impl IndexedHeap {
    /// The slot of a circuit, which begins with a count of zero.
    ///
    /// The count of a circuit that is not eligible is brought to `epoch` by the factor that `decay` makes of the
    /// epoch to which it referred.
    pub(super) fn slot_of(&mut self, key: CircuitKey, epoch: u64, decay: impl FnOnce(u64) -> f64) -> usize {
        // The circuit just served is the head: no need to search.
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

    /// A sift from the root: one circuit at each level.
    pub(super) fn scans(&self) -> u64 {
        1 + u64::from(self.heap.len().checked_ilog2().unwrap_or(0))
    }

    pub(super) fn head(&self) -> Option<&Standing> {
        self.heap.first()
    }

    /// Makes a slot eligible.
    pub(super) fn enter(&mut self, slot: usize) {
        if self.places[slot] == OUT {
            let Slot { key, count, turn, .. } = self.slots[slot];
            let standing = Standing { count, turn, key, slot: slot as u32 };
            self.heap.push(standing);
            self.rise(self.heap.len() - 1, standing);
        }
    }

    /// Makes a slot ineligible; its count refers to `epoch`.
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

    /// Adds to a slot's count and notes that it was served.
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

    /// Multiplies the counts of all other circuits by what `decay` makes of their epochs; all refer to `epoch` then.
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

    /// Puts `standing` at `place` or above, and says where.
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

    /// Puts `standing` at `place` or below: the hole sinks to a leaf, and `standing` rises from there. Who was just
    /// charged mostly belongs near the leaves, so that this compares less than stopping on the way.
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

/// Which of them goes first. Pairs are compared by selection: which one it is cannot be foreseen, so that a branch
/// would be taken wrongly half of the time.
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
