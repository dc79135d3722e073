//! Checks whether the testbed can run a scenario, and derives the emulated network from it.

use crate::Error;
use crate::error::unsupported;
use crate::star::{Access, Edge, Edges};
use penstock_scenario::model::{
    Activity, Client, Congestion, Host, LossOf, Path, Scenario, TcpProfile, Workload,
};
use penstock_units::{Bytes, Seed};
use std::fmt::Display;
use std::fs;
use std::iter;

/// Maximum number of hosts [1]. All addresses are in one IPv4 network.
const MOST_HOSTS: usize = 200;
/// Payload of a packet of 1500 B with TCP timestamps [B].
const MSS: Bytes = Bytes::new(1448);
/// Length of a request's header [B]: the size of the answer, then the length of the request.
pub const REQUEST_HEAD: usize = 12;

/// All hosts: first relays, then clients, then servers, each in the scenario's order.
pub fn hosts(scenario: &Scenario) -> Vec<&Host> {
    let relays = scenario.relays.iter().map(|relay| &relay.host);
    let clients = scenario.clients.iter().map(|client| &client.host);
    relays.chain(clients).chain(scenario.servers.iter().map(|server| &server.host)).collect()
}

/// Index of a relay in [`hosts`].
pub fn relay_host(relay: usize) -> usize {
    relay
}

/// Index of a client in [`hosts`].
pub fn client_host(scenario: &Scenario, client: usize) -> usize {
    scenario.relays.len() + client
}

/// Index of a server in [`hosts`].
pub fn server_host(scenario: &Scenario, server: usize) -> usize {
    scenario.relays.len() + scenario.clients.len() + server
}

/// Access links of all hosts, in the order of [`hosts`].
pub fn accesses(scenario: &Scenario) -> Vec<Access> {
    let queue = |host: &Host| host.group.link_queue.unwrap_or(scenario.tcp.profile.link_queue()).bytes();
    let access = |host: &Host| Access { up: host.link_up, down: host.link_down, queue: queue(host) };
    hosts(scenario).into_iter().map(access).collect()
}

/// One-way delay and loss between each pair of hosts. Losses use the same random streams as in the simulator.
pub fn edges(scenario: &Scenario, seed: Seed) -> Edges {
    let hosts = hosts(scenario);
    let mut edges = Edges::default();
    for (from, one) in hosts.iter().enumerate() {
        for (to, other) in hosts.iter().enumerate().filter(|(to, _)| *to != from) {
            let wire = scenario.network.between(one, other);
            edges.between.insert((from, to), Edge { delay: wire.delay, loss: wire.loss });
            if wire.loss > 0.0 {
                let name = format!("{}->{}/loss", one.name, other.name);
                edges.rng.insert((from, to), seed.stream(&name));
            }
        }
    }
    edges
}

/// For each relay, the most frequent position on the clients' paths.
pub fn places(scenario: &Scenario) -> Vec<usize> {
    let mut counts = vec![[0u32; 3]; scenario.relays.len()];
    for client in &scenario.clients {
        let Path::Fixed(path) = &client.group.path else { continue };
        for path in iter::once(path).chain(&client.group.second_path) {
            for (at, relay) in path.iter().enumerate() {
                let place = if at + 1 == path.len() && at > 0 { 2 } else { at.min(1) };
                counts[*relay][place] += 1;
            }
        }
    }
    let most = |count: &[u32; 3]| (0..3).rev().max_by_key(|place| count[*place]).unwrap_or(1);
    counts.iter().map(most).collect()
}

/// Refuses a scenario that the testbed does not support.
pub fn check(scenario: &Scenario) -> Result<(), Error> {
    tcp(scenario)?;
    if hosts(scenario).len() > MOST_HOSTS {
        return Err(unsupported!(
            "the scenario has {} nodes; the testbed supports at most {MOST_HOSTS}",
            hosts(scenario).len()
        ));
    }
    if scenario.network.default.loss_of == LossOf::Data {
        return not("network.loss_of", "write \"all\" or \"none\"");
    }
    let all = hosts(scenario);
    let has_jitter = |(one, other): (&&Host, &&Host)| !scenario.network.between(one, other).jitter.is_zero();
    if all.iter().flat_map(|one| all.iter().map(move |other| (one, other))).any(has_jitter) {
        return not("network.edges.jitter", "leave it out");
    }
    if let Some(server) = scenario.servers.iter().find(|server| !server.think_time.is_zero()) {
        return not(format!("{}.think_time", server.host.name), "leave it out: servers answer at once");
    }
    let key = |host: &Host, key: &str| format!("{}.{key}", host.name);
    for host in hosts(scenario) {
        if (host.group.send_buffer, host.group.receive_buffer) != (None, None) {
            return not(key(host, "send_buffer and receive_buffer"), "write \"auto\": Linux tunes them");
        }
        if host.group.cpu.is_some() {
            return not(key(host, "cpu"), "leave it out: relays use the processor of this machine");
        }
    }
    scenario.clients.iter().try_for_each(|client| {
        client_does(scenario, client).map_err(|why| unsupported!("clients.{}: {why}", client.host.group.name))
    })?;
    if !scenario.changes.is_empty() {
        return not("changes", "the testbed changes nothing while it runs; leave them out");
    }
    if scenario.run.stop.is_some() {
        return not("run.stop", "the testbed runs for run.duration; leave it out");
    }
    if scenario.trace.clients.is_some() {
        return not(
            "trace.clients",
            "the testbed does not count the bytes of clients over time; leave it out",
        );
    }
    Ok(())
}

fn not(key: impl Display, right: &str) -> Result<(), Error> {
    Err(unsupported!("{key} is not supported by the testbed: {right}"))
}

fn tcp(scenario: &Scenario) -> Result<(), Error> {
    let tcp = &scenario.tcp;
    if tcp.profile != TcpProfile::Linux6 {
        return not("tcp.profile", "write \"linux-6\", the profile of this kernel");
    }
    if tcp.mss != MSS {
        return not("tcp.mss", "write \"1448 B\", the payload of packets of 1500 B");
    }
    if tcp.initial_send_buffer.is_some() {
        return not("tcp.initial_send_buffer", "write \"auto\"");
    }
    if tcp.batch().is_some() {
        return not("tcp.interface_batch", "write \"auto\"");
    }
    if tcp.segment_per_write == Some(true) {
        return not("tcp.segment_per_write", "write false");
    }
    if tcp.congestion == Congestion::NewReno {
        return not(
            "tcp.congestion",
            "write \"reno\": Linux has no Reno that counts ACKs instead of segments",
        );
    }
    let module = fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart").unwrap_or_default();
    if tcp.congestion == Congestion::Cubic && tcp.hystart == (module.trim() == "0") {
        return not("tcp.hystart", "this kernel has the other setting for all of its sockets");
    }
    Ok(())
}

fn client_does(scenario: &Scenario, client: &Client) -> Result<(), Error> {
    if !matches!(client.group.path, Path::Fixed(_)) {
        return not("path", "name its relays");
    }
    if client.group.at_entry {
        return not("at", "write \"host\": live relays download nothing");
    }
    let [workload] = client.group.workloads[..] else {
        return not("workload", "give each client one workload");
    };
    if client.group.config.datagrams.is_some() {
        return not("transport", "write \"tcp\": only relays use datagrams");
    }
    if client.start.is_some() {
        return not("start", "set the start of its workload");
    }
    if client.group.circuit_lifetime.is_some() || client.group.build_timeout.is_some() {
        return not("a circuit_lifetime or build_timeout", "leave it out: a client keeps its circuit");
    }
    loops(&scenario.workloads[workload])
        .map_err(|why| unsupported!("workloads.{}: {why}", scenario.workloads[workload].name))
}

fn loops(workload: &Workload) -> Result<(), Error> {
    if !matches!(workload.does, Activity::Download(_)) {
        return not("a Markov model or hold", "set size");
    }
    if workload.circuits != 1 || workload.fresh_circuit || workload.timeout.is_some() {
        return not(
            "circuits, fresh_circuit or timeout",
            "leave them out: a client keeps one circuit, and has no timeout",
        );
    }
    if workload.request < Bytes::new(REQUEST_HEAD as u64) {
        return not("request", &format!("it must have at least {REQUEST_HEAD} B, for its header"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_scenario::Document;
    use penstock_units::{DataRate, Duration};

    const TEXT: &str = r#"
        [scenario]
        title = "x"
        [run]
        duration = "10 s"
        [tcp]
        profile = "linux-6"
        [network]
        rtt = "40 ms"
        [[network.pairs]]
        between = ["entry", "exit"]
        rtt = "10 ms"
        loss = 0.01
        [relays.entry]
        link = "1 MB/s"
        link_up = "500 kB/s"
        link_queue = "30 kB"
        [relays.exit]
        [servers.server]
        [workloads.web]
        size = "10 KiB"
        [clients.one]
        workload = "web"
        path = ["entry", "exit"]
    "#;

    fn scenario(sets: &[&str]) -> Scenario {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let document = Document::parse(TEXT, "x.toml", &sets).unwrap_or_else(|error| panic!("{error}"));
        document.scenario("default").unwrap().clone()
    }

    #[test]
    fn the_network_matches_the_scenario() {
        let scenario = scenario(&[]);
        assert_eq!(check(&scenario), Ok(()));
        let names: Vec<&str> = hosts(&scenario).iter().map(|host| &*host.name).collect();
        assert_eq!(names, ["entry", "exit", "one", "server"]);
        assert_eq!((relay_host(1), client_host(&scenario, 0), server_host(&scenario, 0)), (1, 2, 3));
        let entry = accesses(&scenario)[0];
        assert_eq!(
            (entry.up.bytes_per_sec(), entry.down.bytes_per_sec(), entry.queue.get()),
            (500_000, 1_000_000, 30_000)
        );
        let edges = edges(&scenario, Seed(1));
        assert_eq!(edges.between.len(), 12);
        assert_eq!(edges.between[&(2, 0)], Edge { delay: Duration::from_millis(20), loss: 0.0 });
        assert_eq!(edges.between[&(0, 1)], Edge { delay: Duration::from_millis(5), loss: 0.01 });
        assert!(edges.rng.keys().eq([&(0, 1), &(1, 0)]));
        assert_eq!(places(&scenario), [0, 2]);
        assert_eq!(accesses(&scenario)[1].up, DataRate::mib(10));
    }

    #[test]
    fn relays_of_second_paths_have_positions() {
        let text = format!(
            "{TEXT}conflux_path = [\"a\", \"b\", \"exit\"]\n[relays.a]\n[relays.b]\n[relay]\nconflux = true\n\
             edge_control = {{ kind = \"vegas\" }}\n[client]\nconflux = true\nedge_control = {{ kind = \"vegas\" }}\n"
        );
        let document = Document::parse(&text, "x.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        // The relays a, b, entry and exit.
        assert_eq!(places(document.scenario("default").unwrap()), [0, 1, 0, 2]);
    }

    #[test]
    fn unsupported_settings_are_rejected_with_key_and_remedy() {
        for (set, expected) in [
            ("tcp.profile='linux-3.2'", "tcp.profile is not supported by the testbed: write \"linux-6\""),
            ("tcp.mss='536 B'", "tcp.mss is not"),
            ("tcp.initial_send_buffer='64 KiB'", "tcp.initial_send_buffer is not"),
            ("tcp.interface_batch='1 ms'", "tcp.interface_batch is not"),
            ("tcp.segment_per_write=true", "tcp.segment_per_write is not"),
            ("tcp.congestion='newreno'", "tcp.congestion is not supported by the testbed: write \"reno\""),
            (
                "trace.clients='1 s'",
                "trace.clients is not supported by the testbed: the testbed does not count",
            ),
            (
                "tcp.send_buffer='64 KiB'",
                "entry.send_buffer and receive_buffer is not supported by the testbed: write \"auto\"",
            ),
            ("relay.cpu={ cell = '1 us' }", "entry.cpu is not"),
            ("clients.one.path=[]", "clients.one: path is not supported by the testbed: name its relays"),
            (
                "workloads.web.timeout='1 s'",
                "clients.one: workloads.web: circuits, fresh_circuit or timeout is not",
            ),
            (
                "network.loss_of='data'",
                "network.loss_of is not supported by the testbed: write \"all\" or \"none\"",
            ),
            (
                "servers.server.think_time='1 s'",
                "server.think_time is not supported by the testbed: leave it out",
            ),
            (
                "clients.one.start='1 s'",
                "clients.one: start is not supported by the testbed: set the start of its workload",
            ),
            (
                "workloads.web.request='4 B'",
                "request is not supported by the testbed: it must have at least 12 B",
            ),
            ("run.stop={ workload = 'web', downloads = 3 }", "run.stop is not"),
            ("clients.one.count=300", "the scenario has 303 nodes; the testbed supports at most 200"),
        ] {
            let why = check(&scenario(&[set])).expect_err(set).to_string();
            assert!(why.contains(expected), "{set}: {why}");
        }
    }
}
