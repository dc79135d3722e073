//! One TCP connection with TLS.

use super::stamps::{Stamped, Stamps};
use penstock_core::kernel::Interest;
use penstock_core::{PeerId, Tag};
use penstock_link::cell::{Front, IdLen, Incoming, LiveCell, front};
use rustls::Connection;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;

/// The most bytes of one read from a socket [B]: the largest I/O quantum.
pub(super) const READ_SIZE: usize = 16 * 1024;

/// The connection of a channel, or of a link handshake.
pub(super) struct Conn {
    pub(super) socket: TcpStream,
    pub(super) tls: Connection,
    /// Decrypted bytes; those before `taken` are consumed.
    inbuf: Vec<u8>,
    taken: usize,
    /// The peer; `None` on an accepted connection before the end of its handshake.
    pub(super) peer: Option<PeerId>,
    /// The readiness that the core wants.
    pub(super) interest: Interest,
    /// The readiness that epoll reports.
    pub(super) watched: Option<Interest>,
    /// The connection is closed or failed.
    pub(super) broken: bool,
    /// The kernel's timestamps, if cells are traced.
    pub(super) stamps: Option<Stamps>,
    /// Traced cells that TLS may still hold in part.
    pub(super) unsent_tags: Vec<Tag>,
    /// Bytes that the socket accepted so far [B].
    pub(super) sent: u64,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Conn {
    pub(super) fn new(socket: TcpStream, tls: Connection, peer: Option<PeerId>) -> Self {
        Conn {
            socket,
            tls,
            inbuf: Vec::new(),
            taken: 0,
            peer,
            interest: Interest::default(),
            watched: None,
            broken: false,
            stamps: None,
            unsent_tags: Vec::new(),
            sent: 0,
        }
    }

    /// Reads once from the socket through `room`; returns the number of bytes, which may be zero [B].
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
        let mut rest = &room[..read];
        while !rest.is_empty() && !self.broken {
            // A TLS error or the end of TLS ends the connection. Bytes before it are still used.
            self.broken = !matches!(self.tls.read_tls(&mut rest), Ok(1..));
            self.broken |= self.tls.process_new_packets().is_err();
            self.decrypt();
        }
        read as u64
    }

    /// Moves the decrypted bytes into the buffer.
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

    /// Takes all decrypted bytes.
    pub(super) fn decrypted(&mut self) -> Vec<u8> {
        self.inbuf.split_off(std::mem::take(&mut self.taken))
    }

    /// Puts bytes back that belong to cells.
    pub(super) fn put_back(&mut self, bytes: Vec<u8>) {
        (self.inbuf, self.taken) = (bytes, 0);
    }

    /// Whether a whole cell is in the buffer.
    pub(super) fn has_cell(&self) -> bool {
        matches!(front(&self.inbuf[self.taken..], IdLen::Four), Front::Cell(..))
    }

    /// Takes circuit cells of at most `limit` bytes in sum, rounded up to whole cells.
    pub(super) fn take_cells(&mut self, limit: u64, into: &mut VecDeque<LiveCell>) {
        let mut taken = 0;
        while taken < limit {
            let Front::Cell(frame, len) = front(&self.inbuf[self.taken..], IdLen::Four) else { break };
            if let Incoming::Cell(cell) = Incoming::of(&frame, false) {
                into.push_back(cell);
            }
            self.taken += len;
            taken += len as u64;
        }
        if self.taken == self.inbuf.len() {
            self.inbuf.clear();
            self.taken = 0;
        } else if self.taken >= self.inbuf.len() - self.taken {
            // Fewer bytes are moved than were taken.
            self.inbuf.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Encrypts a record; [`flush`](Self::flush) sends it.
    pub(super) fn encrypt(&mut self, bytes: &[u8]) {
        // The buffer of TLS is unbounded: the caller checks that it is empty.
        self.broken |= self.tls.writer().write_all(bytes).is_err();
    }

    /// Sends encrypted bytes until the socket is full; returns the number of bytes sent [B].
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
        sent
    }

    /// Whether encrypted bytes wait for the socket.
    pub(super) fn is_stuck(&self) -> bool {
        self.tls.wants_write()
    }
}

/// Whether the call may succeed later.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
