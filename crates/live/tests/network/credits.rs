//! N23 among relays of C tor: on links between Penstock nodes only, and under the consensus parameter.

use super::exchange::{exchange, server};
use super::testnet::penstock_relay::{Options, PenstockRelay};
use super::testnet::tor::wait;
use super::testnet::{Network, POSITIONS, TIMEOUT, pinned, socks_at};
use super::{FLAGS, await_bootstrap, carry, timed};
use penstock_core::RelayConfig;
use penstock_core::edge_control::{EdgeControlConfig, Ends, WindowsConfig};
use penstock_core::hop_control::{HopControlConfig, N23Config};

/// The options of a client with the numbers of [`options`].
const CLIENT: &str = "Penstock hop_control = { kind = 'n23', n2 = 20, n3 = 70 }\n\
                      Penstock edge_control = { kind = 'windows', ends = 'suppressed' }\n";
/// Bytes that a client sends: more than the cells of six SENDMEs [B].
const UP: u64 = 300_000;
const DOWN: u64 = 2_000_000;

/// An exit with N23. It sends no SENDMEs on circuits without windows.
fn options() -> Options {
    let windows = WindowsConfig { ends: Ends::Suppressed, ..WindowsConfig::default() };
    let relay = RelayConfig {
        hop_control: HopControlConfig::N23(N23Config { n2: 20, n3: 70, ..N23Config::default() }),
        edge_control: EdgeControlConfig::Windows(windows),
        authenticated_sendmes: true,
        ..RelayConfig::default()
    };
    Options { relay, is_exit: true, ahead: 0 }
}

fn join(network: &Network) -> [PenstockRelay; 3] {
    let relays = ["ours0", "ours1", "ours2"].map(|name| PenstockRelay::join(network, name, options()));
    timed("all relays have their flags", || {
        for name in ["ours0", "ours1", "ours2"] {
            network.await_flags(name, &FLAGS);
        }
    });
    relays
}

/// Transfers over a path through the onion proxy. Returns the credits of all relays, and the SENDMEs of the last one.
fn transfer(network: &Network, name: &str, path: [&str; 3], ours: &[PenstockRelay; 3]) -> ([u64; 3], u64) {
    let counts = || {
        let counters = ours.each_ref().map(|relay| relay.observe().counters);
        (counters.each_ref().map(|each| each.credits), counters[2].sendmes)
    };
    let (server, _ends) = server();
    let proxy = network.proxy(name, &format!("{CLIENT}{}", pinned(POSITIONS.into_iter().zip(path))));
    let ready = wait(TIMEOUT, || socks_at(proxy.socks, server, None).is_ok());
    assert!(ready, "the client opens no stream: {}", proxy.read("log"));
    let before = counts();
    let stream = socks_at(proxy.socks, server, None).unwrap();
    exchange(&stream, UP, DOWN).unwrap_or_else(|error| panic!("{name}: {error}"));
    let after = counts();
    (std::array::from_fn(|place| after.0[place] - before.0[place]), after.1 - before.1)
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn n23_works_between_our_nodes_beside_relays_of_c_tor() {
    let mut network = Network::new(3, 2, 1);
    network.start();
    let ours = join(&network);
    let listed = network.entry("ours1", "pr").expect("the consensus lists protocols");
    assert!(listed.contains(" N23=1"), "{listed}");
    let fingerprints = ours.each_ref().map(|relay| &relay.fingerprint[..]);
    let [guard, middle, exit] = fingerprints;
    let tor = network.tor("relay1").fingerprint.clone();

    let (credits, sendmes) = transfer(&network, "all", [guard, middle, exit], &ours);
    let cells = [DOWN, UP].map(|bytes| bytes / 498 / 20);
    assert!(credits[0] >= cells.iter().sum() && credits[1] >= cells.iter().sum(), "{credits:?}");
    assert!(credits[2] >= cells[1], "{credits:?}");
    assert_eq!(sendmes, 0, "a circuit with credits on each hop has no windows");

    // C tor opens the link to the exit, and answers the link of the guard.
    let (credits, sendmes) = transfer(&network, "mixed", [guard, &tor, exit], &ours);
    assert!(credits[0] >= cells[1], "the client has credits: {credits:?}");
    assert_eq!(credits[1..], [0, 0]);
    assert!(sendmes >= 6, "{sendmes} SENDMEs");

    let client = network.client("client", &pinned(POSITIONS.into_iter().zip(fingerprints)));
    await_bootstrap(&client);
    let before = ours[1].observe().counters.credits;
    carry(&client, server().0, UP, DOWN);
    assert!(ours[1].observe().counters.credits > before, "clients of C tor use relays with N23");
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn the_consensus_turns_n23_off() {
    let mut network = Network::with_parameters(3, 2, 1, "n23=0");
    network.start();
    let ours = join(&network);
    let fingerprints = ours.each_ref().map(|relay| &relay.fingerprint[..]);
    let (credits, sendmes) = transfer(&network, "off", fingerprints, &ours);
    assert_eq!(credits, [0; 3]);
    assert!(sendmes >= 6, "{sendmes} SENDMEs");
}
