//! Measures downloads of one C tor client over three idle relays: three of Penstock, then three of C tor, with each
//! scheduler. In one row, Penstock's relays use datagrams between each other.
//!
//! The relays carry no other traffic. Each row has the download rate and the CPU time of the three relays. The
//! network runs on loopback, and then on emulated links with a round-trip time of 50 ms between any two nodes. The
//! environment variable `TOR` names C tor.
//!
//! ```console
//! $ cargo bench --package penstock-live --bench idle -- [--rounds N] [--only NAME] [--place NAME]
//! ```

#[path = "../../tests/common/exchange.rs"]
mod exchange;
#[path = "../../tests/common/markdown.rs"]
mod markdown;
#[path = "../../tests/common/observations.rs"]
mod observations;
#[path = "../shared/mod.rs"]
mod shared;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../shared/star.rs"]
mod star;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/network/testnet/mod.rs"]
mod testnet;

use exchange::exchange;
use markdown::write_block;
use penstock_live::clock::Clock;
use penstock_testbed::Error;
use penstock_testbed::namespace::{Namespace, ip};
use penstock_testbed::site::Site;
use penstock_testbed::star::Access;
use penstock_units::{Bytes, DataRate, Duration, Instant};
use shared::cpu::Cpu;
use shared::median::median;
use shared::{Options, has_tor};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use testnet::place::Place;
use testnet::tor::{Role, Tor, wait};
use testnet::{CONTROLLED, Network, NodeSpec, POSITIONS, Program, TIMEOUT, pinned, socks};

/// Round-trip time between any two nodes of the emulated network.
const RTT: Duration = Duration::from_millis(50);
/// Rate of each emulated access link [B/s]. No relay reaches this rate.
const ACCESS_RATE: DataRate = DataRate::mib(120);
/// Size of the receive queue of each emulated access link [B].
const ACCESS_QUEUE: Bytes = Bytes::new(8 << 20);
/// The host of the directory in the emulated network. Hosts 1 to 3 have the relays at each position of a circuit.
const DIRECTORY: usize = 0;
/// The host of the guards.
const FIRST: usize = 1;
/// The host of the client.
const CLIENT: usize = 4;
/// The host of the server.
const SERVER: usize = 5;
/// The flags of a relay that a client may use at any position.
const FLAGS: [&str; 5] = ["Running", "Valid", "Fast", "Stable", "Guard"];

/// Three relays of one program with one scheduler.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    torrc: &'static str,
    /// More options of Penstock's relays.
    ours: &'static str,
}

/// The schedulers that both programs have, and datagrams, which C tor does not have.
const KINDS: [Kind; 5] = [
    Kind { name: "default", torrc: "", ours: "" },
    Kind { name: "kist-10ms", torrc: "Schedulers KIST\nKISTSchedRunInterval 10 msec\n", ours: "" },
    Kind { name: "kist-lite", torrc: "Schedulers KISTLite\n", ours: "" },
    Kind { name: "vanilla", torrc: "Schedulers Vanilla\n", ours: "" },
    Kind {
        name: "datagrams",
        torrc: "",
        ours: "Penstock transport = 'datagram'\nPenstock hop_control = { kind = 'backtap' }\n\
               Penstock scheduler = { kind = 'vanilla', outbuf_low = '1 KiB', outbuf_high = '1 KiB' }\n",
    },
];

/// The downloads of a client: `count` downloads of `bytes` [B] each.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    count: usize,
    bytes: u64,
    parallel: bool,
}

const LOADS: [Load; 3] = [
    Load { name: "20 MB", count: 1, bytes: 20_000_000, parallel: false },
    Load { name: "ten times 2 MB in parallel", count: 10, bytes: 2_000_000, parallel: true },
    Load { name: "a hundred times 50 kB in sequence", count: 100, bytes: 50_000, parallel: false },
];

/// One measurement.
struct Measured {
    place: &'static str,
    kind: &'static str,
    load: &'static str,
    is_ours: bool,
    /// Download rate [B/s].
    rate: f64,
    /// Processor time of the three relays [s].
    processor: f64,
}

fn main() -> ExitCode {
    let options = Options::parse(3, |_, _| Ok(false)).map_err(|error| error.to_string());
    shared::exit("idle", options.and_then(|options| run(&options).map_err(|error| error.to_string())))
}

fn run(options: &Options) -> Result<(), Error> {
    if !has_tor() {
        return Ok(());
    }
    let kinds: Vec<Kind> = KINDS.into_iter().filter(|kind| options.allows(kind.name)).collect();
    // The emulated network is created first, because only a process with one thread can enter new namespaces.
    let site = Arc::new(emulated()?);
    let loopback = loopback()?;
    let emulated = std::array::from_fn(|host| {
        let site = Arc::clone(&site);
        Place::namespace(site.address(host), move || site.enter(host))
    });
    let mut all = Vec::new();
    for (name, places) in [("loopback", loopback), ("50 ms", emulated)] {
        if options.allows_place(name) {
            measure_all(name, &places, &kinds, options.rounds, &mut all);
        }
    }
    let table = table(&all);
    println!("\n{table}");
    write_block("make bench-idle", &table);
    Ok(())
}

/// A network namespace for all nodes.
fn loopback() -> Result<[Place; 6], Error> {
    let namespace = Arc::new(Namespace::create()?);
    ip("link set lo up")?;
    let place = Place::namespace(std::net::Ipv4Addr::LOCALHOST, move || namespace.enter());
    Ok(std::array::from_fn(|_| place.clone()))
}

/// A host for the directory, each position of a circuit, the client and the server.
fn emulated() -> Result<Site, Error> {
    let hosts = [Access { up: ACCESS_RATE, down: ACCESS_RATE, queue: ACCESS_QUEUE }; 6];
    star::open(&hosts, RTT)
}

/// Measures each load over our relays and over C tor's, in turn.
fn measure_all(
    name: &'static str,
    places: &[Place; 6],
    kinds: &[Kind],
    rounds: usize,
    all: &mut Vec<Measured>,
) {
    let authority = |number| NodeSpec {
        name: format!("auth{number}"),
        role: Role::Authority,
        place: places[DIRECTORY].clone(),
        options: "",
        starter: Vec::new(),
    };
    let node = |kind: Kind, position: usize| NodeSpec {
        name: nickname("ctor", kind, position),
        role: if position == 2 { Role::Exit } else { Role::Relay },
        place: places[FIRST + position].clone(),
        options: kind.torrc,
        starter: Vec::new(),
    };
    let relays = kinds.iter().flat_map(|kind| (0..3).map(move |position| node(*kind, position)));
    let mut network =
        Network::with((0..3).map(authority).chain(relays).collect(), "cc_alg=2 KISTSchedRunInterval=2");
    network.start();
    let ours = |kind: &Kind| {
        [0, 1, 2].map(|position| {
            let torrc = [kind.torrc, kind.ours].concat();
            network.program_at(&places[FIRST + position], &nickname("ours", *kind, position), &torrc)
        })
    };
    let programs: Vec<[Program; 3]> = kinds.iter().map(ours).collect();
    for (kind, position) in kinds.iter().flat_map(|kind| [0, 1, 2].map(|position| (kind, position))) {
        for owner in ["ours", "ctor"] {
            network.await_flags(&nickname(owner, *kind, position), &FLAGS);
        }
    }
    let server = places[SERVER].run(|| exchange::server_at(places[SERVER].address));
    for round in 0..rounds {
        for (kind, programs) in kinds.iter().zip(&programs) {
            let theirs = [0, 1, 2].map(|position| network.tor(&nickname("ctor", *kind, position)));
            let paths = [
                (
                    true,
                    programs.each_ref().map(Program::fingerprint),
                    programs.each_ref().map(Program::process),
                ),
                (false, theirs.map(|tor| tor.fingerprint.clone()), theirs.map(Tor::process)),
            ];
            for (is_ours, fingerprints, processes) in paths {
                let options = pinned(POSITIONS.into_iter().zip(fingerprints.each_ref().map(String::as_str)));
                let client = format!("client-{}-{is_ours}-{round}", kind.name);
                let client = network.client_at(&places[CLIENT], &client, &(options + CONTROLLED));
                for load in &LOADS {
                    let (rate, processor) =
                        places[CLIENT].run(|| measure(&client, server.0, load, &processes));
                    let measured =
                        Measured { place: name, kind: kind.name, load: load.name, is_ours, rate, processor };
                    println!(
                        "{} {name:8} {:9} {:33} {}: {:6.2} MB/s, {processor:5.2} s of processor time",
                        round + 1,
                        kind.name,
                        load.name,
                        if is_ours { "Penstock" } else { "C tor   " },
                        rate / 1e6,
                    );
                    all.push(measured);
                }
            }
        }
    }
}

/// Nicknames have letters and digits only.
fn nickname(owner: &str, kind: Kind, position: usize) -> String {
    format!("{owner}{}{position}", kind.name.replace('-', ""))
}

/// Downloads a load on a new circuit. Returns the rate [B/s] and the processor time of the relays [s].
fn measure(client: &Tor, server: SocketAddr, load: &Load, relays: &[u32; 3]) -> (f64, f64) {
    assert!(
        wait(TIMEOUT, || client.is_bootstrapped()),
        "{} has no directory: {}",
        client.name,
        client.read("warnings")
    );
    client.control("SIGNAL NEWNYM");
    // The first stream builds the circuit.
    assert!(wait(TIMEOUT, || download(client, server, 1).is_ok()), "{} builds no circuit", client.name);
    let cpu = || relays.map(|process| Cpu::of(process).seconds().iter().sum::<f64>()).iter().sum::<f64>();
    let (before, clock) = (cpu(), Clock::start());
    let one = || download(client, server, load.bytes).expect("an idle path carries each download");
    if load.parallel {
        thread::scope(|scope| (0..load.count).for_each(|_| drop(scope.spawn(one))));
    } else {
        (0..load.count).for_each(|_| one());
    }
    let seconds = clock.now().since(Instant::ZERO).as_secs_f64();
    (load.count as f64 * load.bytes as f64 / seconds, cpu() - before)
}

fn download(client: &Tor, server: SocketAddr, bytes: u64) -> std::io::Result<()> {
    exchange(&socks(client, server)?, 0, bytes)
}

/// A Markdown table of medians.
fn table(all: &[Measured]) -> String {
    let mut table =
        "| RTT | scheduler of all relays | download | Penstock [MB/s] | C tor [MB/s] | Penstock divided by \
                     C tor | Penstock [CPU s] | C tor [CPU s] |\n|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    let mut rows: Vec<_> = all.iter().map(|it| (it.place, it.kind, it.load)).collect();
    let mut seen = std::collections::BTreeSet::new();
    rows.retain(|row| seen.insert(*row));
    for (place, kind, load) in rows {
        let of = |is_ours: bool, value: fn(&Measured) -> f64| {
            let same = all
                .iter()
                .filter(|it| (it.place, it.kind, it.load, it.is_ours) == (place, kind, load, is_ours));
            median(same.map(value).collect())
        };
        let rate: fn(&Measured) -> f64 = |it| it.rate / 1e6;
        let [ours, theirs] = [of(true, rate), of(false, rate)];
        let [ours_cpu, theirs_cpu] = [true, false].map(|is_ours| of(is_ours, |it| it.processor));
        table += &format!(
            "| {place} | {kind} | {load} | {ours:.2} | {theirs:.2} | {:.2} | {ours_cpu:.2} | {theirs_cpu:.2} |\n",
            ours / theirs
        );
    }
    table
}
