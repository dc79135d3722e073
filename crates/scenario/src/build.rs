//! Builds the model of one variant from its sections, and checks keys of several sections against each other.

use crate::error::{ConfigError, listed, listed_briefly};
use crate::keys::Read;
use crate::model::{Deployments, Host, HostGroup, Latency, Path, Scenario, Variant};
use crate::rtt_matrix::RttMatrix;
use crate::sections::Sections;
use crate::sections::clients::Clients;
use crate::sections::network::network;
use crate::sections::nodes::HostKeys;
use crate::sections::nodes::{Names, servers};
use crate::sections::places;
use crate::sections::relays::relays;
use crate::sections::run::{run, trace};
use crate::sections::workloads::workloads;
use penstock_network::geo;
use penstock_units::{DataRate, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of sampled circuits. If none of them is possible, the builder reports an error.
const TRIES: usize = 1000;

/// Builds the model of one variant, except its deployments and changes.
pub(crate) fn scenario(sections: &Sections, variant: Variant) -> Result<Scenario, ConfigError> {
    let n23 = sections.network.keys.wire.consensus_n23;
    let names = names(sections)?;
    let servers = servers(&sections.servers, &names)?;
    let (relays, generated) = relays(&sections.relays, &names, n23)?;
    let workloads = workloads(&sections.workloads)?;
    let clients = Clients { workloads: &workloads, relays: &relays, servers: &servers, n23 };
    let clients = clients.build(&sections.clients, &names)?;
    let wrong = |message: String| ConfigError::new(sections.clients_at, "clients", message);
    if clients.is_empty() {
        return Err(wrong("there is no client; write one as [clients.NAME], with a workload".to_owned()));
    }
    let mut scenario = Scenario {
        head: sections.head.keys.head.clone(),
        variant,
        run: run(&sections.run, &workloads, &clients)?,
        trace: trace(&sections.trace, &workloads)?,
        tcp: sections.tcp.keys.clone(),
        network: network(&sections.network, &names, &relays)?,
        relays,
        generated,
        deployments: Deployments::default(),
        selector: None,
        clients,
        servers,
        workloads,
        changes: Vec::new(),
    };
    if let Latency::RttMatrix(matrix, _) = &scenario.network.latency
        && let Some(message) = missing_round_trips(matrix, &scenario)
    {
        return Err(sections.network.wrong("rtt_matrix", message));
    }
    settle_places(sections, &mut scenario)?;
    let listed = scenario.clients.iter().filter(|client| client.group.path == Path::Listed).count();
    match &scenario.network.circuits.each {
        Some(circuits) if circuits.len() < listed => {
            let (there, key) = (circuits.len(), "circuits");
            let message = format!(
                "{listed} clients have the path \"circuits\", and there are {there} circuits; list at least {listed}"
            );
            return Err(sections.network.wrong(key, message));
        }
        None if listed > 0 && scenario.relays.len() < Path::Listed.hops() => {
            let hops = Path::Listed.hops();
            let there = scenario.relays.len();
            let message =
                format!("a circuit has {hops} relays, and there are {there}; add relays, or list circuits");
            return Err(sections.network.wrong("circuits", message));
        }
        _ => {}
    }
    check_entries(sections, &scenario)?;
    scenario.settle_entries();
    let impossible = |why: String| wrong(format!("no path \"tor\" can be drawn: {why}"));
    scenario.selector = scenario.select().map_err(|error| impossible(error.to_string()))?;
    if let Some(selector) = &scenario.selector {
        let mut rng = Seed(0).stream("paths");
        if (0..TRIES).all(|_| selector.draw(&mut rng, &[]).is_none()) {
            let why = "there are no three different relays of different families with a guard and an exit among them; add relays, or flags";
            return Err(impossible(why.to_owned()));
        }
    }
    Ok(scenario)
}

/// Refuses settings that do not work for clients at their entries.
fn check_entries(sections: &Sections, scenario: &Scenario) -> Result<(), ConfigError> {
    let Some(client) = scenario.clients.iter().find(|client| client.group.at_entry) else { return Ok(()) };
    let read = &sections.clients[&client.host.group.name];
    if scenario.trace.clients.is_some() {
        let message = "trace.clients counts the bytes of hosts, and a client at its entry has no host; leave trace.clients out";
        return Err(read.wrong("at", message));
    }
    let circuits = scenario.network.circuits.each.iter().flat_map(|each| each.iter());
    let is_short = circuits.clone().any(|circuit| circuit.len() < 2);
    let takes_listed =
        scenario.clients.iter().any(|client| client.group.at_entry && client.group.path == Path::Listed);
    match takes_listed && is_short {
        false => Ok(()),
        true => {
            let message =
                "a circuit has one relay, and clients at their entries need two; list two or more relays";
            Err(sections.network.wrong("circuits", message))
        }
    }
}

/// The names of all nodes. Relays, servers and clients share one namespace.
fn names(sections: &Sections) -> Result<Names, ConfigError> {
    let mut names = Names::default();
    for (name, relays) in &sections.relays {
        names.take(name, relays.keys.copies.count, relays)?;
    }
    for (name, servers) in &sections.servers {
        names.take(name, servers.keys.copies.count, servers)?;
    }
    for (name, clients) in &sections.clients {
        names.take(name, clients.keys.copies.count, clients)?;
    }
    Ok(names)
}

/// Finds the places that nodes may have, and checks the keys `place` and `link` against them.
fn settle_places(sections: &Sections, scenario: &mut Scenario) -> Result<(), ConfigError> {
    let latency = scenario.network.latency.clone();
    let relays = scenario.relays.iter_mut().map(|relay| &mut relay.host);
    settle_hosts(&latency, &sections.relays, |keys| &keys.host, relays)?;
    let clients = scenario.clients.iter_mut().map(|client| &mut client.host);
    settle_hosts(&latency, &sections.clients, |keys| &keys.host, clients)?;
    let servers = scenario.servers.iter_mut().map(|server| &mut server.host);
    settle_hosts(&latency, &sections.servers, |keys| &keys.host, servers)
}

/// A group with its places, and the rates of its links.
type Settled = (Arc<HostGroup>, DataRate, DataRate);

fn settle_hosts<'a, S>(
    latency: &Latency,
    read: &BTreeMap<String, Read<S>>,
    keys: impl Fn(&S) -> &HostKeys,
    hosts: impl Iterator<Item = &'a mut Host>,
) -> Result<(), ConfigError> {
    // All nodes of a group have the same keys.
    let mut settled: Option<Settled> = None;
    for host in hosts {
        if settled.as_ref().is_none_or(|(group, ..)| group.name != host.group.name) {
            let read = &read[&host.group.name];
            settle_host(latency, read, keys(&read.keys), host)?;
            settled = Some((host.group.clone(), host.link_up, host.link_down));
        }
        let (group, up, down) = settled.as_ref().expect("the first host of a group settles it");
        host.group = group.clone();
        let of_place = host.group.sampled.of_place;
        host.link_up = if of_place[0] { *up } else { host.link_up };
        host.link_down = if of_place[1] { *down } else { host.link_down };
    }
    Ok(())
}

fn settle_host<S>(
    latency: &Latency,
    read: &Read<S>,
    keys: &HostKeys,
    host: &mut Host,
) -> Result<(), ConfigError> {
    let Latency::Places(places, environment) = latency else {
        let key = match host.group.sampled.of_place {
            [false, false] if keys.place.is_none() => return Ok(()),
            [false, false] => "place",
            [up, _] if read.sets("link") || up && !read.sets("link_up") => "link",
            [true, _] => "link_up",
            [false, _] => "link_down",
        };
        return Err(read.wrong(key, "the network has no places; set network.latency = \"places\""));
    };
    let wanted = keys.place.as_ref().map(|wanted| places::indices(places, wanted)).transpose();
    let group = Arc::make_mut(&mut host.group);
    group.places = wanted.map_err(|why| read.wrong("place", why))?;
    if let (Some(country), None, None) = (keys.country, &keys.place, environment)
        && let Some(message) = places::without_country(places, country)
    {
        return Err(read.wrong("country", message));
    }
    for (of_place, up) in group.sampled.of_place.into_iter().zip([true, false]) {
        if of_place && let Some(message) = places::without_rate(places, group.places.as_deref(), up) {
            let key = if up { "link_up" } else { "link_down" };
            return Err(read.wrong(if read.sets(key) { key } else { "link" }, message));
        }
        // Until a network is sampled, the link has the median rate of all places.
        let rates = places.all().iter().filter_map(|place| if up { place.up } else { place.down });
        let mut rates: Vec<_> = rates.collect();
        rates.sort_unstable();
        if of_place && let Some(median) = rates.get(rates.len() / 2) {
            *(if up { &mut host.link_up } else { &mut host.link_down }) = *median;
        }
    }
    Ok(())
}

fn missing_round_trips(matrix: &RttMatrix, scenario: &Scenario) -> Option<String> {
    let hosts = scenario.relays.iter().map(|relay| &relay.host);
    let hosts = hosts.chain(scenario.clients.iter().map(|client| &client.host));
    let hosts = hosts.chain(scenario.servers.iter().map(|server| &server.host));
    let mut countries = BTreeMap::new();
    for Host { name, group, country, .. } in hosts {
        let of_era = scenario.generated.iter().find(|generated| generated.group == group.name);
        let possible = of_era.map_or(matrix.users(), |generated| generated.era.countries());
        match country {
            Some(country) => *countries.entry(country.code).or_insert(0) += 1,
            None if possible.is_empty() => {
                return Some(format!(
                    "the node {name:?} has no country of its own, so it needs a country with users of Tor, and the matrix has none; it must have one of {}",
                    listed(geo::USERS.iter().map(|(code, _)| *code))
                ));
            }
            None => possible.iter().for_each(|(code, _)| *countries.entry(*code).or_insert(0) += 1),
        }
    }
    let missing = matrix.missing(&countries);
    let pairs = || listed_briefly(missing.iter().map(String::as_str));
    (!missing.is_empty()).then(|| {
        format!("nodes may be in countries without a round trip between them: {}; it must have all of these pairs", pairs())
    })
}
