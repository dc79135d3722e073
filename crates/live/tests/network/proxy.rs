//! Penstock as a client: downloads through its SOCKS port, over relays of C tor, of Penstock, and both.

use super::exchange::{exchange, server};
use super::testnet::penstock_relay::{Options, PenstockRelay};
use super::testnet::tor::wait;
use super::testnet::{Network, POSITIONS, Proxy, TIMEOUT, pinned, socks_at};
use super::{FLAGS, timed};
use penstock_core::scheduler::{KistDeployedConfig, SchedulerConfig};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Sizes of downloads [B]; a few are larger than all windows.
const SIZES: [u64; 5] = [1, 498, 20_000, 300_000, 2_000_000];
/// Concurrent downloads [1].
const WORKERS: u32 = 4;

/// A network with three relays and two exits of C tor, and three Penstock relays.
pub(crate) fn network() -> (Network, [PenstockRelay; 3]) {
    let mut network = Network::new(3, 3, 2);
    network.start();
    let scheduler = || SchedulerConfig::KistDeployed(KistDeployedConfig::default());
    let relays = ["ours0", "ours1", "ours2"]
        .map(|name| PenstockRelay::join(&network, name, Options::exit(scheduler())));
    timed("all relays have their flags", || {
        for name in ["relay0", "exit0", "ours0", "ours1", "ours2"] {
            network.await_flags(name, &FLAGS);
        }
    });
    (network, relays)
}

/// Waits until a stream through the client is open. The client first fetches the directory.
pub(crate) fn await_ready(proxy: &Proxy, server: SocketAddr) {
    let ready = wait(TIMEOUT, || socks_at(proxy.socks, server, None).is_ok());
    assert!(ready, "the client opens no stream: {}", proxy.read("log"));
}

/// Calls `each` with the numbers below `count`, from several threads.
pub(crate) fn side_by_side(count: u32, each: impl Fn(u32) + Sync) {
    let next = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    each(number);
                }
            });
        }
    });
}

/// The user of a download: every third download has credentials of its own.
pub(crate) fn user_of(number: u32) -> Option<String> {
    number.is_multiple_of(3).then(|| format!("user{}", number / 9))
}

/// Downloads `count` times, and checks each hash.
fn download(proxy: &Proxy, server: SocketAddr, count: u32) {
    side_by_side(count, |number| {
        let down = SIZES[number as usize % SIZES.len()];
        let stream = socks_at(proxy.socks, server, user_of(number).as_deref())
            .unwrap_or_else(|error| panic!("download {number}: {error}"));
        exchange(&stream, 1 + u64::from(number), down)
            .unwrap_or_else(|error| panic!("download {number} of {down} B: {error}"));
    });
}

/// The kinds of paths, with the fingerprints of their relays. An empty fingerprint leaves the choice to the client.
pub(crate) fn paths(network: &Network, ours: &[PenstockRelay; 3]) -> [(&'static str, [String; 3]); 4] {
    let tor = |name: &str| network.tor(name).fingerprint.clone();
    [
        ("C tor", [tor("relay0"), tor("relay1"), tor("exit0")]),
        ("Penstock", [0, 1, 2].map(|place| ours[place].fingerprint.clone())),
        ("both", [ours[0].fingerprint.clone(), tor("relay1"), ours[2].fingerprint.clone()]),
        ("any", [String::new(), String::new(), String::new()]),
    ]
}

/// The options of a client for one of these paths.
pub(crate) fn pinned_path(path: &[String; 3]) -> String {
    let pins = POSITIONS.into_iter().zip(path.iter().map(String::as_str));
    pinned(pins.filter(|(_, fingerprint)| !fingerprint.is_empty()))
}

/// Downloads over these kinds of paths: of C tor, of Penstock, of both, and any.
fn download_over(kinds: &[&str], count: u32) {
    let (network, ours) = network();
    let (server, _ends) = server();
    let paths = paths(&network, &ours);
    for (number, (name, path)) in paths.iter().filter(|(name, _)| kinds.contains(name)).enumerate() {
        let proxy = network.proxy(&format!("proxy{number}"), &pinned_path(path));
        timed(&format!("{name}: the first stream"), || await_ready(&proxy, server));
        timed(&format!("{name}: {count} downloads"), || download(&proxy, server, count));
        let circuits: BTreeSet<String> = proxy.circuits().into_iter().collect();
        println!("{name}: {} circuits carried streams", circuits.len());
        let groups = 1 + count.div_ceil(9) as usize;
        assert!(circuits.len() >= groups, "each user has a circuit of its own: {circuits:?}");
        if *name == "Penstock" {
            assert!(circuits.iter().all(|path| path.ends_with(" ours0, ours1, ours2")), "{circuits:?}");
        }
    }
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn downloads_through_the_onion_proxy_are_unchanged() {
    download_over(&["any"], 20);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn five_hundred_downloads_through_the_onion_proxy_are_unchanged() {
    download_over(&["C tor", "Penstock", "both", "any"], 125);
}

/// A client keeps its guard after a restart. Requests that fail get the right SOCKS reply.
#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn the_onion_proxy_keeps_its_guard_and_reports_failures() {
    let (network, _ours) = network();
    let (server, _ends) = server();
    let guard_of = |proxy: &Proxy| {
        let circuits = proxy.circuits();
        let guards =
            circuits.iter().filter_map(|circuit| circuit.split_once("through ")?.1.split(", ").next());
        guards.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let proxy = network.proxy("proxy", "");
    await_ready(&proxy, server);
    download(&proxy, server, 5);
    let before = guard_of(&proxy);
    assert_eq!(before.len(), 1, "{before:?}");
    // Nothing listens at the port of a closed listener.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = socks_at(proxy.socks, closed, None).unwrap_err().to_string();
    assert_eq!(refused, "SOCKS error 5", "connection refused");
    proxy.end();
    let proxy = network.proxy("proxy", "");
    assert!(proxy.read("state").contains("confirmed_on="), "{}", proxy.read("state"));
    await_ready(&proxy, server);
    assert_eq!(guard_of(&proxy), before);
}
