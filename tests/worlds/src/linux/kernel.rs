//! [`Kernel`] over non-blocking sockets. It keeps partly sent and partly received cells.

use super::cell::{Body, LinuxCell, SIZE};
use penstock_core::kernel::Interest;
use penstock_core::reason::EndReason;
use penstock_core::{ChannelKey, Kernel, SocketInfo, StreamKey, StreamRead};
use penstock_testbed::diag::Diag;
use penstock_units::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A channel's socket.
#[derive(Debug)]
pub struct Channel {
    pub(super) socket: TcpStream,
    /// The first part of a cell.
    arrived: Vec<u8>,
    /// The rest of a partly written cell.
    unwritten: Vec<u8>,
    /// The connection is closed.
    pub(super) broken: bool,
}

/// A stream's socket of any family.
#[derive(Debug)]
pub struct Stream {
    pub(super) socket: File,
    arrived: Vec<u8>,
    unwritten: Vec<u8>,
    at_end: bool,
}

/// One node's kernel.
#[derive(Debug, Default)]
pub struct LinuxKernel {
    pub(super) channels: BTreeMap<ChannelKey, Channel>,
    pub(super) interests: BTreeMap<ChannelKey, Interest>,
    pub(super) streams: BTreeMap<StreamKey, Stream>,
    pub(super) stream_interests: BTreeMap<StreamKey, Interest>,
    /// Closed streams with unwritten data.
    pub(super) lingering: Vec<Stream>,
    /// `None` if Linux does not support it.
    pub(super) diag: Option<Diag>,
}

impl LinuxKernel {
    /// A kernel in the namespace of the calling thread.
    pub fn new() -> Self {
        LinuxKernel { diag: Diag::new().ok(), ..LinuxKernel::default() }
    }

    /// Takes over a connected socket.
    pub fn attach(&mut self, channel: ChannelKey, socket: TcpStream) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let channel_of = Channel { socket, arrived: Vec::new(), unwritten: Vec::new(), broken: false };
        self.channels.insert(channel, channel_of);
        Ok(())
    }

    /// Takes over a connected, non-blocking socket of a stream.
    pub fn attach_stream(&mut self, stream: StreamKey, socket: File) {
        let stream_of = Stream { socket, arrived: Vec::new(), unwritten: Vec::new(), at_end: false };
        self.streams.insert(stream, stream_of);
    }

    /// The channel's interest, and writability if a partly written cell waits.
    pub(super) fn interest(&self, key: ChannelKey) -> Interest {
        let mut interest = self.interests.get(&key).copied().unwrap_or_default();
        interest.writable |= self.channels.get(&key).is_some_and(|channel| !channel.unwritten.is_empty());
        interest
    }

    /// The same for a stream.
    pub(super) fn stream_interest(&self, key: StreamKey) -> Interest {
        let mut interest = self.stream_interests.get(&key).copied().unwrap_or_default();
        interest.writable |= self.streams.get(&key).is_some_and(|stream| !stream.unwritten.is_empty());
        interest
    }

    /// The channel's socket is writable: writes the rest of a cell. Returns whether the relay wants more.
    pub(super) fn on_writable(&mut self, key: ChannelKey) -> bool {
        if let Some(channel) = self.channels.get_mut(&key) {
            channel.broken |= push(&mut channel.socket, &mut channel.unwritten).is_err();
        }
        self.interests.get(&key).is_some_and(|interest| interest.writable)
    }

    /// The same for a stream.
    pub(super) fn on_stream_writable(&mut self, key: StreamKey) -> bool {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.at_end |= push(&mut stream.socket, &mut stream.unwritten).is_err();
        }
        self.stream_interests.get(&key).is_some_and(|interest| interest.writable)
    }

    /// Writes the remaining data of closed streams.
    pub(super) fn linger(&mut self) {
        self.lingering.retain_mut(|stream| {
            push(&mut stream.socket, &mut stream.unwritten).is_ok() && !stream.unwritten.is_empty()
        });
    }
}

/// Writes as much as the socket accepts.
fn push(socket: &mut impl Write, bytes: &mut Vec<u8>) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => drop(bytes.drain(..written)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until there are `wanted` bytes or the socket is empty. Returns false at the end of the stream.
fn pull(socket: &mut impl Read, bytes: &mut Vec<u8>, wanted: usize) -> bool {
    let mut have = bytes.len();
    bytes.resize(wanted.max(have), 0);
    let open = loop {
        if have >= wanted {
            break true;
        }
        match socket.read(&mut bytes[have..]) {
            Ok(0) => break false,
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break false,
        }
    };
    bytes.truncate(have);
    open
}

impl Kernel<LinuxCell> for LinuxKernel {
    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<LinuxCell>) -> Bytes {
        let Some(channel) = self.channels.get_mut(&channel) else { return Bytes::ZERO };
        let most = limit.get().min(1 << 20).next_multiple_of(SIZE as u64) as usize;
        channel.broken |= !pull(&mut channel.socket, &mut channel.arrived, most);
        let whole = channel.arrived.len() - channel.arrived.len() % SIZE;
        let cells = channel.arrived.drain(..whole).collect::<Vec<_>>();
        for cell in cells.chunks_exact(SIZE) {
            into.push_back(LinuxCell(cell.try_into().expect("the chunks are cells")));
        }
        Bytes::new(whole as u64)
    }

    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<LinuxCell>, limit: Bytes) -> Bytes {
        let Some(channel) = self.channels.get_mut(&channel) else { return Bytes::ZERO };
        let mut taken = 0;
        loop {
            channel.broken |= push(&mut channel.socket, &mut channel.unwritten).is_err();
            if channel.broken || !channel.unwritten.is_empty() || taken >= limit.get() {
                return Bytes::new(taken);
            }
            let batch = (limit.get() - taken).div_ceil(SIZE as u64).min(cells.len() as u64) as usize;
            if batch == 0 {
                return Bytes::new(taken);
            }
            // Cells that the socket refused return to the queue, except for a partly written one.
            let mut bytes: Vec<u8> = cells.iter().take(batch).flat_map(|cell| cell.0).collect();
            let all = bytes.len();
            channel.broken |= push(&mut channel.socket, &mut bytes).is_err();
            let whole = (all - bytes.len()).div_ceil(SIZE);
            channel.unwritten = bytes[..whole * SIZE - (all - bytes.len())].to_vec();
            drop(cells.drain(..whole));
            taken += (whole * SIZE) as u64;
            if whole < batch {
                return Bytes::new(taken);
            }
        }
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        let channel = self.channels.get(&channel);
        let info = channel.zip(self.diag.as_ref()).and_then(|(channel, diag)| diag.info(&channel.socket));
        let Some(info) = info else { return SocketInfo::default() };
        SocketInfo {
            capacity: info.capacity,
            queued: info.queued,
            not_sent: info.not_sent,
            cwnd: info.cwnd,
            unacked: info.unacked,
            in_flight: info.in_flight,
            // The tests read no receive window, and zero means unknown.
            peer_window: Bytes::ZERO,
            mss: info.mss,
            rtt: info.rtt.unwrap_or_default(),
        }
    }

    fn want(&mut self, channel: ChannelKey, interest: Interest) {
        self.interests.insert(channel, interest);
    }

    fn close(&mut self, channel: ChannelKey) {
        self.interests.remove(&channel);
        self.channels.remove(&channel);
    }

    /// Returns only full cells, because plans count cells. A live node does not wait.
    fn read_stream(&mut self, stream: StreamKey, limit: u16) -> StreamRead<Body> {
        let Some(stream) = self.streams.get_mut(&stream) else { return StreamRead::Blocked };
        stream.at_end |= !pull(&mut stream.socket, &mut stream.arrived, limit.into());
        match (stream.arrived.len() == usize::from(limit), stream.at_end) {
            (false, false) => StreamRead::Blocked,
            (false, true) if stream.arrived.is_empty() => StreamRead::Closed(EndReason::DONE),
            _ => StreamRead::Data(Body(std::mem::take(&mut stream.arrived))),
        }
    }

    fn write_stream(&mut self, stream: StreamKey, payloads: &mut VecDeque<Body>, limit: Bytes) -> Bytes {
        let Some(stream) = self.streams.get_mut(&stream) else { return Bytes::ZERO };
        let mut taken = 0;
        loop {
            stream.at_end |= push(&mut stream.socket, &mut stream.unwritten).is_err();
            if stream.at_end || !stream.unwritten.is_empty() || taken >= limit.get() {
                return Bytes::new(taken);
            }
            let Some(body) = payloads.pop_front() else { return Bytes::new(taken) };
            taken += body.0.len() as u64;
            stream.unwritten = body.0;
        }
    }

    fn want_stream(&mut self, stream: StreamKey, interest: Interest) {
        self.stream_interests.insert(stream, interest);
    }

    fn close_stream(&mut self, stream: StreamKey) {
        self.stream_interests.remove(&stream);
        self.lingering.extend(self.streams.remove(&stream).filter(|stream| !stream.unwritten.is_empty()));
    }
}
