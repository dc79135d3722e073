//! The numbers by which the core knows other nodes.

use penstock_core::PeerId;
use penstock_link::cell::LinkSpec;
use penstock_link::certs::Identity;
use slab::Slab;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Numbers of clients begin here: by address, since they have no names.
const CLIENTS: u32 = 1 << 31;

/// By what links a relay is reached. A number is for links of one way alone, so that nobody's circuits wait for a link, or take it,
/// that leads where somebody else said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkAddress {
    /// It calls the address at the other end its own: for all circuits.
    Canonical,
    /// It does not: for circuits that name this address.
    At(IpAddr),
    /// Nobody has proved anything yet: for circuits that name exactly this.
    Dial(SocketAddr),
}

/// A relay that we have, or are to have, a channel with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known {
    pub(super) rsa: [u8; 20],
    pub(super) address: LinkAddress,
    /// None if the client did not say and it has not proved it.
    pub(super) ed25519: Option<[u8; 32]>,
}

/// Whether this is a client's number.
pub(super) fn is_client(peer: PeerId) -> bool {
    peer.0 >= CLIENTS
}

/// Who has which number.
#[derive(Debug, Default)]
pub(super) struct Peers {
    relays: Slab<Known>,
    numbers: BTreeMap<Known, u32>,
    clients: Slab<IpAddr>,
    by_address: BTreeMap<IpAddr, u32>,
}

impl Peers {
    /// A relay to which a client extends, at this address. Circuits share a link that is there, as `shares` says: one that is
    /// canonical, or one whose other end has this address. Otherwise one is opened at this address, for those alone who name it
    /// too. Whoever has another ed25519 identity is another relay; who says none means any. So a client that says a wrong
    /// identity, or an address of his own, harms nobody else.
    ///
    /// Source: C tor `channel_get_for_extend()`.
    /// Deviation: circuits wait for a link that is being opened if the port is theirs as well, for C tor if its address is.
    pub(super) fn relay(&mut self, to: &LinkSpec, at: SocketAddr, shares: impl Fn(PeerId) -> bool) -> PeerId {
        let (rsa, ed25519) = (to.rsa, to.ed25519);
        let proven = [LinkAddress::Canonical, LinkAddress::At(at.ip())].into_iter().flat_map(|address| {
            let last = ed25519.or(Some([u8::MAX; 32]));
            self.numbers.range(Known { rsa, address, ed25519 }..=Known { rsa, address, ed25519: last })
        });
        let shared = proven.map(|(_, number)| PeerId(*number)).find(|peer| shares(*peer));
        shared.unwrap_or_else(|| self.of(Known { rsa, address: LinkAddress::Dial(at), ed25519 }))
    }

    /// A relay that proved who it is over a link whose other end has this address.
    pub(super) fn proven(&mut self, identity: &Identity, is_canonical: bool, at: IpAddr) -> PeerId {
        let address = if is_canonical { LinkAddress::Canonical } else { LinkAddress::At(at) };
        self.of(Known { rsa: identity.rsa, address, ed25519: Some(identity.ed25519) })
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
        self.numbers.retain(|_, number| is_used(PeerId(*number)));
        self.clients.retain(|number, _| is_used(PeerId(number as u32 | CLIENTS)));
        self.by_address.retain(|_, number| is_used(PeerId(*number)));
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.relays.len() + self.clients.len()
    }

    fn of(&mut self, known: Known) -> PeerId {
        let relays = &mut self.relays;
        PeerId(*self.numbers.entry(known).or_insert_with(|| relays.insert(known) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity { rsa: [1; 20], ed25519: [2; 32] };

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    fn to(address: &str) -> LinkSpec {
        let addresses = vec![address.parse().unwrap()];
        LinkSpec { addresses, rsa: IDENTITY.rsa, ed25519: Some(IDENTITY.ed25519) }
    }

    /// Who is extended to, if there are links to these.
    fn relay(peers: &mut Peers, to: &LinkSpec, links: &[PeerId]) -> PeerId {
        peers.relay(to, to.addresses[0], |peer| links.contains(&peer))
    }

    #[test]
    fn a_canonical_link_is_for_all_while_it_is_there() {
        let mut peers = Peers::default();
        let proven = peers.proven(&IDENTITY, true, ip("192.0.2.1"));
        assert_eq!(relay(&mut peers, &to("192.0.2.1:1"), &[proven]), proven);
        assert_eq!(relay(&mut peers, &to("192.0.2.2:1"), &[proven]), proven, "at whatever address");
        let unnamed = LinkSpec { ed25519: None, ..to("192.0.2.1:1") };
        assert_eq!(relay(&mut peers, &unnamed, &[proven]), proven, "whoever says no ed25519 identity");
        assert!(peers.is(proven, &to("192.0.2.9:9")));
        let other = LinkSpec { ed25519: Some([3; 32]), ..to("192.0.2.1:1") };
        assert_ne!(relay(&mut peers, &other, &[proven]), proven);
        let dialed = relay(&mut peers, &to("192.0.2.1:1"), &[]);
        assert_eq!(peers.known(dialed).unwrap().address, LinkAddress::Dial("192.0.2.1:1".parse().unwrap()));
    }

    #[test]
    fn a_link_that_is_being_opened_is_for_those_who_name_its_address_and_port() {
        let mut peers = Peers::default();
        let dialed = relay(&mut peers, &to("192.0.2.1:1"), &[]);
        assert_eq!(relay(&mut peers, &to("192.0.2.1:1"), &[dialed]), dialed);
        for other in ["192.0.2.1:2", "192.0.2.2:1"] {
            assert_ne!(relay(&mut peers, &to(other), &[dialed]), dialed, "{other}");
        }
    }

    #[test]
    fn a_link_that_is_not_canonical_is_for_those_who_name_its_address() {
        let mut peers = Peers::default();
        let there = peers.proven(&IDENTITY, false, ip("192.0.2.2"));
        assert_eq!(relay(&mut peers, &to("192.0.2.2:1"), &[there]), there);
        assert_ne!(relay(&mut peers, &to("192.0.2.1:1"), &[there]), there);
        let canonical = peers.proven(&IDENTITY, true, ip("192.0.2.1"));
        assert_eq!(relay(&mut peers, &to("192.0.2.2:1"), &[there, canonical]), canonical, "that is for all");
        peers.keep(|peer| peer == there);
        assert_eq!((peers.len(), relay(&mut peers, &to("192.0.2.2:1"), &[there])), (1, there));
    }
}
