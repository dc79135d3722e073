//! Floods of attackers at several addresses. Each flood works with any relay.

#![allow(dead_code, reason = "each test uses a part of this module")]

use super::{Client, Hop, attacker_identity, dial, noise, seconds, send_over_tls, stream};
use penstock_core::{Cell, CircId, Command, DestroyReason, EndReason};
use penstock_link::cell::{Handshake, HandshakeKind, LiveCell, RelayMessage};
use penstock_link::crypto::ntor;
use penstock_live::clock::Clock;
use penstock_units::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The number of attackers' addresses.
pub(crate) const ATTACKERS: usize = 8;

/// The address of an attacker. The attackers take turns.
pub(crate) fn attacker(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 66 + (number % ATTACKERS) as u8)
}

/// A link of an attacker that pretends to be a relay.
pub(crate) fn attacking_relay(number: usize, (spec, _): &Hop) -> Client {
    Client::connect_authenticated(attacker_identity(), attacker(number), spec)
}

/// The identifier of a client's circuit.
pub(crate) fn circuit(number: u32) -> CircId {
    CircId(NonZeroU32::new(1 << 31 | number).expect("the first bit is set"))
}

/// Opens circuits without extending them, with identifiers from `first` on. Returns the number of circuits that the
/// relay made and has not closed yet.
pub(crate) fn open_circuits(client: &mut Client, first: u32, count: u32) -> u32 {
    let mut open = 0;
    for start in (first..first + count).step_by(512) {
        let numbers = start..(first + count).min(start + 512);
        let creates: Vec<u8> = numbers
            .clone()
            .flat_map(|n| {
                let handshake = Handshake { kind: HandshakeKind::Fast, data: vec![n as u8; 20] };
                LiveCell::create(circuit(n), handshake).to_bytes()
            })
            .collect();
        client.write(&creates);
        let mut answered = 0;
        while answered < numbers.len() {
            let cell = client.receive();
            let is_new = cell.circ_id().0.get() & !(1 << 31) >= start;
            match cell.command() {
                Command::Created => open += 1,
                Command::Destroy if is_new => {}
                // The relay closes an older circuit, because it has too little memory.
                Command::Destroy => open = u32::saturating_sub(open, 1),
                other => panic!("{other:?} is no answer to a CREATE"),
            }
            answered += usize::from(is_new);
        }
    }
    open
}

/// Requests circuits faster than the relay answers until `stop` returns true. Returns the numbers of opened and of
/// refused circuits.
pub(crate) fn creates((spec, onion): &Hop, from: Ipv4Addr, stop: impl Fn() -> bool) -> [u64; 2] {
    let mut client = Client::connect_from(from, spec);
    // All CREATEs have the same message, so only the relay has work.
    let data = ntor::Client::start(&mut rand::rng(), spec.rsa, *onion).message();
    let (mut next, mut unanswered, mut outcomes) = (1000, 0, [0, 0]);
    let mut destroys = Vec::new();
    while !stop() {
        let mut cells = std::mem::take(&mut destroys);
        for id in next..next + 256 {
            let handshake = Handshake { kind: HandshakeKind::Ntor, data: data.clone() };
            cells.extend_from_slice(&LiveCell::create(circuit(id), handshake).to_bytes());
        }
        (next, unanswered) = (next + 256, unanswered + 256);
        client.write(&cells);
        // The relay queues fewer CREATEs than this. The rest is in the sockets.
        while unanswered > 2048 {
            let cell = client.receive();
            unanswered -= 1;
            match cell.command() {
                Command::Created => {
                    outcomes[0] += 1;
                    let destroy = LiveCell::destroy(cell.circ_id(), DestroyReason::NONE);
                    destroys.extend_from_slice(&destroy.to_bytes());
                }
                Command::Destroy => {
                    assert_eq!(cell.destroy_reason(), DestroyReason::RESOURCE_LIMIT);
                    outcomes[1] += 1;
                }
                other => panic!("{other:?} is no answer to a CREATE"),
            }
        }
    }
    outcomes
}

/// Opens TCP connections at this rate [1/s], and sends nothing on them. Only the newest 2,000 stay open. Returns the
/// number of connections.
pub(crate) fn connections(
    to: SocketAddr,
    rate: f64,
    stop: impl Fn() -> bool,
    from: impl Fn(usize) -> IpAddr,
) -> usize {
    let (clock, mut attempts, mut count) = (Clock::start(), 0, 0);
    let mut held = VecDeque::new();
    while !stop() {
        if attempts as f64 > seconds(clock) * rate {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        attempts += 1;
        let Ok(socket) = dial(from(attempts), to) else { continue };
        count += 1;
        // A reset leaves no TIME_WAIT, which would use up the ports.
        socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
        held.push_back(socket);
        if held.len() > 2000 {
            held.pop_front();
        }
    }
    count
}

/// Opens and closes circuits on all these links in turn, until `stop` returns true. Each link always waits for the relay.
/// Returns the number of CREATEs.
pub(crate) fn creates_on(links: &mut [Client], stop: impl Fn() -> bool) -> usize {
    const CELLS: u32 = 32;
    let create = |id| {
        let handshake = Handshake { kind: HandshakeKind::Fast, data: vec![7; 20] };
        LiveCell::create(circuit(id), handshake).to_bytes()
    };
    let cells = |first: u32| (first..first + CELLS).flat_map(create).collect::<Vec<u8>>();
    let (mut first, mut count) = (1000, 0);
    links.iter_mut().for_each(|link| link.write(&cells(first)));
    while !stop() {
        let next = cells(first + CELLS);
        for link in &mut *links {
            let mut bytes = next.clone();
            for _ in 0..CELLS {
                let cell = link.receive();
                if cell.command() == Command::Created {
                    bytes.extend(LiveCell::destroy(cell.circ_id(), DestroyReason::NONE).to_bytes());
                }
            }
            link.write(&bytes);
            count += CELLS as usize;
        }
        first += CELLS;
    }
    count
}

/// Looks up 200 names per second, which no name server answers, on one circuit of each of `circuits` links, until
/// `stop` returns true. Returns the number of names.
pub(crate) fn names(hop: &Hop, circuits: usize, stop: impl Fn() -> bool) -> usize {
    let mut links: Vec<_> = (0..circuits)
        .map(|number| {
            let mut client = attacking_relay(number, hop);
            client.build(std::slice::from_ref(hop));
            (client, 0)
        })
        .collect();
    let mut count = 0;
    while !stop() {
        for (number, (client, unanswered)) in links.iter_mut().enumerate() {
            count += 1;
            *unanswered += 1;
            let id = 1 + (count / circuits % 60_000) as u16;
            client.begin_host(format!("x{count}.c{number}.example"), 80, stream(id));
            // Our relay refuses more than 256 lookups at once, so an answer arrives soon.
            while *unanswered > 300 {
                if let RelayMessage::End(_) = client.receive_message().1 {
                    *unanswered -= 1;
                }
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    count
}

/// The results of a flood of streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) opened: usize,
    pub(crate) refused: usize,
    /// Streams that the relay refused for another reason than a limit.
    pub(crate) failed: usize,
}

/// Opens `each` streams on each of `circuits` circuits, to a server that never closes them. The circuits belong to
/// `links` links. Returns these links with the results. The streams end with the links.
pub(crate) fn streams(
    hop: &Hop,
    server: SocketAddr,
    links: usize,
    [circuits, each]: [u16; 2],
) -> (Vec<Client>, Streams) {
    let mut clients: Vec<_> = (0..links).map(|number| attacking_relay(number, hop)).collect();
    let mut results = Streams::default();
    for number in 0..circuits {
        let client = &mut clients[usize::from(number) % links];
        client.new_circuit(u32::from(number) + 100);
        client.build(std::slice::from_ref(hop));
        let mut unanswered = BTreeSet::new();
        for id in 1..=each {
            client.begin(server, stream(id));
            unanswered.insert(stream(id));
            // The attacker lets a few BEGINs be unanswered, so that the sockets do not fill.
            while unanswered.len() >= 64 || (id == each && !unanswered.is_empty()) {
                let (on, message, _) = client.receive_own_message();
                match message {
                    RelayMessage::Connected(_) if unanswered.remove(&on) => results.opened += 1,
                    RelayMessage::End(end) if unanswered.remove(&on) => {
                        let is_limit = end == EndReason::RESOURCE_LIMIT.into();
                        results.refused += usize::from(is_limit);
                        results.failed += usize::from(!is_limit);
                    }
                    // The relay ends an open stream to make room.
                    RelayMessage::End(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    (clients, results)
}

/// Sends random bytes in place of TLS, of a link handshake and of cells, until `stop` returns true. Returns the number
/// of connections.
pub(crate) fn garbage((spec, _): &Hop, stop: impl Fn() -> bool) -> usize {
    let (mut count, mut held) = (0, VecDeque::new());
    while !stop() {
        let from = attacker(count);
        let socket = match count % 4 {
            0 => dial(from, spec.addresses[0]).map(|mut socket| {
                // The relay may close the connection at any time.
                let _ = socket.write_all(&noise(10_000));
                socket
            }),
            // These connections end in the middle of a handshake.
            1 => dial(from, spec.addresses[0]),
            2 => send_over_tls(from, spec.addresses[0], &noise(65_536)),
            _ => Ok(Client::connect_from(from, spec).send_and_leave(&noise(5000))),
        };
        held.extend(socket);
        if held.len() > 100 {
            held.pop_front();
        }
        count += 1;
        thread::sleep(Duration::from_millis(10));
    }
    count
}

/// A server that accepts connections, but neither reads nor sends. Dropping this value closes all connections.
pub(crate) struct SilentServer {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SilentServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = Some(thread::spawn(move || {
            let _held: Vec<_> =
                listener.incoming().flatten().take_while(|_| !flag.load(Ordering::Relaxed)).collect();
        }));
        SilentServer { address, stop, thread }
    }
}

impl Drop for SilentServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread waits for a connection.
        let _ = std::net::TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
