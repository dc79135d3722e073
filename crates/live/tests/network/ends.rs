//! How streams end that one side closes before the other: Tor knows no half-closed streams.
//!
//! C tor 0.4.9 ends a stream with END when either of its ends says no more (`connection_edge_reached_eof()`): what was under way
//! before arrives, and nothing goes the other way any more. The other side of the circuit hands on all that came before END and
//! closes (`connection_edge_process_relay_cell()`, `connection_mark_and_flush()`).

use super::exchange::{hear, say, sha256_of};
use super::open;
use super::testnet::tor::Tor;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// What goes one way [B]: more than sockets and windows hold.
const MUCH: u64 = 20_000_000;
/// Nobody reads for so long, so that what is under way fills all that there is.
const DEAF: Duration = Duration::from_secs(2);

/// A server for one connection; what it makes of it.
fn once<T: Send + 'static>(serve: impl FnOnce(TcpStream) -> T + Send + 'static) -> (SocketAddr, Receiver<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (said, hears) = channel();
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The test may be over.
        let _ = said.send(serve(socket));
    });
    (address, hears)
}

/// All that comes until the other side closes, or breaks the connection [B].
fn rest(mut socket: &TcpStream) -> usize {
    let (mut came, mut room) = (0, [0; 4096]);
    loop {
        match socket.read(&mut room) {
            Ok(0) => return came,
            Ok(len) => came += len,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return came,
            Err(error) => panic!("it does not end: {error}"),
        }
    }
}

/// An exit, ours or C tor's, does as C tor's with streams of which one side is closed.
pub(super) fn half_closed(client: &Tor, name: &str) {
    // The client says no more, and would listen.
    let (server, done) = once(|socket| {
        thread::sleep(DEAF);
        let heard = hear(&mut &socket, u64::MAX);
        // Nobody hears this any more; Linux takes it, or says that nobody does.
        let _ = say(&mut &socket, 100_000);
        heard
    });
    let stream = open(client, server);
    say(&mut &stream, MUCH).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answered = rest(&stream);
    let heard = done.recv_timeout(Duration::from_secs(60)).expect("the server hears of the end");
    let (came, hash) = heard.expect("the server hears an end");
    assert_eq!((came, hash), (MUCH, sha256_of(MUCH)), "{name}: what was sent before the end arrives");
    assert_eq!(answered, 0, "{name}: a client that closed its side hears no answer");

    // The server says no more, and would listen.
    let (server, done) = once(|socket| {
        say(&mut &socket, MUCH).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        rest(&socket)
    });
    let stream = open(client, server);
    thread::sleep(DEAF);
    let (came, hash) = hear(&mut &stream, u64::MAX).expect("the client hears an end");
    assert_eq!((came, hash), (MUCH, sha256_of(MUCH)), "{name}: what was sent before the end arrives");
    let _ = say(&mut &stream, 100_000);
    let heard = done.recv_timeout(Duration::from_secs(60)).expect("the server hears of the end");
    assert_eq!(heard, 0, "{name}: a server that closed its side hears no more");

    // The server breaks the connection while much is under way: the client hears of it, and another stream is carried.
    let (server, done) = once(|socket| {
        // Else it could be gone before the exit sees that it is there, and the stream never begins.
        thread::sleep(Duration::from_millis(300));
        let socket2 = socket2::Socket::from(socket);
        socket2.set_linger(Some(Duration::ZERO)).unwrap();
        say(&mut &TcpStream::from(socket2), 1_000_000).is_ok()
    });
    let stream = open(client, server);
    let came = rest(&stream);
    assert!(done.recv_timeout(Duration::from_secs(60)).unwrap());
    println!("{name}: {came} of 1000000 B came before the server reset the connection");
    assert!(came <= 1_000_000);
    let (server, _) = once(|socket| say(&mut &socket, 1000));
    assert_eq!(rest(&open(client, server)), 1000, "{name}");
}
