//! Nodes of ours in a network of real C tor.
//!
//! Needs Debian's package `tor` (0.4.8 or later), or the path of one in the variable TOR:
//! `cargo test -p penstock-live --test network -- --ignored --nocapture`.

mod carries;
mod ends;
#[path = "../common/exchange.rs"]
mod exchange;
mod lives;
#[path = "../common/seen.rs"]
mod seen;
#[allow(dead_code, reason = "the benchmark of idle relays uses the rest")]
mod testnet;

use exchange::exchange;
use std::net::SocketAddr;
use testnet::ours::Ours;
use testnet::tor::{Tor, wait};
use testnet::{PATIENCE, socks};

/// What a relay of ours is to be known as.
const FLAGS: [&str; 6] = ["Running", "Valid", "Fast", "Stable", "Guard", "V2Dir"];

/// Waits until a client can make circuits.
fn await_bootstrap(client: &Tor) {
    assert!(
        wait(PATIENCE, || client.is_bootstrapped()),
        "{} does not bootstrap: {}",
        client.name,
        client.read("warnings")
    );
}

/// A stream through a client, which is asked again until it has a circuit that gets there.
fn open(client: &Tor, server: SocketAddr) -> std::net::TcpStream {
    let mut opened = None;
    let found = wait(PATIENCE, || {
        opened = Some(socks(client, server));
        matches!(opened, Some(Ok(_)))
    });
    assert!(found, "{}: {opened:?}", client.name);
    opened.expect("it was tried").expect("it was found")
}

/// So much goes each way through a client [B], and arrives as it was sent; what is begun is not tried again.
fn carry(client: &Tor, server: SocketAddr, up: u64, down: u64) {
    let stream = open(client, server);
    if let Err(error) = exchange(&stream, up, down) {
        panic!("{}: {up} B up and {down} B down: {error}", client.name);
    }
}

/// All circuits of a client that its streams used have this relay at this place, counted from the client.
fn assert_path(client: &Tor, place: usize, ours: &Ours) {
    let log = client.read("log");
    let paths = log.lines().filter_map(|line| line.split_once("exit circ (length 3").map(|(_, path)| path));
    let paths: Vec<&str> = paths.filter(|path| path.matches("(open)").count() == 3).collect();
    assert!(!paths.is_empty(), "{} says its paths", client.name);
    for path in paths {
        let at = path.split(" $").nth(1 + place).unwrap_or_default();
        assert!(
            at.starts_with(&ours.fingerprint),
            "{}: {path:?} has {} not at {place}",
            client.name,
            ours.nickname
        );
    }
}

/// Says how long something took, and what it has to say of it.
fn timed<T>(what: &str, case: impl FnOnce() -> T) -> T {
    let clock = penstock_live::clock::Clock::start();
    let outcome = case();
    println!("{what}: {:.1} s", clock.now().since(penstock_units::Instant::ZERO).as_secs_f64());
    outcome
}

/// What this process has in memory, ours and the test's [MB].
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux says it");
    let pages: u64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096 / 1_000_000
}
