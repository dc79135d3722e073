//! The text that `penstock check` prints about a scenario.

use crate::document::{Document, Version};
use crate::error::listed;
use crate::estimate::estimate;
use crate::layers::NewKind;
use crate::markov::Markov;
use crate::model::{Activity, Client, Generated, Host, Latency, Path, Relay, SampledRates, Scenario};
use crate::queueing_model::{base_rtt, capacity};
use crate::tree::Table;
use penstock_core::config::RelayConfig;
use penstock_core::throttle::{StaticRateConfig, ThrottleConfig};
use penstock_units::{DataRate, parse::show_duration};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

impl Document {
    /// Describes the scenario: its nodes, paths, variants with their overrides, and the work of its runs.
    pub fn describe(&self) -> String {
        let first = &self.versions()[0].scenario;
        let mut out = Lines::default();
        head(&mut out, self, first);
        nodes(&mut out, first);
        paths(&mut out, first);
        workloads(&mut out, first);
        variants(&mut out, self);
        run(&mut out, self, first);
        work(&mut out, self);
        out.0
    }
}

/// The longest list of nodes. A longer list is cut off, because a network can have thousands of nodes.
const MOST_LINES: usize = 12;

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text);
        self.0.truncate(self.0.trim_end_matches(' ').len());
        self.0.push('\n');
    }

    /// Returns the first [`MOST_LINES`] items of `all`. If there are more, first prints a line with the total number.
    fn some<T>(&mut self, kind: &str, mut all: Vec<T>) -> Vec<T> {
        if all.len() > MOST_LINES {
            self.line(format_args!("  the first {MOST_LINES} of {} {kind} by name:", all.len()));
            all.truncate(MOST_LINES);
        }
        all
    }

    fn title(&mut self, title: &str) {
        self.line(format_args!("\n{title}"));
    }
}

fn head(out: &mut Lines, document: &Document, scenario: &Scenario) {
    let head = &scenario.head;
    out.line(format_args!("{}", head.title));
    let figures = match head.figures.len() {
        0 => String::new(),
        1 => format!("figure {}", head.figures[0]),
        _ => format!("figures {}", listed(head.figures.iter().map(String::as_str))),
    };
    let section = if head.section.is_empty() { String::new() } else { format!("section {}", head.section) };
    let source = [head.paper.clone(), section, figures].into_iter().filter(|part| !part.is_empty());
    let source = source.collect::<Vec<_>>().join(", ");
    let place = match document.network() {
        None => document.name().to_owned(),
        Some(network) => format!("{} in the network of {network}", document.name()),
    };
    out.line(format_args!("{}", if source.is_empty() { place } else { format!("{place} ({source})") }));
    if !head.notes.trim().is_empty() {
        out.line(format_args!("\n{}", head.notes.trim()));
    }
}

fn nodes(out: &mut Lines, scenario: &Scenario) {
    out.title("nodes");
    let relays = groups(&scenario.relays, |relay| &relay.host).into_iter().map(|group| {
        let Relay { host, config, .. } = &group[0];
        let text = match scenario.generated.iter().find(|generated| generated.group == host.group.name) {
            Some(generated) => era(generated, group),
            None => node(host, &limits(config)),
        };
        (times(&host.group.name, group.len()), text)
    });
    list(out, "relay", relays.collect());
    let clients = groups(&scenario.clients, |client| &client.host).into_iter().map(|group| {
        let Client { host, group: clients, .. } = &group[0];
        let text = match clients.at_entry {
            true => "at the first relay of its path".to_owned(),
            false => node(host, &limits(&clients.config)),
        };
        (times(&host.group.name, group.len()), text)
    });
    list(out, "client", merged(clients.collect()));
    let servers = groups(&scenario.servers, |server| &server.host).into_iter();
    let servers =
        servers.map(|group| (times(&group[0].host.group.name, group.len()), node(&group[0].host, "")));
    list(out, "server", servers.collect());
    let wire = scenario.network.default;
    let loss = if wire.loss > 0.0 { format!(", loss {}", wire.loss) } else { String::new() };
    let typical = show_duration(scenario.network.typical_rtt());
    let rtt = match &scenario.network.latency {
        Latency::Even => typical,
        Latency::Geographic(_) => format!("by the distance between their countries, about {typical}"),
        Latency::RttMatrix(..) => format!("by country pair, from network.rtt_matrix, about {typical}"),
        Latency::Places(_, Some(environment)) => {
            format!("and loss by places that are drawn as in {}, about {typical}", environment.name)
        }
        Latency::Places(places, None) => {
            let count = places.all().len();
            format!("and loss by the {count} places of network.places, about {typical}")
        }
        Latency::Dumbbell(_) => format!("drawn for each seed, {typical} on average"),
    };
    out.line(format_args!("  between any two: round trip {rtt}{loss}"));
    for ((one, other), [there, back]) in &scenario.network.exceptions {
        let rtt = show_duration(there.rtt);
        let lost = if there.loss == back.loss {
            there.loss.to_string()
        } else {
            format!("{} to {other} and {} to {one}", there.loss, back.loss)
        };
        out.line(format_args!("  between {one} and {other}: round trip {rtt}, loss {lost}"));
    }
}

/// Prints a line for each group of nodes: its name, and a text.
fn list(out: &mut Lines, kind: &str, groups: Vec<(String, String)>) {
    for (name, text) in out.some(&format!("{kind}s"), groups) {
        out.line(format_args!("  {kind:<7} {name:<16} {text}"));
    }
}

/// Merges groups of clients with the same text, if there are more than [`MOST_LINES`] groups.
fn merged(groups: Vec<(String, String)>) -> Vec<(String, String)> {
    if groups.len() <= MOST_LINES {
        return groups;
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: Vec<(String, String, usize)> = Vec::new();
    for (name, text) in groups {
        match places.get(&text) {
            Some(place) => found[*place].2 += 1,
            None => {
                places.insert(text.clone(), found.len());
                found.push((name, text, 0));
            }
        }
    }
    let name =
        |name: String, more: usize| if more == 0 { name } else { format!("{name} and {more} like it") };
    found.into_iter().map(|(first, text, more)| (name(first, more), text)).collect()
}

/// The link of a node, and `more`.
fn node(host: &Host, more: &str) -> String {
    let sampled = if host.group.sampled == SampledRates::default() {
        ""
    } else {
        ", rates drawn for each network, these are medians"
    };
    let link = match (host.link_up, host.link_down) {
        (up, down) if up == down => format!("link {}", rate(up)),
        (up, down) => format!("link {} up, {} down", rate(up), rate(down)),
    };
    format!("{link}{more}{sampled}")
}

/// Describes a group of relays from one year. The group has as many guards in every network, and as many exits.
fn era(generated: &Generated, group: &[Relay]) -> String {
    let count = |guard, exit| group.iter().filter(|relay| relay.guard == guard && relay.exit == exit).count();
    let buckets = match (generated.buckets, generated.rates_within_links) {
        (true, true) => "links and buckets (rates at most those of links)",
        (true, false) => "links and buckets",
        (false, _) => "links",
    };
    format!(
        "as in {}, {buckets} drawn for each network: {} guards, {} exits, {} both, {} neither",
        generated.era.year,
        count(true, false),
        count(false, true),
        count(true, true),
        count(false, false)
    )
}

fn limits(config: &RelayConfig) -> String {
    let bucket = |name: &str, bandwidth: Option<penstock_core::config::Bandwidth>| {
        let say = |b: penstock_core::config::Bandwidth| {
            let refill = show_duration(config.refill.interval);
            format!(", {name} {} (burst {}, refill every {refill})", rate(b.rate), b.burst)
        };
        bandwidth.map(say).unwrap_or_default()
    };
    let throttled = match config.throttle {
        ThrottleConfig::Static(StaticRateConfig { rate }) => Some(rate),
        _ => None,
    };
    let each = |rate| penstock_core::config::Bandwidth { rate, burst: config.client_buckets.burst };
    bucket("bandwidth", config.bandwidth) + &bucket("each client", throttled.map(each))
}

fn paths(out: &mut Lines, scenario: &Scenario) {
    out.title("paths");
    let clients = groups(&scenario.clients, |client| &client.host).into_iter().map(|group| {
        let client = &group[0];
        let rtt = show_duration(base_rtt(scenario, client));
        let narrowest = match &client.group.path {
            Path::Fixed(_) if client.group.each_guard => String::new(),
            Path::Fixed(path) => narrowest(scenario, path),
            Path::Direct => ", without Tor".to_owned(),
            Path::Weighted { .. } | Path::Tor { .. } | Path::Listed => String::new(),
        };
        let path = format!("{}{}", relays(scenario, client), servers(scenario, client));
        let name = times(&client.host.group.name, group.len());
        (name, format!("-> {path}\n    base round trip {rtt}{narrowest}"))
    });
    for (name, text) in out.some("clients", merged(clients.collect())) {
        out.line(format_args!("  {name} {text}"));
    }
}

fn relays(scenario: &Scenario, client: &Client) -> String {
    match &client.group.path {
        Path::Direct => String::new(),
        Path::Fixed(path) => {
            let mut names: Vec<&str> = path.iter().map(|relay| &*scenario.relays[*relay].host.name).collect();
            if client.group.each_guard {
                names[0] = "(each guard in turn)";
            }
            names.join(" -> ") + " -> "
        }
        Path::Listed => match &scenario.network.circuits.each {
            Some(circuits) => format!("(one of {} circuits) -> ", circuits.len()),
            None => format!("(one circuit of {} relays, by weight) -> ", scenario.relays.len()),
        },
        Path::Weighted { hops } => format!("({hops} of {} relays, by weight) -> ", scenario.relays.len()),
        Path::Tor { guards } => {
            let kept = if *guards == 1 { "1 guard".to_owned() } else { format!("{guards} guards") };
            format!("(as Tor draws them among {} relays, {kept} kept) -> ", scenario.relays.len())
        }
    }
}

fn servers(scenario: &Scenario, client: &Client) -> String {
    match &client.group.servers[..] {
        [one] => scenario.servers[*one].host.name.to_string(),
        many => format!("(one of {} servers)", many.len()),
    }
}

fn narrowest(scenario: &Scenario, path: &[usize]) -> String {
    let relays = path.iter().map(|relay| &scenario.relays[*relay]);
    let Some(least) = relays.clone().map(capacity).min() else { return String::new() };
    let names: Vec<&str> =
        relays.filter(|relay| capacity(relay) == least).map(|relay: &Relay| &*relay.host.name).collect();
    match (names.len() == path.len(), DataRate::new(least)) {
        (false, Some(least)) => format!(", bottleneck {} at {}", names.join(" and "), rate(least)),
        (true, Some(least)) => format!(", all relays at {}", rate(least)),
        (_, None) => String::new(),
    }
}

fn workloads(out: &mut Lines, scenario: &Scenario) {
    out.title("workloads");
    for workload in &scenario.workloads {
        let circuit = if workload.fresh_circuit { ", a fresh circuit each" } else { "" };
        let does = match &workload.does {
            Activity::Download(size) => format!("downloads {size}"),
            Activity::Tgen(tgen) => {
                let model = |name: &str, model: &Option<Arc<Markov>>| {
                    model
                        .as_ref()
                        .map(|model| format!("{name} of {} states, ", model.len()))
                        .unwrap_or_default()
                };
                let [flows, streams] = [model("flows", &tgen.flows), model("streams", &tgen.streams)];
                format!("follows Markov models: {flows}{streams}packets of {} states", tgen.packets.len())
            }
            Activity::Hold(hold) => format!("holds a circuit for {hold}"),
        };
        let does = match workload.circuits {
            1 => does,
            many => format!("{does} on each of {many} circuits"),
        };
        out.line(format_args!(
            "  {:<8} {does}, pauses {}, starts after {}{circuit}",
            workload.name, workload.pause, workload.start
        ));
    }
}

fn variants(out: &mut Lines, document: &Document) {
    out.title("variants");
    let all = Vec::from_iter(document.versions().iter().map(|version| &version.kinds));
    let is_of_all = |kind: &NewKind| all.len() > 1 && all.iter().all(|kinds| kinds.contains(kind));
    for (variant, Version { overrides, kinds, .. }) in document.variants().iter().zip(document.versions()) {
        let set: Vec<String> = overrides.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let set = if set.is_empty() { "no override".to_owned() } else { set.join(", ") };
        out.line(format_args!("  {:<12} {:<20} {set}", variant.name, format!("\"{}\"", variant.label)));
        kinds.iter().filter(|kind| !is_of_all(kind)).for_each(|kind| new_kind(out, kind));
    }
    for set in document.sets() {
        out.line(format_args!("  all, by --set: {set}"));
    }
    all[0].iter().filter(|kind| is_of_all(kind)).for_each(|kind| new_kind(out, kind));
}

/// The longest list of keys with defaults. A longer list is left out, because `penstock list algorithms` has it.
const MOST_DEFAULTS: usize = 6;

/// Prints the keys of a new algorithm that have defaults, and those that the file sets otherwise.
fn new_kind(out: &mut Lines, NewKind { key, defaults, reset }: &NewKind) {
    if (1..=MOST_DEFAULTS).contains(&defaults.len()) {
        let defaults: Vec<String> =
            defaults.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        out.line(format_args!("    {key} has the defaults {}", defaults.join(", ")));
    }
    for (name, value, of_file) in reset {
        out.line(format_args!(
            "    {key}.{name} is {value} instead of {of_file} as in the file or its preset: a kind resets all keys"
        ));
    }
}

fn run(out: &mut Lines, document: &Document, scenario: &Scenario) {
    out.title("runs");
    let listed = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let (seeds, networks, variants) = (document.seeds(), document.networks(), document.variants().len());
    let in_networks = match networks.len() {
        0 => String::new(),
        many => format!(" x {many} networks ({})", listed(&networks)),
    };
    out.line(format_args!(
        "  {variants} variants{in_networks} x {} seeds ({}) = {} runs",
        seeds.len(),
        listed(&seeds),
        variants * runs_of_each(document)
    ));
    let stop = scenario.run.stop.map_or_else(String::new, |stop| {
        format!(", or {} downloads of {}", stop.downloads, scenario.workloads[stop.workload].name)
    });
    out.line(format_args!(
        "  each ends after {} of simulated time{stop}",
        show_duration(scenario.run.duration)
    ));
    let sections = &document.versions()[0].sections;
    let value = |table: &Table, key: &str| table.get(key).map(|node| node.value.print()).unwrap_or_default();
    for deployment in &sections.deployments {
        let value = |key: &str| value(&deployment.shown, key);
        let (relays, position, share) = (value("relays"), value("position"), value("share"));
        out.line(format_args!("  relays {relays}, position {position}, share {share}: {}", value("set")));
    }
    for change in &sections.changes {
        let value = |key: &str| value(&change.shown, key);
        out.line(format_args!("  from {} on: {}", value("at"), value("set")));
    }
    if !scenario.run.warmup.is_zero() {
        out.line(format_args!("  downloads before {} are warm-up", show_duration(scenario.run.warmup)));
    }
}

fn work(out: &mut Lines, document: &Document) {
    out.title("a rough estimate of each run (within a factor of two)");
    let mut total = 0.0;
    let runs = runs_of_each(document) as f64;
    for (variant, version) in document.variants().iter().zip(document.versions()) {
        let one = estimate(&version.scenario, document.first_network());
        total += one.seconds * runs;
        out.line(format_args!(
            "  {:<12} {} simulated, {:.0} downloads, {:.1} million events, {} of one core, {:.0} MB",
            variant.name,
            rough(one.simulated),
            one.downloads,
            one.events / 1e6,
            rough(one.seconds),
            one.memory / 1e6,
        ));
    }
    out.line(format_args!("  all runs together: {} of one core", rough(total)));
}

fn runs_of_each(document: &Document) -> usize {
    document.seeds().len() * document.networks().len().max(1)
}

/// A time in seconds, rounded to one or two significant digits.
fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "under a second".to_owned(),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A rate as text, in bytes per second. A multiple of 1 Mbit/s is shown in Mbit/s, unless it is also a multiple of 1
/// KiB/s.
fn rate(rate: DataRate) -> String {
    let bytes = rate.bytes_per_sec();
    match bytes {
        _ if bytes.is_multiple_of(1024) => rate.to_string(),
        _ if bytes.is_multiple_of(125_000) => format!("{} Mbit/s", bytes / 125_000),
        _ => rate.to_string(),
    }
}

fn times(name: &str, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{name} x {count}") }
}

/// Joins neighbouring nodes of the same group into one slice. `nodes` are sorted by name, so most groups are one slice.
/// A group is two slices if another group, such as `web-2`, comes between its nodes.
fn groups<T>(nodes: &[T], host: impl Fn(&T) -> &Host) -> Vec<&[T]> {
    nodes.chunk_by(|one, other| host(one).group == host(other).group).collect()
}
