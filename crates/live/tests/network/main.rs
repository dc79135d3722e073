//! Penstock relays in a network of C tor nodes.
//!
//! Needs Debian's package `tor` (0.4.8 or later), or the path of a tor program in the variable TOR:
//! `cargo test -p penstock-live --test network -- --ignored --nocapture`.

mod conflux;
mod credits;
#[path = "../common/exchange.rs"]
mod exchange;
mod half_closed;
#[path = "../common/observations.rs"]
mod observations;
mod onion_service;
mod programs;
mod proxy;
mod restarts;
#[allow(dead_code, reason = "the benchmark of idle relays uses the rest")]
mod testnet;
mod transfers;

use exchange::exchange;
use std::net::SocketAddr;
use testnet::penstock_relay::PenstockRelay;
use testnet::tor::{Tor, wait};
use testnet::{TIMEOUT, socks};

/// The flags that the authorities must give to a Penstock relay.
const FLAGS: [&str; 6] = ["Running", "Valid", "Fast", "Stable", "Guard", "V2Dir"];

/// Waits until a client can build circuits.
fn await_bootstrap(client: &Tor) {
    assert!(
        wait(TIMEOUT, || client.is_bootstrapped()),
        "{} does not bootstrap: {}",
        client.name,
        client.read("warnings")
    );
}

/// Opens a stream through a client. Tries again until a circuit reaches the server.
fn open(client: &Tor, server: SocketAddr) -> std::net::TcpStream {
    let mut opened = None;
    let found = wait(TIMEOUT, || {
        opened = Some(socks(client, server));
        matches!(opened, Some(Ok(_)))
    });
    assert!(found, "{}: {opened:?}", client.name);
    opened.expect("the loop tried once").expect("a stream was opened")
}

/// Transfers `up` and `down` bytes through a client and checks them. A failed transfer is not
/// repeated.
fn carry(client: &Tor, server: SocketAddr, up: u64, down: u64) {
    let stream = open(client, server);
    if let Err(error) = exchange(&stream, up, down) {
        panic!("{}: {up} B up and {down} B down: {error}", client.name);
    }
}

/// Checks that all circuits that the client's streams used have this relay at this position,
/// counted from the client.
fn assert_path(client: &Tor, place: usize, ours: &PenstockRelay) {
    let log = client.read("log");
    let paths = log.lines().filter_map(|line| line.split_once("exit circ (length 3").map(|(_, path)| path));
    let paths: Vec<&str> = paths.filter(|path| path.matches("(open)").count() == 3).collect();
    assert!(!paths.is_empty(), "{} logs its paths", client.name);
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

/// Calls `case` and prints its duration.
fn timed<T>(what: &str, case: impl FnOnce() -> T) -> T {
    let clock = penstock_live::clock::Clock::start();
    let outcome = case();
    println!("{what}: {:.1} s", clock.now().since(penstock_units::Instant::ZERO).as_secs_f64());
    outcome
}

/// The resident memory of this process, which includes the Penstock relays and the test [MB].
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux reports it");
    let pages: u64 =
        status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("statm has numbers");
    pages * 4096 / 1_000_000
}
