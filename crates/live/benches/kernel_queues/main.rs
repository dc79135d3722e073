//! Measures where cells wait in three middle relays with links of 1, 10 and 50 Mbit/s: of C tor, then of Penstock (figure 3
//! of KIST).
//!
//! The network runs on emulated links with a round-trip time of 50 ms between any two nodes. Each middle relay carries the
//! circuits of one client. `penstock-kqtime` measures the waits of both programs in the kernel. Penstock's own records also
//! have the wait in the relay. Unmodified C tor does not report it. `TOR` names C tor.
//!
//! ```console
//! $ cargo bench --package penstock-live --bench kernel_queues -- --kqtime PROGRAM --out FILE [--seconds N] [--only NAME]
//! ```

#[path = "../../tests/common/exchange.rs"]
mod exchange;
#[path = "../shared/load.rs"]
mod load;
#[path = "../../tests/common/observations.rs"]
mod observations;
#[path = "../shared/relays.rs"]
mod relays;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../shared/mod.rs"]
mod shared;
#[path = "../shared/star.rs"]
mod star;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/network/testnet/mod.rs"]
mod testnet;
mod users;
mod waits;

use lexopt::ValueExt;
use penstock_live::clock::Clock;
use penstock_testbed::site::Site;
use penstock_testbed::star::Access;
use penstock_units::{Bytes, DataRate, Duration, Instant};
use shared::{Options, has_tor};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use testnet::place::Place;
use testnet::tor::{Role, wait};
use testnet::{CONTROLLED, Network, NodeSpec, POSITIONS, Program, TIMEOUT, pinned};
use waits::Waits;

/// Round-trip time between any two nodes.
const RTT: Duration = Duration::from_millis(50);
/// Rate of the access links of all other nodes [B/s].
const FAST: DataRate = DataRate::mib(60);
/// The paper's rate limits [Mbit/s] (section 4.1).
const RATES: [u64; 3] = [1, 10, 50];
const DIRECTORY: usize = 0;
const GUARD: usize = 1;
const EXIT: usize = 2;
const SERVER: usize = 3;
const CLIENT: usize = 4;
/// The host of the first middle relay.
const FIRST: usize = 5;
/// The paper's relays ran tor 0.2.3.25, which has the scheduler vanilla. KIST is the paper's remedy.
const SCHEDULERS: [(&str, &str); 2] = [("vanilla", "Schedulers Vanilla\n"), ("kist", "Schedulers KIST\n")];
const FLAGS: [&str; 4] = ["Running", "Valid", "Fast", "Stable"];

fn main() -> ExitCode {
    let (mut kqtime, mut out, mut seconds) = (None::<PathBuf>, None::<PathBuf>, 60);
    let options = Options::parse(1, |name, parser| {
        match name {
            "kqtime" => kqtime = Some(parser.value()?.into()),
            "out" => out = Some(parser.value()?.into()),
            "seconds" => seconds = parser.value()?.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    });
    let result = options.map_err(|error| error.to_string()).and_then(|options| {
        let kqtime = kqtime.ok_or("write --kqtime and the path of penstock-kqtime")?;
        let kqtime =
            kqtime.canonicalize().map_err(|error| format!("--kqtime {}: {error}", kqtime.display()))?;
        let out = out.ok_or("write --out and the name of a file")?;
        run(&options, &kqtime, &out, seconds)
    });
    shared::exit("kernel_queues", result)
}

fn run(options: &Options, kqtime: &Path, out: &Path, seconds: u32) -> Result<(), String> {
    if !has_tor() {
        return Ok(());
    }
    // The emulated network is created first, because only a process with one thread can enter new namespaces.
    let site = Arc::new(emulated().map_err(|error| error.to_string())?);
    let places = relays::places(&site, FIRST + RATES.len());
    let mut all = Vec::new();
    for (name, torrc) in SCHEDULERS.into_iter().filter(|(name, _)| options.allows(name)) {
        for is_ours in [false, true] {
            let found = measure(&places, kqtime, torrc, is_ours, seconds);
            all.extend(found.into_iter().map(|waits| Waits { scheduler: name, ..waits }));
        }
    }
    fs::write(out, waits::csv(&all)).map_err(|error| format!("--out {}: {error}", out.display()))
}

fn emulated() -> Result<Site, penstock_testbed::Error> {
    let fast = Access { up: FAST, down: FAST, queue: Bytes::new(8 << 20) };
    let limited = RATES.map(|rate| {
        let rate = DataRate::new(rate * 125_000).expect("the rates are positive");
        // A drop-tail queue of 100 ms, and at least 32 packets.
        let queue = rate.bytes_in(Duration::from_millis(100)).max(Bytes::new(48_000));
        Access { up: rate, down: rate, queue }
    });
    let hosts: Vec<Access> = std::iter::repeat_n(fast, FIRST).chain(limited).collect();
    star::open(&hosts, RTT)
}

/// Loads three middle relays of one program at the same time.
fn measure(places: &[Place], kqtime: &Path, torrc: &'static str, is_ours: bool, seconds: u32) -> Vec<Waits> {
    let folder = std::env::temp_dir().join(format!("penstock-kernel-queues-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
    let file = |middle: usize| folder.join(format!("waits{middle}.csv"));
    let starter = |middle: usize| {
        let out = file(middle).display().to_string();
        vec![kqtime.display().to_string(), "--out".into(), out]
    };
    let node = |name: &str, role, host: usize, options, starter| NodeSpec {
        name: name.to_owned(),
        role,
        place: places[host].clone(),
        options,
        starter,
    };
    let none = Vec::new;
    let mut nodes: Vec<_> =
        (0..3).map(|number| node(&format!("auth{number}"), Role::Authority, DIRECTORY, "", none())).collect();
    nodes.push(node("guard", Role::Relay, GUARD, torrc, none()));
    nodes.push(node("exit", Role::Exit, EXIT, torrc, none()));
    let middles = [0, 1, 2];
    if !is_ours {
        let name = |middle| format!("middle{middle}");
        nodes.extend(middles.map(|at| node(&name(at), Role::Relay, FIRST + at, torrc, starter(at))));
    }
    let mut network = Network::with(nodes, "cc_alg=0 KISTSchedRunInterval=10");
    network.start();
    let record = |middle: usize| folder.join(format!("record{middle}"));
    let programs: Vec<Program> = middles
        .into_iter()
        .filter(|_| is_ours)
        .map(|at| {
            let more = format!(
                "{torrc}Sandbox 0\nPenstock record = '{}'\nPenstock record_cells = 5\n",
                record(at).display()
            );
            network.program_by(&starter(at), &places[FIRST + at], &format!("middle{at}"), &more)
        })
        .collect();
    for name in ["guard", "exit", "middle0", "middle1", "middle2"] {
        network.await_flags(name, &FLAGS);
    }
    let fingerprint = |name: &str| network.tor(name).fingerprint.clone();
    let clients = middles.map(|at| {
        let middle = if is_ours { programs[at].fingerprint() } else { fingerprint(&format!("middle{at}")) };
        let path = [fingerprint("guard"), middle, fingerprint("exit")];
        let path = pinned(POSITIONS.into_iter().zip(path.each_ref().map(String::as_str)));
        network.client_at(&places[CLIENT], &format!("client{at}"), &(path + CONTROLLED))
    });
    for client in &clients {
        assert!(wait(TIMEOUT, || client.is_bootstrapped()), "{} has no directory", client.name);
    }
    let server = places[SERVER].run(|| exchange::server_at(places[SERVER].address));
    let clock = Clock::start();
    let sent = || middles.map(|at| places[FIRST + at].run(star::sent_bytes));
    let before = sent();
    let time = Duration::from_secs(seconds.into());
    places[CLIENT].run(|| load::during(users::all(&clients), server.0, || std::thread::sleep(time)));
    let after = sent();
    let processes = middles.map(|at| {
        if is_ours { programs[at].process() } else { network.tor(&format!("middle{at}")).process() }
    });
    for process in processes {
        end(process);
    }
    let took = clock.now().since(Instant::ZERO);
    let found = middles.map(|at| Waits {
        program: if is_ours { "Penstock" } else { "C tor" },
        scheduler: "",
        rate: RATES[at],
        sent: (after[at] - before[at]) as f64 / f64::from(seconds),
        kernel: waits::of_kernel(&file(at), took),
        relay: if is_ours { waits::of_relay(&record(at)) } else { Vec::new() },
    });
    drop((clients, programs, network));
    let _ = fs::remove_dir_all(&folder);
    found.into()
}

/// Ends the program that `penstock-kqtime` runs, and waits until both have ended.
fn end(kqtime: u32) {
    let children = fs::read_to_string(format!("/proc/{kqtime}/task/{kqtime}/children")).unwrap_or_default();
    let child = children.split_whitespace().next().and_then(|child| child.parse().ok());
    relays::end(child.expect("penstock-kqtime runs the relay"), kqtime);
}
