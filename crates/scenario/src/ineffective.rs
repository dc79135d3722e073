//! Keys that the user wrote, but that have no effect. Each one gives a warning.
//!
//! A line of a file can have an effect in one variant, and none in another. Such a line gives no warning.

use crate::error::{Origin, Sources, listed_briefly};
use crate::keys::{Read, Section, defaults};
use crate::model::{Activity, Client, Congestion, Latency, LossOf, Path, Scenario, Switch, Tcp, TcpProfile};
use crate::sections::Sections;
use crate::sections::clients::PathKeys;
use crate::sections::hop_control::{HopControl, Interval, MarutKeys};
use crate::sections::network::{PairsKeys, WireKeys};
use crate::sections::nodes::{HostKeys, LinkKeys};
use crate::sections::relays::{EraKeys, FamilyKeys};
use crate::sections::run::TraceKeys;
use crate::sections::schedulers::CircuitPolicy;
use crate::sections::sets::DeploymentKeys;
use crate::sections::throttle::Throttle;
use crate::sections::tor::{TorKeys, Transport};
use crate::sections::workloads::WorkloadKeys;
use crate::tree::Table;
use penstock_core::config::RelayConfig;
use penstock_core::edge_control::EdgeControlConfig;
use std::collections::{BTreeMap, BTreeSet};

/// A key of one variant that the user wrote.
pub(crate) struct WrittenKey {
    at: Origin,
    /// The key, and the condition for its effect.
    rule: Rule,
    /// The warning, if the key has no effect in this variant.
    warning: Option<String>,
}

type Rule = [&'static str; 2];

/// The warnings about all variants, each with its place.
#[derive(Default)]
pub(crate) struct Unused {
    warnings: Vec<((String, Rule), String)>,
    /// Places that need no warning, or already have one.
    done: BTreeSet<(String, Rule)>,
}

impl Unused {
    pub(crate) fn add(&mut self, sources: &Sources, keys: Vec<WrittenKey>) {
        for WrittenKey { at, rule, warning } in keys {
            let place = (sources.sentence(at, ""), rule);
            match warning {
                Some(message) => self.warnings.push((place, sources.sentence(at, &message))),
                None => {
                    self.done.insert(place);
                }
            }
        }
    }

    /// One warning for each line and key that has no effect in any variant.
    pub(crate) fn warnings(mut self) -> impl Iterator<Item = String> {
        let new = move |(place, message): (_, String)| self.done.insert(place).then_some(message);
        self.warnings.into_iter().filter_map(new)
    }
}

/// Checks the keys of one variant that have an effect only together with other keys.
pub(crate) fn check(sections: &Sections, scenario: &Scenario) -> Vec<WrittenKey> {
    let mut keys = Vec::new();
    of_run(sections, scenario, &mut keys);
    of_tcp(sections, scenario, &mut keys);
    of_workloads(sections, scenario, &mut keys);
    of_network(sections, scenario, &mut keys);
    of_tor(sections, scenario, &mut keys);
    of_clients(sections, scenario, &mut keys);
    of_congestion_control(sections, scenario, &mut keys);
    keys
}

/// Adds `key` if the user wrote it with another value than in `defaults`. `why` is a text after "because".
fn add<S>(
    keys: &mut Vec<WrittenKey>,
    (read, defaults): (&Read<S>, &Table),
    key: &'static str,
    has_effect: bool,
    why: &'static str,
) {
    let own = key.rsplit('.').next().and_then(|key| defaults.get(key));
    if read.sets(key) && read.print(key) != own.map(|node| node.value.print()) {
        let warning = || format!("{}.{key} has no effect, because {why}", read.path);
        keys.push(WrittenKey {
            at: read.wrong(key, "").at,
            rule: [key, why],
            warning: (!has_effect).then(warning),
        });
    }
}

fn of_run(sections: &Sections, scenario: &Scenario, keys: &mut Vec<WrittenKey>) {
    let (run, trace) = (&sections.run, &sections.trace);
    let stops = run.keys.stop.is_none() || run.keys.sample < run.keys.duration;
    let why =
        "a run stops only at a sample, and run.sample is not shorter than run.duration; set a shorter sample";
    add(keys, (run, &Table::new()), "stop", stops, why);
    let defaults = defaults::<TraceKeys>();
    // A list that the user left empty turns the trace off.
    let traces = !scenario.trace.workloads.is_empty() || trace.sets("workloads");
    for key in ["share", "interval", "cells"] {
        let why = "trace.workloads is empty; list the workloads to record";
        add(keys, (trace, &defaults), key, traces, why);
    }
}

fn of_tcp(sections: &Sections, scenario: &Scenario, keys: &mut Vec<WrittenKey>) {
    let is_cubic = scenario.tcp.congestion == Congestion::Cubic;
    let why = "only CUBIC has HyStart; set tcp.congestion = \"cubic\", or leave hystart out";
    add(keys, (&sections.tcp, &defaults::<Tcp>()), "hystart", is_cubic, why);
    let is_tuned = scenario.tcp.profile != TcpProfile::Ns3 && scenario.tcp.send_buffer.is_none();
    let why = "no send buffer has a first size that the kernel tunes; leave tcp.send_buffer and the profile \"ns3\" out";
    add(keys, (&sections.tcp, &defaults::<Tcp>()), "initial_send_buffer", is_tuned, why);
    let is_shadow = scenario.tcp.profile == TcpProfile::Shadow1_9;
    let why = "only the interfaces of Shadow 1.9 send the oldest write first; set tcp.profile = \"shadow-1.9\", or leave \
               interface_order out";
    add(keys, (&sections.tcp, &defaults::<Tcp>()), "interface_order", is_shadow, why);
}

fn of_workloads(sections: &Sections, scenario: &Scenario, keys: &mut Vec<WrittenKey>) {
    let defaults = defaults::<WorkloadKeys>();
    for workload in &scenario.workloads {
        let Some(read) = sections.workloads.get(&workload.name) else { continue };
        let downloads = !matches!(workload.does, Activity::Hold(_));
        for key in ["request", "timeout"] {
            let why = "a workload with hold downloads nothing; leave this out";
            add(keys, (read, &defaults), key, downloads, why);
        }
        let is_loop = matches!(workload.does, Activity::Download(_));
        let why = "each hold and each flow of tgen has its own circuit; leave fresh_circuit out";
        add(keys, (read, &defaults), "fresh_circuit", is_loop, why);
    }
}

fn of_network(sections: &Sections, scenario: &Scenario, keys: &mut Vec<WrittenKey>) {
    let (network, latency) = (&sections.network, &scenario.network.latency);
    let (read, pairs) = ((network, &defaults::<WireKeys>()), &network.keys.exceptions.pairs);
    let uses_places = matches!(latency, Latency::Places(..));
    let loses = scenario.network.default.loss_of != LossOf::None;
    let why = "network.loss_of is \"none\"; set another value, or leave this out";
    add(keys, read, "loss", loses, why);
    add(keys, read, "place_loss", loses || !uses_places, why);
    let uses_matrix = matches!(latency, Latency::RttMatrix(..));
    let why = "network.latency has another value; set latency = \"rtt-matrix\" too";
    add(keys, read, "rtt_matrix", uses_matrix, why);
    for key in ["places", "edges", "place_loss", "place_latency"] {
        let why = "network.latency has another value; set latency = \"places\" too";
        add(keys, read, key, uses_places, why);
    }
    let uses_circuits = scenario.clients.iter().any(|client| client.group.path == Path::Listed);
    for key in ["circuits", "circuit_choice"] {
        let why = "no client takes a listed circuit; set the path \"circuits\" of clients";
        add(keys, (network, &defaults::<PairsKeys>()), key, uses_circuits, why);
    }
    let uses_access = matches!(latency, Latency::Geographic(_) | Latency::RttMatrix(..));
    let why = "only latency = \"geographic\" and \"rtt-matrix\" use it; set one of them, or leave access out";
    add(keys, read, "access", uses_access, why);
    let uses_rtt = *latency == Latency::Even || pairs.iter().any(|pair| !pair.sets("rtt"));
    let why = "network.latency gives all round trips; set latency = \"even\", or leave rtt out";
    add(keys, read, "rtt", uses_rtt, why);
    let has_datagrams = has_datagrams(sections);
    for key in ["reorder", "duplicate"] {
        add(keys, read, key, has_datagrams, NO_DATAGRAMS);
        pairs.iter().for_each(|pair| add(keys, (pair, &network.shown), key, has_datagrams, NO_DATAGRAMS));
    }
}

const NO_DATAGRAMS: &str = "no relay or client has datagrams; set transport = \"datagram\" too";

/// Whether a node has datagrams, or a deployment may set them.
fn has_datagrams(sections: &Sections) -> bool {
    let uses = |tor: &TorKeys| tor.transport == Transport::Datagram;
    sections.relays.values().any(|relay| uses(&relay.keys.tor))
        || sections.clients.values().any(|client| uses(&client.keys.tor))
        || sections.deployments.iter().any(|deployment| deployment.keys.set.contains_key("transport"))
}

/// Keys of relays, and keys that relays and clients have.
fn of_tor(sections: &Sections, scenario: &Scenario, keys: &mut Vec<WrittenKey>) {
    let (tor, eras, marut) = (defaults::<TorKeys>(), defaults::<EraKeys>(), defaults::<MarutKeys>());
    let asks = |client: &Client| congestion(&client.group.config) == Some("dctcp");
    let (has_datagrams, has_dctcp) = (has_datagrams(sections), scenario.clients.iter().any(asks));
    let deploys = |key| {
        let sets = |deployment: &Read<DeploymentKeys>| deployment.keys.set.contains_key(key);
        sections.deployments.iter().any(sets)
    };
    let changes = |to: fn(&Switch) -> bool| scenario.changes.iter().any(|change| to(&change.to));
    let later_rate = deploys("preset")
        || deploys("bandwidth_rate")
        || deploys("throttle")
        || changes(|to| matches!(to, Switch::Bandwidth(_) | Switch::Throttle(..)));
    let later_policy = deploys("preset")
        || deploys("circuit_policy")
        || changes(|to| matches!(to, Switch::CircuitPolicy(_)));
    let in_family: BTreeSet<&str> = scenario
        .relays
        .iter()
        .filter(|relay| !relay.family.is_empty())
        .map(|relay| &relay.host.group.name[..])
        .collect();
    for (name, relay) in &sections.relays {
        let why = "no other relay that it names declares these relays; name them there, too";
        add(keys, (relay, &defaults::<FamilyKeys>()), "family", in_family.contains(&name[..]), why);
        let has_era = relay.keys.era.era.is_some();
        for key in ["era_buckets", "era_rates_within_links", "era_weights", "era_flags"] {
            add(keys, (relay, &eras), key, has_era, "these relays have no era; set era too");
        }
        let why = "these relays have no token buckets; leave this or era_buckets = false out";
        add(keys, (relay, &eras), "era_rates_within_links", relay.keys.era.era_buckets, why);
        let why = "no client has edge_control = \"dctcp\"; set it too";
        add(keys, (relay, &tor), "ecn_threshold", has_dctcp, why);
        of_hops(relay, &relay.keys.tor, has_datagrams, [&tor, &marut], keys);
        let draws_rate = has_era && relay.keys.era.era_buckets;
        let throttles = !matches!(relay.keys.tor.throttle, Throttle::None(_));
        let later = [draws_rate || throttles || later_rate, later_policy];
        of_policies(relay, &relay.keys.tor, later, &tor, keys);
    }
    for client in sections.clients.values().filter(|client| !client.keys.paths.path.is_empty()) {
        of_hops(client, &client.keys.tor, has_datagrams, [&tor, &marut], keys);
        of_policies(client, &client.keys.tor, [later_rate, later_policy], &tor, keys);
    }
}

/// Keys of token buckets and of the circuit policy. `later_rate` and `later_policy`: another key may add a bucket or
/// another policy.
fn of_policies<S>(
    node: &Read<S>,
    tor: &TorKeys,
    [later_rate, later_policy]: [bool; 2],
    defaults: &Table,
    keys: &mut Vec<WrittenKey>,
) {
    for key in ["refill", "refill_phase", "refill_unblock"] {
        let why = "the node has no token bucket; set bandwidth_rate too, or leave this out";
        add(keys, (node, defaults), key, tor.bandwidth_rate.is_some() || later_rate, why);
    }
    let has_priorities = !matches!(tor.circuit_policy, CircuitPolicy::RoundRobin(_)) || later_policy;
    let why =
        "circuit_policy is \"round-robin\", which has no priorities; set another one, or leave this out";
    add(keys, (node, defaults), "priority_factor", has_priorities, why);
}

fn of_hops<S>(
    node: &Read<S>,
    tor: &TorKeys,
    has_datagrams: bool,
    [defaults, of_marut]: [&Table; 2],
    keys: &mut Vec<WrittenKey>,
) {
    for key in ["coalesce_delay", "datagram_timeout"] {
        add(keys, (node, defaults), key, has_datagrams, NO_DATAGRAMS);
    }
    if let HopControl::Marut((_, own)) = &tor.hop_control {
        let why = "hop_control.interval is \"hop\"; set interval = \"circuit\", or leave interval_hops out";
        let uses_hops = own.interval == Interval::Circuit;
        add(keys, (node, of_marut), "hop_control.interval_hops", uses_hops, why);
    }
}

/// Keys of a client that need Tor.
const OF_TOR: [&str; 6] =
    ["circuit_lifetime", "build_timeout", "optimistic_data", "priority_class", "conflux_ux", "conflux_path"];

fn of_clients(sections: &Sections, scenario: &Scenario, keys: &mut Vec<WrittenKey>) {
    let mut all = defaults::<PathKeys>();
    let tor = defaults::<TorKeys>();
    let of_tor: Vec<&str> = TorKeys::parameters().iter().map(|key| key.key).chain(OF_TOR).collect();
    all.extend(tor);
    let mut of_all = all.clone();
    of_all.extend(defaults::<LinkKeys>());
    of_all.extend(defaults::<HostKeys>());
    let of_host: Vec<&str> = [LinkKeys::parameters(), HostKeys::parameters(), TorKeys::parameters()]
        .iter()
        .flat_map(|keys| keys.iter().map(|key| key.key))
        .chain(["optimistic_data", "priority_class"])
        .collect();
    for client in one_of_each_group(scenario).values() {
        let Some(read) = sections.clients.get(&client.host.group.name) else { continue };
        let is_weighted = matches!(client.group.path, Path::Weighted { .. });
        add(keys, (read, &all), "hops", is_weighted, "the path is not \"weighted\"; leave hops out");
        let is_tor = matches!(client.group.path, Path::Tor { .. });
        add(keys, (read, &all), "guards", is_tor, "the path is not \"tor\"; leave guards out");
        let links = client.group.links_circuits();
        add(
            keys,
            (read, &all),
            "conflux_ux",
            links,
            "conflux is false; set conflux = true, or leave conflux_ux out",
        );
        let is_fixed = links && matches!(client.group.path, Path::Fixed(_));
        let why =
            "only clients with conflux = true and a list of relays as path use it; leave conflux_path out";
        add(keys, (read, &all), "conflux_path", is_fixed, why);
        let isolates = client.group.workloads.len() > 1 || !client.group.isolate;
        let why = "the client has one workload; leave isolate_workloads out";
        add(keys, (read, &all), "isolate_workloads", isolates, why);
        for key in of_host.iter().filter(|_| client.group.at_entry) {
            let why =
                "the client has at = \"entry\", so the settings of its first relay apply; leave this out";
            add(keys, (read, &of_all), key, false, why);
        }
        for key in of_tor.iter().filter(|_| !client.group.at_entry) {
            let has_tor = client.group.path != Path::Direct;
            let why = "path = [] is without Tor; set another path, or leave this out";
            add(keys, (read, &all), key, has_tor, why);
        }
    }
}

/// One client of each group, by the group's name.
fn one_of_each_group(scenario: &Scenario) -> BTreeMap<&str, &Client> {
    scenario.clients.iter().map(|client| (client.host.group.name.as_str(), client)).collect()
}

/// Checks the congestion control of clients and relays. The client and the last relay of a circuit must have the same
/// one. Otherwise the circuit has SENDME windows. DCTCP also needs relays that mark cells.
///
/// Source: proposal 324 §10.3 (the client asks for congestion control, and the relay answers).
fn of_congestion_control(sections: &Sections, scenario: &Scenario, keys: &mut Vec<WrittenKey>) {
    const KEY: &str = "edge_control";
    // A client at its entry has the congestion control of this relay, which may differ from network to network.
    if scenario.clients.iter().any(|client| client.group.at_entry) {
        return;
    }
    let groups = one_of_each_group(scenario);
    let clients: Vec<(&str, &Client)> =
        groups.values().filter_map(|client| Some((congestion(&client.group.config)?, *client))).collect();
    let clients: Vec<_> =
        clients.into_iter().filter(|(_, client)| client.group.path != Path::Direct).collect();
    let relays = software(scenario);
    let exits: BTreeSet<&str> = scenario
        .relays
        .iter()
        .filter(|relay| relay.exit)
        .map(|relay| relay.host.group.name.as_str())
        .collect();
    let ends_at = |client: &Client, group: &str| match &client.group.path {
        Path::Direct => false,
        Path::Weighted { .. } => true,
        Path::Listed => scenario.network.circuits.each.as_ref().is_none_or(|each| {
            let ends_there = |last: &usize| scenario.relays[*last].host.group.name == group;
            each.iter().filter_map(|circuit| circuit.last()).any(ends_there)
        }),
        Path::Tor { .. } => exits.contains(group),
        Path::Fixed(path) => path.last().is_some_and(|last| scenario.relays[*last].host.group.name == group),
    };
    for (group, layers, config) in &relays {
        let Some(kind) = congestion(config) else { continue };
        let mut asking = clients.iter().filter(|(asked, _)| *asked == kind).peekable();
        let is_asked = asking.peek().is_some();
        let is_used = asking.any(|(_, client)| ends_at(client, group));
        let why = if is_asked {
            format!(
                "clients that ask for it end their circuits at other relays; set {KEY} = \"{kind}\" of these"
            )
        } else {
            format!("no client asks for it; set client.{KEY} = \"{kind}\" too")
        };
        let deployed = layers.iter().rev().find_map(|place| {
            let set = &sections.deployments[*place].keys.set;
            set.get(KEY).or(set.get("preset")).map(|node| node.at)
        });
        let own = || sections.relays.get(*group).map(|read| read.wrong("edge_control.kind", "").at);
        let warning = || format!("{KEY} = \"{kind}\" of relays has no effect, because {why}");
        let at = deployed.or_else(own).unwrap_or(Origin::Default);
        keys.push(WrittenKey { at, rule: [KEY, "both ends have it"], warning: (!is_used).then(warning) });
    }
    let marks = relays.iter().any(|(_, _, config)| config.ecn_threshold.is_some());
    for (kind, client) in &clients {
        let has = |config: &RelayConfig| congestion(config) == Some(kind);
        let is_used = relays.iter().any(|(group, _, config)| has(config) && ends_at(client, group));
        let why = match relays.iter().any(|(_, _, config)| has(config)) {
            _ if is_used && *kind == "dctcp" && !marks => {
                "no relay marks cells; set relay.ecn_threshold too".to_owned()
            }
            _ if is_used => String::new(),
            true => format!(
                "the last relays of their circuits do not support it; set {KEY} = \"{kind}\" of these"
            ),
            false => format!("no relay supports it; set relay.{KEY} = \"{kind}\" too"),
        };
        let warning = || format!("{KEY} = \"{kind}\" of clients has no effect, because {why}");
        let Some(read) = sections.clients.get(&client.host.group.name) else { continue };
        let at = read.wrong("edge_control.kind", "").at;
        keys.push(WrittenKey {
            at,
            rule: [KEY, "both ends have it"],
            warning: (!why.is_empty()).then(warning),
        });
    }
    let refusals = clients.iter().filter_map(|(kind, client)| {
        let ends = Vec::from_iter(relays.iter().filter(|(group, _, _)| ends_at(client, group)));
        refusal(client, kind, &ends)
    });
    keys.extend(of_increments(sections, &Vec::from_iter(refusals)));
}

/// A client that refuses circuits, because its cells per SENDME differ by more than 1 from those of the last relay.
struct Refusal<'a> {
    client: &'a str,
    own: u8,
    relay: Software<'a>,
    theirs: u8,
    /// Whether the client refuses all its circuits.
    all: bool,
}

/// Compares the cells per SENDME of a client with those of the relays in `ends` that support its congestion control
/// `kind`. `ends` has all relays that can be the last one.
///
/// Source: C tor `congestion_control_validate_sendme_increment()`.
fn refusal<'a>(client: &'a Client, kind: &str, ends: &[&Software<'a>]) -> Option<Refusal<'a>> {
    let own = increment(&client.group.config)?;
    let refused = |end: &&Software<'_>| {
        congestion(end.2) == Some(kind) && increment(end.2).is_some_and(|theirs| theirs.abs_diff(own) > 1)
    };
    let relay = **ends.iter().find(|end| refused(end))?;
    let all = ends.iter().all(refused);
    Some(Refusal { client: &client.host.group.name, own, relay, theirs: increment(relay.2)?, all })
}

/// The warning about refused circuits. It names the line that sets the number of the relays or the clients.
fn of_increments(sections: &Sections, refusals: &[Refusal<'_>]) -> Option<WrittenKey> {
    const KEY: &str = "edge_control.sendme_inc";
    let Refusal { client, own, relay: (group, layers, _), theirs, all } = refusals.first()?;
    let deployed = layers.iter().rev().find_map(|place| {
        let set = &sections.deployments[*place].keys.set;
        set.get("edge_control").or(set.get("preset")).map(|node| node.at)
    });
    let of_relay =
        || sections.relays.get(*group).filter(|read| read.sets(KEY)).map(|read| read.wrong(KEY, "").at);
    let (at, remedy) = match deployed.or_else(of_relay) {
        Some(at) => (at, format!("client.{KEY} = {theirs}")),
        None => (sections.clients.get(*client)?.wrong(KEY, "").at, format!("relay.{KEY} = {own}")),
    };
    let same = refusals.iter().filter(|other| (other.own, other.theirs, other.all) == (*own, *theirs, *all));
    let names = listed_briefly(same.map(|refusal| refusal.client));
    let which = match all {
        true => "every circuit, so they download nothing".to_owned(),
        false => format!("each circuit that ends at {group}"),
    };
    let message = format!(
        "{KEY} is {theirs} of relays and {own} of clients, so the clients {names} refuse {which}; set {remedy} too"
    );
    Some(WrittenKey { at, rule: [KEY, "both ends have nearly the same"], warning: Some(message) })
}

/// The cells per SENDME of a node's congestion control.
fn increment(config: &RelayConfig) -> Option<u8> {
    let bounds = match &config.edge_control {
        EdgeControlConfig::Vegas(vegas) => &vegas.bounds,
        EdgeControlConfig::Dctcp(dctcp) => &dctcp.bounds,
        EdgeControlConfig::Timely(timely) => &timely.bounds,
        EdgeControlConfig::Windows(_) | EdgeControlConfig::Dynamic(_) | EdgeControlConfig::Custom { .. } => {
            return None;
        }
    };
    Some(bounds.sendme_inc.get())
}

/// A possible configuration of relays: the group, the deployments that reach a relay, and its configuration.
type Software<'a> = (&'a str, &'a [usize], &'a RelayConfig);

/// All possible configurations of relays.
fn software(scenario: &Scenario) -> Vec<Software<'_>> {
    let deployments = &scenario.deployments;
    if deployments.is_empty() {
        let relays = scenario.relays.iter();
        return relays.map(|relay| (&relay.host.group.name[..], &[][..], &*relay.config)).collect();
    }
    let of_layers = deployments.software.iter();
    of_layers.map(|((group, layers), (config, _))| (&group[..], &layers[..], &**config)).collect()
}

/// The congestion control that a node requests as a client, and supports as a relay.
fn congestion(config: &RelayConfig) -> Option<&'static str> {
    match config.edge_control {
        EdgeControlConfig::Vegas(_) => Some("vegas"),
        EdgeControlConfig::Dctcp(_) => Some("dctcp"),
        EdgeControlConfig::Timely(_) => Some("timely"),
        EdgeControlConfig::Windows(_) | EdgeControlConfig::Dynamic(_) | EdgeControlConfig::Custom { .. } => {
            None
        }
    }
}
