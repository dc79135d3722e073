//! The ceiling of the benchmark: a program with only the work that every relay must do. It removes TLS, applies one
//! AES keystream per circuit, adds TLS, and uses sockets.
//!
//! This program does not route circuits. It forwards each TLS record as one record, and uses the links of the other
//! side in turn.

use crate::load::{CIRCUITS, LINKS};
use crate::wire::{Wire, random_identity, tls};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use penstock_link::cell::CELL_LEN;
use penstock_link::crypto::KeyStream;
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Serves one load, until the load closes its connections.
pub(crate) fn run(address: SocketAddr) -> io::Result<()> {
    let (_, credentials) = random_identity();
    let tls = tls(&credentials);
    let listener = TcpListener::bind(address)?;
    let mut wires = Vec::new();
    while wires.len() < 2 * LINKS {
        let (socket, _) = listener.accept()?;
        // The load connects once without data, to test whether the ceiling listens.
        wires.extend(Wire::drive_handshake(socket, tls.accept()).ok());
    }
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (place, wire) in wires.iter().enumerate() {
        wire.socket.set_nonblocking(true)?;
        epoll.add(&wire.socket, EpollEvent::new(EpollFlags::EPOLLIN, place as u64))?;
    }
    // One keystream for each circuit and direction.
    let mut layers: Vec<_> = (0..2 * CIRCUITS).map(|n| KeyStream::new(&[n as u8; 16])).collect();
    let mut waits = [false; 2 * LINKS];
    let mut events = [EpollEvent::empty(); 2 * LINKS];
    let (mut bytes, mut ends, mut turn) = (Vec::new(), Vec::new(), 0);
    loop {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..ready] {
            let from = event.data() as usize;
            let other = if from < LINKS { LINKS } else { 0 };
            let read = wires[from].read(|record| {
                bytes.extend_from_slice(record);
                ends.push(bytes.len());
            });
            match read {
                Err(error) if is_end(&error) => return Ok(()),
                read => read?,
            };
            // Each record of the load consists of whole cells.
            for cell in bytes.chunks_exact_mut(CELL_LEN) {
                let circuit = usize::from(cell[3]) % CIRCUITS;
                layers[circuit + if from < LINKS { CIRCUITS } else { 0 }].apply(&mut cell[5..]);
            }
            let mut begin = 0;
            for end in ends.drain(..) {
                turn = (turn + 1) % LINKS;
                wires[other + turn].put(&bytes[begin..end]);
                begin = end;
            }
            bytes.clear();
        }
        // Unsent bytes are limited, because the load sends at most a window of cells per circuit.
        for (place, (wire, waits)) in wires.iter_mut().zip(&mut waits).enumerate() {
            let before = std::mem::replace(waits, !wire.flush()?);
            if *waits != before {
                let mut flags = EpollFlags::EPOLLIN;
                flags.set(EpollFlags::EPOLLOUT, *waits);
                epoll.modify(&wire.socket, &mut EpollEvent::new(flags, place as u64))?;
            }
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}
