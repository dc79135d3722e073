//! `[client]` and `[clients.NAME]`: clients with onion proxies and paths.

use super::nodes::{CountKeys, HostKeys, LinkKeys, Names, host};
use super::tor::{OfClient, TorKeys};
use super::workloads::find_workload;
use crate::error::{ConfigError, listed_briefly};
use crate::keys::{Read, Section as _, in_table, keys, section, sections};
use crate::model::{Activity, BuildLimit, Client, ClientGroup, Host, Path, Relay, Server, Span, Workload};
use crate::tree::{Node, Table, Value};
use crate::values::{
    Choice, Flag, Fraction, Or, Parameter, SPAN, Site, TIME, TIME_OR_ZERO, Texts, ValueType, Whole,
};
use penstock_core::build_times::BuildTimeParameters;
use penstock_core::circuit_policy::PriorityClass;
use penstock_core::conflux::DesiredUx;
use penstock_core::throttle::ThrottleConfig;
use penstock_units::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct PathKeys("") {
        /// The relays from the entry to the exit. With "weighted", a client draws different relays by weight. With
        /// "tor", it draws a guard, a middle and an exit as Tor's clients do. With "circuits", all circuits of the client
        /// have the relays of one entry of network.circuits. With `[]`, it uses plain TCP without Tor. In a list, the
        /// first name may be "each-guard": the first client takes the first relay that may be a guard, and so on, in
        /// the order of names.
        path: Vec<String> = Texts, Is("weighted");
        /// Where the client runs. With "host", it has a host of its own. With "entry", the first relay of its path is
        /// also the client, as in nstor: the client has the host, the link and the token bucket of this relay, and its
        /// circuits begin there. The path must then be "circuits", or a list of at least two relays.
        at: bool = Choice(&[("host", false), ("entry", true)]), Is("host");
        /// The number of relays of a weighted path.
        hops: u32 = Whole::from_1_to(8), Is("3");
        /// The number of guards that a client keeps with `path = "tor"` (torrc NumEntryGuards). Each circuit begins at
        /// one of them. Tor used 3 guards up to version 0.2.4.
        guards: u32 = Whole::from_1_to(100), Is("3");
        /// The lifetime of a circuit, from its first stream (torrc MaxCircuitDirtiness). Later downloads get a new
        /// circuit. "auto" is 10 min with `path = "tor"`, and otherwise no limit.
        circuit_lifetime: Option<Option<Duration>> = Or("auto", Or("none", TIME)), Is("auto");
        /// The time limit for building a circuit (torrc CircuitBuildTimeout). After it, the client abandons the circuit
        /// and builds another one. "auto" is 60 s with `path = "tor"`, and otherwise no limit. With "adaptive", each
        /// client learns the limit from its circuits, as C tor does (torrc LearnCircuitBuildTimeout). A table is
        /// "adaptive" with other consensus parameters.
        build_timeout: Option<Option<BuildLimit>> = Or("auto", Or("none", Limit)), Is("auto");
        /// Sends the request right after BEGIN, before CONNECTED arrives (proposal 174).
        optimistic_data: bool = Flag, Is("false");
        /// The class that the client requests from each relay of a circuit, before the first stream (KIST section 5.1).
        /// With the default "better", the client sends no request.
        priority_class: PriorityClass = Choice(&[
            ("better", PriorityClass::Better),
            ("worse", PriorityClass::Worse),
        ]), Is("better");
        /// With `conflux = true`, the algorithm that the client requests from the exit (torrc ConfluxClientUX). With
        /// "throughput", the exit sends the next cell on the fastest leg that has space in its window; otherwise always
        /// on the fastest leg.
        conflux_ux: DesiredUx = Choice(&[
            ("throughput", DesiredUx::HighThroughput),
            ("latency", DesiredUx::MinLatency),
            ("throughput-lowmem", DesiredUx::LowMemThroughput),
            ("latency-lowmem", DesiredUx::LowMemLatency),
        ]), Is("throughput");
        /// With `conflux = true` and a list of relays as path, the relays of the second leg. The last relay must be that
        /// of the path, and all others must be different.
        conflux_path: Vec<String> = Texts, Is("[]");
        /// The servers. Each download draws one of them. "any" means all servers.
        server: Vec<String> = Texts, Is("any");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct WorkloadsKeys("") {
        /// The NAME of a [workloads.NAME], or several names. Several workloads run at the same time, and their streams
        /// share the client's circuit.
        workload: Vec<String> = Texts, Required;
        /// With true, each workload of the client has its own circuits (isolation flags of torrc SocksPort).
        isolate_workloads: bool = Flag, Is("false");
        /// The time at which the client begins its workloads. A list has a time for each client, in the order of names.
        /// With "auto", the start of each workload applies.
        start: Option<Vec<Span>> = Or("auto", Starts), Is("auto");
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct ClientKeys("[client]") {
        link: LinkKeys,
        host: HostKeys,
        tor: TorKeys,
        paths: PathKeys,
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct ClientsKeys("[clients.NAME]") {
        link: LinkKeys,
        host: HostKeys,
        tor: TorKeys,
        paths: PathKeys,
        copies: CountKeys,
        work: WorkloadsKeys,
    }
}

/// Value type of `start`: a distribution for all clients of a group, or a list with a time for each.
struct Starts;

impl ValueType for Starts {
    type Value = Vec<Span>;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Vec<Span>, Value), ConfigError> {
        let Value::List(list) = &node.value else {
            let (span, shown) = SPAN.read(node, site)?;
            return Ok((vec![span], shown));
        };
        let (mut spans, mut shown) = (Vec::new(), Vec::new());
        for node in list {
            let (span, value) = TIME_OR_ZERO.read(node, &Site { at: node.at, ..*site })?;
            spans.push(Span::Fixed(span));
            shown.push(Node { value, at: node.at });
        }
        Ok((spans, Value::List(shown)))
    }

    fn describe(&self) -> String {
        format!("{}, or a list of durations", SPAN.describe())
    }

    fn unit(&self) -> &'static str {
        "s"
    }
}

keys! {
    BuildTimeParameters("client.build_timeout") {
        /// The number of build times that a client needs before it adapts the limit (consensus cbtmincircs). C tor keeps
        /// the last 1000.
        min_circuits = Whole::from_1_to(1000), Is("100");
        /// While a client has too few build times, it builds a circuit without streams in each interval (consensus
        /// cbttestfreq). With "none", it learns only from circuits with streams.
        test_interval = Or("none", TIME), Is("10 s");
        /// The share of circuits that are built within the limit (consensus cbtquantile).
        quantile = Fraction, Is("0.8");
        /// The share of circuits that are built before the client closes them. Until then, a circuit over the limit
        /// only shows its build time (consensus cbtclosequantile).
        close_quantile = Fraction, Is("0.99");
        /// The limit until the client has enough build times. No circuit closes earlier (consensus cbtinitialtimeout).
        initial_timeout = TIME, Is("60 s");
        /// The least limit (consensus cbtmintimeout).
        min_timeout = TIME, Is("10 ms");
        /// The number of most frequent build times, in bins of 10 ms, whose mean is the start of the Pareto distribution
        /// (consensus cbtnummodes).
        modes = Whole::from_1_to(20), Is("10");
        /// The number of last circuits that show whether the network has changed (consensus cbtrecentcount).
        recent_circuits = Whole::from_1_to(1000), Is("20");
        /// If so many of the last circuits were over the limit, the client forgets its build times and learns again
        /// (consensus cbtmaxtimeouts).
        max_timeouts = Whole::from_1_to(1000), Is("18");
    }
}

/// Value type of `build_timeout`: a fixed limit, or one that each client learns.
struct Limit;

impl ValueType for Limit {
    type Value = BuildLimit;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(BuildLimit, Value), ConfigError> {
        let learned = in_table::<BuildTimeParameters>();
        let (parameters, shown) = match &node.value {
            Value::Table(_) => learned.read(node, site)?,
            Value::Text(text) if text == "adaptive" => {
                learned.read(&Node::of_table(Table::new(), node.at), site)?
            }
            _ => {
                let (limit, shown) = TIME.read(node, site).map_err(|mut error| {
                    error.message += "; or \"adaptive\"";
                    error
                })?;
                return Ok((BuildLimit::Fixed(limit), shown));
            }
        };
        Ok((BuildLimit::Adaptive(parameters), shown))
    }

    fn describe(&self) -> String {
        let table = in_table::<BuildTimeParameters>().describe();
        format!("\"adaptive\", {table}, or {}", TIME.describe())
    }

    fn unit(&self) -> &'static str {
        TIME.unit()
    }

    fn parameters(&self) -> Vec<Parameter> {
        BuildTimeParameters::parameters()
    }
}

const MAX_CIRCUIT_DIRTINESS: Duration = Duration::from_secs(600);

/// C tor's CircuitBuildTimeout before C tor has measured circuits.
/// Deviation: C tor adapts this timeout to its circuits, such that 80 % of them are built in time. Penstock does so only
/// with `build_timeout = "adaptive"`.
const CIRCUIT_BUILD_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of hops. A circuit may have eight RELAY_EARLY cells, and each extension uses one.
pub(crate) const MOST_HOPS: usize = 8;

pub(crate) struct Clients<'a> {
    pub(crate) workloads: &'a [Workload],
    pub(crate) relays: &'a [Relay],
    pub(crate) servers: &'a [Server],
    pub(crate) n23: bool,
}

impl Clients<'_> {
    pub(crate) fn build(
        &self,
        read: &BTreeMap<String, Read<ClientsKeys>>,
        names: &Names,
    ) -> Result<Vec<Client>, ConfigError> {
        let all_servers: Arc<[usize]> = (0..self.servers.len()).collect();
        let mut clients = Vec::new();
        for (name, keys) in read {
            let model = self.client(name, keys, &all_servers)?;
            let copies = &names.nodes[name];
            let starts = keys.keys.work.start.as_deref().unwrap_or_default();
            let is_list = matches!(keys.written.get("start"), Some(Node { value: Value::List(_), .. }));
            if is_list && starts.len() != copies.len() {
                let (times, clients) = (starts.len(), copies.len());
                let message =
                    format!("the list has {times} times for {clients} clients; it must have one for each");
                return Err(keys.wrong("start", message));
            }
            let starts: Vec<Arc<Span>> = starts.iter().cloned().map(Arc::new).collect();
            clients.reserve_exact(copies.len());
            for (number, name) in copies.iter().enumerate() {
                let start = starts.get(if is_list { number } else { 0 }).cloned();
                clients.push(Client { host: model.host.named(name), start, ..model.clone() });
            }
        }
        clients.sort_by(|a, b| a.host.name.cmp(&b.host.name));
        Ok(clients)
    }

    fn client(
        &self,
        name: &str,
        read: &Read<ClientsKeys>,
        all_servers: &Arc<[usize]>,
    ) -> Result<Client, ConfigError> {
        let ClientsKeys { host: host_keys, tor, paths, work, .. } = &read.keys;
        let PathKeys { optimistic_data, priority_class, conflux_ux, .. } = *paths;
        let (config, refill_phase) =
            tor.config(read, OfClient { optimistic_data, priority_class, conflux_ux }, self.n23)?;
        let workloads = self.workloads_of(read)?;
        if !matches!(config.throttle, ThrottleConfig::None) {
            let message =
                "a client serves no other clients that it could throttle; set the throttle of relays";
            return Err(read.wrong("throttle.kind", message));
        }
        let each_guard = paths.path.first().is_some_and(|first| first == EACH_GUARD);
        let path = self.path(read)?;
        check_entry(read, &path)?;
        let second_path = self.second_path(read, &path)?;
        self.check_sharing(read, &path, &workloads)?;
        let is_tor = matches!(path, Path::Tor { .. });
        let host = host("clients", name, host_keys, tor.cpu, tor.bandwidth_rate.as_ref());
        let group = ClientGroup {
            config: config.into(),
            refill_phase,
            workloads,
            isolate: work.isolate_workloads,
            circuit_lifetime: paths
                .circuit_lifetime
                .unwrap_or_else(|| is_tor.then_some(MAX_CIRCUIT_DIRTINESS)),
            build_timeout: build_timeout(read, &path)?,
            path,
            second_path,
            each_guard,
            at_entry: paths.at,
            servers: self.servers_of(read, all_servers)?,
        };
        Ok(Client { host, group: group.into(), start: None })
    }

    fn workloads_of(&self, read: &Read<ClientsKeys>) -> Result<Vec<usize>, ConfigError> {
        let wrong = |message| read.wrong("workload", message);
        let find = |name: &String| find_workload(self.workloads, name, wrong);
        let workloads: Vec<_> = read.keys.work.workload.iter().map(find).collect::<Result<_, _>>()?;
        if workloads.is_empty() {
            return Err(wrong("the list is empty; it must be a workload, or several".to_owned()));
        }
        Ok(workloads)
    }

    /// Refuses workloads that cannot run at the same time, and workloads that need Tor on a client without Tor.
    fn check_sharing(
        &self,
        read: &Read<ClientsKeys>,
        path: &Path,
        workloads: &[usize],
    ) -> Result<(), ConfigError> {
        let each = || workloads.iter().map(|workload| &self.workloads[*workload]);
        let about_circuits = |workload: &&Workload| {
            workload.circuits > 1 || matches!(workload.does, Activity::Hold(_) | Activity::Tgen(_))
        };
        if *path == Path::Direct && workloads.len() > 1 {
            let message =
                "a client without Tor downloads one file at a time; it must have a path, or one workload";
            return Err(read.wrong("path", message));
        }
        if *path == Path::Direct
            && let Some(own) = each().find(about_circuits)
        {
            let message = format!(
                "a client without Tor has no circuits, and {:?} is about circuits; it must have a path, or a workload of downloads, one at a time",
                own.name
            );
            return Err(read.wrong("path", message));
        }
        if workloads.len() > 1
            && !read.keys.work.isolate_workloads
            && let Some(own) = each().find(|workload| about_circuits(workload) || workload.fresh_circuit)
        {
            let message = format!(
                "{:?} has circuits of its own, and several workloads of a client share one; set isolate_workloads = true",
                own.name
            );
            return Err(read.wrong("workload", message));
        }
        let twice = (1..workloads.len()).find(|place| workloads[..*place].contains(&workloads[*place]));
        twice.map_or(Ok(()), |twice| {
            let name = &self.workloads[workloads[twice]].name;
            let message =
                format!("{name:?} is listed twice; for several circuits of one workload set its circuits");
            Err(read.wrong("workload", message))
        })
    }

    fn path(&self, read: &Read<ClientsKeys>) -> Result<Path, ConfigError> {
        let PathKeys { path: names, hops, guards, .. } = &read.keys.paths;
        let wrong = |message| read.wrong("path", message);
        let (relays, hops) = (self.relays.len(), *hops as usize);
        match &names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Ok(Path::Direct),
            ["tor"] => Ok(Path::Tor { guards: *guards as usize }),
            ["circuits"] => Ok(Path::Listed),
            ["weighted"] if relays < hops => Err(wrong(format!(
                "a weighted path takes {hops} relays; there are {relays}; reduce hops, or add relays"
            ))),
            ["weighted"] => Ok(Path::Weighted { hops }),
            names if names.len() > MOST_HOPS => Err(wrong(format!(
                "the path has {} relays; it must have 1 to {MOST_HOPS}, or none at all for a client without Tor",
                names.len()
            ))),
            names => {
                let mut path = Vec::new();
                // The network replaces this relay, see `sampled.rs`.
                if names[0] == EACH_GUARD {
                    let is_free = |relay: &&Relay| !names.contains(&&*relay.host.name) && relay.guard;
                    let Some(relay) = self.relays.iter().position(|relay| is_free(&relay)) else {
                        return Err(wrong(format!(
                            "no relay can be {EACH_GUARD:?}; give a relay the flag \"guard\""
                        )));
                    };
                    path.push(relay);
                }
                for name in &names[path.len()..] {
                    let relay = self.relay(name, wrong)?;
                    if path.contains(&relay) {
                        return Err(wrong(format!(
                            "the path goes through {name:?} twice; its relays must be different"
                        )));
                    }
                    path.push(relay);
                }
                Ok(Path::Fixed(path))
            }
        }
    }

    /// The relays of the second leg, if the clients link circuits over a fixed path.
    fn second_path(&self, read: &Read<ClientsKeys>, path: &Path) -> Result<Option<Vec<usize>>, ConfigError> {
        let ClientsKeys { tor, paths, .. } = &read.keys;
        if !tor.conflux || *path == Path::Direct {
            return Ok(None);
        }
        let refuse = |why: &str| Err(read.wrong("conflux", format!("{why}; set conflux = false")));
        let least = 2 * path.hops() - 1;
        match path {
            _ if paths.at => refuse("a client at its entry has no second guard for linked circuits"),
            _ if path.hops() < 2 => refuse("linked circuits of one relay have no second guard"),
            Path::Listed => refuse("network.circuits lists no second circuit for linked circuits"),
            Path::Weighted { .. } if self.relays.len() < least => refuse(&format!(
                "two linked circuits take {least} relays, and there are {}",
                self.relays.len()
            )),
            Path::Fixed(_) if paths.path[0] == EACH_GUARD => {
                refuse("a path with \"each-guard\" may begin at the second guard of linked circuits")
            }
            Path::Fixed(first) => self.named_leg(read, first).map(Some),
            Path::Direct | Path::Weighted { .. } | Path::Tor { .. } => Ok(None),
        }
    }

    fn named_leg(&self, read: &Read<ClientsKeys>, first: &[usize]) -> Result<Vec<usize>, ConfigError> {
        let names = &read.keys.paths.conflux_path;
        if names.is_empty() {
            let why = "linked circuits need the relays of a second leg; set conflux_path, or conflux = false";
            return Err(read.wrong("conflux", why));
        }
        let wrong = |message| read.wrong("conflux_path", message);
        let mut leg = Vec::new();
        for name in names {
            let relay = self.relay(name, wrong)?;
            let is_last = leg.len() + 1 == names.len();
            if is_last != (first.last() == Some(&relay)) || leg.contains(&relay) {
                let exit = &self.relays[first[first.len() - 1]].host.name;
                return Err(wrong(format!(
                    "the second leg must end at {exit:?} and use it, and each other relay, once"
                )));
            }
            if !is_last && first.contains(&relay) {
                return Err(wrong(format!("both legs go through {name:?}; they may share only the exit")));
            }
            leg.push(relay);
        }
        if leg.len() < 2 || leg.len() > MOST_HOPS {
            return Err(wrong(format!(
                "the second leg has {} relays; it must have 2 to {MOST_HOPS}",
                leg.len()
            )));
        }
        Ok(leg)
    }

    fn relay(&self, name: &str, wrong: impl Fn(String) -> ConfigError) -> Result<usize, ConfigError> {
        if let Ok(index) = self.relays.binary_search_by(|relay| (*relay.host.name).cmp(name)) {
            return Ok(index);
        }
        let names = |relays: &mut dyn Iterator<Item = &Relay>| {
            listed_briefly(relays.map(|relay| &*relay.host.name).collect::<Vec<_>>())
        };
        let mut members = self.relays.iter().filter(|relay| relay.host.group.name == name).peekable();
        Err(wrong(if members.peek().is_some() {
            format!("{name:?} is a group of relays; name one of {}", names(&mut members))
        } else {
            let known = names(&mut self.relays.iter());
            format!("the path goes through {name:?}, which is no relay; there are {known}")
        }))
    }

    fn servers_of(&self, read: &Read<ClientsKeys>, all: &Arc<[usize]>) -> Result<Arc<[usize]>, ConfigError> {
        let wrong = |message| Err(read.wrong("server", message));
        let names = &read.keys.paths.server;
        if names == &["any"] {
            return match self.servers {
                [] => wrong("there is no server; write one as [servers.NAME]".to_owned()),
                _ => Ok(all.clone()),
            };
        }
        let hosts = || self.servers.iter().map(|server| &server.host);
        let mut found = Vec::new();
        for name in names {
            let before = found.len();
            let is_it = |host: &Host| *host.name == **name || host.group.name == *name;
            found.extend(hosts().enumerate().filter(|(_, host)| is_it(host)).map(|(index, _)| index));
            if found.len() == before {
                let known = listed_briefly(hosts().map(|host| &*host.name));
                return wrong(format!("there is no server {name:?}; [servers] has {known}"));
            }
        }
        found.sort_unstable();
        found.dedup();
        match found.is_empty() {
            true => wrong("the list is empty; it must be a server, or \"any\"".to_owned()),
            false => Ok(found.into()),
        }
    }
}

/// The first relay of a path that differs between the clients of a group.
const EACH_GUARD: &str = "each-guard";

/// The limit for building a circuit of clients with this path.
fn build_timeout(read: &Read<ClientsKeys>, path: &Path) -> Result<Option<BuildLimit>, ConfigError> {
    let auto = matches!(path, Path::Tor { .. }).then_some(BuildLimit::Fixed(CIRCUIT_BUILD_TIMEOUT));
    let limit = read.keys.paths.build_timeout.unwrap_or(auto);
    let Some(BuildLimit::Adaptive(parameters)) = &limit else { return Ok(limit) };
    let wrong = |key: &str, message: String| Err(read.wrong(&format!("build_timeout.{key}"), message));
    let show = |key: &str| read.print(&format!("build_timeout.{key}")).unwrap_or_default();
    if matches!(path, Path::Fixed(_) | Path::Listed) {
        let message = "all circuits of this client have the same relays, so another circuit is as slow; set a duration or \"none\", or set path to \"tor\" or \"weighted\"";
        return Err(read.wrong("build_timeout", message));
    }
    if parameters.close_quantile < parameters.quantile {
        let (close, quantile) = (show("close_quantile"), show("quantile"));
        return wrong(
            "close_quantile",
            format!("{close} is too small; it must be at least quantile, {quantile}"),
        );
    }
    if parameters.max_timeouts > parameters.recent_circuits {
        let (most, recent) = (show("max_timeouts"), show("recent_circuits"));
        return wrong(
            "max_timeouts",
            format!("{most} is too large; it must be at most recent_circuits, {recent}"),
        );
    }
    if parameters.min_timeout > parameters.initial_timeout {
        let (least, initial) = (show("min_timeout"), show("initial_timeout"));
        return wrong(
            "min_timeout",
            format!("{least} is too long; it must be at most initial_timeout, {initial}"),
        );
    }
    Ok(limit)
}

/// Refuses a client at its entry, if its entry may change during a run or is the only relay.
fn check_entry(read: &Read<ClientsKeys>, path: &Path) -> Result<(), ConfigError> {
    let is_possible = match path {
        Path::Listed => true,
        Path::Fixed(path) => path.len() > 1 && read.keys.paths.path[0] != EACH_GUARD,
        Path::Direct | Path::Weighted { .. } | Path::Tor { .. } => false,
    };
    match read.keys.paths.at && !is_possible {
        false => Ok(()),
        true => Err(read.wrong("at", "a client at its entry needs a path of at least two relays that stays the same; set path to their names or to \"circuits\"")),
    }
}
