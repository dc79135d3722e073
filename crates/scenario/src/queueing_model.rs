//! How long downloads last: all clients together as one closed system, of which the means are found.
//!
//! A client downloads at the smallest of: the least share that it gets of any relay on its path (capacity over those who
//! are busy there at once), its share of the server's link, the windows' bound `w · 498 B / RTT`, and its own link. A
//! download takes two round trips, those of slow start, and its size at that rate; then comes the pause. How many are
//! busy at a relay follows from how long downloads and pauses last, and the other way round, so both are found in turns.
//!
//! Source: mean-value analysis with the approximation of Schweitzer (1979) and Bard (1979), in which a client that
//! comes meets the mean of what there is, less itself. Links are processor sharing.
//! Deviation: positions in Tor's network are not told apart: all relays of a path are drawn by weight.

use crate::model::{Activity, Client, Path, Relay, Scenario, Workload};
use penstock_core::cell::MAX_PAYLOAD;
use penstock_core::edge_control::{EdgeControlConfig, WindowsConfig};
use penstock_units::Duration;
use std::sync::Arc;

/// What a link's capacity is worth in payload: cells, TLS and TCP headers take the rest [1].
const GOODPUT: f64 = 0.9;
/// Payload of a DATA cell [B].
pub(crate) const PAYLOAD: f64 = MAX_PAYLOAD as f64;
/// What slow start begins with [B]: four segments; and a hop of datagrams: two cells.
const FIRST_SEGMENTS: f64 = 5792.0;
const FIRST_CELLS: f64 = 2.0 * PAYLOAD;
/// How often loads and rates are found in turns.
const TURNS: usize = 20;
/// Of how many paths the rate is averaged.
const PATHS: usize = 32;

/// What one client does of one workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    client: usize,
    pub(crate) workload: usize,
    /// At how many places it does so at once.
    pub(crate) circuits: f64,
    /// How many relays write each of its cells; none without Tor.
    pub(crate) hops: f64,
    /// What a download brings [B].
    pub(crate) size: f64,
    /// How long it lasts [s].
    busy: f64,
    /// What comes between it and the next [s].
    pause: f64,
    /// Of all time, how much it is busy [1].
    share: f64,
    /// Its round trip without queues [s]. This and what follows is the same in all turns.
    rtt: f64,
    /// The fastest link among its servers, and its own for each of its circuits [B/s].
    links: [f64; 2],
    /// What its windows let through [B/s].
    bound: f64,
    does: Does,
}

/// What a workload does, on average.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// It downloads so much [B], and pauses [s].
    Download(f64, f64),
    /// From one stream to the next [s], with so much in each [B].
    Streams(f64, f64),
    /// It holds a circuit, and pauses [s].
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
    /// From one download to the next [s].
    pub(crate) fn cycle(&self) -> f64 {
        self.busy + self.pause
    }

    /// How many downloads there are in so much time [s]; a part of one is that part of its bytes.
    pub(crate) fn downloads_in(&self, time: f64) -> f64 {
        let whole = (time / self.cycle()).floor();
        whole + ((time - whole * self.cycle()) / self.busy).min(1.0)
    }
}

/// Everyone's downloads, as loads and rates agree. Who holds circuits downloads nothing: size 0, in one go.
pub(crate) fn settle(scenario: &Scenario) -> Vec<Session> {
    let does: Vec<Does> = scenario.workloads.iter().map(Does::of).collect();
    let mut sessions = Vec::new();
    // Thousands of clients may have the same servers.
    let mut servers: Option<(&Arc<[usize]>, f64)> = None;
    for (index, client) in scenario.clients.iter().enumerate() {
        let fastest = match servers {
            Some((same, fastest)) if Arc::ptr_eq(same, &client.servers) => fastest,
            _ => fastest_link(scenario, client),
        };
        servers = Some((&client.servers, fastest));
        let rtt = base_rtt(scenario, client).as_secs_f64();
        for workload in client.workloads.iter().copied() {
            let circuits = f64::from(scenario.workloads[workload].circuits);
            sessions.push(Session {
                client: index,
                workload,
                circuits,
                hops: client.path.hops() as f64,
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
            // Half of the way: else those who share would give way to each other, all in the same turn.
            session.share = f64::midpoint(session.share, session.busy / session.cycle());
        }
    }
    sessions
}

/// How likely each relay is to be drawn by weight [1].
fn weights(scenario: &Scenario) -> Vec<f64> {
    let weight = |relay: &Relay| relay.weight.bytes_per_sec() as f64;
    let total: f64 = scenario.relays.iter().map(weight).sum();
    scenario.relays.iter().map(|relay| weight(relay) / total).collect()
}

/// Who is busy where, on average.
struct Load {
    /// At each relay by fixed paths, and by drawn ones [1].
    fixed: Vec<f64>,
    drawn: Vec<f64>,
    /// At each server [1].
    server: f64,
    /// What the slowest relay leaves to one more, on some drawn paths [B/s].
    least: Vec<f64>,
}

impl Load {
    fn of(scenario: &Scenario, weights: &[f64], sessions: &[Session]) -> Self {
        let mut fixed = vec![0.0; scenario.relays.len()];
        let (mut drawing, mut hops, mut busy, mut who_draws) = (0.0, 1, 0.0, 0.0);
        for session in sessions {
            let now = session.share * session.circuits;
            busy += now;
            match &scenario.clients[session.client].path {
                Path::Fixed(path) => path.iter().for_each(|relay| fixed[*relay] += now),
                path @ (Path::Weighted { .. } | Path::Tor { .. }) => {
                    hops = path.hops();
                    drawing += now;
                    who_draws += session.circuits;
                }
                Path::Direct => {}
            }
        }
        // Whoever comes meets the others.
        let others = 1.0 - 1.0 / f64::max(who_draws, 1.0);
        let on_path = |weight: &f64| 1.0 - (1.0 - weight).powi(hops as i32);
        let drawn: Vec<f64> = weights.iter().map(|weight| on_path(weight) * drawing * others).collect();
        let server = busy / scenario.servers.len().max(1) as f64;
        let mut load = Load { fixed, drawn, server, least: Vec::new() };
        load.least = load.least_of_drawn(scenario, weights, hops);
        load
    }

    /// What a relay leaves to one more, `own` of whose load there is its own [B/s].
    fn left_by(&self, scenario: &Scenario, relay: usize, own: f64) -> f64 {
        let load = (self.fixed[relay] + self.drawn[relay] - own).max(0.0);
        capacity(&scenario.relays[relay]) as f64 / (1.0 + load)
    }

    /// Quantiles of the least that relays leave to a path of so many drawn ones.
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

    /// What a download brings [B], how long it lasts and what comes between it and the next [s].
    fn reckon(&self, scenario: &Scenario, session: &Session) -> (f64, f64, f64) {
        let client = &scenario.clients[session.client];
        let rtt = session.rtt;
        let fixed;
        let least = match &client.path {
            Path::Fixed(path) => {
                let left = path.iter().map(|relay| self.left_by(scenario, *relay, session.share));
                fixed = [left.fold(f64::INFINITY, f64::min)];
                &fixed[..]
            }
            Path::Weighted { .. } | Path::Tor { .. } => &self.least[..],
            Path::Direct => &[f64::INFINITY][..],
        };
        let [fastest, link] = session.links;
        let others = (self.server - session.share / scenario.servers.len().max(1) as f64).max(0.0);
        let server = fastest / (1.0 + others);
        let rates = least.iter().map(|relays| (relays.min(server).min(link) * GOODPUT).min(session.bound));
        let (size, pause) = match session.does {
            Does::Download(size, pause) => (size, pause),
            Does::Streams(cycle, size) => {
                // What the path does not carry waits.
                let rate = rates.sum::<f64>() / least.len() as f64;
                return (size.min(rate * cycle), cycle, 0.0);
            }
            Does::Hold(span, pause) => return (0.0, span, pause),
        };
        // Only the connection from the exit to the server is new, but for hops of datagrams, whose windows are a circuit's:
        // they grow one after the other.
        let datagrams = client.config.datagrams.is_some();
        let (first, parts) =
            if datagrams { (FIRST_CELLS, 1.0) } else { (FIRST_SEGMENTS, session.hops + 1.0) };
        let rounds = |rate: f64| (1.0 + size.min(rate * rtt) / first).log2() / parts;
        let time: f64 = rates.map(|rate| size / rate + rounds(rate) * rtt).sum();
        (size, 2.0 * rtt + time / least.len() as f64, pause)
    }
}

/// The fastest link among a client's servers [B/s].
fn fastest_link(scenario: &Scenario, client: &Client) -> f64 {
    let links = client.servers.iter().map(|server| scenario.servers[*server].host.link_up.bytes_per_sec());
    links.max().map_or(f64::INFINITY, |link| link as f64)
}

/// What the windows of a client's circuits let be on its way at once [B].
fn window(scenario: &Scenario, client: &Client) -> f64 {
    let exit = match &client.path {
        Path::Direct => return f64::INFINITY,
        Path::Fixed(path) => *path.last().expect("a path is never empty"),
        Path::Weighted { .. } | Path::Tor { .. } => 0,
    };
    let cells = match &scenario.relays[exit].config.edge_control {
        EdgeControlConfig::Windows(windows) => windows.circuit_window.min(windows.stream_window),
        EdgeControlConfig::Dynamic(dynamic) => dynamic.windows.stream_window,
        EdgeControlConfig::Vegas(vegas) => vegas.cwnd_max,
        EdgeControlConfig::Dctcp(dctcp) => dctcp.bounds.cwnd_max,
        EdgeControlConfig::Timely(timely) => timely.bounds.cwnd_max,
        EdgeControlConfig::Custom { .. } => WindowsConfig::CIRCUIT_RANGE.1,
    };
    f64::from(cells) * PAYLOAD
}

/// The round trip from a client through its circuit to its server, without queues. A path that is drawn counts as if it
/// began and ended at the same relay, the mean of some relays, with typical round trips between.
pub(crate) fn base_rtt(scenario: &Scenario, client: &Client) -> Duration {
    const SOME: usize = 16;
    let network = &scenario.network;
    let server = client.servers.first().map(|server| &scenario.servers[*server].host);
    let path = match &client.path {
        Path::Fixed(path) => &path[..],
        Path::Direct => &[],
        Path::Weighted { .. } | Path::Tor { .. } => {
            let relays = scenario.relays.iter().take(SOME).map(|relay| &relay.host);
            let ends = |relay| {
                let far = server.map_or(Duration::ZERO, |server| network.between(relay, server).rtt);
                network.between(&client.host, relay).rtt + far
            };
            let some = relays.len() as u32;
            return relays.map(ends).sum::<Duration>() / some
                + network.typical_rtt() * (client.path.hops() as u32 - 1);
        }
    };
    let relays = path.iter().map(|relay| &scenario.relays[*relay].host);
    let hosts: Vec<_> = std::iter::once(&client.host).chain(relays).chain(server).collect();
    hosts.windows(2).map(|pair| network.between(pair[0], pair[1]).rtt).sum()
}

/// The capacity of a relay in each direction: the smaller of its link and its buckets [B/s].
pub(crate) fn capacity(relay: &Relay) -> u64 {
    let link = relay.host.link_up.min(relay.host.link_down);
    let bucket = relay.config.bandwidth.map_or(link, |bandwidth| bandwidth.rate);
    link.min(bucket).bytes_per_sec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    /// Downloads of 1 MiB over one relay of 1 MiB/s, which is far slower than all else.
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
    fn who_is_alone_has_the_relay() {
        assert!((busy(1, "0 s", "['only']") - 1.0).abs() < 0.03);
        assert!((busy(1, "1 h", "['only']") - 1.0).abs() < 0.03);
    }

    #[test]
    fn those_who_never_pause_share_and_those_who_nearly_always_do_never_meet() {
        assert!((busy(10, "0 s", "['only']") - 10.0).abs() < 0.3);
        assert!((busy(10, "1 h", "['only']") - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_slowest_relay_of_a_drawn_path_counts() {
        // Both are on each path, however they are drawn.
        let drawn = busy(10, "0 s", "'weighted'\nhops = 2");
        assert!((drawn - 10.0).abs() < 0.5, "{drawn}");
    }

    #[test]
    fn a_part_of_a_download_counts_as_that_part() {
        let session = Session { busy: 2.0, pause: 8.0, ..sessions(1, "0 s", "['only']")[0] };
        let counts = [0.0, 1.0, 2.0, 9.0, 10.0, 11.0, 25.0].map(|time| session.downloads_in(time));
        assert_eq!(counts, [0.0, 0.5, 1.0, 1.0, 1.0, 1.5, 3.0]);
    }
}
