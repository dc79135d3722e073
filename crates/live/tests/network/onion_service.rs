//! An onion service of C tor, with a client of C tor. Our relays are introduction points and rendezvous points.

use super::exchange::{exchange, server};
use super::proxy::side_by_side;
use super::testnet::penstock_relay::{Options, PenstockRelay};
use super::testnet::tor::{Tor, wait};
use super::testnet::{Network, TIMEOUT, socks_to_name};
use super::{FLAGS, await_bootstrap, timed};
use penstock_core::scheduler::{KistDeployedConfig, SchedulerConfig};
use std::fs;
use std::net::SocketAddr;

/// The port of the service.
const PORT: u16 = 80;
/// The streams of the client. Each one has a circuit of its own to a rendezvous point.
const STREAMS: u32 = 30;
/// The sizes of downloads [B].
const SIZES: [u64; 3] = [1, 20_000, 1_000_000];

/// Starts a service that passes streams on to `server`. Returns it with its address.
fn service(network: &Network, server: SocketAddr) -> (Tor, String) {
    let folder = network.folder("service");
    let options = format!("HiddenServiceDir {}\nHiddenServicePort {PORT} {server}\n", folder.display());
    let service = network.client("host", &options);
    let name = || fs::read_to_string(folder.join("hostname"));
    assert!(wait(TIMEOUT, || name().is_ok()), "the service has an address: {}", service.read("warnings"));
    (service, name().expect("it was readable").trim().to_owned())
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn our_relays_are_introduction_and_rendezvous_points() {
    let mut network = Network::new(3, 2, 1);
    network.set_bandwidths([]);
    network.start();
    let names = ["ours0", "ours1", "ours2", "ours3"];
    // Clients of onion services avoid exits.
    let options = || Options {
        is_exit: false,
        ..Options::exit(SchedulerConfig::KistDeployed(KistDeployedConfig::default()))
    };
    let ours = names.map(|name| PenstockRelay::join(&network, name, options()));
    // Clients choose relays by bandwidth, mostly ours.
    network.set_bandwidths(ours.iter().map(|relay| (&relay.fingerprint[..], 1000)));
    timed("all relays have their flags", || {
        for name in ["relay0", "relay1", "exit0"].into_iter().chain(names) {
            network.await_flags(name, &FLAGS);
        }
    });
    timed("our relays have bandwidths", || {
        let is_voted =
            |name: &str| network.entry(name, "w").is_some_and(|line| line.starts_with("Bandwidth=1000"));
        assert!(
            wait(TIMEOUT, || names.iter().all(|name| is_voted(name))),
            "{:?}",
            network.entry(names[0], "w")
        );
    });
    let (server, _ends) = server();
    let (host, onion) = service(&network, server);
    let client = network.client("client", "");
    await_bootstrap(&host);
    await_bootstrap(&client);
    timed("the first stream to the service", || {
        let open = || socks_to_name(client.socks, &onion, PORT, "first").is_ok();
        assert!(wait(TIMEOUT, open), "{}\n{}", client.read("warnings"), host.read("warnings"));
    });
    timed(&format!("{STREAMS} streams to the service"), || {
        side_by_side(STREAMS, |number| {
            let stream = socks_to_name(client.socks, &onion, PORT, &format!("user{number}"))
                .unwrap_or_else(|error| panic!("stream {number}: {error}"));
            let down = SIZES[number as usize % SIZES.len()];
            exchange(&stream, 1000, down)
                .unwrap_or_else(|error| panic!("stream {number}, {down} B: {error}"));
        });
    });
    let seen = ours.each_ref().map(|relay| relay.observe().node_counters);
    for (name, counters) in names.iter().zip(&seen) {
        println!("{name}: {:?}, violations {:?}", counters.onion_services, counters.violations);
    }
    let sum =
        |effect| -> u64 { seen.iter().filter_map(|counters| counters.onion_services.get(effect)).sum() };
    for effect in ["introduction_point", "introduced", "rendezvous_point", "joined"] {
        assert!(sum(effect) > 0, "{effect}: {seen:?}");
    }
    assert_eq!(sum("violation"), 0, "{seen:?}");
}
