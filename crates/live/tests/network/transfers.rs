//! Transfers through Penstock relays at each position, with each scheduler, with windows and with
//! congestion control.

use super::exchange::{ServerResult, server};
use super::testnet::penstock_relay::{Options, PenstockRelay};
use super::testnet::tor::{Tor, wait};
use super::testnet::{CONTROLLED, Network, POSITIONS, TIMEOUT, pinned};
use super::{FLAGS, assert_path, await_bootstrap, carry, exchange, half_closed, open, resident, timed};
use penstock_core::scheduler::{
    GlobalConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig, VanillaConfig,
};
use penstock_core::{RelayConfig, edge_control::EdgeControlConfig};
use std::net::SocketAddr;
use std::thread;

/// Sizes of transfers in each direction [B].
const SIZES: [u64; 3] = [1, 100_000, 5_000_000];
/// The size of a transfer that takes a minute or more, in each direction [B].
const LARGE: u64 = 200_000_000;

/// One scheduler for each Penstock relay.
fn schedulers() -> [(&'static str, SchedulerConfig); 5] {
    [
        ("deployed", SchedulerConfig::KistDeployed(KistDeployedConfig::default())),
        ("vanilla", SchedulerConfig::Vanilla(VanillaConfig::default())),
        ("global", SchedulerConfig::Global(GlobalConfig::default())),
        ("kist", SchedulerConfig::Kist(KistConfig::default())),
        ("lite", SchedulerConfig::KistLite(KistLiteConfig::default())),
    ]
}

/// A client, and the positions of Penstock relays on its circuits.
struct Case<'a> {
    client: Tor,
    controlled: bool,
    ours: Vec<(usize, &'a PenstockRelay)>,
    sizes: &'a [u64],
}

impl<'a> Case<'a> {
    /// C tor relays take the other positions.
    fn new(network: &Network, number: usize, controlled: bool, ours: &[(usize, &'a PenstockRelay)]) -> Self {
        let mut path = ["relay0", "relay1", "exit0"].map(|name| &network.tor(name).fingerprint[..]);
        for (place, ours) in ours {
            path[*place] = &ours.fingerprint;
        }
        let options = pinned(POSITIONS.into_iter().zip(path)) + if controlled { CONTROLLED } else { "" };
        let client = network.client(&format!("client{number}"), &options);
        Case { client, controlled, ours: ours.to_vec(), sizes: &SIZES }
    }

    /// The name of the case in the output.
    fn name(&self) -> String {
        let kind = if self.controlled { "congestion control" } else { "windows" };
        let ours = self.ours.iter().map(|(place, ours)| format!("{} {}", POSITIONS[*place], ours.nickname));
        format!("{kind}; {}", ours.collect::<Vec<_>>().join(", "))
    }

    /// Transfers `bytes` bytes in each direction.
    fn carry(&self, server: SocketAddr, bytes: u64) {
        timed(&format!("{}: {bytes} B each way", self.name()), || {
            carry(&self.client, server, bytes, bytes);
        });
    }

    fn run(&self, server: SocketAddr) {
        await_bootstrap(&self.client);
        let events = self.client.circuit_bandwidths();
        self.sizes.iter().for_each(|bytes| self.carry(server, *bytes));
        // The circuit of the transfer has a congestion window if and only if the client requested
        // one.
        let read = |line: &str| {
            let read = line.split(" READ=").nth(1).and_then(|rest| rest.split(' ').next());
            read.is_some_and(|bytes| bytes.parse::<u64>().is_ok_and(|bytes| bytes > 100_000))
        };
        let line = { events }.find(|line| read(line)).expect("a circuit carried the transfer");
        assert_eq!(line.contains(" CWND="), self.controlled, "{}: {line}", self.name());
        for (place, ours) in &self.ours {
            assert_path(&self.client, *place, ours);
        }
    }
}

/// A network with one Penstock relay for each scheduler.
fn network() -> (Network, [PenstockRelay; 5]) {
    let mut network = Network::new(3, 2, 1);
    network.start();
    let relays = thread::scope(|scope| {
        let network = &network;
        let join = |(name, scheduler): (&'static str, _)| {
            scope.spawn(move || PenstockRelay::join(network, name, Options::exit(scheduler)))
        };
        schedulers().map(join).map(|joined| joined.join().expect("the relay starts"))
    });
    timed("all relays have their flags", || {
        for name in ["relay0", "exit0"].into_iter().chain(relays.iter().map(|relay| &relay.nickname[..])) {
            network.await_flags(name, &FLAGS);
        }
    });
    (network, relays)
}

/// A Penstock relay at each position alone, and at all positions, with windows and with congestion
/// control.
fn cases<'a>(network: &Network, relays: &'a [PenstockRelay; 5]) -> Vec<Case<'a>> {
    let kinds = [false, true].into_iter();
    let each = kinds.flat_map(|kind| [&[0][..], &[1], &[2], &[0, 1, 2]].map(|places| (kind, places)));
    each.enumerate()
        .map(|(number, (controlled, places))| {
            let ours: Vec<_> =
                places.iter().map(|place| (*place, &relays[(number + place) % relays.len()])).collect();
            Case::new(network, number, controlled, &ours)
        })
        .collect()
}

/// Prints the maximum load and memory of the Penstock relays.
fn print(relays: &[PenstockRelay]) {
    for relay in relays {
        let observed = relay.summary();
        println!(
            "{}: at most {} circuits, {} streams, {} cells in queues, {} B in output buffers",
            relay.nickname, observed.circuits, observed.streams, observed.queued, observed.outbuf
        );
    }
    println!("memory of this process: {} MB", resident());
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn large_transfers_through_penstock_at_any_position_are_unchanged() {
    let (network, relays) = network();
    let (server, _ends) = server();
    println!("memory of this process before: {} MB", resident());
    // Windows and congestion control with Penstock at all positions, and congestion control at each
    // position alone.
    for case in &cases(&network, &relays)[3..] {
        await_bootstrap(&case.client);
        case.carry(server, LARGE);
    }
    print(&relays);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn transfers_through_penstock_at_any_position_are_unchanged() {
    let (network, relays) = network();
    // Another Penstock relay has only windows.
    let relay = RelayConfig { edge_control: EdgeControlConfig::default(), ..RelayConfig::default() };
    let plain = PenstockRelay::join(&network, "plain", Options { relay, is_exit: true, ahead: 0 });
    let (server, ends) = server();
    // Each position alone and all three, then each scheduler at each position.
    let mut cases = cases(&network, &relays);
    for first in 0..relays.len() {
        let ours = [0, 1, 2].map(|place| (place, &relays[(first + place) % relays.len()]));
        let case = Case::new(&network, cases.len(), first % 2 == 0, &ours);
        cases.push(Case { sizes: &[20_000_000], ..case });
    }
    for case in &cases {
        case.run(server);
    }
    // A client that requests congestion control of this relay gets windows.
    network.await_flags("plain", &FLAGS);
    let case = Case::new(&network, cases.len(), true, &[(2, &plain)]);
    Case { controlled: false, ..case }.run(server);

    for case in [&cases[3], &cases[7]] {
        timed(&format!("{}: 50 streams at once", case.name()), || many_streams(case, server));
        timed(&format!("{}: torn down", case.name()), || closed_circuit(case, server, &ends));
    }
    for (name, exit) in [("C tor", &network.tor("exit0").fingerprint), ("ours", &relays[0].fingerprint)] {
        let client = network.client(&format!("half{}", name.len()), &pinned([("Exit", &exit[..])]));
        await_bootstrap(&client);
        timed(&format!("half-closed streams at {name}"), || half_closed::assert_same_as_c_tor(&client, name));
    }
    print(&relays);
}

/// Fifty streams of one circuit, each with transfers in both directions.
fn many_streams(case: &Case<'_>, server: SocketAddr) {
    let client = &case.client;
    let streams: Vec<_> = (0..50).map(|_| open(client, server)).collect();
    let circuits = client.circuits_to(server);
    assert_eq!(circuits.len(), 50, "{circuits:?}");
    assert!(circuits.iter().all(|circuit| *circuit == circuits[0]), "{circuits:?}");
    thread::scope(|scope| {
        let all = streams.iter().map(|stream| scope.spawn(|| exchange(stream, 1_000_000, 1_000_000)));
        for ended in all.collect::<Vec<_>>() {
            ended.join().expect("the thread does not panic").expect("all data arrives");
        }
    });
}

/// A client closes a circuit during a large transfer. Both ends notice it, no relay keeps any state
/// of it, and the next transfer succeeds.
fn closed_circuit(case: &Case<'_>, server: SocketAddr, ends: &std::sync::mpsc::Receiver<ServerResult>) {
    let client = &case.client;
    while ends.try_recv().is_ok() {}
    let exit = case.ours.last().expect("one relay is Penstock").1;
    assert!(wait(TIMEOUT, || exit.observe().population[2] == 0), "earlier streams are closed");
    let stream = open(client, server);
    let circuit = client.circuits_to(server).pop().expect("the stream has a circuit");
    let dropped = exit.observe().counters.dropped;
    let failed = thread::scope(|scope| {
        let carried = scope.spawn(|| exchange(&stream, 1 << 30, 1 << 30));
        assert!(wait(TIMEOUT, || exit.observe().population[2] == 1));
        thread::sleep(std::time::Duration::from_secs(1));
        client.control(&format!("CLOSECIRCUIT {circuit}"));
        carried.join().expect("the thread does not panic")
    });
    failed.expect_err("a closed circuit carries no data");
    let ended =
        ends.recv_timeout(std::time::Duration::from_secs(60)).expect("the server notices the closed stream");
    assert!(ended.received > 1_000_000 && ended.received < ended.expected, "{ended:?}");
    assert!(wait(TIMEOUT, || {
        let observed = exit.observe();
        observed.population[2] == 0 && observed.queued.get() == 0
    }));
    println!(
        "{}: {} B had arrived, {} cells were dropped",
        exit.nickname,
        ended.received,
        exit.observe().counters.dropped - dropped
    );
    carry(client, server, 1_000_000, 1_000_000);
}
