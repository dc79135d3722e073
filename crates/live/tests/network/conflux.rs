//! Linked circuits (Conflux) with C tor at one end, and with Penstock at both ends.

use super::exchange::{exchange, server};
use super::proxy::{await_ready, side_by_side, user_of};
use super::testnet::penstock_relay::{Options, PenstockRelay};
use super::testnet::tor::{Tor, wait};
use super::testnet::{CONTROLLED, Network, Proxy, TIMEOUT, pinned, socks_at};
use super::{FLAGS, await_bootstrap, timed};
use penstock_core::Counters;
use penstock_core::conflux::ConfluxConfig;
use penstock_core::scheduler::{KistDeployedConfig, SchedulerConfig};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Sizes of downloads [B].
const SIZES: [u64; 4] = [1, 20_000, 300_000, 2_000_000];
const DOWNLOADS: u32 = 50;
/// A transfer that is larger than all windows and buffers [B].
const LARGE: u64 = 20_000_000;
const UP: u64 = 2_000_000;
/// Each leg carries at least this part of a large transfer [%].
const LEAST: u64 = 2;
/// Stream data in a cell [B].
const PAYLOAD: u64 = 498;

/// Exits of C tor and of Penstock, and two guards and two middle relays of each kind.
struct World {
    network: Network,
    ours: Vec<PenstockRelay>,
    server: SocketAddr,
}

impl World {
    fn new() -> Self {
        let mut network = Network::with_parameters(3, 4, 1, "cc_alg=2 KISTSchedRunInterval=2");
        network.start();
        let options = || {
            let mut options = Options::exit(SchedulerConfig::KistDeployed(KistDeployedConfig::default()));
            options.relay.conflux = Some(ConfluxConfig::TOR_0_4_9);
            options
        };
        let names = ["ours0", "ours1", "ours2", "ours3", "ours4"];
        let ours = names.map(|name| PenstockRelay::join(&network, name, options())).into();
        timed("all relays have their flags", || {
            let all = ["relay0", "relay1", "relay2", "relay3", "exit0"].into_iter().chain(names);
            all.for_each(|name| drop(network.await_flags(name, &FLAGS)));
        });
        let listed = network.entry("ours4", "pr").expect("the consensus lists protocols");
        assert!(listed.starts_with("Conflux=1 "), "{listed}");
        World { network, ours, server: server().0 }
    }

    /// The options of a client whose circuits have two guards, two middle relays and one exit.
    fn pins(&self, ours: bool, exit: &str) -> String {
        let name = |number| format!("{}{number}", if ours { "ours" } else { "relay" });
        let [guards, middles] =
            [[0, 1], [2, 3]].map(|pair| pair.map(|number| self.fingerprint(&name(number))).join(",$"));
        let exit = self.fingerprint(exit);
        pinned([("Entry", &guards[..]), ("Middle", &middles), ("Exit", &exit)]) + "ConfluxEnabled 1\n"
    }

    fn fingerprint(&self, name: &str) -> String {
        let ours = self.ours.iter().find(|relay| relay.nickname == name);
        ours.map_or_else(|| self.network.tor(name).fingerprint.clone(), |relay| relay.fingerprint.clone())
    }

    fn counters(&self) -> Vec<Counters> {
        self.ours.iter().map(|relay| relay.observe().counters).collect()
    }

    /// Downloads over many streams, and checks each hash.
    fn download(&self, socks: SocketAddr) {
        side_by_side(DOWNLOADS, |number| {
            let down = SIZES[number as usize % SIZES.len()];
            let stream = socks_at(socks, self.server, user_of(number).as_deref())
                .unwrap_or_else(|error| panic!("download {number}: {error}"));
            exchange(&stream, 1 + u64::from(number), down)
                .unwrap_or_else(|error| panic!("download {number} of {down} B: {error}"));
        });
    }

    fn exchange(&self, socks: SocketAddr) {
        let stream = socks_at(socks, self.server, None).expect("a circuit reaches the server");
        exchange(&stream, UP, LARGE).expect("all data arrives");
    }

    /// Starts Penstock as a client, and waits until its first circuits are linked.
    fn proxy(&self, name: &str, exit: &str) -> Proxy {
        let proxy = self.network.proxy(name, &self.pins(true, exit));
        timed(&format!("{name}: the first linked circuits"), || {
            await_ready(&proxy, self.server);
            let links = || proxy.read("log").contains("linked circuit ");
            assert!(wait(TIMEOUT, links), "{}", proxy.read("log"));
        });
        proxy
    }

    /// Transfers through the client, and checks that both guards and both middle relays carry a part of it.
    fn check_proxy(&self, name: &str, proxy: &Proxy) {
        let circuits = proxy.circuits().len();
        timed(&format!("{name}: {DOWNLOADS} downloads"), || self.download(proxy.socks));
        let before = self.counters();
        timed(&format!("{name}: {LARGE} B"), || self.exchange(proxy.socks));
        let after = self.counters();
        let carried: Vec<u64> = (0..4).map(|at| after[at].received - before[at].received).collect();
        println!("{name}: cells at guards and middle relays: {carried:?}");
        let least = LARGE / PAYLOAD * LEAST / 100;
        assert!(carried.iter().all(|cells| *cells > least), "{carried:?}, at least {least}");
        let used = proxy.circuits();
        let linked = used[circuits..].iter().filter(|path| path.contains(" and circuit ")).count();
        println!("{name}: {linked} of {} streams used linked circuits", used.len() - circuits);
        assert!(used.last().is_some_and(|path| path.contains(" and circuit ")), "{used:?}");
    }
}

/// The bytes that each circuit of the client receives while `action` transfers [`LARGE`] bytes [B].
fn received_by_circuit(client: &Tor, action: impl FnOnce()) -> BTreeMap<String, u64> {
    let events = client.circuit_bandwidths();
    let begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let mut sums = BTreeMap::new();
            for line in events {
                let value = |key: &str| {
                    let found = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
                    found.unwrap_or_default().to_owned()
                };
                if begun.load(Ordering::Relaxed) {
                    let read: u64 = value("DELIVERED_READ").parse().unwrap_or(0);
                    *sums.entry(value("ID")).or_insert(0) += read;
                }
                if sums.values().sum::<u64>() >= LARGE {
                    break;
                }
            }
            sums
        });
        // The first event of a circuit counts what it received before.
        thread::sleep(Duration::from_millis(2500));
        begun.store(true, Ordering::Relaxed);
        action();
        counting.join().expect("the thread does not panic")
    })
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn a_client_of_c_tor_links_circuits_to_our_exit() {
    let world = World::new();
    let options = world.pins(false, "ours4") + CONTROLLED;
    let client = world.network.client("client", &options);
    timed("the first linked circuits", || {
        await_bootstrap(&client);
        let links = || client.read("log").contains("Successfully linked a conflux client set");
        assert!(wait(TIMEOUT, links), "{}", client.read("warnings"));
    });
    let exit = || world.ours[4].observe().counters;
    assert!(exit().linked >= 2, "{:?}", exit());
    timed(&format!("{DOWNLOADS} downloads"), || world.download(client.socks));
    let before = exit();
    let received = received_by_circuit(&client, || world.exchange(client.socks));
    let after = exit();
    println!("bytes by circuit: {received:?}; {} switches", after.switches - before.switches);
    let legs = received.values().filter(|bytes| **bytes > LARGE * LEAST / 100).count();
    assert_eq!(legs, 2, "{received:?}");
    assert!(after.switches > before.switches);
    assert!(after.data_packaged - before.data_packaged >= LARGE / PAYLOAD);
    let seen = world.ours[4].observe();
    assert!(seen.node_counters.violations.is_empty(), "{:?}", seen.node_counters.violations);
}

#[test]
#[ignore = "needs C tor (Debian's package tor)"]
fn our_client_links_circuits_to_exits_of_c_tor_and_ours() {
    let mut world = World::new();
    let proxy = world.proxy("to-tor", "exit0");
    let log = world.network.tor("exit0").read("log");
    assert!(log.contains("Successfully linked a conflux relay set"), "C tor links the circuits");
    world.check_proxy("to-tor", &proxy);
    drop(proxy);
    let proxy = world.proxy("to-ours", "ours4");
    let before = world.ours[4].observe().counters;
    world.check_proxy("to-ours", &proxy);
    let after = world.ours[4].observe().counters;
    assert!(after.switches > before.switches, "{after:?}");
    for relay in &world.ours {
        let violations = relay.observe().node_counters.violations;
        assert!(violations.is_empty(), "{}: {violations:?}", relay.nickname);
    }
    // A middle relay dies during a transfer.
    let stream = socks_at(proxy.socks, world.server, None).expect("a circuit reaches the server");
    let died = thread::scope(|scope| {
        let carried = scope.spawn(|| exchange(&stream, 1 << 30, 1 << 30));
        thread::sleep(Duration::from_secs(1));
        drop(world.ours.remove(3));
        carried.join().expect("the thread does not panic")
    });
    died.expect_err("the set of linked circuits has closed");
    timed("downloads after the death of a leg", || world.download(proxy.socks));
}
