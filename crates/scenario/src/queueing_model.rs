//! Estimates the durations of downloads, with a closed queueing network of all clients.
//!
//! A client's download rate is the smallest of these limits:
//!
//! - its share of the slowest relay on its path (the relay's capacity divided by the circuits that are busy there)
//! - its share of the server's link
//! - the windows' limit `w · 498 B / RTT`
//! - the client's own link
//!
//! The duration of a download is two round trips, plus the round trips of slow start, plus size / rate. A pause
//! follows. The load of a relay depends on these durations, and the durations depend on the load. [`settle`] therefore
//! repeats two steps 20 times: it computes the loads, and then the durations.
//!
//! Source: mean-value analysis with the approximation of Schweitzer (1979) and Bard (1979). In this approximation, an
//! arriving client finds the mean load of the other clients. Links are processor sharing.
//! Deviation: the model ignores positions on Tor's paths. It samples all relays of a path by weight.

use crate::model::{Activity, Client, Path, Relay, Scenario, Workload};
use penstock_core::cell::MAX_PAYLOAD;
use penstock_core::edge_control::{EdgeControlConfig, WindowsConfig};
use penstock_units::Duration;
use std::sync::Arc;

/// Share of a link's capacity that carries payload. Headers of cells, TLS and TCP use the rest [1].
const GOODPUT: f64 = 0.9;
/// Payload of a DATA cell [B].
pub(crate) const PAYLOAD: f64 = MAX_PAYLOAD as f64;
/// Initial window of slow start [B]: four TCP segments, or two cells on a hop over datagrams.
const FIRST_SEGMENTS: f64 = 5792.0;
const FIRST_CELLS: f64 = 2.0 * PAYLOAD;
/// Number of iterations. Each iteration computes loads, then rates.
const TURNS: usize = 20;
/// Number of sampled paths over which a rate is averaged.
const PATHS: usize = 32;

/// One client's work on one of its workloads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) client: usize,
    pub(crate) workload: usize,
    /// Number of parallel circuits [1].
    pub(crate) circuits: f64,
    /// Number of relays that write each cell [1]; zero without Tor.
    pub(crate) hops: f64,
    /// Size of a download [B].
    pub(crate) size: f64,
    /// Duration of a download [s].
    busy: f64,
    /// Time from the end of a download to the start of the next one [s].
    pause: f64,
    /// Share of time in which a download runs [1].
    share: f64,
    /// Round-trip time without queueing [s]. This field and all later fields are constant during the iterations.
    rtt: f64,
    /// Rate of the fastest link among the client's servers, and the client's own link rate per circuit [B/s].
    links: [f64; 2],
    /// Rate limit by the circuit's windows [B/s].
    bound: f64,
    does: Does,
}

#[derive(Clone, Copy, Debug)]
enum Does {
    /// Downloads of this size [B], with this pause between them [s].
    Download(f64, f64),
    /// Streams with this time between their starts [s] and this size [B].
    Streams(f64, f64),
    /// Circuits held for this time [s], with this pause between them [s].
    Hold(f64, f64),
}

impl Does {
    fn of(workload: &Workload) -> Self {
        let pause = workload.pause.mean().as_secs_f64();
        match &workload.does {
            Activity::Download(size) => Does::Download(size.mean().get() as f64, pause),
            Activity::Tgen(tgen) => {
                let (cycle, size) = tgen.typical(pause);
                Does::Streams(cycle, size)
            }
            Activity::Hold(span) => Does::Hold(span.mean().as_secs_f64().max(1e-3), pause),
        }
    }
}

impl Session {
    /// Time from the start of a download to the start of the next one [s].
    pub(crate) fn cycle(&self) -> f64 {
        self.busy + self.pause
    }

    /// Number of downloads in `time` [s]. A download that has transferred half of its bytes counts 0.5.
    pub(crate) fn downloads_in(&self, time: f64) -> f64 {
        let whole = (time / self.cycle()).floor();
        whole + ((time - whole * self.cycle()) / self.busy).min(1.0)
    }
}

/// Computes the downloads of all clients with loads and rates that fit each other. Holds have size 0.
pub(crate) fn settle(scenario: &Scenario) -> Vec<Session> {
    let does: Vec<Does> = scenario.workloads.iter().map(Does::of).collect();
    let mut sessions = Vec::new();
    // Thousands of clients can have the same list of servers.
    let mut servers: Option<(&Arc<[usize]>, f64)> = None;
    for (index, client) in scenario.clients.iter().enumerate() {
        let fastest = match servers {
            Some((same, fastest)) if Arc::ptr_eq(same, &client.group.servers) => fastest,
            _ => fastest_link(scenario, client),
        };
        servers = Some((&client.group.servers, fastest));
        let rtt = base_rtt(scenario, client).as_secs_f64();
        for workload in client.group.workloads.iter().copied() {
            let circuits = f64::from(scenario.workloads[workload].circuits);
            sessions.push(Session {
                client: index,
                workload,
                circuits,
                hops: client.group.path.hops() as f64,
                size: 0.0,
                busy: 1.0,
                pause: 0.0,
                share: 1.0,
                rtt,
                links: [fastest, client.host.link_down.bytes_per_sec() as f64 / circuits],
                bound: window(scenario, client) / rtt,
                does: does[workload],
            });
        }
    }
    let weights = weights(scenario);
    for _ in 0..TURNS {
        let load = Load::of(scenario, &weights, &sessions);
        for session in &mut sessions {
            (session.size, session.busy, session.pause) = load.reckon(scenario, session);
            // A half step. With a full step, all sessions would react at the same time and overshoot.
            session.share = f64::midpoint(session.share, session.busy / session.cycle());
        }
    }
    sessions
}

/// The probability of each relay in selection by weight [1].
fn weights(scenario: &Scenario) -> Vec<f64> {
    let weight = |relay: &Relay| relay.weight.bytes_per_sec() as f64;
    let total: f64 = scenario.relays.iter().map(weight).sum();
    scenario.relays.iter().map(|relay| weight(relay) / total).collect()
}

struct Load {
    /// Busy circuits of fixed paths at each relay [1]. `drawn` has those of sampled paths.
    fixed: Vec<f64>,
    drawn: Vec<f64>,
    /// Busy circuits at each server [1].
    server: f64,
    /// Rate for one more circuit at the slowest relay of a path, for several sampled paths [B/s].
    least: Vec<f64>,
}

impl Load {
    fn of(scenario: &Scenario, weights: &[f64], sessions: &[Session]) -> Self {
        let mut fixed = vec![0.0; scenario.relays.len()];
        let (mut drawing, mut hops, mut busy, mut who_draws) = (0.0, 1, 0.0, 0.0);
        for session in sessions {
            let now = session.share * session.circuits;
            busy += now;
            match &scenario.clients[session.client].group.path {
                Path::Fixed(path) => path.iter().for_each(|relay| fixed[*relay] += now),
                path @ (Path::Weighted { .. } | Path::Tor { .. } | Path::Listed) => {
                    hops = path.hops();
                    drawing += now;
                    who_draws += session.circuits;
                }
                Path::Direct => {}
            }
        }
        // An arriving circuit finds the other circuits, not itself.
        let others = 1.0 - 1.0 / f64::max(who_draws, 1.0);
        let on_path = |weight: &f64| 1.0 - (1.0 - weight).powi(hops as i32);
        let drawn: Vec<f64> = weights.iter().map(|weight| on_path(weight) * drawing * others).collect();
        let server = busy / scenario.servers.len().max(1) as f64;
        let mut load = Load { fixed, drawn, server, least: Vec::new() };
        load.least = load.least_of_drawn(scenario, weights, hops);
        load
    }

    /// Rate that a relay can give to a circuit, if all other circuits keep their load [B/s]. `own` is this circuit's
    /// part of the relay's load [1].
    fn left_by(&self, scenario: &Scenario, relay: usize, own: f64) -> f64 {
        let load = (self.fixed[relay] + self.drawn[relay] - own).max(0.0);
        capacity(&scenario.relays[relay]) as f64 / (1.0 + load)
    }

    /// For sampled paths, quantiles of the rate that the slowest relay of the path gives to one more circuit [B/s].
    fn least_of_drawn(&self, scenario: &Scenario, weights: &[f64], hops: usize) -> Vec<f64> {
        let mut relays: Vec<(f64, f64)> = weights
            .iter()
            .enumerate()
            .map(|(relay, weight)| (self.left_by(scenario, relay, 0.0), *weight))
            .collect();
        relays.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut place, mut below) = (0, 0.0);
        let quantile = |path: usize| {
            // All hops are above x with the probability (1 - F(x))^hops.
            let above = 1.0 - (path as f64 + 0.5) / PATHS as f64;
            let wanted = 1.0 - above.powf(1.0 / hops as f64);
            while place + 1 < relays.len() && below + relays[place].1 < wanted {
                below += relays[place].1;
                place += 1;
            }
            relays.get(place).map_or(f64::INFINITY, |relay| relay.0)
        };
        (0..PATHS).map(quantile).collect()
    }

    /// Size of a download [B], its duration [s], and the pause after it [s].
    fn reckon(&self, scenario: &Scenario, session: &Session) -> (f64, f64, f64) {
        let client = &scenario.clients[session.client];
        let rtt = session.rtt;
        let fixed;
        let least = match &client.group.path {
            Path::Fixed(path) => {
                let left = path.iter().map(|relay| self.left_by(scenario, *relay, session.share));
                fixed = [left.fold(f64::INFINITY, f64::min)];
                &fixed[..]
            }
            Path::Weighted { .. } | Path::Tor { .. } | Path::Listed => &self.least[..],
            Path::Direct => &[f64::INFINITY][..],
        };
        let [fastest, link] = session.links;
        let others = (self.server - session.share / scenario.servers.len().max(1) as f64).max(0.0);
        let server = fastest / (1.0 + others);
        let rates = least.iter().map(|relays| (relays.min(server).min(link) * GOODPUT).min(session.bound));
        let (size, pause) = match session.does {
            Does::Download(size, pause) => (size, pause),
            Does::Streams(cycle, size) => {
                // The path carries at most `rate`. The remaining bytes wait.
                let rate = rates.sum::<f64>() / least.len() as f64;
                return (size.min(rate * cycle), cycle, 0.0);
            }
            Does::Hold(span, pause) => return (0.0, span, pause),
        };
        // Only the connection from the exit to the server is new, so only it is in slow start. Datagram hops have new
        // windows for each circuit, and these windows grow one after the other.
        let datagrams = client.group.config.datagrams.is_some();
        let (first, parts) =
            if datagrams { (FIRST_CELLS, 1.0) } else { (FIRST_SEGMENTS, session.hops + 1.0) };
        let rounds = |rate: f64| (1.0 + size.min(rate * rtt) / first).log2() / parts;
        let time: f64 = rates.map(|rate| size / rate + rounds(rate) * rtt).sum();
        (size, 2.0 * rtt + time / least.len() as f64, pause)
    }
}

/// Rate of the fastest link among a client's servers [B/s].
fn fastest_link(scenario: &Scenario, client: &Client) -> f64 {
    let links =
        client.group.servers.iter().map(|server| scenario.servers[*server].host.link_up.bytes_per_sec());
    links.max().map_or(f64::INFINITY, |link| link as f64)
}

/// Maximum data in flight on a circuit of this client, as its windows permit [B].
fn window(scenario: &Scenario, client: &Client) -> f64 {
    let exit = match &client.group.path {
        Path::Direct => return f64::INFINITY,
        Path::Fixed(path) => *path.last().expect("a path is never empty"),
        Path::Weighted { .. } | Path::Tor { .. } | Path::Listed => 0,
    };
    let cells = match &scenario.relays[exit].config.edge_control {
        EdgeControlConfig::Windows(windows) => {
            windows.stream_window.map_or(windows.circuit_window, |stream| stream.min(windows.circuit_window))
        }
        EdgeControlConfig::Dynamic(dynamic) => {
            dynamic.windows.stream_window.unwrap_or(WindowsConfig::CIRCUIT_RANGE.1)
        }
        EdgeControlConfig::Vegas(vegas) => vegas.bounds.cwnd_max,
        EdgeControlConfig::Dctcp(dctcp) => dctcp.bounds.cwnd_max,
        EdgeControlConfig::Timely(timely) => timely.bounds.cwnd_max,
        EdgeControlConfig::Custom { .. } => WindowsConfig::CIRCUIT_RANGE.1,
    };
    f64::from(cells) * PAYLOAD
}

/// Round-trip time from a client over its circuit to its server, without queueing. For sampled paths, the first and
/// last hop use the mean over some relays, and other hops use a typical round-trip time.
pub(crate) fn base_rtt(scenario: &Scenario, client: &Client) -> Duration {
    const SOME: usize = 16;
    let network = &scenario.network;
    let server = client.group.servers.first().map(|server| &scenario.servers[*server].host);
    let path = match &client.group.path {
        Path::Fixed(path) => &path[..],
        Path::Direct => &[],
        Path::Weighted { .. } | Path::Tor { .. } | Path::Listed => {
            let relays = scenario.relays.iter().take(SOME).map(|relay| &relay.host);
            let ends = |relay| {
                let far = server.map_or(Duration::ZERO, |server| network.between(relay, server).rtt);
                network.between(&client.host, relay).rtt + far
            };
            let some = relays.len() as u32;
            return relays.map(ends).sum::<Duration>() / some
                + network.typical_rtt() * (client.group.path.hops() as u32 - 1);
        }
    };
    let relays = path.iter().map(|relay| &scenario.relays[*relay].host);
    let hosts: Vec<_> = std::iter::once(&client.host).chain(relays).chain(server).collect();
    hosts.windows(2).map(|pair| network.between(pair[0], pair[1]).rtt).sum()
}

/// Capacity of a relay in each direction: the smaller of link rate and refill rate [B/s].
pub(crate) fn capacity(relay: &Relay) -> u64 {
    let link = relay.host.link_up.min(relay.host.link_down);
    let bucket = relay.config.bandwidth.map_or(link, |bandwidth| bandwidth.rate);
    link.min(bucket).bytes_per_sec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    /// Downloads of 1 MiB over one relay of 1 MiB/s. All other links are much faster.
    fn sessions(clients: u32, pause: &str, path: &str) -> Vec<Session> {
        let text = format!(
            "[scenario]\ntitle = 'x'\n[run]\nduration = '60 s'\n[network]\nrtt = '1 ms'\n\
             [relays.only]\nlink = '1 MiB/s'\n[relays.other]\nlink = '1 GiB/s'\nweight = '1 B/s'\n\
             [client]\nlink = '100 MiB/s'\npath = {path}\n[clients.c]\ncount = {clients}\nworkload = 'w'\n\
             [servers.s]\nlink = '1 GiB/s'\n[workloads.w]\nsize = '1 MiB'\npause = '{pause}'\n"
        );
        let document = Document::parse(&text, "x.toml", &[]).unwrap();
        settle(document.scenario("default").unwrap())
    }

    fn busy(clients: u32, pause: &str, path: &str) -> f64 {
        sessions(clients, pause, path)[0].busy * GOODPUT
    }

    #[test]
    fn a_single_client_has_the_whole_relay() {
        assert!((busy(1, "0 s", "['only']") - 1.0).abs() < 0.03);
        assert!((busy(1, "1 h", "['only']") - 1.0).abs() < 0.03);
    }

    #[test]
    fn clients_share_a_relay_only_if_their_downloads_overlap() {
        assert!((busy(10, "0 s", "['only']") - 10.0).abs() < 0.3);
        assert!((busy(10, "1 h", "['only']") - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_slowest_relay_of_a_sampled_path_counts() {
        // Both relays are on each path, in any order.
        let drawn = busy(10, "0 s", "'weighted'\nhops = 2");
        assert!((drawn - 10.0).abs() < 0.5, "{drawn}");
    }

    #[test]
    fn a_partial_download_counts_by_its_part() {
        let session = Session { busy: 2.0, pause: 8.0, ..sessions(1, "0 s", "['only']")[0] };
        let counts = [0.0, 1.0, 2.0, 9.0, 10.0, 11.0, 25.0].map(|time| session.downloads_in(time));
        assert_eq!(counts, [0.0, 0.5, 1.0, 1.0, 1.0, 1.5, 3.0]);
    }
}
