//! One TCP connection with TLS.

use super::claims::Claim;
use super::datagrams::LinkDatagrams;
use super::shares::Host;
use super::stamps::{Stamped, Stamps};
use penstock_core::kernel::Interest;
use penstock_core::{PeerId, Tag};
use penstock_link::cell::{Extended, Front, IdLen, Incoming, LiveCell, command, front};
use rustls::Connection;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;

/// Maximum size of one read from a socket [B]. This is the largest I/O quantum.
pub(super) const READ_SIZE: usize = 16 * 1024;
/// Maximum capacity of the buffer of decrypted bytes while the buffer is empty [B].
const KEPT: usize = 2 * READ_SIZE;
/// A peer that sent so many bytes without the end of the TLS handshake is cut off [B]. Peers with C tor send less than
/// 4 KiB. TLS could otherwise keep a message of 64 KiB.
const MAX_TLS_HANDSHAKE: u64 = READ_SIZE as u64;
/// Overhead of a TLS 1.3 record [B]: header, content type and tag (RFC 8446 section 5.2).
pub(super) const RECORD_OVERHEAD: u64 = 22;

/// A TCP connection with TLS, of a channel or of a link handshake.
pub(super) struct Conn {
    pub(super) socket: TcpStream,
    pub(super) tls: Connection,
    /// Decrypted bytes. The first `taken` bytes are already consumed.
    inbuf: Vec<u8>,
    taken: usize,
    /// The peer; `None` on an accepted connection until the link handshake ends.
    pub(super) peer: Option<PeerId>,
    /// The host at the other end. `link` is the link's number among the links of this host.
    pub(super) host: Host,
    pub(super) link: u64,
    /// On a link that this node opened: the hosts whose circuits asked for it.
    pub(super) claim: Option<Claim>,
    /// The size of the buffers at the last update of the node's memory count [B].
    pub(super) counted: u64,
    /// Bytes that arrived before the end of the TLS handshake. Until then, TLS may keep all of them [B].
    handshake: u64,
    /// Encrypted bytes that the socket has not accepted yet [B].
    unsent: u64,
    /// Whether the defences against denial of service count the peer as a client.
    pub(super) is_client: bool,
    /// Commands that both nodes agreed on, and that C tor does not know.
    pub(super) extended: Extended,
    pub(super) interest: Interest,
    /// Whether the channel waits in the node's queue for the next turn.
    pub(super) is_queued: bool,
    /// Readiness that epoll currently reports.
    pub(super) watched: Option<Interest>,
    pub(super) broken: bool,
    pub(super) stamps: Option<Stamps>,
    /// Traced cells that TLS may not have sent completely.
    pub(super) unsent_tags: Vec<Tag>,
    /// Number of bytes that the socket has accepted so far [B].
    pub(super) sent: u64,
    /// The datagrams of the link, if both nodes announced them.
    pub(super) datagrams: Option<Box<LinkDatagrams>>,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Conn {
    pub(super) fn new(socket: TcpStream, tls: Connection, peer: Option<PeerId>, host: Host) -> Self {
        Conn {
            socket,
            tls,
            inbuf: Vec::new(),
            taken: 0,
            peer,
            host,
            link: 0,
            claim: None,
            counted: 0,
            handshake: 0,
            unsent: 0,
            is_client: false,
            extended: Extended::NONE,
            interest: Interest::default(),
            is_queued: false,
            watched: None,
            broken: false,
            stamps: None,
            unsent_tags: Vec::new(),
            sent: 0,
            datagrams: None,
        }
    }

    /// Reads once from the socket, with `room` as buffer. Returns the number of bytes, possibly zero [B].
    pub(super) fn fill(&mut self, room: &mut [u8]) -> u64 {
        let mut socket = &self.socket;
        let read = match &mut self.stamps {
            None => socket.read(room),
            Some(stamps) => Stamped { socket, stamps }.read(room),
        };
        let read = match read {
            Ok(read) if read > 0 => read,
            Err(error) if is_transient(&error) => return 0,
            Ok(_) | Err(_) => {
                self.broken = true;
                return 0;
            }
        };
        if self.tls.is_handshaking() {
            if self.handshake >= MAX_TLS_HANDSHAKE {
                self.broken = true;
                return 0;
            }
            self.handshake += read as u64;
        }
        let mut rest = &room[..read];
        while !rest.is_empty() && !self.broken {
            // An error or the end of TLS also ends the connection. Earlier bytes are still used.
            self.broken = !matches!(self.tls.read_tls(&mut rest), Ok(1..));
            self.broken |= self.tls.process_new_packets().is_err();
            self.decrypt();
        }
        read as u64
    }

    fn decrypt(&mut self) {
        let mut reader = self.tls.reader();
        loop {
            match reader.fill_buf() {
                Ok([]) => return self.broken = true,
                Ok(record) => {
                    let len = record.len();
                    self.inbuf.extend_from_slice(record);
                    reader.consume(len);
                }
                Err(error) => return self.broken |= !is_transient(&error),
            }
        }
    }

    /// The size of the buffers [B]: decrypted bytes, encrypted bytes to send, and the bytes of a TLS handshake.
    pub(super) fn buffered(&self) -> u64 {
        let handshake = if self.tls.is_handshaking() { self.handshake } else { 0 };
        let datagrams = self.datagrams.as_ref().map_or(0, |state| state.memory());
        self.inbuf.capacity() as u64 + self.unsent + handshake + datagrams
    }

    pub(super) fn decrypted(&mut self) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.inbuf);
        all.drain(..std::mem::take(&mut self.taken));
        all
    }

    /// Sets the decrypted bytes that arrived after the end of the link handshake.
    pub(super) fn put_back(&mut self, bytes: Vec<u8>) {
        (self.inbuf, self.taken) = (bytes, 0);
    }

    pub(super) fn has_cell(&self) -> bool {
        matches!(front(&self.inbuf[self.taken..], IdLen::Four), Front::Cell(..))
    }

    /// Moves circuit cells to `into`. Stops after the cell that reaches `limit` [B].
    pub(super) fn take_cells(&mut self, limit: u64, into: &mut VecDeque<LiveCell>) {
        let mut taken = 0;
        while taken < limit {
            let Front::Cell(frame, len) = front(&self.inbuf[self.taken..], IdLen::Four) else { break };
            if let Incoming::Cell(cell) = Incoming::of(&frame, self.extended) {
                into.push_back(cell);
            }
            self.taken += len;
            taken += len as u64;
        }
        self.compact();
    }

    /// Takes the body of the next cell about datagrams. Skips all other cells.
    pub(super) fn take_control(&mut self) -> Option<Vec<u8>> {
        let mut body = None;
        while body.is_none()
            && let Front::Cell(frame, len) = front(&self.inbuf[self.taken..], IdLen::Four)
        {
            body = (frame.command == command::DATAGRAMS).then(|| frame.body.to_vec());
            self.taken += len;
        }
        self.compact();
        body
    }

    /// Whether the relay can read without a report of epoll.
    pub(super) fn has_input(&self) -> bool {
        let has_datagrams = |state: &LinkDatagrams| state.is_chosen && state.has_input();
        self.has_cell() || self.datagrams.as_deref().is_some_and(has_datagrams)
    }

    /// Whether the link's datagrams leave over UDP.
    pub(super) fn uses_udp(&self) -> bool {
        self.datagrams.as_deref().is_some_and(LinkDatagrams::uses_udp)
    }

    /// Frees the consumed bytes.
    fn compact(&mut self) {
        if self.taken == self.inbuf.len() {
            self.inbuf.clear();
            self.inbuf.shrink_to(KEPT);
            self.taken = 0;
        } else if self.taken >= self.inbuf.len() - self.taken {
            // Moves the remaining bytes only if they are fewer than the consumed bytes.
            self.inbuf.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Encrypts a record. [`flush`](Self::flush) sends it.
    pub(super) fn encrypt(&mut self, bytes: &[u8]) {
        // The buffer of TLS is unbounded. The caller checks that it is empty.
        self.broken |= self.tls.writer().write_all(bytes).is_err();
        self.unsent += bytes.len() as u64 + RECORD_OVERHEAD;
    }

    /// Sends encrypted bytes until the socket is full. Returns the number of sent bytes [B].
    pub(super) fn flush(&mut self) -> u64 {
        let mut sent = 0;
        while self.tls.wants_write() && !self.broken {
            match self.tls.write_tls(&mut self.socket) {
                Ok(written) => sent += written as u64,
                Err(error) if is_transient(&error) => break,
                Err(_) => self.broken = true,
            }
        }
        if let Some(stamps) = &mut self.stamps {
            stamps.wrote(sent);
        }
        self.sent += sent;
        // Bytes of the TLS handshake were sent, but not counted.
        self.unsent = if self.tls.wants_write() { self.unsent.saturating_sub(sent) } else { 0 };
        sent
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.tls.wants_write()
    }
}

/// Whether the same call may succeed later.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
