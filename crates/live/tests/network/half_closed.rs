//! Streams of which one side closes before the other. Tor has no half-closed streams.
//!
//! C tor 0.4.9 sends END when one side of a stream closes (`connection_edge_reached_eof()`). Data
//! that was sent before arrives. The other direction carries no more data. The other end of the
//! circuit delivers all data before the END and then closes
//! (`connection_edge_process_relay_cell()`, `connection_mark_and_flush()`).

use super::exchange::{receive, send, sha256_of};
use super::open;
use super::testnet::tor::Tor;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The size of a transfer in one direction [B]: more than sockets and windows hold.
const LARGE: u64 = 20_000_000;
/// The time without reads, in which all buffers on the path fill.
const READ_PAUSE: Duration = Duration::from_secs(2);

/// A server for one connection. The receiver returns the result of `serve`.
fn serve_once<T: Send + 'static>(
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, Receiver<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The test may have ended.
        let _ = sender.send(serve(socket));
    });
    (address, receiver)
}

/// The number of bytes until the other side closes or resets the connection [B].
fn read_rest(mut socket: &TcpStream) -> usize {
    let (mut received, mut room) = (0, [0; 4096]);
    loop {
        match socket.read(&mut room) {
            Ok(0) => return received,
            Ok(len) => received += len,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return received,
            Err(error) => panic!("the stream does not end: {error}"),
        }
    }
}

/// Checks that an exit, Penstock or C tor, handles half-closed streams as C tor does.
pub(super) fn assert_same_as_c_tor(client: &Tor, name: &str) {
    // The client closes its sending side and keeps reading.
    let (server, done) = serve_once(|socket| {
        thread::sleep(READ_PAUSE);
        let received = receive(&mut &socket, u64::MAX);
        // No program reads this data any more. Linux accepts it or reports an error.
        let _ = send(&mut &socket, 100_000);
        received
    });
    let stream = open(client, server);
    send(&mut &stream, LARGE).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answered = read_rest(&stream);
    let received = done.recv_timeout(Duration::from_secs(60)).expect("the server's thread ends");
    let (received, hash) = received.expect("the server reads the end of the stream");
    assert_eq!((received, hash), (LARGE, sha256_of(LARGE)), "{name}: data sent before the end arrives");
    assert_eq!(answered, 0, "{name}: a client that closed its sending side receives no answer");

    // The server closes its sending side and keeps reading.
    let (server, done) = serve_once(|socket| {
        send(&mut &socket, LARGE).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        read_rest(&socket)
    });
    let stream = open(client, server);
    thread::sleep(READ_PAUSE);
    let (received, hash) = receive(&mut &stream, u64::MAX).expect("the client reads the end of the stream");
    assert_eq!((received, hash), (LARGE, sha256_of(LARGE)), "{name}: data sent before the end arrives");
    let _ = send(&mut &stream, 100_000);
    let received = done.recv_timeout(Duration::from_secs(60)).expect("the server's thread ends");
    assert_eq!(received, 0, "{name}: a server that closed its sending side receives no more data");

    // The server resets the connection during a large transfer. The client notices it, and a new
    // stream works.
    let (server, done) = serve_once(|socket| {
        // Without this pause, the server could reset the connection before the exit notices that it
        // is established.
        thread::sleep(Duration::from_millis(300));
        let socket2 = socket2::Socket::from(socket);
        socket2.set_linger(Some(Duration::ZERO)).unwrap();
        send(&mut &TcpStream::from(socket2), 1_000_000).is_ok()
    });
    let stream = open(client, server);
    let received = read_rest(&stream);
    assert!(done.recv_timeout(Duration::from_secs(60)).unwrap());
    println!("{name}: {received} of 1000000 B arrived before the server reset the connection");
    assert!(received <= 1_000_000);
    let (server, _) = serve_once(|socket| send(&mut &socket, 1000));
    assert_eq!(read_rest(&open(client, server)), 1000, "{name}");
}
