//! The core's kernel: TLS connections of channels, and TCP connections of streams.

use super::conn::{Conn, READ_SIZE, RECORD_OVERHEAD, is_transient};
use super::directory_stream::DirectoryStream;
use super::exits::{ResolvePurpose, end_reason};
use super::links::Opening;
use super::lookups::{LookupLimits, Lookups};
use super::openings::Openings;
use super::ready::ReadyQueue;
use super::shares::{Holder, Host, PartPath, Shares};
use super::socket_info;
use super::stamps;
use super::trace::{Left, Trace};
use crate::clock::Clock;
use penstock_core::cell::{Cell as _, Command, Payload};
use penstock_core::datagram::Message;
use penstock_core::kernel::Interest;
use penstock_core::{
    ChannelKey, CircuitIndex, EndReason, Kernel, SecondaryMap, SocketInfo, StreamKey, StreamRead, Unfinished,
};
use penstock_link::cell::{CELL_LEN, Connected, LiveCell, LivePayload};
use penstock_units::{Bytes, Duration, Instant};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};

/// Cells in a TLS record [cell]. The last record can be longer or shorter (C tor passes 4 KiB to TLS in one call).
const RECORD_CELLS: usize = 8;

/// Time limit for sending the last bytes of a closed stream.
const LINGERING: Duration = Duration::from_secs(60);

/// Maximum number of ready sockets that epoll reports in a turn [1]. Epoll reports a socket again in each turn until the
/// node calls it. If more sockets are ready, epoll reports the others in later turns.
pub(super) const MAX_EVENTS: usize = 4096;

/// Documents of directory streams that the node counts again in a second [1]. This takes less than a millisecond.
const MAX_COUNTED: usize = 10_000;

/// A watched file descriptor. No two sockets ever have the same token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Token {
    Listener,
    /// A connection with an unfinished link handshake.
    Opening(u64),
    Channel(ChannelKey),
    Stream(StreamKey),
    /// The connection of a closed stream with unsent bytes.
    Lingering(u64),
    /// A listener for applications.
    SocksPort(u64),
    /// An application without a stream.
    Socks(u64),
    /// The eventfd of the worker threads.
    Wake,
    /// The operator's file descriptor.
    Waker,
    /// The UDP socket of a channel.
    Datagrams(ChannelKey),
}

/// A token's number has its kind above so many bits [1].
const KIND_SHIFT: u32 = 60;

impl Token {
    /// The number that epoll returns for this token. The first four bits are the token's kind.
    fn number(self) -> u64 {
        let pack = |index: usize, generation: u32| u64::from(generation) << 32 | index as u64;
        let (kind, number) = match self {
            Token::Listener => (0, 0),
            Token::Opening(number) => (1, number),
            Token::Channel(key) => (2, pack(key.index(), key.generation())),
            Token::Stream(key) => (3, pack(key.index(), key.generation())),
            Token::Lingering(number) => (4, number),
            Token::Wake => (5, 0),
            Token::Waker => (6, 0),
            Token::SocksPort(number) => (7, number),
            Token::Socks(number) => (8, number),
            Token::Datagrams(key) => (9, pack(key.index(), key.generation())),
        };
        kind << KIND_SHIFT | number
    }

    pub(super) fn of(number: u64) -> Self {
        let (kind, number) = (number >> KIND_SHIFT, number & ((1 << KIND_SHIFT) - 1));
        let (index, generation) = (number as u32, (number >> 32) as u32);
        match kind {
            0 => Token::Listener,
            1 => Token::Opening(number),
            2 => Token::Channel(ChannelKey::from_parts(index, generation)),
            3 => Token::Stream(StreamKey::from_parts(index, generation)),
            4 => Token::Lingering(number),
            5 => Token::Wake,
            6 => Token::Waker,
            7 => Token::SocksPort(number),
            8 => Token::Socks(number),
            _ => Token::Datagrams(ChannelKey::from_parts(index, generation)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    /// The remaining bytes of a payload, after the socket accepted the first bytes.
    unwritten: Vec<u8>,
    pub(super) interest: Interest,
    pub(super) connecting: bool,
    pub(super) said: Connected,
    broken: bool,
    /// Clients only: the application's reply, until the exit opens the stream.
    greeting: Option<Vec<u8>>,
    /// Whether the socket is that of an application, not that of a server.
    is_client: bool,
    held: StreamShare,
}

/// A buffer of epoll's reports.
struct Events(Vec<epoll::Event>);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// The entry of a stream in [`Sockets::held`]: the stream's network, host and circuit, and its number.
#[derive(Clone, Copy, Debug)]
struct StreamShare {
    path: PartPath,
    number: u64,
}

#[derive(Debug)]
pub(super) struct Sockets {
    epoll: OwnedFd,
    /// The buffer of epoll's reports, empty between calls.
    events: Events,
    /// Ready sockets that wait for a later turn.
    pub(super) waiting: ReadyQueue,
    pub(super) channels: SecondaryMap<ChannelKey, Conn>,
    pub(super) streams: SecondaryMap<StreamKey, Stream>,
    /// Connections of closed streams, each with its time limit. Every new one gets a higher number.
    pub(super) lingering: BTreeMap<u64, (Stream, Instant)>,
    next_lingering: u64,
    /// Connections of applications whose streams closed before the exit opened them.
    pub(super) returned: BTreeMap<StreamKey, TcpStream>,
    /// The buffers of all channels, and directory requests with their answers [B].
    pub(super) buffered: u64,
    /// Running name lookups.
    pub(super) lookups: Lookups<StreamKey, ResolvePurpose>,
    /// Connections with unfinished link handshakes.
    pub(super) openings: Openings,
    /// Unfinished link handshakes that the out-of-memory handler ended since the last look [1].
    pub(super) oom_openings: u64,
    /// The links of each host.
    pub(super) links: Shares<Holder, ChannelKey>,
    /// The links that this node opened, by the hosts whose circuits asked for them.
    pub(super) requested: Shares<Holder, ChannelKey>,
    /// The sockets of streams, open or lingering, of each host and circuit.
    pub(super) held: Shares<Holder, Token>,
    /// The hosts of clients whose links ended.
    pub(super) closed_clients: Vec<Host>,
    pub(super) directory_streams: BTreeMap<StreamKey, DirectoryStream>,
    /// The directory stream whose memory was counted last; `None` before the first one.
    counted_stream: Option<StreamKey>,
    /// Directory streams with pending work. Epoll does not watch them.
    pub(super) woken: BTreeSet<StreamKey>,
    /// Channels that the core wants to read, with a whole cell in the buffer.
    pub(super) full: BTreeSet<ChannelKey>,
    /// Channels that the core wants to write, and whose datagrams leave over UDP. Epoll does not watch whether a UDP socket
    /// is writable, because a full one drops datagrams.
    pub(super) sending: BTreeSet<ChannelKey>,
    /// The UDP sockets of links.
    pub(super) paths: Shares<Holder, ChannelKey>,
    /// Links whose transport is not chosen yet, or whose path waits for the answer to a HELLO, with the time at which the
    /// node continues them.
    pub(super) due_paths: BTreeSet<(Instant, ChannelKey)>,
    /// Open datagram paths that stopped working since the last look [1].
    pub(super) failed_paths: u64,
    /// Links whose datagrams became smaller since the last look.
    pub(super) shrunk_paths: Vec<ChannelKey>,
    pub(super) trace: Option<Box<Trace>>,
    pub(super) clock: Clock,
    /// Buffers for reading and encrypting, which all calls reuse.
    pub(super) scratch: Box<[u8]>,
    pub(super) record: Vec<u8>,
}

impl Sockets {
    pub(super) fn new(clock: Clock, lookups: LookupLimits) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (channels, streams, lingering) = (SecondaryMap::new(), SecondaryMap::new(), BTreeMap::new());
        let (directory_streams, woken, full) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let (scratch, record) = (vec![0; READ_SIZE].into(), Vec::new());
        let trace = None;
        Ok(Sockets {
            epoll,
            events: Events(Vec::with_capacity(MAX_EVENTS)),
            waiting: ReadyQueue::new(),
            channels,
            streams,
            lingering,
            next_lingering: 0,
            returned: BTreeMap::new(),
            buffered: 0,
            lookups: Lookups::new(lookups),
            openings: Openings::new(),
            oom_openings: 0,
            links: Shares::new(),
            requested: Shares::new(),
            held: Shares::new(),
            closed_clients: Vec::new(),
            directory_streams,
            counted_stream: None,
            woken,
            full,
            sending: BTreeSet::new(),
            paths: Shares::new(),
            due_paths: BTreeSet::new(),
            failed_paths: 0,
            shrunk_paths: Vec::new(),
            trace,
            clock,
            scratch,
            record,
        })
    }

    /// Starts watching a socket, level-triggered.
    pub(super) fn watch(&self, socket: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, data(token), flags(interest))?)
    }

    pub(super) fn watch_for(&self, socket: &impl AsFd, token: Token, interest: Interest) {
        // A failed socket is closed at the next read or write.
        let _ = epoll::modify(&self.epoll, socket, data(token), flags(interest));
    }

    pub(super) fn forget(&self, socket: &impl AsFd) {
        // Epoll may not watch the socket.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits at most `timeout` [ns]. Calls `ready` for each ready socket that does not wait for a later turn already.
    pub(super) fn wait(
        &mut self,
        timeout: Duration,
        mut ready: impl FnMut(Token, Interest),
    ) -> io::Result<()> {
        let nanos = timeout.as_nanos();
        let timeout =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events.0), Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            count => count?,
        };
        for event in self.events.0.drain(..) {
            let flags = event.flags;
            let gone = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
            let interest = Interest {
                readable: flags.intersects(epoll::EventFlags::IN | gone),
                writable: flags.intersects(epoll::EventFlags::OUT | gone),
            };
            let token = Token::of(event.data.u64());
            // Epoll is level-triggered, and reports a waiting socket in each turn.
            let is_queued = match token {
                Token::Channel(key) => self.channels.get(key).is_some_and(|conn| conn.is_queued),
                _ => false,
            };
            if !self.waiting.merge(token, interest) && !is_queued {
                ready(token, interest);
            }
        }
        Ok(())
    }

    pub(super) fn channel(&mut self, key: ChannelKey) -> Option<&mut Conn> {
        self.channels.get_mut(key)
    }

    pub(super) fn stream(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.streams.get_mut(key)
    }

    pub(super) fn attach(&mut self, key: ChannelKey, mut conn: Conn) {
        if self.trace.as_ref().is_some_and(|trace| trace.has_cells()) {
            conn.stamps = stamps::begin(&conn.socket);
        }
        conn.link = self.links.add(&conn.host.path(), key);
        if let Some(claim) = &mut conn.claim {
            claim.enter(&mut self.requested, key);
        }
        self.channels.insert(key, conn);
        self.rewatch(key);
    }

    /// Adds the connection of a stream. The connection is not established yet.
    pub(super) fn attach_stream(
        &mut self,
        key: StreamKey,
        (host, circuit): (Host, CircuitIndex),
        socket: TcpStream,
        said: Connected,
    ) -> io::Result<()> {
        let interest = Interest { writable: true, ..Interest::default() };
        self.watch(&socket, Token::Stream(key), interest)?;
        let path = host.with_circuit(circuit);
        let held = StreamShare { path, number: self.held.add(&path, Token::Stream(key)) };
        let stream = Stream {
            socket,
            unwritten: Vec::new(),
            interest: Interest::default(),
            connecting: true,
            said,
            broken: false,
            greeting: None,
            is_client: false,
            held,
        };
        self.streams.insert(key, stream);
        Ok(())
    }

    /// Adds the connection of an application to a new stream. Epoll watches it already. When the exit opens the stream,
    /// the application gets `greeting` before the stream's data.
    pub(super) fn attach_client(
        &mut self,
        key: StreamKey,
        (host, circuit): (Host, CircuitIndex),
        socket: TcpStream,
        greeting: Vec<u8>,
    ) {
        self.watch_for(&socket, Token::Stream(key), Interest::default());
        let path = host.with_circuit(circuit);
        let stream = Stream {
            socket,
            unwritten: Vec::new(),
            interest: Interest::default(),
            connecting: false,
            said: Connected(None),
            broken: false,
            greeting: Some(greeting),
            is_client: true,
            held: StreamShare { path, number: self.held.add(&path, Token::Stream(key)) },
        };
        self.streams.insert(key, stream);
    }

    /// Sends the reply to the application of an open stream.
    pub(super) fn greet(&mut self, key: StreamKey) {
        if let Some(stream) = self.stream(key) {
            stream.greet();
            stream.flush();
        }
        self.rewatch_stream(key);
    }

    pub(super) fn wake(&mut self, key: StreamKey) {
        if self.directory_streams.get(&key).is_some_and(DirectoryStream::is_ready) {
            self.woken.insert(key);
        }
    }

    /// The core may want to write datagrams. They leave in the next turn.
    pub(super) fn note_sending(&mut self, key: ChannelKey) {
        if self.channels.get(key).is_some_and(|conn| {
            // Epoll reports when TLS has sent its bytes.
            conn.interest.writable && conn.uses_udp() && !conn.is_stuck()
        }) {
            self.sending.insert(key);
        }
    }

    pub(super) fn rewatch(&mut self, key: ChannelKey) {
        self.note_written(key);
        if let Some(conn) = self.channels.get_mut(key) {
            let wanted = wanted(conn);
            if conn.watched.replace(wanted) != Some(wanted) {
                // A failed socket is closed at the next read or write.
                let _ = epoll::modify(&self.epoll, &conn.socket, data(Token::Channel(key)), flags(wanted));
            }
            let path = conn.datagrams.as_mut().and_then(|state| state.path.as_mut());
            if let Some(path) = path.filter(|path| path.is_watched != wanted.readable)
                && let Some(socket) = &path.socket
            {
                path.is_watched = wanted.readable;
                let readable = Interest { writable: false, ..wanted };
                let _ = epoll::modify(&self.epoll, socket, data(Token::Datagrams(key)), flags(readable));
            }
        }
    }

    /// Encrypts cells of at most `limit` bytes and writes them to the socket in one call. Writes no cells while
    /// encrypted bytes of an earlier call remain. Returns the number of bytes of the cells and their TLS overhead [B].
    fn write_piece(&mut self, key: ChannelKey, cells: &mut VecDeque<LiveCell>, limit: u64) -> u64 {
        let Some(conn) = self.channels.get_mut(key) else { return 0 };
        if conn.is_stuck() {
            conn.flush();
        }
        if conn.is_stuck() {
            return 0;
        }
        let record = &mut self.record;
        let mut taken = 0;
        while taken < limit && !cells.is_empty() && !conn.broken {
            let left = usize::try_from(limit - taken).unwrap_or(usize::MAX).div_ceil(CELL_LEN);
            let left = cells.len().min(left);
            // The remaining cells are split such that no record has a single cell, if possible.
            let count = if left < 2 * RECORD_CELLS { left } else { RECORD_CELLS };
            record.clear();
            for cell in cells.drain(..count) {
                cell.write(record);
                conn.unsent_tags.extend(cell.tag());
            }
            conn.encrypt(record);
            taken += record.len() as u64 + RECORD_OVERHEAD;
        }
        conn.flush();
        taken
    }

    /// Records the time at which traced cells left TLS. They have left it if no encrypted bytes wait.
    fn note_written(&mut self, key: ChannelKey) {
        if let Some(trace) = &mut self.trace
            && let Some(conn) = self.channels.get_mut(key)
            && !conn.is_stuck()
        {
            if conn.unsent_tags.is_empty() {
                return;
            }
            let ends = || conn.socket.local_addr().ok().zip(conn.socket.peer_addr().ok());
            let ends = if trace.keeps_connections() { ends() } else { None };
            let left = ends.map(|(local, peer)| Left { local, peer, bytes: conn.sent, is_udp: false });
            let now = self.clock.now();
            for tag in conn.unsent_tags.drain(..) {
                trace.written(tag, now, left);
                if let Some(stamps) = &mut conn.stamps {
                    stamps.await_sent(tag);
                }
            }
        }
    }

    /// Reads the kernel's timestamps of sent bytes. Unread timestamps would keep epoll awake.
    pub(super) fn take_stamps(&mut self, key: ChannelKey) {
        if let Some(trace) = &mut self.trace
            && let Some(conn) = self.channels.get_mut(key)
            && let Some(stamps) = &mut conn.stamps
        {
            for (tag, stamp) in stamps.sent(&conn.socket) {
                trace.left(tag, stamps::at(self.clock, stamp));
            }
        }
    }

    pub(super) fn rewatch_stream(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get(key) {
            let mut interest = stream.interest;
            interest.writable |= stream.connecting || !stream.unwritten.is_empty();
            self.watch_for(&stream.socket, Token::Stream(key), interest);
        }
    }

    /// Writes the remaining bytes of a payload when the socket is writable.
    pub(super) fn flush_stream(&mut self, key: StreamKey) {
        if let Some(stream) = self.stream(key) {
            stream.flush();
        }
        self.rewatch_stream(key);
    }

    pub(super) fn flush_lingering(&mut self, number: u64) {
        let Some((stream, _)) = self.lingering.get_mut(&number) else { return };
        stream.flush();
        if stream.broken || stream.unwritten.is_empty() {
            self.end_lingering(number);
        }
    }
}

impl Sockets {
    /// Closes the connections of closed streams after the time limit.
    pub(super) fn close_timed_out(&mut self, now: Instant) {
        // All of them have the same time limit, so the oldest ones end first.
        while let Some((number, (_, until))) = self.lingering.first_key_value()
            && *until <= now
        {
            let number = *number;
            self.end_lingering(number);
        }
    }

    /// Whether a channel has a connection, with a finished or an unfinished handshake.
    pub(super) fn has_link(&self, channel: ChannelKey) -> bool {
        self.channels.contains(channel) || self.openings.has(channel)
    }

    /// A circuit of `host` uses a link that this node opened or opens.
    pub(super) fn join_link(&mut self, channel: ChannelKey, host: Host) {
        match self.channels.get_mut(channel) {
            Some(conn) => conn.claim.iter_mut().for_each(|claim| claim.join(host)),
            None => self.openings.join(channel, host),
        }
    }

    /// The host of a link that this node opened loses it. Returns false if no other host used the link.
    pub(super) fn pass_on_link(&mut self, channel: ChannelKey) -> bool {
        let claim = self.channels.get_mut(channel).and_then(|conn| conn.claim.as_mut());
        claim.is_some_and(|claim| claim.pass_on(&mut self.requested, channel))
    }

    /// Takes a connection out of the table of unfinished handshakes.
    pub(super) fn take_opening(&mut self, number: u64) -> Option<Opening> {
        let open = self.openings.remove(number)?;
        self.waiting.remove(Token::Opening(number));
        self.buffered -= open.counted;
        Some(open)
    }

    /// Updates the memory count with the buffers of an unfinished handshake.
    pub(super) fn recount_opening(&mut self, number: u64) {
        if let Some(open) = self.openings.get_mut(number) {
            let now = open.buffered();
            self.buffered = self.buffered + now - std::mem::replace(&mut open.counted, now);
        }
    }

    /// Updates the memory count with the buffers of a channel.
    pub(super) fn recount(&mut self, key: ChannelKey) {
        if let Some(conn) = self.channels.get_mut(key) {
            let now = conn.buffered();
            self.buffered = self.buffered + now - std::mem::replace(&mut conn.counted, now);
        }
    }

    /// Updates the memory count with the request and the answer of a directory stream.
    pub(super) fn recount_stream(&mut self, key: StreamKey) {
        if let Some(exchange) = self.directory_streams.get_mut(&key) {
            let now = exchange.memory();
            self.buffered = self.buffered + now - std::mem::replace(&mut exchange.counted, now);
        }
    }

    /// Counts the memory of directory streams again, because streams keep documents that the cache has dropped. Each
    /// call continues where the last one ended, and counts about `MAX_COUNTED` documents.
    pub(super) fn recount_directory_streams(&mut self) {
        let streams = match self.counted_stream {
            Some(last) => self.directory_streams.range_mut((Bound::Excluded(last), Bound::Unbounded)),
            None => self.directory_streams.range_mut(..),
        };
        let mut documents = 0;
        self.counted_stream = None;
        for (key, stream) in streams {
            // A stream without documents also takes time.
            documents += 1 + stream.count_shares();
            let now = stream.memory();
            self.buffered = self.buffered + now - std::mem::replace(&mut stream.counted, now);
            if documents >= MAX_COUNTED {
                self.counted_stream = Some(*key);
                break;
            }
        }
    }

    /// Closes the connection of a closed stream. Unsent bytes are lost.
    pub(super) fn end_lingering(&mut self, number: u64) {
        // Closing the socket also removes it from epoll.
        if let Some((stream, _)) = self.lingering.remove(&number) {
            self.held.remove(&stream.held.path, stream.held.number);
            self.waiting.remove(Token::Lingering(number));
        }
    }

    /// Drops the unsent bytes of a stream, so that its connection closes at once.
    pub(super) fn forget_unwritten(&mut self, stream: StreamKey) {
        if let Some(stream) = self.stream(stream) {
            stream.unwritten.clear();
        }
    }
}

impl Stream {
    /// The network, the host and the circuit that opened the stream.
    pub(super) fn path(&self) -> PartPath {
        self.held.path
    }

    /// Whether this is a client's stream that the exit has not opened.
    pub(super) fn awaits_exit(&self) -> bool {
        self.greeting.is_some()
    }

    fn greet(&mut self) {
        if let Some(greeting) = self.greeting.take() {
            self.unwritten = greeting;
        }
    }

    /// As if the socket had not accepted a byte.
    #[cfg(test)]
    pub(super) fn leave_unwritten(&mut self) {
        self.unwritten.push(0);
    }

    fn flush(&mut self) {
        while !self.unwritten.is_empty() && !self.broken {
            match self.socket.write(&self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_transient(&error) => {}
                Err(_) => self.broken = true,
            }
        }
        if self.broken {
            self.unwritten.clear();
        }
    }
}

/// The readiness to watch for. A channel with encrypted bytes also waits until it is writable.
fn wanted(conn: &Conn) -> Interest {
    let waits = conn.interest.writable && !conn.uses_udp();
    Interest { writable: waits || conn.is_stuck(), ..conn.interest }
}

fn data(token: Token) -> epoll::EventData {
    epoll::EventData::new_u64(token.number())
}

fn flags(interest: Interest) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, interest.readable);
    flags.set(epoll::EventFlags::OUT, interest.writable);
    // Linux reports hang-ups even without interest; one report is enough.
    flags.set(epoll::EventFlags::ONESHOT, !interest.readable && !interest.writable);
    flags
}

impl Kernel<LiveCell> for Sockets {
    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<LiveCell>) -> Bytes {
        let Some(conn) = self.channels.get_mut(channel) else { return Bytes::ZERO };
        let most = usize::try_from(limit.get()).unwrap_or(READ_SIZE).clamp(1, READ_SIZE);
        // The token bucket was already charged for cells that were decrypted earlier.
        let read = if conn.has_cell() { 0 } else { conn.fill(&mut self.scratch[..most]) };
        let before = into.len();
        conn.take_cells(limit.get(), into);
        if let Some(trace) = &mut self.trace
            && let Some(conn) = self.channels.get(channel)
        {
            let clock = self.clock;
            let arrived = conn.stamps.as_ref().and_then(|stamps| stamps.arrived);
            let arrived = arrived.map(|stamp| stamps::at(clock, stamp));
            for cell in into.range_mut(before..).filter(|cell| cell.command() == Command::Relay) {
                if let Some(tag) = trace.came(arrived, clock.now()) {
                    cell.set_tag(tag);
                }
            }
        }
        Bytes::new(read)
    }

    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<LiveCell>, limit: Bytes) -> Bytes {
        // If the trace keeps connections, each record is written in its own call, so that timestamps are exact.
        let piece = match &self.trace {
            Some(trace) if trace.keeps_connections() => (RECORD_CELLS * CELL_LEN) as u64,
            _ => limit.get(),
        };
        let mut taken = 0;
        while taken < limit.get() && !cells.is_empty() {
            let more = self.write_piece(channel, cells, piece.min(limit.get() - taken));
            if more == 0 {
                break;
            }
            taken += more;
            self.note_written(channel);
        }
        self.rewatch(channel);
        self.recount(channel);
        Bytes::new(taken)
    }

    fn send(&mut self, channel: ChannelKey, messages: &mut dyn Iterator<Item = Message<&LiveCell>>) -> Bytes {
        self.send_datagram(channel, messages)
    }

    fn receive(&mut self, channel: ChannelKey, into: &mut Vec<Message<LiveCell>>) -> Bytes {
        self.receive_datagram(channel, into)
    }

    fn uses_udp(&self, channel: ChannelKey) -> bool {
        self.channels.get(channel).is_some_and(Conn::uses_udp)
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        let info = self.channel(channel).and_then(|conn| socket_info::socket_info(&conn.socket));
        info.unwrap_or_default()
    }

    fn want(&mut self, channel: ChannelKey, interest: Interest) {
        if let Some(conn) = self.channel(channel) {
            conn.interest = interest;
            // The cells are already decrypted, so epoll may not report this socket again.
            if interest.readable && conn.has_input() {
                self.full.insert(channel);
            }
            self.note_sending(channel);
            self.rewatch(channel);
        }
    }

    fn holder(&self, channel: ChannelKey) -> [u128; 2] {
        // No host has such a small number.
        self.channels.get(channel).map_or([channel.index() as u128; 2], |conn| conn.host.numbers())
    }

    fn memory(&self, channel: ChannelKey) -> Bytes {
        let conn = self.channels.get(channel);
        conn.map_or(Bytes::ZERO, |conn| Bytes::new(conn.counted + super::LINK_MEMORY))
    }

    fn other_memory(&self) -> BTreeMap<[u128; 2], Bytes> {
        let mut memory = self.openings.memory();
        for (host, lookups) in self.lookups.ending_by_host() {
            let sum = memory.entry(host.numbers()).or_insert(Bytes::ZERO);
            *sum += Bytes::new(lookups as u64 * super::LOOKUP_MEMORY);
        }
        memory
    }

    fn close_unfinished(&mut self, holder: [u128; 2]) -> Option<Unfinished> {
        let number = self.openings.oldest_of(Host::with_numbers(holder))?;
        if self.openings.pass_on(number) {
            let open = self.openings.get(number)?;
            return Some(Unfinished::Moved { memory: open.memory(), to: open.claim.host.numbers() });
        }
        let open = self.take_opening(number)?;
        self.oom_openings += 1;
        Some(Unfinished::Closed { memory: open.memory(), channel: open.channel })
    }

    fn stream_memory(&self, stream: StreamKey) -> Bytes {
        let lookup = if self.lookups.has(stream) { super::LOOKUP_MEMORY } else { 0 };
        let directory = self.directory_streams.get(&stream).map_or(0, |exchange| exchange.counted);
        Bytes::new(lookup + directory)
    }

    fn close(&mut self, channel: ChannelKey) {
        if let Some(mut conn) = self.channels.remove(channel) {
            self.waiting.remove(Token::Channel(channel));
            self.links.remove(&conn.host.path(), conn.link);
            if let Some(claim) = &conn.claim {
                claim.end(&mut self.requested);
            }
            if let Some(state) = conn.datagrams.take() {
                self.on_path_gone(channel, conn.host, &state);
            }
            self.buffered -= conn.counted;
            if conn.is_client {
                self.closed_clients.push(conn.host);
            }
            conn.tls.send_close_notify();
            conn.flush();
            let _ = conn.socket.shutdown(Shutdown::Both);
        }
    }

    fn read_stream(&mut self, key: StreamKey, limit: u16) -> StreamRead<LivePayload> {
        if let Some(exchange) = self.directory_streams.get_mut(&key) {
            return exchange.read(limit);
        }
        let Some(stream) = self.stream(key) else { return StreamRead::Closed(EndReason::DONE) };
        let mut outcome = Ok(0);
        let payload = LivePayload::read_with(|room| {
            let most = room.len().min(limit.into());
            outcome = stream.socket.read(&mut room[..most]);
            outcome.as_ref().ok().copied().filter(|read| *read > 0)
        });
        match (payload, outcome) {
            (Some(mut payload), _) => {
                let clock = self.clock;
                payload.set_tag(self.trace.as_mut().and_then(|trace| trace.came(None, clock.now())));
                StreamRead::Data(payload)
            }
            (None, Err(error)) if is_transient(&error) => StreamRead::Blocked,
            // A client tells exits no reasons (tor-spec, "Closing streams").
            (None, _) if stream.is_client => StreamRead::Closed(EndReason::MISC),
            (None, Err(error)) => StreamRead::Closed(end_reason(&error)),
            // The failed write call has already consumed the socket's error.
            (None, Ok(_)) if stream.broken => StreamRead::Closed(EndReason::CONNECTION_RESET),
            (None, Ok(_)) => StreamRead::Closed(EndReason::DONE),
        }
    }

    fn write_stream(&mut self, key: StreamKey, payloads: &mut VecDeque<LivePayload>, limit: Bytes) -> Bytes {
        if let Some(exchange) = self.directory_streams.get_mut(&key) {
            let mut taken = 0;
            while taken < limit.get() {
                let Some(payload) = payloads.pop_front() else { break };
                taken += u64::from(payload.len());
                exchange.take(payload.as_bytes());
            }
            self.recount_stream(key);
            self.wake(key);
            return Bytes::new(taken);
        }
        let Some(stream) = self.stream(key) else {
            payloads.clear();
            return Bytes::ZERO;
        };
        let mut taken = 0;
        stream.greet();
        stream.flush();
        // A failed socket drops all payloads.
        if stream.broken {
            payloads.clear();
        }
        while taken < limit.get() && stream.unwritten.is_empty() && !stream.broken {
            let Some(payload) = payloads.pop_front() else { break };
            taken += u64::from(payload.len());
            stream.unwritten.extend_from_slice(payload.as_bytes());
            stream.flush();
        }
        self.rewatch_stream(key);
        Bytes::new(taken)
    }

    fn want_stream(&mut self, stream: StreamKey, interest: Interest) {
        if let Some(exchange) = self.directory_streams.get_mut(&stream) {
            exchange.interest = interest;
            return self.wake(stream);
        }
        if let Some(state) = self.stream(stream) {
            state.interest = interest;
            self.rewatch_stream(stream);
        }
    }

    fn close_stream(&mut self, key: StreamKey) {
        self.waiting.remove(Token::Stream(key));
        if let Some(exchange) = self.directory_streams.remove(&key) {
            self.buffered -= exchange.counted;
        }
        let Some(mut stream) = self.streams.remove(key) else { return };
        self.held.remove(&stream.held.path, stream.held.number);
        if stream.awaits_exit() {
            self.returned.insert(key, stream.socket);
        } else if !stream.unwritten.is_empty() {
            let until = self.clock.now() + LINGERING;
            let number = self.next_lingering;
            self.next_lingering += 1;
            let token = Token::Lingering(number);
            stream.held.number = self.held.add(&stream.held.path, token);
            self.watch_for(&stream.socket, token, Interest { writable: true, ..Interest::default() });
            self.lingering.insert(number, (stream, until));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Node;
    use crate::node::test_node::{LOCALHOST, conn_to, host, node};
    use penstock_core::PeerId;
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;

    #[test]
    fn documents_that_only_slow_readers_keep_count_as_memory() {
        const SIZE: u64 = 1_000_000;
        let mut node = node();
        let cached: Arc<str> = "d".repeat(SIZE as usize).into();
        // The streams need more than one call, because each has many small documents.
        let small = vec!["".into(); MAX_COUNTED];
        let streams = [0, 1, 2].map(|number| StreamKey::from_parts(number, 0));
        for key in streams {
            let mut stream = DirectoryStream::default();
            stream.answer([vec![cached.clone()], small.clone()].concat());
            node.sockets.directory_streams.insert(key, stream);
            node.sockets.recount_stream(key);
        }
        drop(cached);
        let lists: u64 = streams.len() as u64 * (MAX_COUNTED as u64 + 1) * 24;
        let sweep = |node: &mut Node| {
            for _ in 0..=streams.len() {
                let next = node.next_sweep;
                node.close_timed_out(next);
            }
            node.sockets.buffered - lists
        };
        assert_eq!(sweep(&mut node), SIZE / 3 * 3);
        node.sockets.close_stream(streams[1]);
        let lists = lists / 3 * 2;
        let counted: u64 = node.sockets.directory_streams.values().map(|stream| stream.counted).sum();
        assert_eq!(counted, node.sockets.buffered);
        sweep(&mut node);
        assert_eq!(node.sockets.buffered - lists, SIZE);
    }

    #[test]
    fn a_handshake_that_another_host_waits_for_moves_to_it_before_it_ends() {
        let mut node = node();
        let [first, other] = [1, 2].map(host);
        let channels: Vec<_> =
            (0..2).map(|_| node.relay.accept_channel(node.clock.now(), PeerId(1), false)).collect();
        for (channel, hosts) in channels.iter().zip([&[first, other][..], &[first]]) {
            let conn = conn_to(&node, first);
            node.open(conn, LOCALHOST, Some(*channel), hosts).unwrap();
        }
        let memory = node.sockets.openings.get(0).unwrap().memory();
        let close = |node: &mut Node, host: Host| node.sockets.close_unfinished(host.numbers());
        let closed = |channel: usize| Some(Unfinished::Closed { memory, channel: Some(channels[channel]) });
        assert_eq!(close(&mut node, first), Some(Unfinished::Moved { memory, to: other.numbers() }));
        assert_eq!((close(&mut node, first), close(&mut node, first)), (closed(1), None));
        assert_eq!((close(&mut node, other), node.sockets.buffered), (closed(0), 0));
    }

    #[test]
    fn a_token_survives_its_number() {
        let (key, last) = ((7, 9), (1 << KIND_SHIFT) - 1);
        let (channel, stream) = (ChannelKey::from_parts(key.0, key.1), StreamKey::from_parts(key.0, key.1));
        for token in [
            Token::Listener,
            Token::Opening(last),
            Token::Channel(channel),
            Token::Stream(stream),
            Token::Lingering(last),
            Token::Wake,
            Token::Waker,
            Token::SocksPort(3),
            Token::Socks(last),
            Token::Datagrams(channel),
        ] {
            assert_eq!(Token::of(token.number()), token);
        }
    }

    /// Cells of one channel close another channel in the same turn, and a new connection gets the index of the closed
    /// one. An event of the closed channel is still in the queue.
    #[test]
    fn an_event_of_a_closed_channel_does_not_touch_its_successor() {
        let mut node = node();
        let at = SocketAddr::new(LOCALHOST, 0);
        let (now, peer) = (node.clock.now(), PeerId(1 << 31));
        let old = node.relay.accept_channel(now, peer, true);
        node.relay.close_channel(now, old, &mut node.sockets);
        let new = node.relay.accept_channel(now, peer, true);
        assert_eq!((old.index(), old == new), (new.index(), false));

        // TLS has bytes that the socket has not taken.
        let listener = TcpListener::bind(at).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let conn = Conn::new(socket, node.tls.connect(), Some(peer), Host::of(LOCALHOST));
        assert!(conn.is_stuck());
        node.sockets.watch(&conn.socket, Token::Opening(0), Interest::default()).unwrap();
        node.sockets.attach(new, conn);
        let both = Interest { readable: true, writable: true };
        node.sockets.want(new, Interest { readable: true, writable: false });
        node.serve(Token::Channel(old), both);

        other.write_all(b"for the new channel").unwrap();
        let mut tokens = Vec::new();
        node.sockets.wait(Duration::from_secs(1), |token, _| tokens.push(token)).unwrap();
        assert_eq!(tokens, [Token::Channel(new)]);
        assert!(node.sockets.channel(old).is_none());
    }
}
