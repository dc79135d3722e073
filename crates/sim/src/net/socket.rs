use super::packet::Peer;
use crate::cell::{Request, SimCell};
use crate::script::Script;
use crate::tcp::{Endpoint, Segment, TcpConfig, Train};
use penstock_core::cell::{Cell as _, Tag};
use penstock_core::datagram::Message;
use penstock_core::kernel::Interest;
use penstock_core::{ChannelKey, StreamKey};
use penstock_scenario::model::Wire;
use penstock_units::{Duration, Instant, fifo::take_first};
use std::collections::VecDeque;

/// A socket: one end of a connection between two hosts. It belongs to its host.
///
/// The simulator copies no payload. A socket stores the position in the received stream at which each message ends.
#[derive(Debug)]
pub(crate) struct Sock {
    /// The connection's generation, which differs from those of other connections.
    pub(crate) generation: u32,
    /// Whether this end opened the connection.
    pub(crate) initiator: bool,
    /// The other end of the connection.
    pub(crate) peer: Peer,
    /// The delay on the way to the peer, without jitter.
    pub(crate) delay: Duration,
    /// The way to the peer; `None` if it neither loses, delays nor duplicates packets at random.
    pub(crate) random_wire: Option<Box<Wire>>,
    pub(crate) owner: Owner,
    pub(crate) tcp: Endpoint,
    /// Trains in transit to this end, earliest first.
    pub(crate) inbound: VecDeque<TrainInFlight>,
    /// The number of trains in `inbound` that have completely joined the access link's queue.
    pub(crate) enqueued: usize,
    /// Messages that the peer has written but this end has not read, each with the stream position after it. A message
    /// has arrived when all bytes before this position have arrived.
    pub(crate) messages: VecDeque<(u64, Item)>,
    pub(crate) interest: Interest,
    /// For which operations the socket is in the list of ready sockets.
    pub(crate) ready: Interest,
    /// The time of the earliest TCP timer in the host's queue; FAR_FUTURE if there is none.
    pub(crate) timer: Instant,
    /// When TCP's timer expires; FAR_FUTURE if it is not set. An ACK postpones it without a change of the queue.
    pub(crate) due: Instant,
    /// Whether the owner was told that the connection is established.
    pub(crate) announced: bool,
    /// Bytes of an incomplete TLS record that a channel has read [B].
    pub(crate) partial: u32,
    /// Whether a channel's socket holds bytes that TCP cannot send yet.
    pub(crate) holds: bool,
    /// Whether the socket waits for space in the interface's queue.
    pub(crate) awaits_nic: bool,
    /// Whether the socket is marked for removal.
    pub(crate) marked: bool,
    pub(crate) cold: Option<Box<Cold>>,
}

/// Rarely used state of a socket. It is allocated separately, so that a socket takes less space in the cache.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// When the last sent segment arrives at the peer's link, if the way has jitter.
    pub(crate) last_arrival: Option<Instant>,
    pub(crate) unread: VecDeque<DatagramBody>,
    /// The total size of the unread datagrams [B].
    pub(crate) unread_bytes: u64,
    /// Tracked messages that this end has written but not sent.
    pub(crate) leaving: VecDeque<Tracked>,
    /// Tracked messages that the peer has written and that have not arrived.
    pub(crate) arriving: VecDeque<Tracked>,
    /// At the exit of a traced circuit, the arrival times of bytes from the server.
    pub(crate) traced: Option<Traced>,
    pub(crate) script: Option<Script>,
    /// Segments that wait for an interface which sends the oldest write first, with the number of their write; 0 without
    /// new data.
    pub(crate) waiting: VecDeque<(u64, Segment)>,
    /// Bytes of a TLS record that the socket has not taken yet, if the interface sends the oldest write first [B].
    pub(crate) record_rest: u64,
    /// Whether a server does not answer yet.
    pub(crate) thinks: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainInFlight {
    /// When the train's first segment arrives at the queue of the receiver's access link.
    pub(crate) at: Instant,
    pub(crate) gap: u64,
    /// The number that the sender gave to the train's first segment.
    pub(crate) count: u64,
    pub(crate) train: Train,
    /// Segments that have joined the access link's queue [segment].
    pub(crate) enqueued: u32,
    pub(crate) delivered: u32,
}

impl TrainInFlight {
    /// When the train's next segment arrives at the access link's queue, and the number that the sender gave to it.
    pub(crate) fn next(&self) -> (Instant, u64) {
        let index = u64::from(self.enqueued);
        (Instant::from_nanos(self.at.as_nanos() + index * self.gap), self.count + index)
    }

    /// Segments that have not reached the kernel [packet].
    pub(crate) fn packets(&self) -> usize {
        (self.train.count - self.delivered) as usize
    }

    pub(crate) fn deliver(&mut self) -> Segment {
        self.delivered += 1;
        self.train.segment(self.delivered - 1)
    }

    /// Removes a dropped segment from the train. Returns the segments after it as a new train.
    pub(crate) fn split(&mut self) -> Option<TrainInFlight> {
        let index = self.enqueued + 1;
        let left = self.train.count - index;
        self.train.count = self.enqueued;
        let (at, count) = TrainInFlight { enqueued: index, ..*self }.next();
        let train = Train { first: self.train.segment(index), count: left };
        (left > 0).then_some(TrainInFlight { at, count, train, enqueued: 0, delivered: 0, ..*self })
    }
}

impl Sock {
    /// When the next segment arrives at the access link's queue, and the number that the sender gave to it.
    pub(crate) fn next_arrival(&self) -> Option<(Instant, u64)> {
        self.inbound.get(self.enqueued).map(TrainInFlight::next)
    }

    /// Lets the next segment join the access link's queue.
    pub(crate) fn enqueue(&mut self) {
        let train_in_flight = &mut self.inbound[self.enqueued];
        train_in_flight.enqueued += 1;
        self.enqueued += usize::from(train_in_flight.enqueued == train_in_flight.train.count);
    }

    /// Drops the next segment, because the access link's queue is full.
    pub(crate) fn drop_next(&mut self) {
        let train_in_flight = &mut self.inbound[self.enqueued];
        let rest = train_in_flight.split();
        // Earlier segments of the train may still be on their way to the kernel.
        if train_in_flight.packets() > 0 {
            self.enqueued += 1;
            if let Some(rest) = rest {
                self.inbound.insert(self.enqueued, rest);
            }
        } else if let Some(rest) = rest {
            *train_in_flight = rest;
        } else {
            self.inbound.remove(self.enqueued);
        }
    }

    pub(crate) fn deliver(&mut self) -> Segment {
        let train_in_flight = self.inbound.front_mut().expect("what lands was on its way");
        let segment = train_in_flight.deliver();
        if train_in_flight.delivered == train_in_flight.train.count {
            take_first(&mut self.inbound);
            self.enqueued -= 1;
        }
        segment
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DatagramBody {
    /// The size with DTLS [B].
    pub(crate) bytes: u64,
    pub(crate) messages: Vec<Message<SimCell>>,
}

impl DatagramBody {
    pub(crate) fn tags(&self) -> impl Iterator<Item = Tag> + '_ {
        self.messages.iter().filter_map(|message| match message {
            Message::Data { body, .. } => body.tag(),
            _ => None,
        })
    }
}

/// A tracked message of a stream; `end` is the stream position after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    pub(crate) end: u64,
    pub(crate) tag: Tag,
}

/// The stream of a traced circuit, at the circuit's exit.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) circuit: u32,
    /// For each arrival, the stream position after its last byte, and the time.
    pub(crate) arrivals: VecDeque<(u64, Instant)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Cell(SimCell),
    /// A message of the link handshake, by its number.
    Link(u8),
    /// The end of a request.
    Request(Request),
}

/// The owner of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A channel during setup. Only the initiator already has a key for it.
    Linking(Option<ChannelKey>),
    Channel(ChannelKey),
    Stream(StreamKey),
    Plain,
    /// A server, with the number of bytes that it must still send [B].
    Server(u64),
    /// No owner. Received data is discarded.
    Closed,
}

impl Owner {
    /// The first owner of the other end, if this is the owner of an opening socket.
    pub(crate) fn of_acceptor(self) -> Owner {
        match self {
            Owner::Linking(_) | Owner::Channel(_) => Owner::Linking(None),
            Owner::Stream(_) | Owner::Plain | Owner::Server(_) => Owner::Server(0),
            Owner::Closed => Owner::Closed,
        }
    }
}

impl Sock {
    /// A new socket. The end that opens the connection does not know its peer's slot.
    pub(crate) fn new(generation: u32, peer: Peer, wire: Wire, owner: Owner) -> Self {
        let Wire { delay, jitter, loss, reorder, duplicate, .. } = wire;
        let is_random = !jitter.is_zero() || [loss, reorder, duplicate].iter().any(|share| *share > 0.0);
        Sock {
            generation,
            initiator: !peer.sock.is_known(),
            peer,
            delay,
            random_wire: is_random.then(|| Box::new(wire)),
            owner,
            tcp: Endpoint::new(),
            inbound: VecDeque::new(),
            enqueued: 0,
            messages: VecDeque::new(),
            interest: Interest::default(),
            ready: Interest::default(),
            timer: Instant::FAR_FUTURE,
            due: Instant::FAR_FUTURE,
            announced: false,
            partial: 0,
            holds: false,
            awaits_nic: false,
            marked: false,
            cold: None,
        }
    }

    /// Reads all available bytes, including those of an incomplete TLS record.
    /// Source: OpenSSL and rustls both read incomplete records.
    /// Deviation: this read costs nothing and does not wait for the host's processor.
    pub(crate) fn take_partial(&mut self, tcp: &TcpConfig, now: Instant) {
        let bytes = self.tcp.readable();
        self.tcp.read(tcp, now, bytes);
        self.partial += bytes as u32;
    }

    pub(crate) fn cold(&mut self) -> Option<&mut Cold> {
        self.cold.as_deref_mut()
    }

    pub(crate) fn cold_mut(&mut self) -> &mut Cold {
        self.cold.get_or_insert_default()
    }

    pub(crate) fn has_datagrams(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| !cold.unread.is_empty())
    }

    /// Bytes of a TLS record that the socket has not taken yet [B].
    pub(crate) fn record_rest(&self) -> u64 {
        self.cold.as_ref().map_or(0, |cold| cold.record_rest)
    }

    pub(crate) fn has_record_rest(&self) -> bool {
        self.record_rest() > 0
    }

    pub(crate) fn drop_record_rest(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.record_rest = 0;
        }
    }

    /// Whether a tracked message waits to be sent.
    pub(crate) fn has_leaving(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| !cold.leaving.is_empty())
    }

    /// Removes the tracked messages whose last byte is in `segment`, and calls `stamp` with each of them.
    pub(crate) fn take_leaving(&mut self, segment: &Segment, stamp: impl FnMut(Tag)) {
        if let Some(cold) = &mut self.cold {
            take_tracked(&mut cold.leaving, segment, stamp);
        }
    }

    /// Like [`Sock::take_leaving`], but for messages that arrive with their first segment.
    pub(crate) fn take_arriving(&mut self, segment: &Segment, stamp: impl FnMut(Tag)) {
        if let Some(cold) = &mut self.cold {
            take_tracked(&mut cold.arriving, segment, stamp);
        }
    }

    pub(crate) fn script(&mut self) -> Option<&mut Script> {
        self.cold()?.script.as_mut()
    }

    /// Cells that the peer has written and this end has not read.
    pub(crate) fn cells(&self) -> u64 {
        self.messages.iter().filter(|item| matches!(item, (_, Item::Cell(_)))).count() as u64
    }

    pub(crate) fn is_done(&self) -> bool {
        self.owner == Owner::Closed && self.tcp.is_closed()
    }

    /// Whether the socket can be removed: it is closed, no segment is on its way to it or waits in it, and the host does
    /// not serve it.
    pub(crate) fn is_over(&self) -> bool {
        let waits = || self.cold.as_ref().is_some_and(|cold| !cold.waiting.is_empty());
        self.is_done() && self.inbound.is_empty() && self.ready == Interest::default() && !waits()
    }
}

fn take_tracked(tracked: &mut VecDeque<Tracked>, segment: &Segment, mut stamp: impl FnMut(Tag)) {
    tracked.retain(|tracked| {
        let is_in = segment.seq < tracked.end && tracked.end <= segment.end();
        if is_in {
            stamp(tracked.tag);
        }
        !is_in
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_scenario::model::LossOf;

    fn train(count: u32) -> TrainInFlight {
        let mut first = Segment::default();
        (first.seq, first.len) = (1000, 100);
        let train = Train { first, count };
        TrainInFlight { at: Instant::from_nanos(50), gap: 10, count: 7, train, enqueued: 0, delivered: 0 }
    }

    fn sock() -> Sock {
        let wire = Wire {
            rtt: penstock_units::Duration::from_millis(1),
            delay: penstock_units::Duration::from_micros(500),
            jitter: penstock_units::Duration::ZERO,
            loss: 0.0,
            loss_of: LossOf::All,
            reorder: 0.0,
            duplicate: 0.0,
        };
        Sock::new(0, Peer::unknown(1), wire, Owner::Closed)
    }

    /// The arrivals of trains of three and one segments, if the link's queue drops some.
    fn arrivals(dropped: &[usize], delivered_at_once: bool) -> Vec<(u64, u64)> {
        let mut sock = sock();
        sock.inbound
            .extend([train(3), TrainInFlight { at: Instant::from_nanos(100), count: 20, ..train(1) }]);
        let mut arrived = Vec::new();
        let mut kept = 0;
        for index in 0.. {
            let Some((at, count)) = sock.next_arrival() else { break };
            if dropped.contains(&index) {
                sock.drop_next();
                continue;
            }
            arrived.push((at.as_nanos(), count));
            sock.enqueue();
            if delivered_at_once {
                sock.deliver();
            } else {
                kept += 1;
            }
        }
        for _ in 0..kept {
            sock.deliver();
        }
        assert!(sock.inbound.is_empty() && sock.enqueued == 0);
        arrived
    }

    #[test]
    fn a_train_that_loses_segments_delivers_the_others_on_time() {
        let all = [(50, 7), (60, 8), (70, 9), (100, 20)];
        for lost in 0..16_u32 {
            let dropped: Vec<usize> = (0..4).filter(|i| lost >> i & 1 == 1).collect();
            let kept: Vec<_> = (0..4).filter(|i| !dropped.contains(i)).map(|i| all[i]).collect();
            assert_eq!(arrivals(&dropped, true), kept, "without {dropped:?}");
            assert_eq!(arrivals(&dropped, false), kept, "without {dropped:?}");
        }
    }

    #[test]
    fn segments_after_a_lost_one_keep_their_sequence_numbers() {
        let mut train_in_flight = TrainInFlight { enqueued: 1, ..train(4) };
        let rest = train_in_flight.split().expect("two segments are left");
        assert_eq!((train_in_flight.train.count, rest.train.count), (1, 2));
        assert_eq!((rest.train.first.seq, rest.next()), (1200, (Instant::from_nanos(70), 9)));
    }
}
