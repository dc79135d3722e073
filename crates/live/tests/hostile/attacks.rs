//! Floods from a few hosts, and honest clients at another address beside them. The relay is a process of its own. Each
//! flood has a small version for every test run. `make attacks` runs the full versions, also against C tor, with the same
//! floods and the same honest clients.

use super::common::dns::name_server;
use super::common::floods::{self, SilentServer, attacker, open_circuits};
use super::common::gauges::{Gauges, cpu, rss};
use super::common::honest::{DOWNLOAD, HONEST, Served, Visit, all};
use super::common::markdown::write_block;
use super::common::program::{Folder, Program};
use super::common::{Client, Hop, Running, attacker_identity, dial, pattern, seconds, serve, test_identity};
use super::ctor::CTor;
use super::{one_at_a_time, resident, silent_server};
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::{Cell, CircId, Command};
use penstock_link::cell::{Handshake, HandshakeKind, LinkSpec, LiveCell, RelayMessage};
use penstock_link::crypto::ntor;
use penstock_live::clock::Clock;
use penstock_testbed::namespace::{Namespace, ip};
use penstock_units::Duration;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The address of the name server for these tests. Only root may use its port, 53.
const NAME_SERVER: &str = "127.53.53.55";

/// The settings of a relay.
#[derive(Clone, Copy, Debug, Default)]
struct Setup {
    /// File descriptors, or the limit of this process [1].
    descriptors: Option<usize>,
    /// `MaxMemInQueues` [MB].
    memory: Option<u32>,
    /// Whether the relay uses the tests' name server.
    has_names: bool,
}

impl Setup {
    fn torrc(&self, folder: &Folder) -> String {
        let mut torrc = String::new();
        if let Some(memory) = self.memory {
            torrc += &format!("MaxMemInQueues {memory} MB\n");
        }
        if self.has_names {
            let path = folder.0.join("resolv.conf");
            fs::write(&path, format!("nameserver {NAME_SERVER}\n")).unwrap();
            torrc += &format!("ServerDNSResolvConfFile {}\n", path.display());
        }
        torrc
    }

    fn descriptors(&self) -> usize {
        use nix::sys::resource::{Resource, getrlimit};
        self.descriptors.unwrap_or_else(|| getrlimit(Resource::RLIMIT_NOFILE).unwrap().1 as usize)
    }
}

enum Process {
    Penstock(Box<Program>, String),
    CTor(Box<CTor>),
}

/// A relay under attack.
struct Relay {
    process: Process,
    hop: Hop,
    /// The gauges before the attack. C tor has none.
    before: Option<Gauges>,
    _folder: Folder,
}

impl Relay {
    fn penstock(setup: &Setup) -> Self {
        let folder = Folder::new("attacked");
        let torrc = format!("ExitPolicy accept *:*\nMetricsPort auto\n{}", setup.torrc(&folder));
        let mut program = Program::start_with_descriptors(&folder.torrc(&torrc), setup.descriptors());
        let metrics = program.metrics();
        program.read_log();
        let before = Gauges::of(program.child.id(), &metrics);
        assert!(before.is_some(), "the relay answers");
        let hop = program.hop(&folder);
        Relay { process: Process::Penstock(Box::new(program), metrics), hop, before, _folder: folder }
    }

    fn c_tor(setup: &Setup) -> Self {
        let folder = Folder::new("attacked-ctor");
        let tor = CTor::exit_with(&setup.torrc(&folder), setup.descriptors());
        let hop = tor.hop();
        Relay { process: Process::CTor(Box::new(tor)), hop, before: None, _folder: folder }
    }

    fn pid(&self) -> u32 {
        match &self.process {
            Process::Penstock(program, _) => program.child.id(),
            Process::CTor(tor) => tor.pid(),
        }
    }

    fn is_penstock(&self) -> bool {
        self.before.is_some()
    }

    /// CPU time of the main thread so far [s].
    fn cpu(&self) -> f64 {
        cpu(format!("/proc/{0}/task/{0}", self.pid()))
    }

    /// Waits until the main thread is idle. Returns its CPU time so far [s].
    fn idle(&self) -> f64 {
        loop {
            let before = self.cpu();
            thread::sleep(Duration::from_millis(500));
            let now = self.cpu();
            if now - before < 0.05 {
                return now;
            }
        }
    }

    /// A gauge of a Penstock relay; a second old at most.
    fn gauge(&self, name: &str) -> Option<f64> {
        match &self.process {
            Process::Penstock(program, metrics) => Some(Gauges::of(program.child.id(), metrics)?.value(name)),
            Process::CTor(_) => None,
        }
    }

    /// Checks that a Penstock relay has forgotten all peers.
    fn returns(&self) -> Result<(), String> {
        match (&self.process, &self.before) {
            (Process::Penstock(program, metrics), Some(before)) => {
                before.return_at(program.child.id(), metrics)
            }
            _ => Ok(()),
        }
    }
}

/// The honest clients of one test.
#[derive(Clone, Copy)]
struct Timing {
    /// The number of clients that are served at once.
    concurrency: usize,
    /// The time before the attack.
    alone: Duration,
    /// The delay of their links in each direction.
    delay: Duration,
    /// The slowest honest client may need at most this time more than the 99th percentile without an attack [s].
    most: f64,
}

/// On a machine that does other work, too.
const SMALL: Timing =
    Timing { concurrency: 2, alone: Duration::from_secs(2), delay: Duration::ZERO, most: 3.0 };
const FULL: Timing =
    Timing { concurrency: 2, alone: Duration::from_secs(5), delay: Duration::ZERO, most: 1.0 };

/// The result of one attack on one relay.
struct Outcome {
    attack: &'static str,
    is_penstock: bool,
    /// The size of the attack, and its effect on the relay.
    report: String,
    before: Served,
    during: Served,
    /// The most time that the attack may add [s].
    most: f64,
    problem: Option<String>,
}

impl Outcome {
    /// The delay that the attack adds, failures, and gauges that did not return.
    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.problem.iter().cloned().collect();
        let (before, during) = (&self.before, &self.during);
        for (when, served) in [("before", before), ("during", during)] {
            if served.failures > 0 || served.times.is_empty() {
                let (failures, served) = (served.failures, served.times.len());
                problems
                    .push(format!("{failures} honest clients failed {when} the attack, {served} did not"));
            }
        }
        // A single stall of the relay delays few clients, so the slowest one counts.
        let more = during.percentile(1.0) - before.percentile(0.99);
        if more.is_nan() || more > self.most {
            problems.push(format!("the attack delays an honest client by {more:.2} s"));
        }
        problems.into_iter().map(|problem| format!("{}: {problem}", self.attack)).collect()
    }

    fn assert_good(&self) {
        let [median, slowest] = [0.5, 1.0].map(|share| self.during.percentile(share));
        let before = self.before.percentile(0.5);
        println!("{}: {}", self.attack, self.report);
        println!(
            "median of honest clients: {before:.3} s before, {median:.3} s during; slowest {slowest:.3} s"
        );
        let problems = self.problems();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// A row of a Markdown table.
    fn row(&self) -> String {
        let [before, during] = [&self.before, &self.during].map(|served| served.percentile(0.99));
        format!(
            "| {} | {} | {} | {before:.2} | {during:.2} | {} of {} |\n",
            self.attack,
            if self.is_penstock { "Penstock" } else { "C tor" },
            self.report,
            self.during.failures,
            self.during.failures + self.during.times.len()
        )
    }
}

/// Runs honest clients alone and then beside an attack.
fn beside(
    attack: &'static str,
    relay: &Relay,
    Timing { concurrency, alone, delay, most }: Timing,
    by_name: bool,
    action: impl FnOnce() -> String,
) -> Outcome {
    // Creating keys takes seconds, which must not belong to a client's time.
    let _ = (test_identity(), attacker_identity());
    let visit = Visit::new(&relay.hop, delay, by_name);
    let stop = AtomicBool::new(false);
    let before = thread::scope(|scope| {
        let clients = visit.repeat(scope, concurrency, &stop);
        thread::sleep(alone);
        stop.store(true, Ordering::Relaxed);
        all(clients)
    });
    stop.store(false, Ordering::Relaxed);
    let (during, report) = thread::scope(|scope| {
        let clients = visit.repeat(scope, concurrency, &stop);
        let report = std::panic::catch_unwind(std::panic::AssertUnwindSafe(action));
        stop.store(true, Ordering::Relaxed);
        (all(clients), report)
    });
    let mut problem = relay.returns().err();
    let report = report.unwrap_or_else(|_| {
        problem = Some("the attack ended early".into());
        "ended early".into()
    });
    Outcome { attack, is_penstock: relay.is_penstock(), report, before, during, most, problem }
}

type Start = fn(&Setup) -> Relay;

/// A link with many circuits closes.
fn closing(start: Start, count: u32, most_cpu: f64, timing: Timing) -> Outcome {
    let relay = start(&Setup::default());
    let fill = || {
        let mut client = Client::connect_from(attacker(0), &relay.hop.0);
        assert_eq!(open_circuits(&mut client, 1000, count), count);
        client
    };
    // Without honest clients, the CPU time is that of the closing link only.
    let client = fill();
    let before = relay.idle();
    drop(client);
    let spent = relay.idle() - before;
    let mut outcome = beside("many circuits on one link close", &relay, timing, false, || {
        drop(fill());
        thread::sleep(Duration::from_secs(3));
        format!("{count} circuits close in {spent:.2} s of CPU time")
    });
    if relay.is_penstock() && spent > most_cpu {
        outcome.problem = Some(format!("{spent} s of CPU time for {count} circuits"));
    }
    outcome
}

#[test]
fn a_link_with_many_circuits_closes_fast() {
    let _guard = one_at_a_time();
    closing(Relay::penstock, 20_000, 0.6, SMALL).assert_good();
}

/// TCP connections from this number of addresses, without a byte on them.
fn connecting(start: Start, sources: usize, rate: f64, time: f64, timing: Timing) -> Outcome {
    let relay = start(&Setup::default());
    let name = if sources == 1 {
        "TCP connections from one address"
    } else {
        "TCP connections from eight addresses"
    };
    beside(name, &relay, timing, false, || {
        let (before, clock) = (relay.cpu(), Clock::start());
        let stop = || seconds(clock) > time;
        let from = |number: usize| attacker(number % sources).into();
        let count = floods::connections(relay.hop.0.addresses[0], rate, stop, from);
        let cpu = 100.0 * (relay.cpu() - before) / time;
        format!("{:.0} connections a second, {cpu:.0} % of a processor", count as f64 / time)
    })
}

#[test]
fn a_flood_of_connections_keeps_no_slow_peer_out() {
    let _guard = one_at_a_time();
    for sources in [1, floods::ATTACKERS] {
        let timing = Timing { delay: Duration::from_millis(50), ..SMALL };
        connecting(Relay::penstock, sources, 3000.0, 4.0, timing).assert_good();
    }
}

/// CREATEs on many links of one host, as fast as the relay answers them.
fn creating(start: Start, links: usize, time: f64, timing: Timing) -> Outcome {
    let relay = start(&Setup::default());
    let mut held: Vec<_> = (0..links).map(|_| Client::connect_from(attacker(0), &relay.hop.0)).collect();
    beside("CREATEs on many links of one host", &relay, timing, false, || {
        let (clock, cpu) = (Clock::start(), relay.cpu());
        let stop = || seconds(clock) > time;
        let count: usize = thread::scope(|scope| {
            let parts = held.chunks_mut(links.div_ceil(2));
            let threads: Vec<_> =
                parts.map(|part| scope.spawn(move || floods::creates_on(part, stop))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let (took, cpu) = (seconds(clock), relay.cpu() - cpu);
        drop(held);
        let [rate, share] = [count as f64 / took, 100.0 * cpu / took];
        format!("{rate:.0} CREATEs a second on {links} links, {share:.0} % of a processor")
    })
}

#[test]
fn many_links_of_one_host_do_not_delay_another_host() {
    let _guard = one_at_a_time();
    creating(Relay::penstock, 200, 4.0, SMALL).assert_good();
}

/// Whether this user may open the port of a name server. The server runs until the process ends.
fn has_name_server() -> bool {
    use std::sync::OnceLock;
    static STARTED: OnceLock<bool> = OnceLock::new();
    *STARTED.get_or_init(|| name_server(&format!("{NAME_SERVER}:53")).is_ok())
}

/// Names that no name server answers.
fn looking_up(start: Start, time: f64, timing: Timing) -> Outcome {
    let relay = start(&Setup { has_names: true, ..Setup::default() });
    beside("unanswered name lookups", &relay, timing, true, || {
        let clock = Clock::start();
        let count = floods::names(&relay.hop, 1, || seconds(clock) > time);
        format!("{:.0} names a second", count as f64 / time)
    })
}

#[test]
fn unanswered_names_of_one_host_delay_no_other_host() {
    let _guard = one_at_a_time();
    if !has_name_server() {
        return println!("skipped: the test of name lookups needs port 53");
    }
    looking_up(Relay::penstock, 4.0, SMALL).assert_good();
}

/// Streams to a server that never closes them, as many as the relay accepts.
fn streaming(start: Start, descriptors: usize, links: usize, each: u16, timing: Timing) -> Outcome {
    let relay = start(&Setup { descriptors: Some(descriptors), ..Setup::default() });
    let server = SilentServer::start();
    let visit = Visit::new(&relay.hop, Duration::ZERO, false);
    let name = if links == 1 {
        "streams of five circuits on one link"
    } else {
        "streams of five circuits on five links"
    };
    let mut established = visit.connect();
    let mut problem = None;
    let mut outcome = beside(name, &relay, timing, false, || {
        let (held, results) = floods::streams(&relay.hop, server.address, links, [5, each]);
        // A circuit from before the attack can open new streams.
        for number in 1..20 {
            visit.download(&mut established, number);
        }
        drop((held, established));
        let floods::Streams { opened, refused, failed } = results;
        if failed > 0 || opened == 0 || opened + refused != 5 * usize::from(each) {
            problem = Some("not all streams were opened or refused".to_owned());
        }
        format!("{opened} streams opened, {refused} refused, {failed} failed; {descriptors} descriptors")
    });
    outcome.problem = problem.or(outcome.problem);
    drop(server);
    outcome
}

#[test]
fn streams_without_end_leave_descriptors_for_others() {
    let _guard = one_at_a_time();
    for links in [1, 5] {
        streaming(Relay::penstock, 600, links, 500, SMALL).assert_good();
    }
}

/// Idle circuits, which need more memory than the limit [MB].
fn idling(memory: u32, links: usize, each: u32, spare: f64, timing: Timing) -> Outcome {
    let relay = Relay::penstock(&Setup { memory: Some(memory), ..Setup::default() });
    let before = rss(relay.pid());
    let (mut more, mut left) = (0.0, f64::NAN);
    let opened = links * each as usize;
    let mut outcome = beside("idle circuits beyond the memory limit", &relay, timing, false, || {
        let mut held = Vec::new();
        for link in 0..links {
            let mut client = Client::connect_from(attacker(link), &relay.hop.0);
            open_circuits(&mut client, 1000, each);
            held.push(client);
        }
        // The metrics are a second old at most.
        thread::sleep(Duration::from_millis(1500));
        more = rss(relay.pid()) - before;
        left = relay.gauge("circuits").unwrap_or(f64::NAN);
        format!(
            "{opened} circuits opened, {left} left; {:.0} MB more memory with a limit of {memory} MB",
            more / 1e6
        )
    });
    if more > f64::from(memory) * 1.1 * f64::from(1 << 20) + spare {
        outcome.problem = Some(format!("{more} B more memory"));
    }
    if left.is_nan() || left >= opened as f64 {
        outcome.problem = Some(format!("the relay closed no idle circuit: {left} are left"));
    }
    outcome
}

#[test]
fn idle_circuits_count_as_memory() {
    let _guard = one_at_a_time();
    // 64 MB is the lowest limit. The counted size of a circuit is 8 KiB.
    idling(64, 2, 10_000, 16e6, SMALL).assert_good();
}

/// Circuits of a link whose relay answered DESTROY, up to the answer to a new CREATE with this number.
fn destroyed(client: &mut Client, next: u32) -> Vec<CircId> {
    let handshake = Handshake { kind: HandshakeKind::Fast, data: vec![7; 20] };
    client.write(&LiveCell::create(floods::circuit(next), handshake).to_bytes());
    let mut destroyed = Vec::new();
    loop {
        let cell = client.receive();
        match cell.command() {
            Command::Destroy => destroyed.push(cell.circ_id()),
            _ if cell.circ_id() == floods::circuit(next) => return destroyed,
            _ => {}
        }
    }
}

#[test]
fn memory_of_unfinished_handshakes_costs_no_circuit_of_another_host() {
    let _guard = one_at_a_time();
    let node = Running::start_configured(|config| {
        config.relay.limits.memory = Some(penstock_units::Bytes::mib(2));
        config.descriptors = 50_000;
    });
    let mut client = Client::connect_from(HONEST, &node.spec);
    assert_eq!(open_circuits(&mut client, 1000, 100), 100);
    // 800 KiB of circuits, and 16 KiB for each connection.
    let held: Vec<_> = (0..120).map(|_| dial(attacker(0), node.spec.addresses[0]).unwrap()).collect();
    let failures = || {
        let counters = node.observations.next_observation().node_counters;
        counters.link_failures.get("memory").copied().unwrap_or_default()
    };
    let mut next = 2000..2100;
    while failures() == 0 {
        let next = next.next().expect("the relay ends unfinished handshakes");
        assert_eq!(destroyed(&mut client, next), []);
    }
    assert_eq!(destroyed(&mut client, 3000), []);
    let seen = node.observations.next_observation();
    println!("{} of {} connections are left; {} B", seen.opening, held.len(), seen.memory.get());
    assert!(seen.memory.get() <= 2 << 20 && (20..held.len()).contains(&seen.opening), "{seen:?}");
}

/// A host asks first for a link that another host needs, and then asks for many others that never answer.
#[test]
fn a_host_that_asks_first_for_a_link_cannot_end_it_for_others() {
    let _guard = one_at_a_time();
    let node = Running::start_configured(|config| config.descriptors = 600);
    let silent = silent_server();
    // Relays with different identities have different links.
    let extend = |client: &mut Client, number: u32, identity: u8| {
        client.new_circuit(number);
        client.build(&[node.hop()]);
        let to = LinkSpec { addresses: vec![silent], rsa: [identity; 20], ed25519: None };
        let start = ntor::Client::start(&mut rand::rng(), to.rsa, node.onion);
        let handshake = Handshake { kind: HandshakeKind::Ntor, data: start.message() };
        client.send_message(None, &RelayMessage::Extend(to, handshake));
    };
    let opening = |number: usize| {
        let now = || node.observations.next_observation().opening;
        assert!((0..100).any(|_| now() == number), "{} handshakes, not {number}", now());
    };
    let mut flood = Client::connect_from(attacker(0), &node.spec);
    extend(&mut flood, 100, 1);
    opening(1);
    let mut client = Client::connect_from(HONEST, &node.spec);
    extend(&mut client, 100, 1);
    assert_eq!(destroyed(&mut client, 1000), []);
    for identity in 2..32 {
        extend(&mut flood, 100 + u32::from(identity), identity);
    }
    // One network may have 11 of these handshakes.
    opening(12);
    assert_eq!(destroyed(&mut client, 1001), [], "the handshake also belongs to the honest client");
    let ended = node.observations.next_observation().node_counters.link_failures;
    assert_eq!(ended.get("crowded"), Some(&19), "{ended:?}");
}

/// The attacks of the audit, with the full size, against our relay and against C tor.
#[test]
#[ignore = "it takes ten minutes"]
fn attacks_at_full_size() {
    let _guard = one_at_a_time();
    let has_tor = std::process::Command::new(super::ctor::program())
        .arg("--version")
        .stdout(std::process::Stdio::null())
        .status()
        .is_ok();
    if !has_tor {
        println!("skipped: C tor is missing; install Debian's package tor, or set TOR");
    }
    let has_names = has_name_server();
    if !has_names {
        println!("skipped: the attack with name lookups needs port 53");
    }
    let slow = Timing { concurrency: 4, delay: Duration::from_millis(100), ..FULL };
    let mut attacks: Vec<Box<dyn Fn(Start) -> Outcome>> = vec![
        Box::new(|start| closing(start, 65_530, 1.0, FULL)),
        Box::new(move |start| connecting(start, 1, 10_000.0, 20.0, slow)),
        Box::new(move |start| connecting(start, floods::ATTACKERS, 10_000.0, 20.0, slow)),
        Box::new(|start| creating(start, 200, 10.0, FULL)),
        Box::new(|start| streaming(start, 9_000, 1, 4096, FULL)),
        Box::new(|start| streaming(start, 9_000, 5, 4096, FULL)),
    ];
    if has_names {
        attacks.insert(4, Box::new(|start| looking_up(start, 20.0, FULL)));
    }
    let heading = "| attack | relay | result | without attack: 99th percentile [s] | during the attack: 99th \
                   percentile [s] | failed honest clients |\n|---|---|---|---|---|---|\n";
    let mut table = heading.to_owned();
    let mut problems = Vec::new();
    let mut add = |outcome: &Outcome| {
        print!("{}", outcome.row());
        table += &outcome.row();
    };
    for attack in attacks {
        let ours = attack(Relay::penstock);
        add(&ours);
        problems.extend(ours.problems());
        if has_tor {
            let theirs = attack(Relay::c_tor);
            add(&theirs);
            let [ours_took, theirs_took] = [&ours, &theirs].map(|outcome| outcome.during.percentile(0.99));
            if ours_took > 2.0 * theirs_took {
                problems.push(format!("{}: more than twice C tor's 99th percentile", ours.attack));
            }
        }
    }
    let idle = idling(256, 4, 65_530, 0.0, FULL);
    add(&idle);
    problems.extend(idle.problems());
    println!("\n{table}");
    write_block("make attacks", &table);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The relay counts constant sizes. They must not be below the real sizes by more than a tenth.
#[test]
fn counted_sizes_are_not_below_real_ones() {
    let _guard = one_at_a_time();
    let node = Running::start(SchedulerConfig::default());
    let counted = || node.observations.next_observation().memory.get();
    let mut client = Client::connect_from(attacker(0), &node.spec);
    let (real, before) = (resident(), counted());
    let circuits = 1000;
    for number in 0..circuits {
        client.new_circuit(number + 100);
        client.build(&[node.hop()]);
        client.send_message(None, &RelayMessage::Drop);
    }
    let each = |real: u64, counted: u64, number: u32| [real / u64::from(number), counted / u64::from(number)];
    let counts = [resident().saturating_sub(real), counted() - before];
    let [real, size] = each(counts[0], counts[1], circuits);
    println!("a circuit takes {real} B and counts as {size} B");
    assert!(real < size * 11 / 10, "{real} B, {size} B");

    let (real, before) = (resident(), counted());
    let links = 200;
    let held: Vec<_> = (0..links).map(|_| Client::connect_from(attacker(0), &node.spec)).collect();
    let counts = [resident().saturating_sub(real), counted() - before];
    let [real, size] = each(counts[0], counts[1], links);
    // Both ends are in this process.
    println!("both ends of a link take {real} B, and one counts as {size} B");
    assert!(real < size * 2 * 11 / 10, "{real} B, {size} B");
    drop(held);
}

/// The last address belongs to the honest clients. The attackers have two networks (/48) and two hosts (/64) in each.
const NETWORKS: [&str; 5] =
    ["2001:db8:1:1::66", "2001:db8:1:2::66", "2001:db8:2:1::66", "2001:db8:2:2::66", "2001:db8:9:9::9"];

#[test]
fn a_flood_from_ipv6_networks_keeps_no_other_network_out() {
    let _guard = one_at_a_time();
    // Only this thread and its threads are in the namespace.
    let test = || {
        let Ok(_namespace) = Namespace::create() else {
            return println!("skipped: only root can make a network namespace with IPv6 addresses");
        };
        ip("link set lo up").unwrap();
        for address in NETWORKS {
            ip(&format!("-6 address add {address}/64 dev lo nodad")).unwrap();
        }
        let addresses: [IpAddr; 5] = NETWORKS.map(|address| address.parse().unwrap());
        let node = Running::start_configured(|config| config.listen = "[::]:0".parse().ok());
        let to = SocketAddr::new(addresses[4], node.spec.addresses[0].port());
        let server = serve(DOWNLOAD);
        let mut served = Served::default();
        thread::scope(|scope| {
            let clock = Clock::start();
            let flood = scope.spawn(move || {
                floods::connections(to, 2000.0, || seconds(clock) > 4.0, |number| addresses[number % 4])
            });
            while !flood.is_finished() {
                served.time(|| {
                    let mut client = Client::over(dial(addresses[4], to).unwrap(), &node.spec);
                    client.build(&[node.hop()]);
                    assert!(client.download(server, 1) == pattern(DOWNLOAD));
                });
            }
            let count = flood.join().unwrap();
            println!("{count} connections; {} honest clients", served.times.len());
        });
        assert!(served.failures == 0 && served.times.len() > 3, "{served:?}");
        assert!(served.percentile(0.99) < 2.0, "{served:?}");
    };
    thread::scope(|scope| scope.spawn(test).join()).unwrap();
}
