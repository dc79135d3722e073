//! Transfers of a known byte sequence in both directions at the same time, with a check by SHA-256.

#![allow(dead_code, reason = "each test uses a part of this module")]

use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The size of one read or write [B], a multiple of eight.
const PIECE: usize = 1 << 16;

/// Fills `room` with the sequence from offset `at` on, a multiple of eight. The sequence has no
/// repetitions.
fn fill(at: u64, room: &mut [u8]) {
    for (place, eight) in room.chunks_mut(8).enumerate() {
        // SplitMix64 (Steele, Lea and Flood 2014) of the index of these eight bytes.
        let mut z = (at / 8 + place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        eight.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..eight.len()]);
    }
}

/// Calls `each` with the first `bytes` bytes of the sequence, in pieces.
fn pieces(bytes: u64, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut room, mut at) = (vec![0; PIECE], 0);
    while at < bytes {
        let len = PIECE.min((bytes - at) as usize);
        fill(at, &mut room[..len]);
        each(&room[..len])?;
        at += len as u64;
    }
    Ok(())
}

/// The SHA-256 of the first `bytes` bytes of the sequence.
pub(crate) fn sha256_of(bytes: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    pieces(bytes, |piece| {
        hash.update(piece);
        Ok(())
    })
    .expect("hashing cannot fail");
    hash.finalize().into()
}

/// Sends the first `bytes` bytes of the sequence.
pub(crate) fn send(to: &mut impl Write, bytes: u64) -> io::Result<()> {
    pieces(bytes, |piece| to.write_all(piece))
}

/// Receives up to `bytes` bytes, until the other end closes or resets the connection. Returns the
/// number of bytes and their SHA-256.
pub(crate) fn receive(from: &mut impl Read, bytes: u64) -> io::Result<(u64, [u8; 32])> {
    let (mut hash, mut room, mut received) = (Sha256::new(), vec![0; PIECE], 0);
    while received < bytes {
        let most = PIECE.min((bytes - received).try_into().unwrap_or(PIECE));
        match from.read(&mut room[..most]) {
            Ok(0) => break,
            Ok(len) => {
                hash.update(&room[..len]);
                received += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok((received, hash.finalize().into()))
}

/// The request to a server: the bytes that it will receive, and the bytes that it must send [B].
pub(crate) fn request(up: u64, down: u64) -> [u8; 16] {
    let mut request = [0; 16];
    request[..8].copy_from_slice(&up.to_be_bytes());
    request[8..].copy_from_slice(&down.to_be_bytes());
    request
}

/// Sends `up` bytes over a connection and receives `down` bytes at the same time. Then the server
/// reports the hash of the bytes that it received.
pub(crate) fn exchange(stream: &TcpStream, up: u64, down: u64) -> io::Result<()> {
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
    (&*stream).write_all(&request(up, down))?;
    let (sent, received) = std::thread::scope(|scope| {
        let sent = scope.spawn(|| send(&mut &*stream, up));
        let received = receive(&mut &*stream, down);
        (sent.join().expect("the thread does not panic"), received)
    });
    sent?;
    let (received, hash) = received?;
    if (received, hash) != (down, sha256_of(down)) {
        return wrong(&format!("the client received {received} of {down} B, or other bytes"));
    }
    let mut theirs = [0; 32];
    (&*stream).read_exact(&mut theirs)?;
    if theirs != sha256_of(up) {
        return wrong(&format!("the server did not receive the {up} B that the client sent"));
    }
    Ok(())
}

/// The server's side of a finished transfer: the received and the expected bytes [B].
#[derive(Debug)]
pub(crate) struct ServerResult {
    pub(crate) received: u64,
    pub(crate) expected: u64,
    pub(crate) result: io::Result<()>,
}

/// A server on loopback that answers exchanges with any client.
pub(crate) fn server() -> (SocketAddr, Receiver<ServerResult>) {
    server_at(Ipv4Addr::LOCALHOST)
}

/// A server at an address of the calling thread's network namespace.
pub(crate) fn server_at(address: Ipv4Addr) -> (SocketAddr, Receiver<ServerResult>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (ended, ends) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let ended = ended.clone();
            std::thread::spawn(move || answer(&socket, &ended));
        }
    });
    (address, ends)
}

fn answer(socket: &TcpStream, ended: &Sender<ServerResult>) {
    let mut received = (0, [0; 32]);
    let mut expected = 0;
    let mut all = || {
        // A client that disappears without FIN must not block the server forever.
        socket.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut request = [0; 16];
        (&*socket).read_exact(&mut request)?;
        let [up, down] = [0, 8].map(|at| u64::from_be_bytes(request[at..at + 8].try_into().unwrap()));
        expected = up;
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| send(&mut &*socket, down));
            received = receive(&mut &*socket, up)?;
            sent.join().expect("the thread does not panic")
        })?;
        (&*socket).write_all(&received.1)
    };
    let result = all();
    // The test may have ended.
    let _ = ended.send(ServerResult { received: received.0, expected, result });
}
