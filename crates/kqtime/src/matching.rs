//! Finds the bytes of reports in packets.
//!
//! The first report of a connection only announces it, because packets of other programs are not kept. Then the packets of
//! each direction are kept in the order of capture, at most [`MEMORY`] bytes and [`RETENTION`] long. A report looks in all of
//! them. An outbound report that finds nothing waits for later packets.

use crate::mark::{Connection, Direction, Mark, TAG_LEN, Tag};
use memchr::memmem;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of payload bytes that are kept for each connection and direction [B].
pub const MEMORY: usize = 16 << 20;
/// Maximum number of payload bytes that are kept for all connections [B].
pub const TOTAL_MEMORY: usize = 512 << 20;
/// A packet or report waits at most so long for its counterpart [ns].
pub const RETENTION: u64 = 60_000_000_000;

/// Pending reports that are looked for in each packet [1]. The second and later ones matter if a packet was not captured.
const LOOKAHEAD: usize = 4;

/// TCP payload that passed an interface.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Whether it left or arrived.
    pub direction: Direction,
    /// The connection.
    pub connection: Connection,
    /// When the interface sent or received it: real time since 1970 [ns].
    pub time: u64,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// The TCP payload.
    pub payload: Vec<u8>,
}

/// How long marked bytes were in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The report.
    pub mark: Mark,
    /// The time between the call and the interface [ns].
    pub wait: u64,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Flow {
    /// The last report [ns].
    reported: u64,
    packets: VecDeque<Packet>,
    /// Payload bytes of `packets` [B].
    bytes: usize,
    pending: VecDeque<Mark>,
}

/// Packets and reports that wait for each other.
#[derive(Debug, Default)]
pub struct Matcher {
    flows: BTreeMap<(Connection, Direction), Flow>,
    /// Payload bytes of all flows [B].
    bytes: usize,
    /// Reports whose bytes were in no packet.
    pub lost: u64,
}

impl Matcher {
    /// Whether the program reported this connection.
    #[must_use]
    pub fn knows(&self, connection: &Connection) -> bool {
        self.flows.contains_key(&(*connection, Direction::Out))
    }

    /// A captured packet of a known connection: the waits that it ends.
    pub fn on_packet(&mut self, packet: Packet) -> Vec<Wait> {
        let Some(flow) = self.flows.get_mut(&(packet.connection, packet.direction)) else {
            return Vec::new();
        };
        let (len, now) = (packet.payload.len(), packet.time);
        flow.packets.push_back(packet);
        flow.bytes += len;
        self.bytes += len;
        let newest = flow.packets.len() - 1;
        let mut found = Vec::new();
        if !flow.pending.is_empty() {
            let seam = seam(&flow.packets, newest);
            let payload = &flow.packets[newest].payload;
            let ends = |mark: &Mark| has(payload, &seam, &mark.tag);
            // Bytes leave in the order of their writes. If a later report is found, the packets of those before it were not
            // captured.
            while let Some(number) = flow.pending.iter().take(LOOKAHEAD).position(ends) {
                self.lost += number as u64;
                found.extend(flow.pending.drain(..=number).next_back().and_then(|mark| wait(&mark, now)));
            }
        }
        self.bytes -= flow.trim(now);
        while self.bytes > TOTAL_MEMORY {
            let largest = self.flows.values_mut().max_by_key(|flow| flow.bytes);
            let Some(largest) = largest else { break };
            self.bytes -= largest.drop_oldest();
        }
        found
    }

    /// A report: the wait, if one of the kept packets has the bytes.
    pub fn on_mark(&mut self, mark: Mark) -> Option<Wait> {
        if !self.knows(&mark.connection) {
            for direction in [Direction::Out, Direction::In] {
                self.flows
                    .insert((mark.connection, direction), Flow { reported: mark.time, ..Flow::default() });
            }
            return None;
        }
        let flow = self.flows.get_mut(&(mark.connection, mark.direction))?;
        flow.reported = mark.time;
        // Bytes leave after they are written.
        let first = match mark.direction {
            Direction::Out => flow.packets.partition_point(|packet| packet.time < mark.time),
            Direction::In => 0,
        };
        let found = (first..flow.packets.len()).find(|&number| ends_in(&flow.packets, number, &mark.tag));
        let Some(number) = found else {
            match mark.direction {
                Direction::Out => flow.pending.push_back(mark),
                // The bytes were here before the program could read them.
                Direction::In => self.lost += 1,
            }
            return None;
        };
        let Packet { time, seq, .. } = flow.packets[number];
        self.bytes -= flow.drop_before(seq);
        wait(&mark, time)
    }

    /// Forgets reports and packets that waited too long, and connections without reports.
    pub fn expire(&mut self, now: u64) {
        let mut lost = 0;
        for flow in self.flows.values_mut() {
            self.bytes -= flow.trim(now);
            while flow.pending.front().is_some_and(|mark| now.saturating_sub(mark.time) > RETENTION) {
                flow.pending.pop_front();
                lost += 1;
            }
        }
        self.lost += lost;
        let is_old = |flow: &Flow| now.saturating_sub(flow.reported) > RETENTION;
        let ended: Vec<Connection> = self
            .flows
            .iter()
            .filter(|((connection, direction), flow)| {
                *direction == Direction::Out
                    && is_old(flow)
                    && self.flows.get(&(*connection, Direction::In)).is_none_or(is_old)
            })
            .map(|((connection, _), _)| *connection)
            .collect();
        for connection in ended {
            for direction in [Direction::Out, Direction::In] {
                self.bytes -= self.flows.remove(&(connection, direction)).map_or(0, |flow| flow.bytes);
            }
        }
    }

    /// Reports whose bytes did not leave yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.flows.values().map(|flow| flow.pending.len()).sum()
    }
}

impl Flow {
    /// Drops the packets beyond the limits; returns their bytes.
    fn trim(&mut self, now: u64) -> usize {
        let mut dropped = 0;
        while let Some(oldest) = self.packets.front()
            && (self.bytes > MEMORY || now.saturating_sub(oldest.time) > RETENTION)
        {
            dropped += self.drop_oldest();
        }
        dropped
    }

    /// Drops the packets that end at or before this sequence number; returns their bytes. A stream is written and read in
    /// order, but lost packets are captured again after later ones.
    fn drop_before(&mut self, seq: u32) -> usize {
        let before = self.bytes;
        self.packets.retain(|packet| {
            let end = packet.seq.wrapping_add(packet.payload.len() as u32);
            let is_later = end.wrapping_sub(seq).cast_signed() > 0;
            if !is_later {
                self.bytes -= packet.payload.len();
            }
            is_later
        });
        before - self.bytes
    }

    fn drop_oldest(&mut self) -> usize {
        let len = self.packets.pop_front().map_or(0, |packet| packet.payload.len());
        self.bytes -= len;
        len
    }
}

/// The wait of a report with bytes that passed the interface at `time`. `None`: the time is on the wrong side, so equal bytes
/// were in another place of the stream.
fn wait(mark: &Mark, time: u64) -> Option<Wait> {
    let wait = match mark.direction {
        Direction::Out => time.checked_sub(mark.time),
        Direction::In => mark.time.checked_sub(time),
    };
    wait.map(|wait| Wait { mark: *mark, wait })
}

/// Whether a tag's last byte is in the packet with this number. Its first bytes may be in the packets before it.
fn ends_in(packets: &VecDeque<Packet>, number: usize, tag: &Tag) -> bool {
    has(&packets[number].payload, &seam(packets, number), tag)
}

fn has(payload: &[u8], seam: &[u8], tag: &Tag) -> bool {
    memmem::find(payload, tag).is_some() || memmem::find(seam, tag).is_some()
}

/// The first bytes of a packet behind the last ones of the packets before it, without a whole tag on one side.
fn seam(packets: &VecDeque<Packet>, number: usize) -> Vec<u8> {
    const MAX: usize = TAG_LEN - 1;
    let packet = &packets[number];
    let mut bytes = packet.payload[..packet.payload.len().min(MAX)].to_vec();
    let head = bytes.len();
    let mut next = packet.seq;
    for before in packets.range(..number).rev() {
        let missing = MAX - (bytes.len() - head);
        if missing == 0 || before.seq.wrapping_add(before.payload.len() as u32) != next {
            break;
        }
        let tail = before.payload.len().saturating_sub(missing);
        bytes.splice(0..0, before.payload[tail..].iter().copied());
        next = before.seq;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn connection(port: u16) -> Connection {
        Connection { local: "1.1.1.1:9001".parse().unwrap(), remote: ([2, 2, 2, 2], port).into() }
    }

    fn packet(direction: Direction, time: u64, seq: usize, stream: &[u8], len: usize) -> Packet {
        let payload = stream[seq..seq + len].to_vec();
        Packet { direction, connection: connection(1), time, seq: seq as u32, payload }
    }

    fn mark(direction: Direction, time: u64, stream: &[u8], at: usize) -> Mark {
        let tag = stream[at..at + TAG_LEN].try_into().unwrap();
        Mark { direction, connection: connection(1), time, queue: 0, tag }
    }

    /// A matcher that knows the connection.
    fn matcher() -> Matcher {
        let mut matcher = Matcher::default();
        let announcement =
            Mark { direction: Direction::In, connection: connection(1), time: 0, queue: 0, tag: [0; 16] };
        assert_eq!(matcher.on_mark(announcement), None);
        matcher
    }

    /// Bytes without repetitions of 16 bytes.
    fn stream() -> Vec<u8> {
        (0..20_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_be_bytes()).collect()
    }

    #[test]
    fn a_write_waits_until_its_packet_leaves() {
        let stream = stream();
        let mut matcher = matcher();
        assert_eq!(matcher.on_mark(mark(Direction::Out, 1000, &stream, 200)), None);
        assert!(matcher.on_packet(packet(Direction::Out, 1500, 5000, &stream, 1400)).is_empty());
        let found = matcher.on_packet(packet(Direction::Out, 3000, 0, &stream, 1400));
        assert_eq!(found.iter().map(|wait| wait.wait).collect::<Vec<_>>(), [2000]);
        assert_eq!(matcher.pending(), 0);
        assert!(
            matcher.on_packet(packet(Direction::Out, 9000, 0, &stream, 1400)).is_empty(),
            "a retransmission"
        );
    }

    #[test]
    fn a_report_may_come_after_its_packet() {
        let stream = stream();
        let mut matcher = matcher();
        matcher.on_packet(packet(Direction::Out, 1010, 0, &stream, 1400));
        let wait = matcher.on_mark(mark(Direction::Out, 1000, &stream, 200)).unwrap();
        assert_eq!(wait.wait, 10);
    }

    #[test]
    fn a_read_waits_since_the_first_arrival_of_its_packet() {
        let stream = stream();
        let mut matcher = matcher();
        matcher.on_packet(packet(Direction::In, 100, 0, &stream, 1400));
        matcher.on_packet(packet(Direction::In, 200, 1400, &stream, 1400));
        matcher.on_packet(packet(Direction::In, 300, 0, &stream, 1400));
        assert_eq!(matcher.on_mark(mark(Direction::In, 700, &stream, 200)).unwrap().wait, 600);
        assert_eq!(matcher.on_mark(mark(Direction::In, 900, &stream, 1600)).unwrap().wait, 700);
    }

    #[test]
    fn bytes_of_two_packets_count_with_the_second() {
        let stream = stream();
        for direction in [Direction::Out, Direction::In] {
            let mut matcher = matcher();
            matcher.on_packet(packet(direction, 100, 0, &stream, 205));
            matcher.on_packet(packet(direction, 250, 205, &stream, 205));
            let time = if direction == Direction::In { 1000 } else { 50 };
            let wait = matcher.on_mark(mark(direction, time, &stream, 200)).unwrap();
            assert_eq!(wait.wait, time.abs_diff(250));
        }
    }

    #[test]
    fn a_retransmitted_packet_does_not_hide_the_packets_before_it() {
        let stream = stream();
        let mut matcher = matcher();
        for (time, number) in [(100, 0), (300, 2), (400, 3), (900, 1)] {
            matcher.on_packet(packet(Direction::In, time, number * 1000, &stream, 1000));
        }
        for (number, since) in [(0, 100), (1, 900), (2, 300), (3, 400)] {
            let wait = matcher.on_mark(mark(Direction::In, 2000, &stream, number * 1000 + 200)).unwrap();
            assert_eq!(wait.wait, 2000 - since);
        }
    }

    #[test]
    fn a_packet_that_was_not_captured_costs_its_own_report_only() {
        let stream = stream();
        let mut matcher = matcher();
        for number in 0..3 {
            matcher.on_mark(mark(Direction::Out, 10, &stream, number * 1000 + 200));
        }
        let found = matcher.on_packet(packet(Direction::Out, 50, 1000, &stream, 1000));
        assert_eq!((found.len(), matcher.lost, matcher.pending()), (1, 1, 1));
    }

    #[test]
    fn packets_of_other_programs_are_not_kept() {
        let stream = stream();
        let mut matcher = matcher();
        let other = Packet { connection: connection(2), ..packet(Direction::In, 100, 0, &stream, 1400) };
        matcher.on_packet(other);
        assert_eq!((matcher.bytes, matcher.knows(&connection(2))), (0, false));
        assert_eq!(matcher.on_mark(mark(Direction::In, 700, &stream, 200)), None);
        assert_eq!(matcher.lost, 1);
    }

    #[test]
    fn reports_and_packets_are_forgotten_after_a_minute() {
        let stream = stream();
        let mut matcher = matcher();
        matcher.on_mark(mark(Direction::Out, 0, &stream, 200));
        matcher.on_packet(packet(Direction::In, 0, 0, &stream, 1400));
        matcher.expire(RETENTION);
        assert_eq!((matcher.pending(), matcher.lost, matcher.bytes), (1, 0, 1400));
        matcher.expire(RETENTION + 1);
        assert_eq!((matcher.pending(), matcher.lost, matcher.bytes), (0, 1, 0));
        assert!(matcher.flows.is_empty());
    }

    #[test]
    fn a_connection_keeps_a_bounded_number_of_bytes() {
        let mut matcher = matcher();
        let payload = vec![7; 60_000];
        for number in 0..1000 {
            let seq = number * 60_000;
            let packet =
                Packet { payload: payload.clone(), seq, ..packet(Direction::Out, 1, 0, &payload, 1) };
            matcher.on_packet(packet);
        }
        assert!(matcher.bytes <= MEMORY, "{} B", matcher.bytes);
    }

    proptest! {
        /// Any cut of a stream into packets gives the same waits, if each packet passes at the time of its last byte.
        #[test]
        fn each_report_finds_its_bytes(cuts in prop::collection::vec(1_usize..1500, 1..60), places in prop::collection::vec(0_usize..40_000, 1..20)) {
            let stream = stream();
            let mut matcher = matcher();
            let mut at = 0;
            for len in cuts {
                matcher.on_packet(packet(Direction::In, at as u64 + len as u64, at, &stream, len));
                at += len;
            }
            let mut places: Vec<usize> = places.into_iter().filter(|place| place + TAG_LEN <= at).collect();
            places.sort_unstable();
            // Tags of two reads never overlap.
            places.dedup_by(|place, before| *place < *before + TAG_LEN);
            for place in places {
                let wait = matcher.on_mark(mark(Direction::In, 1_000_000, &stream, place));
                let since = 1_000_000 - wait.unwrap().wait;
                // The packet has the tag's last byte.
                prop_assert!(since >= (place + TAG_LEN) as u64 && since < (place + TAG_LEN + 1500) as u64);
            }
            prop_assert_eq!(matcher.lost, 0);
        }
    }
}
