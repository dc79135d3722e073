//! A TLS connection of the load, or of the ceiling: rustls, few calls of the system, nothing of Tor.

use penstock_link::certs::Credentials;
use penstock_link::keys::Keys;
use penstock_live::clock::Clock;
use penstock_live::tls::TlsConfigs;
use rustls::Connection;
use rustls::crypto::{CryptoProvider, ring};
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Most that is taken from a socket at once [B].
const ROOM: usize = 64 * 1024;

/// Settings with one cipher suite alone, so that all that is measured speaks it: what C tor's relays agree upon.
pub(crate) fn tls(credentials: &Credentials) -> TlsConfigs {
    let cipher_suites = vec![ring::cipher_suite::TLS13_AES_256_GCM_SHA384];
    TlsConfigs::with(credentials, Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() }))
}

/// Who somebody is of whom nobody needs to know it.
pub(crate) fn anybody() -> (Keys, Credentials) {
    let (now, mut rng) = (Clock::start().date(), rand::rng());
    let keys = Keys::generate(&mut rng, now);
    let credentials = Credentials::new(&keys, &mut rng, now, ["www.a.com", "www.b.com"]);
    (keys, credentials)
}

/// One connection.
pub(crate) struct Wire {
    pub(crate) socket: TcpStream,
    pub(crate) tls: Connection,
    room: Vec<u8>,
}

impl Wire {
    /// Waits until TLS is up.
    pub(crate) fn drive_handshake(mut socket: TcpStream, mut tls: Connection) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        tls.set_buffer_limit(None);
        while tls.is_handshaking() || tls.wants_write() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Wire { socket, tls, room: vec![0; ROOM] })
    }

    /// Reads once, and hands over what was encrypted in it, record by record; whether there was something.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        // It came with the end of TLS's handshake.
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

    /// Encrypts a record, which [`flush`](Self::flush) sends.
    pub(crate) fn put(&mut self, record: &[u8]) {
        self.tls.writer().write_all(record).expect("whoever puts flushes first");
    }

    /// Sends what the socket takes; whether that was all.
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

/// Hands over what is decrypted; whether there was something.
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
