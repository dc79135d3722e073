use super::cpu::Work;
use super::mail::Mail;
use super::packet::SockRef;
use super::socket::{Item, Tracked};
use super::{Net, Owner, Ready, StreamSock};
use crate::cell::{CELL_BYTES, SimCell, SimPayload};
use crate::queue::HostId;
use penstock_core::cell::Cell;
use penstock_core::datagram::Message;
use penstock_core::kernel::{Interest, Kernel, SocketInfo, StreamRead};
use penstock_core::reason::EndReason;
use penstock_core::{ChannelKey, StreamKey};
use penstock_units::{Bytes, fifo::take_first};
use std::collections::VecDeque;

/// The overhead of a TLS record [B]: header, nonce and tag of AES-GCM (RFC 5288). C tor's `TLS_PER_CELL_OVERHEAD` is
/// equal.
const RECORD_OVERHEAD: u64 = 29;

/// The maximum number of cells in a TLS record [cell]. C tor passes at most a 4 KiB chunk to TLS in one call.
const RECORD_CELLS: u64 = 8;

/// The size of a TLS record with these cells [B].
fn record_bytes(cells: u64) -> u64 {
    cells * u64::from(CELL_BYTES) + RECORD_OVERHEAD
}

/// The simulated kernel of one host. It exists only during one call of the relay.
#[derive(Debug)]
pub(crate) struct HostKernel<'a, 'b> {
    net: &'a mut Net<'b>,
    id: HostId,
}

impl<'a, 'b> HostKernel<'a, 'b> {
    pub(crate) fn new(net: &'a mut Net<'b>, id: HostId) -> Self {
        HostKernel { net, id }
    }

    fn channel(&self, channel: ChannelKey) -> Option<SockRef> {
        self.net.hosts[self.id as usize].channel(channel)
    }

    /// Writes the first cells as one TLS record, with at most `most` bytes [B] and one cell more. With `in_parts`, the socket
    /// takes what fits, and TLS keeps the rest ([`Net::write_rest`]). Returns how many cells; 0 if the socket is full [cell].
    fn write_record(
        &mut self,
        sock: SockRef,
        cells: &mut VecDeque<SimCell>,
        most: u64,
        in_parts: bool,
    ) -> u64 {
        let now = self.net.now();
        let peer = self.net.sock(sock).peer.sock;
        let (host, far) = self.net.hosts.pair(sock.host, peer.host);
        let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
        let mut there = far.map(|far| &mut far.socks[peer.slot as usize]);
        let space = here.tcp.write_space();
        if space == 0 {
            return 0;
        }
        let wanted = most.div_ceil(CELL_BYTES.into());
        let fitting = if in_parts { RECORD_CELLS } else { (space / u64::from(CELL_BYTES)).max(1) };
        let count = wanted.min(fitting).min(RECORD_CELLS).min(cells.len() as u64);
        let bytes = record_bytes(count);
        let accepted = if in_parts { bytes.min(space) } else { bytes };
        host.writes += 1;
        here.tcp.write(tcp, host.writes, accepted);
        // A TLS record is readable only as a whole, so each of its cells ends where the record ends.
        let end = here.tcp.written_end() + bytes - accepted;
        if accepted < bytes {
            here.cold_mut().record_rest = bytes - accepted;
        }
        for cell in cells.drain(..count as usize) {
            if let Some(tag) = cell.tag() {
                self.net.tracker.written(tag, self.id, now);
                here.cold_mut().leaving.push_back(Tracked { end, tag });
                let tracked = Tracked { end, tag };
                match &mut there {
                    Some(there) => there.cold_mut().arriving.push_back(tracked),
                    None => self.net.outbox.push(peer.host, Mail::Tracked { slot: peer.slot, tracked }),
                }
            }
            let item = Item::Cell(cell);
            match &mut there {
                Some(there) => there.messages.push_back((end, item)),
                None => self.net.outbox.push(peer.host, Mail::Message { slot: peer.slot, end, item }),
            }
        }
        count
    }
}

impl Net<'_> {
    /// Writes the rest of a socket's TLS record as far as there is space. Returns whether nothing is left.
    ///
    /// Source: OpenSSL keeps the rest of a record, and C tor writes no further cells before it (`tor_tls_write`).
    /// Deviation: the record's cells leave the output buffer with its first part; in C tor, with the last part. C tor 0.2.3
    /// neither moves cells into this buffer nor counts written bytes until a flush ends without a full socket
    /// (`connection_handle_write_impl`).
    pub(super) fn write_rest(&mut self, sock: SockRef) -> bool {
        let host = &mut self.hosts[sock.host as usize];
        let here = &mut host.socks[sock.slot as usize];
        if !here.has_record_rest() {
            return true;
        }
        let space = here.tcp.write_space();
        let rest = &mut here.cold_mut().record_rest;
        let bytes = space.min(*rest);
        *rest -= bytes;
        let is_written = *rest == 0;
        if bytes > 0 {
            host.writes += 1;
            here.tcp.write(&host.tcp, host.writes, bytes);
            self.charge(sock.host, Work { calls: 1, ..Work::default() });
            self.pump(sock);
        }
        is_written
    }
}

impl Kernel<SimCell> for HostKernel<'_, '_> {
    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<SimCell>) -> Bytes {
        let Some(sock) = self.channel(channel) else { return Bytes::ZERO };
        let now = self.net.now();
        let host = &mut self.net.hosts[sock.host as usize];
        let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
        let received = here.tcp.received_end();
        let start = received - here.tcp.readable() - u64::from(here.partial);
        let mut read_to = start;
        let mut work = Work { calls: 1, ..Work::default() };
        while read_to - start < limit.get()
            && let Some((end, Item::Cell(cell))) = here.messages.front().copied()
            && end <= received
        {
            take_first(&mut here.messages);
            if let Some(tag) = cell.tag() {
                self.net.tracker.read(tag, self.id, now);
            }
            work.cells += 1;
            work.records += u64::from(end > read_to);
            // TLS reads a record as a whole, so the other cells of the record need no further reads.
            read_to = read_to.max(end);
            into.push_back(cell);
        }
        if read_to > start {
            here.tcp.read(tcp, now, read_to - start - u64::from(std::mem::take(&mut here.partial)));
            if here.messages.front().is_none_or(|(end, _)| *end > received) {
                here.take_partial(tcp, now);
            }
            self.net.pump(sock);
        }
        self.net.charge(self.id, work);
        Bytes::new(read_to - start)
    }

    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<SimCell>, limit: Bytes) -> Bytes {
        let Some(sock) = self.channel(channel) else { return Bytes::ZERO };
        let in_parts = self.net.hosts[self.id as usize].tcp.takes_parts();
        let mut accepted = 0;
        let mut work = Work { calls: 1, ..Work::default() };
        while accepted < limit.get() && !cells.is_empty() && (!in_parts || self.net.write_rest(sock)) {
            let written = self.write_record(sock, cells, limit.get() - accepted, in_parts);
            if written == 0 {
                break;
            }
            accepted += record_bytes(written);
            work.cells += written;
            work.records += 1;
            if in_parts {
                // Waiting data use the buffer twice, so TCP queues each part before the relay writes the next one.
                self.net.pump(sock);
            }
        }
        self.net.charge(self.id, work);
        if accepted > 0 && !in_parts {
            self.net.pump(sock);
        }
        Bytes::new(accepted)
    }

    fn send(&mut self, channel: ChannelKey, messages: &mut dyn Iterator<Item = Message<&SimCell>>) -> Bytes {
        let Some(sock) = self.channel(channel) else { return Bytes::ZERO };
        let mut buffer = self.net.spare_buffers.pop().unwrap_or_default();
        // Cells are descriptors, so this copies no payload.
        buffer.extend(messages.map(|message| message.map(|cell| *cell)));
        self.net.charge(self.id, datagram_work(&buffer));
        self.net.send_datagram(sock, buffer)
    }

    fn receive(&mut self, channel: ChannelKey, into: &mut Vec<Message<SimCell>>) -> Bytes {
        let Some(sock) = self.channel(channel) else { return Bytes::ZERO };
        let bytes = self.net.receive_datagram(sock, into);
        self.net.charge(self.id, datagram_work(into));
        bytes
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        let Some(sock) = self.channel(channel) else { return SocketInfo::default() };
        self.net.charge(self.id, Work { queries: 1, ..Work::default() });
        let info = self.net.tcp_info(sock);
        SocketInfo {
            capacity: Bytes::new(info.send_capacity),
            queued: Bytes::new(info.queued),
            not_sent: Bytes::new(info.not_sent),
            cwnd: info.cwnd,
            unacked: info.unacked,
            in_flight: info.in_flight,
            peer_window: Bytes::new(info.peer_window),
            mss: info.mss,
            rtt: info.srtt,
        }
    }

    fn want(&mut self, channel: ChannelKey, interest: Interest) {
        if let Some(sock) = self.channel(channel) {
            self.net.sock(sock).interest = interest;
            self.net.refresh(sock);
        }
    }

    fn close(&mut self, channel: ChannelKey) {
        if let Some(sock) = self.channel(channel) {
            self.net.hosts[self.id as usize].set_channel(channel, None);
            self.net.close(sock);
        }
    }

    fn read_stream(&mut self, stream: StreamKey, limit: u16) -> StreamRead<SimPayload> {
        let now = self.net.now();
        let host = &mut self.net.hosts[self.id as usize];
        let sock = match host.stream(stream) {
            None | Some(StreamSock::Plain { .. }) => return StreamRead::Closed(EndReason::DONE),
            Some(StreamSock::Tcp(sock)) => *sock,
            Some(StreamSock::App(app)) => {
                let len = app.to_send.min(limit.into());
                if len == 0 {
                    return StreamRead::Blocked;
                }
                let request = app.take(len);
                return StreamRead::Data(SimPayload { len: len as u16, tag: None, request });
            }
        };
        let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
        let len = here.tcp.readable().min(limit.into());
        if len == 0 {
            return if here.tcp.receive_closed() {
                StreamRead::Closed(EndReason::DONE)
            } else {
                StreamRead::Blocked
            };
        }
        let end = here.tcp.received_end() - here.tcp.readable() + len;
        here.tcp.read(tcp, now, len);
        let mut tag = None;
        if let Some(traced) = here.cold().and_then(|cold| cold.traced.as_mut()) {
            let arrived = loop {
                match traced.arrivals.front().copied() {
                    Some((until, _)) if until < end => traced.arrivals.pop_front(),
                    Some((_, at)) => break at,
                    None => break now,
                };
            };
            tag = self.net.tracker.packaged(traced.circuit, self.id, arrived, now);
        }
        self.net.pump(sock);
        // A system call reads the bytes of many cells, so its cost is included in the cost of a cell.
        self.net.charge(self.id, Work { cells: 1, ..Work::default() });
        StreamRead::Data(SimPayload { len: len as u16, tag, request: None })
    }

    fn write_stream(
        &mut self,
        stream: StreamKey,
        payloads: &mut VecDeque<SimPayload>,
        limit: Bytes,
    ) -> Bytes {
        let now = self.net.now();
        let host = &mut self.net.hosts[self.id as usize];
        let mut accepted = 0;
        match host.stream(stream) {
            None | Some(StreamSock::Plain { .. }) => payloads.clear(),
            Some(StreamSock::App(app)) => {
                for payload in payloads.drain(..) {
                    accepted += u64::from(payload.len);
                }
                app.receive(now, accepted);
                host.received += accepted;
            }
            Some(StreamSock::Tcp(sock)) => {
                let sock = *sock;
                let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
                let peer = here.peer.sock;
                let mut requests = Vec::new();
                while accepted < limit.get() && here.tcp.write_space() > 0 {
                    let Some(payload) = take_first(payloads) else { break };
                    host.writes += 1;
                    here.tcp.write(tcp, host.writes, payload.len.into());
                    accepted += u64::from(payload.len);
                    if let Some(request) = payload.request {
                        requests.push((here.tcp.written_end(), request));
                    }
                }
                for (end, request) in requests {
                    self.net.post(peer, end, Item::Request(request));
                }
                self.net.pump(sock);
            }
        }
        Bytes::new(accepted)
    }

    fn want_stream(&mut self, stream: StreamKey, interest: Interest) {
        let host = &mut self.net.hosts[self.id as usize];
        match host.stream(stream) {
            None | Some(StreamSock::Plain { .. }) => {}
            Some(StreamSock::Tcp(sock)) => {
                let sock = *sock;
                self.net.sock(sock).interest = interest;
                self.net.refresh(sock);
            }
            Some(StreamSock::App(app)) => {
                app.readable_wanted = interest.readable;
                self.net.refresh_app(self.id, stream);
            }
        }
    }

    fn close_stream(&mut self, stream: StreamKey) {
        let host = &mut self.net.hosts[self.id as usize];
        if let Some(StreamSock::Tcp(sock)) = host.stream(stream) {
            let sock = *sock;
            host.set_stream(stream, None);
            self.net.close(sock);
        }
    }
}

/// The work of sending or receiving a datagram: one system call and one record.
fn datagram_work(messages: &[Message<SimCell>]) -> Work {
    let is_cell = |message: &&Message<SimCell>| matches!(message, Message::Data { .. });
    Work { calls: 1, cells: messages.iter().filter(is_cell).count() as u64, records: 1, ..Work::default() }
}

impl Net<'_> {
    /// Removes an application from the ready sockets. Returns whether the relay still wants the application's bytes.
    pub(crate) fn take_app_turn(&mut self, id: HostId, stream: StreamKey) -> bool {
        let Some(app) = self.hosts[id as usize].app(stream) else { return false };
        app.ready = false;
        app.readable_wanted && app.to_send > 0
    }

    /// Adds an application to the ready sockets if the relay wants the application's bytes.
    pub(crate) fn refresh_app(&mut self, id: HostId, stream: StreamKey) {
        let host = &mut self.hosts[id as usize];
        if let Some(app) = host.app(stream)
            && app.readable_wanted
            && app.to_send > 0
            && !std::mem::replace(&mut app.ready, true)
        {
            host.ready.push_back(Ready::App(stream));
        }
    }
}

impl Net<'_> {
    pub(crate) fn adopt(&mut self, sock: SockRef, channel: ChannelKey) {
        self.sock(sock).owner = Owner::Channel(channel);
        self.hosts[sock.host as usize].set_channel(channel, Some(sock));
        self.update_unsent(sock);
    }

    pub(crate) fn connect_stream(
        &mut self,
        from: HostId,
        to: HostId,
        stream: StreamKey,
        traced: Option<u32>,
    ) {
        let sock = self.connect(from, to, Owner::Stream(stream));
        if let Some(circuit) = traced {
            self.sock(sock).cold_mut().traced =
                Some(super::socket::Traced { circuit, arrivals: VecDeque::new() });
        }
        self.hosts[from as usize].set_stream(stream, Some(StreamSock::Tcp(sock)));
    }

    pub(crate) fn connect_channel(&mut self, from: HostId, to: HostId, channel: ChannelKey) {
        let sock = self.connect(from, to, Owner::Linking(Some(channel)));
        self.hosts[from as usize].set_channel(channel, Some(sock));
    }
}
