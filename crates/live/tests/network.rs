//! Nodes of ours in a network of real C tor.
//!
//! Needs Debian's package `tor` (0.4.8 or later), or the path of one in the variable TOR:
//! `cargo test -p penstock-live --test network -- --ignored`.

mod testnet;

use penstock_core::RelayConfig;
use penstock_core::edge_control::{EdgeControlConfig, VegasConfig};
use penstock_live::directory::Note;
use sha2::{Digest, Sha256};
use testnet::ours::{Options, Ours};
use testnet::tor::{Role, Tor, wait};
use testnet::{Network, PATIENCE, fetch, serve};

/// Waits until a client can make circuits.
fn await_bootstrap(client: &Tor) {
    assert!(
        wait(PATIENCE, || client.is_bootstrapped()),
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

/// Whether the circuit that a file comes by has a congestion window; others have SENDME windows.
fn is_controlled(client: &Tor) -> bool {
    let said = client.circuit_bandwidths();
    fetch_and_check(client, 10_000_000);
    let read = |line: &String| {
        let read = line.split(" READ=").nth(1).and_then(|rest| rest.split(' ').next());
        read.is_some_and(|bytes| bytes.parse::<u64>().is_ok_and(|bytes| bytes > 100_000))
    };
    let line = { said }.find(read).expect("a file comes by some circuit");
    line.contains(" CWND=")
}

/// A relay with windows of SENDMEs, or with congestion control.
fn options(has_vegas: bool, is_exit: bool) -> Options {
    let edge_control = match has_vegas {
        true => EdgeControlConfig::Vegas(VegasConfig::default()),
        false => EdgeControlConfig::default(),
    };
    Options { relay: RelayConfig { edge_control, ..RelayConfig::default() }, is_exit }
}

/// What a relay of ours is to be known as.
const FLAGS: [&str; 6] = ["Running", "Valid", "Fast", "Stable", "Guard", "V2Dir"];

/// At which positions a client's circuits are ours.
fn pinned(positions: &[(&str, &Ours)]) -> String {
    let line = |(position, ours): &(&str, &Ours)| format!("{position}Nodes ${}\n", ours.fingerprint);
    positions.iter().map(line).collect::<String>() + "StrictNodes 1\n"
}

fn ours_at_every_position(has_vegas: bool) {
    let params = if has_vegas { "cc_alg=2" } else { "cc_alg=0" };
    let mut network = Network::new(3, 3, 2, params);
    network.start();
    let kinds = [("penstock0", true), ("penstock1", false), ("penstock2", true)];
    let relays = std::thread::scope(|scope| {
        let network = &network;
        let join =
            |(name, is_exit)| scope.spawn(move || Ours::join(network, name, options(has_vegas, is_exit)));
        kinds.map(join).map(|joined| joined.join().expect("it begins"))
    });
    for relay in &relays {
        network.await_flags(&relay.nickname, &FLAGS);
    }
    network.await_flags("exit1", &FLAGS);
    let [guard, middle, exit] = &relays;
    let all = [("Entry", guard), ("Middle", middle), ("Exit", exit)];
    for positions in [&all[..1], &all[1..2], &all[2..], &all[..]] {
        let names: String = positions.iter().map(|(position, _)| *position).collect();
        let client = network.client(&format!("client{names}"), &pinned(positions));
        await_bootstrap(&client);
        for bytes in [1, 100_000, 5_000_000] {
            fetch_and_check(&client, bytes);
        }
        let controlled = is_controlled(&client);
        let has_exit = positions.iter().any(|(position, _)| *position == "Exit");
        // Elsewhere C tor's own exits decide, which may speak either.
        assert!(!has_exit || controlled == has_vegas, "{names}: {controlled}");
        for (position, ours) in positions {
            let place = ["Entry", "Middle", "Exit"].iter().position(|name| name == position).unwrap();
            assert_path(&client, place, ours);
        }
    }
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn circuits_with_windows_go_through_ours_at_every_position() {
    ours_at_every_position(false);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn circuits_with_congestion_control_go_through_ours_at_every_position() {
    ours_at_every_position(true);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn a_client_learns_all_from_ours_alone() {
    let mut network = Network::new(3, 2, 1, "");
    network.start();
    let ours = Ours::join(&network, "penstock", options(true, false));
    network.await_flags("penstock", &FLAGS);
    network.await_flags("exit0", &["Running", "Exit"]);
    assert!(wait(PATIENCE, || ours.has_whole_directory()), "{:?}", ours.notes());
    // From now on there is nobody else to ask: others may be guards, but strangers know their addresses only from ours.
    network.stop(Role::Authority);
    let [ip, port] = [ours.address.ip().to_string(), ours.address.port().to_string()];
    let fallback = format!("FallbackDir {ip}:1 orport={port} id={}\n", ours.fingerprint);
    let client = network.client("client", &(fallback + &pinned(&[("Entry", &ours)])));
    await_bootstrap(&client);
    fetch_and_check(&client, 1_000_000);
    assert_path(&client, 0, &ours);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn authorities_and_ours_may_begin_again() {
    let mut network = Network::new(3, 2, 1, "");
    network.start();
    let ours = Ours::join(&network, "penstock", options(true, false));
    network.await_flags("penstock", &FLAGS);
    network.await_flags("exit0", &["Running", "Exit"]);
    let client = network.client("client", &pinned(&[("Entry", &ours)]));
    await_bootstrap(&client);
    fetch_and_check(&client, 100_000);

    // An authority is gone for a vote, and comes back.
    network.tors[0].stop();
    let after = ours.consensus();
    assert!(
        wait(PATIENCE, || ours.consensus() > after),
        "two of three authorities are enough: {:?}",
        ours.notes()
    );
    network.restart(0);
    assert!(wait(PATIENCE, || network.is_signed_by_all()), "the authority votes again");
    network.await_flags("penstock", &FLAGS);

    // So do we, with the same keys and at the same place.
    let (fingerprint, address) = (ours.fingerprint.clone(), ours.address);
    drop(ours);
    let ours = Ours::join(&network, "penstock", options(true, false));
    assert_eq!((&ours.fingerprint, ours.address), (&fingerprint, address));
    let took_it = |note: &Note| matches!(note, Note::Published(_));
    assert!(
        wait(PATIENCE, || ours.notes().iter().filter(|note| took_it(note)).count() >= 3),
        "{:?}",
        ours.notes()
    );
    fetch_and_check(&client, 1_000_000);
    assert_path(&client, 0, &ours);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn the_program_joins_by_its_torrc() {
    let mut network = Network::new(3, 2, 1, "");
    network.start();
    let program = network.program("penstock");
    network.await_flags("penstock", &FLAGS);
    network.await_flags("exit0", &["Running", "Exit"]);
    let client = network.client("client", &format!("EntryNodes ${}\nStrictNodes 1\n", program.fingerprint()));
    await_bootstrap(&client);
    fetch_and_check(&client, 1_000_000);
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
