//! A server. It reads a request, answers with the requested number of bytes, and closes the connection.

use crate::Error;
use crate::error::broken;
use crate::plan::REQUEST_HEAD;
use penstock_live::node::SocketTcp;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::Builder;

/// Size of a write [B].
const BLOCK: usize = 64 << 10;

/// A request of `bytes` bytes, for a download of `size` bytes [B].
pub fn request(bytes: u64, size: u64) -> Vec<u8> {
    let mut request = vec![0; (bytes as usize).max(REQUEST_HEAD)];
    request[..8].copy_from_slice(&size.to_be_bytes());
    request[8..REQUEST_HEAD].copy_from_slice(&(bytes as u32).to_be_bytes());
    request
}

/// Starts a server in the network namespace of the calling thread. The server runs until the process ends.
pub fn serve(at: SocketAddr, tcp: SocketTcp) -> Result<(), Error> {
    let fail = |error: std::io::Error| broken!("a server cannot be started: {error}");
    let listener = TcpListener::bind(at).map_err(fail)?;
    tcp.apply(&listener).map_err(fail)?;
    let accepts = Builder::new().name("server".to_owned()).spawn(move || {
        for socket in listener.incoming().flatten() {
            // If no thread can start, no answer is sent, and the download fails.
            let _ = Builder::new().spawn(move || answer(socket));
        }
    });
    accepts.map(drop).map_err(fail)
}

/// Serves one connection. An error needs no report, because the client notices missing bytes.
fn answer(mut socket: TcpStream) -> std::io::Result<()> {
    let mut head = [0; REQUEST_HEAD];
    socket.read_exact(&mut head)?;
    let [size, bytes] =
        [&head[..8], &head[8..]].map(|part| part.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    std::io::copy(&mut (&mut socket).take(bytes.saturating_sub(REQUEST_HEAD as u64)), &mut std::io::sink())?;
    let (block, mut left) = (vec![0; BLOCK], size);
    while left > 0 {
        let now = left.min(BLOCK as u64);
        socket.write_all(&block[..now as usize])?;
        left -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_requested_bytes() {
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        serve(at, SocketTcp::default()).unwrap();
        for (bytes, size) in [(12, 0), (200, 1), (2000, 200_000)] {
            let mut socket = TcpStream::connect(at).unwrap();
            socket.write_all(&request(bytes, size)).unwrap();
            assert_eq!(std::io::copy(&mut socket, &mut std::io::sink()).unwrap(), size);
        }
    }
}
