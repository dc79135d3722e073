//! From a resolved tree to the typed model. Forms were checked before; what is checked here is
//! how keys fit each other.

use crate::deploy::Deployments;
use crate::drawn::{DrawnRates, Dumbbell, Latency, Place, Quantiles};
use crate::era::Generated;
use crate::error::{Mistake, listed, listed_briefly};
use crate::form::{bounds, log_normal, mix, quantiles, read, two};
use crate::markov::{self, Markov};
use crate::model::{
    Activity, Amount, Buffer, Client, Congestion, Costs, Head, Host, Mix, Network, Path, Relay, Run,
    Scenario, Server, Span, Stop, Tcp, TcpProfile, Tgen, Trace, Variant, Wire, Workload,
};
use crate::tor::{self, Consensus};
use crate::tree::{Node, Table, Value};
use crate::ways::{self, Ways};
use penstock_core::throttle::ThrottleConfig;
use penstock_network::{Country, Era, geo};
use penstock_units::{Bytes, DataRate, Duration, Seed, parse, time::nanos};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A filled-in table: every key is there and has its form.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) table: &'a Table,
    pub(crate) path: &'a str,
}

impl<'a> View<'a> {
    pub(crate) fn section(root: &'a Table, name: &'a str) -> Self {
        View { table: table(&root[name]), path: name }
    }

    pub(crate) fn text(&self, key: &str) -> &'a str {
        text(&self.table[key])
    }

    /// The string of a key that has a word for "none"; `None` if that is what it says.
    fn unless(&self, key: &str, word: &str) -> Option<&'a str> {
        let text = self.text(key);
        (text != word).then_some(text)
    }

    /// A rate, or the median of those that it is drawn from.
    pub(crate) fn rate(&self, key: &str) -> DataRate {
        rate(self.text(key))
    }

    pub(crate) fn rate_unless(&self, key: &str, word: &str) -> Option<DataRate> {
        self.unless(key, word).map(rate)
    }

    /// What a rate is drawn from, if it is drawn [B/s].
    pub(crate) fn drawn_rate(&self, key: &str) -> Option<Quantiles> {
        drawn_rates(self.text(key))
    }

    /// What a delay is drawn from; always the same if it is not drawn [ns].
    fn drawn_span(&self, key: &str) -> Quantiles {
        let text = self.text(key);
        let values = quantiles(text).unwrap_or_else(|| vec![text, text]);
        distribution(values, |value| nanos(duration(value)))
    }

    /// Whether this is a relay whose bandwidth comes from its era.
    pub(crate) fn has_drawn_buckets(&self) -> bool {
        let era = self.table.get("era").and_then(Node::as_text);
        era.is_some_and(|era| era != "none") && self.flag("era_buckets")
    }

    pub(crate) fn size(&self, key: &str) -> Bytes {
        read(self.text(key))
    }

    pub(crate) fn size_unless(&self, key: &str, word: &str) -> Option<Bytes> {
        self.unless(key, word).map(read)
    }

    pub(crate) fn span(&self, key: &str) -> Duration {
        duration(self.text(key))
    }

    pub(crate) fn span_unless(&self, key: &str, word: &str) -> Option<Duration> {
        self.unless(key, word).map(duration)
    }

    pub(crate) fn whole(&self, key: &str) -> u64 {
        match self.table[key].value {
            Value::Integer(number) => number as u64,
            ref other => panic!("the schema let {other:?} through as an integer"),
        }
    }

    pub(crate) fn whole_unless(&self, key: &str, word: &str) -> Option<u64> {
        (self.table[key].as_text() != Some(word)).then(|| self.whole(key))
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.table[key].value, Value::Flag(true))
    }

    pub(crate) fn share(&self, key: &str) -> f64 {
        match self.table[key].value {
            Value::Float(number) => number,
            ref other => panic!("the schema let {other:?} through as a number"),
        }
    }

    pub(crate) fn share_unless(&self, key: &str, word: &str) -> Option<f64> {
        (self.table[key].as_text() != Some(word)).then(|| self.share(key))
    }

    fn list(&self, key: &str) -> &'a [Node] {
        list(&self.table[key])
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<&'a str> {
        self.list(key).iter().map(text).collect()
    }

    /// A mistake at `key`.
    pub(crate) fn wrong(&self, key: &str, message: impl Into<String>) -> Mistake {
        Mistake::new(self.table[key].at, format!("{}.{key}", self.path), message)
    }
}

fn table(node: &Node) -> &Table {
    node.table().expect("the schema lets only tables through here")
}

fn text(node: &Node) -> &str {
    node.as_text().expect("the schema lets only strings through here")
}

fn list(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(list) => list,
        other => panic!("the schema let {other:?} through as a list"),
    }
}

fn distribution(values: Vec<&str>, number: impl Fn(&str) -> u64) -> Quantiles {
    let numbers = values.into_iter().map(number).collect();
    Quantiles::new(numbers).expect("the schema lets only growing quantiles through here")
}

fn drawn_rates(text: &str) -> Option<Quantiles> {
    Some(distribution(quantiles(text)?, |value| read::<DataRate>(value).bytes_per_sec()))
}

/// A rate, or the median of its quantiles.
fn rate(text: &str) -> DataRate {
    let Some(drawn) = drawn_rates(text) else { return read(text) };
    DataRate::new(drawn.at(0.5)).expect("a rate is above zero")
}

fn duration(text: &str) -> Duration {
    parse::duration(text).unwrap_or_else(|error| panic!("the schema let {text:?} through: {error}"))
}

/// The seeds of a resolved tree.
pub(crate) fn seeds(root: &Table) -> Vec<u64> {
    View::section(root, "run").list("seeds").iter().map(seed).collect()
}

/// The seeds of its networks; empty if each seed draws a network of its own.
pub(crate) fn networks(root: &Table) -> Vec<u64> {
    let view = View::section(root, "run");
    match view.table["networks"].as_text() {
        Some(_) => Vec::new(),
        None => view.list("networks").iter().map(seed).collect(),
    }
}

fn seed(node: &Node) -> u64 {
    match node.value {
        Value::Integer(number) => number as u64,
        ref other => panic!("the schema let {other:?} through as a seed"),
    }
}

/// What a resolved tree says, without its changes.
pub(crate) fn scenario(root: &Table, variant: Variant) -> Result<Scenario, Mistake> {
    let workloads = workloads(root)?;
    let tcp = tcp(View::section(root, "tcp"));
    let mut nodes = Nodes::default();
    let consensus = Consensus::of(root);
    let mut relays = nodes.expand(root, "relays", |host, view| {
        let (config, refill_phase) = tor::config(view, consensus)?;
        let bucket = config.bandwidth.map(|bandwidth| bandwidth.rate);
        let given = view.rate_unless("weight", "auto");
        let weight = given.or(bucket).unwrap_or(host.link_up);
        let [guard, exit] = flags(view)?;
        let weight_follows = given.is_none() && view.text("era") == "none";
        Ok(Relay { host, weight, weight_follows, guard, exit, config: config.into(), refill_phase })
    })?;
    relays.sort_by(|a, b| a.host.name.cmp(&b.host.name));
    let generated = generated(root, &mut relays)?;
    let mut servers = nodes.expand(root, "servers", |host, _| Ok(Server { host }))?;
    servers.sort_by(|a, b| a.host.name.cmp(&b.host.name));
    let all_servers = (0..servers.len()).collect();
    let lookup = Lookup { workloads: &workloads, relays: &relays, servers: &servers, all_servers, consensus };
    let mut clients = nodes.expand(root, "clients", |host, view| lookup.client(host, view))?;
    clients.sort_by(|a, b| a.host.name.cmp(&b.host.name));
    if clients.is_empty() {
        let message = "there is no client; write one as [clients.NAME], with a workload";
        return Err(Mistake::new(root["clients"].at, "clients", message));
    }
    let view = View::section(root, "network");
    let network = nodes.network(view)?;
    if let Latency::Ways(ways, _) = &network.latency {
        let hosts = relays.iter().map(|relay| &relay.host);
        let hosts = hosts.chain(clients.iter().map(|client| &client.host));
        let hosts = hosts.chain(servers.iter().map(|server| &server.host));
        ways_suffice(ways, hosts, &generated).map_err(|message| view.wrong("ways", message))?;
    }
    let run = run(View::section(root, "run"), &workloads, &clients)?;
    let trace = trace(View::section(root, "trace"), &workloads)?;
    let mut scenario = Scenario {
        head: head(root),
        variant,
        run,
        trace,
        tcp,
        network,
        relays,
        generated,
        deployments: Deployments::default(),
        selector: None,
        clients,
        servers,
        workloads,
        changes: Vec::new(),
    };
    let impossible = |why: String| Mistake::new(root["clients"].at, "clients", why);
    scenario.selector =
        scenario.select().map_err(|error| impossible(format!("a path \"tor\" cannot be: {error}")))?;
    if let Some(selector) = &scenario.selector {
        let mut rng = Seed(0).stream("paths");
        if (0..TRIES).all(|_| selector.draw(&mut rng, &[]).is_none()) {
            let why = "a path \"tor\" cannot be: there are no three different relays of which one is a guard and one an exit";
            return Err(impossible(why.to_owned()));
        }
    }
    Ok(scenario)
}

/// Whether there is a way between any two nodes, wherever they may be.
fn ways_suffice<'a>(
    ways: &Ways,
    hosts: impl Iterator<Item = &'a Host>,
    generated: &[Generated],
) -> Result<(), String> {
    let mut countries = BTreeMap::new();
    for host in hosts {
        let of_era = generated.iter().find(|generated| generated.group == host.group);
        let drawn = of_era.map_or(ways.users(), |generated| generated.era.countries());
        match host.country {
            Some(country) => *countries.entry(country.code).or_insert(0) += 1,
            None if drawn.is_empty() => {
                return Err(format!(
                    "none of its countries is one of those where Tor's users are, as nodes such as {:?} are that have none of their own; it must have one of {}",
                    host.name,
                    listed(geo::USERS.iter().map(|(code, _)| *code))
                ));
            }
            None => drawn.iter().for_each(|(code, _)| *countries.entry(*code).or_insert(0) += 1),
        }
    }
    match &ways.lacks(&countries)[..] {
        [] => Ok(()),
        lacks => Err(format!(
            "nodes may be in countries between which it has no way: {}; it must have all of these pairs",
            listed_briefly(lacks.iter().map(String::as_str))
        )),
    }
}

/// So many circuits are tried before it is said that there are none.
const TRIES: usize = 1000;

/// Whether a relay may be a guard, and an exit.
fn flags(view: View<'_>) -> Result<[bool; 2], Mistake> {
    let flags = view.texts("flags");
    match flags.iter().find(|flag| !["guard", "exit"].contains(flag)) {
        None => Ok(["guard", "exit"].map(|flag| flags.contains(&flag))),
        Some(unknown) => {
            let message =
                format!("{unknown:?} is no flag; it must be a list of \"guard\" and \"exit\", or []");
            Err(view.wrong("flags", message))
        }
    }
}

/// What the era of a relay decides.
const OF_ERA: [&str; 7] =
    ["link", "link_up", "link_down", "bandwidth_rate", "bandwidth_burst", "weight", "flags"];

/// The groups of relays that have an era; until they are drawn, they are what they are in some network.
fn generated(root: &Table, relays: &mut [Relay]) -> Result<Vec<Generated>, Mistake> {
    let mut groups = Vec::new();
    for (name, node) in table(&root["relays"]) {
        let path = format!("relays.{name}");
        let view = View { table: table(node), path: &path };
        let Some(era) = Era::of(view.text("era")) else { continue };
        if let Some(key) = OF_ERA.iter().find(|key| view.table[**key].is_written()) {
            return Err(view.wrong(key, format!("the era of [{path}] draws this; set one of the two")));
        }
        if view.table["count"].as_text().is_some() {
            return Err(view.wrong("era", "an era is for several relays; set count"));
        }
        let of_group = (0..relays.len()).filter(|index| relays[*index].host.group == *name).collect();
        let group =
            Generated { era, group: name.clone(), relays: of_group, buckets: view.flag("era_buckets") };
        group.draw(relays, Seed(0));
        // Where a relay is, is not known before its network is drawn.
        let given = Country::of(view.text("country"));
        group.relays.iter().for_each(|index| relays[*index].host.country = given);
        groups.push(group);
    }
    Ok(groups)
}

pub(crate) fn head(root: &Table) -> Head {
    let view = View::section(root, "scenario");
    let own = |key| view.text(key).to_owned();
    Head {
        title: own("title"),
        paper: own("paper"),
        section: own("section"),
        figures: view.texts("figures").into_iter().map(str::to_owned).collect(),
        notes: own("notes"),
    }
}

fn run(view: View<'_>, workloads: &[Workload], clients: &[Client]) -> Result<Run, Mistake> {
    let (duration, warmup) = (view.span("duration"), view.span("warmup"));
    if warmup >= duration {
        let message = format!(
            "\"{}\" leaves nothing to measure; it must be shorter than run.duration, \"{}\"",
            view.text("warmup"),
            view.text("duration")
        );
        return Err(
            view.wrong(if view.table["warmup"].is_written() { "warmup" } else { "duration" }, message)
        );
    }
    let stop = match &view.table["stop"].value {
        Value::Table(table) => {
            let stop = View { table, path: "run.stop" };
            let workload = find_workload(workloads, stop.text("workload"))
                .map_err(|message| stop.wrong("workload", message))?;
            if let Activity::Hold(_) = workloads[workload].does {
                let message = format!("{:?} holds circuits and downloads nothing", stop.text("workload"));
                return Err(stop.wrong("workload", message));
            }
            if clients.iter().all(|client| !client.workloads.contains(&workload)) {
                let message = format!("no client has the workload {:?}", stop.text("workload"));
                return Err(stop.wrong("workload", message));
            }
            Some(Stop { workload, downloads: stop.whole("downloads") })
        }
        _ => None,
    };
    Ok(Run { duration, warmup, stop, sample: view.span("sample") })
}

fn trace(view: View<'_>, workloads: &[Workload]) -> Result<Trace, Mistake> {
    let find = |name| find_workload(workloads, name).map_err(|message| view.wrong("workloads", message));
    let mut traced = view.texts("workloads").into_iter().map(find).collect::<Result<Vec<_>, _>>()?;
    traced.sort_unstable();
    traced.dedup();
    let cells = view.whole("cells") as u32;
    let share = view.share_unless("share", "all").unwrap_or(1.0);
    Ok(Trace { workloads: traced, share, interval: view.span("interval"), cells })
}

fn tcp(view: View<'_>) -> Tcp {
    Tcp {
        profile: match view.text("profile") {
            "linux-3.2" => TcpProfile::Linux3_2,
            "linux-6" => TcpProfile::Linux6,
            "ns3" => TcpProfile::Ns3,
            other => unreachable!("the schema let the profile {other:?} through"),
        },
        congestion: match view.text("congestion") {
            "reno" => Congestion::Reno,
            _ => Congestion::Cubic,
        },
        hystart: view.flag("hystart"),
        nodelay: view.flag("nodelay"),
        mss: view.size("mss"),
    }
}

fn workloads(root: &Table) -> Result<Vec<Workload>, Mistake> {
    let one = |(name, node): (&String, &Node)| {
        let path = format!("workloads.{name}");
        let view = View { table: table(node), path: &path };
        Ok(Workload {
            name: name.clone(),
            does: activity(view, node)?,
            circuits: view.whole("circuits") as u32,
            pause: spans(view.text("pause")),
            start: spans(view.text("start")),
            fresh_circuit: view.flag("fresh_circuit"),
            timeout: view.span_unless("timeout", "none"),
            request: view.size("request"),
        })
    };
    table(&root["workloads"]).iter().map(one).collect()
}

fn activity(view: View<'_>, node: &Node) -> Result<Activity, Mistake> {
    let given: Vec<&str> = ["size", "hold", "tgen"]
        .into_iter()
        .filter(|key| view.table[*key].as_text() != Some("none"))
        .collect();
    match given[..] {
        [] => {
            let message = "this workload does nothing; set size, what a download delivers, or hold, or tgen";
            Err(Mistake::new(node.at, view.path, message))
        }
        ["size"] => Ok(Activity::Download(amount(view.text("size")))),
        ["hold"] => Ok(Activity::Hold(spans(view.text("hold")))),
        ["tgen"] => {
            let path = format!("{}.tgen", view.path);
            tgen(View { table: table(&view.table["tgen"]), path: &path }).map(Activity::Tgen)
        }
        [one, other, ..] => {
            let message = format!("this workload has a {one}, too; it must be one of size, hold and tgen");
            Err(view.wrong(other, message))
        }
        [_] => unreachable!("these are all keys that were asked for"),
    }
}

fn tgen(view: View<'_>) -> Result<Tgen, Mistake> {
    // What begins streams must let time pass; packets wait for room.
    let model = |key: &str, must_pause: bool| {
        let Some(table) = view.table[key].table() else { return Ok(None) };
        let path = format!("{}.{key}", view.path);
        let model = markov(View { table, path: &path })?;
        match model.endless().filter(|_| must_pause) {
            None => Ok(Some(Arc::new(model))),
            Some(state) => {
                let message = format!("from the state {state:?} on no time passes, and it never ends");
                Err(view.wrong(key, message))
            }
        }
    };
    Ok(Tgen {
        flows: model("flows", true)?,
        streams: model("streams", true)?,
        packets: model("packets", false)?.expect("the schema requires it"),
        packet: view.size("packet"),
    })
}

fn markov(view: View<'_>) -> Result<Markov, Mistake> {
    let transitions = view.texts("transitions").into_iter().map(markov::transition);
    let transitions: Vec<_> = transitions.collect::<Result<_, _>>().expect("the schema read them");
    let emissions = view.texts("emissions").into_iter().map(|line| {
        let says = markov::emission(line).expect("the schema read it");
        (says, says.delay.map_or(Span::Fixed(Duration::ZERO), spans))
    });
    let model = Markov::new(view.text("start"), &transitions, &emissions.collect::<Vec<_>>());
    model.map_err(|message| view.wrong("transitions", message))
}

fn amount(text: &str) -> Amount {
    if let Some(sizes) = quantiles(text) {
        let sizes = Quantiles::new(sizes.into_iter().map(|size| read::<Bytes>(size).get()).collect());
        return Amount::Quantiles(sizes.expect("the schema lets only growing quantiles through here"));
    }
    if let Some(parts) = mix(text) {
        let parts = parts.into_iter().map(|(weight, size)| (read(weight), read(size))).collect();
        return Amount::Mix(Mix::new(parts).expect("the schema lets only weights above zero through here"));
    }
    match bounds(text) {
        None => Amount::Fixed(read(text)),
        Some((low, high)) => Amount::Uniform(read(low), read(high)),
    }
}

fn spans(text: &str) -> Span {
    if let Some(spans) = quantiles(text) {
        let spans = Quantiles::new(spans.into_iter().map(|span| nanos(duration(span))).collect());
        return Span::Quantiles(spans.expect("the schema lets only growing quantiles through here"));
    }
    if let Some([mean, _]) = two("exponential", text) {
        return Span::Exponential(duration(mean));
    }
    if let Some([mean, deviation]) = two("normal", text) {
        return Span::Normal(duration(mean), duration(deviation));
    }
    if let Some([least, shape]) = two("pareto", text) {
        return Span::Pareto(duration(least), read(shape));
    }
    if let Some([median, sigma, most]) = log_normal(text) {
        return Span::LogNormal(duration(median), read(sigma), duration(most));
    }
    match bounds(text) {
        None => Span::Fixed(duration(text)),
        Some((low, high)) => Span::Uniform(duration(low), duration(high)),
    }
}

fn find_workload(workloads: &[Workload], name: &str) -> Result<usize, String> {
    workloads.iter().position(|workload| workload.name == name).ok_or_else(|| {
        let known = listed_briefly(workloads.iter().map(|workload| workload.name.as_str()));
        format!("there is no workload {name:?}; [workloads] has {known}")
    })
}

/// The one name space of relays, clients, servers and their groups.
#[derive(Default)]
struct Nodes {
    /// Each name and the key that gave it.
    taken: BTreeMap<String, String>,
}

impl Nodes {
    /// Makes the nodes of a section, `count` of each where there is one.
    fn expand<T: Clone + HostMut>(
        &mut self,
        root: &Table,
        section: &str,
        make: impl Fn(Host, View<'_>) -> Result<T, Mistake>,
    ) -> Result<Vec<T>, Mistake> {
        let mut made = Vec::new();
        for (name, node) in table(&root[section]) {
            let path = format!("{section}.{name}");
            let view = View { table: table(node), path: &path };
            let model = make(host(name, view), view)?;
            self.take(name, node, &path)?;
            let Value::Integer(count) = view.table["count"].value else {
                made.push(model);
                continue;
            };
            for number in 1..=count {
                let mut copy = model.clone();
                copy.host_mut().name = format!("{name}{number:04}");
                self.take(&copy.host_mut().name, node, &path)?;
                made.push(copy);
            }
        }
        Ok(made)
    }

    fn take(&mut self, name: &str, node: &Node, path: &str) -> Result<(), Mistake> {
        if matches!(name, "weighted" | "tor" | "any") {
            return Err(Mistake::new(
                node.at,
                path,
                format!("{name:?} has a meaning of its own and names no node"),
            ));
        }
        match self.taken.insert(name.to_owned(), path.to_owned()) {
            None => Ok(()),
            Some(other) => {
                let message = format!(
                    "the name {name:?} is taken by [{other}]; relays, clients and servers must all be named differently"
                );
                Err(Mistake::new(node.at, path, message))
            }
        }
    }

    fn network(&self, view: View<'_>) -> Result<Network, Mistake> {
        let wire = |view: View<'_>| Wire {
            rtt: view.span("rtt"),
            loss: view.share("loss"),
            reorder: view.share("reorder"),
            duplicate: view.share("duplicate"),
        };
        let mut exceptions = BTreeMap::new();
        for (index, node) in view.list("pairs").iter().enumerate() {
            let path = format!("network.pairs.{index}");
            let pair = View { table: table(node), path: &path };
            let mut names = pair.texts("between");
            names.sort_unstable();
            let [one, other] = names[..] else {
                let message =
                    format!("it names {} nodes; it must be two nodes or groups of nodes", names.len());
                return Err(pair.wrong("between", message));
            };
            if let Some(unknown) = names.iter().find(|name| !self.taken.contains_key(**name)) {
                let known = listed_briefly(self.taken.keys().map(String::as_str));
                let message = format!("there is no node {unknown:?}; there are {known}");
                return Err(pair.wrong("between", message));
            }
            if exceptions.insert((one.to_owned(), other.to_owned()), wire(pair)).is_some() {
                return Err(pair.wrong("between", format!("{one:?} and {other:?} are a pair twice")));
            }
        }
        let latency = match view.table["latency"].table() {
            Some(table) => Latency::Dumbbell(dumbbell(table)),
            None => match view.text("latency") {
                "geographic" => Latency::Geographic(view.drawn_span("access")),
                "ways" => Latency::Ways(country_ways(view)?, view.drawn_span("access")),
                _ => Latency::Even,
            },
        };
        Ok(Network { default: wire(view), latency, trunk: Duration::ZERO, exceptions })
    }
}

fn country_ways(view: View<'_>) -> Result<Ways, Mistake> {
    let Some(table) = view.table["ways"].table() else {
        let message = "it is \"ways\", and network.ways is \"none\"; set it, too";
        return Err(view.wrong("latency", message));
    };
    let way = |(pair, node): (&String, &Node)| {
        (ways::pair(pair).expect("the schema lets only countries through here"), duration(text(node)))
    };
    Ok(Ways::new(table.iter().map(way).collect()))
}

fn dumbbell(table: &Table) -> Dumbbell {
    let view = View { table, path: "network.latency" };
    Dumbbell {
        near: view.drawn_span("near"),
        far: view.drawn_span("far"),
        far_share: view.share("far_share"),
        across: view.drawn_span("across"),
    }
}

/// What has a host.
trait HostMut {
    fn host_mut(&mut self) -> &mut Host;
}

macro_rules! has_host {
    ($($node:ty),*) => {
        $(impl HostMut for $node {
            fn host_mut(&mut self) -> &mut Host {
                &mut self.host
            }
        })*
    };
}

has_host!(Relay, Client, Server);

fn host(name: &str, view: View<'_>) -> Host {
    let buffer = |key| match view.size_unless(key, "auto") {
        None => Buffer::Auto,
        Some(size) => Buffer::Fixed(size),
    };
    Host {
        name: name.to_owned(),
        group: name.to_owned(),
        link_up: view.rate("link_up"),
        link_down: view.rate("link_down"),
        link_queue: view.size("link_queue"),
        send_buffer: buffer("send_buffer"),
        receive_buffer: buffer("receive_buffer"),
        cpu: view.table.get("cpu").and_then(costs),
        drawn: DrawnRates {
            link_up: view.drawn_rate("link_up"),
            link_down: view.drawn_rate("link_down"),
            // A server has no Tor, and none.
            bandwidth: view.table.get("bandwidth_rate").and_then(|_| view.drawn_rate("bandwidth_rate")),
        },
        country: Country::of(view.text("country")),
        place: Place::default(),
    }
}

fn costs(cpu: &Node) -> Option<Costs> {
    let view = View { table: cpu.table()?, path: "" };
    Some(Costs {
        cell: view.span("cell"),
        call: view.span("call"),
        record: view.span("record"),
        look: view.span("look"),
        query: view.span("query"),
    })
}

/// What a client refers to.
struct Lookup<'a> {
    consensus: Consensus,
    workloads: &'a [Workload],
    relays: &'a [Relay],
    servers: &'a [Server],
    all_servers: Arc<[usize]>,
}

/// C tor's default of MaxCircuitDirtiness.
const MAX_CIRCUIT_DIRTINESS: Duration = Duration::from_secs(600);
/// C tor's CircuitBuildTimeout before it has learned one.
///
/// Deviation: C tor learns it from its circuits, such that 80 % are built in time.
const CIRCUIT_BUILD_TIMEOUT: Duration = Duration::from_secs(60);

/// Tor lets a circuit be extended by RELAY_EARLY cells, of which it gets eight.
const MOST_HOPS: usize = 8;

impl Lookup<'_> {
    fn client(&self, host: Host, view: View<'_>) -> Result<Client, Mistake> {
        let (config, refill_phase) = tor::config(view, self.consensus)?;
        let (workloads, isolate) = (self.client_workloads(view)?, view.flag("isolate_workloads"));
        if !matches!(config.throttle, ThrottleConfig::None) {
            let path = format!("{}.throttle", view.path);
            let own = View { table: table(&view.table["throttle"]), path: &path };
            return Err(own
                .wrong("kind", "a client serves nobody whom it could throttle; set the throttle of relays"));
        }
        let path = self.path(view).map_err(|message| view.wrong("path", message))?;
        let does = || workloads.iter().map(|workload| &self.workloads[*workload]);
        let about_circuits = |does: &&Workload| {
            does.circuits > 1 || matches!(does.does, Activity::Hold(_) | Activity::Tgen(_))
        };
        if path == Path::Direct && workloads.len() > 1 {
            let message =
                "a client without Tor downloads one file at a time; it must have a path, or one workload";
            return Err(view.wrong("path", message));
        }
        if path == Path::Direct
            && let Some(own) = does().find(about_circuits)
        {
            let message = format!(
                "a client without Tor has no circuits, and {:?} is about circuits; it must have a path, or a workload of downloads, one at a time",
                own.name
            );
            return Err(view.wrong("path", message));
        }
        if workloads.len() > 1
            && !isolate
            && let Some(own) = does().find(|does| about_circuits(does) || does.fresh_circuit)
        {
            let message = format!(
                "{:?} has circuits of its own, where several workloads share one; set isolate_workloads = true",
                own.name
            );
            return Err(view.wrong("workload", message));
        }
        if let Some(twice) =
            (1..workloads.len()).find(|place| workloads[..*place].contains(&workloads[*place]))
        {
            let name = &self.workloads[workloads[twice]].name;
            let message =
                format!("{name:?} is named twice; for several circuits of one workload set its circuits");
            return Err(view.wrong("workload", message));
        }
        let servers = self.servers(&view.texts("server")).map_err(|message| view.wrong("server", message))?;
        let of_tor = |key, auto| match view.text(key) {
            "auto" => matches!(path, Path::Tor { .. }).then_some(auto),
            "none" => None,
            given => Some(duration(given)),
        };
        let circuit_lifetime = of_tor("circuit_lifetime", MAX_CIRCUIT_DIRTINESS);
        let build_timeout = of_tor("build_timeout", CIRCUIT_BUILD_TIMEOUT);
        Ok(Client {
            host,
            config: config.into(),
            refill_phase,
            workloads,
            isolate,
            path,
            circuit_lifetime,
            build_timeout,
            servers,
        })
    }

    fn client_workloads(&self, view: View<'_>) -> Result<Vec<usize>, Mistake> {
        let find =
            |name| find_workload(self.workloads, name).map_err(|message| view.wrong("workload", message));
        let workloads: Vec<_> = view.texts("workload").into_iter().map(find).collect::<Result<_, _>>()?;
        if workloads.is_empty() {
            return Err(view.wrong("workload", "the list is empty; it must be a workload, or several"));
        }
        Ok(workloads)
    }

    fn path(&self, view: View<'_>) -> Result<Path, String> {
        let names = view.texts("path");
        if names == ["tor"] {
            return Ok(Path::Tor { guards: view.whole("guards") as usize });
        }
        if names == ["weighted"] {
            let (relays, hops) = (self.relays.len(), view.whole("hops") as usize);
            if relays < hops {
                return Err(format!("a weighted path takes {hops} relays; there are {relays}"));
            }
            return Ok(Path::Weighted { hops });
        }
        if names.is_empty() {
            return Ok(Path::Direct);
        }
        if names.len() > MOST_HOPS {
            return Err(format!(
                "the path has {} relays; it must have 1 to {MOST_HOPS}, or none at all for a client without Tor",
                names.len()
            ));
        }
        let mut path = Vec::new();
        for name in names {
            let relay = self.relay(name)?;
            if path.contains(&relay) {
                return Err(format!("the path goes through {name:?} twice; its relays must be different"));
            }
            path.push(relay);
        }
        Ok(Path::Fixed(path))
    }

    fn relay(&self, name: &str) -> Result<usize, String> {
        let names = || self.relays.iter().map(|relay| relay.host.name.as_str());
        if let Ok(index) = self.relays.binary_search_by(|relay| relay.host.name.as_str().cmp(name)) {
            return Ok(index);
        }
        let members = self.relays.iter().filter(|relay| relay.host.group == name);
        let members: Vec<&str> = members.map(|relay| relay.host.name.as_str()).collect();
        Err(match members[..] {
            [] => format!(
                "the path goes through {name:?}, which is no relay; there are {}",
                listed_briefly(names())
            ),
            _ => format!("{name:?} is a group of relays; name one of {}", listed_briefly(members)),
        })
    }

    fn servers(&self, names: &[&str]) -> Result<Arc<[usize]>, String> {
        if names == ["any"] {
            return match self.servers {
                [] => Err("there is no server; write one as [servers.NAME]".to_owned()),
                _ => Ok(self.all_servers.clone()),
            };
        }
        let mut found = Vec::new();
        for name in names {
            let hosts = || self.servers.iter().map(|server| &server.host);
            let is_it = |host: &Host| host.name == *name || host.group == *name;
            let before = found.len();
            found.extend(hosts().enumerate().filter(|(_, host)| is_it(host)).map(|(index, _)| index));
            if found.len() == before {
                let known = listed_briefly(hosts().map(|host| host.name.as_str()));
                return Err(format!("there is no server {name:?}; [servers] has {known}"));
            }
        }
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            Err("the list is empty; it must be a server, or \"any\"".to_owned())
        } else {
            Ok(found.into())
        }
    }
}
