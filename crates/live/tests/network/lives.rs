//! A network in which nodes begin again, are wrong about the time, and authorities go away.

use super::exchange::{exchange, server};
use super::testnet::ours::{Options, Ours};
use super::testnet::tor::{Role, wait};
use super::testnet::{CONTROLLED, Network, PATIENCE, pinned};
use super::{FLAGS, assert_path, await_bootstrap, carry, open, timed};
use penstock_core::scheduler::SchedulerConfig;
use penstock_live::directory::{DirectoryEvent, Failure};
use std::net::SocketAddr;
use std::thread;

/// A day [s].
const DAY: i64 = 86_400;
/// Authorities take what is up to a day old.
const MORE: i64 = 3600;

fn middle() -> Options {
    Options { is_exit: false, ..Options::exit(SchedulerConfig::default()) }
}

/// The client's stream breaks when something happens while much is under way; nobody waits for ever.
fn breaks(client: &super::Tor, server: SocketAddr, happens: impl FnOnce()) {
    let stream = open(client, server);
    let ended = thread::scope(|scope| {
        let carried = scope.spawn(|| exchange(&stream, 1 << 30, 1 << 30));
        thread::sleep(std::time::Duration::from_secs(1));
        happens();
        carried.join().expect("it does not panic")
    });
    ended.expect_err("what is on the way is lost with a relay");
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn a_network_survives_restarts_of_its_nodes() {
    let mut network = Network::new(3, 2, 1);
    network.start();
    let program = network.program("program");
    let ours = Ours::join(&network, "penstock", middle());
    let [ahead, behind] = [("ahead", DAY), ("behind", -DAY - MORE)]
        .map(|(name, ahead)| Ours::join(&network, name, Options { ahead, ..middle() }));
    timed("all have their flags", || {
        network.await_flags("penstock", &FLAGS);
        network.await_flags("program", &FLAGS);
        network.await_flags("exit0", &["Running", "Exit"]);
    });
    let (server, _ends) = server();

    // The program, which has nothing but a torrc, at both ends of a circuit.
    timed("the program carries by its torrc", || {
        let fingerprint = program.fingerprint();
        for (position, kind) in [("Entry", ""), ("Exit", CONTROLLED)] {
            let options = pinned([(position, &fingerprint[..])]) + kind;
            let client = network.client(&format!("program{position}"), &options);
            await_bootstrap(&client);
            carry(&client, server, 5_000_000, 5_000_000);
        }
    });

    // Whose clock is a day off is told so, and is no part of the network.
    for (wrong, says) in [(&ahead, "too far in the future"), (&behind, "too far in the past")] {
        let tells = |note: &DirectoryEvent| matches!(note, DirectoryEvent::NotPublished(_, Failure::Refused(400, why)) if why.contains(says));
        let told = || wrong.notes().iter().filter(|note| tells(note)).count();
        assert!(wait(PATIENCE, || told() >= 3), "{}: {:?}", wrong.nickname, wrong.notes());
        assert_eq!(network.entry(&wrong.nickname, "s"), None);
        assert!(
            wrong.notes().iter().any(|note| matches!(note, DirectoryEvent::ClockIsOff(_))),
            "{:?}",
            wrong.notes()
        );
    }
    drop((ahead, behind));

    let relay = network.tor("relay0").fingerprint.clone();
    let at = [("Entry", &ours.fingerprint[..]), ("Middle", &relay[..])];
    let client = network.client("client", &pinned(at));
    await_bootstrap(&client);
    carry(&client, server, 100_000, 100_000);

    timed("a relay of C tor begins again", || {
        let number = network.tors.iter().position(|tor| tor.name == "relay0").expect("it is there");
        breaks(&client, server, || network.restart(number));
        carry(&client, server, 1_000_000, 1_000_000);
    });
    timed("an authority is gone for a vote, and comes back", || {
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
    });
    // So do we, with the same keys and at the same place.
    let (fingerprint, address) = (ours.fingerprint.clone(), ours.address);
    let ours = timed("a relay of ours begins again", || {
        breaks(&client, server, || drop(ours));
        let ours = Ours::join(&network, "penstock", middle());
        assert_eq!((&ours.fingerprint, ours.address), (&fingerprint, address));
        let took_it = |note: &DirectoryEvent| matches!(note, DirectoryEvent::Published(_));
        assert!(
            wait(PATIENCE, || ours.notes().iter().filter(|note| took_it(note)).count() >= 3),
            "{:?}",
            ours.notes()
        );
        carry(&client, server, 1_000_000, 1_000_000);
        assert_path(&client, 0, &ours);
        ours
    });
    timed("a client learns all from ours alone", || {
        assert!(wait(PATIENCE, || ours.has_whole_directory()), "{:?}", ours.notes());
        // From now on there is nobody else to ask: others may be guards, but strangers know their addresses only from ours.
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
