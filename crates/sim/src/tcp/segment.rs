//! Segments and trains.

use penstock_units::Instant;

/// The size of a segment's headers on the wire [B]: Ethernet 14, IP 20, TCP 20 and the timestamp option 12.
pub const HEADER_BYTES: u32 = 66;

/// The number of SACK blocks that fit next to a timestamp (RFC 2018 §3).
const SACK_BLOCKS: usize = 3;

/// The flags of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag is set.
    pub const NONE: Flags = Flags(0);
    /// Opens the connection.
    pub const SYN: Flags = Flags(1);
    /// `ack` is valid. All segments except for the first SYN have it.
    pub const ACK: Flags = Flags(2);
    /// The stream ends after the payload. FIN takes one sequence number.
    pub const FIN: Flags = Flags(4);
    /// Aborts the connection.
    pub const RST: Flags = Flags(8);
    /// Requests an ACK with the current window.
    ///
    /// Deviation: on the wire, a probe has the sequence number below `snd_una`. Penstock's numbers start at 0, so this
    /// number may not exist.
    pub const PROBE: Flags = Flags(16);

    /// The union of both sets of flags.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A TCP segment without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Segment {
    /// The offset of the first payload byte in the sender's stream [B].
    pub seq: u64,
    /// The next byte that the segment's sender expects [B]. The peer's FIN counts as one byte.
    pub ack: u64,
    /// The receive window beyond `ack`, already scaled [B].
    pub window: u64,
    /// When the segment was sent, on the sender's clock.
    pub ts_val: Instant,
    /// The `ts_val` that this segment echoes; [`Instant::ZERO`] if there is none (RFC 7323 §4.3).
    pub ts_ecr: Instant,
    /// The payload's size [B].
    pub len: u32,
    /// SYN, ACK, FIN, RST or a window probe.
    pub flags: Flags,
    /// SACK blocks as offsets from `ack`, most recent block first. An empty block ends the list.
    pub(super) sack: [(u32, u32); SACK_BLOCKS],
}

impl Segment {
    /// The size on the wire without preamble and checksum [B].
    ///
    /// Deviation: SACK options are not counted.
    pub const fn wire_bytes(&self) -> u64 {
        self.len as u64 + HEADER_BYTES as u64
    }

    /// The sequence number after payload and FIN [B].
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.flags.has(Flags::FIN))
    }

    /// Whether the segment carries payload or FIN.
    pub fn has_data(&self) -> bool {
        self.end() > self.seq
    }

    /// The SACK blocks as half-open ranges, most recent first [B].
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u64, u64)> + use<'_> {
        let blocks = self.sack.iter().take_while(|(start, end)| start < end);
        blocks.map(|&(start, end)| (self.ack + u64::from(start), self.ack + u64::from(end)))
    }

    /// Adds a SACK block above `ack`. A fourth block is ignored.
    pub fn push_sack(&mut self, start: u64, end: u64) {
        let offset = |at: u64| u32::try_from(at - self.ack).expect("a receive window is below 4 GiB");
        let block = (offset(start), offset(end));
        if let Some(free) = self.sack.iter_mut().find(|(start, end)| start == end) {
            *free = block;
        }
    }
}

/// Full segments of new data that leave together, as with TSO. The segments differ only in their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// The first segment. The others follow without a gap.
    pub first: Segment,
    /// The number of segments, at least one [segment].
    pub count: u32,
}

impl Train {
    /// The segment with this index in the train.
    pub fn segment(&self, index: u32) -> Segment {
        let seq = self.first.seq + u64::from(index) * u64::from(self.first.len);
        Segment { seq, ..self.first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sack_blocks_keep_their_order_and_only_three_fit() {
        let mut segment = Segment { ack: 1000, ..Segment::default() };
        assert_eq!(segment.sack_blocks().count(), 0);
        for start in [9000, 2000, 5000, 7000] {
            segment.push_sack(start, start + 500);
        }
        let blocks: Vec<_> = segment.sack_blocks().collect();
        assert_eq!(blocks, [(9000, 9500), (2000, 2500), (5000, 5500)]);
    }

    #[test]
    fn a_segment_fits_two_cache_lines() {
        assert!(size_of::<Segment>() <= 72, "{}", size_of::<Segment>());
    }
}
