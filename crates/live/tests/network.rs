//! Nodes of ours in a network of real C tor.
//!
//! Needs Debian's package `tor` (0.4.8 or later), or the path of one in the variable TOR:
//! `cargo test -p penstock-live --test network -- --ignored`.

mod testnet;

use sha2::{Digest, Sha256};
use testnet::tor::{Tor, wait};
use testnet::{Network, fetch, serve};

/// Waits until a client can make circuits.
fn await_bootstrap(client: &Tor) {
    assert!(
        wait(120, || client.is_bootstrapped()),
        "{} does not bootstrap: {}",
        client.name,
        client.read("warnings")
    );
}

/// Fetches a file of so many bytes through a client.
fn fetch_and_check(client: &Tor, bytes: usize) {
    let content: Vec<u8> = (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let want = Sha256::digest(&content);
    let came = fetch(client, serve(content));
    assert_eq!((came.len(), Sha256::digest(&came)), (bytes, want), "{}", client.name);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn c_tor_alone_is_a_network() {
    let mut network = Network::new(3, 2, 1, "");
    network.start();
    network.await_flags("exit0", &["Running", "Exit", "Guard"]);
    let client = network.client("client", "");
    await_bootstrap(&client);
    fetch_and_check(&client, 1_000_000);
}
