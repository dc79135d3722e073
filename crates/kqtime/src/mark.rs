//! The report of one write or read, which the loaded library sends through a local socket.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Length of the bytes that identify a place in a byte stream [B] (libkqtime).
pub const TAG_LEN: usize = 16;
/// Offset of the tag in the buffer of a call [B] (libkqtime). TLS headers and short control messages are before it.
pub const TAG_OFFSET: usize = 200;
/// Length of a report [B].
pub const MARK_LEN: usize = 1 + 2 * 18 + 8 + 4 + TAG_LEN;
/// The environment variable with the number of the socket for reports.
pub const FD_VARIABLE: &str = "PENSTOCK_KQTIME_FD";
/// The environment variable with the inode of this socket.
pub const INODE_VARIABLE: &str = "PENSTOCK_KQTIME_INODE";
/// The environment variable with the shortest time between two reports of a socket and direction [ns].
pub const INTERVAL_VARIABLE: &str = "PENSTOCK_KQTIME_INTERVAL";

/// 16 bytes of a stream.
pub type Tag = [u8; TAG_LEN];

/// From the program or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The program wrote the bytes.
    Out,
    /// The program read the bytes.
    In,
}

impl Direction {
    /// The word in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

/// The two ends of a TCP connection, seen from this host. IPv4 addresses are never in their IPv6 form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The program's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

/// One write or read of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whether the program wrote or read.
    pub direction: Direction,
    /// The connection of the socket.
    pub connection: Connection,
    /// When the program called write, or when read returned: real time since 1970 [ns].
    pub time: u64,
    /// Bytes in the socket's send queue before the write (SIOCOUTQ), or in its receive queue after the read (SIOCINQ) [B].
    pub queue: u32,
    /// The bytes at [`TAG_OFFSET`] of the buffer.
    pub tag: Tag,
}

/// An address without the IPv6 form of IPv4.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Mark {
    /// The bytes of the report.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; MARK_LEN] {
        let mut bytes = [0; MARK_LEN];
        bytes[0] = matches!(self.direction, Direction::In).into();
        for (address, at) in [(self.connection.local, 1), (self.connection.remote, 19)] {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes[at..at + 16].copy_from_slice(&ip.octets());
            bytes[at + 16..at + 18].copy_from_slice(&address.port().to_be_bytes());
        }
        bytes[37..45].copy_from_slice(&self.time.to_be_bytes());
        bytes[45..49].copy_from_slice(&self.queue.to_be_bytes());
        bytes[49..].copy_from_slice(&self.tag);
        bytes
    }

    /// The report in these bytes, or `None` if they are no report.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MARK_LEN] = bytes.try_into().ok()?;
        let direction = match bytes[0] {
            0 => Direction::Out,
            1 => Direction::In,
            _ => return None,
        };
        let address = |at: usize| -> Option<SocketAddr> {
            let ip: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
            let port = u16::from_be_bytes([bytes[at + 16], bytes[at + 17]]);
            Some(canonical(SocketAddr::new(Ipv6Addr::from(ip).into(), port)))
        };
        Some(Self {
            direction,
            connection: Connection { local: address(1)?, remote: address(19)? },
            time: u64::from_be_bytes(bytes[37..45].try_into().ok()?),
            queue: u32::from_be_bytes(bytes[45..49].try_into().ok()?),
            tag: bytes[49..].try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for (local, remote) in [("1.2.3.4:9001", "5.6.7.8:443"), ("[2001:db8::1]:1", "[::1]:65535")] {
            let connection = Connection { local: local.parse().unwrap(), remote: remote.parse().unwrap() };
            for direction in [Direction::Out, Direction::In] {
                let mark =
                    Mark { direction, connection, time: u64::MAX - 1, queue: 77, tag: *b"sixteen bytes ok" };
                assert_eq!(Mark::from_bytes(&mark.to_bytes()), Some(mark));
            }
        }
    }

    #[test]
    fn other_bytes_are_no_report() {
        assert_eq!(Mark::from_bytes(&[0; MARK_LEN - 1]), None);
        assert_eq!(Mark::from_bytes(&[2; MARK_LEN]), None);
    }
}
