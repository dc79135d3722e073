//! One variant in one sampled network, as dictionaries for the export to other tools.

use penstock_core::RelayConfig;
use penstock_core::build_times::BuildTimeParameters;
use penstock_core::channel_map::ChannelMapConfig;
use penstock_core::circuit_policy::{CircuitPolicyConfig, PriorityClass};
use penstock_core::edge_control::EdgeControlConfig;
use penstock_core::hop_control::HopControlConfig;
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::throttle::{Aggregate, ThrottleConfig};
use penstock_scenario::Scenario;
use penstock_scenario::model::{
    Activity, Amount, BuildLimit, Host, Latency, LossOf, Path, Span, Tcp, TcpProfile, Workload,
};
use penstock_units::{DataRate, Duration, Rng, Seed};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;

/// The number of values that stand for a distribution.
const VALUES: usize = 100;
/// The number of samples for each of these values.
const SAMPLES: usize = 100;

/// The sampled network of one variant, with all nodes, workloads and delays.
pub(crate) fn dict<'py>(py: Python<'py>, scenario: &Scenario, seed: u64) -> PyResult<Bound<'py, PyDict>> {
    let scenario = &*scenario.sampled(Seed(seed));
    let classes = Classes::of(scenario);
    let dict = PyDict::new(py);
    let run = PyDict::new(py);
    run.set_item("duration_s", scenario.run.duration.as_secs_f64())?;
    run.set_item("warmup_s", scenario.run.warmup.as_secs_f64())?;
    run.set_item("sample_s", scenario.run.sample.as_secs_f64())?;
    run.set_item("stops_early", scenario.run.stop.is_some())?;
    run.set_item("changes", scenario.changes.len())?;
    dict.set_item("run", run)?;
    dict.set_item("tcp", tcp(py, &scenario.tcp)?)?;

    let mut places = classes.of_hosts.iter();
    let mut host = |host: &Host| -> PyResult<Bound<'py, PyDict>> {
        let dict = host_dict(py, host)?;
        dict.set_item("place", places.next())?;
        Ok(dict)
    };
    let relays = PyList::empty(py);
    for relay in &scenario.relays {
        let dict = host(&relay.host)?;
        dict.set_item("weight", relay.weight.bytes_per_sec())?;
        dict.set_item("guard", relay.guard)?;
        dict.set_item("exit", relay.exit)?;
        dict.set_item("family", relay.family.to_vec())?;
        dict.set_item("tor", tor(py, &relay.config)?)?;
        relays.append(dict)?;
    }
    let clients = PyList::empty(py);
    for client in &scenario.clients {
        let dict = host(&client.host)?;
        let group = &client.group;
        dict.set_item("workloads", &group.workloads)?;
        dict.set_item("isolate", group.isolate)?;
        dict.set_item("at_entry", group.at_entry)?;
        dict.set_item("start_s", client.start.as_ref().map(|start| spans(start, "start")))?;
        let (kind, relays, guards) = path(&group.path);
        dict.set_item("path", kind)?;
        dict.set_item("relays", relays)?;
        dict.set_item("guards", guards)?;
        dict.set_item("circuit_lifetime_s", group.circuit_lifetime.map(|time| time.as_secs_f64()))?;
        let (build_timeout, learns) = match group.build_timeout {
            None => (None, None),
            Some(BuildLimit::Fixed(time)) => (Some(time.as_secs_f64()), None),
            Some(BuildLimit::Adaptive(own)) => (None, Some(own == BuildTimeParameters::default())),
        };
        dict.set_item("build_timeout_s", build_timeout)?;
        dict.set_item("learns_as_tor", learns)?;
        dict.set_item("servers", group.servers.to_vec())?;
        dict.set_item("tor", tor(py, &group.config)?)?;
        clients.append(dict)?;
    }
    let servers = PyList::empty(py);
    for server in &scenario.servers {
        let dict = host(&server.host)?;
        dict.set_item("thinks", !server.think_time.is_zero())?;
        servers.append(dict)?;
    }
    dict.set_item("relays", relays)?;
    dict.set_item("clients", clients)?;
    dict.set_item("servers", servers)?;
    let workloads = scenario.workloads.iter().map(|each| workload(py, each)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("workloads", workloads)?;
    dict.set_item("edges", classes.edges(py, scenario)?)?;
    Ok(dict)
}

fn host_dict<'py>(py: Python<'py>, host: &Host) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let group = &host.group;
    dict.set_item("name", &*host.name)?;
    dict.set_item("group", &group.name)?;
    dict.set_item("link_up", host.link_up.bytes_per_sec())?;
    dict.set_item("link_down", host.link_down.bytes_per_sec())?;
    dict.set_item("link_queue", group.link_queue.map(|queue| queue.bytes().get()))?;
    dict.set_item("send_buffer", group.send_buffer.map(|size| size.get()))?;
    dict.set_item("receive_buffer", group.receive_buffer.map(|size| size.get()))?;
    dict.set_item("cpu", group.cpu.is_some())?;
    Ok(dict)
}

fn tcp<'py>(py: Python<'py>, tcp: &Tcp) -> PyResult<Bound<'py, PyDict>> {
    let profile = match tcp.profile {
        TcpProfile::Linux3_2 => "linux-3.2",
        TcpProfile::Linux6 => "linux-6",
        TcpProfile::Ns3 => "ns3",
        TcpProfile::Shadow1_9Sockets => "shadow-1.9-sockets",
        TcpProfile::Shadow1_9 => "shadow-1.9",
        TcpProfile::Shadow3_3 => "shadow-3.3",
    };
    let dict = PyDict::new(py);
    dict.set_item("profile", profile)?;
    dict.set_item("congestion", format!("{:?}", tcp.congestion).to_lowercase())?;
    dict.set_item("initial_window", tcp.initial_window)?;
    dict.set_item("mss", tcp.mss.get())?;
    Ok(dict)
}

/// The kind of a path, its relays, and the number of relays or guards that the client samples.
fn path(path: &Path) -> (&'static str, Vec<usize>, usize) {
    match path {
        Path::Direct => ("direct", Vec::new(), 0),
        Path::Fixed(relays) => ("fixed", relays.clone(), 0),
        Path::Weighted { hops } => ("weighted", Vec::new(), *hops),
        Path::Listed => unreachable!("a sampled network has given each client its circuit"),
        Path::Tor { guards } => ("tor", Vec::new(), *guards),
    }
}

fn tor<'py>(py: Python<'py>, config: &RelayConfig) -> PyResult<Bound<'py, PyDict>> {
    let rate = |rate: DataRate| rate.bytes_per_sec();
    let dict = PyDict::new(py);
    let bandwidth = config.bandwidth.map(|bandwidth| (rate(bandwidth.rate), bandwidth.burst.get()));
    dict.set_item("bandwidth", bandwidth)?;
    dict.set_item("refill_s", config.refill.interval.as_secs_f64())?;
    dict.set_item("unblock_s", config.refill.unblock.map(|time| time.as_secs_f64()))?;
    let (policy, half_life) = match &config.circuit_policy {
        CircuitPolicyConfig::RoundRobin => ("round-robin", None),
        CircuitPolicyConfig::EwmaList(ewma)
        | CircuitPolicyConfig::EwmaHeap(ewma)
        | CircuitPolicyConfig::EwmaTick(ewma) => ("ewma", Some(ewma.half_life.as_secs_f64())),
        CircuitPolicyConfig::EwmaConnection(ewma) => ("ewma-connection", Some(ewma.half_life.as_secs_f64())),
        CircuitPolicyConfig::Custom(_) => ("custom", None),
    };
    dict.set_item("circuit_policy", policy)?;
    dict.set_item("half_life_s", half_life)?;
    dict.set_item("worse_class", config.priority_class == PriorityClass::Worse)?;
    let (scheduler, interval, factor) = match &config.scheduler {
        SchedulerConfig::Vanilla(_) => ("vanilla", None, None),
        SchedulerConfig::Global(_) => ("global", None, None),
        SchedulerConfig::Kist(_) => ("kist", None, None),
        SchedulerConfig::KistDeployed(kist) => ("kist-deployed", Some(kist.interval), Some(kist.factor)),
        SchedulerConfig::KistLite(kist) => ("kist-lite", Some(kist.interval), None),
        SchedulerConfig::Custom(_) => ("custom", None, None),
    };
    dict.set_item("scheduler", scheduler)?;
    dict.set_item("interval_s", interval.map(|time| time.as_secs_f64()))?;
    dict.set_item("socket_factor", factor)?;
    edge_control(&dict, &config.edge_control)?;
    let hop_control = match &config.hop_control {
        HopControlConfig::None => "none",
        HopControlConfig::N23(_) => "n23",
        HopControlConfig::BackTap(_) => "backtap",
        HopControlConfig::Marut(_) => "marut",
        _ => "custom",
    };
    dict.set_item("hop_control", hop_control)?;
    dict.set_item("datagrams", config.datagrams.is_some())?;
    let (throttle, client_rate) = match &config.throttle {
        ThrottleConfig::None => ("none", None),
        ThrottleConfig::Static(fixed) => ("static", Some(rate(fixed.rate))),
        ThrottleConfig::BitSplitting(_) => ("bit-splitting", None),
        ThrottleConfig::Flagging(_) => ("flagging", None),
        ThrottleConfig::Threshold(_) => ("threshold", None),
        ThrottleConfig::Custom(_) => ("custom", None),
    };
    dict.set_item("throttle", throttle)?;
    dict.set_item("client_rate", client_rate)?;
    dict.set_item("client_burst", config.client_buckets.burst.get())?;
    dict.set_item("client_by_address", config.client_buckets.aggregate == Aggregate::Address)?;
    let channel_map = match config.channel_map {
        ChannelMapConfig::Shared => "shared",
        ChannelMapConfig::PerCircuit => "per-circuit",
        ChannelMapConfig::Custom(_) => "custom",
    };
    dict.set_item("channel_map", channel_map)?;
    dict.set_item("ecn_threshold", config.ecn_threshold)?;
    dict.set_item("edge_queue", (config.edge_queue.low, config.edge_queue.high))?;
    dict.set_item("max_circuit_queue", config.limits.max_circuit_queue)?;
    dict.set_item("conflux", config.conflux.is_some())?;
    dict.set_item("optimistic_data", config.optimistic_data)?;
    Ok(dict)
}

fn edge_control(dict: &Bound<'_, PyDict>, config: &EdgeControlConfig) -> PyResult<()> {
    let parameters = PyDict::new(dict.py());
    let (kind, windows) = match config {
        EdgeControlConfig::Windows(windows) => ("windows", Some(windows)),
        EdgeControlConfig::Dynamic(_) => ("dynamic", None),
        EdgeControlConfig::Vegas(vegas) => {
            // The names of C tor's consensus parameters for circuits that end at an exit.
            let pairs: [(&str, u32); 22] = [
                ("cc_sendme_inc", vegas.bounds.sendme_inc.get().into()),
                ("cc_cwnd_init", vegas.bounds.cwnd_init),
                ("cc_cwnd_min", vegas.bounds.cwnd_min),
                ("cc_cwnd_max", vegas.bounds.cwnd_max),
                ("cc_cwnd_inc", vegas.cwnd_inc),
                ("cc_cwnd_inc_rate", vegas.cwnd_inc_rate),
                ("cc_cwnd_inc_pct_ss", vegas.cwnd_inc_pct_ss),
                ("cc_sscap_exit", vegas.sscap),
                ("cc_ss_max", vegas.ss_max),
                ("cc_vegas_alpha_exit", vegas.alpha),
                ("cc_vegas_beta_exit", vegas.beta),
                ("cc_vegas_gamma_exit", vegas.gamma),
                ("cc_vegas_delta_exit", vegas.delta),
                ("cc_ewma_cwnd_pct", vegas.ewma_cwnd_pct),
                ("cc_ewma_max", vegas.ewma_max),
                ("cc_ewma_ss", vegas.ewma_ss),
                ("cc_rtt_reset_pct", vegas.rtt_reset_pct),
                ("cc_cwnd_full_gap", vegas.cwnd_full_gap),
                ("cc_cwnd_full_minpct", vegas.cwnd_full_minpct),
                ("cc_cwnd_full_per_cwnd", vegas.cwnd_full_per_cwnd.into()),
                ("cc_xon_rate", vegas.streams.xon_rate),
                ("cc_xon_change_pct", vegas.streams.xon_change_pct),
            ];
            for (name, value) in pairs {
                parameters.set_item(name, value)?;
            }
            parameters.set_item("cc_xoff_client", vegas.streams.xoff)?;
            parameters.set_item("cc_xoff_exit", vegas.streams.xoff)?;
            parameters.set_item("cc_xon_ewma_cnt", vegas.streams.xon_ewma_cnt)?;
            (if vegas.offered { "vegas" } else { "vegas-refused" }, None)
        }
        EdgeControlConfig::Dctcp(_) => ("dctcp", None),
        EdgeControlConfig::Timely(_) => ("timely", None),
        EdgeControlConfig::Custom { .. } => ("custom", None),
    };
    dict.set_item("edge_control", kind)?;
    dict.set_item("vegas", parameters)?;
    dict.set_item("circuit_window", windows.map(|windows| windows.circuit_window))?;
    dict.set_item("stream_window", windows.and_then(|windows| windows.stream_window))?;
    let selfish = windows.is_some_and(|windows| windows.early_sendmes > 0 || windows.sendme_bug_101);
    dict.set_item("odd_sendmes", selfish)
}

fn workload<'py>(py: Python<'py>, workload: &Workload) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &workload.name)?;
    let (does, sizes) = match &workload.does {
        Activity::Download(size) => ("download", sizes(size)),
        Activity::Tgen(_) => ("tgen", Vec::new()),
        Activity::Hold(_) => ("hold", Vec::new()),
    };
    dict.set_item("does", does)?;
    dict.set_item("sizes", sizes)?;
    dict.set_item("circuits", workload.circuits)?;
    dict.set_item("pause_s", spans(&workload.pause, "pause"))?;
    dict.set_item("start_s", spans(&workload.start, "start"))?;
    dict.set_item("fresh_circuit", workload.fresh_circuit)?;
    dict.set_item("timeout_s", workload.timeout.map(|time| time.as_secs_f64()))?;
    dict.set_item("request", workload.request.get())?;
    Ok(dict)
}

/// Values of equal probability that stand for a distribution: medians of equal parts of many samples.
fn values(name: &str, draw: impl Fn(&mut Rng) -> u64) -> Vec<u64> {
    let mut rng = Seed(0).stream(&format!("export/{name}"));
    let mut all: Vec<_> = (0..VALUES * SAMPLES).map(|_| draw(&mut rng)).collect();
    all.sort_unstable();
    let mut values: Vec<_> = all.chunks(SAMPLES).map(|part| part[SAMPLES / 2]).collect();
    if values[0] == values[VALUES - 1] {
        values.truncate(1);
    }
    values
}

/// Durations of equal probability [s].
fn spans(span: &Span, name: &str) -> Vec<f64> {
    let nanos = values(name, |rng| penstock_units::time::nanos(span.draw(rng)));
    nanos.into_iter().map(|nanos| Duration::from_nanos(nanos).as_secs_f64()).collect()
}

/// Sizes [B] with their probabilities.
fn sizes(size: &Amount) -> Vec<(f64, u64)> {
    match size {
        Amount::Mix(mix) => mix.shares().map(|(share, size)| (share, size.get())).collect(),
        _ => {
            let values = values("size", |rng| size.draw(rng).get());
            values.iter().map(|size| (1.0 / values.len() as f64, *size)).collect()
        }
    }
}

/// Classes of hosts: all hosts of a class have the same delays and losses to all others.
struct Classes {
    /// The class of each relay, client and server, in this order.
    of_hosts: Vec<usize>,
    /// One host of each class.
    example: Vec<usize>,
}

fn hosts(scenario: &Scenario) -> Vec<&Host> {
    let relays = scenario.relays.iter().map(|relay| &relay.host);
    let clients = scenario.clients.iter().map(|client| &client.host);
    relays.chain(clients).chain(scenario.servers.iter().map(|server| &server.host)).collect()
}

impl Classes {
    fn of(scenario: &Scenario) -> Self {
        let network = &scenario.network;
        let has_exception = |name: &str| network.exceptions.keys().any(|(a, b)| a == name || b == name);
        let mut known = BTreeMap::new();
        let mut classes = Classes { of_hosts: Vec::new(), example: Vec::new() };
        for (index, host) in hosts(scenario).into_iter().enumerate() {
            let place = match &network.latency {
                Latency::Even => String::new(),
                _ => format!("{:?}", host.place),
            };
            let [name, group, section] = [&*host.name, &host.group.name, host.group.section]
                .map(|name| if has_exception(name) { name } else { "" }.to_owned());
            let class = *known.entry((place, name, group, section)).or_insert_with(|| {
                classes.example.push(index);
                classes.example.len() - 1
            });
            classes.of_hosts.push(class);
        }
        classes
    }

    /// Edges between classes: both classes, delay [s], jitter [s], loss, and whether Shadow lacks a property of the
    /// packets on this edge.
    fn edges<'py>(&self, py: Python<'py>, scenario: &Scenario) -> PyResult<Bound<'py, PyList>> {
        let hosts = hosts(scenario);
        let edges = PyList::empty(py);
        for (from, one) in self.example.iter().enumerate() {
            for (to, other) in self.example.iter().enumerate() {
                let wire = scenario.network.between(hosts[*one], hosts[*other]);
                let (delay, jitter) = (wire.delay.as_secs_f64(), wire.jitter.as_secs_f64());
                let spares = wire.loss_of == LossOf::Data && wire.loss > 0.0;
                let uneven = wire.reorder > 0.0 || wire.duplicate > 0.0;
                edges.append((from, to, delay, jitter, wire.loss, spares, uneven))?;
            }
        }
        Ok(edges)
    }
}
