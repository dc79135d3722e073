//! Floods from one host, and honest clients at other addresses beside them. Each flood has a small version for every
//! test run, and a full version that `make attacks` runs and reports.

use super::common::{Client, Running, dial, pattern, serve, silent_server};
use super::pressure::{cpu, seconds};
use super::{one_at_a_time, resident, stream};
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::{Cell, CircId, Command, EndReason};
use penstock_link::cell::{Handshake, HandshakeKind, LinkSpec, LiveCell, RelayMessage};
use penstock_live::clock::Clock;
use penstock_live::node::NodeConfig;
use penstock_units::{Bytes, Duration};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// The size of an honest client's download [B].
const DOWNLOAD: usize = 20_000;

/// The way of honest clients to a node: a relay of bytes at their address, with this delay in each direction.
fn way(node: &Running, delay: Duration) -> LinkSpec {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, far) = (listener.local_addr().unwrap(), node.spec.addresses[0]);
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let Ok(node) = dial(HONEST, far) else { continue };
            pipe(client.try_clone().unwrap(), node.try_clone().unwrap(), delay);
            pipe(node, client, delay);
        }
    });
    LinkSpec { addresses: vec![near], ..node.spec.clone() }
}

/// Copies bytes, each after this delay.
fn pipe(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, pieces) = mpsc::channel::<(f64, Vec<u8>)>();
    let clock = Clock::start();
    thread::spawn(move || {
        let mut buffer = [0; 16_384];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            let due = seconds(clock) + delay.as_secs_f64();
            if sender.send((due, buffer[..read].to_vec())).is_err() || read == 0 {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, piece) in pieces {
            thread::sleep(Duration::from_secs_f64((due - seconds(clock)).max(0.0)));
            if piece.is_empty() || to.write_all(&piece).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    });
}

/// The results of honest clients.
#[derive(Debug, Default)]
struct Served {
    /// The times of all successful clients [s].
    times: Vec<f64>,
    failures: usize,
}

impl Served {
    fn slowest(&self, share: f64) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        let last = times.len().saturating_sub(1);
        times.get((last as f64 * share) as usize).copied().unwrap_or(f64::INFINITY)
    }
}

/// Honest clients: `lanes` at once, each after the one before. They open a link and a circuit and download a file.
fn honest<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    node: &'scope Running,
    way: &'scope LinkSpec,
    (lanes, stop): (usize, &'scope AtomicBool),
) -> Vec<ScopedJoinHandle<'scope, Served>> {
    let server = serve(DOWNLOAD);
    let lane = move || {
        let mut served = Served::default();
        while !stop.load(Ordering::Relaxed) {
            let clock = Clock::start();
            let client = thread::scope(|scope| {
                let client = scope.spawn(|| {
                    let mut client = Client::connect(way);
                    client.build(&[node.hop()]);
                    assert!(client.download(server, 1) == pattern(DOWNLOAD));
                });
                client.join()
            });
            match client {
                Ok(()) => served.times.push(seconds(clock)),
                Err(_) => served.failures += 1,
            }
        }
        served
    };
    (0..lanes).map(|_| scope.spawn(lane)).collect()
}

fn all(lanes: Vec<ScopedJoinHandle<'_, Served>>) -> Served {
    lanes.into_iter().map(|lane| lane.join().unwrap()).fold(Served::default(), |mut all, lane| {
        all.times.extend(lane.times);
        all.failures += lane.failures;
        all
    })
}

/// The honest clients of one test.
#[derive(Clone, Copy)]
struct Timing {
    /// How many of them are served at once.
    lanes: usize,
    /// The time before the attack.
    alone: Duration,
    /// The delay of their links in each direction.
    delay: Duration,
    /// The most that the attack may add to the 99th percentile of their times [s].
    most: f64,
}

/// On a machine that does other work, too.
const SMALL: Timing = Timing { lanes: 2, alone: Duration::from_secs(2), delay: Duration::ZERO, most: 5.0 };
const FULL: Timing = Timing { lanes: 2, alone: Duration::from_secs(3), delay: Duration::ZERO, most: 1.0 };

/// Runs honest clients alone and then beside an attack. No client fails, and the attack does not delay them much.
fn beside(
    name: &str,
    node: &Running,
    Timing { lanes, alone, delay, most }: Timing,
    attack: impl FnOnce() -> String,
) {
    let way = way(node, delay);
    let stop = AtomicBool::new(false);
    let before = thread::scope(|scope| {
        let lanes = honest(scope, node, &way, (lanes, &stop));
        thread::sleep(alone);
        stop.store(true, Ordering::Relaxed);
        all(lanes)
    });
    stop.store(false, Ordering::Relaxed);
    let (during, said) = thread::scope(|scope| {
        let lanes = honest(scope, node, &way, (lanes, &stop));
        let attack = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attack));
        stop.store(true, Ordering::Relaxed);
        (all(lanes), attack.expect("the attack is carried out"))
    });
    println!(
        "{name}: {said}; honest clients: {} of {} failed, 99th percentile {:.3} s ({:.3} s without the attack)",
        during.failures,
        during.failures + during.times.len(),
        during.slowest(0.99),
        before.slowest(0.99),
    );
    assert!(before.failures == 0 && !before.times.is_empty(), "{before:?}");
    assert!(during.failures == 0 && !during.times.is_empty(), "{during:?}");
    let more = during.slowest(0.99) - before.slowest(0.99);
    assert!(more < most, "the attack delays honest clients by {more} s");
}

fn node(change: impl FnOnce(&mut NodeConfig)) -> Running {
    Running::start_configured(|config| {
        config.relay.scheduler = SchedulerConfig::default();
        change(config);
    })
}

/// Opens circuits without extending them. Returns the number of circuits that the node made and has not closed yet.
fn open_circuits(client: &mut Client, count: u32) -> u32 {
    let mut open = 0;
    for first in (0..count).step_by(512) {
        let numbers = first..count.min(first + 512);
        let creates: Vec<u8> = numbers
            .clone()
            .flat_map(|n| {
                let id = CircId(NonZeroU32::new(1 << 31 | (n + 1000)).unwrap());
                let handshake = Handshake { kind: HandshakeKind::Fast, data: vec![n as u8; 20] };
                LiveCell::create(id, handshake).to_bytes()
            })
            .collect();
        client.write(&creates);
        let mut answered = 0;
        while answered < numbers.len() {
            let cell = client.receive();
            let is_new = cell.circ_id().0.get() & !(1 << 31) >= first + 1000;
            match cell.command() {
                Command::Created => open += 1,
                Command::Destroy if is_new => {}
                Command::Destroy => open -= 1,
                other => panic!("{other:?} is no answer to a CREATE"),
            }
            answered += usize::from(is_new);
        }
    }
    open
}

/// A link with many circuits hangs up.
fn hang_up(count: u32, most_cpu: f64, timing: Timing) {
    let _guard = one_at_a_time();
    let node = node(|_| {});
    beside("closing a link", &node, timing, || {
        let mut client = Client::connect_from(ATTACKER, &node.spec);
        assert_eq!(open_circuits(&mut client, count), count);
        let before = cpu(&node);
        drop(client);
        let left = || node.observations.next_observation().population[1];
        while left() > 1000 {
            thread::sleep(Duration::from_millis(10));
        }
        let spent = cpu(&node) - before;
        assert!(spent < most_cpu, "{spent} s of CPU");
        format!("{count} circuits closed in {spent:.2} s of CPU")
    });
}

#[test]
fn a_link_with_many_circuits_closes_fast() {
    hang_up(20_000, 0.6, SMALL);
}

#[test]
#[ignore = "it takes a minute"]
fn attack_1_a_link_with_65530_circuits_hangs_up() {
    hang_up(65_530, 1.0, FULL);
}

/// Opens TCP connections at this rate from one address, and says nothing on them. Returns the number of connections.
fn connects(to: SocketAddr, rate: f64, time: f64) -> u64 {
    let (clock, mut count) = (Clock::start(), 0);
    let mut held = VecDeque::new();
    while seconds(clock) < time {
        if count as f64 > seconds(clock) * rate {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        count += 1;
        let Ok(socket) = dial(ATTACKER, to) else { continue };
        // A reset leaves no TIME_WAIT, which would use up the ports.
        socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
        held.push_back(socket);
        if held.len() > 2000 {
            held.pop_front();
        }
    }
    count
}

fn flood_of_connections(rate: f64, time: f64, timing: Timing) {
    let _guard = one_at_a_time();
    let node = node(|_| {});
    beside("a flood of connections", &node, timing, || {
        let before = cpu(&node);
        let count = connects(node.spec.addresses[0], rate, time);
        format!(
            "{:.0} connections a second, {:.2} of a processor",
            count as f64 / time,
            (cpu(&node) - before) / time
        )
    });
}

#[test]
fn a_flood_of_connections_keeps_no_slow_peer_out() {
    flood_of_connections(3000.0, 4.0, Timing { delay: Duration::from_millis(50), ..SMALL });
}

#[test]
#[ignore = "it takes a minute"]
fn attack_2_10000_connections_a_second() {
    flood_of_connections(10_000.0, 30.0, Timing { lanes: 4, delay: Duration::from_millis(100), ..FULL });
}

/// One client opens streams that its server never closes, as many as it gets.
fn streams_without_end(descriptors: usize, circuits: u32, each: u16, timing: Timing) {
    let _guard = one_at_a_time();
    let node = node(|config| config.descriptors = descriptors);
    let (server, download) = (silent_server(), serve(DOWNLOAD));
    let mut before = Client::connect_from(HONEST, &node.spec);
    before.build(&[node.hop()]);
    beside("streams without end", &node, timing, || {
        let mut client = Client::connect_from(ATTACKER, &node.spec);
        let [open, refused] = [AtomicU64::new(0), AtomicU64::new(0)];
        for circuit in 0..circuits {
            client.new_circuit(circuit + 100);
            client.build(&[node.hop()]);
            // The client lets a few BEGINs be unanswered, so that the sockets do not fill.
            let mut unanswered = 0;
            for number in 1..=each {
                client.begin(server, stream(number));
                unanswered += 1;
                while unanswered >= 64 || (number == each && unanswered > 0) {
                    match client.receive_message().1 {
                        RelayMessage::Connected(_) => drop(open.fetch_add(1, Ordering::Relaxed)),
                        RelayMessage::End(end) => {
                            assert_eq!(end, EndReason::RESOURCE_LIMIT.into());
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        other => panic!("{other:?}"),
                    }
                    unanswered -= 1;
                }
            }
        }
        // A circuit that was there before opens new streams.
        for number in 1..20 {
            assert!(before.download(download, number) == pattern(DOWNLOAD));
        }
        let seen = node.observations.next_observation();
        format!(
            "{} streams opened, {} refused, {} open",
            open.into_inner(),
            refused.into_inner(),
            seen.population[2]
        )
    });
}

#[test]
fn streams_without_end_leave_descriptors_for_others() {
    streams_without_end(600, 5, 500, SMALL);
}

#[test]
#[ignore = "it takes a minute"]
fn attack_4_five_circuits_with_4096_streams() {
    streams_without_end(9_000, 5, 4096, FULL);
}

/// Clients open circuits and leave them idle.
fn idle_circuits(limit: u64, links: u32, each: u32, spare: u64, timing: Timing) {
    let _guard = one_at_a_time();
    let node = node(|config| config.relay.limits.memory = Some(Bytes::new(limit)));
    let before = resident();
    beside("idle circuits", &node, timing, || {
        let mut held = Vec::new();
        for _ in 0..links {
            let mut client = Client::connect_from(ATTACKER, &node.spec);
            open_circuits(&mut client, each);
            held.push(client);
        }
        let (grown, left) =
            (resident().saturating_sub(before), node.observations.next_observation().population[1]);
        assert!(grown < limit / 10 * 11 + spare, "{grown} B");
        format!("{} circuits opened, {left} left, {:.0} MB more", links * each, grown as f64 / 1e6)
    });
}

/// The relay counts constant sizes. They must not be below the real sizes by more than a tenth.
#[test]
fn counted_sizes_are_not_below_real_ones() {
    let _guard = one_at_a_time();
    let node = node(|_| {});
    let counted = || node.observations.next_observation().memory.get();
    let mut client = Client::connect_from(ATTACKER, &node.spec);
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
    let held: Vec<_> = (0..links).map(|_| Client::connect_from(ATTACKER, &node.spec)).collect();
    let counts = [resident().saturating_sub(real), counted() - before];
    let [real, size] = each(counts[0], counts[1], links);
    // Both ends are in this process.
    println!("both ends of a link take {real} B, and one counts as {size} B");
    assert!(real < size * 2 * 11 / 10, "{real} B, {size} B");
    drop(held);
}

#[test]
fn idle_circuits_count_as_memory() {
    idle_circuits(24 << 20, 2, 8000, 24 << 20, SMALL);
}

#[test]
#[ignore = "it takes a minute"]
fn attack_5_262120_idle_circuits_on_four_links() {
    idle_circuits(256 << 20, 4, 65_530, 0, FULL);
}
