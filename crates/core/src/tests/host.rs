//! The kernel of a node in these tests. It has sockets with finite buffers, and streams to applications and servers.

use super::cell::{Piece, TestCell};
use crate::cell::Cell;
use crate::datagram::Message;
use crate::kernel::{Interest, Kernel, SocketInfo, StreamRead, Unfinished};
use crate::reason::EndReason;
use crate::{ChannelKey, CircId, StreamKey};
use penstock_units::{Bytes, Duration, Instant};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// One node's end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) wire: usize,
    pub(super) side: usize,
    pub(super) send_buffer: u64,
    pub(super) sending: VecDeque<TestCell>,
    pub(super) arrived: VecDeque<TestCell>,
    /// Datagrams that the relay sent in this call, and datagrams that arrived.
    pub(super) outgoing_datagrams: Vec<Datagram>,
    pub(super) received_datagrams: VecDeque<Datagram>,
}

/// The messages of a datagram.
pub(super) type Datagram = Vec<Message<TestCell>>;

/// The size of a datagram on the wire [B].
pub(super) fn datagram_size(datagram: &Datagram) -> u64 {
    datagram.iter().map(Message::wire_size).sum::<usize>() as u64 + 65
}

impl End {
    fn has_room(&self) -> bool {
        size(&self.sending) + 512 <= self.send_buffer
    }
}

pub(super) fn size(cells: &VecDeque<TestCell>) -> u64 {
    cells.len() as u64 * 512
}

/// Which end of a transfer a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// One direction of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) total: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Whether the reader has stopped.
    pub(super) stalled: bool,
    /// The bytes that the reader still takes before it stops [B].
    pub(super) read_quota: u64,
}

impl Flow {
    /// A flow of `total` bytes to a reader that takes all data.
    pub(super) fn new(total: u64) -> Self {
        Flow { total, sent: 0, received: 0, stalled: false, read_quota: u64::MAX }
    }

    fn is_blocked(&self) -> bool {
        self.stalled || self.read_quota == 0
    }
}

/// The data that an application and its server exchange over one stream.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) stream: Option<StreamKey>,
    pub(super) download: Flow,
    pub(super) upload: Flow,
    pub(super) connected: bool,
    /// The stream is closed at the client and at the exit.
    pub(super) closed: [bool; 2],
}

impl Transfer {
    pub(super) fn is_complete(&self) -> bool {
        self.download.received == self.download.total && self.upload.received == self.upload.total
    }

    fn source(&mut self, side: Side) -> &mut Flow {
        if side == Side::Client { &mut self.upload } else { &mut self.download }
    }

    pub(super) fn sink(&mut self, side: Side) -> &mut Flow {
        if side == Side::Client { &mut self.download } else { &mut self.upload }
    }

    /// A server closes when it has sent and received all data.
    fn is_over(&self, side: Side) -> bool {
        side == Side::Server
            && self.download.sent == self.download.total
            && self.upload.received == self.upload.total
    }
}

/// One read or write of cells.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) at: Instant,
    pub(super) channel: ChannelKey,
    pub(super) ids: Vec<CircId>,
}

/// A node's kernel.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) now: Instant,
    pub(super) ends: BTreeMap<ChannelKey, End>,
    pub(super) interests: BTreeMap<ChannelKey, Interest>,
    pub(super) sockets: BTreeMap<StreamKey, (usize, Side)>,
    pub(super) stream_interests: BTreeMap<StreamKey, Interest>,
    pub(super) stream_memory: BTreeMap<StreamKey, Bytes>,
    pub(super) channel_memory: BTreeMap<ChannelKey, Bytes>,
    /// Connections without an open channel: their holders and sizes.
    pub(super) unfinished: Vec<([u128; 2], Bytes)>,
    /// A holder whose unfinished connections another holder also needs.
    pub(super) needed: Option<([u128; 2], [u128; 2])>,
    /// The channel that waits for each unfinished connection.
    pub(super) waiting: Option<ChannelKey>,
    /// The networks of remote hosts. Any other host is a network of its own.
    pub(super) networks: BTreeMap<ChannelKey, u128>,
    pub(super) closed: Vec<ChannelKey>,
    /// Whether datagrams travel over TCP connections.
    pub(super) tunnels: bool,
    pub(super) transfers: Rc<RefCell<Vec<Transfer>>>,
    pub(super) writes: Vec<Moved>,
    pub(super) reads: Vec<Moved>,
}

impl Host {
    pub(super) fn is_readable(&self, channel: ChannelKey) -> bool {
        self.interests.get(&channel).is_some_and(|interest| interest.readable)
            && self
                .ends
                .get(&channel)
                .is_some_and(|end| !end.arrived.is_empty() || !end.received_datagrams.is_empty())
    }

    pub(super) fn is_writable(&self, channel: ChannelKey) -> bool {
        self.interests.get(&channel).is_some_and(|interest| interest.writable)
            && self.ends.get(&channel).is_some_and(End::has_room)
    }

    fn stream_is(
        &self,
        stream: StreamKey,
        wanted: fn(&Interest) -> bool,
        ready: fn(&mut Transfer, Side) -> bool,
    ) -> bool {
        let Some((transfer, side)) = self.sockets.get(&stream) else { return false };
        self.stream_interests.get(&stream).is_some_and(wanted)
            && ready(&mut self.transfers.borrow_mut()[*transfer], *side)
    }

    pub(super) fn stream_is_readable(&self, stream: StreamKey) -> bool {
        self.stream_is(
            stream,
            |interest| interest.readable,
            |transfer, side| {
                let over = transfer.is_over(side);
                let source = transfer.source(side);
                over || source.sent < source.total
            },
        )
    }

    pub(super) fn stream_is_writable(&self, stream: StreamKey) -> bool {
        self.stream_is(
            stream,
            |interest| interest.writable,
            |transfer, side| !transfer.sink(side).is_blocked(),
        )
    }
}

impl Kernel<TestCell> for Host {
    fn holder(&self, channel: ChannelKey) -> [u128; 2] {
        let host = channel.index() as u128;
        [self.networks.get(&channel).copied().unwrap_or(host), host]
    }

    fn memory(&self, channel: ChannelKey) -> Bytes {
        self.channel_memory.get(&channel).copied().unwrap_or(Bytes::ZERO)
    }

    fn stream_memory(&self, stream: StreamKey) -> Bytes {
        self.stream_memory.get(&stream).copied().unwrap_or(Bytes::ZERO)
    }

    fn other_memory(&self) -> BTreeMap<[u128; 2], Bytes> {
        let mut sums = BTreeMap::new();
        self.unfinished
            .iter()
            .for_each(|(holder, size)| *sums.entry(*holder).or_insert(Bytes::ZERO) += *size);
        sums
    }

    fn close_unfinished(&mut self, holder: [u128; 2]) -> Option<Unfinished> {
        let place = self.unfinished.iter().position(|(other, _)| *other == holder)?;
        let (_, memory) = self.unfinished.remove(place);
        if let Some((_, to)) = self.needed.filter(|(needed, _)| *needed == holder) {
            self.unfinished.push((to, memory));
            return Some(Unfinished::Moved { memory, to });
        }
        Some(Unfinished::Closed { memory, channel: self.waiting })
    }

    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<TestCell>) -> Bytes {
        let end = self.ends.get_mut(&channel).expect("an open channel has a socket");
        let mut moved = Moved { at: self.now, channel, ids: Vec::new() };
        while (moved.ids.len() as u64) * 512 < limit.get() {
            let Some(cell) = end.arrived.pop_front() else { break };
            moved.ids.push(cell.circ_id());
            into.push_back(cell);
        }
        let bytes = Bytes::new(moved.ids.len() as u64 * 512);
        self.reads.push(moved);
        bytes
    }

    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<TestCell>, limit: Bytes) -> Bytes {
        let end = self.ends.get_mut(&channel).expect("an open channel has a socket");
        let mut moved = Moved { at: self.now, channel, ids: Vec::new() };
        while (moved.ids.len() as u64) * 512 < limit.get() && end.has_room() {
            let Some(cell) = cells.pop_front() else { break };
            moved.ids.push(cell.circ_id());
            end.sending.push_back(cell);
        }
        let bytes = Bytes::new(moved.ids.len() as u64 * 512);
        self.writes.push(moved);
        bytes
    }

    fn send(&mut self, channel: ChannelKey, messages: &mut dyn Iterator<Item = Message<&TestCell>>) -> Bytes {
        let end = self.ends.get_mut(&channel).expect("an open channel has a socket");
        let datagram: Datagram = messages.map(|message| message.map(TestCell::clone)).collect();
        let bytes = datagram_size(&datagram);
        assert!(bytes <= 1465, "a datagram has at most 1400 B of messages: {bytes}");
        let cells = datagram.iter().filter_map(|message| match message {
            Message::Data { body, .. } => Some(body.circ_id()),
            _ => None,
        });
        self.writes.push(Moved { at: self.now, channel, ids: cells.collect() });
        end.outgoing_datagrams.push(datagram);
        Bytes::new(bytes)
    }

    fn receive(&mut self, channel: ChannelKey, into: &mut Vec<Message<TestCell>>) -> Bytes {
        let end = self.ends.get_mut(&channel).expect("an open channel has a socket");
        let Some(datagram) = end.received_datagrams.pop_front() else { return Bytes::ZERO };
        let bytes = datagram_size(&datagram);
        into.extend(datagram);
        Bytes::new(bytes)
    }

    fn uses_udp(&self, _channel: ChannelKey) -> bool {
        !self.tunnels
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        let end = &self.ends[&channel];
        let queued = Bytes::new(size(&end.sending));
        SocketInfo {
            capacity: Bytes::new(end.send_buffer),
            queued,
            not_sent: queued,
            // The test kernel's buffer is its congestion window.
            cwnd: (end.send_buffer / 512) as u32,
            unacked: end.sending.len() as u32,
            in_flight: end.sending.len() as u32,
            peer_window: Bytes::new(end.send_buffer),
            mss: 512,
            rtt: Duration::ZERO,
        }
    }

    fn want(&mut self, channel: ChannelKey, interest: Interest) {
        self.interests.insert(channel, interest);
    }

    fn close(&mut self, channel: ChannelKey) {
        self.closed.push(channel);
    }

    fn read_stream(&mut self, stream: StreamKey, limit: u16) -> StreamRead<Piece> {
        let (index, side) = self.sockets[&stream];
        let transfer = &mut self.transfers.borrow_mut()[index];
        if transfer.is_over(side) {
            return StreamRead::Closed(EndReason::DONE);
        }
        let source = transfer.source(side);
        let len = (source.total - source.sent).min(limit.into()) as u16;
        if len == 0 {
            return StreamRead::Blocked;
        }
        let piece = Piece { transfer: index, download: side == Side::Server, offset: source.sent, len };
        source.sent += u64::from(len);
        StreamRead::Data(piece)
    }

    fn write_stream(&mut self, stream: StreamKey, payloads: &mut VecDeque<Piece>, limit: Bytes) -> Bytes {
        let (index, side) = self.sockets[&stream];
        let transfer = &mut self.transfers.borrow_mut()[index];
        let sink = transfer.sink(side);
        let mut bytes = 0;
        while bytes < limit.get() && !sink.is_blocked() {
            let Some(piece) = payloads.pop_front() else { break };
            let expected = Piece {
                transfer: index,
                download: side == Side::Client,
                offset: sink.received,
                len: piece.len,
            };
            assert_eq!(piece, expected, "bytes arrive once, in order, on their own stream (G-01)");
            sink.received += u64::from(piece.len);
            sink.read_quota = sink.read_quota.saturating_sub(piece.len.into());
            bytes += u64::from(piece.len);
        }
        Bytes::new(bytes)
    }

    fn want_stream(&mut self, stream: StreamKey, interest: Interest) {
        self.stream_interests.insert(stream, interest);
    }

    fn close_stream(&mut self, stream: StreamKey) {
        self.stream_interests.remove(&stream);
        if let Some((transfer, side)) = self.sockets.remove(&stream) {
            self.transfers.borrow_mut()[transfer].closed[side as usize] = true;
        }
    }
}
