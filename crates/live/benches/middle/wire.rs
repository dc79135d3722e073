//! A TLS connection of the load or the ceiling, with rustls and few system calls.

use penstock_link::certs::Credentials;
use penstock_link::keys::Keys;
use penstock_live::clock::Clock;
use penstock_live::tls::TlsConfigs;
use rustls::Connection;
use rustls::crypto::{CryptoProvider, ring};
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Maximum size of one read [B].
const ROOM: usize = 64 * 1024;

/// TLS settings with a single cipher suite, so that all programs use the same. C tor relays negotiate this suite.
pub(crate) fn tls(credentials: &Credentials) -> TlsConfigs {
    let cipher_suites = vec![ring::cipher_suite::TLS13_AES_256_GCM_SHA384];
    TlsConfigs::with(credentials, Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() }))
}

/// New random keys, for a node whose identity does not matter.
pub(crate) fn random_identity() -> (Keys, Credentials) {
    let (now, mut rng) = (Clock::start().date(), rand::rng());
    let keys = Keys::generate(&mut rng, now);
    let credentials = Credentials::new(&keys, &mut rng, now, ["www.a.com", "www.b.com"]);
    (keys, credentials)
}

pub(crate) struct Wire {
    pub(crate) socket: TcpStream,
    pub(crate) tls: Connection,
    room: Vec<u8>,
}

impl Wire {
    pub(crate) fn drive_handshake(mut socket: TcpStream, mut tls: Connection) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        tls.set_buffer_limit(None);
        while tls.is_handshaking() || tls.wants_write() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Wire { socket, tls, room: vec![0; ROOM] })
    }

    /// Reads once from the socket. Calls `take` for each decrypted record. Returns whether there was a record.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        // The record arrived together with the end of the TLS handshake.
        if drain(&mut self.tls, &mut take) {
            return Ok(true);
        }
        let read = match self.socket.read(&mut self.room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            other => other?,
        };
        let mut rest = &self.room[..read];
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest)?;
            self.tls.process_new_packets().map_err(io::Error::other)?;
            drain(&mut self.tls, &mut take);
        }
        Ok(true)
    }

    /// Encrypts a record. The caller then calls [`flush`](Self::flush).
    pub(crate) fn put(&mut self, record: &[u8]) {
        self.tls.writer().write_all(record).expect("the caller flushes before the next record");
    }

    /// Sends encrypted bytes. Returns whether the socket accepted all of them.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                other => other?,
            };
        }
        Ok(true)
    }
}

/// Calls `take` for all decrypted bytes. Returns whether there were any.
fn drain(tls: &mut Connection, take: &mut impl FnMut(&[u8])) -> bool {
    let (mut reader, mut some) = (tls.reader(), false);
    while let Ok(record) = reader.fill_buf()
        && !record.is_empty()
    {
        take(record);
        let taken = record.len();
        reader.consume(taken);
        some = true;
    }
    some
}
