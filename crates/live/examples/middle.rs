//! What a relay in the middle costs: ours, C tor, and a loop of TLS, AES and sockets that knows nothing of Tor, in one run.
//!
//! Clients by hand download through the relay and an exit of ours; cells come from the exit in one link and leave in one for each
//! client. What counts is the relay's CPU time, of which the machine's noise is the smaller part. `TOR` names C tor.
//!
//! ```console
//! $ cargo run --release --package penstock-live --example middle -- [MEGABYTES] [CLIENTS] [ROUNDS]
//! ```

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/interop/ctor.rs"]
mod ctor;

use cipher::{KeyIvInit, StreamCipher};
use common::{Client, Hop, Running};
use ctor::CTor;
use penstock_core::scheduler::{KistDeployedConfig, SchedulerConfig};
use penstock_live::cell::LinkSpec;
use penstock_live::certs::Credentials;
use penstock_live::clock::Clock;
use penstock_live::keys::Keys;
use penstock_live::tls::TlsConfigs;
use rustls::Connection;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::SystemTime;
use tor_llcrypto::cipher::aes::Aes128Ctr;

/// CPU time [s].
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    user: f64,
    system: f64,
}

impl Cpu {
    /// Of a process or a thread, by its folder in /proc.
    fn of(folder: &Path) -> Self {
        let stat = std::fs::read_to_string(folder.join("stat")).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // Fields 14 and 15 of proc(5), in ticks of 10 ms.
        let seconds = |at: usize| fields[at].parse::<f64>().expect("they are numbers") / 100.0;
        Cpu { user: seconds(11), system: seconds(12) }
    }

    fn since(self, before: Cpu) -> Cpu {
        Cpu { user: self.user - before.user, system: self.system - before.system }
    }
}

fn print(name: &str, bytes: u64, cpu: Cpu) {
    let mb = bytes as f64 / 1e6;
    println!(
        "{name:10} {mb:6.0} MB  {:6.2} s user {:6.2} s system  {:7.1} MB per user second {:7.1} per second of both",
        cpu.user,
        cpu.system,
        mb / cpu.user,
        mb / (cpu.user + cpu.system)
    );
}

/// A server that says so many zeros to whoever comes.
fn server(bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.expect("somebody comes");
            std::thread::spawn(move || {
                let piece = [0; 65_536];
                let mut left = bytes;
                while left > 0 {
                    let len = left.min(piece.len());
                    if socket.write_all(&piece[..len]).is_err() {
                        return;
                    }
                    left -= len;
                }
            });
        }
    });
    address
}

/// All clients download at once through these two relays; returns the bytes.
fn download(path: &[Hop; 2], clients: usize, bytes: usize) -> u64 {
    let server = server(bytes);
    let load = |_| {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut client = Client::connect(&path[0].0);
            client.build(&path);
            assert_eq!(client.download(server, 1).len(), bytes, "all of it comes");
        })
    };
    let threads: Vec<_> = (0..clients).map(load).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("downloads end"));
    (clients * bytes) as u64
}

/// What downloads cost the first relay of the path, whose folder in /proc this is.
fn measure(path: &[Hop; 2], folder: &Path, clients: usize, bytes: usize) -> (u64, Cpu) {
    // The relay's links and the exit's are there afterwards.
    download(path, clients, 10_000);
    let before = Cpu::of(folder);
    let moved = download(path, clients, bytes);
    (moved, Cpu::of(folder).since(before))
}

/// TLS in, a layer of AES, TLS out, 4 KiB of plaintext at a time, and nothing else.
fn ceiling(bytes: usize) -> (u64, Cpu) {
    let (clock, mut rng) = (Clock::start(), rand::rng());
    let keys = Keys::generate(&mut rng, clock.date());
    let configs =
        TlsConfigs::new(&Credentials::new(&keys, &mut rng, clock.date(), ["www.a.com", "www.b.com"]));
    let sink = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let source = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let (to, from) = (sink.local_addr().expect("bound"), source.local_addr().expect("bound"));
    let server = configs.clone();
    let sink = std::thread::spawn(move || {
        let (mut socket, _) = sink.accept().expect("the loop connects");
        let (mut tls, mut room, mut came) = (server.accept(), [0; 65_536], 0);
        while came < bytes {
            came += read(&mut tls, &mut socket, &mut room);
        }
    });
    let server = configs.clone();
    std::thread::spawn(move || {
        let (mut socket, _) = source.accept().expect("the loop connects");
        let (mut tls, piece) = (server.accept(), [0; 4096]);
        for _ in 0..bytes.div_ceil(piece.len()) {
            write(&mut tls, &mut socket, &piece);
        }
    });
    let dial = |to| (TcpStream::connect(to).expect("it listens"), configs.connect());
    let ((mut input, mut decrypts), (mut output, mut encrypts)) = (dial(from), dial(to));
    let mut layer = Aes128Ctr::new(&[7; 16].into(), &[0; 16].into());
    let (mut room, mut moved) = ([0; 4096], 0);
    let folder = Path::new("/proc/thread-self");
    let before = Cpu::of(folder);
    while moved < bytes {
        let len = read(&mut decrypts, &mut input, &mut room);
        layer.apply_keystream(&mut room[..len]);
        write(&mut encrypts, &mut output, &room[..len]);
        moved += len;
    }
    let cpu = Cpu::of(folder).since(before);
    sink.join().expect("all comes");
    (moved as u64, cpu)
}

fn read(tls: &mut Connection, socket: &mut TcpStream, room: &mut [u8]) -> usize {
    loop {
        if let Ok(len) = tls.reader().read(room) {
            return len;
        }
        while tls.wants_write() {
            tls.write_tls(socket).expect("the other end is there");
        }
        assert!(tls.read_tls(socket).expect("the other end is there") > 0, "it stays");
        tls.process_new_packets().expect("it speaks TLS");
    }
}

fn write(tls: &mut Connection, socket: &mut TcpStream, piece: &[u8]) {
    while tls.is_handshaking() {
        tls.complete_io(socket).expect("the other end is there");
    }
    tls.writer().write_all(piece).expect("it is encrypted");
    while tls.wants_write() {
        tls.write_tls(socket).expect("the other end is there");
    }
}

/// What `ctor` asks of whoever has it.
fn now() -> SystemTime {
    Clock::start().date()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().expect("a number"));
    let mut next = |default| arguments.next().unwrap_or(default);
    let (megabytes, clients, rounds) = (next(200), next(4), next(3));
    let bytes = megabytes * 1_000_000 / clients;
    let scheduler = || SchedulerConfig::KistDeployed(KistDeployedConfig::default());
    let exit = Running::start(scheduler());
    for _ in 0..rounds {
        let (moved, cpu) = ceiling(megabytes * 1_000_000);
        print("ceiling", moved, cpu);
        let node = Running::start(scheduler());
        let (moved, cpu) = measure(&[node.hop(), exit.hop()], &node.task(), clients, bytes);
        print("Penstock", moved, cpu);
        drop(node);
        let ctor = CTor::start(false);
        let identity = ctor.identity();
        let addresses = vec![ctor.address];
        let spec = LinkSpec { addresses, rsa: identity.rsa, ed25519: Some(identity.ed25519) };
        let process = format!("/proc/{}", ctor.pid());
        let path = [(spec, ctor.onion_key()), exit.hop()];
        let (moved, cpu) = measure(&path, Path::new(&process), clients, bytes);
        print("C tor", moved, cpu);
    }
}
