//! Numbers of other nodes. The core identifies nodes by these numbers.

use penstock_core::PeerId;
use penstock_link::cell::LinkSpec;
use penstock_link::certs::Identity;
use slab::Slab;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// First number of clients. Clients have no identity, so their number depends on their address.
const CLIENTS: u32 = 1 << 31;

/// The links that a circuit to a relay may use. A client can put a wrong address into an EXTEND. Links to different
/// addresses have different peer numbers, so a wrong address does not affect other circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkAddress {
    /// Canonical links, whose address the peer confirmed in NETINFO. All circuits may use them.
    Canonical,
    /// Other links, for circuits to this address only.
    At(IpAddr),
    /// Links to a peer that has not proven its identity yet, for circuits to this address and port only.
    Dial(SocketAddr),
}

/// A relay that has a channel or that a circuit extends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known {
    pub(super) rsa: [u8; 20],
    pub(super) address: LinkAddress,
    /// `None` if the client sent no ed25519 identity and the link is not authenticated.
    pub(super) ed25519: Option<[u8; 32]>,
}

pub(super) fn is_client(peer: PeerId) -> bool {
    peer.0 >= CLIENTS
}

#[derive(Debug, Default)]
pub(super) struct Peers {
    relays: Slab<Known>,
    numbers: BTreeMap<Known, u32>,
    clients: Slab<IpAddr>,
    by_address: BTreeMap<IpAddr, u32>,
}

impl Peers {
    /// The number of the relay that a client extends to, at address `at`. A circuit uses an existing link if `shares`
    /// allows it, and if the link is canonical or goes to the same address. Otherwise the circuit opens a link, and
    /// only circuits to the same address share that link. Relays with different ed25519 identities are different
    /// relays. If the EXTEND has no ed25519 identity, any is accepted. A wrong identity or address in an EXTEND affects
    /// no other circuit.
    ///
    /// Source: C tor `channel_get_for_extend()`.
    /// Deviation: circuits wait for an unfinished link only if the port is also equal. C tor compares only the address.
    pub(super) fn relay(&mut self, to: &LinkSpec, at: SocketAddr, shares: impl Fn(PeerId) -> bool) -> PeerId {
        let (rsa, ed25519) = (to.rsa, to.ed25519);
        let proven = [LinkAddress::Canonical, LinkAddress::At(at.ip())].into_iter().flat_map(|address| {
            let last = ed25519.or(Some([u8::MAX; 32]));
            self.numbers.range(Known { rsa, address, ed25519 }..=Known { rsa, address, ed25519: last })
        });
        let shared = proven.map(|(_, number)| PeerId(*number)).find(|peer| shares(*peer));
        shared.unwrap_or_else(|| self.of(Known { rsa, address: LinkAddress::Dial(at), ed25519 }))
    }

    /// The number of a relay that proved its identity on a link to address `at`.
    pub(super) fn proven(&mut self, identity: &Identity, is_canonical: bool, at: IpAddr) -> PeerId {
        let address = if is_canonical { LinkAddress::Canonical } else { LinkAddress::At(at) };
        self.of(Known { rsa: identity.rsa, address, ed25519: Some(identity.ed25519) })
    }

    /// Whether a client's EXTEND addresses this relay.
    pub(super) fn is(&self, peer: PeerId, to: &LinkSpec) -> bool {
        self.known(peer).is_some_and(|known| {
            known.rsa == to.rsa || (known.ed25519.is_some() && known.ed25519 == to.ed25519)
        })
    }

    pub(super) fn client(&mut self, address: IpAddr) -> PeerId {
        let clients = &mut self.clients;
        PeerId(*self.by_address.entry(address).or_insert_with(|| clients.insert(address) as u32 | CLIENTS))
    }

    pub(super) fn known(&self, peer: PeerId) -> Option<&Known> {
        self.relays.get(peer.0 as usize)
    }

    pub(super) fn keep(&mut self, is_used: impl Fn(PeerId) -> bool) {
        self.relays.retain(|number, _| is_used(PeerId(number as u32)));
        self.numbers.retain(|_, number| is_used(PeerId(*number)));
        self.clients.retain(|number, _| is_used(PeerId(number as u32 | CLIENTS)));
        self.by_address.retain(|_, number| is_used(PeerId(*number)));
    }

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

    /// The relay that a circuit extends to, with the existing links `links`.
    fn relay(peers: &mut Peers, to: &LinkSpec, links: &[PeerId]) -> PeerId {
        peers.relay(to, to.addresses[0], |peer| links.contains(&peer))
    }

    #[test]
    fn all_circuits_share_a_canonical_link() {
        let mut peers = Peers::default();
        let proven = peers.proven(&IDENTITY, true, ip("192.0.2.1"));
        assert_eq!(relay(&mut peers, &to("192.0.2.1:1"), &[proven]), proven);
        assert_eq!(relay(&mut peers, &to("192.0.2.2:1"), &[proven]), proven, "at any address");
        let unnamed = LinkSpec { ed25519: None, ..to("192.0.2.1:1") };
        assert_eq!(relay(&mut peers, &unnamed, &[proven]), proven, "also without an ed25519 identity");
        assert!(peers.is(proven, &to("192.0.2.9:9")));
        let other = LinkSpec { ed25519: Some([3; 32]), ..to("192.0.2.1:1") };
        assert_ne!(relay(&mut peers, &other, &[proven]), proven);
        let dialed = relay(&mut peers, &to("192.0.2.1:1"), &[]);
        assert_eq!(peers.known(dialed).unwrap().address, LinkAddress::Dial("192.0.2.1:1".parse().unwrap()));
    }

    #[test]
    fn only_circuits_to_the_same_address_and_port_share_an_unfinished_link() {
        let mut peers = Peers::default();
        let dialed = relay(&mut peers, &to("192.0.2.1:1"), &[]);
        assert_eq!(relay(&mut peers, &to("192.0.2.1:1"), &[dialed]), dialed);
        for other in ["192.0.2.1:2", "192.0.2.2:1"] {
            assert_ne!(relay(&mut peers, &to(other), &[dialed]), dialed, "{other}");
        }
    }

    #[test]
    fn only_circuits_to_the_same_address_share_a_link_that_is_not_canonical() {
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
