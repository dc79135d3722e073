//! Runs a scenario in the testbed: namespaces, live relays, clients and servers, and the emulated network.

use super::client::{self, Client, ClientPath, Done};
use super::draws::Draws;
use super::link::Hop;
use super::relay::{Relay, times};
use super::server;
use crate::Error;
use crate::flow::Protocol;
use crate::hub::HubReport;
use crate::lateness::Lateness;
use crate::plan::{accesses, check, client_host, edges, places, relay_host, server_host};
use crate::site::{Closed, Site};
use crate::socket::OWN_BUFFERS;
use penstock_core::RelayConfig;
use penstock_core::config::Refill;
use penstock_core::hop_control::HopOffer;
use penstock_link::keys::Keys;
use penstock_live::clock::Clock as Date;
use penstock_live::node::{Left, SocketTcp};
use penstock_record::{PathRow, Position, Tables, tables::Name};
use penstock_scenario::Scenario;
use penstock_scenario::model::{self, Congestion, Path};
use penstock_units::{Duration, Instant, Seed};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{scope, sleep};

const SERVER_PORT: u16 = 80;
/// Time limit for the start of relays.
const BEGINNING: Duration = Duration::from_secs(30);
const POSITIONS: [Position; 3] = [Position::Guard, Position::Middle, Position::Exit];

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Recorded tables.
    pub tables: Tables,
    /// Lateness of packets.
    pub lateness: Lateness,
    /// Longest wait of a packet in the emulated queue of a sending link.
    pub longest_wait: Duration,
    /// Packets that reached a kernel [packet].
    pub packets: u64,
    /// Packets dropped by full queues at receivers [packet].
    pub dropped: u64,
    /// Packets dropped by the testbed itself [packet].
    pub unseen: u64,
    /// Clients that stopped before the end of the run, with the reasons.
    pub broken: Vec<String>,
}

/// Runs a scenario in real time. The process must have only the calling thread.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Outcome, Error> {
    let seed = Seed(seed);
    let scenario = &*scenario.sampled(seed);
    check(scenario)?;
    scenario.clients.iter().try_for_each(client::check)?;
    let tcp = SocketTcp {
        congestion: Some(match scenario.tcp.congestion {
            Congestion::Cubic => "cubic",
            Congestion::Reno | Congestion::NewReno => "reno",
        }),
        nodelay: scenario.tcp.sets_nodelay(),
    };
    // Keys are generated before the network starts, because this takes long.
    let (mut rng, date) = (rand::rng(), Date::start().date());
    let mut keys = || Keys::generate(&mut rng, date);
    let relay_keys: Vec<Keys> = scenario.relays.iter().map(|_| keys()).collect();
    let client_keys: Vec<Keys> = scenario.clients.iter().map(|_| keys()).collect();
    let accesses = accesses(scenario);
    let site = Site::open(&accesses, edges(scenario, seed), &OWN_BUFFERS, scenario.tcp.initial_window)?;
    let mut servers = Vec::new();
    for server in 0..scenario.servers.len() {
        let host = server_host(scenario, server);
        site.enter(host);
        let at = SocketAddr::new(site.address(host).into(), SERVER_PORT);
        server::serve(at, tcp)?;
        servers.push(at);
    }
    let ran = people(scenario, seed, &site, tcp, &servers, relay_keys, client_keys);
    let closed = site.close()?;
    Ok(outcome(ran?, &closed))
}

struct Ran {
    begins: Instant,
    tables: Tables,
    /// For each cell in the tables, the connection on which it left.
    left: Vec<Option<Left>>,
    broken: Vec<String>,
}

fn people(
    scenario: &Scenario,
    seed: Seed,
    site: &Site,
    tcp: SocketTcp,
    servers: &[SocketAddr],
    relay_keys: Vec<Keys>,
    client_keys: Vec<Keys>,
) -> Result<Ran, Error> {
    let [relays_over, clients_over] = [const { AtomicBool::new(false) }; 2];
    scope(|threads| {
        let (sender, receiver) = channel();
        let relays: Vec<_> = relay_keys
            .into_iter()
            .enumerate()
            .map(|(index, keys)| {
                let relay = relay(scenario, seed, site, tcp, index);
                let (sender, over) = (sender.clone(), &relays_over);
                threads.spawn(move || {
                    site.enter(relay_host(index));
                    relay.run(keys, &sender, over)
                })
            })
            .collect();
        let mut hops: Vec<Option<Hop>> = vec![None; scenario.relays.len()];
        while hops.iter().any(Option::is_none) {
            // A failed relay returns its error when its thread is joined.
            let Ok((number, hop)) = receiver.recv_timeout(BEGINNING) else { break };
            hops[number as usize - 1] = Some(hop);
        }
        let begins = site.clock.now();
        let mut clients = Vec::new();
        for (index, keys) in client_keys.into_iter().enumerate() {
            let model = &scenario.clients[index];
            let name: Name = model.host.name.clone();
            let client_path = |(leg, path): (usize, &Vec<usize>)| {
                // As in the simulator, clients know which relays support hop control.
                let relays_of_path = path.iter().map(|relay| &scenario.relays[*relay].config);
                let nodes = std::iter::once(&model.group.config).chain(relays_of_path);
                ClientPath {
                    number: circuit(scenario, index, leg),
                    hops: path.iter().filter_map(|relay| hops[*relay].clone()).collect(),
                    controlled: HopOffer::all_along(nodes.map(|config| config.hop_control.offer(false))),
                }
            };
            let client = Client {
                draws: Draws::new(&name, seed),
                name,
                model,
                workload: &scenario.workloads[model.group.workloads[0]],
                paths: paths(scenario, seed, index).iter().enumerate().map(client_path).collect(),
                servers,
                tcp,
                keys,
                clock: site.clock,
                begins,
                warmup: scenario.run.warmup,
                over: &clients_over,
            };
            clients.push(threads.spawn(move || {
                site.enter(client_host(scenario, index));
                client.run()
            }));
        }
        if hops.iter().all(Option::is_some) {
            sleep(scenario.run.duration);
        }
        clients_over.store(true, Ordering::Relaxed);
        let (mut tables, mut left) = (Tables::default(), Vec::new());
        let (mut broken, mut done) = (Vec::new(), Vec::new());
        for client in clients {
            match client.join().expect("a client ends with what it did, or why not") {
                Ok(each) => done.push(each),
                Err(why) => {
                    broken.push(why.to_string());
                    done.push(Done::default());
                }
            }
        }
        relays_over.store(true, Ordering::Relaxed);
        for relay in relays {
            let record = relay.join().expect("a relay ends with its record, or why not")?;
            let said = record.tables;
            tables.relays.extend(said.relays);
            tables.circuits.extend(said.circuits);
            tables.cells.extend(said.cells);
            left.extend(record.left);
        }
        for (index, each) in done.into_iter().enumerate() {
            let paths = paths(scenario, seed, index).into_iter().enumerate();
            tables.paths.extend(paths.filter_map(|(leg, path)| {
                let number = circuit(scenario, index, leg);
                path_row(scenario, (index, number), &path, each.built.get(leg).copied())
            }));
            tables.transfers.extend(each.transfers);
        }
        Ok(Ran { begins, tables, left, broken })
    })
}

fn relay(scenario: &Scenario, seed: Seed, site: &Site, tcp: SocketTcp, index: usize) -> Relay {
    let model = &scenario.relays[index];
    let interval = model.config.refill.interval;
    let phase = model.refill_phase.draw(interval, &mut seed.stream(&format!("{}/refill", model.host.name)));
    Relay {
        number: index as u64 + 1,
        name: model.host.name.clone(),
        position: POSITIONS[places(scenario)[index]],
        address: site.address(relay_host(index)),
        config: RelayConfig { refill: Refill { phase, ..model.config.refill }, ..(*model.config).clone() },
        tcp,
        cells: NonZeroU32::new(scenario.trace.cells).filter(|_| !scenario.trace.workloads.is_empty()),
        circuits: (!scenario.trace.workloads.is_empty()).then_some(scenario.trace.interval),
        sample: scenario.run.sample,
        clock: site.clock,
    }
}

/// The relays of each circuit of a client.
fn paths(scenario: &Scenario, seed: Seed, client: usize) -> Vec<Vec<usize>> {
    let model::Client { group, host, .. } = &scenario.clients[client];
    let Path::Fixed(first) = &group.path else { return Vec::new() };
    let mut rng = seed.stream(&format!("{}/path", host.name));
    let second = group.draw_second(scenario, &[], first, &mut rng);
    std::iter::once(first.clone()).chain(second).collect()
}

/// Number of a client's circuit. First circuits have the numbers of their clients.
fn circuit(scenario: &Scenario, client: usize, leg: usize) -> u64 {
    (client + leg * scenario.clients.len()) as u64
}

fn path_row(
    scenario: &Scenario,
    (client, circuit): (usize, u64),
    path: &[usize],
    built: Option<(f64, f64)>,
) -> Option<PathRow> {
    let name = |place: usize| path.get(place).map(|relay| scenario.relays[*relay].host.name.clone());
    Some(PathRow {
        circuit,
        client: scenario.clients[client].host.name.clone(),
        built_s: built.map(|(at, _)| at),
        build_time_s: built.map(|(_, took)| took),
        guard: name(0)?,
        middle: name(path.len() / 2)?,
        exit: name(path.len() - 1)?,
    })
}

/// Converts all times to the time of the run, and adds the times at which cells left the link.
fn outcome(ran: Ran, closed: &Closed) -> Outcome {
    let (report, Ran { begins, mut tables, left, broken }) = (&closed.report, ran);
    let begin_s = begins.as_secs_f64();
    tables.relays.iter_mut().for_each(|row| row.t_s -= begin_s);
    tables.relays.retain(|row| row.t_s > 0.0);
    tables.circuits.iter_mut().for_each(|row| row.t_s -= begin_s);
    for (row, left) in tables.cells.iter_mut().zip(left) {
        row.nic_out_ns = left.and_then(|left| departed(report, left)).map(Instant::as_nanos);
        // The relay and the testbed read the clock at slightly different times. The maximum keeps both times in order.
        row.nic_out_ns = row.nic_out_ns.map(|at| at.max(row.kernel_ns.unwrap_or(0)));
        for at in times(row).into_iter().flatten() {
            *at = at.saturating_sub(begins.as_nanos());
        }
    }
    tables.transfers.sort_by(|one, other| ended(one).total_cmp(&ended(other)));
    Outcome {
        tables,
        lateness: report.lateness.clone(),
        longest_wait: report.longest_wait,
        packets: report.packet_counts.iter().map(|count| count.carried).sum(),
        dropped: report.packet_counts.iter().map(|count| count.dropped).sum(),
        unseen: closed.unseen,
        broken,
    }
}

fn ended(row: &penstock_record::Transfer) -> f64 {
    row.start_s + row.ttlb_s.unwrap_or(f64::INFINITY)
}

fn departed(report: &HubReport, left: Left) -> Option<Instant> {
    let (SocketAddr::V4(local), SocketAddr::V4(peer)) = (left.local, left.peer) else { return None };
    let protocol = if left.is_udp { Protocol::Udp } else { Protocol::Tcp };
    report.flows.get(&(protocol, local, peer))?.of(left.bytes)
}
