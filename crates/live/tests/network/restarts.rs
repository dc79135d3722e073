//! A network in which nodes restart, have wrong clocks, and authorities disappear.

use super::exchange::{exchange, server};
use super::testnet::penstock_relay::{Options, PenstockRelay};
use super::testnet::tor::{Role, wait};
use super::testnet::{CONTROLLED, Network, TIMEOUT, pinned};
use super::{FLAGS, assert_path, await_bootstrap, carry, open, timed};
use penstock_core::scheduler::SchedulerConfig;
use penstock_live::directory::{DirectoryEvent, Failure};
use std::net::SocketAddr;
use std::thread;

/// A day [s].
const DAY: i64 = 86_400;
/// Authorities accept descriptors that are up to a day old.
const MORE: i64 = 3600;

fn middle() -> Options {
    Options { is_exit: false, ..Options::exit(SchedulerConfig::default()) }
}

/// A relay fails during a large transfer. The client's stream must end soon, not hang.
fn assert_stream_breaks(client: &super::Tor, server: SocketAddr, happens: impl FnOnce()) {
    let stream = open(client, server);
    let ended = thread::scope(|scope| {
        let carried = scope.spawn(|| exchange(&stream, 1 << 30, 1 << 30));
        thread::sleep(std::time::Duration::from_secs(1));
        happens();
        carried.join().expect("the thread does not panic")
    });
    ended.expect_err("a relay that fails breaks its streams");
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn a_network_survives_restarts_of_its_nodes() {
    let mut network = Network::new(3, 2, 1);
    network.start();
    let program = network.program("program");
    let ours = PenstockRelay::join(&network, "penstock", middle());
    let [ahead, behind] = [("ahead", DAY), ("behind", -DAY - MORE)]
        .map(|(name, ahead)| PenstockRelay::join(&network, name, Options { ahead, ..middle() }));
    timed("all relays have their flags", || {
        network.await_flags("penstock", &FLAGS);
        network.await_flags("program", &FLAGS);
        network.await_flags("exit0", &["Running", "Exit"]);
    });
    let (server, _ends) = server();

    // `penstock-relay`, with only a torrc, is the guard and then the exit of a circuit.
    timed("the program carries transfers", || {
        let fingerprint = program.fingerprint();
        for (position, kind) in [("Entry", ""), ("Exit", CONTROLLED)] {
            let options = pinned([(position, &fingerprint[..])]) + kind;
            let client = network.client(&format!("program{position}"), &options);
            await_bootstrap(&client);
            carry(&client, server, 5_000_000, 5_000_000);
        }
    });

    // Authorities reject a descriptor whose relay has a clock that is wrong by a day, and state the
    // reason.
    for (wrong, reason) in [(&ahead, "too far in the future"), (&behind, "too far in the past")] {
        let is_rejection = |event: &DirectoryEvent| matches!(event, DirectoryEvent::NotPublished(_, Failure::Refused(400, why)) if why.contains(reason));
        let rejections = || wrong.events().iter().filter(|event| is_rejection(event)).count();
        assert!(wait(TIMEOUT, || rejections() >= 3), "{}: {:?}", wrong.nickname, wrong.events());
        assert_eq!(network.entry(&wrong.nickname, "s"), None);
        assert!(
            wrong.events().iter().any(|event| matches!(event, DirectoryEvent::ClockIsOff(_))),
            "{:?}",
            wrong.events()
        );
    }
    drop((ahead, behind));

    let relay = network.tor("relay0").fingerprint.clone();
    let at = [("Entry", &ours.fingerprint[..]), ("Middle", &relay[..])];
    let client = network.client("client", &pinned(at));
    await_bootstrap(&client);
    carry(&client, server, 100_000, 100_000);

    timed("a C tor relay restarts", || {
        let number =
            network.tors.iter().position(|tor| tor.name == "relay0").expect("the relay is in the network");
        assert_stream_breaks(&client, server, || network.restart(number));
        carry(&client, server, 1_000_000, 1_000_000);
    });
    timed("an authority misses a vote and returns", || {
        network.tors[0].stop();
        let after = ours.consensus();
        assert!(
            wait(TIMEOUT, || ours.consensus() > after),
            "two of three authorities suffice: {:?}",
            ours.events()
        );
        network.restart(0);
        assert!(wait(TIMEOUT, || network.is_signed_by_all()), "the authority votes again");
        network.await_flags("penstock", &FLAGS);
    });
    // A Penstock relay restarts with the same keys and the same address.
    let (fingerprint, address) = (ours.fingerprint.clone(), ours.address);
    let ours = timed("a Penstock relay restarts", || {
        assert_stream_breaks(&client, server, || drop(ours));
        let ours = PenstockRelay::join(&network, "penstock", middle());
        assert_eq!((&ours.fingerprint, ours.address), (&fingerprint, address));
        let took_it = |event: &DirectoryEvent| matches!(event, DirectoryEvent::Published(_));
        assert!(
            wait(TIMEOUT, || ours.events().iter().filter(|event| took_it(event)).count() >= 3),
            "{:?}",
            ours.events()
        );
        carry(&client, server, 1_000_000, 1_000_000);
        assert_path(&client, 0, &ours);
        ours
    });
    timed("a client bootstraps from a Penstock relay alone", || {
        assert!(wait(TIMEOUT, || ours.has_whole_directory()), "{:?}", ours.events());
        // The client's only directory is this relay. Other relays may be guards, but the client
        // learns their addresses only from it.
        network.stop(Role::Authority);
        let [ip, port] = [ours.address.ip().to_string(), ours.address.port().to_string()];
        let fallback = format!("FallbackDir {ip}:1 orport={port} id={}\n", ours.fingerprint);
        let client = network.client("stranger", &(fallback + &pinned([("Entry", &ours.fingerprint[..])])));
        await_bootstrap(&client);
        carry(&client, server, 1_000_000, 1_000_000);
        assert_path(&client, 0, &ours);
    });
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn c_tor_alone_forms_a_network() {
    let mut network = Network::new(3, 2, 1);
    network.start();
    network.await_flags("exit0", &["Running", "Exit", "Guard"]);
    let client = network.client("client", "");
    await_bootstrap(&client);
    carry(&client, server().0, 1_000_000, 1_000_000);
}
