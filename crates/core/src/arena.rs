//! Values with typed keys.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A key of an [`Arena`]: a slot's index.
pub(crate) trait Key: Copy {
    fn new(index: u32) -> Self;
    fn index(self) -> usize;
}

/// Values with dense keys. A new value takes the slot that was freed last, or a new slot.
/// Iteration is in the order of keys. Simulations depend on both orders.
#[derive(Debug)]
pub(crate) struct Arena<K, T> {
    slots: slab::Slab<T>,
    keys: PhantomData<fn() -> K>,
}

impl<K: Key, T> Arena<K, T> {
    pub(crate) fn new() -> Self {
        Arena { slots: slab::Slab::new(), keys: PhantomData }
    }

    pub(crate) fn insert(&mut self, value: T) -> K {
        K::new(self.slots.insert(value) as u32)
    }

    /// Removes a value; the key must be in use.
    pub(crate) fn remove(&mut self, key: K) -> T {
        self.slots.remove(key.index())
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        self.slots.get(key.index())
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut T> {
        self.slots.get_mut(key.index())
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.slots.contains(key.index())
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.slots.iter().map(|(index, value)| (K::new(index as u32), value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut T)> {
        self.slots.iter_mut().map(|(index, value)| (K::new(index as u32), value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn keys(&self) -> Vec<K> {
        self.iter().map(|(key, _)| key).collect()
    }
}

impl<K: Key, T> Index<K> for Arena<K, T> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        &self.slots[key.index()]
    }
}

impl<K: Key, T> IndexMut<K> for Arena<K, T> {
    fn index_mut(&mut self, key: K) -> &mut T {
        &mut self.slots[key.index()]
    }
}
