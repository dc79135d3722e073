//! Bytes that both sides know, sent both ways at once, and their SHA-256.

#![allow(dead_code, reason = "each test takes what it needs of this")]

use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What is written and read at a time [B]: a multiple of eight.
const PIECE: usize = 1 << 16;

/// The bytes of a sequence without repetitions from `at` on, which is a multiple of eight.
fn fill(at: u64, room: &mut [u8]) {
    for (place, eight) in room.chunks_mut(8).enumerate() {
        // SplitMix64 (Steele, Lea and Flood 2014), of the number of these eight.
        let mut z = (at / 8 + place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        eight.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..eight.len()]);
    }
}

/// Calls `each` with the first so many bytes of the sequence, piece by piece.
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

/// What the first so many bytes are to have.
pub(crate) fn sha256_of(bytes: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    pieces(bytes, |piece| {
        hash.update(piece);
        Ok(())
    })
    .expect("nothing is written");
    hash.finalize().into()
}

/// Says the first so many bytes.
pub(crate) fn say(to: &mut impl Write, bytes: u64) -> io::Result<()> {
    pieces(bytes, |piece| to.write_all(piece))
}

/// Hears so many bytes, or fewer if the other end says no more or breaks the connection; how many, and their SHA-256.
pub(crate) fn hear(from: &mut impl Read, bytes: u64) -> io::Result<(u64, [u8; 32])> {
    let (mut hash, mut room, mut came) = (Sha256::new(), vec![0; PIECE], 0);
    while came < bytes {
        let most = PIECE.min((bytes - came).try_into().unwrap_or(PIECE));
        match from.read(&mut room[..most]) {
            Ok(0) => break,
            Ok(len) => {
                hash.update(&room[..len]);
                came += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok((came, hash.finalize().into()))
}

/// What a server is asked for: how much it will hear and is to say [B].
pub(crate) fn request(up: u64, down: u64) -> [u8; 16] {
    let mut request = [0; 16];
    request[..8].copy_from_slice(&up.to_be_bytes());
    request[8..].copy_from_slice(&down.to_be_bytes());
    request
}

/// Says so many bytes over a connection and hears as many as `down`, both at once; then each side knows what came to the
/// other one.
pub(crate) fn exchange(stream: &TcpStream, up: u64, down: u64) -> io::Result<()> {
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
    (&*stream).write_all(&request(up, down))?;
    let (said, heard) = std::thread::scope(|scope| {
        let said = scope.spawn(|| say(&mut &*stream, up));
        let heard = hear(&mut &*stream, down);
        (said.join().expect("it does not panic"), heard)
    });
    said?;
    let (came, hash) = heard?;
    if (came, hash) != (down, sha256_of(down)) {
        return wrong(&format!("{came} of {down} B came down, or others"));
    }
    let mut theirs = [0; 32];
    (&*stream).read_exact(&mut theirs)?;
    if theirs != sha256_of(up) {
        return wrong(&format!("others than the {up} B that were sent up arrived"));
    }
    Ok(())
}

/// How a server's side of an exchange ended: how much came of how much [B].
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) came: u64,
    pub(crate) of: u64,
    pub(crate) result: io::Result<()>,
}

/// A server on loopback that answers exchanges with any client.
pub(crate) fn server() -> (SocketAddr, Receiver<Ended>) {
    server_at(Ipv4Addr::LOCALHOST)
}

/// The same at an address of the calling thread's network namespace.
pub(crate) fn server_at(address: Ipv4Addr) -> (SocketAddr, Receiver<Ended>) {
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

fn answer(socket: &TcpStream, ended: &Sender<Ended>) {
    let mut came = (0, [0; 32]);
    let mut of = 0;
    let mut all = || {
        // Whoever is gone without a word is no reason to wait for ever.
        socket.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut request = [0; 16];
        (&*socket).read_exact(&mut request)?;
        let [up, down] = [0, 8].map(|at| u64::from_be_bytes(request[at..at + 8].try_into().unwrap()));
        of = up;
        std::thread::scope(|scope| {
            let said = scope.spawn(|| say(&mut &*socket, down));
            came = hear(&mut &*socket, up)?;
            said.join().expect("it does not panic")
        })?;
        (&*socket).write_all(&came.1)
    };
    let result = all();
    // The test may be over.
    let _ = ended.send(Ended { came: came.0, of, result });
}
