//! Timed downloads of a small file.

use crate::exchange::{receive, request, sha256_of};
use penstock_live::clock::Clock;
use penstock_units::Instant;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The paper's file [B] (section 3.3.2).
const FILE: u64 = 87_000;

/// The times of a download, since its client asked for a stream [s].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The stream is open.
    pub(crate) connected: f64,
    pub(crate) first_byte: f64,
    pub(crate) last_byte: f64,
}

/// Opens a stream and downloads the file.
pub(crate) fn fetch(open: impl FnOnce() -> io::Result<TcpStream>) -> io::Result<Times> {
    let clock = Clock::start();
    let passed = || clock.now().since(Instant::ZERO).as_secs_f64();
    let mut stream = open()?;
    let connected = passed();
    stream.write_all(&request(0, FILE))?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    let first_byte = passed();
    let found = receive(&mut (&first[..]).chain(&stream), FILE)?;
    let last_byte = passed();
    if found != (FILE, sha256_of(FILE)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file has other bytes"));
    }
    Ok(Times { connected, first_byte, last_byte })
}
