//! One direction of a link: a drop-tail queue, a rate, a delay, and independent random loss. This module has no I/O
//! and no clock.
//!
//! A packet waits in the queue, and is then sent at the link's rate. It arrives a fixed delay after its last bit was
//! sent. A lost packet also occupies the link, as with an error model at the receiver in ns-3.

use penstock_units::{Bytes, DataRate, Duration, Instant, Rng};
use std::collections::VecDeque;

/// Settings of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Rate for whole IP packets [B/s].
    pub rate: DataRate,
    /// Delay from the last sent bit to the arrival of the packet.
    pub delay: Duration,
    /// Probability that a packet is lost, in `[0, 1)`.
    pub loss: f64,
    /// Capacity of the queue, without the packet in transmission [B].
    pub queue: Bytes,
}

/// The fate of a packet that is offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet will arrive.
    Queued,
    /// The packet is lost after its transmission.
    Lost,
    /// The packet is dropped, because the queue is full.
    Dropped,
}

/// Packet counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that have arrived or will arrive [packet].
    pub queued: u64,
    /// Packets lost at random [packet].
    pub lost: u64,
    /// Packets dropped by the full queue [packet].
    pub dropped: u64,
}

/// One direction of a link. `P` is the packet type.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    rng: Rng,
    /// End of the transmission of the last accepted packet.
    free: Instant,
    /// Start time and size of each future transmission.
    waiting: VecDeque<(Instant, Bytes)>,
    /// Total size of the packets in `waiting` [B].
    backlog: Bytes,
    /// Packets that have not arrived, with their arrival times.
    flying: VecDeque<(Instant, P)>,
    counts: Counts,
}

impl<P> Link<P> {
    /// An idle link. `rng` samples which packets are lost.
    pub fn new(config: LinkConfig, rng: Rng) -> Self {
        Link {
            config,
            rng,
            free: Instant::ZERO,
            waiting: VecDeque::new(),
            backlog: Bytes::ZERO,
            flying: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Adds a packet of `len` bytes to the queue. Calls must be in order of time.
    pub fn offer(&mut self, now: Instant, len: Bytes, packet: P) -> Fate {
        let waiting = self.backlog(now);
        let begin = self.free.max(now);
        if begin > now {
            if waiting + len > self.config.queue {
                self.counts.dropped += 1;
                return Fate::Dropped;
            }
            self.waiting.push_back((begin, len));
            self.backlog += len;
        }
        self.free = begin + len / self.config.rate;
        if self.rng.bernoulli(self.config.loss) {
            self.counts.lost += 1;
            return Fate::Lost;
        }
        self.counts.queued += 1;
        self.flying.push_back((self.free + self.config.delay, packet));
        Fate::Queued
    }

    /// The next packet that has arrived by `now`, with its arrival time. Call this until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, P)> {
        if self.flying.front()?.0 > now {
            return None;
        }
        self.flying.pop_front()
    }

    /// Time of the next arrival.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flying.front().map(|(due, _)| *due)
    }

    /// Size of the packets in the queue at `now` [B].
    pub fn backlog(&mut self, now: Instant) -> Bytes {
        while let Some((_, len)) = self.waiting.front().copied().filter(|(begin, _)| *begin <= now) {
            self.waiting.pop_front();
            self.backlog -= len;
        }
        self.backlog
    }

    /// The packet counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Seed;
    use proptest::prelude::*;

    const CONFIG: LinkConfig = LinkConfig {
        rate: DataRate::kib(128),
        delay: Duration::from_millis(40),
        loss: 0.0,
        queue: Bytes::new(3000),
    };

    fn link<P>(config: LinkConfig) -> Link<P> {
        Link::new(config, Seed(1).stream("link/loss"))
    }

    #[test]
    fn a_packet_takes_its_transmission_time_and_then_the_delay() {
        let mut link = link(CONFIG);
        assert_eq!(link.offer(Instant::ZERO, Bytes::new(512), 'a'), Fate::Queued);
        // 512 B at 128 KiB/s are 3.90625 ms.
        let due = Instant::from_nanos(43_906_250);
        assert_eq!(link.poll_timeout(), Some(due));
        assert_eq!(link.poll(Instant::from_nanos(43_906_249)), None);
        assert_eq!(link.poll(due), Some((due, 'a')));
        assert_eq!((link.poll(due), link.poll_timeout()), (None, None));
    }

    #[test]
    fn a_full_queue_drops_at_its_tail_until_a_transmission_begins() {
        let mut link = link(CONFIG);
        let fates: Vec<_> = (0..4).map(|n| link.offer(Instant::ZERO, Bytes::new(1500), n)).collect();
        // One packet is in transmission, two wait, and the fourth is dropped.
        assert_eq!(fates, [Fate::Queued, Fate::Queued, Fate::Queued, Fate::Dropped]);
        let sent = Instant::ZERO + Bytes::new(1500) / CONFIG.rate;
        assert_eq!(link.backlog(sent), Bytes::new(1500));
        assert_eq!(link.offer(sent, Bytes::new(1500), 4), Fate::Queued);
        let arrived: Vec<_> =
            std::iter::from_fn(|| link.poll(Instant::from_secs(1))).map(|(_, n)| n).collect();
        assert_eq!(arrived, [0, 1, 2, 4]);
        assert_eq!(link.counts(), Counts { queued: 4, lost: 0, dropped: 1 });
    }

    #[test]
    fn an_idle_link_accepts_a_packet_larger_than_its_queue() {
        let mut link = link(LinkConfig { queue: Bytes::ZERO, ..CONFIG });
        assert_eq!(link.offer(Instant::ZERO, Bytes::new(1500), ()), Fate::Queued);
        assert_eq!(link.offer(Instant::ZERO, Bytes::new(1500), ()), Fate::Dropped);
    }

    #[test]
    fn packets_are_lost_independently_with_the_given_probability() {
        let mut link = link(LinkConfig { loss: 0.02, rate: DataRate::mib(1000), ..CONFIG });
        let (mut lost, mut twice, mut before) = (0u32, 0u32, false);
        for n in 0..200_000 {
            let now = Instant::from_millis(n);
            let gone = link.offer(now, Bytes::new(1500), ()) == Fate::Lost;
            lost += u32::from(gone);
            twice += u32::from(gone && before);
            before = gone;
            while link.poll(now).is_some() {}
        }
        // 4000 ± 63 and 80 ± 9, each with five standard deviations.
        assert!((3700..4300).contains(&lost), "{lost}");
        assert!((35..125).contains(&twice), "{twice}");
    }

    #[test]
    fn the_same_seed_loses_the_same_packets() {
        let fates = |seed| {
            let config = LinkConfig { loss: 0.1, queue: Bytes::kib(1024), ..CONFIG };
            let mut link = Link::new(config, Seed(seed).stream("a/loss"));
            (0..500).map(|n| link.offer(Instant::ZERO, Bytes::new(40), n)).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    /// A lost packet delays the packets behind it as if it had arrived.
    #[test]
    fn a_lost_packet_also_occupies_the_link() {
        let mut lossy = link(LinkConfig { loss: 0.3, queue: Bytes::kib(1024), ..CONFIG });
        let mut clean = link(LinkConfig { queue: Bytes::kib(1024), ..CONFIG });
        let fates: Vec<_> = (0..50)
            .map(|n| {
                clean.offer(Instant::ZERO, Bytes::new(1500), n);
                lossy.offer(Instant::ZERO, Bytes::new(1500), n)
            })
            .collect();
        let arrivals = |link: &mut Link<usize>| -> Vec<_> {
            std::iter::from_fn(|| link.poll(Instant::from_secs(9))).collect()
        };
        let expected: Vec<_> =
            arrivals(&mut clean).into_iter().filter(|(_, n)| fates[*n] == Fate::Queued).collect();
        assert!(expected.len() < 50);
        assert_eq!(arrivals(&mut lossy), expected);
    }

    /// A reference model of the link by definition: the start of each transmission follows from all earlier packets.
    fn reference(config: LinkConfig, offers: &[(Instant, Bytes)]) -> Vec<Option<Instant>> {
        let mut sent: Vec<(Instant, Instant, Bytes)> = Vec::new();
        let mut due = Vec::new();
        for &(now, len) in offers {
            let begin = sent.last().map_or(now, |(_, end, _)| (*end).max(now));
            let waiting: Bytes = sent.iter().filter(|(begin, ..)| *begin > now).map(|(.., len)| *len).sum();
            if begin > now && waiting + len > config.queue {
                due.push(None);
                continue;
            }
            let end = begin + len / config.rate;
            sent.push((begin, end, len));
            due.push(Some(end + config.delay));
        }
        due
    }

    proptest! {
        #[test]
        fn a_link_matches_its_reference_model(
            steps in prop::collection::vec((0u64..40_000_000, 40u64..1501), 1..80),
            rate in 50_000u64..2_000_000,
            queue in 0u64..9000,
            delay in 0u64..50,
        ) {
            let config = LinkConfig {
                rate: DataRate::new(rate).unwrap(),
                delay: Duration::from_millis(delay),
                loss: 0.0,
                queue: Bytes::new(queue),
            };
            let mut now = Instant::ZERO;
            let offers: Vec<_> = steps.iter().map(|&(pause, len)| {
                // Half of the packets come in bursts.
                now += Duration::from_nanos(if pause % 2 == 0 { 0 } else { pause });
                (now, Bytes::new(len))
            }).collect();
            let mut link = link(config);
            let mut arrived = Vec::new();
            let mut admitted = 0u64;
            for (n, &(now, len)) in offers.iter().enumerate() {
                while let Some(packet) = link.poll(now) {
                    prop_assert!(packet.0 <= now);
                    arrived.push(packet);
                }
                admitted += u64::from(link.offer(now, len, n) == Fate::Queued);
                prop_assert!(link.backlog(now) <= config.queue);
            }
            while let Some(at) = link.poll_timeout() {
                arrived.extend(link.poll(at));
            }
            let expected: Vec<_> = reference(config, &offers).into_iter().enumerate()
                .filter_map(|(n, due)| due.map(|due| (due, n))).collect();
            prop_assert_eq!(&arrived, &expected);
            prop_assert_eq!(link.counts(),
                Counts { queued: admitted, lost: 0, dropped: offers.len() as u64 - admitted });
            // The link never exceeds its rate: between two arrivals lies at least the transmission time of the later
            // packet.
            for pair in arrived.windows(2) {
                prop_assert!(pair[1].0 - pair[0].0 >= offers[pair[1].1].1 / config.rate);
            }
        }
    }
}
