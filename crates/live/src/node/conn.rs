//! One TCP connection with TLS, and what it is to the node.

use super::stamps::{Stamped, Stamps};
use penstock_core::kernel::Interest;
use penstock_core::{PeerId, Tag};
use penstock_link::cell::{Front, IdLen, Incoming, LiveCell, front};
use rustls::Connection;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;

/// Most that is read from a socket at once [B]: the greatest I/O quantum.
pub(super) const READ_SIZE: usize = 16 * 1024;

/// A connection of a channel that is there, or to be.
pub(super) struct Conn {
    pub(super) socket: TcpStream,
    pub(super) tls: Connection,
    /// What TLS decrypted and nobody has taken, from `taken` on.
    inbuf: Vec<u8>,
    taken: usize,
    /// Whose it is; a connection to us has none before its handshake is over.
    pub(super) peer: Option<PeerId>,
    /// What the relay wants to hear of it.
    pub(super) interest: Interest,
    /// What the poller watches it for.
    pub(super) watched: Option<Interest>,
    /// The connection is gone.
    pub(super) broken: bool,
    /// When its bytes came and left, if that is asked.
    pub(super) stamps: Option<Stamps>,
    /// Followed cells of which TLS may still have a part.
    pub(super) unsent_tags: Vec<Tag>,
    /// What the socket took since it was there [B].
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

    /// Reads once from the socket, by way of `room` and no more than that; returns how much it was [B]. Nothing may be there, or
    /// no more.
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
            // Whoever breaks TLS or ends it loses the connection; what came before is still taken.
            self.broken = !matches!(self.tls.read_tls(&mut rest), Ok(1..));
            self.broken |= self.tls.process_new_packets().is_err();
            self.decrypt();
        }
        read as u64
    }

    /// Takes what TLS has decrypted.
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

    /// What was decrypted and not taken.
    pub(super) fn decrypted(&mut self) -> Vec<u8> {
        self.inbuf.split_off(std::mem::take(&mut self.taken))
    }

    /// Puts back what belongs to cells.
    pub(super) fn put_back(&mut self, bytes: Vec<u8>) {
        (self.inbuf, self.taken) = (bytes, 0);
    }

    /// Whether a whole cell was decrypted.
    pub(super) fn has_cell(&self) -> bool {
        matches!(front(&self.inbuf[self.taken..], IdLen::Four), Front::Cell(..))
    }

    /// Takes cells of circuits until they are worth `limit` [B].
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
            // What is moved is less than what was taken.
            self.inbuf.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Encrypts a record, which [`flush`](Self::flush) sends.
    pub(super) fn encrypt(&mut self, bytes: &[u8]) {
        // Its buffer has no bound of its own: whoever calls asks first whether anything is left from before.
        self.broken |= self.tls.writer().write_all(bytes).is_err();
    }

    /// Sends what is encrypted, as far as the socket takes it; returns how much that was [B].
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

    /// Something encrypted waits for the socket.
    pub(super) fn is_stuck(&self) -> bool {
        self.tls.wants_write()
    }
}

/// Not now, but later.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
