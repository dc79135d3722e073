//! NETINFO: the sender's time and addresses, at the end of the link handshake.

use crate::wire::{Malformed, Reader, octets};
use std::net::IpAddr;

/// Maximum number of own addresses in a NETINFO cell. They always fit into the cell.
const MAX_ADDRESSES: usize = 20;

/// A NETINFO cell.
///
/// Source: tor-spec, "NETINFO cells".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Netinfo {
    /// Sender's clock in Unix time [s]; zero if the sender is a client.
    pub time: u32,
    /// Receiver's address, as the sender sees it.
    pub yours: Option<IpAddr>,
    /// Sender's own addresses; empty for clients.
    pub mine: Vec<IpAddr>,
}

impl Netinfo {
    /// Parses a cell body. Skips addresses of unknown kinds.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let time = reader.u32()?;
        let yours = address(&mut reader)?;
        let mut mine = Vec::new();
        for _ in 0..reader.u8()? {
            mine.extend(address(&mut reader)?);
        }
        Ok(Netinfo { time, yours, mine })
    }

    /// The cell body. It has at most 20 own addresses.
    pub fn write(&self) -> Vec<u8> {
        let mut body = self.time.to_be_bytes().to_vec();
        // An unknown address is written as 0.0.0.0.
        push(&mut body, self.yours.unwrap_or(IpAddr::from([0; 4])));
        let mine = &self.mine[..self.mine.len().min(MAX_ADDRESSES)];
        body.push(mine.len() as u8);
        mine.iter().for_each(|address| push(&mut body, *address));
        body
    }
}

fn push(body: &mut Vec<u8>, address: IpAddr) {
    let octets = octets(address);
    body.extend_from_slice(&[if address.is_ipv4() { 4 } else { 6 }, octets.len() as u8]);
    body.extend_from_slice(&octets);
}

fn address(reader: &mut Reader<'_>) -> Result<Option<IpAddr>, Malformed> {
    let (kind, len) = (reader.u8()?, reader.u8()?);
    let mut octets = Reader::new(reader.take(len.into())?);
    let address = match (kind, len) {
        (4, 4) => octets.ipv4()?,
        (6, 16) => octets.ipv6()?,
        (4 | 6, _) => return Err(Malformed),
        _ => return Ok(None),
    };
    Ok((!address.is_unspecified()).then_some(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_client_sends_neither_its_time_nor_its_address() {
        let body = Netinfo::default().write();
        assert_eq!(body, [0, 0, 0, 0, 4, 4, 0, 0, 0, 0, 0]);
        assert_eq!(Netinfo::read(&body), Ok(Netinfo::default()));
    }

    #[test]
    fn unknown_address_types_are_skipped_and_wrong_lengths_rejected() {
        let known = [0, 0, 0, 9, 0, 3, 1, 2, 3, 2, 77, 0, 4, 4, 10, 0, 0, 1];
        let expected = Netinfo { time: 9, yours: None, mine: vec![[10, 0, 0, 1].into()] };
        assert_eq!(Netinfo::read(&known), Ok(expected));
        assert_eq!(Netinfo::read(&[0, 0, 0, 9, 4, 5, 1, 2, 3, 4, 5, 0]), Err(Malformed));
        assert_eq!(Netinfo::read(&[0, 0, 0, 9, 4, 4, 1, 2, 3, 4, 1]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn a_written_netinfo_parses_to_the_same_netinfo(time: u32, yours: Option<[u8; 4]>, mine in proptest::collection::vec(any::<[u8; 16]>(), 0..20)) {
            let mine = mine.into_iter().map(IpAddr::from).filter(|address| !address.is_unspecified()).collect();
            let yours = yours.map(IpAddr::from).filter(|address| !address.is_unspecified());
            let netinfo = Netinfo { time, yours, mine };
            prop_assert!(netinfo.write().len() <= crate::cell::BODY_LEN);
            prop_assert_eq!(Netinfo::read(&netinfo.write()), Ok(netinfo));
        }

        #[test]
        fn no_bytes_cause_a_panic(body in proptest::collection::vec(any::<u8>(), 0..509)) {
            let _ = Netinfo::read(&body);
        }
    }
}
