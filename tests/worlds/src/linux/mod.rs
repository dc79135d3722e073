//! Real sockets. The nodes share one thread with poll(2); applications and servers have their own threads.

pub mod cell;
pub mod ground;
pub mod kernel;

use crate::{Findings, NodeFindings, Plan, World, byte_at};
use cell::{Layer, LinuxCell};
use ground::Ground;
use kernel::LinuxKernel;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use penstock_core::edge_control::Negotiation;
use penstock_core::{ChannelKey, CircuitIndex, Event, PeerId, Relay, StreamKey};
use penstock_units::Instant;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// Linux.
#[derive(Debug)]
pub struct Linux {
    /// Locations of the nodes.
    pub ground: Ground,
}

/// Timeout of one plan.
const TIMEOUT: Duration = Duration::from_secs(10);

impl World for Linux {
    fn name(&self) -> &'static str {
        match self.ground {
            Ground::Loopback => "Linux over loopback",
            Ground::Namespaces(_) => "Linux over two namespaces",
        }
    }

    fn run(&mut self, plan: &Plan) -> Findings {
        Run::new(&self.ground, *plan).drive()
    }
}

struct Node {
    relay: Relay<LinuxCell>,
    kernel: LinuxKernel,
    listener: TcpListener,
}

struct Run<'a> {
    ground: &'a Ground,
    plan: Plan,
    start: std::time::Instant,
    /// The client, then each relay.
    nodes: Vec<Node>,
    /// The node of each client address.
    callers: BTreeMap<SocketAddr, usize>,
    circuits: u64,
    /// Streams that a node still has to close.
    open: Vec<StreamKey>,
    servers: Vec<(SocketAddr, JoinHandle<u64>)>,
    applications: Vec<JoinHandle<u64>>,
    begun: bool,
    window_kept: bool,
}

/// A socket that is ready.
#[derive(Clone, Copy)]
enum Ready {
    Caller(usize),
    Channel(usize, ChannelKey),
    Stream(usize, StreamKey),
    Lingering(usize),
}

impl<'a> Run<'a> {
    fn new(ground: &'a Ground, plan: Plan) -> Self {
        let nodes = (0..=plan.hops).map(|place| {
            ground.enter(place);
            let listener = TcpListener::bind((ground.address(place), 0)).expect("a port is free");
            listener.set_nonblocking(true).expect("a listener can be non-blocking");
            Node { relay: Relay::new(plan.config(), Instant::ZERO), kernel: LinuxKernel::new(), listener }
        });
        Run {
            ground,
            plan,
            start: now(),
            nodes: nodes.collect(),
            callers: BTreeMap::new(),
            circuits: 0,
            open: Vec::new(),
            servers: (0..plan.streams).map(|stream| serve(ground, plan, stream)).collect(),
            applications: Vec::new(),
            begun: false,
            window_kept: true,
        }
    }

    fn drive(mut self) -> Findings {
        let hops: Vec<_> = (1..=self.plan.hops).map(|place| PeerId(place as u32)).collect();
        let at = self.now();
        self.nodes[0].relay.open_circuit(at, hops[0], hops[1..].iter().copied(), false);
        self.events(0);
        while !self.is_done() {
            for ready in self.wait() {
                self.serve(ready);
            }
        }
        let received: Vec<u64> = self.applications.into_iter().map(finish).collect();
        let served = self.servers.into_iter().map(|(_, server)| finish(server));
        Findings {
            circuits: self.circuits,
            streams: received.into_iter().zip(served).collect(),
            nodes: self.nodes.iter().map(|node| NodeFindings::from(node.relay.counters())).collect(),
            window_kept: self.window_kept,
        }
    }

    /// Whether all streams have ended and all data were received.
    fn is_done(&self) -> bool {
        let totals = self.nodes.iter().map(|node| node.relay.counters());
        let (sent, received) =
            totals.fold((0, 0), |sum, counters| (sum.0 + counters.sent, sum.1 + counters.received));
        let at_rest = self.nodes.iter().all(|node| {
            let held = node.relay.queued() + node.relay.outbuf_cells();
            held.get() == 0 && node.relay.population()[2] == 0 && node.kernel.lingering.is_empty()
        });
        self.begun && self.open.is_empty() && at_rest && sent == received
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Ready sockets in the order of their nodes; none if only a timer is due.
    fn wait(&mut self) -> Vec<Ready> {
        let asleep = self.nodes.iter().filter_map(|node| node.relay.poll_timeout()).min();
        let timeout = Instant::ZERO + TIMEOUT;
        let until = asleep.unwrap_or(timeout).min(timeout).since(self.now());
        let (mut polled, mut fds) = (Vec::new(), Vec::new());
        for (place, node) in self.nodes.iter().enumerate() {
            let mut ask = |ready, fd, readable, writable| {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::POLLIN, readable);
                flags.set(PollFlags::POLLOUT, writable);
                if !flags.is_empty() {
                    polled.push(ready);
                    fds.push(PollFd::new(fd, flags));
                }
            };
            ask(Ready::Caller(place), node.listener.as_fd(), true, false);
            for (key, channel) in &node.kernel.channels {
                let interest = node.kernel.interest(*key);
                ask(
                    Ready::Channel(place, *key),
                    channel.socket.as_fd(),
                    interest.readable,
                    interest.writable,
                );
            }
            for (key, stream) in &node.kernel.streams {
                let interest = node.kernel.stream_interest(*key);
                ask(Ready::Stream(place, *key), stream.socket.as_fd(), interest.readable, interest.writable);
            }
            for stream in &node.kernel.lingering {
                ask(Ready::Lingering(place), stream.socket.as_fd(), false, true);
            }
        }
        let timeout = PollTimeout::try_from(until + Duration::from_millis(1)).expect("the timeout is short");
        poll(&mut fds, timeout).expect("poll succeeds");
        let counts = self.nodes.iter().map(|node| node.relay.counters()).collect::<Vec<_>>();
        assert!(
            self.start.elapsed() < TIMEOUT,
            "the plan took more than {TIMEOUT:?} and stands at {counts:#?}"
        );
        let ready = polled.into_iter().zip(&fds).filter(|(_, fd)| fd.any() == Some(true));
        ready.map(|(ready, _)| ready).collect()
    }

    /// One call for each wanted readiness, then all events of the node.
    fn serve(&mut self, ready: Ready) {
        let at = self.now();
        let place = match ready {
            Ready::Caller(place)
            | Ready::Channel(place, _)
            | Ready::Stream(place, _)
            | Ready::Lingering(place) => place,
        };
        let Node { relay, kernel, listener } = &mut self.nodes[place];
        match ready {
            Ready::Lingering(_) => kernel.linger(),
            Ready::Caller(_) => {
                if let Ok((socket, address)) = listener.accept() {
                    let peer = self.callers[&address];
                    let channel = relay.accept_channel(at, PeerId(peer as u32), peer == 0);
                    attach(kernel, channel, socket, &self.plan);
                    relay.on_channel_open(at, channel, None, kernel);
                }
            }
            Ready::Channel(_, channel) => {
                if kernel.interest(channel).readable {
                    relay.on_readable(at, channel, kernel);
                }
                if kernel.on_writable(channel) {
                    relay.on_writable(at, channel, kernel);
                }
                if kernel.channels.get(&channel).is_some_and(|channel| channel.broken) {
                    panic!("node {place} lost an open connection");
                }
            }
            Ready::Stream(_, stream) => {
                if kernel.stream_interest(stream).readable {
                    relay.on_stream_readable(at, stream, kernel);
                }
                if kernel.on_stream_writable(stream) {
                    relay.on_stream_writable(at, stream, kernel);
                }
            }
        }
        // Early calls are harmless.
        relay.on_timer(at, kernel);
        self.events(place);
        self.check_window();
    }

    fn events(&mut self, place: usize) {
        let at = self.now();
        while let Some(event) = self.nodes[place].relay.poll_event() {
            let Node { relay, kernel, .. } = &mut self.nodes[place];
            match event {
                Event::Connect { channel, peer } => self.connect(place, channel, peer.0 as usize),
                Event::HandshakeNeeded { circuit, hop, .. } => {
                    relay.start_handshake(at, circuit, 1000 + hop as u32, kernel);
                }
                Event::HandshakeRequested { circuit, handshake } => {
                    let nothing = Negotiation::Nothing;
                    relay.on_handshake(at, circuit, handshake, Layer::new(handshake), nothing, kernel);
                }
                Event::ExtendRequested { circuit, to, handshake } => {
                    relay.extend(at, circuit, to, handshake, kernel)
                }
                Event::HandshakeAnswered { circuit, handshake } => {
                    let nothing = Negotiation::Nothing;
                    relay.finish_handshake(at, circuit, Layer::new(handshake), nothing, kernel);
                }
                Event::CircuitBuilt { circuit } => self.begin(circuit),
                Event::StreamRequested { stream, target } => {
                    self.ground.enter(place);
                    let socket =
                        TcpStream::connect(self.servers[target as usize].0).expect("the server listens");
                    socket.set_nonblocking(true).expect("a socket can be non-blocking");
                    kernel.attach_stream(stream, File::from(OwnedFd::from(socket)));
                    relay.on_stream_connected(at, stream, (), kernel);
                }
                Event::StreamClosed { stream } if place == 0 => self.open.retain(|other| *other != stream),
                Event::StreamClosed { .. }
                | Event::StreamEnded { .. }
                | Event::StreamConnected { .. }
                | Event::CircuitsLinked { .. }
                | Event::Tracked { .. } => {}
                Event::OnionService { message, .. } => match message {},
                Event::CircuitClosed { violation, .. } => {
                    panic!("node {place} closed the circuit: {violation:?}");
                }
            }
        }
    }

    fn connect(&mut self, place: usize, channel: ChannelKey, peer: usize) {
        self.ground.enter(place);
        let address = self.nodes[peer].listener.local_addr().expect("a bound listener has an address");
        let socket = TcpStream::connect(address).expect("the relay listens");
        self.callers.insert(socket.local_addr().expect("the socket is connected"), place);
        let at = self.now();
        let Node { relay, kernel, .. } = &mut self.nodes[place];
        attach(kernel, channel, socket, &self.plan);
        relay.on_channel_open(at, channel, None, kernel);
    }

    /// The circuit is built: every application opens its stream.
    fn begin(&mut self, circuit: CircuitIndex) {
        self.circuits += 1;
        self.begun = true;
        let (at, plan) = (self.now(), self.plan);
        for number in 0..plan.streams {
            let Node { relay, kernel, .. } = &mut self.nodes[0];
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            ours.set_nonblocking(true).expect("a socket can be non-blocking");
            let stream = relay.open_stream(at, circuit, number as u32, kernel).expect("the circuit is built");
            kernel.attach_stream(stream, File::from(OwnedFd::from(ours)));
            self.open.push(stream);
            theirs.set_read_timeout(Some(TIMEOUT)).expect("the timeout is above zero");
            let (reader, writer) = (theirs.try_clone().expect("a socket handle can be cloned"), theirs);
            self.applications.push(spawn(move || {
                let sender = spawn(move || send(writer, number, false, plan.upload));
                let received = receive(reader, number, true, plan.download, true);
                finish(sender);
                received
            }));
        }
    }

    fn check_window(&mut self) {
        let (client, exit) = (self.nodes[0].relay.counters(), self.nodes[self.plan.hops].relay.counters());
        let window = u64::from(self.plan.circuit_window);
        self.window_kept &= exit.data_packaged - 100 * client.sendmes <= window
            && client.data_packaged - 100 * exit.sendmes <= window;
    }
}

fn attach(kernel: &mut LinuxKernel, channel: ChannelKey, socket: TcpStream, plan: &Plan) {
    if let Some(size) = &plan.send_buffer {
        setsockopt(&socket, sockopt::SndBuf, size).expect("a send buffer can be small");
    }
    kernel.attach(channel, socket).expect("a socket can be non-blocking");
}

/// A server for one stream, in the client's namespace.
fn serve(ground: &Ground, plan: Plan, stream: u64) -> (SocketAddr, JoinHandle<u64>) {
    ground.enter(0);
    let listener = TcpListener::bind((ground.address(0), 0)).expect("a port is free");
    let address = listener.local_addr().expect("a bound listener has an address");
    let server = spawn(move || {
        let (socket, _) = listener.accept().expect("the exit connects");
        socket.set_read_timeout(Some(TIMEOUT)).expect("the timeout is above zero");
        let reader = socket.try_clone().expect("a socket handle can be cloned");
        let sender = spawn({
            let writer = socket.try_clone().expect("a socket handle can be cloned");
            move || send(writer, stream, true, plan.download)
        });
        let received = receive(reader, stream, false, plan.upload, false);
        finish(sender);
        // All data are sent and received.
        socket.shutdown(Shutdown::Write).expect("the exit is connected");
        received
    });
    (address, server)
}

fn send(mut to: impl Write, stream: u64, download: bool, cells: u64) -> u64 {
    let bytes: Vec<u8> = (0..Plan::bytes(cells)).map(|offset| byte_at(stream, download, offset)).collect();
    to.write_all(&bytes).expect("the node reads all data");
    bytes.len() as u64
}

/// Reads up to the expected size or the end. Returns the number of correct bytes.
fn receive(mut from: impl Read, stream: u64, download: bool, cells: u64, until_end: bool) -> u64 {
    let (mut received, mut buffer) = (0, [0; 4096]);
    while until_end || received < Plan::bytes(cells) {
        let read = from.read(&mut buffer).expect("the node sends before the timeout");
        if read == 0 {
            break;
        }
        for byte in &buffer[..read] {
            assert_eq!(
                *byte,
                byte_at(stream, download, received),
                "stream {stream} is damaged at byte {received}"
            );
            received += 1;
        }
    }
    received
}

fn finish(thread: JoinHandle<u64>) -> u64 {
    thread.join().expect("the thread's panic is printed")
}

#[expect(clippy::disallowed_methods, reason = "this is the world that reads the real clock")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
