//! A client's link to its guard, and a circuit over it.

use penstock_core::cell::MAX_PAYLOAD;
use penstock_core::edge_control::{Agreement, Negotiation};
use penstock_core::hop_control::{AnyHopControl, Feedback, HopControl, HopOffer, Neighbour, Side, Source};
use penstock_core::{Cell, ChannelKey, CircId, Command, Direction, RelayConfig, StreamId};
use penstock_link::cell::{
    Extended, Front, IdLen, Incoming, LinkSpec, LiveCell, LivePayload, RelayMessage, front, read,
};
use penstock_link::certs::Credentials;
use penstock_link::crypto::tor1::{Layer, Tag};
use penstock_link::crypto::{ClientHandshake, RelayKeys};
use penstock_link::handshake::{Expected, Extensions, Link};
use penstock_link::keys::Keys;
use penstock_live::clock::Clock;
use penstock_live::node::SocketTcp;
use penstock_live::tls::{TlsConfigs, certificate_sha256, export};
use penstock_units::Instant;
use rustls::Connection;
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tor_llcrypto::pk::curve25519::PublicKey;

/// Interval at which a reader checks for the end of the run.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// Minimum size of a buffer for rustls [B].
const BLOCK: usize = 32 << 10;

/// A relay on a circuit.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Address and identities of the relay.
    pub spec: LinkSpec,
    /// Onion key of the relay.
    pub onion: PublicKey,
}

/// The reason why a client stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The run has ended.
    Over,
    /// An error occurred.
    Broke(String),
}

impl<E: fmt::Display> From<E> for Halt {
    fn from(error: E) -> Self {
        Halt::Broke(error.to_string())
    }
}

pub(super) fn broke<T>(why: &str) -> Result<T, Halt> {
    Err(Halt::Broke(why.to_owned()))
}

/// A message of a relay, its stream, and the tag that a SENDME for its cell needs.
pub type Arrived = (Option<StreamId>, RelayMessage, Tag);

/// A link with one circuit.
pub struct Circuit<'a> {
    socket: TcpStream,
    tls: Connection,
    inbuf: Vec<u8>,
    id: CircId,
    layers: Vec<Layer>,
    over: &'a AtomicBool,
    config: &'a RelayConfig,
    clock: Clock,
    /// The hop control of cells from and to the client.
    hops: [AnyHopControl; 2],
    extended: Extended,
    /// Cells that arrived while the client waited for credit.
    waiting: VecDeque<LiveCell>,
}

impl fmt::Debug for Circuit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circuit").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AsFd for Circuit<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<'a> Circuit<'a> {
    /// Connects to the guard from the network namespace of the calling thread, and completes the link handshake.
    pub fn connect(
        guard: &LinkSpec,
        tcp: SocketTcp,
        keys: &Keys,
        config: &'a RelayConfig,
        over: &'a AtomicBool,
    ) -> Result<Self, Halt> {
        let (clock, mut rng) = (Clock::start(), rand::rng());
        let Some(address) = guard.addresses.first().copied() else {
            return broke("the guard has no address");
        };
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        tcp.apply(&socket)?;
        socket.connect(&address.into())?;
        let socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(LOOK))?;
        let credentials = Credentials::new(keys, &mut rng, clock.date(), ["www.a.com", "www.b.com"]);
        let tls = TlsConfigs::new(&credentials).connect();
        let id = CircId(NonZeroU32::MIN | 1 << 31);
        let hops = [config.hop_control.build(None), config.hop_control.build(None)];
        let mut circuit = Circuit {
            socket,
            tls,
            inbuf: Vec::new(),
            id,
            layers: Vec::new(),
            over,
            config,
            clock,
            hops,
            extended: Extended::NONE,
            waiting: VecDeque::new(),
        };
        while circuit.tls.is_handshaking() {
            circuit.flush()?;
            if circuit.tls.is_handshaking() {
                circuit.fill()?;
            }
        }
        let Some(certificate) = certificate_sha256(&circuit.tls) else {
            return broke("the guard has no certificate");
        };
        let expected = Expected { rsa: Some(guard.rsa), ed25519: guard.ed25519 };
        let ours = Extensions { with_client: config.hop_control.offer(true), ..Extensions::default() };
        let link = Link::connect_as_client(expected, certificate, address.ip());
        let mut link = link.with_extensions(ours);
        loop {
            circuit.write(&link.poll_output())?;
            let bytes = circuit.read()?;
            let connection = &circuit.tls;
            let secret = |context: &[u8; 32]| export(connection, context);
            let done = link.on_bytes(clock.date(), &bytes, &credentials, &secret, &mut rng);
            let done = done.map_err(|failure| Halt::Broke(format!("the guard's handshake: {failure:?}")))?;
            if let Some(done) = done {
                circuit.write(&link.poll_output())?;
                circuit.inbuf = done.rest;
                circuit.attach(done.hop_control);
                return Ok(circuit);
            }
        }
    }

    /// Both ends of the link have this hop control.
    fn attach(&mut self, agreed: Option<HopOffer>) {
        self.extended.feedback = agreed.is_some();
        let channel = ChannelKey::from_parts(0, 0);
        for (hop, (side, direction)) in
            self.hops.iter_mut().zip([(Side::After, Direction::Forward), (Side::Before, Direction::Backward)])
        {
            hop.on_neighbour(Neighbour { side, direction, channel, agreed });
        }
    }

    /// Builds the circuit over the relays of `path`. `controlled`: every node of the path offers hop control. Returns
    /// what the client and the last relay agreed on.
    pub fn build(&mut self, path: &[Hop], mut controlled: bool) -> Result<Agreement, Halt> {
        let mut agreed = Agreement::default();
        for (number, hop) in path.iter().enumerate() {
            let Some(ed25519) = hop.spec.ed25519 else { return broke("a relay has no Ed25519 identity") };
            let keys = RelayKeys { rsa: hop.spec.rsa, ed25519, onion: hop.onion.to_bytes() };
            let ask = self.config.edge_control.ask_hop(number, number + 1 == path.len(), controlled);
            let (client, handshake) = ClientHandshake::start(&mut rand::rng(), &keys, ask);
            let reply = if number == 0 {
                self.write(&LiveCell::create(self.id, handshake).to_bytes())?;
                self.receive()?.into_handshake()
            } else {
                self.send_message(None, &RelayMessage::Extend(hop.spec.clone(), handshake))?;
                match self.receive_message()? {
                    (None, RelayMessage::Extended(reply), _) => Some(reply),
                    _ => None,
                }
            };
            let Some(reply) = reply else { return broke("a relay refused the circuit") };
            let (layer, answer) = client
                .finish(&mut rand::rng(), &reply)
                .map_err(|error| Halt::Broke(format!("the handshake: {error:?}")))?;
            self.layers.push(layer);
            controlled &= ask != Negotiation::HopAsked || answer == Negotiation::HopAgreed;
            agreed = self.config.edge_control.accept(ask, answer)?;
        }
        Ok(agreed)
    }

    /// Sends a message to the last relay. Waits if the guard has given no credit.
    pub fn send_message(&mut self, stream: Option<StreamId>, message: &RelayMessage) -> Result<(), Halt> {
        while self.hops[0].credit().get() == 0 {
            let cell = self.receive_any()?;
            if !self.take_feedback(&cell)? {
                self.waiting.push_back(cell);
            }
        }
        let now = self.now();
        self.hops[0].on_sent(now, Source::Here);
        let mut cell = LiveCell::saying(self.id, stream, message);
        if let Some((last, nearer)) = self.layers.split_last_mut() {
            cell.seal(last);
            nearer.iter_mut().rev().for_each(|layer| cell.wrap(layer));
        }
        self.write(&cell.to_bytes())
    }

    /// Sends stream data, in as many cells as necessary.
    pub fn send_data(&mut self, stream: Option<StreamId>, bytes: &[u8]) -> Result<(), Halt> {
        for chunk in bytes.chunks(MAX_PAYLOAD.into()) {
            let Some(payload) = LivePayload::new(chunk) else { return broke("a cell holds a chunk") };
            self.send_message(stream, &RelayMessage::Data(payload))?;
        }
        Ok(())
    }

    /// Waits for the next message of a relay.
    fn receive_message(&mut self) -> Result<Arrived, Halt> {
        loop {
            if let Some(arrived) = self.take_message()? {
                return Ok(arrived);
            }
            self.fill()?;
        }
    }

    /// The next message of a relay, if it has arrived. If not, [`fill`](Self::fill) reads more bytes.
    pub fn take_message(&mut self) -> Result<Option<Arrived>, Halt> {
        let Some(mut cell) = self.take()? else { return Ok(None) };
        if cell.command() != Command::Relay {
            return broke("the circuit was closed");
        }
        let Some(tag) = self.layers.iter_mut().find_map(|layer| cell.peel(layer)) else {
            return broke("no relay of the circuit said this");
        };
        let body = cell.to_bytes();
        let Some(body) = body.last_chunk() else { return broke("a cell has a body") };
        let (stream, message) = read(body).map_err(|_| Halt::Broke("a message is malformed".to_owned()))?;
        Ok(Some((stream, message, tag)))
    }

    /// Waits for the next cell that is no feedback.
    fn receive(&mut self) -> Result<LiveCell, Halt> {
        loop {
            if let Some(cell) = self.take()? {
                return Ok(cell);
            }
            self.fill()?;
        }
    }

    /// The next cell that is no feedback, if it has arrived. The client's application takes every cell at once.
    fn take(&mut self) -> Result<Option<LiveCell>, Halt> {
        loop {
            let cell = match self.waiting.pop_front() {
                Some(cell) => cell,
                None => match self.take_any()? {
                    Some(cell) => cell,
                    None => return Ok(None),
                },
            };
            if self.take_feedback(&cell)? {
                continue;
            }
            if cell.command() == Command::Relay {
                let now = self.now();
                self.hops[1].on_received(now)?;
                if let Some(feedback) = self.hops[1].on_delivered(now) {
                    let feedback = Feedback { direction: Direction::Backward, ..feedback };
                    self.write(&LiveCell::feedback(self.id, feedback).to_bytes())?;
                }
            }
            return Ok(Some(cell));
        }
    }

    /// Handles a cell if it is feedback about this client's cells.
    fn take_feedback(&mut self, cell: &LiveCell) -> Result<bool, Halt> {
        if cell.command() != Command::Feedback {
            return Ok(false);
        }
        let Some(feedback) = cell.as_feedback() else { return broke("the guard's feedback is malformed") };
        let now = self.now();
        self.hops[0].on_feedback(now, feedback)?;
        Ok(true)
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn receive_any(&mut self) -> Result<LiveCell, Halt> {
        loop {
            if let Some(cell) = self.take_any()? {
                return Ok(cell);
            }
            self.fill()?;
        }
    }

    /// The next cell, if it has arrived.
    fn take_any(&mut self) -> Result<Option<LiveCell>, Halt> {
        loop {
            while let Front::Cell(frame, len) = front(&self.inbuf, IdLen::Four) {
                let incoming = Incoming::of(&frame, self.extended);
                self.inbuf.drain(..len);
                if let Incoming::Cell(cell) = incoming {
                    return Ok(Some(cell));
                }
            }
            let Some(bytes) = self.decrypted()? else { return Ok(None) };
            self.inbuf.extend_from_slice(&bytes);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        for block in bytes.chunks(BLOCK) {
            self.tls.writer().write_all(block)?;
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Halt> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<u8>, Halt> {
        loop {
            if let Some(bytes) = self.decrypted()? {
                return Ok(bytes);
            }
            self.fill()?;
        }
    }

    /// Decrypted bytes that nothing has read; `None` if there are none.
    fn decrypted(&mut self) -> Result<Option<Vec<u8>>, Halt> {
        let mut block = vec![0; BLOCK];
        match self.tls.reader().read(&mut block) {
            Ok(0) => broke("the guard closed the link"),
            Ok(len) => {
                block.truncate(len);
                Ok(Some(block))
            }
            Err(_) => Ok(None),
        }
    }

    /// Waits for bytes of the guard, and decrypts them.
    pub fn fill(&mut self) -> Result<(), Halt> {
        loop {
            if self.over.load(Ordering::Relaxed) {
                return Err(Halt::Over);
            }
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => return broke("the guard closed the link"),
                Ok(_) => break,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.tls.process_new_packets()?;
        Ok(())
    }
}
