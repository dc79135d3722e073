//! Honest clients, which measure the service of a relay.

#![allow(dead_code, reason = "each test uses a part of this module")]

use super::{Client, Hop, dial, pattern, seconds, serve, stream, test_identity};
use penstock_link::cell::LinkSpec;
use penstock_live::clock::Clock;
use penstock_units::Duration;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

pub(crate) const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// The size of an honest client's download [B].
pub(crate) const DOWNLOAD: usize = 20_000;

/// The path of honest clients to a relay: a proxy at their address, with this delay in each direction.
fn delayed((spec, _): &Hop, delay: Duration) -> LinkSpec {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, far) = (listener.local_addr().unwrap(), spec.addresses[0]);
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let Ok(node) = dial(HONEST, far) else { continue };
            pipe(client.try_clone().unwrap(), node.try_clone().unwrap(), delay);
            pipe(node, client, delay);
        }
    });
    LinkSpec { addresses: vec![near], ..spec.clone() }
}

/// Copies bytes, each after this delay.
fn pipe(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, pieces) = mpsc::channel::<(f64, Vec<u8>)>();
    let clock = Clock::start();
    thread::spawn(move || {
        let mut buffer = [0; 16_384];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            let due = seconds(clock) + delay.as_secs_f64();
            if sender.send((due, buffer[..read].to_vec())).is_err() || read == 0 {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, piece) in pieces {
            thread::sleep(Duration::from_secs_f64((due - seconds(clock)).max(0.0)));
            if piece.is_empty() || to.write_all(&piece).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    });
}

/// The results of honest clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    /// The times of all successful clients [s].
    pub(crate) times: Vec<f64>,
    pub(crate) failures: usize,
}

impl Served {
    pub(crate) fn add(&mut self, other: &Served) {
        self.times.extend(&other.times);
        self.failures += other.failures;
    }

    /// The time that this share of the successful clients needs at most [s].
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        let last = times.len().saturating_sub(1);
        times.get((last as f64 * share) as usize).copied().unwrap_or(f64::INFINITY)
    }

    /// Calls `attempt`, which panics if the client fails, and adds its time.
    pub(crate) fn time(&mut self, attempt: impl FnOnce()) {
        let clock = Clock::start();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)) {
            Ok(()) => self.times.push(seconds(clock)),
            Err(_) => self.failures += 1,
        }
    }
}

/// The action of honest clients: each opens a link and a circuit, and downloads a file.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    hop: Hop,
    /// The address to connect to, and the source address.
    way: LinkSpec,
    from: Ipv4Addr,
    server: SocketAddr,
    /// Whether the relay must look up the server's name.
    by_name: bool,
}

impl Visit {
    /// The links have this delay in each direction.
    pub(crate) fn new(hop: &Hop, delay: Duration, by_name: bool) -> Self {
        let (way, from) = if delay.is_zero() {
            (hop.0.clone(), HONEST)
        } else {
            (delayed(hop, delay), Ipv4Addr::LOCALHOST)
        };
        Visit { hop: hop.clone(), way, from, server: serve(DOWNLOAD), by_name }
    }

    /// A client's link with a circuit.
    pub(crate) fn connect(&self) -> Client {
        let mut client = Client::connect_authenticated(test_identity(), self.from, &self.way);
        client.build(std::slice::from_ref(&self.hop));
        client
    }

    /// Downloads the file on a stream with this number.
    pub(crate) fn download(&self, client: &mut Client, number: u16) {
        let host = if self.by_name { format!("name{number}.example") } else { self.server.ip().to_string() };
        client.begin_host(host, self.server.port(), stream(number));
        let bytes = client.read_to_end(stream(number));
        assert!(bytes == pattern(DOWNLOAD), "{} of {DOWNLOAD} B arrived: {:?}", bytes.len(), client.end);
    }

    /// Lets `concurrency` clients run at once, each after the one before, until `stop` is true.
    pub(crate) fn repeat<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        concurrency: usize,
        stop: &'scope AtomicBool,
    ) -> Vec<ScopedJoinHandle<'scope, Served>> {
        let lane = move || {
            let mut served = Served::default();
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number = number % 60_000 + 1;
                served.time(|| self.download(&mut self.connect(), number));
            }
            served
        };
        (0..concurrency).map(|_| scope.spawn(lane)).collect()
    }
}

/// The results of all clients together.
pub(crate) fn all(clients: Vec<ScopedJoinHandle<'_, Served>>) -> Served {
    let mut all = Served::default();
    clients.into_iter().for_each(|client| all.add(&client.join().unwrap()));
    all
}
