//! Connections: two TCP endpoints, and what ends at which byte of each stream.

use crate::cell::{Request, SimCell};
use crate::queue::HostId;
use crate::script::Script;
use crate::tcp::{Endpoint, Segment, TcpConfig, Train};
use penstock_core::cell::{Cell as _, Tag};
use penstock_core::datagram::Message;
use penstock_core::kernel::Interest;
use penstock_core::{ChannelKey, StreamKey};
use penstock_scenario::model::Wire;
use penstock_units::{Instant, fifo::take_first};
use std::collections::VecDeque;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SockRef {
    pub(crate) conn: u32,
    /// 0 for the side that connected, 1 for the side that accepted.
    pub(crate) side: u8,
}

impl SockRef {
    /// The other end.
    pub(crate) fn peer(self) -> SockRef {
        SockRef { conn: self.conn, side: self.side ^ 1 }
    }
}

/// A connection between two hosts. No payload is copied: each side remembers which message of
/// its stream ends at which byte.
#[derive(Debug)]
pub(crate) struct Conn {
    /// Tells this connection from an earlier one in the same slot.
    pub(crate) generation: u32,
    /// What lies between its hosts.
    pub(crate) wire: Wire,
    /// Neither side needs it.
    pub(crate) finished: bool,
    pub(crate) sides: [Side; 2],
}

/// One end of a connection at its host.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) host: HostId,
    pub(crate) owner: Owner,
    pub(crate) tcp: Endpoint,
    /// What is on its way to this side, the first to arrive in front.
    pub(crate) inbound: VecDeque<TrainInFlight>,
    /// How many of these are with all their segments in the access link's queue.
    pub(crate) enqueued: usize,
    /// Messages this side sent that the other one has not read, by the byte after their last.
    pub(crate) sent: VecDeque<(u64, Item)>,
    pub(crate) interest: Interest,
    /// Waiting for its turn in the host's loop.
    pub(crate) ready: Interest,
    /// When the earliest timer event for this side happens; FAR_FUTURE if there is none.
    pub(crate) timer: Instant,
    /// The owner was told that the connection is there.
    pub(crate) announced: bool,
    /// A channel's: what its TLS has of a record that has not come whole [B].
    pub(crate) partial: u32,
    /// A channel's: it holds bytes that TCP does not send.
    pub(crate) holds: bool,
    /// Waits for room in the network interface's queue.
    pub(crate) awaits_nic: bool,
    pub(crate) cold: Option<Box<Cold>>,
}

/// What most sides never have: apart, so that the others take less of the cache.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// Datagrams that arrived and were not read.
    pub(crate) unread: VecDeque<DatagramBody>,
    /// What they take together [B].
    pub(crate) unread_bytes: u64,
    /// Tracked messages in train_in_flight, by the byte after their last.
    pub(crate) tracked: VecDeque<Tracked>,
    /// As an exit of a traced circuit: its number, and which bytes arrived when.
    pub(crate) traced: Option<Traced>,
    /// As a server: its part in a stream of a model.
    pub(crate) script: Option<Script>,
}

/// A train on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainInFlight {
    /// When its first segment reaches the queue before the receiver's access link.
    pub(crate) at: Instant,
    /// How much later each of the others does [ns].
    pub(crate) gap: u64,
    /// Which of all packets of its host the first was.
    pub(crate) count: u64,
    pub(crate) train: Train,
    /// How many of its segments have come into the link's queue [segment].
    pub(crate) enqueued: u32,
    /// And how many of those have delivered [segment].
    pub(crate) delivered: u32,
}

impl TrainInFlight {
    /// When its next segment reaches the link's queue, and which of its host's packets that is.
    pub(crate) fn next(&self) -> (Instant, u64) {
        let index = u64::from(self.enqueued);
        (Instant::from_nanos(self.at.as_nanos() + index * self.gap), self.count + index)
    }

    /// How many of its segments have not delivered yet [packet].
    pub(crate) fn packets(&self) -> usize {
        (self.train.count - self.delivered) as usize
    }

    /// The next segment lands.
    pub(crate) fn deliver(&mut self) -> Segment {
        self.delivered += 1;
        self.train.segment(self.delivered - 1)
    }

    /// What follows the segment that has no place in the link's queue, if anything; this ends before it.
    pub(crate) fn split(&mut self) -> Option<TrainInFlight> {
        let index = self.enqueued + 1;
        let left = self.train.count - index;
        self.train.count = self.enqueued;
        let (at, count) = TrainInFlight { enqueued: index, ..*self }.next();
        let train = Train { first: self.train.segment(index), count: left };
        (left > 0).then_some(TrainInFlight { at, count, train, enqueued: 0, delivered: 0, ..*self })
    }
}

/// What is on its way to a side.
impl Side {
    /// The next segment to come into the access link's queue, when, and which of its host's packets it is.
    pub(crate) fn next_arrival(&self) -> Option<(Instant, u64)> {
        self.inbound.get(self.enqueued).map(TrainInFlight::next)
    }

    /// The next segment comes into the link's queue.
    pub(crate) fn enqueue(&mut self) {
        let train_in_flight = &mut self.inbound[self.enqueued];
        train_in_flight.enqueued += 1;
        self.enqueued += usize::from(train_in_flight.enqueued == train_in_flight.train.count);
    }

    /// The next segment finds the link's queue full.
    pub(crate) fn drop_next(&mut self) {
        let train_in_flight = &mut self.inbound[self.enqueued];
        let rest = train_in_flight.split();
        // What came before it may have delivered already.
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

    /// The next segment lands.
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

/// What is in a datagram.
#[derive(Clone, Debug)]
pub(crate) struct DatagramBody {
    /// DTLS included [B].
    pub(crate) bytes: u64,
    pub(crate) messages: Vec<Message<SimCell>>,
}

impl DatagramBody {
    /// Its cells that are tracked.
    pub(crate) fn tags(&self) -> impl Iterator<Item = Tag> + '_ {
        self.messages.iter().filter_map(|message| match message {
            Message::Data { body, .. } => body.tag(),
            _ => None,
        })
    }
}

/// A tracked message of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    pub(crate) end: u64,
    pub(crate) tag: Tag,
    pub(crate) left: bool,
    pub(crate) arrived: bool,
}

/// What an exit remembers of a traced circuit's stream.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) circuit: u32,
    /// The byte after the last that had arrived, and when.
    pub(crate) arrivals: VecDeque<(u64, Instant)>,
}

/// What a message is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// A cell in a TLS record.
    Cell(SimCell),
    /// A step of the link handshake.
    Link(u8),
    /// The end of a request.
    Request(Request),
}

/// Whose a side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A channel that is being set up: the initiator's key, or none yet.
    Linking(Option<ChannelKey>),
    /// A relay's channel.
    Channel(ChannelKey),
    /// An exit's stream.
    Stream(StreamKey),
    /// The connection of a client without Tor.
    Plain,
    /// A server's connection, with what it still has to send [B].
    Server(u64),
    /// Nobody's: what still arrives is thrown away.
    Closed,
}

impl Side {
    pub(crate) fn new(host: HostId, owner: Owner) -> Self {
        Side {
            host,
            owner,
            tcp: Endpoint::new(),
            inbound: VecDeque::new(),
            enqueued: 0,
            sent: VecDeque::new(),
            interest: Interest::default(),
            ready: Interest::default(),
            timer: Instant::FAR_FUTURE,
            announced: false,
            partial: 0,
            holds: false,
            awaits_nic: false,
            cold: None,
        }
    }

    /// TLS takes what there is, a part of a record too.
    ///
    /// Source: OpenSSL reads the body of a record as far as it has come, rustls whatever has come.
    /// Deviation: that costs the host's processor nothing, and waits for no turn of it.
    pub(crate) fn take_partial(&mut self, tcp: &TcpConfig, now: Instant) {
        let bytes = self.tcp.readable();
        self.tcp.read(tcp, now, bytes);
        self.partial += bytes as u32;
    }

    /// What most sides never have, if this one does.
    pub(crate) fn cold(&mut self) -> Option<&mut Cold> {
        self.cold.as_deref_mut()
    }

    /// The same, made if need be.
    pub(crate) fn cold_mut(&mut self) -> &mut Cold {
        self.cold.get_or_insert_default()
    }

    /// Whether datagrams wait to be read.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| !cold.unread.is_empty())
    }

    /// Its tracked messages in train_in_flight.
    pub(crate) fn tracked(&mut self) -> impl Iterator<Item = &mut Tracked> {
        self.cold.iter_mut().flat_map(|cold| &mut cold.tracked)
    }

    /// The part in a stream of a model that this server has.
    pub(crate) fn script(&mut self) -> Option<&mut Script> {
        self.cold()?.script.as_mut()
    }

    /// Cells that it sent and the other one has not read.
    pub(crate) fn cells(&self) -> u64 {
        self.sent.iter().filter(|item| matches!(item, (_, Item::Cell(_)))).count() as u64
    }

    /// Whether the host needs it no more.
    pub(crate) fn is_done(&self) -> bool {
        self.owner == Owner::Closed && self.tcp.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(count: u32) -> TrainInFlight {
        let mut first = Segment::default();
        (first.seq, first.len) = (1000, 100);
        let train = Train { first, count };
        TrainInFlight { at: Instant::from_nanos(50), gap: 10, count: 7, train, enqueued: 0, delivered: 0 }
    }

    /// What arrives of trains of three and one, if the link's queue has no place for some.
    fn arrivals(dropped: &[usize], delivered_at_once: bool) -> Vec<(u64, u64)> {
        let mut side = Side::new(0, Owner::Closed);
        side.inbound
            .extend([train(3), TrainInFlight { at: Instant::from_nanos(100), count: 20, ..train(1) }]);
        let mut arrived = Vec::new();
        let mut kept = 0;
        for index in 0.. {
            let Some((at, count)) = side.next_arrival() else { break };
            if dropped.contains(&index) {
                side.drop_next();
                continue;
            }
            arrived.push((at.as_nanos(), count));
            side.enqueue();
            if delivered_at_once {
                side.deliver();
            } else {
                kept += 1;
            }
        }
        for _ in 0..kept {
            side.deliver();
        }
        assert!(side.inbound.is_empty() && side.enqueued == 0);
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
