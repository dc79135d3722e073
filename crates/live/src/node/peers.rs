//! The numbers by which the core knows other nodes.

use crate::cell::LinkSpec;
use crate::certs::Identity;
use penstock_core::PeerId;
use slab::Slab;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Numbers of clients begin here: by address, since they have no names.
const CLIENTS: u32 = 1 << 31;

/// A relay that we have, or are to have, a channel with.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) rsa: [u8; 20],
    /// None if the client did not say.
    pub(super) ed25519: Option<[u8; 32]>,
    /// Where it is said to listen.
    pub(super) addresses: Vec<SocketAddr>,
}

/// Whether this is a client's number.
pub(super) fn is_client(peer: PeerId) -> bool {
    peer.0 >= CLIENTS
}

/// Who has which number.
#[derive(Debug, Default)]
pub(super) struct Peers {
    relays: Slab<Known>,
    by_identity: BTreeMap<([u8; 20], Option<[u8; 32]>), u32>,
    clients: Slab<IpAddr>,
    by_address: BTreeMap<IpAddr, u32>,
}

impl Peers {
    /// A relay to which a client extends. Whoever has another ed25519 identity is another one: a client that says a wrong
    /// one harms nobody else.
    pub(super) fn relay(&mut self, to: &LinkSpec) -> PeerId {
        let number = self.of(to.rsa, to.ed25519);
        self.relays[number as usize].addresses.clone_from(&to.addresses);
        PeerId(number)
    }

    /// A relay that proved who it is.
    pub(super) fn proven(&mut self, identity: &Identity) -> PeerId {
        PeerId(self.of(identity.rsa, Some(identity.ed25519)))
    }

    /// A client.
    pub(super) fn client(&mut self, address: IpAddr) -> PeerId {
        let clients = &mut self.clients;
        PeerId(*self.by_address.entry(address).or_insert_with(|| clients.insert(address) as u32 | CLIENTS))
    }

    /// What is known of a relay.
    pub(super) fn known(&self, peer: PeerId) -> Option<&Known> {
        self.relays.get(peer.0 as usize)
    }

    /// Forgets all that nobody has a channel with.
    pub(super) fn keep(&mut self, is_used: impl Fn(PeerId) -> bool) {
        self.relays.retain(|number, _| is_used(PeerId(number as u32)));
        self.by_identity.retain(|_, number| is_used(PeerId(*number)));
        self.clients.retain(|number, _| is_used(PeerId(number as u32 | CLIENTS)));
        self.by_address.retain(|_, number| is_used(PeerId(*number)));
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.relays.len() + self.clients.len()
    }

    fn of(&mut self, rsa: [u8; 20], ed25519: Option<[u8; 32]>) -> u32 {
        let relays = &mut self.relays;
        let new = || relays.insert(Known { rsa, ed25519, addresses: Vec::new() }) as u32;
        *self.by_identity.entry((rsa, ed25519)).or_insert_with(new)
    }
}
