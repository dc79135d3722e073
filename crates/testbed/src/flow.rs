//! Departure times of the bytes of TCP connections and UDP sockets, captured on the emulated network.
//!
//! The kernel's timestamps (SO_TIMESTAMPING) are not sufficient. The kernel reports one byte of a packet: the last byte
//! of its last write.

use penstock_units::Instant;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The size of the header [B].
const UDP_HEADER: usize = 8;

/// One direction of a connection: address of the sender, address of the receiver.
pub type Flow = (Protocol, SocketAddrV4, SocketAddrV4);

/// A captured TCP segment or UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Connection and direction.
    pub flow: Flow,
    /// Sequence number of the first byte; with SYN, the initial sequence number. Zero for UDP.
    pub seq: u32,
    /// Whether the segment has the SYN flag.
    pub is_syn: bool,
    /// Length of the payload [B].
    pub len: u32,
}

impl Segment {
    /// Parses an IPv4 packet. Returns `None` for other packets, and for packets without SYN and payload.
    pub fn of(packet: &[u8]) -> Option<Segment> {
        let head = usize::from(packet.first()? & 15) * 4;
        let (first, rest) = (packet.first_chunk::<20>()?, packet.get(head..)?);
        let half = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let whole = usize::from(half(first, 2)).min(packet.len());
        let (protocol, seq, is_syn, header) = match first[9] {
            6 => {
                let tcp = rest.first_chunk::<14>()?;
                let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                (Protocol::Tcp, seq, tcp[13] & 2 != 0, usize::from(tcp[12] >> 4) * 4)
            }
            17 => (Protocol::Udp, 0, false, UDP_HEADER),
            _ => return None,
        };
        let len = whole.checked_sub(head + header)? as u32;
        let ports = rest.first_chunk::<4>()?;
        let address = |at: usize| Ipv4Addr::new(first[at], first[at + 1], first[at + 2], first[at + 3]);
        let end = |at: usize, port: usize| SocketAddrV4::new(address(at), half(ports, port));
        let flow = (protocol, end(12, 0), end(16, 2));
        (first[0] >> 4 == 4 && (is_syn || len > 0)).then_some(Segment { flow, seq, is_syn, len })
    }
}

/// The time at which each byte first left, in one direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct Departures {
    /// Sequence number of the first byte; `None` before the SYN.
    first: Option<u32>,
    /// The number of bytes that had left, and the time of their departure.
    left: Vec<(u64, Instant)>,
}

impl Departures {
    /// Records a segment whose last bit left at `at`. Calls must be in order of time. A connection carries less than 4
    /// GiB.
    pub fn add(&mut self, segment: &Segment, at: Instant) {
        if segment.flow.0 == Protocol::Udp {
            let before = self.left.last().map_or(0, |(before, _)| *before);
            return self.left.push((before + u64::from(segment.len), at));
        }
        if segment.is_syn {
            self.first = Some(segment.seq.wrapping_add(1));
            return;
        }
        let Some(first) = self.first else { return };
        let end = u64::from(segment.seq.wrapping_sub(first)) + u64::from(segment.len);
        if self.left.last().is_none_or(|(before, _)| *before < end) {
            self.left.push((end, at));
        }
    }

    /// Time at which the first `bytes` bytes had left; `None` if they have not left.
    pub fn of(&self, bytes: u64) -> Option<Instant> {
        let place = self.left.partition_point(|(end, _)| *end < bytes);
        self.left.get(place).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flags: u8, seq: u32, payload: usize) -> Vec<u8> {
        let mut packet = vec![0; 52 + payload];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(52 + payload as u16).to_be_bytes());
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        packet[20..24].copy_from_slice(&[0x23, 0x29, 0x12, 0x34]);
        packet[24..28].copy_from_slice(&seq.to_be_bytes());
        packet[32] = 8 << 4;
        packet[33] = flags;
        packet
    }

    #[test]
    fn a_segment_is_parsed_from_its_packet() {
        let segment = Segment::of(&packet(0x18, 7, 100)).unwrap();
        let flow = (Protocol::Tcp, "10.77.0.1:9001".parse().unwrap(), "10.77.0.2:4660".parse().unwrap());
        assert_eq!(segment, Segment { flow, seq: 7, is_syn: false, len: 100 });
        assert!(Segment::of(&packet(0x02, 7, 0)).unwrap().is_syn);
        assert_eq!(Segment::of(&packet(0x10, 7, 0)), None, "an acknowledgement has no bytes");
    }

    #[test]
    fn other_packets_are_no_segments() {
        let whole = packet(0x18, 7, 10);
        for len in 0..52 {
            assert_eq!(Segment::of(&whole[..len]), None, "{len}");
        }
        let (mut other, mut newer) = (whole.clone(), whole);
        other[9] = 1;
        newer[0] = 0x65;
        assert_eq!([Segment::of(&other), Segment::of(&newer)], [None, None]);
    }

    #[test]
    fn the_bytes_of_udp_packets_are_counted_in_their_order() {
        let mut departures = Departures::default();
        for ms in 1..=3 {
            // 24 B more than a TCP packet with 100 B, because its header is shorter.
            let mut datagram = packet(0, 0, 100);
            datagram[9] = 17;
            let segment = Segment::of(&datagram).unwrap();
            assert_eq!((segment.flow.0, segment.len), (Protocol::Udp, 124));
            departures.add(&segment, Instant::from_millis(ms));
        }
        let at = |bytes| departures.of(bytes).map(|at| at.as_nanos() / 1_000_000);
        assert_eq!([at(124), at(125), at(372), at(373)], [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn the_first_departure_of_a_byte_counts() {
        let mut departures = Departures::default();
        let isn = u32::MAX - 150;
        let mut add = |flags, offset: u32, len, ms| {
            let segment = Segment::of(&packet(flags, isn.wrapping_add(offset), len)).unwrap();
            departures.add(&segment, Instant::from_millis(ms));
        };
        add(0x02, 0, 0, 1);
        add(0x18, 1, 100, 2);
        add(0x18, 101, 100, 3);
        // A retransmission, and new bytes.
        add(0x18, 1, 100, 4);
        add(0x18, 201, 100, 5);
        let at = |bytes| departures.of(bytes).map(|at| at.as_nanos() / 1_000_000);
        assert_eq!(
            [at(1), at(100), at(101), at(200), at(300), at(301)],
            [Some(2), Some(2), Some(3), Some(3), Some(5), None]
        );
    }

    #[test]
    fn a_connection_without_a_captured_syn_has_no_departures() {
        let mut departures = Departures::default();
        departures.add(&Segment::of(&packet(0x18, 1, 100)).unwrap(), Instant::ZERO);
        assert_eq!(departures.of(1), None);
    }
}
