//! A reader of bytes that never reads past the end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The bytes violate the format, or end too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are malformed")]
pub struct Malformed;

/// Reads a byte string from the front. Numbers are in network byte order.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// An IPv4 address.
    pub fn ipv4(&mut self) -> Result<IpAddr, Malformed> {
        self.array().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into())
    }

    /// An IPv6 address.
    pub fn ipv6(&mut self) -> Result<IpAddr, Malformed> {
        self.array().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into())
    }

    /// Takes all unread bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Whether all bytes are read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of unread bytes [B].
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_never_reads_past_the_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), Ok(0x0102));
        assert_eq!(reader.u16(), Err(Malformed));
        assert_eq!(reader.u8(), Ok(3), "a failed read consumes no bytes");
        assert_eq!(
            (reader.u8(), reader.take(1), reader.array::<4>()),
            (Err(Malformed), Err(Malformed), Err(Malformed))
        );
        assert!(reader.is_empty());
    }
}
