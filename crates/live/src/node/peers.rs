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

/// What a relay is called.
type Name = ([u8; 20], Option<[u8; 32]>);

/// Whether this is a client's number.
pub(super) fn is_client(peer: PeerId) -> bool {
    peer.0 >= CLIENTS
}

/// Who has which number.
#[derive(Debug, Default)]
pub(super) struct Peers {
    relays: Slab<Known>,
    by_identity: BTreeMap<Name, u32>,
    /// Those whom links lead to that are not canonical, by the address at their other end.
    apart: BTreeMap<(Name, IpAddr), u32>,
    clients: Slab<IpAddr>,
    by_address: BTreeMap<IpAddr, u32>,
}

impl Peers {
    /// A relay to which a client extends. Whoever has another ed25519 identity is another one: a client that says a wrong
    /// one harms nobody else. A link that is not canonical is for those alone who name the address at its other end: who
    /// sits between us and a relay gets nobody else's circuits.
    ///
    /// Source: C tor `channel_get_for_extend()`.
    pub(super) fn relay(&mut self, to: &LinkSpec) -> PeerId {
        let name = (to.rsa, to.ed25519);
        let at = to.addresses.first().and_then(|at| self.apart.get(&(name, at.ip())));
        if let Some(number) = at.filter(|_| !self.by_identity.contains_key(&name)) {
            return PeerId(*number);
        }
        let number = self.of(name);
        self.relays[number as usize].addresses.clone_from(&to.addresses);
        PeerId(number)
    }

    /// A relay that proved who it is over a canonical link.
    pub(super) fn proven(&mut self, identity: &Identity) -> PeerId {
        PeerId(self.of((identity.rsa, Some(identity.ed25519))))
    }

    /// A relay that opened a link that is not canonical, from this address.
    pub(super) fn proven_at(&mut self, identity: &Identity, from: IpAddr) -> PeerId {
        let name = (identity.rsa, Some(identity.ed25519));
        let relays = &mut self.relays;
        let new = || relays.insert(Known::new(name)) as u32;
        PeerId(*self.apart.entry((name, from)).or_insert_with(new))
    }

    /// The link that we opened to this relay, at this address, is not canonical.
    pub(super) fn set_apart(&mut self, peer: PeerId, at: IpAddr) {
        if let Some(known) = self.relays.get(peer.0 as usize) {
            let name = (known.rsa, known.ed25519);
            if self.by_identity.get(&name) == Some(&peer.0) {
                self.by_identity.remove(&name);
            }
            self.apart.insert((name, at), peer.0);
        }
    }

    /// Whether a client means this one.
    pub(super) fn is(&self, peer: PeerId, to: &LinkSpec) -> bool {
        self.known(peer).is_some_and(|known| {
            known.rsa == to.rsa || (known.ed25519.is_some() && known.ed25519 == to.ed25519)
        })
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
        self.apart.retain(|_, number| is_used(PeerId(*number)));
        self.clients.retain(|number, _| is_used(PeerId(number as u32 | CLIENTS)));
        self.by_address.retain(|_, number| is_used(PeerId(*number)));
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.relays.len() + self.clients.len()
    }

    fn of(&mut self, name: Name) -> u32 {
        let relays = &mut self.relays;
        *self.by_identity.entry(name).or_insert_with(|| relays.insert(Known::new(name)) as u32)
    }
}

impl Known {
    fn new((rsa, ed25519): Name) -> Self {
        Known { rsa, ed25519, addresses: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity { rsa: [1; 20], ed25519: [2; 32] };

    fn to(address: &str) -> LinkSpec {
        let addresses = vec![address.parse().unwrap()];
        LinkSpec { addresses, rsa: IDENTITY.rsa, ed25519: Some(IDENTITY.ed25519) }
    }

    #[test]
    fn a_relay_that_proved_its_identity_is_the_one_that_is_extended_to() {
        let mut peers = Peers::default();
        let proven = peers.proven(&IDENTITY);
        assert_eq!(peers.relay(&to("192.0.2.1:1")), proven);
        assert_eq!(peers.relay(&to("192.0.2.2:1")), proven, "at whatever address");
        assert!(peers.is(proven, &to("192.0.2.9:9")));
        let other = LinkSpec { ed25519: Some([3; 32]), ..to("192.0.2.1:1") };
        assert_ne!(peers.relay(&other), proven);
    }

    #[test]
    fn a_link_that_is_not_canonical_is_for_those_who_name_its_address() {
        let mut peers = Peers::default();
        let [here, there]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        // One that it opened, from elsewhere than it says that it is.
        let from_there = peers.proven_at(&IDENTITY, there);
        let at_home = peers.relay(&to("192.0.2.1:1"));
        assert_ne!(at_home, from_there);
        // And one that we opened, at an address that it does not call its own.
        peers.set_apart(at_home, here);
        assert_eq!(peers.relay(&to("192.0.2.1:1")), at_home);
        assert_eq!(peers.relay(&to("192.0.2.2:1")), from_there);
        let canonical = peers.relay(&to("192.0.2.3:1"));
        assert!(![at_home, from_there].contains(&canonical));
        assert_eq!(peers.relay(&to("192.0.2.1:1")), canonical, "the canonical one is for all");
        peers.keep(|peer| peer == from_there);
        assert_eq!((peers.len(), peers.relay(&to("192.0.2.2:1"))), (1, from_there));
    }
}
