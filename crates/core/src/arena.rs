use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A key of an [`Arena`]. If a slot is reused, the keys of the old and the new value have different generations.
pub trait Key: Copy {
    fn new(index: u32, generation: u32) -> Self;
    /// The index of the slot in the arena.
    fn index(self) -> usize;
    /// How many earlier values used the slot.
    fn generation(self) -> u32;
}

/// Values with dense keys. A new value takes the most recently freed slot. If no slot is free, the arena grows by a
/// slot. Iteration follows the order of the slots. A change of either rule would change simulation results.
///
/// [`get`](Self::get) and the other lookups check the generation, so the key of a removed value finds nothing. Indexing
/// requires a key in use and checks the generation only in debug builds.
#[derive(Debug)]
pub(crate) struct Arena<K, T> {
    slots: Vec<Slot<T>>,
    /// The most recently freed slot. Each free slot stores the slot that was freed before it.
    free: Option<u32>,
    len: usize,
    keys: PhantomData<fn() -> K>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    content: Content<T>,
}

#[derive(Debug)]
enum Content<T> {
    Used(T),
    Free(Option<u32>),
}

impl<T> Slot<T> {
    fn value(&self) -> Option<&T> {
        if let Content::Used(value) = &self.content { Some(value) } else { None }
    }

    fn value_mut(&mut self) -> Option<&mut T> {
        if let Content::Used(value) = &mut self.content { Some(value) } else { None }
    }
}

impl<K: Key, T> Arena<K, T> {
    pub(crate) fn new() -> Self {
        Arena { slots: Vec::new(), free: None, len: 0, keys: PhantomData }
    }

    pub(crate) fn insert(&mut self, value: T) -> K {
        self.len += 1;
        let Some(index) = self.free else {
            self.slots.push(Slot { generation: 0, content: Content::Used(value) });
            return K::new(self.slots.len() as u32 - 1, 0);
        };
        let slot = &mut self.slots[index as usize];
        if let Content::Free(next) = std::mem::replace(&mut slot.content, Content::Used(value)) {
            self.free = next;
        }
        K::new(index, slot.generation)
    }

    pub(crate) fn remove(&mut self, key: K) -> T {
        let slot = &mut self.slots[key.index()];
        debug_assert_eq!(slot.generation, key.generation(), "{UNUSED}");
        slot.generation = (slot.generation + 1) & MAX_GENERATION;
        let Content::Used(value) = std::mem::replace(&mut slot.content, Content::Free(self.free)) else {
            panic!("{UNUSED}");
        };
        self.free = Some(key.index() as u32);
        self.len -= 1;
        value
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        self.slots.get(key.index()).filter(|slot| slot.generation == key.generation())?.value()
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut T> {
        self.slots.get_mut(key.index()).filter(|slot| slot.generation == key.generation())?.value_mut()
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn key_at(&self, index: usize) -> Option<K> {
        let slot = self.slots.get(index)?;
        slot.value().map(|_| K::new(index as u32, slot.generation))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((K::new(index as u32, slot.generation), slot.value()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut T)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(index, slot)| Some((K::new(index as u32, slot.generation), slot.value_mut()?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(Slot::value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(Slot::value_mut)
    }

    pub(crate) fn keys(&self) -> Vec<K> {
        self.iter().map(|(key, _)| key).collect()
    }
}

/// Generations have 28 bits, so that a driver can pack a key and four more bits into 64 bits.
const MAX_GENERATION: u32 = u32::MAX >> 4;

const UNUSED: &str = "the key of a removed value";

impl<K: Key, T> Index<K> for Arena<K, T> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        let slot = &self.slots[key.index()];
        debug_assert_eq!(slot.generation, key.generation(), "{UNUSED}");
        slot.value().expect(UNUSED)
    }
}

impl<K: Key, T> IndexMut<K> for Arena<K, T> {
    fn index_mut(&mut self, key: K) -> &mut T {
        let slot = &mut self.slots[key.index()];
        debug_assert_eq!(slot.generation, key.generation(), "{UNUSED}");
        slot.value_mut().expect(UNUSED)
    }
}

/// Stores a value for the key of each object of a relay, for example a driver's sockets. The key of a removed object
/// finds nothing, even if a new object uses the same index.
#[derive(Clone, Debug)]
pub struct SecondaryMap<K, V> {
    slots: Vec<Option<(u32, V)>>,
    len: usize,
    keys: PhantomData<fn() -> K>,
}

impl<K, V> Default for SecondaryMap<K, V> {
    fn default() -> Self {
        SecondaryMap { slots: Vec::new(), len: 0, keys: PhantomData }
    }
}

impl<K: Key, V> SecondaryMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        SecondaryMap::default()
    }

    /// Sets the value of `key`. Returns the replaced value, which may belong to another key with the same index.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let index = key.index();
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let before = self.slots[index].replace((key.generation(), value));
        self.len += usize::from(before.is_none());
        before.map(|(_, value)| value)
    }

    /// Removes the value of `key`.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let slot = self.slots.get_mut(key.index())?;
        let (_, value) = slot.take_if(|(generation, _)| *generation == key.generation())?;
        self.len -= 1;
        Some(value)
    }

    /// The value of `key`.
    pub fn get(&self, key: K) -> Option<&V> {
        let (generation, value) = self.slots.get(key.index())?.as_ref()?;
        (*generation == key.generation()).then_some(value)
    }

    /// The value of `key`.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (generation, value) = self.slots.get_mut(key.index())?.as_mut()?;
        (*generation == key.generation()).then_some(value)
    }

    /// Whether `key` has a value.
    pub fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// All values, in the order of the keys' indices.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().flatten().map(|(_, value)| value)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ChannelKey;

    #[test]
    fn a_secondary_map_has_no_entry_for_a_reused_slot() {
        let [old, new] = [0, 1].map(|generation| ChannelKey::from_parts(2, generation));
        let mut secondary = SecondaryMap::new();
        assert_eq!(
            (secondary.insert(old, 'a'), secondary.get(new), secondary.get(old)),
            (None, None, Some(&'a'))
        );
        assert_eq!((secondary.remove(new), secondary.len()), (None, 1));
        assert_eq!((secondary.insert(new, 'b'), secondary.len()), (Some('a'), 1));
        assert_eq!(secondary.get_mut(old), None);
        assert_eq!(
            (secondary.remove(old), secondary.remove(new), secondary.is_empty()),
            (None, Some('b'), true)
        );
        assert!(!secondary.contains(ChannelKey::from_parts(9, 0)));
    }

    #[test]
    fn freed_slots_are_reused_last_first_and_old_keys_are_invalid() {
        let mut arena = Arena::<ChannelKey, u8>::new();
        let [a, b, c] = [1, 2, 3].map(|value| arena.insert(value));
        assert_eq!((arena.remove(a), arena.remove(c)), (1, 3));
        let [d, e, f] = [4, 5, 6].map(|value| arena.insert(value));
        assert_eq!([d, e, f].map(|key| key.index()), [2, 0, 3]);
        assert_eq!(
            [a, b, c, d, e, f].map(|key| arena.get(key).copied()),
            [None, Some(2), None, Some(4), Some(5), Some(6)]
        );
        assert_eq!(arena.values().copied().collect::<Vec<_>>(), [5, 2, 4, 6]);
        assert_eq!((arena.key_at(0), arena.key_at(9), arena.len()), (Some(e), None, 4));
    }
}
