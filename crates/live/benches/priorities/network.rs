//! The network of a round: C tor's directory, guard, exit, clients and onion services, and two of our relays as middle
//! relays.

use crate::star;
use crate::testnet::place::Place;
use crate::testnet::tor::{Role, Tor, wait};
use crate::testnet::{Network, NodeSpec, POSITIONS, Program, TIMEOUT, pinned, socks_to_name};
use nix::sys::resource::{Resource, setrlimit};
use penstock_testbed::Error;
use penstock_testbed::site::Site;
use penstock_testbed::star::Access;
use penstock_units::{Bytes, DataRate, Duration};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Round-trip time between any two nodes.
const RTT: Duration = Duration::from_millis(50);
/// The paper's rates of the middle relay, and of the entry and the exit [B/s] (section 3.3.2).
const MIDDLE_RATE: u64 = 3_000_000;
const END_RATE: u64 = 10_000_000;
/// The value of `RLIMIT_NICE` that allows all priorities (getrlimit(2)).
const MOST_NICE: u64 = 40;
const DIRECTORY: usize = 0;
pub(crate) const GUARD: usize = 1;
pub(crate) const EXIT: usize = 2;
pub(crate) const SERVER: usize = 3;
pub(crate) const CLIENT: usize = 4;
/// The hosts of both middle relays.
pub(crate) const MIDDLES: [usize; 2] = [5, 6];
/// The hosts of other relays: directories, introduction points and rendezvous points of onion services.
const OTHERS: [usize; 5] = [7, 8, 9, 10, 11];
pub(crate) const HOSTS: usize = 12;
/// The scheduler of tor in 2010.
const VANILLA: &str = "Schedulers Vanilla\n";
const DIRECTORIES: &str = "TestingDirAuthVoteHSDir *\n";
const FLAGS: [&str; 4] = ["Running", "Valid", "Fast", "Stable"];
/// Windows of a fixed size, and one circuit for a stream.
const WINDOWS: &str = "cc_alg=0 cfx_enabled=0";
const CLIENT_OPTIONS: &str = "ConfluxEnabled 0\n";
/// The middle relays: names, and their options. The half-life is that of section 5.
pub(crate) const MODES: [(&str, &str); 2] = [
    ("none", "Penstock circuit_policy = 'round-robin'\n"),
    ("EWMA", "Penstock circuit_policy = { kind = 'ewma', half_life = '33 s' }\n"),
];

/// A difference from the experiment, to find the cause of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    /// The experiment itself.
    None,
    /// Our exit without priorities replaces C tor's exit, whose priorities cannot be switched off.
    Exit,
    /// A token bucket limits the middle relays instead of their links.
    Bucket,
    /// The links of the middle relays receive as fast as those of the exit, and are slow only in the other direction.
    Uplink,
}

impl Factor {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Factor::None => "none",
            Factor::Exit => "exit",
            Factor::Bucket => "bucket",
            Factor::Uplink => "uplink",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Factor::None, Factor::Exit, Factor::Bucket, Factor::Uplink]
            .into_iter()
            .find(|factor| factor.name() == name)
    }
}

/// Opens the emulated network.
pub(crate) fn emulated(factor: Factor) -> Result<Site, Error> {
    let limited = |rate| {
        let rate = DataRate::new(rate).expect("the rates are positive");
        // A drop-tail queue of 100 ms.
        Access { up: rate, down: rate, queue: rate.bytes_in(Duration::from_millis(100)) }
    };
    let fast = Access { up: DataRate::mib(60), down: DataRate::mib(60), queue: Bytes::new(8 << 20) };
    let mut hosts = vec![fast; HOSTS];
    hosts[GUARD] = limited(END_RATE);
    hosts[EXIT] = limited(END_RATE);
    for middle in MIDDLES {
        hosts[middle] = match factor {
            Factor::None | Factor::Exit => limited(MIDDLE_RATE),
            Factor::Bucket => fast,
            Factor::Uplink => Access { up: limited(MIDDLE_RATE).up, ..limited(END_RATE) },
        };
    }
    // A process in a new user namespace may only use priorities that this limit allows.
    let may_favour = setrlimit(Resource::RLIMIT_NICE, MOST_NICE, MOST_NICE).is_ok();
    let site = star::open(&hosts, RTT)?;
    if may_favour {
        favour_links();
    }
    Ok(site)
}

/// Gives the thread of the emulated links a high priority, because real links do not wait for a processor.
fn favour_links() {
    let threads = fs::read_dir("/proc/self/task").expect("Linux has this folder").flatten();
    let is_hub = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "hub")
    };
    for hub in threads.filter(is_hub) {
        let renice = Command::new("renice").args(["-n", "-15", "-p"]).arg(hub.file_name()).output();
        if !renice.is_ok_and(|output| output.status.success()) {
            println!("the emulated links have no higher priority than other programs");
        }
    }
}

/// A running network. The number of a middle relay is its place in [`MODES`].
pub(crate) struct Nodes {
    /// The clients of each middle relay, for the load and for the small file.
    pub(crate) clients: [Tor; 2],
    pub(crate) visitors: [Tor; 2],
    /// The names of the onion services.
    pub(crate) services: [String; 2],
    _services: [Tor; 2],
    /// The middle relays. They end before the network does.
    pub(crate) middles: [Program; 2],
    _exit: Option<Program>,
    _network: Network,
}

impl Nodes {
    /// Starts all nodes. `hosts` has the host of each middle relay, and `records` the folder of its records.
    pub(crate) fn start(
        places: &[Place],
        hosts: [usize; 2],
        records: [&Path; 2],
        folder: &Path,
        server: SocketAddr,
        factor: Factor,
    ) -> Self {
        let node = |name: &str, role, host: usize, options| NodeSpec {
            name: name.to_owned(),
            role,
            place: places[host].clone(),
            options,
            starter: Vec::new(),
        };
        let authority = |number| node(&format!("auth{number}"), Role::Authority, DIRECTORY, DIRECTORIES);
        let mut nodes: Vec<_> = (0..3).map(authority).collect();
        nodes.push(node("guard", Role::Relay, GUARD, VANILLA));
        let has_our_exit = factor == Factor::Exit;
        if !has_our_exit {
            nodes.push(node("exit", Role::Exit, EXIT, VANILLA));
        }
        let others: Vec<String> = OTHERS.iter().map(|host| format!("other{host}")).collect();
        nodes.extend(
            OTHERS.into_iter().zip(&others).map(|(host, name)| node(name, Role::Relay, host, VANILLA)),
        );
        let mut network = Network::with(nodes, WINDOWS);
        network.start();
        let limit = if factor == Factor::Bucket {
            format!("BandwidthRate {MIDDLE_RATE} bytes\nBandwidthBurst {MIDDLE_RATE} bytes\n")
        } else {
            String::new()
        };
        let middles = [0, 1].map(|at| {
            let record = records[at].display();
            let options = format!(
                "{VANILLA}{}{limit}ShutdownWaitLength 0\nSandbox 0\nPenstock record = '{record}'\nPenstock record_cells = 50\n",
                MODES[at].1
            );
            network.program_at(&places[hosts[at]], &format!("middle{at}"), &options)
        });
        let our_exit = has_our_exit
            .then(|| network.program_at(&places[EXIT], "exit", &format!("{VANILLA}{}", MODES[0].1)));
        for name in
            ["guard", "exit", "middle0", "middle1"].into_iter().chain(others.iter().map(|name| &name[..]))
        {
            network.await_flags(name, &FLAGS);
        }
        network.await_flags(&others[0], &["HSDir"]);
        let guard = network.tor("guard").fingerprint.clone();
        let exit =
            our_exit.as_ref().map_or_else(|| network.tor("exit").fingerprint.clone(), Program::fingerprint);
        let prints = middles.each_ref().map(Program::fingerprint);
        let clients = [0, 1].map(|at| {
            let path = [&guard, &prints[at], &exit].map(|print| print.as_str());
            let options = pinned(POSITIONS.into_iter().zip(path)) + CLIENT_OPTIONS;
            network.client_at(&places[CLIENT], &format!("client{at}"), &options)
        });
        // Circuits of onion services have the middle relay as their second relay. C tor refuses services with a single
        // entry node, so the excluded relay is the second one.
        let second = |at: usize| {
            let [own, other] = [&prints[at], &prints[1 - at]];
            format!(
                "EntryNodes ${guard},${other}\nHSLayer2Nodes ${own}\nExcludeNodes ${other}\n{CLIENT_OPTIONS}"
            )
        };
        let home = |at: usize| folder.join(format!("service{at}"));
        let services = [0, 1].map(|at| {
            let home = home(at);
            let options =
                format!("{}HiddenServiceDir {}\nHiddenServicePort 80 {server}\n", second(at), home.display());
            network.client_at(&places[SERVER], &format!("service{at}"), &options)
        });
        let visitors =
            [0, 1].map(|at| network.client_at(&places[CLIENT], &format!("visitor{at}"), &second(at)));
        for client in clients.iter().chain(&services).chain(&visitors) {
            assert!(wait(TIMEOUT, || client.is_bootstrapped()), "{} has no directory", client.name);
        }
        let names = [0, 1].map(|at| {
            let name = fs::read_to_string(home(at).join("hostname"));
            name.expect("C tor writes the name of the service").trim().to_owned()
        });
        Nodes {
            clients,
            visitors,
            services: names,
            _services: services,
            middles,
            _exit: our_exit,
            _network: network,
        }
    }

    /// Waits until both services accept connections.
    pub(crate) fn await_services(&self) {
        for at in [0, 1] {
            let socks = self.visitors[at].socks;
            let is_open = || socks_to_name(socks, &self.services[at], 80, "first").is_ok();
            assert!(wait(TIMEOUT, is_open), "the onion service {at} accepts connections");
        }
    }
}
