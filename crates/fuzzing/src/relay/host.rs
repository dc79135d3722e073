//! A relay's kernel in memory: sockets with finite buffers, their peers, and the servers of streams.

use penstock_core::kernel::Interest;
use penstock_core::{ChannelKey, EndReason, Kernel, SocketInfo, StreamKey, StreamRead};
use penstock_link::cell::{CELL_LEN, Extended, Front, IdLen, Incoming, LiveCell, LivePayload, front};
use penstock_units::{Bytes, Duration};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(super) struct Pipe {
    /// Bytes from the peer that the relay has not read.
    pub(super) inbox: Vec<u8>,
    /// Cells from the relay that the peer has not read.
    pub(super) sent: VecDeque<LiveCell>,
    /// Capacity of the send buffer [cell].
    pub(super) send_capacity: usize,
    pub(super) interest: Interest,
}

impl Pipe {
    pub(super) fn new() -> Self {
        Pipe { inbox: Vec::new(), sent: VecDeque::new(), send_capacity: 64, interest: Interest::default() }
    }

    pub(super) fn has_cell(&self) -> bool {
        matches!(front(&self.inbox, IdLen::Four), Front::Cell(..))
    }

    pub(super) fn has_room(&self) -> bool {
        self.sent.len() < self.send_capacity
    }
}

#[derive(Debug, Default)]
pub(super) struct Server {
    /// Bytes that the server will still send [B]. `sent_bytes` is the number already sent.
    pub(super) left: u64,
    pub(super) sent_bytes: u64,
    /// Whether the server closes the connection after the last byte.
    pub(super) closes: bool,
    /// Bytes that the server will still accept [B]. `took` is the number already accepted.
    pub(super) appetite: u64,
    pub(super) took: u64,
    pub(super) interest: Interest,
    pub(super) connected: bool,
}

pub(super) fn pattern(place: u64) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 13) as u8
}

#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) pipes: BTreeMap<ChannelKey, Pipe>,
    pub(super) servers: BTreeMap<StreamKey, Server>,
    /// Whether cells that C tor does not know are enabled.
    pub(super) extended: Extended,
    /// Highest number of payloads that waited for one stream at the same time [1].
    pub(super) most_waiting: usize,
    pub(super) closed: Vec<ChannelKey>,
}

impl Kernel<LiveCell> for Host {
    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<LiveCell>) -> Bytes {
        let Some(pipe) = self.pipes.get_mut(&channel) else { return Bytes::ZERO };
        let mut taken = 0;
        while (taken as u64) < limit.get() {
            let Front::Cell(frame, len) = front(&pipe.inbox[taken..], IdLen::Four) else { break };
            if let Incoming::Cell(cell) = Incoming::of(&frame, self.extended) {
                into.push_back(cell);
            }
            taken += len;
        }
        pipe.inbox.drain(..taken);
        Bytes::new(taken as u64)
    }

    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<LiveCell>, limit: Bytes) -> Bytes {
        let Some(pipe) = self.pipes.get_mut(&channel) else { return Bytes::ZERO };
        let mut taken = 0;
        while taken < limit.get() && pipe.has_room() {
            let Some(cell) = cells.pop_front() else { break };
            pipe.sent.push_back(cell);
            taken += CELL_LEN as u64;
        }
        Bytes::new(taken)
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        let Some(pipe) = self.pipes.get(&channel) else { return SocketInfo::default() };
        let queued = Bytes::new((pipe.sent.len() * CELL_LEN) as u64);
        SocketInfo {
            capacity: Bytes::new((pipe.send_capacity * CELL_LEN) as u64),
            queued,
            not_sent: queued,
            cwnd: pipe.send_capacity as u32,
            unacked: pipe.sent.len() as u32,
            in_flight: pipe.sent.len() as u32,
            peer_window: Bytes::new(u64::from(u32::MAX)),
            mss: CELL_LEN as u32,
            rtt: Duration::from_millis(20),
        }
    }

    fn want(&mut self, channel: ChannelKey, interest: Interest) {
        if let Some(pipe) = self.pipes.get_mut(&channel) {
            pipe.interest = interest;
        }
    }

    fn close(&mut self, channel: ChannelKey) {
        assert!(self.pipes.remove(&channel).is_some(), "the relay closes only open channels");
        self.closed.push(channel);
    }

    fn read_stream(&mut self, stream: StreamKey, limit: u16) -> StreamRead<LivePayload> {
        let Some(server) = self.servers.get_mut(&stream) else { return StreamRead::Closed(EndReason::DONE) };
        let payload = LivePayload::read_with(|buffer| {
            let len = usize::try_from(server.left).unwrap_or(usize::MAX).min(limit.into()).min(buffer.len());
            (server.sent_bytes..).zip(&mut buffer[..len]).for_each(|(place, byte)| *byte = pattern(place));
            server.left -= len as u64;
            server.sent_bytes += len as u64;
            (len > 0).then_some(len)
        });
        match payload {
            Some(payload) => StreamRead::Data(payload),
            None if server.closes => StreamRead::Closed(EndReason::DONE),
            None => StreamRead::Blocked,
        }
    }

    fn write_stream(
        &mut self,
        stream: StreamKey,
        payloads: &mut VecDeque<LivePayload>,
        limit: Bytes,
    ) -> Bytes {
        assert!(payloads.len() <= self.most_waiting, "the data that waits for a server is bounded");
        let Some(server) = self.servers.get_mut(&stream) else {
            payloads.clear();
            return Bytes::ZERO;
        };
        let mut taken = 0;
        while taken < limit.get() && server.appetite > 0 {
            let Some(payload) = payloads.pop_front() else { break };
            let len = payload.as_bytes().len() as u64;
            server.appetite = server.appetite.saturating_sub(len);
            taken += len;
        }
        server.took += taken;
        Bytes::new(taken)
    }

    fn want_stream(&mut self, stream: StreamKey, interest: Interest) {
        if let Some(server) = self.servers.get_mut(&stream) {
            server.interest = interest;
        }
    }

    fn close_stream(&mut self, stream: StreamKey) {
        self.servers.remove(&stream);
    }
}
