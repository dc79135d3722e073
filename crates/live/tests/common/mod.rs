//! Penstock nodes in threads, and a client that sends individual cells.

#![allow(dead_code, reason = "each test uses a part of this module")]

pub(crate) mod credits;
pub(crate) mod dns;
pub(crate) mod exchange;
pub(crate) mod floods;
pub(crate) mod gauges;
pub(crate) mod honest;
pub(crate) mod markdown;
pub(crate) mod observations;
pub(crate) mod program;

use credits::Credits;
use observations::Observations;
use penstock_core::edge_control::Negotiation;
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::{Cell, CircId, Command, RelayConfig, StreamId};
use penstock_link::cell::{
    Extended, Front, Handshake, HandshakeKind, IdLen, Incoming, LinkSpec, LiveCell, LivePayload,
    RelayMessage, Target, front, read,
};
use penstock_link::certs::Credentials;
use penstock_link::crypto::tor1::{self, Layer};
use penstock_link::crypto::{ClientHandshake, RelayKeys, ntor};
use penstock_link::descriptor::{ExitPolicy, Private};
use penstock_link::handshake::{Expected, Extensions, Link};
use penstock_link::keys::Keys;
use penstock_live::clock::Clock;
use penstock_live::node::{self, Node, NodeConfig};
use penstock_live::tls::{TlsConfigs, certificate_sha256, export};
use rand::Rng;
use rustls::Connection;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tor_llcrypto::pk::curve25519::PublicKey;

/// A relay's link specifiers and onion key.
pub(crate) type Hop = (LinkSpec, PublicKey);

/// A node in its own thread. Dropping this value stops the node.
pub(crate) struct Running {
    pub(crate) spec: LinkSpec,
    pub(crate) onion: PublicKey,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) thread: Option<JoinHandle<()>>,
    /// The id of the thread.
    pub(crate) task: i32,
    /// The observations of the node.
    pub(crate) observations: Observations,
}

impl Running {
    pub(crate) fn start(scheduler: SchedulerConfig) -> Self {
        Running::start_with_timeout(scheduler, node::HANDSHAKE_TIMEOUT)
    }

    /// Starts a node with another timeout of link handshakes.
    pub(crate) fn start_with_timeout(
        scheduler: SchedulerConfig,
        handshake_timeout: penstock_units::Duration,
    ) -> Self {
        Running::start_configured(|config| {
            (config.relay.scheduler, config.handshake_timeout) = (scheduler, handshake_timeout)
        })
    }

    /// Starts a node with a changed configuration.
    pub(crate) fn start_configured(change: impl FnOnce(&mut NodeConfig)) -> Self {
        Running::start_with_setup(change, |_| {})
    }

    /// Starts a node with a changed configuration, and calls `begin` with it first.
    pub(crate) fn start_with_setup(
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
        let (sender, receiver) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let observations = Observations::default();
        let (flag, recorder) = (stop.clone(), observations.clone());
        let thread = std::thread::spawn(move || {
            let mut node = Node::bind(config, keys).unwrap();
            begin(&mut node);
            sender.send((node.link_spec().unwrap(), nix::unistd::gettid().as_raw())).unwrap();
            while !flag.load(Ordering::Relaxed) {
                node.turn().unwrap();
                recorder.record(&node);
            }
        });
        let (spec, task) = receiver.recv().unwrap();
        Running { spec, onion, stop, thread: Some(thread), task, observations }
    }
}

impl Running {
    /// The folder of the thread in /proc.
    pub(crate) fn task(&self) -> std::path::PathBuf {
        format!("/proc/self/task/{}", self.task).into()
    }

    /// What a client needs to extend a circuit to this node.
    pub(crate) fn hop(&self) -> Hop {
        (self.spec.clone(), self.onion)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("the node was started").expect("a node does not panic");
        }
    }
}

/// A client's link to its guard.
pub(crate) struct Client {
    socket: TcpStream,
    tls: Connection,
    inbuf: Vec<u8>,
    /// The maximum size of one write [B].
    chunk: usize,
    pub(crate) id: CircId,
    pub(crate) layers: Vec<Layer>,
    /// Number of received DATA cells of the circuit.
    cells: u32,
    /// How many more cells the client may send [cell], and the digests for the SENDMEs that it
    /// expects. Both belong to the newest circuit.
    window: i32,
    pending_digests: VecDeque<tor1::Tag>,
    /// The end of the stream that the client last read to its end.
    pub(crate) end: Option<penstock_link::cell::End>,
    extended: Extended,
    /// The state of N23 on the circuit, if the client and the guard agreed on it.
    pub(crate) credits: Option<Credits>,
    /// Cells that arrived while the client waited for credit.
    stash: VecDeque<LiveCell>,
    /// Whether the client sends SENDMEs for received cells.
    pub(crate) sends_sendmes: bool,
}

/// The client's state of a circuit that it does not use now.
pub(crate) type Circuit = (CircId, Vec<Layer>, u32);

/// A socket that accepts at most this many bytes per write.
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
pub(crate) fn dial(from: impl Into<IpAddr>, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from.into(), 0).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// A TLS connection to a node, without a link handshake.
pub(crate) fn connect_tls(address: SocketAddr, chunk: usize) -> (TcpStream, Connection) {
    tls_over(TcpStream::connect(address).unwrap(), chunk)
}

/// Sends bytes over a new TLS connection from the address `from`, in place of a link handshake. The peer may close the
/// connection early.
pub(crate) fn send_over_tls(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> std::io::Result<TcpStream> {
    let (mut socket, mut tls) = tls_over(dial(from, to)?, usize::MAX);
    let _ = write(&mut socket, &mut tls, bytes);
    Ok(socket)
}

/// Encrypts and sends.
pub(crate) fn write(socket: &mut TcpStream, tls: &mut Connection, bytes: &[u8]) -> std::io::Result<()> {
    // Rustls buffers at most 64 KiB.
    for bytes in bytes.chunks(32_768) {
        tls.writer().write_all(bytes)?;
        while tls.wants_write() {
            tls.write_tls(socket)?;
        }
    }
    Ok(())
}

fn tls_over(mut socket: TcpStream, chunk: usize) -> (TcpStream, Connection) {
    let (_, credentials) = test_identity();
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

/// The keys and certificates of test clients and relays. They are generated once, because this
/// takes a second.
pub(crate) fn test_identity() -> &'static (Keys, Credentials) {
    static IDENTITY: OnceLock<(Keys, Credentials)> = OnceLock::new();
    IDENTITY.get_or_init(new_identity)
}

/// The identity of attackers that pretend to be relays.
pub(crate) fn attacker_identity() -> &'static (Keys, Credentials) {
    static IDENTITY: OnceLock<(Keys, Credentials)> = OnceLock::new();
    IDENTITY.get_or_init(new_identity)
}

fn new_identity() -> (Keys, Credentials) {
    let (date, mut rng) = (Clock::start().date(), rand::rng());
    let keys = Keys::generate(&mut rng, date);
    let credentials = Credentials::new(&keys, &mut rng, date, ["www.a.com", "www.b.com"]);
    (keys, credentials)
}

impl Client {
    pub(crate) fn connect(guard: &LinkSpec) -> Self {
        Client::connect_in_chunks(guard, usize::MAX)
    }

    /// Connects and sends at most `chunk` bytes in one write [B].
    pub(crate) fn connect_in_chunks(guard: &LinkSpec, chunk: usize) -> Self {
        Client::connect_over(TcpStream::connect(guard.addresses[0]).unwrap(), guard, chunk)
    }

    /// Connects from the address `from`.
    pub(crate) fn connect_from(from: Ipv4Addr, guard: &LinkSpec) -> Self {
        Client::connect_over(dial(from, guard.addresses[0]).unwrap(), guard, usize::MAX)
    }

    /// Connects over an open TCP connection.
    pub(crate) fn over(socket: TcpStream, guard: &LinkSpec) -> Self {
        Client::connect_over(socket, guard, usize::MAX)
    }

    /// Connects and offers N23 with these numbers.
    pub(crate) fn connect_with_n23(guard: &LinkSpec, [n2, n3]: [u32; 2]) -> Self {
        let expected = Expected { rsa: Some(guard.rsa), ed25519: guard.ed25519 };
        let (address, offer) = (guard.addresses[0].ip(), credits::offer(n2, n3));
        let start = |certificate| {
            let extensions = Extensions { with_client: Some(offer), ..Extensions::default() };
            Link::connect_as_client(expected, certificate, address).with_extensions(extensions)
        };
        let socket = TcpStream::connect(guard.addresses[0]).unwrap();
        let mut client = Client::connect_by(socket, usize::MAX, Clock::start(), &test_identity().1, start);
        if let Some(credits) = &mut client.credits {
            (credits.n2, credits.allowance) = (n2, n2 + n3);
        }
        client
    }

    fn connect_over(socket: TcpStream, guard: &LinkSpec, chunk: usize) -> Self {
        let expected = Expected { rsa: Some(guard.rsa), ed25519: guard.ed25519 };
        let address = guard.addresses[0].ip();
        let start = |certificate| Link::connect_as_client(expected, certificate, address);
        Client::connect_by(socket, chunk, Clock::start(), &test_identity().1, start)
    }

    /// Connects from the address `from`, as a relay with this identity. A relay without a consensus opens exit streams
    /// for such a peer.
    pub(crate) fn connect_authenticated(
        identity: &'static (Keys, Credentials),
        from: Ipv4Addr,
        guard: &LinkSpec,
    ) -> Self {
        let socket = dial(from, guard.addresses[0]).unwrap();
        let expected = Expected { rsa: Some(guard.rsa), ed25519: guard.ed25519 };
        let address = guard.addresses[0].ip();
        let start = |certificate| Link::connect(expected, certificate, address, vec![from.into()]);
        Client::connect_by(socket, usize::MAX, Clock::start(), &identity.1, start)
    }

    /// Connects as a relay with new keys.
    pub(crate) fn connect_as_relay(guard: &LinkSpec, clock: Clock) -> Self {
        let (_, credentials) = new_identity();
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
        let (inbuf, layers, pending_digests) = (Vec::new(), Vec::new(), VecDeque::new());
        let (cells, window, end) = (0, 1000, None);
        let mut client = Client {
            socket,
            tls,
            inbuf,
            chunk,
            id,
            layers,
            cells,
            window,
            pending_digests,
            end,
            extended: Extended::NONE,
            credits: None,
            stash: VecDeque::new(),
            sends_sendmes: true,
        };
        loop {
            client.write(&link.poll_output());
            let bytes = client.read();
            let connection = &client.tls;
            let secret = |context: &[u8; 32]| export(connection, context);
            let done = link.on_bytes(clock.date(), &bytes, credentials, &secret, &mut rng).unwrap();
            if let Some(done) = done {
                client.write(&link.poll_output());
                client.inbuf = done.rest;
                client.credits = done.hop_control.map(Credits::agreed);
                client.extended.feedback = client.credits.is_some();
                return client;
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // Rustls buffers at most 64 KiB.
        for bytes in bytes.chunks(32_768) {
            self.tls.writer().write_all(bytes).unwrap();
            while self.tls.wants_write() {
                self.tls.write_tls(&mut Slow(&mut self.socket, self.chunk)).unwrap();
            }
        }
    }

    /// Sends bytes on an established link. Returns the socket. The guard may close the link early.
    pub(crate) fn send_and_leave(mut self, bytes: &[u8]) -> TcpStream {
        let _ = write(&mut self.socket, &mut self.tls, bytes);
        self.socket
    }

    pub(crate) fn read(&mut self) -> Vec<u8> {
        self.try_read().expect("the guard closed the link")
    }

    /// Returns `None` if the guard closed the link.
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

    /// Returns `None` if the guard closed the link.
    pub(crate) fn try_receive(&mut self) -> Option<LiveCell> {
        loop {
            let cell = match self.stash.pop_front() {
                Some(cell) => cell,
                None => self.receive_any()?,
            };
            if self.take_credit(&cell) {
                continue;
            }
            let feedback = self.credits.as_mut().and_then(|credits| credits.on_received(&cell));
            if let Some(feedback) = feedback {
                self.write(&LiveCell::feedback(cell.circ_id(), feedback).to_bytes());
            }
            return Some(cell);
        }
    }

    fn receive_any(&mut self) -> Option<LiveCell> {
        loop {
            while let Front::Cell(frame, len) = front(&self.inbuf, IdLen::Four) {
                let incoming = Incoming::of(&frame, self.extended);
                self.inbuf.drain(..len);
                if let Incoming::Cell(cell) = incoming {
                    return Some(cell);
                }
            }
            let bytes = self.try_read()?;
            self.inbuf.extend_from_slice(&bytes);
        }
    }

    /// Handles a cell if it is a credit.
    fn take_credit(&mut self, cell: &LiveCell) -> bool {
        let is_credit = cell.command() == Command::Feedback;
        if let Some(credits) = self.credits.as_mut().filter(|_| is_credit) {
            assert_eq!(cell.circ_id(), self.id, "a credit belongs to the selected circuit");
            credits.on_feedback(cell);
        }
        is_credit
    }

    /// Waits until the circuit may send one more cell.
    fn await_credit(&mut self) {
        while self.credits.as_ref().is_some_and(|credits| credits.left() == 0) {
            let cell = self.receive_any().expect("the guard closed the link");
            if !self.take_credit(&cell) {
                self.stash.push_back(cell);
            }
        }
        if let Some(credits) = &mut self.credits {
            credits.sent += 1;
        }
    }

    /// Builds a circuit over these relays, and sends each of them a request. Returns their answers.
    pub(crate) fn build_asking(&mut self, path: &[(Hop, Negotiation)]) -> Vec<Negotiation> {
        let mut answers = Vec::new();
        for (hop, ((spec, onion), ask)) in path.iter().enumerate() {
            let keys = RelayKeys { rsa: spec.rsa, ed25519: spec.ed25519.unwrap(), onion: onion.to_bytes() };
            let (handshake, message) = ClientHandshake::start(&mut rand::rng(), &keys, *ask);
            let reply = if hop == 0 {
                self.write(&LiveCell::create(self.id, message).to_bytes());
                self.receive().into_handshake().expect("the guard answers")
            } else {
                self.send_message(None, &RelayMessage::Extend(spec.clone(), message));
                match self.receive_message() {
                    (None, RelayMessage::Extended(reply), _) => reply,
                    other => panic!("{other:?} is not EXTENDED2"),
                }
            };
            let (layer, answer) = handshake.finish(&mut rand::rng(), &reply).unwrap();
            self.layers.push(layer);
            answers.push(answer);
        }
        answers
    }

    /// Builds a circuit over these relays.
    pub(crate) fn build(&mut self, path: &[Hop]) {
        (self.window, self.pending_digests) = (1000, VecDeque::new());
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
                self.send_message(None, &RelayMessage::Extend(spec.clone(), handshake));
                match self.receive_message() {
                    (None, RelayMessage::Extended(reply), _) => reply,
                    other => panic!("{other:?} is not EXTENDED2"),
                }
            };
            self.layers.push(Layer::client(&ntor.finish(&reply.data).unwrap(), &[hop as u8; 16]));
        }
    }

    /// Selects a new circuit of this link, which `build` must then create. Returns the current
    /// circuit, which stays open.
    pub(crate) fn new_circuit(&mut self, id: u32) -> Circuit {
        let id = CircId(NonZeroU32::new(1 << 31 | id).unwrap());
        self.switch_circuit((id, Vec::new(), 0))
    }

    /// Selects another circuit of this link and returns the current one.
    pub(crate) fn switch_circuit(&mut self, to: Circuit) -> Circuit {
        let cells = std::mem::replace(&mut self.cells, to.2);
        (std::mem::replace(&mut self.id, to.0), std::mem::replace(&mut self.layers, to.1), cells)
    }

    pub(crate) fn begin(&mut self, server: SocketAddr, stream: Option<StreamId>) {
        self.begin_host(server.ip().to_string(), server.port(), stream);
    }

    /// Opens a stream to a host, which has an address or a name.
    pub(crate) fn begin_host(&mut self, host: String, port: u16, stream: Option<StreamId>) {
        let target = Target::Host { host, port, flags: Default::default() };
        self.send_message(stream, &RelayMessage::Begin(target));
    }

    pub(crate) fn send_message(&mut self, stream: Option<StreamId>, message: &RelayMessage) -> tor1::Tag {
        self.await_credit();
        let mut cell = LiveCell::saying(self.id, stream, message);
        let (last, nearer) = self.layers.split_last_mut().unwrap();
        let tag = cell.seal(last);
        nearer.iter_mut().rev().for_each(|layer| cell.wrap(layer));
        self.write(&cell.to_bytes());
        tag
    }

    /// Transfers `up` and `down` bytes between a server and this client at the same time, within
    /// the windows. Both ends check the SHA-256 of the received bytes. Each SENDME must carry the
    /// digest of the cell that it acknowledges.
    pub(crate) fn exchange(&mut self, server: SocketAddr, number: u16, up: u64, down: u64) {
        let stream = NonZeroU16::new(number).map(StreamId);
        let mut outgoing = exchange::request(up, down).to_vec();
        exchange::send(&mut outgoing, up).unwrap();
        let mut outgoing = outgoing.chunks(498).peekable();
        let (mut window, mut cells, mut incoming) = (500, 0, Vec::new());
        self.begin(server, stream);
        let mut connected = false;
        let end = loop {
            if connected
                && self.window > 0
                && window > 0
                && let Some(chunk) = outgoing.next()
            {
                let tag = self.send_message(stream, &RelayMessage::Data(LivePayload::new(chunk).unwrap()));
                (self.window, window) = (self.window - 1, window - 1);
                if self.window % 100 == 0 {
                    self.pending_digests.push_back(tag);
                }
                continue;
            }
            match self.receive_message() {
                (_, RelayMessage::Connected(_), _) => connected = true,
                (on, RelayMessage::End(end), _) if on == stream => break end,
                (_, RelayMessage::Data(payload), tag) => {
                    incoming.extend_from_slice(payload.as_bytes());
                    (cells, self.cells) = (cells + 1, self.cells + 1);
                    if cells % 50 == 0 {
                        self.send_message(stream, &RelayMessage::Sendme(None));
                    }
                    if self.cells.is_multiple_of(100) {
                        self.send_message(None, &RelayMessage::Sendme(Some(tag)));
                    }
                }
                (None, RelayMessage::Sendme(proof), _) => {
                    self.window += 100;
                    assert_eq!(
                        proof,
                        self.pending_digests.pop_front(),
                        "the SENDME carries the digest of the acknowledged cell"
                    );
                }
                (Some(_), RelayMessage::Sendme(_), _) => window += 50,
                other => panic!("{other:?} is not expected after {} B", incoming.len()),
            }
        };
        assert_eq!(incoming.len() as u64, down + 32, "{end:?}");
        let (received, digest) = incoming.split_at(down as usize);
        assert_eq!(
            <[u8; 32]>::from(Sha256::digest(received)),
            exchange::sha256_of(down),
            "the received bytes differ"
        );
        assert_eq!(digest, exchange::sha256_of(up), "the bytes that the server received differ");
        assert_eq!(outgoing.next(), None);
    }

    pub(crate) fn receive_message(&mut self) -> (Option<StreamId>, RelayMessage, tor1::Tag) {
        let cell = self.receive();
        assert_eq!(cell.circ_id(), self.id, "only the selected circuit has cells");
        self.open_message(cell)
    }

    fn open_message(&mut self, mut cell: LiveCell) -> (Option<StreamId>, RelayMessage, tor1::Tag) {
        assert_eq!(cell.command(), Command::Relay, "the circuit ended: {:?}", cell.destroy_reason());
        let tag = self.layers.iter_mut().find_map(|layer| cell.peel(layer));
        let tag = tag.expect("a hop of the circuit encrypted the cell");
        let (stream, message) = read(cell.to_bytes()[5..].try_into().unwrap()).unwrap();
        (stream, message, tag)
    }

    /// The next message of the selected circuit. Cells of the link's other circuits are dropped.
    pub(crate) fn receive_own_message(&mut self) -> (Option<StreamId>, RelayMessage, tor1::Tag) {
        loop {
            let cell = self.receive();
            if cell.circ_id() == self.id {
                return self.open_message(cell);
            }
        }
    }

    /// Opens a stream to a server and reads it to the end.
    pub(crate) fn download(&mut self, server: SocketAddr, number: u16) -> Vec<u8> {
        let stream = NonZeroU16::new(number).map(StreamId);
        self.begin(server, stream);
        self.read_to_end(stream)
    }

    /// Reads a stream to the end.
    pub(crate) fn read_to_end(&mut self, stream: Option<StreamId>) -> Vec<u8> {
        let (mut received, mut cells) = (Vec::new(), 0);
        loop {
            match self.receive_message() {
                (on, RelayMessage::Connected(_), _) => assert_eq!(on, stream),
                (on, RelayMessage::Data(payload), tag) => {
                    assert_eq!(on, stream);
                    received.extend_from_slice(payload.as_bytes());
                    cells += 1;
                    self.cells += 1;
                    if cells % 50 == 0 && self.sends_sendmes {
                        self.send_message(stream, &RelayMessage::Sendme(None));
                    }
                    if self.cells.is_multiple_of(100) && self.sends_sendmes {
                        self.send_message(None, &RelayMessage::Sendme(Some(tag)));
                    }
                }
                // A SENDME for the cells of this client.
                (_, RelayMessage::Sendme(_), _) => {}
                (on, RelayMessage::End(end), _) => {
                    assert_eq!(on, stream);
                    self.end = Some(end);
                    return received;
                }
                other => panic!("{other:?} is not expected"),
            }
        }
    }
}

/// A server that sends `bytes` bytes to each client and closes the connection.
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

/// A server that accepts connections, but neither reads nor sends.
pub(crate) fn silent_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let _held: Vec<_> = listener.incoming().collect();
    });
    address
}

/// A server that sends until its peer closes the connection.
pub(crate) fn endless() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || while socket.write_all(&[0; 65_536]).is_ok() {});
        }
    });
    address
}

pub(crate) fn stream(id: u16) -> Option<StreamId> {
    NonZeroU16::new(id).map(StreamId)
}

/// Random bytes.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    rand::rng().fill_bytes(&mut noise);
    noise
}

pub(crate) fn seconds(clock: Clock) -> f64 {
    clock.now().since(penstock_units::Instant::ZERO).as_secs_f64()
}

pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
