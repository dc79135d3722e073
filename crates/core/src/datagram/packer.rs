use super::MAX_DATAGRAM;
use penstock_units::{Duration, Instant};
use std::collections::VecDeque;

/// A message that waits to be sent. The packer reads the content of the message when it sends the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// A cell, which the circuit and the sequence number identify.
    Data(u16, u64),
    Feedback(u16),
    /// A FEEDBACK for this circuit, as the answer to a cell beyond a missing cell.
    Hole(u16),
    Probe(u16),
    Gone(u16),
}

/// A single message waits for at most this part of the base round trip.
const HOLD_PART: u32 = 8;

/// Packs messages into datagrams in their order.
///
/// Two or more waiting messages leave immediately. A single message waits up to `coalesce_delay` for a second one, but
/// at most an eighth of the channel's base round trip.
/// Source: nstor, whose FIFO for each channel is flushed when two messages wait or after 1 ms.
/// Deviation: nstor's hold does not depend on the round trip. There, ACK and FWD of a cell are two messages, so the FWD
/// of a cell that is forwarded immediately never waits. Here, one FEEDBACK has both. A hold of several base round trips
/// would look like cells that wait at the next node.
#[derive(Debug)]
pub(super) struct Packer {
    coalesce_delay: Duration,
    hold: Duration,
    fifo: VecDeque<(Pending, usize)>,
    bytes: usize,
    since: Instant,
    ripe: bool,
}

impl Packer {
    pub(super) fn new(coalesce_delay: Duration) -> Self {
        Packer {
            coalesce_delay,
            hold: coalesce_delay,
            fifo: VecDeque::new(),
            bytes: 0,
            since: Instant::ZERO,
            ripe: false,
        }
    }

    /// Adapts the hold of single messages to the channel's base round trip.
    pub(super) fn set_base(&mut self, base: Duration) {
        self.hold = self.coalesce_delay.min(base / HOLD_PART);
    }

    pub(super) fn push(&mut self, now: Instant, pending: Pending, bytes: usize) {
        if self.fifo.is_empty() {
            self.since = now;
        }
        self.fifo.push_back((pending, bytes));
        self.bytes += bytes;
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_DATAGRAM
    }

    /// Bytes of messages that may leave now [B]; zero while a single message waits for a second message.
    pub(super) fn ready(&self) -> usize {
        if self.fifo.len() > 1 || self.ripe { self.bytes } else { 0 }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        (self.fifo.len() == 1 && !self.ripe).then(|| self.since + self.hold)
    }

    pub(super) fn on_timer(&mut self, now: Instant) {
        self.ripe |= self.poll_timeout().is_some_and(|due| due <= now);
    }

    pub(super) fn pack(&mut self, now: Instant, into: &mut Vec<Pending>) {
        let mut room = MAX_DATAGRAM;
        while let Some((pending, bytes)) = self.fifo.front().copied()
            && bytes <= room
        {
            self.fifo.pop_front();
            room -= bytes;
            self.bytes -= bytes;
            into.push(pending);
        }
        self.ripe = false;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    fn pack(packer: &mut Packer) -> Vec<Pending> {
        let mut packed = Vec::new();
        packer.pack(MS(9), &mut packed);
        packed
    }

    #[test]
    fn two_messages_leave_immediately_and_one_message_after_a_delay() {
        let mut packer = Packer::new(Duration::from_millis(1));
        packer.push(MS(3), Pending::Feedback(1), 12);
        assert_eq!((packer.ready(), packer.poll_timeout()), (0, Some(MS(4))));
        packer.on_timer(MS(3));
        assert_eq!(packer.ready(), 0);
        packer.push(MS(3), Pending::Data(1, 0), 517);
        assert_eq!((packer.ready(), packer.poll_timeout()), (529, None));
        assert_eq!(pack(&mut packer), [Pending::Feedback(1), Pending::Data(1, 0)]);
        packer.push(MS(9), Pending::Probe(1), 4);
        packer.on_timer(MS(10));
        assert_eq!(packer.ready(), 4);
        assert_eq!(pack(&mut packer), [Pending::Probe(1)]);
        assert_eq!((packer.ready(), packer.poll_timeout()), (0, None));
    }

    #[test]
    fn a_message_waits_for_an_eighth_of_the_base_round_trip() {
        let micros = Duration::from_micros;
        let mut packer = Packer::new(micros(1000));
        packer.push(MS(3), Pending::Feedback(1), 12);
        for (base, hold) in [(400, 50), (8000, 1000), (80_000, 1000)] {
            packer.set_base(micros(base));
            assert_eq!(packer.poll_timeout(), Some(MS(3) + micros(hold)));
        }
    }

    #[test]
    fn a_datagram_has_two_cells_and_small_messages() {
        let mut packer = Packer::new(Duration::from_millis(1));
        for seq in 0..5 {
            packer.push(MS(0), Pending::Data(7, seq), 517);
            packer.push(MS(0), Pending::Feedback(7), 12);
        }
        assert!(packer.is_full());
        let counts: Vec<_> = (0..4).map(|_| pack(&mut packer).len()).collect();
        assert_eq!(counts, [4, 4, 2, 0]);
    }
}
