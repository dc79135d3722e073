use super::MAX_DATAGRAM;
use penstock_units::{Duration, Instant, fifo::trim};
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

/// Packs messages into datagrams in their order.
///
/// Two or more waiting messages leave immediately. A single message waits for a second one, at most for the time
/// [`DatagramConfig::hold`](super::DatagramConfig::hold).
#[derive(Debug)]
pub(super) struct Packer {
    hold: Duration,
    /// The maximum size of a datagram [B].
    max: usize,
    fifo: VecDeque<(Pending, usize)>,
    bytes: usize,
    since: Instant,
    ripe: bool,
}

impl Packer {
    /// A packer that holds a single message for at most `hold`.
    pub(super) fn new(hold: Duration) -> Self {
        let fifo = VecDeque::new();
        Packer { hold, max: MAX_DATAGRAM, fifo, bytes: 0, since: Instant::ZERO, ripe: false }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    pub(super) fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    pub(super) fn push(&mut self, now: Instant, pending: Pending, bytes: usize) {
        if self.fifo.is_empty() {
            self.since = now;
        }
        self.fifo.push_back((pending, bytes));
        self.bytes += bytes;
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.max
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

    /// Ends the wait of a single message, because it has got the content of a second one. Returns whether one waited.
    pub(super) fn complete(&mut self) -> bool {
        let waits = self.poll_timeout().is_some();
        self.ripe |= waits;
        waits
    }

    pub(super) fn pack(&mut self, now: Instant, into: &mut Vec<Pending>) {
        let mut room = self.max;
        while let Some((pending, bytes)) = self.fifo.front().copied()
            && bytes <= room
        {
            self.fifo.pop_front();
            room -= bytes;
            self.bytes -= bytes;
            into.push(pending);
        }
        trim(&mut self.fifo);
        self.ripe = false;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::DatagramConfig;

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
        let config = DatagramConfig { coalesce_delay: micros(1000), ..DatagramConfig::default() };
        let mut packer = Packer::new(config.coalesce_delay);
        packer.push(MS(3), Pending::Feedback(1), 12);
        for (base, hold) in [(400, 50), (8000, 1000), (80_000, 1000)] {
            packer.set_hold(config.hold(micros(base)));
            assert_eq!(packer.poll_timeout(), Some(MS(3) + micros(hold)));
        }
    }

    #[test]
    fn a_message_with_the_content_of_two_leaves_immediately() {
        let mut packer = Packer::new(Duration::from_millis(1));
        assert!(!packer.complete(), "no message waits");
        packer.push(MS(3), Pending::Feedback(1), 12);
        assert!(packer.complete());
        assert_eq!((packer.ready(), packer.poll_timeout()), (12, None));
        assert_eq!(pack(&mut packer), [Pending::Feedback(1)]);
        packer.push(MS(9), Pending::Feedback(1), 12);
        assert_eq!((packer.ready(), packer.poll_timeout()), (0, Some(MS(10))));
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

    #[test]
    fn a_smaller_datagram_still_has_two_cells() {
        let mut packer = Packer::new(Duration::from_millis(1));
        packer.set_max(1050);
        for seq in 0..4 {
            packer.push(MS(0), Pending::Data(7, seq), 517);
            packer.push(MS(0), Pending::Feedback(7), 12);
        }
        let counts: Vec<_> = (0..4).map(|_| pack(&mut packer).len()).collect();
        assert_eq!(counts, [3, 3, 2, 0]);
    }
}
