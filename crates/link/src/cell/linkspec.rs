//! Link specifiers in an EXTEND2. They identify the next relay of the circuit.

use crate::wire::{Malformed, Reader, octets};
use std::net::SocketAddr;

/// Kinds of link specifiers. Source: tor-spec, "EXTEND and EXTENDED cells".
mod kind {
    pub(super) const IPV4: u8 = 0;
    pub(super) const IPV6: u8 = 1;
    pub(super) const RSA: u8 = 2;
    pub(super) const ED25519: u8 = 3;
}

/// Addresses and identities of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The first IPv4 and the first IPv6 address in the message; at least one of them.
    pub addresses: Vec<SocketAddr>,
    /// SHA-1 of the RSA identity key.
    pub rsa: [u8; 20],
    /// Ed25519 identity key, if the client sent one.
    pub ed25519: Option<[u8; 32]>,
}

impl LinkSpec {
    /// Skips additional addresses and unknown kinds. Fails if an identity occurs twice, if the RSA identity is missing,
    /// or if there is no address.
    ///
    /// Source: tor-spec, "EXTEND and EXTENDED cells"; C tor `extend_cell_parse()`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (mut ipv4, mut ipv6, mut rsa, mut ed25519) = (None, None, None, None);
        for _ in 0..reader.u8()? {
            let (kind, len) = (reader.u8()?, reader.u8()?);
            let mut body = Reader::new(reader.take(len.into())?);
            match kind {
                kind::IPV4 => {
                    let address = SocketAddr::new(body.ipv4()?, body.u16()?);
                    ipv4.get_or_insert(address);
                }
                kind::IPV6 => {
                    let address = SocketAddr::new(body.ipv6()?, body.u16()?);
                    ipv6.get_or_insert(address);
                }
                kind::RSA if rsa.is_none() => rsa = Some(body.array()?),
                kind::ED25519 if ed25519.is_none() => ed25519 = Some(body.array()?),
                kind::RSA | kind::ED25519 => return Err(Malformed),
                _ => {
                    body.rest();
                }
            }
            if !body.is_empty() {
                return Err(Malformed);
            }
        }
        let addresses: Vec<_> = ipv4.into_iter().chain(ipv6).collect();
        if addresses.is_empty() {
            return Err(Malformed);
        }
        Ok(LinkSpec { addresses, rsa: rsa.ok_or(Malformed)?, ed25519 })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let count = self.addresses.len() + 1 + usize::from(self.ed25519.is_some());
        out.push(u8::try_from(count).expect("a relay has few addresses"));
        for address in &self.addresses {
            let (kind, octets) = if address.is_ipv4() {
                (kind::IPV4, octets(address.ip()))
            } else {
                (kind::IPV6, octets(address.ip()))
            };
            out.extend_from_slice(&[kind, octets.len() as u8 + 2]);
            out.extend_from_slice(&octets);
            out.extend_from_slice(&address.port().to_be_bytes());
        }
        out.extend_from_slice(&[kind::RSA, 20]);
        out.extend_from_slice(&self.rsa);
        if let Some(ed25519) = &self.ed25519 {
            out.extend_from_slice(&[kind::ED25519, 32]);
            out.extend_from_slice(ed25519);
        }
    }
}
