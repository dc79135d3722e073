use crate::queue::HostId;
use std::ops::{Index, IndexMut};

/// The state of each host of a shard, indexed by [`HostId`]. Dormant hosts and hosts of other shards have none.
#[derive(Debug)]
pub(crate) struct Awake<T>(Vec<Option<Box<T>>>);

impl<T> Awake<T> {
    /// A table of `hosts` dormant hosts.
    pub(crate) fn new(hosts: usize) -> Self {
        Awake((0..hosts).map(|_| None).collect())
    }

    pub(crate) fn contains(&self, id: HostId) -> bool {
        self.0[id as usize].is_some()
    }

    pub(crate) fn insert(&mut self, id: HostId, state: T) {
        self.0[id as usize] = Some(Box::new(state));
    }

    pub(crate) fn get(&self, id: HostId) -> Option<&T> {
        self.0[id as usize].as_deref()
    }

    /// The states of two different hosts. The other host may belong to another shard.
    pub(crate) fn pair(&mut self, one: HostId, other: HostId) -> (&mut T, Option<&mut T>) {
        let pair = self.0.get_disjoint_mut([one as usize, other as usize]);
        let [one, other] = pair.expect("no host is its own peer");
        (one.as_deref_mut().expect(DORMANT), other.as_deref_mut())
    }

    pub(crate) fn get_mut(&mut self, id: HostId) -> Option<&mut T> {
        self.0[id as usize].as_deref_mut()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().map(|state| &**state)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

const DORMANT: &str = "a host is awake before it acts or gets a packet";

impl<T> Index<usize> for Awake<T> {
    type Output = T;

    fn index(&self, id: usize) -> &T {
        self.0[id].as_ref().expect(DORMANT)
    }
}

impl<T> IndexMut<usize> for Awake<T> {
    fn index_mut(&mut self, id: usize) -> &mut T {
        self.0[id].as_mut().expect(DORMANT)
    }
}
