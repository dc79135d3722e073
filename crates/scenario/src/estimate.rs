//! How much work a run is, before it is run: good to a factor of two or three.
//!
//! A client downloads at the smallest of: its share of every relay on its path (capacity over the
//! clients that go through it, all thought busy), the windows' bound `w · 498 B / RTT`, and its own
//! link. A download takes two round trips and its size at that rate, then comes the pause. From the
//! cycles follow downloads a second, the end by `run.stop`, cells, and from these time and memory
//! by the constants below.

use crate::model::{Activity, Client, Path, Relay, Scenario};
use penstock_core::edge_control::{EdgeControlConfig, WindowsConfig};
use penstock_units::Duration;

/// What a relay's capacity is worth in payload: cells, TLS and TCP headers take the rest [1].
const GOODPUT: f64 = 0.9;
/// Payload of a DATA cell [B].
const PAYLOAD: f64 = 498.0;
/// Time of one core for one cell on one hop, everything included [s]. To be calibrated.
const SECONDS_PER_CELL_HOP: f64 = 1.5e-6;
/// Events of the queue for one cell on one hop [1]. To be calibrated.
const EVENTS_PER_CELL_HOP: f64 = 1.5;
/// What any run takes [B].
const BASE_MEMORY: f64 = 5e5;
/// What a client's circuit takes on all its hops, with connections, queues and buffers [B]: 48 to 64 kB in scenarios of 80 to 13,800 clients.
const CIRCUIT_MEMORY: f64 = 5e4;
/// What a row of a table takes until it is written [B], room for more of them included.
const ROW_MEMORY: f64 = 250.0;

/// The work of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Simulated time [s].
    pub simulated: f64,
    /// Finished downloads of all clients [1].
    pub downloads: f64,
    /// Events of the queue [1].
    pub events: f64,
    /// Time of one core [s].
    pub seconds: f64,
    /// Memory [B].
    pub memory: f64,
}

/// Estimates one run of `scenario`.
pub(crate) fn estimate(scenario: &Scenario) -> Estimate {
    let shares = shares(scenario);
    let load = load(scenario, &shares);
    let share = |relay: usize| capacity(&scenario.relays[relay]) as f64 / load[relay].max(1.0);
    let of_weighted: f64 = shares.iter().enumerate().map(|(relay, weight)| weight * share(relay)).sum();
    let (mut rates, mut cell_hop_rate) = (vec![0.0; scenario.workloads.len()], 0.0);
    // What is written down each second, but for downloads; and circuits there are at once.
    let (mut rows, mut circuits_at_once) =
        (per_second(scenario.run.sample) * scenario.relays.len() as f64, 0.0);
    for client in &scenario.clients {
        let rtt = base_rtt(scenario, client).as_secs_f64();
        for index in &client.workloads {
            let workload = &scenario.workloads[*index];
            // As if each circuit were a client of its own.
            let circuits = f64::from(workload.circuits);
            circuits_at_once += circuits;
            let of_relays = match &client.path {
                Path::Fixed(path) => path.iter().map(|relay| share(*relay)).fold(f64::INFINITY, f64::min),
                Path::Weighted { .. } | Path::Tor { .. } => of_weighted,
                Path::Direct => f64::INFINITY,
            };
            let rate = rate(scenario, client, of_relays, rtt);
            let pause = workload.pause.mean().as_secs_f64();
            let (cycle, size) = match &workload.does {
                Activity::Download(size) => {
                    let size = size.mean().get() as f64;
                    (2.0 * rtt + size / rate + pause, size)
                }
                Activity::Tgen(tgen) => {
                    let (cycle, size) = tgen.typical(pause);
                    // What the path does not carry waits.
                    (cycle, size.min(rate * cycle))
                }
                Activity::Hold(_) => continue,
            };
            rates[*index] += circuits / cycle;
            let (cells, places) = (circuits * size / PAYLOAD / cycle, (client.path.hops() + 1) as f64);
            cell_hop_rate += cells * places;
            if scenario.trace.workloads.contains(index) {
                let tracked =
                    if scenario.trace.cells == 0 { 0.0 } else { cells / f64::from(scenario.trace.cells) };
                let sampled = circuits * per_second(scenario.trace.interval);
                rows += scenario.trace.share * places * (tracked + sampled);
            }
        }
    }
    let longest = scenario.run.duration.as_secs_f64();
    let simulated = match scenario.run.stop {
        Some(stop) => {
            let start = scenario.workloads[stop.workload].start.mean().as_secs_f64();
            longest.min(start + stop.downloads as f64 / rates[stop.workload])
        }
        None => longest,
    };
    let downloads = simulated * rates.iter().sum::<f64>();
    Estimate {
        simulated,
        downloads,
        events: simulated * cell_hop_rate * EVENTS_PER_CELL_HOP,
        seconds: simulated * cell_hop_rate * SECONDS_PER_CELL_HOP,
        memory: BASE_MEMORY + circuits_at_once * CIRCUIT_MEMORY + (simulated * rows + downloads) * ROW_MEMORY,
    }
}

/// How often something happens once in each interval.
fn per_second(interval: Duration) -> f64 {
    1.0 / interval.as_secs_f64()
}

/// Round trip of a client's circuit and its server without queues; of a weighted path as if it began and ended at the
/// first relay of all, and of delays that are drawn about the mean.
pub(crate) fn base_rtt(scenario: &Scenario, client: &Client) -> Duration {
    let network = &scenario.network;
    let path = match &client.path {
        Path::Fixed(path) => &path[..],
        Path::Direct => &[],
        Path::Weighted { .. } | Path::Tor { .. } => {
            let relay = &scenario.relays[0].host;
            let server = &scenario.servers[client.servers[0]].host;
            let between = network.typical_rtt() * (client.path.hops() as u32 - 1);
            return network.between(&client.host, relay).rtt + between + network.between(relay, server).rtt;
        }
    };
    let relays = path.iter().map(|relay| &scenario.relays[*relay].host);
    let server = client.servers.first().map(|server| &scenario.servers[*server].host);
    let hosts: Vec<_> = std::iter::once(&client.host).chain(relays).chain(server).collect();
    hosts.windows(2).map(|pair| network.between(pair[0], pair[1]).rtt).sum()
}

/// What a relay carries in each direction: the smaller of its link and its buckets [B/s].
pub(crate) fn capacity(relay: &Relay) -> u64 {
    let link = relay.host.link_up.min(relay.host.link_down);
    let bucket = relay.config.bandwidth.map_or(link, |bandwidth| bandwidth.rate);
    link.min(bucket).bytes_per_sec()
}

/// How many clients go through each relay, on average [1].
fn load(scenario: &Scenario, shares: &[f64]) -> Vec<f64> {
    let mut load = vec![0.0; scenario.relays.len()];
    let mut weighted = 0.0;
    for client in &scenario.clients {
        match &client.path {
            Path::Fixed(path) => path.iter().for_each(|relay| load[*relay] += 1.0),
            Path::Weighted { .. } | Path::Tor { .. } => weighted += client.path.hops() as f64,
            Path::Direct => {}
        }
    }
    load.iter_mut().zip(shares).for_each(|(load, share)| *load += weighted * share);
    load
}

/// How likely each relay is to be drawn by weight [1].
fn shares(scenario: &Scenario) -> Vec<f64> {
    let weight = |relay: &Relay| relay.weight.bytes_per_sec() as f64;
    let total: f64 = scenario.relays.iter().map(weight).sum();
    scenario.relays.iter().map(|relay| weight(relay) / total).collect()
}

/// At what rate a client downloads, if its relays leave it `of_relays` [B/s].
fn rate(scenario: &Scenario, client: &Client, of_relays: f64, rtt: f64) -> f64 {
    let of_link = client.host.link_down.bytes_per_sec() as f64;
    let exit = match &client.path {
        Path::Direct => return of_link * GOODPUT,
        Path::Fixed(path) => *path.last().expect("a path is never empty"),
        Path::Weighted { .. } | Path::Tor { .. } => 0,
    };
    let window = match &scenario.relays[exit].config.edge_control {
        EdgeControlConfig::Windows(windows) => windows.circuit_window.min(windows.stream_window),
        EdgeControlConfig::Dynamic(dynamic) => dynamic.windows.stream_window,
        EdgeControlConfig::Vegas(vegas) => vegas.cwnd_max,
        EdgeControlConfig::Dctcp(dctcp) => dctcp.bounds.cwnd_max,
        EdgeControlConfig::Timely(timely) => timely.bounds.cwnd_max,
        EdgeControlConfig::Custom { .. } => WindowsConfig::CIRCUIT_RANGE.1,
    };
    (of_relays.min(of_link) * GOODPUT).min(f64::from(window) * PAYLOAD / rtt)
}
