//! Nodes of ours in threads, and a client by hand.

#![allow(dead_code, reason = "each test takes what it needs of this")]

pub(crate) mod exchange;
pub(crate) mod seen;

use penstock_core::scheduler::SchedulerConfig;
use penstock_core::{Cell, CircId, Command, RelayConfig, StreamId};
use penstock_link::cell::{
    Front, Handshake, HandshakeKind, IdLen, Incoming, LinkSpec, LiveCell, LivePayload, RelayMessage, Target,
    front, read,
};
use penstock_link::certs::Credentials;
use penstock_link::crypto::ntor;
use penstock_link::crypto::tor1::{self, Layer};
use penstock_link::descriptor::{ExitPolicy, Private};
use penstock_link::handshake::{Expected, Link};
use penstock_link::keys::Keys;
use penstock_live::clock::Clock;
use penstock_live::node::{self, Node, NodeConfig};
use penstock_live::tls::{TlsConfigs, certificate_sha256, export};
use rustls::Connection;
use seen::Window;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tor_llcrypto::pk::curve25519::PublicKey;

/// A relay as a client knows it.
pub(crate) type Hop = (LinkSpec, PublicKey);

/// A node in a thread of its own, until the test is over.
pub(crate) struct Running {
    pub(crate) spec: LinkSpec,
    pub(crate) onion: PublicKey,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) thread: Option<JoinHandle<()>>,
    /// The thread's number.
    pub(crate) task: i32,
    /// What it looks like.
    pub(crate) window: Window,
}

impl Running {
    pub(crate) fn start(scheduler: SchedulerConfig) -> Self {
        Running::start_with(scheduler, node::HANDSHAKE_TIMEOUT)
    }

    /// Links' handshakes may take so long.
    pub(crate) fn start_with(
        scheduler: SchedulerConfig,
        handshake_timeout: penstock_units::Duration,
    ) -> Self {
        Running::start_as(|config| {
            (config.relay.scheduler, config.handshake_timeout) = (scheduler, handshake_timeout)
        })
    }

    /// Set up otherwise.
    pub(crate) fn start_as(change: impl FnOnce(&mut NodeConfig)) -> Self {
        Running::start_and(change, |_| {})
    }

    /// Set up otherwise; does this first.
    pub(crate) fn start_and(
        change: impl FnOnce(&mut NodeConfig),
        begin: impl FnOnce(&mut Node) + Send + 'static,
    ) -> Self {
        let localhost = Ipv4Addr::LOCALHOST.into();
        let rules = vec!["accept *:*".parse().unwrap()];
        let relay = RelayConfig { authenticated_sendmes: true, ..RelayConfig::default() };
        let policy = ExitPolicy::new(rules, Private::AsRules, Vec::new());
        let mut config = NodeConfig {
            extend_to_private: true,
            single_hop: true,
            ..NodeConfig::new(SocketAddr::new(localhost, 0), localhost, relay, policy)
        };
        change(&mut config);
        let keys = Keys::generate(&mut rand::rng(), config.clock.date());
        let onion = keys.identities().onion[0].public;
        let (said, hears) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let window = Window::default();
        let (flag, looks) = (stop.clone(), window.clone());
        let thread = std::thread::spawn(move || {
            let mut node = Node::bind(config, keys).unwrap();
            begin(&mut node);
            said.send((node.link_spec().unwrap(), nix::unistd::gettid().as_raw())).unwrap();
            while !flag.load(Ordering::Relaxed) {
                node.turn().unwrap();
                looks.look(&node);
            }
        });
        let (spec, task) = hears.recv().unwrap();
        Running { spec, onion, stop, thread: Some(thread), task, window }
    }
}

impl Running {
    /// The folder of its thread in /proc.
    pub(crate) fn task(&self) -> std::path::PathBuf {
        format!("/proc/self/task/{}", self.task).into()
    }

    /// What a client must know to extend to it.
    pub(crate) fn hop(&self) -> Hop {
        (self.spec.clone(), self.onion)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("it was started").expect("a node does not panic");
        }
    }
}

/// A client's link to its guard.
pub(crate) struct Client {
    socket: TcpStream,
    tls: Connection,
    inbuf: Vec<u8>,
    /// At most so many bytes go in one write [B].
    chunk: usize,
    pub(crate) id: CircId,
    pub(crate) layers: Vec<Layer>,
    /// DATA cells of the circuit.
    cells: u32,
    /// So many more may be sent on it [cell], and what proves those that are to be acknowledged; of the circuit that was built
    /// last.
    window: i32,
    unproven: VecDeque<tor1::Tag>,
}

/// What a client knows of a circuit that it does not use now.
pub(crate) type Circuit = (CircId, Vec<Layer>, u32);

/// A socket that takes few bytes at a time.
struct Slow<'a>(&'a mut TcpStream, usize);

impl Write for Slow<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(self.1)])
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A connection from an address of this machine.
pub(crate) fn dial(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// TLS to a node, and no more.
pub(crate) fn tls_to(address: SocketAddr, chunk: usize) -> (TcpStream, Connection) {
    tls_over(TcpStream::connect(address).unwrap(), chunk)
}

fn tls_over(mut socket: TcpStream, chunk: usize) -> (TcpStream, Connection) {
    let (_, credentials) = nobody();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut tls = TlsConfigs::new(credentials).connect();
    while tls.is_handshaking() {
        while tls.wants_write() {
            tls.write_tls(&mut Slow(&mut socket, chunk)).unwrap();
        }
        if tls.is_handshaking() {
            tls.read_tls(&mut socket).unwrap();
            tls.process_new_packets().unwrap();
        }
    }
    (socket, tls)
}

/// Who the tests are where they have to be someone: made once, since it takes a second.
pub(crate) fn nobody() -> &'static (Keys, Credentials) {
    static NOBODY: OnceLock<(Keys, Credentials)> = OnceLock::new();
    NOBODY.get_or_init(|| {
        let (date, mut rng) = (Clock::start().date(), rand::rng());
        let keys = Keys::generate(&mut rng, date);
        let credentials = Credentials::new(&keys, &mut rng, date, ["www.a.com", "www.b.com"]);
        (keys, credentials)
    })
}

impl Client {
    pub(crate) fn connect(guard: &LinkSpec) -> Self {
        Client::connect_slowly(guard, usize::MAX)
    }

    /// Sends at most so many bytes in one write [B].
    pub(crate) fn connect_slowly(guard: &LinkSpec, chunk: usize) -> Self {
        Client::connect_over(TcpStream::connect(guard.addresses[0]).unwrap(), guard, chunk)
    }

    /// Has this address.
    pub(crate) fn connect_from(from: Ipv4Addr, guard: &LinkSpec) -> Self {
        Client::connect_over(dial(from, guard.addresses[0]).unwrap(), guard, usize::MAX)
    }

    fn connect_over(socket: TcpStream, guard: &LinkSpec, chunk: usize) -> Self {
        let expected = Expected { rsa: Some(guard.rsa), ed25519: guard.ed25519 };
        let address = guard.addresses[0].ip();
        let start = |certificate| Link::connect_as_client(expected, certificate, address);
        Client::connect_by(socket, chunk, Clock::start(), &nobody().1, start)
    }

    /// Proves new keys, as a relay does.
    pub(crate) fn connect_as_relay(guard: &LinkSpec, clock: Clock) -> Self {
        let (date, mut rng) = (clock.date(), rand::rng());
        let keys = Keys::generate(&mut rng, date);
        let credentials = Credentials::new(&keys, &mut rng, date, ["www.a.com", "www.b.com"]);
        let expected = Expected { rsa: Some(guard.rsa), ed25519: guard.ed25519 };
        let address = guard.addresses[0].ip();
        let start = |certificate| Link::connect(expected, certificate, address, vec![address]);
        let socket = TcpStream::connect(guard.addresses[0]).unwrap();
        Client::connect_by(socket, usize::MAX, clock, &credentials, start)
    }

    fn connect_by(
        socket: TcpStream,
        chunk: usize,
        clock: Clock,
        credentials: &Credentials,
        start: impl FnOnce([u8; 32]) -> Link,
    ) -> Self {
        let mut rng = rand::rng();
        let (socket, tls) = tls_over(socket, chunk);
        let mut link = start(certificate_sha256(&tls).unwrap());
        let id = CircId(NonZeroU32::new(1 << 31 | 7).unwrap());
        let (inbuf, layers, unproven) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut client = Client { socket, tls, inbuf, chunk, id, layers, cells: 0, window: 1000, unproven };
        loop {
            client.write(&link.poll_output());
            let bytes = client.read();
            let connection = &client.tls;
            let secret = |context: &[u8; 32]| export(connection, context);
            let done = link.on_bytes(clock.date(), &bytes, credentials, &secret, &mut rng).unwrap();
            if let Some(done) = done {
                client.write(&link.poll_output());
                client.inbuf = done.rest;
                return client;
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // Rustls holds 64 KiB at most.
        for bytes in bytes.chunks(32_768) {
            self.tls.writer().write_all(bytes).unwrap();
            while self.tls.wants_write() {
                self.tls.write_tls(&mut Slow(&mut self.socket, self.chunk)).unwrap();
            }
        }
    }

    pub(crate) fn read(&mut self) -> Vec<u8> {
        self.try_read().expect("the guard closed the link")
    }

    /// Nothing if the guard closed the link.
    fn try_read(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 4096];
        loop {
            match self.tls.reader().read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => return Some(buffer[..len].to_vec()),
                Err(_) => {
                    if self.tls.read_tls(&mut self.socket).unwrap() == 0 {
                        return None;
                    }
                    self.tls.process_new_packets().unwrap();
                }
            }
        }
    }

    pub(crate) fn receive(&mut self) -> LiveCell {
        self.try_receive().expect("the guard closed the link")
    }

    /// Nothing if the guard closed the link.
    pub(crate) fn try_receive(&mut self) -> Option<LiveCell> {
        loop {
            while let Front::Cell(frame, len) = front(&self.inbuf, IdLen::Four) {
                let incoming = Incoming::of(&frame, false);
                self.inbuf.drain(..len);
                if let Incoming::Cell(cell) = incoming {
                    return Some(cell);
                }
            }
            let bytes = self.try_read()?;
            self.inbuf.extend_from_slice(&bytes);
        }
    }

    /// Builds a circuit over these relays.
    pub(crate) fn build(&mut self, path: &[Hop]) {
        (self.window, self.unproven) = (1000, VecDeque::new());
        for (hop, (spec, onion)) in path.iter().enumerate() {
            let ntor = ntor::Client::start(&mut rand::rng(), spec.rsa, *onion);
            let handshake = Handshake { kind: HandshakeKind::Ntor, data: ntor.message() };
            let reply = if hop == 0 {
                self.write(&LiveCell::create(self.id, handshake).to_bytes());
                let mut answer = self.receive();
                while answer.circ_id() != self.id {
                    answer = self.receive();
                }
                answer.into_handshake().expect("the guard answers")
            } else {
                self.say(None, &RelayMessage::Extend(spec.clone(), handshake));
                match self.hear() {
                    (None, RelayMessage::Extended(reply), _) => reply,
                    other => panic!("{other:?} is no answer to EXTEND2"),
                }
            };
            self.layers.push(Layer::client(&ntor.finish(&reply.data).unwrap(), &[hop as u8; 16]));
        }
    }

    /// Goes on with another circuit of this link, which `build` makes; the present one stays.
    pub(crate) fn another(&mut self, id: u32) -> Circuit {
        let id = CircId(NonZeroU32::new(1 << 31 | id).unwrap());
        self.switch((id, Vec::new(), 0))
    }

    /// Goes on with that circuit; returns the present one.
    pub(crate) fn switch(&mut self, to: Circuit) -> Circuit {
        let cells = std::mem::replace(&mut self.cells, to.2);
        (std::mem::replace(&mut self.id, to.0), std::mem::replace(&mut self.layers, to.1), cells)
    }

    pub(crate) fn begin(&mut self, server: SocketAddr, stream: Option<StreamId>) {
        let (host, port) = (server.ip().to_string(), server.port());
        self.say(stream, &RelayMessage::Begin(Target::Host { host, port, flags: Default::default() }));
    }

    pub(crate) fn say(&mut self, stream: Option<StreamId>, message: &RelayMessage) -> tor1::Tag {
        let mut cell = LiveCell::saying(self.id, stream, message);
        let (last, nearer) = self.layers.split_last_mut().unwrap();
        let tag = cell.seal(last);
        nearer.iter_mut().rev().for_each(|layer| cell.wrap(layer));
        self.write(&cell.to_bytes());
        tag
    }

    /// So much goes each way between a server and this, at once, as windows allow it; what comes has the SHA-256 of what was
    /// sent, at both ends, and each SENDME proves what it acknowledges.
    pub(crate) fn exchange(&mut self, server: SocketAddr, number: u16, up: u64, down: u64) {
        let stream = NonZeroU16::new(number).map(StreamId);
        let mut said = exchange::request(up, down).to_vec();
        exchange::say(&mut said, up).unwrap();
        let mut said = said.chunks(498).peekable();
        let (mut window, mut cells, mut heard) = (500, 0, Vec::new());
        self.begin(server, stream);
        let mut connected = false;
        let end = loop {
            if connected
                && self.window > 0
                && window > 0
                && let Some(chunk) = said.next()
            {
                let tag = self.say(stream, &RelayMessage::Data(LivePayload::new(chunk).unwrap()));
                (self.window, window) = (self.window - 1, window - 1);
                if self.window % 100 == 0 {
                    self.unproven.push_back(tag);
                }
                continue;
            }
            match self.hear() {
                (_, RelayMessage::Connected(_), _) => connected = true,
                (on, RelayMessage::End(end), _) if on == stream => break end,
                (_, RelayMessage::Data(payload), tag) => {
                    heard.extend_from_slice(payload.as_bytes());
                    (cells, self.cells) = (cells + 1, self.cells + 1);
                    if cells % 50 == 0 {
                        self.say(stream, &RelayMessage::Sendme(None));
                    }
                    if self.cells.is_multiple_of(100) {
                        self.say(None, &RelayMessage::Sendme(Some(tag)));
                    }
                }
                (None, RelayMessage::Sendme(proof), _) => {
                    self.window += 100;
                    assert_eq!(proof, self.unproven.pop_front(), "it proves what it acknowledges");
                }
                (Some(_), RelayMessage::Sendme(_), _) => window += 50,
                other => panic!("{other:?} is not expected after {} B", heard.len()),
            }
        };
        assert_eq!(heard.len() as u64, down + 32, "{end:?}");
        let (came, digest) = heard.split_at(down as usize);
        assert_eq!(<[u8; 32]>::from(Sha256::digest(came)), exchange::sha256_of(down), "what came down");
        assert_eq!(digest, exchange::sha256_of(up), "what went up");
        assert_eq!(said.next(), None);
    }

    pub(crate) fn hear(&mut self) -> (Option<StreamId>, RelayMessage, tor1::Tag) {
        let mut cell = self.receive();
        assert_eq!(cell.command(), Command::Relay, "the circuit ended: {:?}", cell.destroy_reason());
        let tag = self.layers.iter_mut().find_map(|layer| cell.peel(layer));
        let tag = tag.expect("some hop said it");
        let (stream, message) = read(cell.to_bytes()[5..].try_into().unwrap()).unwrap();
        (stream, message, tag)
    }

    /// Asks a server for what it has, and takes it to the end.
    pub(crate) fn download(&mut self, server: SocketAddr, number: u16) -> Vec<u8> {
        let stream = NonZeroU16::new(number).map(StreamId);
        self.begin(server, stream);
        self.take_all(stream)
    }

    /// Takes what comes on a stream, to its end.
    pub(crate) fn take_all(&mut self, stream: Option<StreamId>) -> Vec<u8> {
        let (mut came, mut cells) = (Vec::new(), 0);
        loop {
            match self.hear() {
                (on, RelayMessage::Connected(_), _) => assert_eq!(on, stream),
                (on, RelayMessage::Data(payload), tag) => {
                    assert_eq!(on, stream);
                    came.extend_from_slice(payload.as_bytes());
                    cells += 1;
                    self.cells += 1;
                    if cells % 50 == 0 {
                        self.say(stream, &RelayMessage::Sendme(None));
                    }
                    if self.cells.is_multiple_of(100) {
                        self.say(None, &RelayMessage::Sendme(Some(tag)));
                    }
                }
                // What we said was counted.
                (_, RelayMessage::Sendme(_), _) => {}
                (on, RelayMessage::End(_), _) => {
                    assert_eq!(on, stream);
                    return came;
                }
                other => panic!("{other:?} is not expected"),
            }
        }
    }
}

/// A server that says so many bytes to whoever comes, and closes.
pub(crate) fn serve(bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            socket.unwrap().write_all(&pattern(bytes)).unwrap();
        }
    });
    address
}

/// A server that takes connections, reads nothing and says nothing.
pub(crate) fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let _held: Vec<_> = listener.incoming().collect();
    });
    address
}

pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
