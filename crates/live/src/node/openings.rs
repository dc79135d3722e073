//! The table of unfinished link handshakes. Each one belongs to the share of a host: an accepted connection to the host
//! at the other end, and an opened connection to a host whose circuits wait for it.

use super::LINK_MEMORY;
use super::claims::Claim;
use super::links::Opening;
use super::shares::{Holder, Host, Shares};
use penstock_core::{ChannelKey, SecondaryMap};
use penstock_units::Bytes;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Openings {
    /// Every new handshake gets a higher number.
    table: BTreeMap<u64, Opening>,
    next: u64,
    /// The handshakes of accepted connections.
    pub(super) accepted: Shares<Holder, u64>,
    /// The handshakes of connections that this node opened.
    pub(super) opened: Shares<Holder, u64>,
    /// The handshake that each new channel waits for.
    by_channel: SecondaryMap<ChannelKey, u64>,
}

impl Openings {
    pub(super) fn new() -> Self {
        Openings {
            table: BTreeMap::new(),
            next: 0,
            accepted: Shares::new(),
            opened: Shares::new(),
            by_channel: SecondaryMap::new(),
        }
    }

    /// The number of the next handshake.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Adds a handshake to the share of the first of these hosts. `make` makes it with its place in this share. The other
    /// hosts also wait for it.
    pub(super) fn insert(
        &mut self,
        channel: Option<ChannelKey>,
        hosts: &[Host],
        make: impl FnOnce(Claim) -> Opening,
    ) {
        let number = self.next;
        self.next += 1;
        if let Some(channel) = channel {
            self.by_channel.insert(channel, number);
        }
        let shares = if channel.is_some() { &mut self.opened } else { &mut self.accepted };
        let mut claim = Claim::new(shares, hosts[0], number);
        // A claim drops the host that joined first, so the host with the largest share joins first.
        hosts.iter().rev().for_each(|host| claim.join(*host));
        self.table.insert(number, make(claim));
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Opening> {
        let opening = self.table.remove(&number)?;
        if let Some(channel) = opening.channel {
            self.by_channel.remove(channel);
        }
        opening.claim.end(if opening.channel.is_some() { &mut self.opened } else { &mut self.accepted });
        Some(opening)
    }

    /// The host of a handshake loses it. Returns false if no other host waits for it.
    pub(super) fn pass_on(&mut self, number: u64) -> bool {
        let opening = self.table.get_mut(&number);
        opening.is_some_and(|opening| {
            opening.channel.is_some() && opening.claim.pass_on(&mut self.opened, number)
        })
    }

    pub(super) fn get(&self, number: u64) -> Option<&Opening> {
        self.table.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Opening> {
        self.table.get_mut(&number)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// All handshakes, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Opening)> {
        self.table.iter().map(|(number, opening)| (*number, opening))
    }

    /// Whether the channel waits for a handshake.
    pub(super) fn has(&self, channel: ChannelKey) -> bool {
        self.by_channel.contains(channel)
    }

    /// A circuit of `host` also waits for this channel.
    pub(super) fn join(&mut self, channel: ChannelKey, host: Host) {
        let number = self.by_channel.get(channel);
        if let Some(opening) = number.and_then(|number| self.table.get_mut(number)) {
            opening.claim.join(host);
        }
    }

    /// The memory of each host's handshakes [B].
    pub(super) fn memory(&self) -> BTreeMap<[u128; 2], Bytes> {
        let mut memory = BTreeMap::new();
        for opening in self.table.values() {
            let sum = memory.entry(opening.claim.host.numbers()).or_insert(Bytes::ZERO);
            *sum += opening.memory();
        }
        memory
    }

    /// The oldest handshake of a host, accepted before opened.
    pub(super) fn oldest_of(&self, host: Host) -> Option<u64> {
        let path = host.path();
        self.accepted.oldest_in(&path).or_else(|| self.opened.oldest_in(&path))
    }
}

impl Opening {
    /// The memory of the connection, as the node counts it [B].
    pub(super) fn memory(&self) -> Bytes {
        Bytes::new(LINK_MEMORY + self.counted)
    }
}
